"""Classes in an order: derivatives of cut points, a bound that never falls, draws that leave the prior as it is."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from problems import make_problem
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_bayes import ratings
from test_gibbs import smallest_p_value

from polyfm import (
    BayesianFactorizationMachineOrdinal,
    BayesianFactorizationMachineRegressor,
    interactions,
    load_model,
    save_model,
)
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
