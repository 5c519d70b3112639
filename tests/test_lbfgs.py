"""L-BFGS on sparse data: the metric that it starts from, and runs that go on with it."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from problems import make_problem

from polyfm.core.problem import Problem
from polyfm.solvers import LBFGS, lbfgs, run


@pytest.fixture(scope="module")
def ratings():
    """Two one-hot fields, whose values occur from once to hundreds of times."""
    rng = np.random.RandomState(0)
    sizes, n = (300, 200), 6000
    fields = [np.minimum(rng.zipf(1.3, size=n) - 1, size - 1) for size in sizes]
    columns = np.column_stack([fields[0], sizes[0] + fields[1]])
    X = sp.csr_matrix((np.ones(2 * n), columns.ravel(), 2 * np.arange(n + 1)), shape=(n, sum(sizes)))
    table = rng.standard_normal((sizes[0], 3)) @ rng.standard_normal((3, sizes[1]))
    return X, 0.5 * table[fields[0], fields[1]] + rng.standard_normal(n)


def classes(ratings):
    return ratings[0], np.sign(ratings[1])


@pytest.mark.parametrize("weighted", [False, True])
def test_the_metric_is_the_diagonal_of_the_gauss_newton_matrix(small, rng, weighted, monkeypatch):
    monkeypatch.setattr(lbfgs, "POWER", 1.0)
    X, y = small
    X = sp.csr_matrix(X)
    weight = rng.uniform(0.5, 2.0, len(y)) if weighted else None
    problem, start = make_problem(X, np.sign(y), "anova", "direct", 2, loss="logistic", weight=weight, init_scale=1.0)
    theta, step = problem.model.pack(start), 1e-6
    jacobian = np.column_stack([
        (problem.shifted_predictions(problem.model.unpack(theta + step * e, start))
         - problem.shifted_predictions(problem.model.unpack(theta - step * e, start))) / (2 * step)
        for e in np.eye(len(theta))
    ])  # fmt: skip
    p = 1 / (1 + np.exp(-problem.shifted_predictions(start)))
    h = p * (1 - p) * (1.0 if weight is None else problem.response.weight)
    expected = h @ jacobian**2 + problem.penalty.diagonal(start)[0]
    found = lbfgs._metric(problem, start, theta, 1)
    assert_allclose(found, np.where(expected > 0, expected, 1.0), rtol=1e-5)
    assert_array_equal(found, lbfgs._metric(problem, start, theta, 2))


def evaluations(problem, start, monkeypatch, most):
    values, original = [], Problem.value_and_gradient

    def counted(self, *arguments):
        value, gradient = original(self, *arguments)
        values.append(value)
        return value, gradient

    with monkeypatch.context() as patch:
        patch.setattr(Problem, "value_and_gradient", counted)
        run(LBFGS(), problem, start, max_iter=10**6, tol=-1.0, hooks=(lambda monitor, state: len(values) >= most,))
    return np.array(values)


def test_features_of_unequal_counts_take_half_the_evaluations(ratings, monkeypatch):
    X, y = ratings
    problem, start = make_problem(X, y, "anova", "direct", 2, beta=4.0)
    found = evaluations(problem, start, monkeypatch, 150)
    monkeypatch.setattr(lbfgs, "RENEWALS", ())
    plain = evaluations(problem, start, monkeypatch, 150)
    goal = 1.01 * min(found.min(), plain.min())
    assert np.argmax(found <= goal) < 0.5 * np.argmax(plain <= goal)


@pytest.mark.parametrize("at", [3, 5, 7])  # before, when and after the metric is taken anew
def test_a_run_that_goes_on_has_the_same_metric(ratings, at):
    problem, start = make_problem(*classes(ratings), "anova", "direct", 2, loss="logistic")
    whole = run(LBFGS(), problem, start, max_iter=12, tol=-1.0)
    half = run(LBFGS(), problem, start, max_iter=at, tol=-1.0)
    rest = run(
        LBFGS(), problem, half.parameters, max_iter=12, tol=-1.0, resume=half.resume, first=1e9,
        history=list(half.history),
    )  # fmt: skip
    assert_array_equal(rest.history, whole.history)
    assert_array_equal(rest.parameters.factors[0], whole.parameters.factors[0])


def test_a_run_stopped_by_a_version_without_a_metric_goes_on(ratings):
    problem, start = make_problem(*classes(ratings), "anova", "direct", 2, loss="logistic")
    half = run(LBFGS(), problem, start, max_iter=7, tol=-1.0)
    resume = {name: array for name, array in half.resume.items() if name != "metric"}
    rest = run(LBFGS(), problem, half.parameters, max_iter=12, tol=-1.0, resume=resume, history=list(half.history))
    assert np.all(np.diff(rest.history) <= 0)


def test_a_metric_of_another_problem_is_refused(ratings):
    problem, start = make_problem(*classes(ratings), "anova", "direct", 2, loss="logistic")
    resume = run(LBFGS(), problem, start, max_iter=2, tol=-1.0).resume
    with pytest.raises(ValueError, match="metric has size 3, for"):
        run(LBFGS(), problem, start, max_iter=3, tol=-1.0, resume=resume | {"metric": np.ones(3)})
    with pytest.raises(ValueError, match="not finite, or not above 0"):
        run(LBFGS(), problem, start, max_iter=3, tol=-1.0, resume=resume | {"metric": 0 * resume["metric"]})
