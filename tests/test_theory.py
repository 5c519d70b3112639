"""The paper's lemmas and theorems, as tests."""

from itertools import combinations, permutations

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.datasets import load_diabetes

from polyfm import FactorizationMachineRegressor, PolynomialNetworkRegressor
from polyfm.core.design import Design
from polyfm.core.layout import expand
from polyfm.core.model import Group, build_model
from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.kernels import anova_kernel, homogeneous_kernel
from polyfm.loops.forms import form_of
from polyfm.losses import as_loss
from polyfm.solvers import CoordinateDescent

D = 5
numbers = st.floats(-2, 2, allow_subnormal=False)
vectors = arrays(float, D, elements=numbers)
bases = arrays(float, (3, D), elements=numbers)
few = settings(max_examples=25, deadline=None)
KERNELS = {"homogeneous": homogeneous_kernel, "anova": anova_kernel}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def tensor(vectors_):
    """u_1 (x) ... (x) u_m."""
    W = vectors_[0]
    for u in vectors_[1:]:
        W = np.multiply.outer(W, u)
    return W


def symmetrised(M):
    orders = list(permutations(range(M.ndim)))
    return sum(np.transpose(M, order) for order in orders) / len(orders)


def strict_product(W, X):
    """<W, X>_>: over increasing indices alone."""
    return sum(W[js] * X[js] for js in combinations(range(W.shape[0]), W.ndim))


@given(vectors, vectors, bases, arrays(float, 3, elements=numbers))
@few
def test_lemma_1_networks_and_machines_are_kernel_expansions(x, w, P, lambdas):
    network = w @ x + np.sum(lambdas * (P @ x) ** 2)
    assert_allclose(w @ x + homogeneous_kernel(x[None], P, 2)[0] @ lambdas, network, atol=1e-9)
    W = P.T @ P
    machine = w @ x + sum(W[i, j] * x[i] * x[j] for i, j in combinations(range(D), 2))
    assert_allclose(w @ x + anova_kernel(x[None], P, 2)[0].sum(), machine, atol=1e-9)


@given(vectors, vectors, st.integers(0, D - 1), st.integers(1, 4), numbers)
@few
def test_lemma_2_the_anova_kernel_is_multilinear(p, x, j, degree, new):
    def kernel(p, x, m):
        return anova_kernel(x[None], p[None], m)[0, 0] if m else 1.0

    rest = np.delete(p, j), np.delete(x, j)
    expected = (kernel(*rest, degree) if degree < D else 0.0) + p[j] * x[j] * kernel(*rest, degree - 1)
    assert_allclose(kernel(p, x, degree), expected, atol=1e-9)
    moved = p.copy()
    moved[j] = new
    middle = (p + moved) / 2
    assert_allclose(2 * kernel(middle, x, degree), kernel(p, x, degree) + kernel(moved, x, degree), atol=1e-9)


@given(vectors, vectors)
@few
def test_lemma_3_low_degrees_have_closed_forms(p, x):
    c = p * x
    two = (c.sum() ** 2 - (c**2).sum()) / 2
    three = (c.sum() ** 3 - 3 * (c**2).sum() * c.sum() + 2 * (c**3).sum()) / 6
    assert_allclose(anova_kernel(x[None], p[None], 2), two, atol=1e-9)
    assert_allclose(anova_kernel(x[None], p[None], 3), three, atol=1e-9)


@given(arrays(float, (6, D), elements=numbers), bases, arrays(float, (2, 3), elements=numbers), st.integers(0, D - 1),
       st.floats(0, 1), st.sampled_from(["squared", "squared_hinge", "logistic"]), st.integers(2, 4))  # fmt: skip
@few
def test_theorem_1_the_direct_objective_is_convex_in_rows_of_p_and_in_lambda(X, P, values, j, c, loss, degree):
    """Convex along every segment that moves one feature of all bases at once, or lambda."""
    y = np.sign(X[:, 0] + 0.1)
    model = build_model("anova", "direct", degree, 3, None, False, False)
    problem = Problem.with_target(Design(X), model, as_loss(loss), y, None, 0.0, 0.0)

    def objective(P, lams):
        return problem.objective(Parameters((P[:, None, :],), (lams,), np.zeros(D), np.zeros(1)))

    one, two = P.copy(), P.copy()
    one[:, j], two[:, j] = values
    ones = np.ones(3)
    chord = c * objective(one, ones) + (1 - c) * objective(two, ones)
    assert objective(c * one + (1 - c) * two, ones) <= chord * (1 + 1e-9) + 1e-9
    chord = c * objective(P, values[0]) + (1 - c) * objective(P, values[1])
    assert objective(P, c * values[0] + (1 - c) * values[1]) <= chord * (1 + 1e-9) + 1e-9


