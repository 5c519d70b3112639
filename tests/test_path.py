"""Model selection along a path of betas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import scale

from polyfm import (
    FactorizationMachineClassifierCV,
    FactorizationMachineRegressor,
    FactorizationMachineRegressorCV,
    PolynomialNetworkRegressorCV,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return scale(X), y


def test_path_chooses_as_well_as_an_exhaustive_search(diabetes):
    X, y = diabetes
    betas = np.logspace(1, 4, 7)
    options = {"n_components": 5, "alpha": 50.0, "random_state": 0, "tol": 1e-5, "max_iter": 500}
    path = FactorizationMachineRegressorCV(betas=betas, cv=KFold(3), **options).fit(X, y)
    grid = GridSearchCV(FactorizationMachineRegressor(**options), {"beta": betas}, cv=KFold(3)).fit(X, y)
    assert_allclose(path.best_score_, grid.best_score_, atol=0.005)
    assert path.beta_ == grid.best_params_["beta"]
    assert_array_equal(path.betas_, betas[::-1])
    assert path.cv_scores_.shape == (7, 3)
    assert_allclose(path.cv_scores_.mean(axis=1).max(), path.best_score_)
    # The fit on all data is the plain estimator's.
    plain = FactorizationMachineRegressor(beta=path.beta_, **options).fit(X, y)
    assert_array_equal(path.components_, plain.components_)
    assert_allclose(path.score(X, y), plain.score(X, y))


def test_default_path_follows_the_units(diabetes):
    X, y = diabetes
    options = {"n_components": 3, "n_betas": 5, "cv": 3, "random_state": 0, "alpha": 0.0}
    one = FactorizationMachineRegressorCV(**options).fit(X, y)
    two = FactorizationMachineRegressorCV(**options).fit(X, y / 1024)
    assert_allclose(two.betas_, one.betas_ / 1024, rtol=1e-6)
    assert_allclose(two.cv_scores_, one.cv_scores_, atol=1e-6)
    assert one.betas_[0] > one.beta_ > one.betas_[-1]


def test_degree_and_rank_can_be_searched_too(rng):
    X = rng.standard_normal((200, 5))
    y = X[:, 0] * X[:, 1] * X[:, 2]
    search = FactorizationMachineRegressorCV(degrees=[2, 3], ranks=[1, 4], n_betas=3, cv=3, random_state=0).fit(X, y)
    assert search.degree_ == 3
    assert search.score(X, y) > 0.9
    assert set(search.search_scores_) == {(2, 1), (2, 4), (3, 1), (3, 4)}


def test_threads_change_nothing(diabetes):
    X, y = diabetes
    one, two = (
        PolynomialNetworkRegressorCV(n_components=2, n_betas=3, cv=3, random_state=0, n_jobs=n).fit(X, y)
        for n in (1, 2)
    )
    assert_array_equal(one.cv_scores_, two.cv_scores_)


def test_classes_weights_and_scoring(rng):
    X = rng.standard_normal((150, 4))
    y = np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])
    search = FactorizationMachineClassifierCV(
        n_components=2, n_betas=4, cv=3, scoring="neg_log_loss", random_state=0
    ).fit(X, y, sample_weight=np.ones(150))
    assert search.best_score_ > -0.9
    assert search.predict_proba(X).shape == (150, 3)
    assert search.classes_.tolist() == [0, 1, 2]
    assert not hasattr(search, "partial_fit")


def test_bad_betas_are_named(diabetes):
    with pytest.raises(ValueError, match="betas must be finite numbers >= 0"):
        FactorizationMachineRegressorCV(betas=[1.0, -1.0]).fit(*diabetes)


def test_large_features_in_single_precision_are_searched_as_small_ones_are(diabetes):
    X, y = diabetes
    options = {"n_components": 2, "n_betas": 4, "cv": 3, "random_state": 0}
    small = FactorizationMachineRegressorCV(**options).fit(X.astype(np.float32), y)
    large = FactorizationMachineRegressorCV(**options).fit((2.0**33 * X).astype(np.float32), y)
    assert_allclose([large.alpha_, large.beta_], [2.0**66 * small.alpha_, 2.0**66 * small.beta_], rtol=1e-5)
    assert_allclose(large.cv_scores_, small.cv_scores_, rtol=1e-3)


@pytest.mark.parametrize(("prediction", "expected"), [(np.nan, -np.inf), (1.0, None)])
def test_predictions_beyond_all_bounds_have_the_lowest_score(diabetes, monkeypatch, prediction, expected):
    def scoring(model, X, y):
        raise ValueError("no score")

    X, y = diabetes
    monkeypatch.setattr(FactorizationMachineRegressor, "predict", lambda self, X: np.full(len(X), prediction))
    search = FactorizationMachineRegressorCV(
        betas=[1.0], alpha=1.0, n_components=1, max_iter=1, tol=1.0, cv=2, scoring=scoring, random_state=0
    )
    if expected is None:
        with pytest.raises(ValueError, match="no score"):
            search.fit(X, y)
    else:
        assert np.all(search.fit(X, y).cv_scores_ == expected)
