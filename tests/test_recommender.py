"""Recommender: from tables to tables, equal to scoring every pair by hand, and clear about what it cannot do."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from polyfm import FactorizationMachineRegressor
from polyfm.recommend import Recommender, random_split

MODEL = FactorizationMachineRegressor(n_components=3, alpha=0.1, beta=0.1, max_iter=50, tol=1e-2, random_state=0)


@pytest.fixture
def tables(rng):
    users = pd.DataFrame({"user": [f"u{i}" for i in range(12)], "age": rng.uniform(20, 60, 12)})
    items = pd.DataFrame({"movie": range(9), "genre": list("abcabcabc"), "year": 1990 + np.arange(9)})
    pairs = rng.permutation(12 * 8)[:50]  # movie 8 is never rated
    ratings = pd.DataFrame({"user": [f"u{p // 8}" for p in pairs], "movie": pairs % 8, "rating": rng.randint(1, 6, 50)})
    return ratings, users, items


@pytest.fixture
def explicit(tables):
    ratings, users, items = tables
    return Recommender(item="movie", estimator=MODEL).fit(ratings, "rating", users=users, items=items)


@pytest.fixture
def implicit(tables):
    ratings, users, items = tables
    rec = Recommender(item="movie", feedback="implicit", n_components=3, random_state=0)
    return rec.fit(ratings, users=users, items=items)


def test_recommendations_are_the_best_of_all_predictions(tables, explicit):
    ratings, _, _ = tables
    found = explicit.recommend(["u1", "u5"], n=3)
    for user, mine in found.groupby("user"):
        u = explicit.users_.find([user] * 9)
        X = sp.hstack([explicit.users_.X[u], explicit.items_.X], format="csr")
        scores = dict(zip(explicit.items_.values, explicit.estimator_.predict(X), strict=True))
        left = sorted(set(scores) - set(ratings[ratings.user == user].movie), key=lambda movie: -scores[movie])
        assert mine.movie.tolist() == left[:3]
        assert_allclose(mine.score, [scores[movie] for movie in left[:3]])
        assert mine["rank"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", ["explicit", "implicit"])
def test_lists_filters_and_what_was_seen_are_minded(tables, request, kind):
    ratings, _, _ = tables
    rec = request.getfixturevalue(kind)
    seen = set(ratings[ratings.user == "u2"].movie)
    assert not seen & set(rec.recommend("u2", n=9).movie)
    assert set(rec.recommend("u2", n=9, exclude_seen=False).movie) == set(range(9))
    assert set(rec.recommend("u2", items=[1, "3"], exclude_seen=False).movie) == {1, 3}
    late = rec.recommend("u2", n=9, filter=lambda items: items.year > 1995, exclude_seen=False)
    assert set(late.movie) == {6, 7, 8}  # movie 8 by its features alone
    assert 1 not in rec.similar_items(1, n=8).movie.tolist()
    assert len(rec.similar_users("u1", n=4)) == 4


@pytest.mark.parametrize("kind", ["explicit", "implicit"])
def test_an_explanation_adds_up_to_the_score(request, kind):
    rec = request.getfixturevalue(kind)
    score = rec.recommend("u3", n=9, exclude_seen=False).set_index("movie").score[4]
    assert_allclose(rec.explain("u3", 4).contribution.sum(), score, rtol=1e-8)


def test_polars_gives_polars_and_the_same(tables, implicit):
    ratings, users, items = (pl.from_pandas(table) for table in tables)
    rec = Recommender(item="movie", feedback="implicit", n_components=3, random_state=0)
    found = rec.fit(ratings, users=users, items=items).recommend(["u1"], n=3)
    assert isinstance(found, pl.DataFrame)
    assert found["movie"].to_list() == implicit.recommend(["u1"], n=3).movie.tolist()


def test_a_new_user_is_folded_in_and_gets_what_an_equal_one_gets(tables):
    ratings, _, _ = tables
    plays = ratings[["user", "movie"]]
    rec = Recommender(item="movie", feedback="implicit", n_components=3, max_iter=200, random_state=0).fit(plays)
    twin = plays[plays.user == "u1"].assign(user="new")
    rec.add_users(twin)
    vectors = rec._engine.vectors(0, rec.users_.X[rec.users_.find(["new", "u1"])])
    assert_allclose(vectors[0], vectors[1], rtol=1e-3)
    assert rec.recommend("new", n=3).movie.tolist() == rec.recommend("u1", n=3).movie.tolist()
    rec.add_items(plays[plays.movie == 2].assign(movie=99))
    assert 99 in rec.similar_items(2, n=1).movie.tolist()


def test_weights_of_repeated_pairs_add_up_and_the_last_rating_counts(tables):
    ratings, _, _ = tables
    again = pd.concat([ratings, ratings.assign(rating=3)])
    with pytest.warns(UserWarning, match="50 rows repeat a pair: the last rating of each counts"):
        rec = Recommender(item="movie", estimator=MODEL).fit(again, "rating")
    assert_allclose(rec.recommend(["u1"], exclude_seen=False).score, 3, atol=1e-2)
    plays = Recommender(item="movie", feedback="implicit", n_components=3, random_state=0)
    with pytest.warns(UserWarning, match="their weights were added up"):
        twice = plays.fit(again.assign(one=1.0), weight="one").factors_[0]
    assert_allclose(plays.fit(ratings.assign(two=2.0), weight="two").factors_[0], twice)


def test_evaluation_beats_popularity_where_there_is_a_pattern(rng):
    group = rng.randint(3, size=60)
    plays = pd.DataFrame(
        [(u, f"{g}-{i}") for u, g in enumerate(group) for i in rng.permutation(20)[:12]], columns=["user", "item"]
    )
    train, test = random_split(plays, "user", random_state=0)
    rec = Recommender(feedback="implicit", n_components=4, random_state=0).fit(train)
    found = rec.evaluate(test, k=5)
    assert found.loc["model", "ndcg"] > found.loc["popularity", "ndcg"]
    assert found.loc["model", "auc"] > 0.75 > found.loc["popularity", "auc"]
    with pytest.warns(UserWarning, match="1 rows are of unknown"):
        rec.evaluate(pd.concat([test, pd.DataFrame({"user": ["?"], "item": ["0-1"]})]))


def test_errors_name_the_value_and_the_remedy(tables, explicit, implicit):
    ratings, users, _ = tables
    with pytest.raises(ValueError, match="user='nobody': not known"):
        implicit.recommend(["nobody"])
    with pytest.raises(ValueError, match="movie='77': not known"):
        implicit.similar_items(77)
    with pytest.raises(ValueError, match="No item is left"):
        implicit.recommend("u1", filter=lambda items: items.year > 3000)
    with pytest.raises(ValueError, match="needs target"):
        Recommender(item="movie").fit(ratings)
    with pytest.raises(ValueError, match="no column 'item'"):
        Recommender().fit(ratings, "rating")
    with pytest.raises(ValueError, match="users has several rows for user='u0'"):
        Recommender(item="movie").fit(ratings, "rating", users=pd.concat([users, users]))
    with pytest.raises(ValueError, match="user='u\\d*' is known already"):
        explicit.add_users(ratings)
    with pytest.raises(ValueError, match="partial_fit needs an estimator that learns from a stream"):
        explicit.partial_fit(ratings)
    with pytest.warns(UserWarning, match=r"the new ids of user come without \['age'\]: these count as unknown"):
        implicit.add_users(ratings.drop_duplicates("movie").assign(user="new"))
    everything = pd.DataFrame({"user": ["u1"] * 8, "movie": range(8)})
    rec = Recommender(item="movie", feedback="implicit", n_components=2, random_state=0).fit(everything)
    with pytest.warns(UserWarning, match="Nothing is left to recommend to user='u1'"):
        assert not len(rec.recommend("u1"))
