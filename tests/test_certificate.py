"""Certificates: bounds that hold, constants that are right, and the theorem about local minima of the direct form."""

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from numpy.testing import assert_allclose
from problems import make_problem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polyfm import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkRegressor,
    certify,
)
from polyfm.core.duality import Convex, assess
from polyfm.core.lanczos import lanczos
from polyfm.core.linear import fit_linear, slopes
from polyfm.core.parameters import Parameters
from polyfm.core.spectrum import Curvature, Pairs
from polyfm.losses import as_loss
from polyfm.solvers import make_solver, run

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
TRUE_SLOPES = {
    "squared": lambda y, f: f - y,
    "logistic": lambda y, f: -y / (1 + np.exp(y * f)),
    "squared_hinge": lambda y, f: -2 * y * np.maximum(1 - y * f, 0),
}
BENDS = {"squared": 1.0, "logistic": 0.25, "squared_hinge": 2.0}
EXACT = {"few": 100, "tol": 1e-3}


def data(rng, loss, n=40, d=4):
    X = rng.standard_normal((n, d))
    y = X[:, 0] + 2 * X[:, 1] * X[:, 2] - X[:, 0] * X[:, 3] + 0.3 * rng.standard_normal(n)
    return X, y if loss == "squared" else np.sign(y), rng.randint(1, 4, n).astype(float)


def features_of(X, repeats):
    """X_i of <M, X_i>, by row."""
    outer = np.einsum("ij,ik->ijk", X, X)
    return outer if repeats else 0.5 * outer * (1 - np.eye(X.shape[1]))


def best_matrix(X, y, c, loss, repeats, signed, linear, alpha, beta, steps=4000):
    """The convex problem over full matrices, by accelerated proximal gradients: slow and obvious, with restarts."""
    n, d = X.shape
    Z = features_of(X, repeats).reshape(n, -1)
    F = np.hstack([Z, X * linear, np.ones((n, 1))])
    step = 1 / (BENDS[loss] * np.linalg.norm(np.sqrt(c)[:, None] * F, 2) ** 2 + alpha)
    ridge = np.concatenate([np.zeros(d * d), np.full(d, alpha), [0.0]])

    def value(theta, norm):
        return c @ reference.LOSSES[loss](y, F @ theta) + 0.5 * ridge @ theta**2 + beta * norm

    theta, norm = np.zeros(F.shape[1]), 0.0
    momentum, t, best = theta, 1.0, np.inf
    for _ in range(steps):
        gradient = F.T @ (c * TRUE_SLOPES[loss](y, F @ momentum)) + ridge * momentum
        moved = momentum - step * gradient
        values, vectors = np.linalg.eigh(moved[: d * d].reshape(d, d))
        shrunk = np.sign(values) * np.maximum(np.abs(values) - step * beta, 0)
        shrunk = shrunk if signed else np.maximum(shrunk, 0)
        moved[: d * d] = ((vectors * shrunk) @ vectors.T).ravel()
        norm, now = np.abs(shrunk).sum(), (1 + np.sqrt(1 + 4 * t * t)) / 2
        if value(moved, norm) > best:
            momentum, t = theta, 1.0
            continue
        best = value(moved, norm)
        momentum, theta, t = moved + (t - 1) / now * (moved - theta), moved, now
    return best


def trained(problem, start, tol=1e-13, max_iter=400):
    return run(make_solver("newton"), problem, start, max_iter=max_iter, tol=tol).parameters


def signs_for(signed, k):
    return np.resize([1.0, -1.0], k) if signed else np.ones(k)


