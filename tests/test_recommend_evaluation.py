"""Metrics are those of their definitions; splits hold out what they say."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from polyfm.recommend import auc_score, cold_split, last_out_split, random_split, ranking_metrics, top_n


def by_definition(positions, relevant, k):
    found = {"precision": [], "recall": [], "ndcg": [], "map": []}
    for shown, wanted in zip(positions, relevant, strict=True):
        wanted = set(np.flatnonzero(wanted))
        if not wanted:
            continue
        hits = [i in wanted for i in shown]
        found["precision"].append(sum(hits) / k)
        found["recall"].append(sum(hits) / len(wanted))
        best = sum(1 / np.log2(r + 2) for r in range(min(k, len(wanted))))
        found["ndcg"].append(sum(h / np.log2(r + 2) for r, h in enumerate(hits)) / best)
        at_hits = [sum(hits[: r + 1]) / (r + 1) for r, h in enumerate(hits) if h]
        found["map"].append(sum(at_hits) / min(k, len(wanted)))
    return {name: np.mean(values) for name, values in found.items()}


def test_metrics_are_those_of_their_definitions(rng):
    U, V = rng.standard_normal((20, 3)), rng.standard_normal((15, 3))
    relevant = rng.uniform(size=(20, 15)) < 0.2
    exclude = (rng.uniform(size=(20, 15)) < 0.3) & ~relevant
    relevant[4] = False
    exclude[5] = ~relevant[5]  # fewer are left than are asked for
    positions, _ = top_n(U, V, 6, exclude=sp.csr_matrix(exclude))
    found = ranking_metrics(positions, sp.csr_matrix(relevant))
    for name, value in by_definition(positions, relevant, 6).items():
        assert_allclose(found[name], value, rtol=1e-12)
    assert found["n_contexts"] == relevant.any(axis=1).sum()
    values = []
    for c, scores in enumerate(U @ V.T):
        pairs = [
            (scores[p] > scores[o]) + 0.5 * (scores[p] == scores[o])
            for p in np.flatnonzero(relevant[c])
            for o in np.flatnonzero(~relevant[c] & ~exclude[c])
        ]
        values += [np.mean(pairs)] if pairs else []
    assert_allclose(auc_score(U, V, sp.csr_matrix(relevant), sp.csr_matrix(exclude)), np.mean(values))


def test_metrics_of_nothing_are_refused():
    with pytest.raises(ValueError, match="Nothing is relevant"):
        ranking_metrics([[0]], sp.csr_matrix((1, 3)))
    with pytest.raises(ValueError, match="must be of the 3 items"):
        ranking_metrics([[3]], sp.csr_matrix([[1, 0, 0]]))


@pytest.fixture
def plays(rng):
    return pd.DataFrame({"user": rng.randint(9, size=200), "item": rng.randint(30, size=200), "when": np.arange(200)})


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_splits_part_the_table(plays, kind):
    table = plays if kind == "pandas" else pl.from_pandas(plays)
    for split in (
        lambda: random_split(table, "user", random_state=0),
        lambda: last_out_split(table, "user", "when", n=2),
        lambda: cold_split(table, "item", random_state=0),
    ):
        train, test = split()
        assert type(train) is type(test) is type(table)
        assert sorted([*train["when"], *test["when"]]) == list(range(200))
        assert list(split()[1]["when"]) == list(test["when"])


def test_each_split_holds_out_what_it_says(plays):
    test = random_split(plays, "user", test_fraction=0.25, random_state=1)[1]
    counts = plays.user.value_counts()
    assert (test.user.value_counts().reindex(counts.index) == (0.25 * counts).round()).all()
    train, test = last_out_split(plays, "user", "when", n=3)
    assert (test.groupby("user").size() == 3).all()
    assert (test.groupby("user").when.min() > train.groupby("user").when.max()).all()
    train, test = cold_split(plays, "user", test_fraction=0.3, random_state=0)
    assert not set(train.user) & set(test.user)
    assert test.user.nunique() == 3


def test_splits_say_what_is_wrong(plays):
    with pytest.raises(ValueError, match="no column 'who'"):
        random_split(plays, "who")
    with pytest.raises(ValueError, match="test_fraction=1 must lie between"):
        random_split(plays, "user", test_fraction=1)
    with pytest.raises(ValueError, match="has no user. Drop it"):
        cold_split(plays.assign(user=None), "user")
    with pytest.raises(ValueError, match="column 'when' has gaps"):
        last_out_split(plays.assign(when=np.nan), "user", "when")
