"""Coordinate descent on text: columns that share rows are updated at once, by one thread or by two."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from problems import MULTILINEAR, make_problem

from polyfm.loops.rule import Gibbs
from polyfm.solvers import CoordinateDescent, run, schedule
from polyfm.solvers.schedule import Schedule


@pytest.fixture
def text(monkeypatch):
    """Word counts of 60 documents: some words are in nearly all, many in one; data so few are taken in turns, too."""
    monkeypatch.setattr(schedule, "NONZEROS_WORTH_TURNS", 1)
    monkeypatch.setattr(schedule, "ENTRIES_WORTH_A_TURN", 1)
    rng = np.random.RandomState(3)
    frequency = 1 / np.arange(1.0, 91)
    counts = rng.poisson(3 * frequency, size=(60, 90)).astype(float)
    counts[:, 40] = 0  # a word that never occurs
    counts[7] = 0  # an empty document
    return sp.csr_matrix(counts), rng.standard_normal(60)


def problem_on(text, *arguments, **options):
    X, y = text
    y = np.sign(y) if options.get("loss", "squared") != "squared" else y
    problem, start = make_problem(X, y, *arguments, **options)
    assert problem.design.derived(Schedule).turns is not None
    return problem, start


def test_turns_hold_x_and_say_who_meets(text):
    X, _ = text
    problem, _ = problem_on(text, "anova", "direct", 2)
    order, bounds, own, cuts, crowds, rows, data = problem.design.derived(Schedule).turns
    blocks = problem.design.derived(Schedule).row_blocks
    assert sorted(order) == list(range(X.shape[1]))
    assert len(bounds) > 4
    assert own[0] == bounds[-1]
    turn_of = np.searchsorted(bounds, np.arange(X.shape[1]), side="right")
    X = problem.design._X.toarray()
    for c, j in enumerate(order):
        entries = slice(cuts[c, 0], cuts[c, -1])
        assert_allclose(np.flatnonzero(X[:, j]), rows[entries])
        assert_allclose(X[rows[entries], j], np.ones(len(rows[entries])) if data is None else data[entries])
        for b in range(2):
            inside = rows[cuts[c, b] : cuts[c, b + 1]]
            assert np.all((blocks[b] <= inside) & (inside < blocks[b + 1]))
            if own[b] <= c < own[b + 1]:
                assert cuts[c, b + 1] - cuts[c, b] == cuts[c, 2] - cuts[c, 0]
        together = order[(turn_of == turn_of[c]) & (np.arange(X.shape[1]) < own[0])]
        if c < own[0]:
            assert_allclose(crowds[entries], (X[rows[entries]][:, together] != 0).sum(axis=1))
    assert crowds.max() > 1


def slow_epoch(problem, parameters, loss):
    """One pass as the module's text says it: NumPy, the whole of f anew for each number."""
    order, bounds, own, *_ = problem.design.derived(Schedule).turns
    X = problem.design._X.toarray()
    (group,), P = problem.model.groups, parameters.factors[0]

    def slopes():
        f = problem.shifted_predictions(parameters)
        y = problem.response.y
        return f if loss == "squared" else np.array([problem.loss.derivative(a, b) for a, b in zip(y, f, strict=True)])

    def pass_over(theta, derivative, strength):
        runs = [order[a:b] for a, b in itertools.pairwise(bounds)] + [[j] for j in order[own[0] :]]
        for run_of_columns in runs:
            g = slopes()
            crowd = (X[:, run_of_columns] != 0).sum(axis=1)
            steps = []
            for j in run_of_columns:
                dy = derivative(j)
                eta = problem.loss.curvature * np.sum(crowd * dy**2) + strength
                steps.append(-(g @ dy + strength * theta[j]) / eta)
            for j, step in zip(run_of_columns, steps, strict=True):
                theta[j] += step

    pass_over(parameters.coef, lambda j: X[:, j], 0.5)
    for s in range(len(P)):
        p, lam = P[s, 0], parameters.lambdas[0][s]

        def derivative(j, p=p, lam=lam):
            others = p.copy()
            others[j] = 0
            terms = X * others
            once, twice = terms.sum(axis=1), np.square(terms).sum(axis=1)
            return lam * X[:, j] * (once if group.degree == 2 else (once**2 - twice) / 2)  # products of one, of two

        pass_over(p, derivative, 0.6 * abs(lam))