@given(arrays(float, (4, D), elements=numbers), bases, arrays(float, 3, elements=numbers), st.sampled_from([3, 5]))
@few
def test_lemma_4_odd_degrees_absorb_lambda(X, P, lambdas, degree):
    V = (np.sign(lambdas) * np.abs(lambdas) ** (1 / degree))[:, None] * P
    for kernel in KERNELS.values():
        assert_allclose(kernel(X, V, degree).sum(axis=1), kernel(X, P, degree) @ lambdas, atol=1e-7)


def test_lemma_4_even_degrees_gain_from_lambda():
    """-x1 x2 - x1 x3 - x2 x3 has rank one with lambda = -1, and no p with lambda = 1 comes near."""
    X = np.random.RandomState(0).standard_normal((60, 3))
    y = -anova_kernel(X, np.ones((1, 3)), 2)[:, 0]
    options = {"n_components": 1, "alpha": 0.0, "beta": 0.0, "fit_linear": False, "fit_intercept": False, "tol": 1e-10}
    fitted, fixed = (
        [FactorizationMachineRegressor(fit_lambdas=f, random_state=seed, **options).fit(X, y) for seed in range(8)]
        for f in (True, False)
    )
    best = min(fitted, key=lambda model: model.objective_)
    assert best.lambdas_[0] < 0
    assert best.objective_ < 1e-6
    assert min(model.objective_ for model in fixed) > 1


@pytest.mark.parametrize("seed", range(3))
def test_where_lambda_starts_does_not_matter(seed):
    """Section 9.1: the objective is convex in lambda, which is fitted before P. (Up to the lasso's tolerance.)"""
    X, y = load_diabetes(return_X_y=True)
    X, y, rng = (X - X.mean(axis=0)) / X.std(axis=0), y - y.mean(), np.random.RandomState(seed)
    model = build_model("anova", "direct", 2, 4, None, False, False)
    problem = Problem.with_target(Design(X), model, as_loss("squared"), y, None, 0.0, 10.0)
    P, solver, objectives = 0.1 * rng.standard_normal((4, 1, 10)), CoordinateDescent(fit_lambdas=True), []
    for lambdas in (np.ones(4), np.array([1.0, -1.0, 1.0, -1.0]), 10 * rng.standard_normal(4)):
        start = Parameters((P.copy(),), (lambdas,), np.zeros(10), np.zeros(1))
        objectives.append(solver.update(problem, solver.init_state(problem, start.copy())))
    assert_allclose(objectives, objectives[0], rtol=5e-5)


def test_lemma_4_odd_degrees_gain_nothing_from_lambda(rng):
    X = rng.standard_normal((60, 4))
    y = -anova_kernel(X, np.ones((1, 4)), 3)[:, 0]
    options = {"degree": 3, "fit_lower": None, "n_components": 1, "beta": 0.0, "tol": 1e-9, "max_iter": 500}
    for fit_lambdas in (True, False):
        models = [
            FactorizationMachineRegressor(fit_lambdas=fit_lambdas, random_state=seed, **options) for seed in range(10)
        ]
        assert max(model.fit(X, y).score(X, y) for model in models) > 1 - 1e-4


@given(vectors, bases, arrays(float, 3, elements=numbers), st.sampled_from([2, 3]))
@few
def test_lemma_5_tensors_are_kernel_expansions(x, P, lambdas, degree):
    W = sum(lam * tensor([p] * degree) for lam, p in zip(lambdas, P, strict=True))
    X = tensor([x] * degree)
    assert_allclose(np.sum(W * X), homogeneous_kernel(x[None], P, degree)[0] @ lambdas, atol=1e-8)
    assert_allclose(strict_product(W, X), anova_kernel(x[None], P, degree)[0] @ lambdas, atol=1e-8)


