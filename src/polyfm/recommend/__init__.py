"""Recommendation: from ids, with features and context, to the best items for everyone."""

from polyfm.recommend.metrics import auc_score, ranking_metrics
from polyfm.recommend.ranking import top_n
from polyfm.recommend.recommender import Recommender
from polyfm.recommend.splits import cold_split, last_out_split, random_split
from polyfm.recommend.two_towers import towers

__all__ = [
    "Recommender",
    "auc_score",
    "cold_split",
    "last_out_split",
    "random_split",
    "ranking_metrics",
    "top_n",
    "towers",
]
