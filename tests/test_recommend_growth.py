"""What a Recommender has not seen: contexts, new users and items, further interactions."""

import time
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from polyfm import (
    BayesianFactorizationMachineRegressor,
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkRegressor,
)
from polyfm.core.design import Design
from polyfm.core.fitted import Fitted
from polyfm.recommend import Recommender
from polyfm.training import hooks

ALPHA, BETA = 0.3, 0.2
SMALL = {"n_components": 2, "alpha": ALPHA, "beta": BETA, "max_iter": 20, "tol": 1e-2, "random_state": 0}


@pytest.fixture
def tables(rng):
    users = pd.DataFrame({"user": [f"u{i}" for i in range(12)], "age": rng.uniform(20, 60, 12)})
    items = pd.DataFrame({"movie": range(9), "genre": list("abcabcabc"), "year": 1990 + np.arange(9)})
    pairs = rng.permutation(12 * 8)[:60]  # movie 8 is never rated
    ratings = pd.DataFrame({"user": [f"u{p // 8}" for p in pairs], "movie": pairs % 8, "rating": rng.randint(1, 6, 60)})
    return ratings.assign(hour=rng.randint(24, size=60), device=rng.choice(["tv", "phone"], 60)), users, items


# -- contexts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_recommendations_in_a_context_are_the_best_of_its_predictions(tables, feedback):
    ratings, users, items = tables
    rec = Recommender(
        item="movie", feedback=feedback, n_components=2, fields=["hour"], random_state=0,
        estimator=FactorizationMachineRegressor(**SMALL) if feedback == "explicit" else None,
    )  # fmt: skip
    target = "rating" if feedback == "explicit" else None
    rec.fit(ratings, target, context=["hour", "device"], users=users, items=items)
    asked = pd.DataFrame({"user": ["u1", "u1"], "hour": [3, 17], "device": ["tv", "phone"]})
    found = rec.recommend(context=asked, n=4, exclude_seen=False)
    assert list(found.columns) == ["user", "hour", "device", "movie", "score", "rank"]
    for _, request in asked.iterrows():
        every = pd.DataFrame([request] * 9).assign(movie=range(9))
        scores = rec.predict(every)
        mine = found[found.hour == request.hour]
        assert mine.movie.tolist() == np.argsort(-scores, kind="stable")[:4].tolist()
        assert_allclose(mine.score, np.sort(scores)[::-1][:4])
        parts = rec.explain("u1", 4, context=pd.DataFrame([request]))
        assert_allclose(parts.contribution.sum(), scores[4], rtol=1e-8)
    assert len(rec.recommend(["u1"], n=2)) == 2  # in an unknown situation
    assert 0 <= rec.evaluate(ratings.assign(user="u1").drop_duplicates(["movie"]), k=3).loc["model", "precision"] <= 1
    with pytest.raises(ValueError, match="context has no column 'device'"):
        rec.recommend(context=asked.drop(columns="device"))


def test_context_makes_a_difference_where_it_does_in_the_data(rng):
    rows = [
        (f"u{u}", hour, f"{hour}-{i}") for u in range(30) for hour in ("day", "night") for i in rng.permutation(9)[:5]
    ]
    plays = pd.DataFrame(rows, columns=["user", "hour", "item"])
    rec = Recommender(feedback="implicit", n_components=4, random_state=0).fit(plays, context=["hour"])
    for hour in ("day", "night"):
        best = rec.recommend(context=pd.DataFrame({"user": ["u3"], "hour": [hour]}), n=3)
        assert all(item.startswith(hour) for item in best.item)


def test_columns_that_training_had_not_are_ignored_with_a_warning(tables):
    ratings, _, _ = tables
    rec = Recommender(item="movie", feedback="implicit", n_components=2, random_state=0).fit(ratings)
    with pytest.warns(UserWarning, match=r"context has \['hour'\], which the model was not trained with"):
        found = rec.recommend(context=pd.DataFrame({"user": ["u1"], "hour": [3]}), n=2)
    pd.testing.assert_frame_equal(found, rec.recommend(["u1"], n=2))


# -- new ids ----------------------------------------------------------------------------------------------------------


