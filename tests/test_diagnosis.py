"""Diagnoses of models of any degree: gradients, curvature, restarts, and what can be proved of degree 2."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import make_problem

from polyfm import (
    BayesianFactorizationMachineRegressor,
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    certify,
    diagnose,
)
from polyfm.core.duality import Convex
from polyfm.core.fitted import Fitted
from polyfm.diagnosis import conditional, relative_gradient, smallest_curvature
from polyfm.solvers import make_solver, run

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
CUBIC = {"degree": 3, "n_components": 3, "alpha": 1.0, "beta": 1.0, "random_state": 0}


def data(rng, n=80, d=4):
    X = rng.standard_normal((n, d))
    y = X[:, 0] + X[:, 1] * X[:, 2] - 2 * X[:, 0] * X[:, 1] * X[:, 3] + 0.1 * rng.standard_normal(n)
    return X, y


def test_the_smallest_curvature_is_that_of_the_hessian(rng):
    X, y = data(rng)
    problem, start = make_problem(X, y, "anova", "direct", 3, k=2, lower="explicit", alpha=1.0, beta=1.0)
    model = problem.model
    theta = model.pack(start)

    def slope(v):
        return model.pack(problem.value_and_gradient(model.unpack(v, start))[1])

    H = np.array([(slope(theta + 1e-5 * e) - slope(theta - 1e-5 * e)) / 2e-5 for e in np.eye(len(theta))])
    values = np.linalg.eigvalsh((H + H.T) / 2)
    assert values[0] < 0
    assert_allclose(smallest_curvature(problem, start), values[0] / np.abs(values).max(), atol=2e-3)
    assert relative_gradient(problem, start) > 1
    trained = run(make_solver("lbfgs"), problem, start, max_iter=3000, tol=1e-15).parameters
    assert relative_gradient(problem, trained) < 1e-3
    assert smallest_curvature(problem, trained) > -1e-3


@pytest.mark.parametrize(
    "kind",
    [FactorizationMachineRegressor, pytest.param(FactorizationMachineClassifier, marks=pytest.mark.slow)],
)
def test_a_cubic_model_is_diagnosed_and_no_more_is_claimed(rng, kind):
    X, y = data(rng)
    y = y if kind is FactorizationMachineRegressor else np.digitize(y, [-1, 1])
    model = kind(**CUBIC, solver="lbfgs", tol=1e-14, max_iter=3000).fit(X, y)
    found = diagnose(model, X, y, n_restarts=2)
    assert found.is_minimum
    assert found.objective == pytest.approx(model.objective_)
    assert found.restarts.shape == (2,)
    assert found.restarts.min() > 0.2 * found.objective
    assert found.conditional.lower_bound <= found.conditional.objective <= found.objective
    assert "nobody can tell" in str(found)
    short = kind(**CUBIC, solver="lbfgs", max_iter=2).fit(X, y)
    assert not diagnose(short, X, y, n_restarts=0).is_minimum


@pytest.mark.parametrize("loss", ["squared", pytest.param("logistic", marks=pytest.mark.slow)])
def test_conditional_bounds_are_never_above_what_degree_two_reaches_beside_fixed_cubic_terms(rng, loss):
    X, y = data(rng)
    y = y if loss == "squared" else np.sign(y)
    problem, start = make_problem(X, y, "anova", "direct", 3, k=5, lower="explicit", alpha=1.0, beta=1.0, loss=loss)
    estimator = FactorizationMachineRegressor(degree=3)
    estimator._fitted = Fitted(problem.model, [start])
    found = []
    for epochs in (1, 3, 300):
        point = run(make_solver("lbfgs"), problem, start, max_iter=epochs, tol=1e-12).parameters
        for factors in (start.factors, point.factors):
            mixed = point._replace(factors=(start.factors[0], factors[1]))
            found.append(conditional(estimator, problem, mixed))
    lowest = min(one.objective for one in found)
    assert all(one.lower_bound <= lowest * (1 + 1e-9) for one in found)
    assert max(one.lower_bound for one in found) > 0


def test_for_degree_two_the_condition_is_empty(rng):
    X, y = data(rng)
    model = FactorizationMachineRegressor(n_components=4, alpha=1.0, beta=1.0, tol=1e-9, max_iter=500).fit(X, y)
    found, proved = diagnose(model, X, y, n_restarts=0).conditional, certify(model, X, y)
    assert found.lower_bound == pytest.approx(proved.lower_bound)
    assert found.objective == pytest.approx(proved.objective)


def test_predictions_from_elsewhere_are_as_good_as_other_targets(rng):
    X, y = data(rng)
    problem, start = make_problem(X, y, "anova", "direct", 2, k=3, alpha=1.0, beta=1.0)
    beside = rng.standard_normal(len(y))
    moved, _ = make_problem(X, y - beside, "anova", "direct", 2, k=3, alpha=1.0, beta=1.0)
    with_them, without = Convex(problem, (1,), beside), Convex(moved, (1,))
    a = with_them.bound(with_them.predictions(start), few=100, tol=1e-3)
    b = without.bound(without.predictions(start), few=100, tol=1e-3)
    assert a.value == pytest.approx(b.value)


def test_what_cannot_be_diagnosed_is_refused(rng):
    X, y = data(rng)
    model = FactorizationMachineRegressor(**CUBIC).fit(X, y)
    with pytest.raises(ValueError, match="n_restarts"):
        diagnose(model, X, y, n_restarts=-1)
    inferred = BayesianFactorizationMachineRegressor(n_components=2).fit(X, y)
    for function in (diagnose, certify):
        with pytest.raises(TypeError, match="infers them"):
            function(inferred, X, y)


def test_the_display_shows_starts_and_the_conditional_bound(rng):
    pytest.importorskip("matplotlib").use("agg")
    from polyfm.display import DiagnosisDisplay

    X, y = data(rng)
    model = FactorizationMachineRegressor(**CUBIC).fit(X, y)
    display = DiagnosisDisplay.from_estimator(model, X, y, n_restarts=2)
    assert len(display.points_.get_offsets()) == 2
    assert min(display.points_.get_offsets()[:, 1].min(), display.line_.get_ydata()[0]) == pytest.approx(0)
    assert len(display.ax_.get_legend().get_texts()) == 3
