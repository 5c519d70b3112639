"""Coordinate descent against slow references: forms, single updates, whole epochs."""

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from numpy.testing import assert_allclose
from problems import FORMS, MULTILINEAR, make_problem

from polyfm.core.design import Design
from polyfm.core.layout import expand
from polyfm.core.model import Group, build_model
from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.loops import columns
from polyfm.loops.barrier import barrier_of
from polyfm.loops.forms import form_of
from polyfm.loops.rule import Descend
from polyfm.losses import as_loss
from polyfm.solvers import CoordinateDescent, run
from polyfm.solvers.directions import descend_lambdas
from polyfm.solvers.schedule import Schedule

VALUES = {
    ("anova", "direct"): lambda B, x: reference.anova(B[0], x, VALUES["degree"]),
    ("anova", "lifted"): reference.lifted_anova,
    ("homogeneous", "lifted"): reference.lifted_homogeneous,
    ("homogeneous", "direct"): lambda B, x: reference.homogeneous(B[0], x, VALUES["degree"]),
}


def value(group, B, x):
    VALUES["degree"] = group.degree
    return VALUES[group.form.kernel, group.form.method](B, x)


@pytest.mark.parametrize(("kernel", "method"), FORMS)
@pytest.mark.parametrize("degree", [2, 3, 4])
def test_expansion_is_the_definition(small, kernel, method, degree):
    X, _ = small
    group = Group(form_of(kernel, method, degree), n_bases=2, n_dummies=1)
    P = np.random.RandomState(1).standard_normal(group.shape(X.shape[1]))
    expected = [[value(group, B, x) for B in P] for x in reference.augmented(X, 1)]
    assert_allclose(expand(group, P, Design(X)), expected, atol=1e-10)
    assert_allclose(expand(group, P, Design(X.toarray())), expected, atol=1e-10)


@pytest.mark.parametrize(("kernel", "method"), MULTILINEAR)
@pytest.mark.parametrize("degree", [2, 3, 5])
def test_partial_and_update_follow_the_value(rng, kernel, method, degree):
    group = Group(form_of(kernel, method, degree), n_bases=1)
    B, x = rng.standard_normal((group.form.n_factors, 6)), rng.standard_normal(6)

    def cache(B):
        S = np.zeros((1, 1 + group.form.n_cached))
        for j in range(6):
            group.form.include(S, 0, B, j, x[j])
        return S

    for t in range(group.form.n_factors):
        for j in range(6):
            S, step = cache(B), 0.7
            moved = B.copy()
            moved[t, j] += step
            # Multilinear: the difference quotient is the derivative for any step.
            expected = (value(group, moved, x) - value(group, B, x)) / step / group.form.scale
            assert_allclose(group.form.partial(S, 0, B, t, j, x[j]), expected, rtol=1e-8, atol=1e-9)
            assert_allclose(group.form.update(S, 0, B, t, j, x[j], step), expected, rtol=1e-8, atol=1e-9)
            assert_allclose(S[:, 1:], cache(moved)[:, 1:], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("kernel", "method"), MULTILINEAR)
@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "logistic"])
def test_no_single_update_raises_the_objective(small, kernel, method, loss):
    """Every coordinate step of a sweep, run in plain Python, lowers the objective; for the squared loss it is exact."""
    X, y = small
    y = np.sign(y) if loss != "squared" else y
    weight = np.random.RandomState(2).uniform(0.1, 2, len(y))
    problem, parameters = make_problem(X, y, kernel, method, 3, loss=loss, weight=weight)
    group, P, lams = problem.model.groups[0], parameters.factors[0], parameters.lambdas[0]
    indptr, rows, data = problem.design.columns
    prior = problem.penalty.prior(0, lams)
    before = problem.objective(parameters)
    for s in range(group.n_bases):
        S = np.zeros((X.shape[0], 1 + group.form.n_cached))
        S[:, 0] = problem.shifted_predictions(parameters)
        columns._refresh(group.form, problem.design.rows, 0, 0, X.shape[0], S, P[s])
        for t in range(group.form.n_factors):
            for j in range(X.shape[1]):
                arguments = (
                    group.form, problem.response, prior, Descend(), indptr, rows, data, None, j, j + 1, S, P[s], s, t,
                    0, lams[s] * group.form.scale,
                )  # fmt: skip
                columns._sweep(*arguments)
                after = problem.objective(parameters)
                assert after <= before + 1e-12 * abs(before)
                assert_allclose(S[:, 0], problem.shifted_predictions(parameters), rtol=1e-9, atol=1e-9)
                if loss == "squared":
                    for nudge in (-1e-4, 1e-4):
                        P[s][t, j] += nudge
                        assert problem.objective(parameters) >= after
                        P[s][t, j] -= nudge
                before = after