def objective(rec, column, X, y, theta, loss):
    """That of the rows of one new feature, over its own parameters: factors of all groups, then the linear weight."""
    model, p = rec.estimator_._fitted.model, rec.estimator_._fitted.targets[0].copy()
    penalty, first = 0.0, 0
    for group, P, lams in zip(model.groups, p.factors, p.lambdas, strict=True):
        own = theta[first : first + P.shape[0] * P.shape[1]].reshape(P.shape[:2])
        P[:, :, column], first = own, first + own.size
        strengths = np.full(len(own), 0.5) if group.form.lifted else np.abs(lams)
        penalty += BETA * float(strengths @ np.sum(own**2, axis=1))
    p.coef[column] = theta[-1]
    f = Fitted(model, [p]).predict(Design(X))[0]
    return float(np.sum(loss(y, f)) + penalty + ALPHA / 2 * theta[-1] ** 2)


def squared(y, f):
    return 0.5 * (y - f) ** 2


def logistic(y, f):
    return np.logaddexp(0, -y * f)


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (FactorizationMachineRegressor(**SMALL), squared),
        (FactorizationMachineRegressor(degree=3, **SMALL), squared),
        pytest.param(FactorizationMachineRegressor(method="lifted", **SMALL), squared, marks=pytest.mark.slow),
        pytest.param(FactorizationMachineClassifier(**SMALL), logistic, marks=pytest.mark.slow),
    ],
    ids=["degree 2", "degree 3", "lifted", "logistic"],
)
@pytest.mark.parametrize("which", ["user", "movie"])
def test_a_new_id_gets_what_a_block_solve_with_the_rest_fixed_gives(tables, model, loss, which):
    ratings, users, items = tables
    ratings = ratings.drop(columns=["hour"])
    if loss is logistic:
        ratings = ratings.assign(rating=np.where(ratings.rating > 3, "good", "bad"))
    rec = Recommender(item="movie", estimator=model)
    rec.fit(ratings, "rating", context=["device"], users=users, items=items)
    before = rec.predict(ratings)
    new = ratings[ratings[which] == ("u2" if which == "user" else 3)].assign(**{which: "new"})
    if which == "user":
        rec.add_users(new, pd.DataFrame({"user": ["new"], "age": [30.0]}))
    else:
        rec.add_items(new, pd.DataFrame({"movie": ["new"], "genre": ["b"], "year": [1999]}))
    assert_allclose(rec.predict(ratings), before, rtol=1e-12)  # nobody else has changed
    X = rec._joint(rec.users_.find(new.user), rec.situation_.rows(new, "new"), rec.items_.find(new.movie))
    names = rec.users_.names + rec.situation_.names + rec.items_.names
    column = names.index(f"{which}=new")
    y = np.where(new.rating == "good", 1.0, -1.0) if loss is logistic else new.rating.to_numpy()
    p = rec.estimator_._fitted.targets[0]
    theta = np.concatenate([*(P[:, :, column].ravel() for P in p.factors), [p.coef[column]]])
    assert np.abs(theta).max() > 1e-3
    for j in range(len(theta)):
        step = 1e-5 * np.eye(len(theta))[j]
        up, down = (objective(rec, column, X, y, theta + sign * step, loss) for sign in (1, -1))
        assert abs(up - down) / 2e-5 < 1e-6


