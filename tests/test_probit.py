"""Classes by latent targets: truncated normals, a bound that never falls, probabilities that hold."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from problems import make_problem
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_bayes import ratings
from test_gibbs import smallest_p_value

from polyfm import BayesianFactorizationMachineClassifier, load_model, save_model
from polyfm.core.design import Design
from polyfm.loops import ordered
from polyfm.solvers.variational import Variational

INTERVALS = [(-np.inf, 0.0), (0.0, np.inf), (-1.0, 2.0), (0.5, 0.6), (3.0, np.inf), (-np.inf, -6.0), (-0.3, np.inf),
             (7.0, 7.5), (-2.0, -1.9), (-np.inf, 30.0), (35.0, np.inf), (-1e-3, 5.0)]  # fmt: skip


@pytest.mark.parametrize(("lo", "hi"), INTERVALS)
def test_truncated_normals_are_as_scipy_has_them(lo, hi):
    cuts, f = np.array([-np.inf, lo, hi, np.inf]), np.zeros(4000)
    codes, residuals = np.ones(4000, dtype=np.uint32), np.empty(4000)
    log_mass, squares = ordered.expect(codes[:1], None, cuts, f[:1], residuals[:1])
    exact = stats.truncnorm(lo, hi)
    assert_allclose(-residuals[0], exact.mean(), rtol=1e-6, atol=1e-12)
    assert_allclose(squares, residuals[0] ** 2)
    tails = (stats.norm.logsf, lo, hi) if lo > 0 else (stats.norm.logcdf, hi, lo)
    mass = np.exp(tails[0](tails[1])) - np.exp(tails[0](tails[2]))
    assert_allclose(log_mass, np.log(mass), rtol=1e-8, atol=1e-12)
    ordered.draw(codes, None, cuts, f, 3, 4, 5, residuals)
    z = -residuals
    assert lo <= z.min() <= z.max() <= hi
    assert stats.kstest(z, exact.cdf).pvalue > 1e-4


def test_the_bound_never_falls():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((60, 5)) * (rng.uniform(size=(60, 5)) < 0.8)
    y = np.where(X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.standard_normal(60) > 0, 1.0, -1.0)
    problem, start = make_problem(sp.csr_matrix(X), y, "anova", "direct", 2, k=2, weight=rng.uniform(0.5, 2, 60))
    solver = Variational(groups=np.array([0, 0, 1, 1, 1]), likelihood="probit")
    state = solver.init_state(problem, start)
    before = solver.bound(problem, state)
    for epoch in range(60):
        bound = -solver.update(problem, state)
        assert bound >= before - 1e-9 * abs(bound), epoch
        before = bound
    tracked = state.squares
    solver._refresh(problem, state)
    assert_allclose(tracked, state.squares, rtol=1e-8)


@pytest.mark.parametrize("steps", ["cd", pytest.param("block", marks=pytest.mark.slow)])
def test_iterations_leave_the_prior_as_it_is(steps):
    assert smallest_p_value(2, None, steps, replicates=500, likelihood="probit") > 0.01


def test_latent_targets_that_are_wrong_are_noticed(monkeypatch):
    right = ordered.draw

    def wrong(*arguments):
        right(*arguments)
        arguments[-1][:] -= 1.0  # all too large

    monkeypatch.setattr(ordered, "draw", wrong)
    assert smallest_p_value(2, None, "cd", replicates=500, likelihood="probit") < 1e-4


def classes(n=2000):
    """Two fields, and classes with probabilities that are known."""
    X, _, clean = ratings(n)
    f = (clean - clean.mean()) / clean.std()
    return X, np.where(f + np.random.RandomState(1).standard_normal(n) > 0, "yes", "no"), stats.norm.cdf(f)


def classifier(**options):
    return BayesianFactorizationMachineClassifier(**{"n_components": 3, "random_state": 0, **options})


@pytest.mark.parametrize("options", [{}, {"inference": "gibbs", "n_samples": 20, "max_iter": 20}])
def test_probabilities_are_near_the_true_ones(options, tmp_path):
    X, y, p = classes()
    model = classifier(**options).fit(X[:1500], y[:1500])
    found = model.predict_proba(X[1500:])
    assert_allclose(found.sum(axis=1), 1)
    assert np.sqrt(np.mean((found[:, 1] - p[1500:]) ** 2)) < 0.2
    surest = found[:, 1] > 0.8  # of those it is sure of, as many are as it says
    assert abs(np.mean(y[1500:][surest] == "yes") - found[surest, 1].mean()) < 0.08
    assert_allclose(stats.norm.cdf(model.decision_function(X[1500:])), found[:, 1], rtol=1e-9)
    assert_allclose(np.exp(model.predict_log_proba(X[1500:])), found)
    save_model(model, tmp_path / "model.polyfm")
    assert_array_equal(load_model(tmp_path / "model.polyfm").predict_proba(X), model.predict_proba(X))


def test_what_is_not_known_draws_probabilities_to_the_middle():
    X, y, _ = classes(300)
    model = classifier().fit(X, y)
    f, score = model._raw_predict(X)[0], model.decision_function(X)
    assert np.all(np.abs(score) < np.abs(f))
    assert_array_equal(np.sign(score), np.sign(f))
    variances = model._posterior[0].variances(model._fitted.model, model._fitted.targets[0], Design(X))
    assert_allclose(score, f / np.sqrt(1 + variances))


def test_several_classes_are_told_apart():
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    model = classifier(n_components=2).fit(X[::2], y[::2])
    assert model.predict_proba(X).shape == (150, 3)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.score(X[1::2], y[1::2]) > 0.9
    assert model.components_.shape == (3, 2, 4)


def test_weights_of_classes_count():
    X, y, _ = classes(500)
    plain, weighted = (classifier(class_weight=w).fit(X, y) for w in (None, {"yes": 5, "no": 1}))
    assert np.mean(weighted.predict(X) == "yes") > np.mean(plain.predict(X) == "yes") + 0.1


def expected_failures(estimator) -> dict[str, str]:
    """A latent target is drawn for each row: a row of weight 2 has one, two rows have two."""
    if estimator.inference == "variational":
        return {}
    reason = "latent targets are drawn by row"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


@pytest.mark.slow
@parametrize_with_checks(
    [
        BayesianFactorizationMachineClassifier(n_components=2, random_state=0),
        BayesianFactorizationMachineClassifier(
            n_components=2, inference="gibbs", n_samples=5, max_iter=20, random_state=0
        ),
    ],
    expected_failed_checks=expected_failures,
)
def test_estimator_follows_scikit_learn_conventions(estimator, check):
    check(estimator)
