"""Classes in an order: derivatives of cut points, a bound that never falls, draws that leave the prior as it is."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from problems import make_problem
from scipy.optimize import minimize
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_bayes import ratings
from test_gibbs import smallest_p_value

from polyfm import (
    BayesianFactorizationMachineOrdinal,
    BayesianFactorizationMachineRegressor,
    FactorizationMachineOrdinal,
    interactions,
    load_model,
    save_model,
)
from polyfm.losses import CumulativeLogit
from polyfm.solvers.cut_points import improved_cuts, marginal_cuts
from polyfm.solvers.likelihood import Ordered, folded, unfolded
from polyfm.solvers.variational import Variational


def problem_of(n=60, n_classes=4, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 5)) * (rng.uniform(size=(n, 5)) < 0.8)
    f = X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.standard_normal(n)
    y = np.searchsorted(np.quantile(f, np.arange(1, n_classes) / n_classes), f).astype(float)
    return make_problem(sp.csr_matrix(X), y, "anova", "direct", 2, k=2, weight=rng.uniform(0.5, 2, n), intercept=False)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_slopes_of_cut_points_are_those_of_the_log_posterior(n_classes):
    problem, _ = problem_of(n_classes=n_classes)
    likelihood, f = Ordered(problem), np.random.RandomState(1).standard_normal(60)
    a = unfolded(likelihood.cuts) + 0.1
    assert_allclose(unfolded(folded(a)), a)
    _, g, H = likelihood._posterior(f, a)
    for i in range(len(a)):
        step = np.zeros(len(a))
        step[i] = 1e-5
        above, below = likelihood._posterior(f, a + step), likelihood._posterior(f, a - step)
        assert_allclose(g[i], (above[0] - below[0]) / 2e-5, rtol=1e-5, atol=1e-7)
        assert_allclose(H[i], (above[1] - below[1]) / 2e-5, rtol=1e-5, atol=1e-5)
    mode, _ = likelihood._mode(f)
    assert np.abs(likelihood._posterior(f, mode)[1]).max() < 1e-2


def test_the_bound_never_falls():
    problem, start = problem_of()
    solver = Variational(groups=np.array([0, 0, 1, 1, 1]), likelihood="ordered")
    state = solver.init_state(problem, start)
    before = solver.bound(problem, state)
    for epoch in range(50):
        bound = -solver.update(problem, state)
        assert bound >= before - 1e-7 * abs(bound), epoch
        before = bound
    assert np.all(np.diff(state.likelihood.cuts) > 0)


def test_iterations_leave_the_prior_as_it_is():
    assert smallest_p_value(2, None, "cd", replicates=400, likelihood="ordered") > 0.01


def test_cut_points_that_are_wrong_are_noticed(monkeypatch):
    right = Ordered._draw_cuts

    def wrong(self, f, rng):
        right(self, f, rng)
        self.cuts = self.cuts + 2.0

    monkeypatch.setattr(Ordered, "_draw_cuts", wrong)
    assert smallest_p_value(2, None, "cd", replicates=400, likelihood="ordered") < 1e-4


def stars(n=2000):
    X, _, clean = ratings(n)
    latent = (clean - clean.mean()) / clean.std() + 0.5 * np.random.RandomState(1).standard_normal(n)
    return X, 1 + np.searchsorted([-1.2, -0.3, 0.4, 1.1], latent)


def ordinal(**options):
    return BayesianFactorizationMachineOrdinal(**{"n_components": 3, "random_state": 0, **options})


@pytest.mark.parametrize("options", [{}, {"inference": "gibbs", "n_samples": 15, "max_iter": 20}])
def test_ratings_are_told_with_their_probabilities(options, tmp_path):
    X, y = stars()
    model = ordinal(**options).fit(X[:1500], y[:1500])
    p = model.predict_proba(X[1500:])
    assert_allclose(p.sum(axis=1), 1)
    assert_array_equal(model.classes_, [1, 2, 3, 4, 5])
    assert_array_equal(model.predict(X[1500:]), model.classes_[p.argmax(axis=1)])
    assert_allclose(model.predict_mean(X[1500:]), p @ model.classes_)
    known = np.mean(np.log(p[np.arange(500), y[1500:] - 1]))
    shares = np.bincount(y[:1500])[1:] / 1500
    assert known > np.mean(np.log(shares[y[1500:] - 1])) + 0.4
    sure = p.max(axis=1) > 0.6
    assert abs(np.mean((model.predict(X[1500:]) == y[1500:])[sure]) - p.max(axis=1)[sure].mean()) < 0.1
    numbers = BayesianFactorizationMachineRegressor(n_components=3, random_state=0).fit(X[:1500], y[:1500])
    errors = [np.mean((f - y[1500:]) ** 2) for f in (model.predict_mean(X[1500:]), numbers.predict(X[1500:]))]
    assert errors[0] < 1.05 * errors[1]
    assert np.all(np.diff(model.cut_points_) > 0)
    save_model(model, tmp_path / "model.polyfm")
    assert_array_equal(load_model(tmp_path / "model.polyfm").predict_proba(X), model.predict_proba(X))
    assert len(interactions(model, top=2)) == 2
    with pytest.raises(ValueError, match="classes in an order have one model for all"):
        interactions(model, target=3)


def test_a_mean_of_words_is_refused():
    X, y = stars(200)
    model = ordinal().fit(X, np.array(["a", "b", "c", "d", "e"])[y - 1])
    with pytest.raises(TypeError, match="needs labels that are numbers"):
        model.predict_mean(X)


@pytest.mark.slow
@parametrize_with_checks([ordinal(n_components=2)])
def test_estimator_follows_scikit_learn_conventions(estimator, check):
    check(estimator)


# -- the cumulative logit model, by descent ---------------------------------------------------------------------------


def logit(**options):
    return FactorizationMachineOrdinal(**{"n_components": 3, "random_state": 0, **options})


def test_the_loss_is_the_negative_log_likelihood_with_its_derivatives():
    cuts = np.array([-1.0, 0.2, 0.3, 2.0])
    loss = CumulativeLogit(cuts)
    for f in (-40.0, -2.0, 0.0, 0.25, 3.0):
        above = np.concatenate([[1.0], 1 / (1 + np.exp(cuts - f)), [0.0]])
        for y, p in enumerate(above[:-1] - above[1:]):
            if abs(f) < 30:
                assert_allclose(loss.value(y, f), -np.log(p), rtol=1e-10)
            slope = (loss.value(y, f + 1e-5) - loss.value(y, f - 1e-5)) / 2e-5
            assert_allclose(loss.derivative(y, f), slope, atol=1e-8)
            bend = (loss.derivative(y, f + 1e-5) - loss.derivative(y, f - 1e-5)) / 2e-5
            assert_allclose(loss.second_derivative(y, f), bend, atol=1e-8)
            assert -1e-8 <= bend <= loss.curvature + 1e-8


@pytest.mark.parametrize("n_classes", [2, 5])
def test_cut_points_reach_the_smallest_loss(n_classes):
    rng = np.random.RandomState(0)
    f, weight = rng.standard_normal(500), rng.uniform(0, 2, 500)
    codes = np.searchsorted(np.linspace(-1, 1, n_classes - 1), f + rng.logistic(size=500))

    def loss(cuts):
        return sum(w * CumulativeLogit(cuts).value(c, v) for w, c, v in zip(weight, codes, f, strict=True))

    cuts = marginal_cuts(codes, weight, n_classes)
    before = loss(cuts)
    for _ in range(8):
        cuts = improved_cuts(cuts, codes, weight, f)
        after = loss(cuts)
        assert after <= before
        before = after
    for c in range(len(cuts)):
        step = np.zeros(len(cuts))
        step[c] = 1e-4
        assert_allclose(loss(cuts + step) - loss(cuts - step), 0, atol=1e-6)


def test_linear_weights_and_cut_points_are_those_of_a_general_minimiser():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((150, 3))
    y = np.searchsorted([-1, 0.5], X @ [1.0, -0.5, 0.0] + rng.logistic(size=150))
    model = logit(alpha=2.0, beta=1e6, tol=1e-12, max_iter=500).fit(X, y)

    def objective(theta):
        if theta[4] <= theta[3]:
            return np.inf
        loss = CumulativeLogit(theta[3:])
        return sum(loss.value(c, v) for c, v in zip(y, X @ theta[:3], strict=True)) + theta[:3] @ theta[:3]

    far = {"xatol": 1e-6, "fatol": 1e-10, "maxiter": 5000, "maxfev": 5000}
    found = minimize(objective, [0, 0, 0, -1, 1], method="Nelder-Mead", options=far)
    assert_allclose(model.coef_[0], found.x[:3], atol=2e-3)
    assert_allclose(model.cut_points_, found.x[3:], atol=2e-3)
    assert_allclose(model.objective_, found.fun, rtol=1e-6)


SLOW = pytest.mark.slow
OTHERS = [pytest.param(options, marks=SLOW) for options in ({"degree": 3, "solver": "cd"}, {"method": "lifted"})]


@pytest.mark.parametrize("options", [{}, *OTHERS])
def test_descent_with_cut_points_never_rises_and_predicts_stars(options):
    X, y = stars()
    model = logit(tol=1e-6, max_iter=300, **options).fit(X[:1500], y[:1500])
    history = model.history_
    assert np.all(np.diff(history) <= 1e-9 * np.abs(history[:-1]))
    p = model.predict_proba(X[1500:])
    assert_allclose(p.sum(axis=1), 1)
    assert np.all(np.diff(model.cut_points_) > 0)
    log_loss = -np.mean(np.log(p[np.arange(len(p)), y[1500:] - 1]))
    shares = np.bincount(y[:1500])[1:] / 1500
    assert log_loss < -np.mean(np.log(shares[y[1500:] - 1])) - 0.1
    assert np.mean((model.predict_mean(X[1500:]) - y[1500:]) ** 2) < np.var(y[1500:])
    assert set(model.predict(X)) <= set(y)


def test_cut_points_are_kept_in_files_checkpoints_and_warm_starts(tmp_path):
    X, y = stars(600)

    def fitted(model, times=1):
        for _ in range(times):
            with pytest.warns(match="Not converged"):
                model.fit(X, y)
        return model

    options = {"alpha": 1.0, "beta": 1.0, "tol": 0}
    whole = fitted(logit(max_iter=12, **options))
    half = fitted(logit(max_iter=6, warm_start=True, **options), times=2)
    assert_array_equal(half.cut_points_, whole.cut_points_)
    assert_array_equal(half.components_, whole.components_)
    other = fitted(logit(n_jobs=2, max_iter=12, checkpoint=tmp_path / "c", checkpoint_interval=5, **options))
    assert_array_equal(other.predict_proba(X), whole.predict_proba(X))
    save_model(whole, tmp_path / "m.polyfm")
    loaded = load_model(tmp_path / "m.polyfm")
    assert_array_equal(loaded.predict_proba(X), whole.predict_proba(X))
    loaded.cut_points_ = loaded.cut_points_[::-1].copy()
    save_model(loaded, tmp_path / "m.polyfm")
    with pytest.raises(ValueError, match="do not rise"):
        load_model(tmp_path / "m.polyfm")


def test_a_weight_of_two_is_the_row_twice_for_cut_points_too():
    X, y = stars(300)
    weight = 1.0 + (np.arange(300) % 3 == 0)
    rows = np.repeat(np.arange(300), weight.astype(int))
    one = logit(alpha=1.0, beta=2.0, tol=1e-9, max_iter=1000).fit(X, y, sample_weight=weight)
    other = logit(alpha=1.0, beta=2.0, tol=1e-9, max_iter=1000).fit(X[rows], y[rows])
    assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-3)


def test_too_many_classes_are_a_matter_for_regression():
    with pytest.raises(ValueError, match="1200 distinct labels.*FactorizationMachineRegressor"):
        logit().fit(np.ones((1200, 2)), np.arange(1200))


@pytest.mark.slow
@parametrize_with_checks([FactorizationMachineOrdinal(n_components=2, max_iter=30)])
def test_scikit_learn_accepts_cumulative_logits(estimator, check):
    check(estimator)


@pytest.mark.parametrize("cls", [FactorizationMachineOrdinal, BayesianFactorizationMachineOrdinal])
def test_half_stars_are_classes(cls):
    X, y, _ = ratings()
    stars = np.clip(np.round(2 * y), -4, 4) / 2
    model = cls(n_components=2, max_iter=3, tol=1.0, random_state=0).fit(X, stars)
    assert_array_equal(model.classes_, np.unique(stars))
    assert np.abs(model.predict_mean(X) - stars).mean() < np.abs(stars - stars.mean()).mean()
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        cls().fit(X, y)


def test_an_order_of_categories_that_is_not_that_of_sorting_is_refused():
    X, y, _ = ratings()
    names = pd.Categorical.from_codes((y > 0).astype(int), ["low", "high"], ordered=True)
    with pytest.raises(ValueError, match="low < high, .* Pass y.cat.codes"):
        BayesianFactorizationMachineOrdinal().fit(X, pd.Series(names))
    sorted_names = pd.Series(pd.Categorical(np.where(y > 0, "b", "a"), ordered=True))
    model = BayesianFactorizationMachineOrdinal(n_components=1, max_iter=2, tol=10.0, random_state=0)
    assert list(model.fit(X, sorted_names).classes_) == ["a", "b"]