@pytest.mark.parametrize("kernel", ["anova", "homogeneous"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("linear", [False, True])
def test_bounds_meet_the_optimum_over_full_matrices(rng, kernel, loss, signed, linear):
    X, y, c = data(rng, loss)
    alpha, repeats, signs = 0.7, kernel == "homogeneous", (1, -1) if signed else (1,)
    options = {
        "k": 10,
        "loss": loss,
        "weight": c,
        "alpha": alpha,
        "linear": linear,
        "init_lambdas": signs_for(signed, 10),
    }
    problem, start = make_problem(X, y, kernel, "direct", 2, beta=1.0, **options)
    alone = start._replace(factors=(np.zeros_like(start.factors[0]),))
    convex = Convex(problem, signs)
    f, _ = convex.refitted(alone, convex.predictions(alone))
    largest = convex.curvature(convex.slopes(f)).extreme(signs, **EXACT).value
    beta = 0.15 * largest
    problem, start = make_problem(X, y, kernel, "direct", 2, beta=beta, **options)
    expected = best_matrix(X, y, c, loss, repeats, signed, linear, alpha, beta)
    found = assess(Convex(problem, signs), trained(problem, start), **EXACT)
    assert_allclose(found.objective, expected, rtol=1e-5)
    assert found.bound <= expected * (1 + 1e-9)
    assert found.gap <= 2e-3 * found.objective
    for part, rank in ((1.001, 0), (0.98, 1)):  # M = 0 just above, and not just below
        problem, _ = make_problem(X, y, kernel, "direct", 2, beta=part * largest, **options)
        point = alone._replace(coef=alone.coef.copy())
        convex = Convex(problem, signs)
        _, best = convex.refitted(point, convex.predictions(point))
        at_zero = point._replace(coef=best.coef, intercept=np.array([best.intercept]))
        seen = assess(convex, at_zero, **EXACT)
        assert (seen.gap < 1e-6 * seen.objective) == (rank == 0)
        assert (seen.reach <= 1) == (rank == 0)


class Plain:
    """The logistic loss without its conjugate, as a user would write it."""

    curvature = 0.25

    def value(self, y, f):
        return max(-y * f, 0.0) + np.log1p(np.exp(-abs(f)))

    def derivative(self, y, f):
        return -y / (1.0 + np.exp(y * f))


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge", Plain()])
@pytest.mark.parametrize("kernel", ["anova", "homogeneous"])
def test_no_bound_is_ever_above_an_objective(rng, loss, kernel):
    """Random models, good and bad, each against the smallest objective that any of them has."""
    X, y, c = data(rng, loss if isinstance(loss, str) else "logistic", n=30)
    for signed in (False, True):
        for intercept in (False, True):
            k, signs = 8, (1, -1) if signed else (1,)
            problem, start = make_problem(
                X, y, kernel, "direct", 2, k=k, loss=loss, weight=c, alpha=0.4, beta=2.0, intercept=intercept,
                init_lambdas=signs_for(signed, k),
            )  # fmt: skip
            convex = Convex(problem, signs)
            best = assess(convex, trained(problem, start, max_iter=200), **EXACT)
            for scale in (0.0, 0.1, 1.0, 5.0):
                point = Parameters(
                    (scale * rng.standard_normal(start.factors[0].shape),), start.lambdas,
                    scale * rng.standard_normal(4), np.array([scale * intercept]),
                )  # fmt: skip
                seen = assess(convex, point, **EXACT)
                assert 0 <= seen.bound <= best.objective * (1 + 1e-9)
            assert best.gap <= 0.02 * best.objective


def test_objectives_beyond_what_numbers_hold_are_refused(rng):
    X, y, _ = data(rng, "squared")
    problem, start = make_problem(X, y, "anova", "direct", 2, k=3)
    with pytest.raises(ValueError, match="objective of this model is inf"):
        assess(Convex(problem, (1,)), start._replace(coef=np.full(4, 1e200)), **EXACT)


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("n_dummies", [0, 1])
@pytest.mark.parametrize("kind", ["dense", "sparse", "pairs"])
def test_all_products_with_the_curvature_are_those_of_its_definition(rng, repeats, n_dummies, kind):
    n, d = 60, 9
    X = rng.standard_normal((n, d))
    if kind == "pairs":
        X[:, :4] *= np.eye(4)[rng.randint(0, 4, n)]
        X[:, 4:] *= np.eye(5)[rng.randint(0, 5, n)]
    g, root, v = rng.standard_normal(n), rng.uniform(0.5, 2, d + n_dummies), rng.standard_normal(d + n_dummies)
    given = X if kind == "dense" else sp.csr_array(X)
    whole = np.hstack([X, np.ones((n, n_dummies))])
    expected = np.tensordot(g, features_of(whole, repeats), 1) / np.outer(root, root)
    A = Curvature(given, g, repeats=repeats, n_dummies=n_dummies, root=root, pairs=Pairs.of(given))
    assert (A.pairs is not None) == (kind == "pairs")
    assert_allclose(A(v), expected @ v, atol=1e-10)
    assert_allclose(A.dense(), expected, atol=1e-10)
    values = np.linalg.eigvalsh(expected)
    for signs, far in (((1,), -values[0]), ((-1,), values[-1]), ((1, -1), np.abs(values).max())):
        assert_allclose(A.extreme(signs, few=100, tol=1e-3).value, far)
        found = A.extreme(signs, few=0, tol=1e-3)
        assert found.value * (1 - 1e-9) <= far <= found.value + found.error


@pytest.mark.parametrize("seed", range(5))
def test_lanczos_finds_the_ends_of_a_spectrum_to_its_tolerance(seed):
    """Eigenvalues that lie closer and closer towards both ends, one of which is ten times as far as the other."""
    values = np.cos(np.linspace(0, np.pi, 3000))
    values[values < 0] *= 10
    for tol in (1e-2, 1e-3):
        found = lanczos(lambda v: values * v, 3000, (1, -1), tol=tol, seed=seed)
        assert -10 <= found.lowest <= -10 * (1 - tol)
        short = lanczos(lambda v: values * v, 3000, (-1,), tol=tol, seed=seed)
        assert 1 - 10 * tol <= short.highest <= 1
        assert found.n_products <= 16 / np.sqrt(tol) + 1


def test_at_the_optimum_every_basis_is_an_eigenvector(rng):
    X, y, c = data(rng, "squared")
    problem, start = make_problem(X, y, "anova", "direct", 2, k=6, weight=c, alpha=0.7, beta=6.0)
    parameters = trained(problem, start)
    convex = Convex(problem, (1,))
    g = convex.slopes(convex.predictions(parameters))
    A = Curvature(X, g, repeats=False).dense()
    P = parameters.factors[0][:, 0]
    assert np.abs(P).max() > 0.1
    assert_allclose(P @ A, -6.0 * P, atol=1e-4 * np.abs(P @ A).max())
    assert_allclose(X.T @ g, -0.7 * parameters.coef, atol=1e-4 * np.abs(X.T @ g).max())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("signed", [False, True])
def test_a_local_minimum_with_a_spare_basis_of_each_sign_is_global(seed, signed):
    """docs/certificate.md: linearly dependent bases of every sign that is allowed leave no bad local minimum."""
    rng = np.random.RandomState(seed)
    X, y, c = data(rng, "squared")
    k = 10 if signed else 5  # of each sign one more than there are features
    problem, start = make_problem(
        X, y, "anova", "direct", 2, k=k, weight=c, alpha=0.7, beta=3.0, init_scale=10.0**-(seed % 3), seed=seed,
        init_lambdas=signs_for(signed, k),
    )  # fmt: skip
    found = assess(Convex(problem, (1, -1) if signed else (1,)), trained(problem, start), **EXACT)
    assert found.gap <= 1e-3 * found.objective


def test_without_a_spare_basis_a_local_minimum_need_not_be_global(rng):
    X, y, c = data(rng, "squared")
    problem, start = make_problem(X, y, "anova", "direct", 2, k=1, weight=c, alpha=0.7, beta=1.0)
    found = assess(Convex(problem, (1,)), trained(problem, start), **EXACT)
    assert found.gap > 1e-2 * found.objective
    assert found.reach > 1.1


def test_one_hot_pairs_lose_nothing_by_positive_lambdas(rng):
    n = 300
    columns = np.column_stack([rng.randint(0, 8, n), 8 + rng.randint(0, 7, n)])
    X = sp.csr_matrix((np.ones(2 * n), columns.ravel(), np.arange(n + 1) * 2), shape=(n, 15))
    effect = rng.standard_normal((8, 2)) @ rng.standard_normal((2, 7))
    y = effect[columns[:, 0], columns[:, 1] - 8] + 0.3 * rng.standard_normal(n)
    objectives = []
    for signed in (False, True):
        signs = (1, -1) if signed else (1,)
        problem, start = make_problem(
            X, y, "anova", "direct", 2, k=16, alpha=1.0, beta=2.0, init_lambdas=signs_for(signed, 16)
        )
        found = assess(Convex(problem, signs), trained(problem, start), **EXACT)
        assert found.gap <= 1e-3 * found.objective
        objectives.append(found.objective)
    assert_allclose(objectives[0], objectives[1], rtol=1e-4)


# -- the public function ----------------------------------------------------------------------------------------------

TRAINED = {"alpha": 1.0, "tol": 1e-11, "max_iter": 3000, "random_state": 0}


@pytest.mark.parametrize(
    ("model", "cone"),
    [
        (FactorizationMachineRegressor(beta=4.0, **TRAINED), "positive semi-definite"),
        (FactorizationMachineRegressor(beta=4.0, init_lambdas=[-1.0] * 10, **TRAINED), "negative semi-definite"),
        (FactorizationMachineRegressor(beta=4.0, init_lambdas="random_signs", n_components=20, **TRAINED), "signed"),
        (FactorizationMachineRegressor(beta=4.0, method="lifted", **TRAINED), "signed"),
        (
            FactorizationMachineRegressor(beta=4.0, fit_lower="augment", fit_linear=False, **TRAINED),
            "positive semi-definite",
        ),
        (FactorizationMachineRegressor(beta=[1.0, 4.0, 4.0, 9.0], **TRAINED), "positive semi-definite"),
        (PolynomialNetworkRegressor(beta=4.0, solver="newton", **TRAINED), "signed"),
    ],
)
def test_every_kind_of_model_is_certified(rng, model, cone):
    X, y, weight = data(rng, "squared", n=80)
    found = certify(model.fit(X, y, sample_weight=weight), X, y, sample_weight=weight)
    assert found.cone == cone
    assert found.objective <= model.objective_ * (1 + 1e-9)
    assert found.relative_gap < 5e-3
    assert found.exact
    assert found.distance is not None
    assert "can be lowered by at most" in str(found)
    twice = certify(model, sp.csr_matrix(np.repeat(X, weight.astype(int), axis=0)), np.repeat(y, weight.astype(int)))
    assert_allclose(twice.lower_bound, found.lower_bound, rtol=1e-9)


def test_direct_and_lifted_forms_of_a_model_have_one_certificate(rng):
    X, y, _ = data(rng, "squared", n=80)
    lifted = FactorizationMachineRegressor(beta=4.0, method="lifted", **TRAINED).fit(X, y)
    a, b = certify(lifted, X, y), certify(lifted.to_direct(), X, y)
    assert_allclose(a.objective, b.objective, rtol=1e-9)
    assert_allclose(a.lower_bound, b.lower_bound, rtol=1e-6)
    assert a.cone == b.cone == "signed"


def test_classes_add_up_and_a_users_own_loss_is_certified(rng):
    X, y, _ = data(rng, "squared", n=80)
    classes = np.digitize(y, [-1, 1])
    several = FactorizationMachineClassifier(beta=2.0, **TRAINED).fit(X, classes)
    found = certify(several, X, classes)
    assert len(found.parts) == 3
    assert found.objective == pytest.approx(sum(part.objective for part in found.parts))
    assert found.lower_bound == pytest.approx(sum(part.lower_bound for part in found.parts))
    assert found.relative_gap < 5e-3
    assert found.distance is None
    own = FactorizationMachineClassifier(beta=2.0, loss=Plain(), **TRAINED).fit(X, classes > 0)
    named = FactorizationMachineClassifier(beta=2.0, **TRAINED).fit(X, classes > 0)
    a, b = certify(own, X, classes > 0), certify(named, X, classes > 0)
    assert_allclose(a.objective, b.objective, rtol=1e-6)
    assert b.lower_bound * (1 - 1e-2) <= a.lower_bound <= b.objective * (1 + 1e-9)


def test_rows_of_no_weight_single_precision_and_pipelines(rng):
    X, y, weight = data(rng, "squared", n=80)
    model = make_pipeline(StandardScaler(), FactorizationMachineRegressor(beta=4.0, **TRAINED)).fit(X, y)
    assert certify(model, X, y).relative_gap < 5e-3
    weight[::3] = 0.0
    plain = FactorizationMachineRegressor(beta=4.0, **TRAINED).fit(X, y, sample_weight=weight)
    a = certify(plain, X, y, sample_weight=weight)
    b = certify(plain, X[weight > 0], y[weight > 0], sample_weight=weight[weight > 0])
    assert_allclose(a.lower_bound, b.lower_bound)
    single = FactorizationMachineRegressor(beta=4.0, **TRAINED).fit(X.astype(np.float32), y)
    assert certify(single, X.astype(np.float32), y).relative_gap < 5e-3


def test_many_features_are_certified_to_a_tolerance_without_a_matrix_of_all_pairs(rng, monkeypatch):
    monkeypatch.delattr(Curvature, "dense")
    n, d = 200, 1500
    X = sp.random(n, d, density=0.01, format="csr", random_state=0)
    y = rng.standard_normal(n)
    model = FactorizationMachineRegressor(alpha=1.0, beta=0.05, random_state=0, n_components=3).fit(X, y)
    found = certify(model, X, y)
    assert not found.exact
    assert found.tolerance == 1e-3
    assert found.n_products < 2 * d
    assert 0 <= found.lower_bound <= found.objective
    assert "tolerance" in str(found)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"degree": 3}, "degree=2"), ({"alpha": 0.0}, "alpha > 0"), ({"beta": 0.0}, "beta > 0")],
)
def test_what_has_no_certificate_is_refused(rng, change, words):
    X, y, _ = data(rng, "squared")
    model = FactorizationMachineRegressor(**{"alpha": 1.0, "beta": 1.0, "random_state": 0, **change}).fit(X, y)
    with pytest.raises(ValueError, match=words):
        certify(model, X, y)
    with pytest.raises(TypeError, match="estimators of polyfm"):
        certify(StandardScaler().fit(X), X, y)


