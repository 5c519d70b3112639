"""Descent on losses that are no parabola: working responses, and an objective that never increases all the same."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from problems import make_problem

from polyfm.loops import working
from polyfm.loops.response import Response
from polyfm.losses import as_loss
from polyfm.solvers import CoordinateDescent, parabolas, run, schedule


class Smooth:
    """sqrt(1 + (f - y)^2), whose second derivative is left to differences."""

    curvature, residual = 1.0, True

    def value(self, y, f):
        return (1 + (f - y) ** 2) ** 0.5

    def derivative(self, y, f):
        return (f - y) / (1 + (f - y) ** 2) ** 0.5


@pytest.mark.parametrize("floor", [1e-3, 0.3, 1.0])
def test_a_parabola_has_the_slope_and_the_bend_of_its_loss(rng, floor):
    y, f, weight = np.sign(rng.standard_normal(50)), 4 * rng.standard_normal(50), rng.uniform(0, 2, 50)
    weight[:3] = 0
    r, h, rest = f.copy(), np.empty(50), np.empty(50)
    working.to_residuals(Response(as_loss("logistic"), y, weight, None), floor, r, h, rest)
    p = 1 / (1 + np.exp(-f))
    assert_allclose(h, weight * np.maximum(p * (1 - p), floor / 4), rtol=1e-12)
    assert_allclose(h * r, weight * (p - (y > 0)), rtol=1e-9, atol=1e-15)
    assert_allclose(r + rest, f, rtol=1e-12)


@pytest.mark.parametrize("loss", ["logistic", Smooth()])
def test_epochs_that_raise_the_objective_are_done_again(small, loss, monkeypatch):
    """Far from the minimum, and without much of a penalty, second derivatives alone lead astray."""
    X, y = small
    y = np.sign(y) if loss == "logistic" else 100 * y
    monkeypatch.setattr(parabolas, "FLOOR", 1e-8)
    problem, start = make_problem(X, y, "anova", "direct", 2, loss=loss, alpha=1e-3, beta=1e-3, init_scale=3.0)
    method, floors = CoordinateDescent(), []
    state = method.init_state(problem, start.copy())
    values = [method.objective(problem, state)]
    for _ in range(25):
        values.append(method.update(problem, state))
        floors.append(state.floor)
        assert_allclose(state.f, problem.shifted_predictions(state.parameters), rtol=1e-6, atol=1e-6)
    assert np.all(np.diff(values) <= 0)
    assert max(floors) > 1e-8  # some epochs had to be
    assert_allclose(problem.objective(state.parameters), values[-1], rtol=1e-6)
    monkeypatch.setattr(parabolas, "FLOOR", 1.0)
    by_the_bound = run(CoordinateDescent(), problem, start, max_iter=25, tol=-1.0).history
    assert np.all(np.diff(by_the_bound) <= 0)
    assert values[-1] < by_the_bound[-1]


def test_it_ends_in_the_minimum(small):
    X, y = small
    problem, start = make_problem(X, np.sign(y), "anova", "direct", 2, loss="logistic", beta=0.3)
    result = run(CoordinateDescent(), problem, start, max_iter=2000, tol=1e-14)
    _, gradient = problem.value_and_gradient(result.parameters)
    for slope in (*gradient.factors, gradient.coef, gradient.intercept):
        assert_allclose(slope, 0, atol=1e-4)


def test_a_run_that_goes_on_gives_the_same_bits(small):
    X, y = small
    problem, start = make_problem(X, np.sign(y), "anova", "direct", 2, loss="logistic", beta=1e-3, init_scale=3.0)
    whole = run(CoordinateDescent(), problem, start, max_iter=8, tol=-1.0)
    half = run(CoordinateDescent(), problem, start, max_iter=4, tol=-1.0)
    rest = run(
        CoordinateDescent(),
        problem,
        half.parameters,
        max_iter=8,
        tol=-1.0,
        resume=half.resume,
        first=1e9,
        history=list(half.history),
    )
    assert_array_equal(whole.history, rest.history)
    assert_array_equal(whole.parameters.factors[0], rest.parameters.factors[0])


def test_threads_change_no_bit(rng, monkeypatch):
    monkeypatch.setattr(schedule, "NONZEROS_WORTH_A_THREAD", 1)
    columns = np.column_stack([rng.randint(20, size=400), 20 + rng.randint(15, size=400)])
    X = sp.csr_matrix((np.ones(800), columns.ravel(), np.arange(0, 801, 2)))
    y = np.sign(rng.standard_normal(400))
    problem, start = make_problem(X, y, "anova", "direct", 2, None, loss="logistic")
    one, two = (run(CoordinateDescent(n_threads=n), problem, start, max_iter=4, tol=0) for n in (1, 2))
    assert_array_equal(one.history, two.history)
    assert_array_equal(one.parameters.factors[0], two.parameters.factors[0])


def test_an_interrupted_epoch_is_taken_back(small, monkeypatch):
    X, y = small
    problem, start = make_problem(X, np.sign(y), "anova", "direct", 2, loss="logistic")
    method, state = CoordinateDescent(), CoordinateDescent().init_state(problem, start.copy())
    before, sweep = method.update(problem, state), CoordinateDescent.sweep

    def interrupted(self, problem, state):
        for _ in sweep(self, problem, state):
            pass
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(CoordinateDescent, "sweep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        method.update(problem, state)
    assert_allclose(problem.objective(state.parameters), before, rtol=1e-12)
