"""Variational inference: moments by enumeration, a bound that never falls, exact cases, threads."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from problems import make_problem
from scipy import stats

from polyfm.core.hyper import G0, Groups, Hyper, Tied, entropy
from polyfm.loops import moments
from polyfm.solvers.variational import HOLD, Variational


def data(n=60, d=5, dense=False):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((n, d)) * (rng.uniform(size=(n, d)) < 0.8)
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.standard_normal(n)
    return X if dense else sp.csr_matrix(X), y, rng.uniform(0.5, 2, n)


def problem_of(degree, lower=None, dense=False, **options):
    X, y, weight = data(dense=dense)
    return make_problem(X, y, "anova", "direct", degree, lower, k=2, weight=weight, **options)


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_the_variance_of_a_prediction_is_that_of_all_combinations(degree):
    """Parameters that take mean +- standard deviation with equal chances have all the moments that count: A^m is
    affine in each, and its square has no power above the second."""
    rng = np.random.RandomState(1)
    x, mean, sd = rng.standard_normal(5), rng.standard_normal(5), rng.uniform(0.2, 1, 5)
    values = []
    for signs in itertools.product([-1, 1], repeat=5):
        p = (mean + sd * np.array(signs)) * x
        values.append(sum(np.prod(p[list(chosen)]) for chosen in itertools.combinations(range(5), degree)))
    out = np.zeros(1)
    rows = np.array([0, 5], dtype=np.uint64), None, x
    moments.add_variances((0.0,) * degree, 0, rows, mean[:, None], sd[:, None] ** 2, 0, 1, out)
    assert_allclose(out[0], np.var(values), rtol=1e-10)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(
    ("degree", "lower", "dense"), [(2, None, False), (2, None, True), (2, "augment", False), (3, "explicit", False)]
)
def test_the_bound_never_falls_and_squares_are_tracked(degree, lower, dense, tied):
    problem, start = problem_of(degree, lower, dense)
    solver = Variational(groups=np.array([0, 0, 1, 1, 1]), tied=tied)
    state = solver.init_state(problem, start)
    before = -solver.objective(problem, state)
    for epoch in range(40):
        bound = -solver.update(problem, state)
        assert bound >= before - 1e-9 * abs(bound), epoch
        before = bound
        if epoch == HOLD + 1:
            tracked, residuals = state.squares, state.S[:, 0].copy()
            solver._refresh(problem, state)
            assert_allclose(tracked, state.squares, rtol=1e-9)
            assert_allclose(residuals, state.S[:, 0], atol=1e-9)


def test_every_coordinate_is_at_the_top_of_the_bound():
    """At the end, no mean, variance or hyper-parameter moved a little makes the bound higher."""
    problem, start = problem_of(3)
    solver = Variational()
    state = solver.init_state(problem, start)
    for _ in range(400):
        solver.update(problem, state)
    solver._refresh(problem, state)
    best = solver.bound(problem, state)
    for part in state.parts:
        for array in (part.mean, part.variance, part.hyper.rate, part.hyper.mean):
            for index in [(0, 0), (len(array) - 1, array.shape[1] - 1)]:
                for factor in (0.97, 1.03):
                    old = array[index]
                    array[index] = old * factor
                    solver._publish(problem, state)
                    solver._refresh(problem, state)
                    assert solver.bound(problem, state) <= best + 1e-7 * abs(best)
                    array[index] = old
    solver._publish(problem, state)


def test_a_tied_precision_is_at_the_top_of_the_bound():
    """No mean, no variance and no noise a little off makes the bound higher."""
    problem, start = problem_of(3, "augment")
    solver = Variational(tied=True)
    state = solver.init_state(problem, start)
    for _ in range(400):
        solver.update(problem, state)
    best, likelihood, bases = solver.bound(problem, state), state.likelihood, state.parts[-1]
    assert len(state.parts) == 2  # the linear weights have a prior of their own
    assert_allclose(bases.hyper.prior(likelihood.tau).strength / likelihood.tau, bases.hyper.strength)
    for name in ("rate", "shape"):
        old = getattr(likelihood, name)
        for factor in (0.99, 1.01):
            setattr(likelihood, name, old * factor)
            assert solver.bound(problem, state) < best
        setattr(likelihood, name, old)
    for array in (bases.mean, bases.variance):
        for index in [(0, 0), (1, 6)]:
            for factor in (0.97, 1.03):
                old = array[index]
                array[index] = old * factor
                solver._publish(problem, state)
                solver._refresh(problem, state)
                assert solver.bound(problem, state) <= best + 1e-7 * abs(best)
                array[index] = old


def test_what_the_bound_has_of_tied_parameters_is_their_expected_log_density():
    rng = np.random.RandomState(0)
    groups = Groups.from_labels(np.zeros(3, dtype=int))
    theta, s, tau = rng.standard_normal((2, 3)), 2.5, 0.7
    tied = Tied(groups, 2, s)
    variances = rng.uniform(0.5, 1, (2, 3))
    draws = theta + np.sqrt(variances) * rng.standard_normal((200_000, 2, 3))
    expected = stats.norm(0, 1 / np.sqrt(s * tau)).logpdf(draws).sum(axis=(1, 2)).mean()
    by_rows = 0.5 * tied.n_tied * np.log(tau / (2 * np.pi)) - 0.5 * tau * tied.tied_squares(theta, variances)
    assert_allclose(by_rows + tied.bound(theta, variances) - entropy(variances), expected, rtol=5e-3)


def test_a_single_feature_has_the_exact_posterior():
    """One linear weight with its prior held: mean-field is exact."""
    rng = np.random.RandomState(0)
    x, n = rng.standard_normal(50), 50
    y = 2 * x + rng.standard_normal(n)
    problem, start = make_problem(sp.csr_matrix(x[:, None]), y, "anova", "direct", 2, k=1, intercept=False)
    solver = Variational()
    state = solver.init_state(problem, start)
    for _ in range(HOLD):
        tau = state.likelihood.tau
        solver.update(problem, state)
    weight = state.parts[0]
    precision = tau * x @ x + weight.hyper.precision[0, 0]
    assert_allclose(weight.variance[0, 0], 1 / precision, rtol=1e-10)
    assert_allclose(weight.mean[0, 0], tau * x @ y / precision, rtol=1e-8)


def test_hyper_parameters_given_a_sample_follow_the_formulas():
    groups = Groups.from_labels(np.array([0, 0, 0, 1]))
    theta = np.array([[1.0, 2.0, 4.0, -3.0]])
    hyper = Hyper.held(groups, 1, 1.0, 0.5).given(theta, None)
    assert_allclose(hyper.mean[:, 0], [7 / 4, -3 / 2])
    assert_allclose(hyper.shape[:, 0], [2, 1])
    assert_allclose(hyper.rate[:, 0], [(0.5 + 21 - 49 / 4) / 2, (0.5 + 9 - 9 / (G0 + 1)) / 2])
    rng = np.random.default_rng(0)
    draws = [hyper.draw(rng) for _ in range(4000)]
    precisions = np.array([draw.precision[0, 0] for draw in draws])
    assert_allclose(precisions.mean(), hyper.precision[0, 0], rtol=0.05)
    assert_allclose(np.mean([draw.mean[0, 0] for draw in draws]), 7 / 4, atol=0.1)


def test_features_never_seen_are_at_their_groups_mean():
    X, y, _ = data()
    X = sp.hstack([X, sp.csr_matrix((X.shape[0], 1))]).tocsr()
    problem, start = make_problem(X, y + 3 * X[:, [0]].toarray()[:, 0], "anova", "direct", 2, k=2)
    solver = Variational(groups=np.array([0, 1, 1, 1, 1, 0]))
    state = solver.init_state(problem, start)
    for _ in range(300):
        solver.update(problem, state)
    linear = state.parts[0]
    assert_allclose(linear.mean[0, 5], linear.hyper.mean[0, 0], rtol=1e-3)
    assert abs(linear.mean[0, 5]) > 0.1


def test_threads_change_no_bit():
    rng = np.random.RandomState(0)
    n = 20_000
    columns = np.column_stack([rng.randint(300, size=n), 300 + rng.randint(200, size=n)])
    X = sp.csr_matrix((np.ones(2 * n), columns.ravel(), np.arange(0, 2 * n + 1, 2)), shape=(n, 500))
    y, found = rng.standard_normal(n), []
    for n_threads in (1, 3):
        problem, start = make_problem(X, y, "anova", "direct", 2, k=3)
        solver = Variational(n_threads=n_threads)
        state = solver.init_state(problem, start)
        found.append(([solver.update(problem, state) for _ in range(3)], state.parts[1].mean))
    assert found[0][0] == found[1][0]
    assert_array_equal(found[0][1], found[1][1])
