"""Ranking by pairs: steps go down the slope of the loss of the pair that was drawn, and seeds decide everything."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from polyfm.loops import pairwise as loops
from polyfm.recommend import Recommender, across, random_split
from polyfm.recommend.all_pairs import as_parameters
from polyfm.recommend.pairwise import ByPairs

K = 3


def problem_of(rng, rule, degree):
    """One context, which was seen with one of two items: there is one pair to learn from."""
    contexts = sp.random(1, 4, 1.0, "csr", random_state=rng, data_rvs=rng.standard_normal)
    items = sp.csr_matrix([[0.7, 0.0, 0.0], [0.0, -1.2, 0.4]])  # what both have would be stepped twice
    seen = sp.csr_matrix([[0.0, 1.7]])
    seen.eliminate_zeros()
    return ByPairs(rule, contexts, items, seen, degree, K, 1e-6, 0.0), contexts, items


def margin(contexts, items, factors, degree):
    u = across.vectors(0, contexts, factors[0], degree, K, True)
    v = across.vectors(1, items, factors[1], degree, K, True)
    scores = (u @ v.T)[0]
    return scores[1] - scores[0]


@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("rule", ["bpr", "warp"])
def test_a_step_goes_down_the_slope_of_the_pair(rng, rule, degree):
    problem, contexts, items = problem_of(rng, rule, degree)
    columns = K * (degree - 1)
    factors = (0.2 * rng.standard_normal((4, columns)), 0.2 * rng.standard_normal((3, columns + 1)))
    warp_rank = np.log(max(1, 1 // 1))  # of two items: a rank of 1 counts nothing

    def loss(P, Q):
        m = margin(contexts, items, (P, Q), degree)
        return 1.7 * (np.logaddexp(0, -m) if rule == "bpr" else (1 - m) * warp_rank)

    after = as_parameters(tuple(T.copy() for T in factors))
    H = tuple(np.ones_like(T) for T in factors)
    for seed in range(20):  # until the item that was not seen is drawn
        total = problem.learn(after, H, seed, 1, problem.rate)
        if total > 0 or rule == "warp":
            break
    for side, T in enumerate(factors):
        for at in np.ndindex(*T.shape):
            both = []
            for h in (1e-5, -1e-5):
                moved = [factor.copy() for factor in factors]
                moved[side][at] += h
                both.append(loss(*moved))
            slope = (both[0] - both[1]) / 2e-5
            assert_allclose((T[at] - after.factors[side][at]) / problem.rate, slope, rtol=1e-3, atol=1e-4)
            assert_allclose(H[side][at], 1 + slope**2, rtol=1e-3, atol=1e-3)


def test_warp_counts_trials_and_bpr_does_not():
    assert loops.Warp().pair_slope(0.0, 1000, 3) == np.log(333)
    assert not loops.Warp().is_wrong(1.0)
    assert loops.Bpr().pair_slope(0.0, 1000, 3) == 0.5
    for value in (-800.0, -3.0, 0.0, 3.0, 800.0):
        assert_allclose(loops.Bpr().pair_loss(value, 9, 1), np.logaddexp(0, -value))


@pytest.fixture
def plays(rng):
    kinds = rng.randint(3, size=60)
    rows = [(u, f"{kind}-{i}") for u, kind in enumerate(kinds) for i in rng.permutation(20)[:12]]
    return pd.DataFrame(rows, columns=["user", "item"])


@pytest.mark.parametrize("loss", ["bpr", "warp"])
def test_rankings_beat_popularity_and_depend_on_the_seed_alone(plays, loss):
    train, test = random_split(plays, "user", random_state=0)
    rec = Recommender(feedback="implicit", loss=loss, n_components=4, max_iter=30, random_state=0).fit(train)
    found = rec.evaluate(test, k=5)
    assert found.loc["model", "ndcg"] > 2 * found.loc["popularity", "ndcg"]
    assert found.loc["model", "auc"] > 0.75
    again = Recommender(feedback="implicit", loss=loss, n_components=4, max_iter=30, random_state=0).fit(train)
    other = Recommender(feedback="implicit", loss=loss, n_components=4, max_iter=30, random_state=1).fit(train)
    assert_array_equal(rec.factors_[0], again.factors_[0])
    assert np.abs(rec.factors_[0] - other.factors_[0]).max() > 1e-3
    rec.add_users(pd.DataFrame({"user": ["new"] * 3, "item": ["1-1", "1-2", "1-3"]}))
    assert all(item.startswith("1") for item in rec.recommend("new", n=3).item)
    assert_array_equal(rec.factors_[1], again.factors_[1])  # nothing else has moved
    rec.partial_fit(pd.DataFrame({"user": ["newer"] * 3, "item": ["2-1", "2-2", "fresh"]}))
    assert len(rec.recommend("newer", n=3)) == 3


def test_what_weighs_nothing_is_not_learned_from(plays):
    rec = Recommender(feedback="implicit", loss="bpr", n_components=2, max_iter=3, random_state=0)
    half = plays.assign(weight=np.arange(len(plays)) % 2)
    weighed = rec.fit(half, weight="weight").factors_[0].copy()
    twice = rec.fit(half.assign(weight=2 * half.weight), weight="weight").factors_[0]
    assert np.abs(twice - weighed).max() > 1e-4
    heavy = plays.assign(weight=np.where(plays.item == "1-3", 50.0, 0.0))
    rec.fit(heavy, weight="weight")
    never = rec.users_.find(sorted(set(plays.user) - set(plays[plays.item == "1-3"].user))[:1])
    start = rec._engine.recipe(1).start(rec._engine.problem(rec.users_, rec.items_), 0).factors[0]
    assert np.abs(rec._engine.vectors(0, rec.users_.X[never])[:, :-1]).max() <= np.abs(start).max()  # it has not moved


def test_an_interrupted_ranking_goes_on_exactly(plays, tmp_path):
    from polyfm.training import hooks

    options = {"feedback": "implicit", "loss": "warp", "n_components": 2, "max_iter": 4, "random_state": 0}
    whole = Recommender(**options).fit(plays)
    rec = Recommender(**options, checkpoint=tmp_path / "c", checkpoint_interval=1)

    def stop(progress):
        if progress.done == 3:
            raise RuntimeError("out of power")

    with pytest.raises(RuntimeError), hooks.watching(stop):
        rec.fit(plays)
    assert_array_equal(rec.fit(plays).factors_[1], whole.factors_[1])


def test_a_higher_degree_learns_what_needs_three_features(rng):
    """Whether a user takes an item depends on the user's mood, the item's colour and its shape together."""
    users = pd.DataFrame({"user": range(80), "mood": rng.choice(["x", "y"], 80)})
    items = pd.DataFrame({"item": range(80), "colour": rng.choice(["r", "g"], 80), "shape": rng.choice(["o", "s"], 80)})
    of_items = ((items.colour == "r") ^ (items["shape"] == "o")).to_numpy()
    odd = (users.mood == "x").to_numpy()[:, None] ^ of_items[None, :]
    u, i = np.nonzero(odd & (rng.uniform(size=odd.shape) < 0.3))
    plays = pd.DataFrame({"user": u, "item": i})
    train, cold = plays[plays.item >= 30], plays[plays.item < 30]  # those are known by their features alone
    found = {}
    for degree in (2, 3):
        rec = Recommender(feedback="implicit", degree=degree, n_components=8, random_state=0)
        rec.fit(train, users=users, items=items)
        found[degree] = rec.evaluate(cold, k=5).loc["model", "auc"]
        parts = rec.explain(0, 5).contribution.sum()
        assert_allclose(parts, rec.predict(pd.DataFrame({"user": [0], "item": [5]}))[0], rtol=1e-8)
    assert found[3] > 0.65 > found[2]