@pytest.mark.slow
def test_a_bayesian_machine_takes_in_ids_by_the_prior_of_their_field(rng):
    n = 400
    ratings = pd.DataFrame({"user": rng.randint(40, size=n), "item": rng.randint(30, size=n)}).drop_duplicates()
    taste, quality = rng.standard_normal((40, 2)), rng.standard_normal((30, 2))
    ratings["rating"] = 3 + (taste[ratings.user] * quality[ratings.item]).sum(axis=1)
    rec = Recommender(estimator=BayesianFactorizationMachineRegressor(n_components=2, max_iter=50, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rec.fit(ratings, "rating")
    rec.add_users(ratings[ratings.user == 7].assign(user="twin"))
    every = pd.DataFrame({"item": range(30)})
    twin, self = (rec.predict(every.assign(user=user)) for user in ("twin", 7))
    assert np.corrcoef(twin, self)[0, 1] > 0.98
    u, i = rec.users_.find(["twin", 7]), rec.items_.find([3, 3])
    _, std = rec.estimator_.predict(rec._joint(u, rec.situation_.unknown(2), i), return_std=True)
    assert_allclose(std[0], std[1], rtol=0.2)


def test_taking_in_a_user_takes_some_milliseconds(rng):
    n = 20_000
    ratings = pd.DataFrame({"user": rng.randint(3000, size=n), "item": rng.randint(1000, size=n), "rating": 3.0})
    ratings = ratings.drop_duplicates(["user", "item"])
    model = FactorizationMachineRegressor(n_components=32, alpha=1.0, beta=1.0, max_iter=1, tol=1.0, random_state=0)
    explicit = Recommender(estimator=model).fit(ratings, "rating")
    implicit = Recommender(feedback="implicit", max_iter=1, random_state=0).fit(ratings[["user", "item"]])
    for rec in (explicit, implicit):
        times = []
        for i in range(6):
            mine = pd.DataFrame({"user": f"new{i}", "item": rng.permutation(ratings.item.unique())[:20], "rating": 4.0})
            began = time.process_time()
            rec.add_users(mine)
            times.append(time.process_time() - began)
        assert min(times) < 0.05  # of which the solve is the smaller part


def test_features_alone_are_enough_and_interactions_can_come_later(tables):
    ratings, users, items = tables
    rec = Recommender(item="movie", feedback="implicit", n_components=3, random_state=0)
    rec.fit(ratings, users=users, items=items)
    rec.add_items(pd.DataFrame({"movie": ["cold"], "genre": ["a"], "year": [1996]}))
    vectors = rec._item_vectors(rec.items_.find(["cold"]))
    same = rec.items_.encoder.transform(pd.DataFrame({"movie": ["?"], "genre": ["a"], "year": [1996]}))
    assert_allclose(vectors, same @ rec.factors_[1])
    rec.add_items(pd.DataFrame({"user": ["u1", "u2"], "movie": ["cold", "cold"]}))
    assert np.abs(rec._item_vectors(rec.items_.find(["cold"])) - vectors).max() > 1e-3
    assert "cold" not in rec.recommend("u1", n=20).movie.tolist()  # whom it was seen with
    with pytest.raises(ValueError, match="movie='cold' is known already"):
        rec.add_items(pd.DataFrame({"user": ["u3"], "movie": ["cold"]}))


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_what_is_not_said_of_a_new_user_counts_as_unknown(tables, feedback):
    ratings, users, items = tables
    model = FactorizationMachineRegressor(**SMALL) if feedback == "explicit" else None
    rec = Recommender(item="movie", feedback=feedback, n_components=2, estimator=model, random_state=0)
    when = pd.Timestamp("2026-01-01") + pd.to_timedelta(range(60), "D")
    target = "rating" if feedback == "explicit" else None
    rec.fit(ratings.assign(when=when), target, context=["hour", "device", "when"], users=users, items=items)
    new = pd.DataFrame({"user": ["new"] * 3, "movie": [1, 2, 3], "rating": [5, 5, 1]})
    with pytest.warns(UserWarning, match="count as unknown") as caught:
        rec.add_users(new)
    said = {str(warning.message) for warning in caught}
    assert "the interactions come without ['hour', 'device', 'when']: these count as unknown." in said
    assert "the new ids of user come without ['age']: these count as unknown." in said
    assert len(rec.recommend("new", n=2)) == 2


@pytest.mark.slow
def test_powers_of_ids_are_no_small_solve(tables):
    ratings, _, _ = tables
    model = PolynomialNetworkRegressor(n_components=2, alpha=1.0, beta=1.0, max_iter=3, tol=1.0, random_state=0)
    rec = Recommender(item="movie", estimator=model).fit(ratings, "rating")
    with pytest.raises(ValueError, match="powers of single features"):
        rec.add_users(ratings[:3].assign(user="new"))
    assert len(rec.users_) == 12  # nothing has changed


# -- further interactions ---------------------------------------------------------------------------------------------


def test_partial_fit_goes_on_and_takes_in_new_ids(tables):
    ratings, _, _ = tables
    old, new = ratings[ratings.user != "u3"], ratings[ratings.user == "u3"].assign(movie=lambda t: t.movie + 2)
    rec = Recommender(item="movie", feedback="implicit", n_components=3, max_iter=50, random_state=0).fit(old)
    rec.partial_fit(new)
    whole = Recommender(item="movie", feedback="implicit", n_components=3, random_state=0).fit(pd.concat([old, new]))
    assert rec.seen_.nnz == whole.seen_.nnz
    first = rec.history_[-1]
    for _ in range(5):
        rec.partial_fit(new.assign(weight=0.0).head(1).assign(weight=1e-12), weight="weight")
        assert rec.history_[-1] <= first * (1 + 1e-6)
        first = rec.history_[-1]
    assert set(rec.recommend("u3", n=3).movie) <= set(range(10)) - set(new.movie)


def test_partial_fit_of_ratings_follows_the_stream(tables):
    ratings, _, _ = tables
    model = FactorizationMachineRegressor(
        n_components=2, alpha=0.01, beta=0.01, solver="sgd", max_iter=30, tol=0, random_state=0
    )
    rec = Recommender(item="movie", estimator=model)
    with pytest.warns(UserWarning, match="Not converged"):
        rec.fit(ratings.assign(rating=3.0), "rating")
    new = pd.concat([ratings.assign(rating=3.0), ratings[ratings.user == "u1"].assign(user="new", rating=5.0)])
    rec.partial_fit(new)
    assert rec.predict(new)[-1] > rec.predict(new)[0] + 0.5
    assert rec.estimator_.n_samples_seen_ == len(new)


def test_training_goes_on_from_a_checkpoint(tables, tmp_path):
    ratings, _, _ = tables
    path = tmp_path / "half.polyfm"
    options = {"item": "movie", "feedback": "implicit", "n_components": 3, "random_state": 0}
    whole = Recommender(max_iter=6, **options).fit(ratings)

    def stop(progress):
        seen.append(progress.done)
        if len(seen) == 4:
            raise RuntimeError("the power went out")

    seen: list = []
    rec = Recommender(max_iter=6, checkpoint=path, checkpoint_interval=1, **options)
    with pytest.raises(RuntimeError), hooks.watching(stop):
        rec.fit(ratings)
    assert path.exists()
    rec.fit(ratings)
    assert not path.exists()
    for a, b in zip(rec.factors_, whole.factors_, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(rec.history_) == 6


@pytest.mark.parametrize("loss", ["all-pairs", "warp"])
def test_ctrl_c_keeps_what_was_learned(tables, loss):
    ratings, _, _ = tables

    def interrupt(progress):
        if progress.done == 3:
            raise KeyboardInterrupt

    rec = Recommender(item="movie", feedback="implicit", loss=loss, n_components=2, max_iter=50, random_state=0)
    with pytest.warns(UserWarning, match="Training was interrupted after 3 epoch"), hooks.watching(interrupt):
        rec.fit(ratings)
    assert len(rec.recommend("u1", n=2)) == 2


def test_callbacks_of_scikit_learn_see_every_epoch(tables):
    pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")
    ratings, _, _ = tables

    class Watcher:
        def __init__(self):
            self.scores = []

        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, *args, **kwargs):
            pass

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None, **kwargs):
            if context.task_name == "epoch":
                self.scores.append(fitted_estimator.n_components)
                if isinstance(fitted_estimator, Recommender):
                    assert len(fitted_estimator.recommend("u1", n=2)) == 2
            return len(self.scores) >= 4

        def teardown(self, estimator, context):
            pass

    watcher = Watcher()
    rec = Recommender(item="movie", feedback="implicit", n_components=2, max_iter=50, random_state=0)
    rec.set_callbacks(watcher).fit(ratings)
    assert len(watcher.scores) == len(rec.history_) == 4
    explicit = Recommender(item="movie", estimator=FactorizationMachineRegressor(**SMALL))
    watcher = Watcher()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explicit.set_callbacks(watcher).fit(ratings, "rating")
    assert len(watcher.scores) == explicit.estimator_.n_iter_ > 0