@pytest.mark.parametrize(("kernel", "method"), MULTILINEAR)
@pytest.mark.parametrize("lower", ["explicit", "augment", None])
def test_compiled_epochs_equal_plain_python_and_dense_equals_sparse(small, kernel, method, lower):
    X, y = small
    degree = 3
    results = []
    for Z in (X, X.toarray(), sp.csc_array(X)):
        problem, start = make_problem(Z, y, kernel, method, degree, lower=lower)
        results.append(run(CoordinateDescent(), problem, start, max_iter=4, tol=0.0, verbose=0))
    for other in results[1:]:
        assert_allclose(other.history, results[0].history, rtol=1e-9)
        for a, b in zip(other.parameters.factors, results[0].parameters.factors, strict=True):
            assert_allclose(a, b, rtol=1e-6, atol=1e-9)
    assert np.all(np.diff(results[0].history) <= 0)

    # The same epoch by the loops' own Python.
    problem, start = make_problem(X, y, kernel, method, degree, lower=lower)
    group, P, lams = problem.model.groups[0], start.factors[0].copy(), start.lambdas[0]
    S = np.zeros((X.shape[0], 1 + group.form.n_cached))
    S[:, 0] = problem.shifted_predictions(start)
    compiled_P, compiled_S = P.copy(), S.copy()
    for epoch, (state, factors) in (
        (columns.epoch_sparse.py_func, (S, P)),
        (columns.epoch_sparse, (compiled_S, compiled_P)),
    ):
        epoch(
            group.form, problem.response, problem.penalty.prior(0, lams), Descend(), tuple(problem.design.columns),
            tuple(problem.design.rows), None, tuple(Schedule(problem.design).plan()), problem.design.ones.indptr, 0,
            barrier_of(1), state, factors, lams * group.form.scale,
        )  # fmt: skip
    assert_allclose(compiled_P, P, rtol=1e-9, atol=1e-12)
    assert_allclose(compiled_S, S, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("degree", [2, 3])
def test_fitting_lambdas_never_raises_the_objective(small, degree):
    X, y = small
    problem, start = make_problem(X, y, "anova", "direct", degree, init_lambdas="random_signs")
    result = run(CoordinateDescent(fit_lambdas=True), problem, start, max_iter=30, tol=0.0, verbose=0)
    assert np.all(np.diff(result.history) <= 1e-12 * result.history[0])
    assert not np.allclose(np.abs(result.parameters.lambdas[0]), 1)


def test_fitted_lambdas_are_optimal_for_their_bases(small):
    """The lasso's conditions: |sum_i l'_i K_si| <= beta |p_s|^2, with equality and sign where lambda_s != 0."""
    X, y = small
    problem, start = make_problem(X, y, "anova", "direct", 2, beta=0.5)
    group, P, lams = problem.model.groups[0], start.factors[0], start.lambdas[0]
    P[1] = 0  # a basis that can do nothing
    for _ in range(30):
        f = problem.shifted_predictions(start)
        descend_lambdas(problem, 0, P, lams, f)
    slopes = expand(group, P, problem.design).T @ problem.shifted_predictions(start)
    bound = 0.5 * np.sum(P**2, axis=(1, 2))
    for slope, limit, lam in zip(slopes, bound, lams, strict=True):
        if lam == 0:
            assert abs(slope) <= limit + 1e-6
        else:
            assert_allclose(slope, -np.sign(lam) * limit, atol=1e-6)


def test_sorting_the_rows_changes_nothing(small):
    X, y = small
    weight = np.linspace(0.5, 2, len(y))
    order = np.random.RandomState(5).permutation(len(y))
    histories = []
    for rows in (np.arange(len(y)), order):
        problem, start = make_problem(X[rows], y[rows], "anova", "direct", 2, weight=weight[rows])
        histories.append(run(CoordinateDescent(), problem, start, max_iter=5, tol=0, verbose=0).history)
    assert_allclose(*histories, rtol=1e-10)


def test_objective_of_parameters_by_hand():
    X, y = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]]), np.array([1.0, -1.0])
    model = build_model("anova", "direct", 2, 1, None, True, True)
    problem = Problem.with_target(Design(X), model, as_loss("squared"), y, np.array([1.0, 2.0]), 0.1, 0.2)
    parameters = Parameters(
        (np.array([[[1.0, 2.0, 3.0]]]),), (np.array([-0.5]),), np.array([1.0, 0.0, -1.0]), np.array([0.25])
    )
    f = np.array([0.25 + 1 - 0.5 * (1 * 1 * 2 * 2), 0.25 - 3 - 0.5 * (2 * 1 * 3 * 3)])
    expected = 0.5 * (f[0] - 1) ** 2 + 2 * 0.5 * (f[1] + 1) ** 2 + 0.2 * 0.5 * 14 + 0.05 * 2
    assert_allclose(problem.objective(parameters), expected)