@pytest.mark.parametrize("degree", [2, 3])
def test_an_epoch_is_the_slow_one(text, degree):
    problem, start = problem_on(text, "anova", "direct", degree, intercept=False, init_scale=0.1)
    expected = start.copy()
    slow_epoch(problem, expected, "squared")
    result = run(CoordinateDescent(), problem, start, max_iter=1, tol=0)
    assert_allclose(result.parameters.coef, expected.coef, rtol=1e-9, atol=1e-12)
    assert_allclose(result.parameters.factors[0], expected.factors[0], rtol=1e-7, atol=1e-10)
    assert_allclose(result.history[-1], problem.objective(expected), rtol=1e-10)


@pytest.mark.parametrize(("kernel", "method"), MULTILINEAR)
@pytest.mark.parametrize("lower", ["explicit", "augment", None])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_two_threads_change_no_bit_and_nothing_rises(text, kernel, method, lower, loss):
    results = []
    for n_threads in (1, 2, 4):
        problem, start = problem_on(text, kernel, method, 3 if lower else 2, lower, loss=loss)
        results.append(run(CoordinateDescent(n_threads=n_threads), problem, start, max_iter=8, tol=0))
    one = results[0]
    assert np.all(np.diff([problem.objective(start), *one.history]) <= 0)
    assert_allclose(one.history[-1], problem.objective(one.parameters), rtol=1e-9)
    for other in results[1:]:
        assert np.array_equal(other.history, one.history)
        for a, b in zip(other.parameters.factors, one.parameters.factors, strict=True):
            assert np.array_equal(a, b)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_turns_lead_where_single_columns_do(text, monkeypatch, dtype):
    X, y = text
    ends = []
    for least in (1, np.inf):
        monkeypatch.setattr(schedule, "NONZEROS_WORTH_TURNS", least)
        problem, start = make_problem(X.astype(dtype), y, "anova", "direct", 2, beta=5.0, k=2)
        ends.append(run(CoordinateDescent(), problem, start, max_iter=400, tol=1e-9).history[-1])
    assert_allclose(*ends, rtol=1e-5 if dtype == np.float64 else 1e-3)


def test_columns_that_are_all_the_same_cannot_raise_the_objective(monkeypatch):
    """Steps as if each were alone would go as many times too far."""
    monkeypatch.setattr(schedule, "NONZEROS_WORTH_TURNS", 1)
    monkeypatch.setattr(schedule, "ENTRIES_WORTH_A_TURN", 1)
    rng = np.random.RandomState(0)
    rare = (rng.uniform(size=(200, 1)) < 0.05) * np.ones((1, 40))
    X = sp.csr_matrix(np.hstack([rare, rng.uniform(size=(200, 5)) < 0.9]) * 1.5)  # not all ones: rows stay
    y = 10 * rare[:, 0] + rng.standard_normal(200)
    problem, start = make_problem(X, y, "anova", "direct", 2, alpha=1e-3, beta=1e-3, init_scale=1.0)
    assert problem.design.derived(Schedule).turns.crowds.max() >= 10
    history = run(CoordinateDescent(), problem, start, max_iter=30, tol=0).history
    assert np.all(np.diff([problem.objective(start), *history]) <= 0)
    assert history[-1] < 0.3 * problem.objective(start)


def test_an_epoch_that_rises_is_done_again_with_shorter_steps(text, monkeypatch):
    """Crowds that lie make every turn overshoot; caution makes up for it."""
    problem, start = problem_on(text, "anova", "direct", 2, init_scale=2.0)
    schedule_of_it = problem.design.derived(Schedule)
    crowds = np.zeros_like(schedule_of_it.turns.crowds)  # no curvature but the penalty's
    schedule_of_it.__dict__["turns"] = schedule_of_it.turns._replace(crowds=crowds)
    before = problem.objective(start)
    history = run(CoordinateDescent(), problem, start, max_iter=3, tol=0).history
    assert np.all(np.diff([before, *history]) <= 0)


def test_samplers_take_single_columns(text):
    """Whose steps are draws from exact conditionals."""
    problem, _ = problem_on(text, "anova", "direct", 2)
    assert CoordinateDescent(rule=Gibbs(1, 2, 3, 1.0))._turns(problem) is None