@given(vectors, st.sampled_from([2, 3, 4]).flatmap(lambda m: arrays(float, (m, D), elements=numbers)))
@few
def test_lemma_6_symmetrisation_changes_no_prediction(x, U):
    M, X = tensor(list(U)), tensor([x] * len(U))
    assert_allclose(np.sum(symmetrised(M) * X), np.sum(M * X), atol=1e-8)
    for kernel, expected in (("homogeneous", np.sum(M * X)), ("anova", strict_product(symmetrised(M), X))):
        group = Group(form_of(kernel, "lifted", len(U)), n_bases=1)
        assert_allclose(expand(group, U[None], Design(x[None]))[0, 0], expected, atol=1e-8)


# -- Theorem 2: three problems with one minimum -----------------------------------------------------------------------


def nuclear_minimum(X, y, kernel, beta, n_steps=20_000):
    """min over M of sum_i (y_i - <S(M), x_i x_i^T>)^2 / 2 + beta |M|_*, by accelerated proximal gradient."""
    n, d = X.shape
    F = np.einsum("ni,nj->nij", X, X)
    if kernel == "anova":
        F *= (1 - np.eye(d)) / 2  # each pair once, shared by its two entries
    F = F.reshape(n, -1)
    step = 1 / np.linalg.norm(F, 2) ** 2
    M = previous = np.zeros(d * d)
    for i in range(n_steps):
        Z = M + i / (i + 3) * (M - previous)
        u, s, v = np.linalg.svd((Z - step * F.T @ (F @ Z - y)).reshape(d, d))
        previous, M = M, ((u * np.maximum(s - step * beta, 0)) @ v).ravel()
    return 0.5 * np.sum((F @ M - y) ** 2) + beta * np.linalg.norm(M.reshape(d, d), "nuc")


def direct_minimum(X, y, kernel, beta, seed=0):
    """min over P of the direct objective with as many bases of either sign as there are features, by L-BFGS."""
    d = X.shape[1]
    lams = np.r_[np.ones(d), -np.ones(d)]

    def objective(p):
        P = p.reshape(2 * d, d)
        Z = X @ P.T
        f = (Z**2 @ lams) if kernel == "homogeneous" else (Z**2 - X**2 @ (P**2).T) @ lams / 2
        r = f - y
        G = 2 * (r[:, None] * Z).T @ X
        if kernel == "anova":
            G = G / 2 - P * (r @ X**2)
        return 0.5 * r @ r + beta * np.sum(P**2), (lams[:, None] * G + 2 * beta * P).ravel()

    start = np.random.RandomState(seed).standard_normal(2 * d * d)
    return minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-14}).fun


@pytest.mark.parametrize("kernel", ["homogeneous", "anova"])
def test_theorem_2_three_regularised_problems_have_one_minimum(kernel):
    rng = np.random.RandomState(3)
    X, beta = rng.standard_normal((50, 5)), 4.0
    A = rng.standard_normal((5, 5))
    y = np.einsum("ni,ij,nj->n", X, A + A.T, X) / 3 + rng.standard_normal(50)
    kind = {"homogeneous": PolynomialNetworkRegressor, "anova": FactorizationMachineRegressor}[kernel]
    options = {
        "fit_lower": None, "fit_linear": False, "fit_intercept": False, "beta": beta, "tol": 1e-9, "max_iter": 20_000,
        "alpha": 1.0, "random_state": 0,
    }  # fmt: skip
    nuclear = nuclear_minimum(X, y, kernel, beta)
    lifted = kind(method="lifted", n_components=5, **options).fit(X, y)
    assert_allclose(lifted.objective_, nuclear, rtol=1e-4)
    assert_allclose(direct_minimum(X, y, kernel, beta), nuclear, rtol=1e-4)
    # The eigendecomposition carries the minimum over: sum_s |lambda_s| |p_s|^2 is the nuclear norm of W.
    assert_allclose(reference.objective(lifted.to_direct(), X, y), nuclear, rtol=1e-4)
    if kernel == "anova":
        direct = kind(method="direct", n_components=10, fit_lambdas=True, init_lambdas="random_signs", **options)
        assert_allclose(direct.fit(X, y).objective_, nuclear, rtol=1e-4)