class Negative(Plain):
    def value(self, y, f):
        return max(-y * f, 0.0) + np.log1p(np.exp(-abs(f))) - 1.0


class WrongConjugate(Plain):
    def conjugate(self, y, u):
        return u


def test_losses_without_a_bound_or_with_a_wrong_conjugate_are_refused(rng):
    X, y, _ = data(rng, "logistic")
    model = FactorizationMachineClassifier(alpha=1.0, beta=1.0, loss=Negative(), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="negative"):
        certify(model, X, y)
    with pytest.raises(ValueError, match="conjugate"):
        as_loss(WrongConjugate())


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
def test_conjugates_are_suprema(loss):
    for y in (-1.0, 1.0):
        f = np.linspace(-40, 40, 400001)
        for part in (0.1, 0.5, 0.9):
            u = -y * part
            expected = np.max(u * f - reference.LOSSES[loss](y, f))
            assert_allclose(as_loss(loss).conjugate(np.array([y]), np.array([u]))[0], expected, atol=1e-6)


def test_a_linear_model_is_fitted_beside_other_predictions(rng):
    X, y, _ = data(rng, "squared")
    problem, _ = make_problem(X, y, "anova", "direct", 2)
    beside = rng.standard_normal(40)
    whole = np.hstack([X, np.ones((40, 1))])
    for products in (None, lambda h: lambda v: whole.T @ (h * (whole @ v))):
        found = fit_linear(X, problem.response, np.full(4, 0.5), True, None, 1e-10, beside, products=products)
        g, _ = slopes(problem.response, found.predict(X) + beside)
        assert_allclose(X.T @ g, -0.5 * found.coef, atol=1e-8)
        assert abs(g.sum()) < 1e-8
