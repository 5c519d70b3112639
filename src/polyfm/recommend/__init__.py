"""Recommendation: from ids, with features and context, to the best items for everyone."""

from polyfm.recommend.ranking import top_n
from polyfm.recommend.two_towers import towers

__all__ = ["top_n", "towers"]
