"""Block descent: each block is solved exactly, the objective never increases, and the end is coordinate descent's."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from problems import make_problem

from polyfm import FactorizationMachineRegressor
from polyfm.core.layout import bases_last, weights
from polyfm.loops import blocks
from polyfm.loops.rule import Descend
from polyfm.solvers import BlockDescent, CoordinateDescent, run, schedule

CASES = [
    ("anova", "direct", 2, "explicit"),
    ("anova", "direct", 3, "augment"),
    ("anova", "lifted", 2, "augment"),
    ("homogeneous", "lifted", 2, "augment"),
    ("homogeneous", "lifted", 3, None),
]


@pytest.mark.parametrize(
    ("kernel", "method", "degree", "lower", "k"),
    [*((*case, 3) for case in CASES), *((*CASES[2], k) for k in (1, 7, 8, 9))],  # whole vectors, and what is left over
)
def test_a_block_is_minimised(small, kernel, method, degree, lower, k):
    """After a plain step, the objective's gradient by the unknowns of the last feature is zero."""
    X, y = small
    weight = np.random.RandomState(2).uniform(0.1, 2, len(y))
    problem, p = make_problem(X, y, kernel, method, degree, lower, k=k, weight=weight)
    group, P, lams = problem.model.groups[0], p.factors[0], p.lambdas[0]
    f, columns, rows = problem.shifted_predictions(p), tuple(problem.design.columns), tuple(problem.design.rows)
    T = bases_last(P, np.float64)
    before = problem.objective(p)
    form = group.form.cofactor_form
    for t in range(group.form.n_turns):
        low, high = form.joint(t)
        room = blocks.room_for(form, low, high, T, weights(group, lams, np.float64), k)
        for j in range(X.shape[1]):
            blocks.sweep(
                form, problem.response, problem.penalty.prior(0, lams), problem.penalty.linear_prior(), True,
                Descend(), columns, rows, None, j, j + 1, 0, low, high, f, T, k, p.coef, room,
            )  # fmt: skip
            P[:] = T.T[: len(P)]
            value, gradient = problem.value_and_gradient(p)
            assert value <= before * (1 + 1e-12)
            before = value
            block = gradient.factors[0][:, :, j] if kernel == "anova" else gradient.factors[0][:, t, j]
            assert_allclose(block, 0, atol=1e-9)
            assert_allclose(gradient.coef[j], 0, atol=1e-9)
            assert_allclose(f, problem.shifted_predictions(p), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("case", "loss", "dense"), [*((case, "squared", False) for case in CASES), (CASES[0], "logistic", True)]
)
def test_the_objective_never_increases(small, case, loss, dense):
    X, y = small
    y = np.sign(y) if loss != "squared" else y
    problem, start = make_problem(X.toarray() if dense else X, y, *case, loss=loss)
    result = run(BlockDescent(), problem, start, max_iter=8, tol=-1.0)
    assert_allclose(problem.objective(result.parameters), result.history[-1], rtol=1e-9)
    assert np.all(np.diff(result.history) <= 1e-12 * result.history[0])


def test_dense_equals_sparse(small):
    X, y = small
    histories = []
    for Z in (X, X.toarray()):
        problem, start = make_problem(Z, y, *CASES[0])
        histories.append(run(BlockDescent(), problem, start, max_iter=4, tol=-1.0).history)
    assert_allclose(*histories, rtol=1e-9)


def test_it_ends_where_coordinate_descent_ends(small):
    X, y = small
    problem, start = make_problem(X, y, "anova", "direct", 2, None, beta=3.0)
    ends = [run(s, problem, start, max_iter=500, tol=1e-12).history[-1] for s in (BlockDescent(), CoordinateDescent())]
    assert_allclose(*ends, rtol=1e-6)


def test_long_features_are_computed_twice_rather_than_kept(rng):
    """A column of more entries than there are tiles to keep; the state must still be that of the parameters."""
    n = blocks.KEPT + 700
    X = sp.csr_matrix((rng.uniform(size=(n, 3)) < 0.99).astype(float))
    problem, start = make_problem(X, rng.standard_normal(n), "anova", "direct", 2, None)
    assert np.diff(problem.design.columns.indptr.astype(int)).min() > blocks.KEPT
    result = run(BlockDescent(), problem, start, max_iter=2, tol=0)
    assert_allclose(result.resume["f"], problem.shifted_predictions(result.parameters), rtol=1e-9, atol=1e-9)


def test_features_that_never_occur_go_to_zero(small):
    X, y = small  # column 5 is empty
    problem, start = make_problem(X, y, "anova", "direct", 2, None)
    result = run(BlockDescent(), problem, start, max_iter=1, tol=0)
    assert_allclose(result.parameters.factors[0][:, :, 5], 0, atol=1e-15)


def test_without_a_penalty_singular_systems_are_no_obstacle(small):
    X, y = small
    X = sp.hstack([X, X[:, :1]]).tocsr()  # a feature twice, and no penalty: the system has no unique solution
    problem, start = make_problem(X, y, "anova", "direct", 2, alpha=0.0, beta=0.0, order="given")
    start.lambdas[0][1] = 0  # a basis that can do nothing
    result = run(BlockDescent(), problem, start, max_iter=10, tol=-1.0)
    assert np.all(np.isfinite(result.parameters.factors[0]))
    assert np.all(np.diff(result.history) <= 1e-9 * result.history[0])


def test_threads_change_no_bit(rng, monkeypatch):
    monkeypatch.setattr(schedule, "NONZEROS_WORTH_A_THREAD", 1)
    columns = np.column_stack([rng.randint(20, size=400), 20 + rng.randint(15, size=400)])
    X = sp.csr_matrix((np.ones(800), columns.ravel(), np.arange(0, 801, 2)))
    problem, start = make_problem(X, rng.standard_normal(400), "anova", "direct", 2, None)
    one, two = (run(BlockDescent(n_threads=n), problem, start, max_iter=4, tol=0) for n in (1, 2))
    assert_array_equal(one.history, two.history)
    assert_array_equal(one.parameters.factors[0], two.parameters.factors[0])


def test_warm_start_and_single_precision(small):
    X, y = small
    options = {"solver": "block", "tol": 0, "random_state": 0, "n_components": 3}
    whole = FactorizationMachineRegressor(max_iter=6, **options).fit(X, y)
    halves = FactorizationMachineRegressor(max_iter=3, warm_start=True, **options).fit(X, y).fit(X, y)
    assert_array_equal(whole.components_, halves.components_)
    single = FactorizationMachineRegressor(max_iter=6, **options).fit(X.astype(np.float32), y.astype(np.float32))
    assert single.components_.dtype == np.float32
    assert_allclose(single.objective_, whole.objective_, rtol=1e-4)


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_the_objective_never_increases_without_a_penalty(seed):
    X, y = sp.random(60, 40, density=0.1, format="csc", random_state=seed), np.eye(60)[0]
    given = {"alpha": 1.0, "beta": 0.0, "n_components": 43, "fit_lower": None, "solver": "block", "tol": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that training ended early
        model = FactorizationMachineRegressor(**given, init_scale=1e-6, max_iter=15, random_state=seed).fit(X, y)
    assert np.diff(model.history_).max(initial=0.0) <= 1e-9 * model.history_[0]
