"""What the next capability will hang on: a loss, a solver and a form are one class each, defined here and trained by
ordinary estimators; penalties are priors that every solver honours; steps are rules; parts of the rows add up."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from problems import MULTILINEAR, make_problem, on_other_data, random_problem

from polyfm import FactorizationMachineClassifier, FactorizationMachineRegressor, PolynomialNetworkRegressor
from polyfm.core.parameters import Parameters
from polyfm.core.penalty import Ridge
from polyfm.loops.forms import FORMS, form
from polyfm.loops.rule import Gibbs
from polyfm.solvers import SOLVERS, BlockDescent, CoordinateDescent, Solver, make_solver, run

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FIXED = {"random_state": 0, "alpha": 0.1, "beta": 0.1}
MULTILINEAR_SOLVERS = [name for name, cls in SOLVERS.items() if cls.needs_multilinear]


# -- a loss


class Huber:
    """Half a square up to `knee`, straight lines beyond it."""

    curvature, residual = 1.0, True

    def __init__(self, knee):
        self.knee = knee

    def value(self, y, f):
        r = abs(f - y)
        return 0.5 * r * r if r <= self.knee else self.knee * (r - 0.5 * self.knee)

    def derivative(self, y, f):
        return min(max(f - y, -self.knee), self.knee)


class HuberThatSaysNothing(Huber):
    residual = False


def test_a_loss_of_the_residual_gets_the_small_state_and_the_same_model(small):
    X, y = small
    problem, _ = make_problem(X, y, "anova", "direct", 2, loss=Huber(0.5))
    assert problem.response.y is None
    assert_array_equal(problem.response.shift, y[problem.design.order])
    options = {"solver": "cd", "max_iter": 5, "tol": 0.0, **FIXED}
    fast, plain = (
        FactorizationMachineRegressor(loss=cls(0.5), **options).fit(X, y) for cls in (Huber, HuberThatSaysNothing)
    )
    assert_allclose(fast.predict(X), plain.predict(X), rtol=1e-9)


@pytest.mark.parametrize(
    "solver", [pytest.param(s, marks=[pytest.mark.slow] * (s in ("sgd", "block"))) for s in SOLVERS]
)
def test_a_loss_is_one_class_and_every_solver_trains_with_it(rng, solver):
    """A tenth of the targets is far off: half a square is led astray by them, Huber's loss is not."""
    X = rng.standard_normal((200, 5))
    clean = X[:, 0] * X[:, 1] + X[:, 2]
    y = clean + 100.0 * (rng.uniform(size=200) < 0.1)
    options = {"solver": solver, "n_components": 2, "max_iter": 60, "tol": 1e-6, **FIXED}
    model = FactorizationMachineRegressor(loss=Huber(0.5), **options).fit(X, y)
    squared = FactorizationMachineRegressor(**options).fit(X, y)
    assert model.score(X, clean) > 0.95 > 0 > squared.score(X, clean)
    loss = Huber(0.5)
    total = sum(loss.value(t, f) for t, f in zip(y, model.predict(X), strict=True))
    assert total < model.objective_ < sum(loss.value(t, 0.0) for t in y)


# -- a solver


@dataclass(frozen=True)
class SteepestDescent(Solver):
    """Steps along the gradient, halved until they lower the objective."""

    longest: float = 1.0

    summary = "gradient descent"
    fits_lambdas = False

    def init_state(self, problem, parameters, resume=None):
        return type("State", (), {"parameters": parameters})()

    def update(self, problem, state):
        model, start = problem.model, state.parameters
        value, gradient = problem.value_and_gradient(start)
        step = self.longest
        while step > 1e-12:
            trial = model.unpack(model.pack(start) - step * model.pack(gradient), start)
            reached = problem.objective(trial)
            if reached < value:
                state.parameters = trial
                return reached
            step /= 2
        return None


@pytest.fixture
def steepest():
    SOLVERS["steepest"] = SteepestDescent
    yield
    del SOLVERS["steepest"]


def test_a_solver_is_one_class_and_one_line(steepest, small):
    X, y = small
    model = FactorizationMachineRegressor(solver="steepest", max_iter=300, tol=0, **FIXED).fit(X, y)
    best = FactorizationMachineRegressor(solver="lbfgs", max_iter=300, tol=1e-9, **FIXED).fit(X, y)
    assert model.solver_ == "steepest"
    assert np.all(np.diff(model.history_) <= 0)
    assert_allclose(model.objective_, best.objective_, rtol=0.05)
    with pytest.raises(ValueError, match="fit_lambdas=True needs solver='cd', 'block', 'newton' or 'lbfgs'"):
        FactorizationMachineRegressor(solver="steepest", fit_lambdas=True).fit(X, y)
    # What it has and has not is the business of the registry, not of the estimators.
    stopped = FactorizationMachineRegressor(solver="steepest", early_stopping=True, max_iter=40, **FIXED).fit(X, y)
    assert len(stopped.validation_losses_) == stopped.n_iter_


def test_an_unknown_option_of_a_solver_is_an_error():
    with pytest.raises(TypeError, match="solver='cd' has no option 'n_thread'; it has"):
        make_solver("cd", n_thread=2)
    with pytest.raises(ValueError, match="solver='cg' is not known; use 'auto' or one of"):
        FactorizationMachineRegressor(solver="cg").fit([[1.0], [2.0]], [1.0, 2.0])


# -- a form

SIDE = np.array([0, 1, 0, 1, 1, 0, 1])


@form
class TwoSides(NamedTuple):
    """(sum over features j of side 0 of p_j x_j) (the same of side 1): products across two sides alone, such as those
    of a context and a candidate."""

    degree_slots: tuple[float, ...]
    side: np.ndarray

    kernel, method = "anova", "two_sides"
    of_degree = classmethod(lambda cls, degree: cls((0.0,) * degree, SIDE))

    def reset(self, S, i):
        S[i, 1] = 0.0
        S[i, 2] = 0.0

    def include(self, S, i, B, j, x):
        S[i, 1 + self.side[j]] += B[0, j] * x

    def partial(self, S, i, B, t, j, x):
        return x * S[i, 2 - self.side[j]]

    def update(self, S, i, B, t, j, x, delta):
        S[i, 1 + self.side[j]] += delta * x
        return x * S[i, 2 - self.side[j]]

    def absorb(self, A, T, j, x, s):
        A[self.side[j], s] += x * T[j, 0, s]

    def total(self, A, s):
        return A[0, s] * A[1, s]

    def emit(self, A, T, G, to, c, j, x, s):
        G[to, 0, s] += c[s] * x * A[1 - self.side[j], s]

    def joint(self, t):
        return 0, 1

    def counts_itself(self):
        return True

    def cofactor(self, A, t, j, s):
        return A[1 - self.side[j], s]


@pytest.fixture
def two_sides():
    FORMS["anova", "two_sides"] = TwoSides
    yield
    del FORMS["anova", "two_sides"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_form_is_one_class_and_every_solver_trains_it(two_sides, rng, solver):
    X = rng.standard_normal((200, 7))
    p = rng.standard_normal((2, 7))
    across = SIDE[:, None] != SIDE
    products = 0.5 * across * (p.T @ p)
    y = np.einsum("ij,jk,ik->i", X, products, X)
    model = FactorizationMachineRegressor(
        method="two_sides", n_components=3, fit_lower=None, solver=solver, max_iter=200, tol=1e-7, random_state=0,
        alpha=1e-3, beta=1e-3,
    )  # fmt: skip
    data = sp.csr_matrix(X) if solver == "cd" else X
    assert model.fit(data, y).score(data, y) > 0.999
    P = model.components_
    learned = np.einsum("ij,jk,ik->i", X, 0.5 * across * (P.T @ P), X)
    assert_allclose(model.predict(X), learned + X @ model.coef_ + model.intercept_, atol=1e-9)
    with pytest.raises(ValueError, match="A model of method='two_sides' has no lifted form"):
        model.to_lifted()


def test_an_unknown_form_is_named_with_those_there_are(small):
    with pytest.raises(ValueError, match=r"method='sideways' is not known for the anova kernel; use one of \['direct'"):
        FactorizationMachineRegressor(method="sideways").fit(*small)


# -- penalties as priors


def one_hot(rng, n=300):
    """Two fields of 6 and 4 values, and the field of each feature."""
    columns = np.column_stack([rng.randint(6, size=n), 6 + rng.randint(4, size=n)])
    X = sp.csr_matrix((np.ones(2 * n), columns.ravel(), np.arange(0, 2 * n + 1, 2)), shape=(n, 10))
    effects = rng.standard_normal((2, 10))
    y = effects[0, columns[:, 0]] * effects[1, columns[:, 1]] + 0.1 * rng.standard_normal(n)
    return X, y, np.array(["user"] * 6 + ["item"] * 4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_penalty_for_each_field_equals_scaling_the_columns(rng, solver):
    """beta_j p_j^2 is (sqrt(beta_j) p_j)^2, and p_j x_j is (sqrt(beta_j) p_j) (x_j / sqrt(beta_j))."""
    X, y, fields = one_hot(rng)
    beta, alpha = {"user": 4.0, "item": 0.25}, {"user": 1.0, "item": 9.0}
    scale = np.array([1 / np.sqrt(beta[field]) for field in fields])
    # The linear weight of a scaled column is scaled too: its penalty has to be divided by beta.
    alphas = np.array([alpha[field] / beta[field] for field in fields])
    options = {"solver": solver, "n_components": 3, "random_state": 0, "max_iter": 500, "tol": 1e-9}
    model = FactorizationMachineRegressor(beta=beta, alpha=alpha, groups=fields, **options).fit(X, y)
    scaled = FactorizationMachineRegressor(beta=1.0, alpha=alphas, **options).fit(X @ sp.diags(scale), y)
    if solver == "sgd":  # its steps are sized by what parameters have in common, and so depend on the scale
        assert_allclose(model.objective_, scaled.objective_, rtol=0.02)
        return
    assert_allclose(model.objective_, scaled.objective_, rtol=1e-5)
    assert_allclose(model.predict(X), scaled.predict(X @ sp.diags(scale)), atol=2e-2)
    if solver in MULTILINEAR_SOLVERS:
        assert_allclose(model.history_[:20], scaled.history_[:20], rtol=1e-9)
        assert_allclose(model.components_, scaled.components_ * scale, atol=1e-6)
    by_feature = FactorizationMachineRegressor(
        beta=[beta[field] for field in fields], alpha={j: alpha[field] for j, field in enumerate(fields)}, **options
    )
    assert_array_equal(by_feature.fit(X, y).components_, model.components_)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_field_that_is_penalised_without_end_learns_nothing(rng, solver):
    X, y, fields = one_hot(rng)
    model = FactorizationMachineRegressor(
        beta={"user": 1e6, "item": 0.1}, alpha={"user": 1e6, "item": 0.1}, groups=fields, solver=solver, random_state=0,
        tol=1e-6,
    ).fit(X, y)  # fmt: skip
    user = fields == "user"
    assert np.abs(model.coef_[user]).max() < 1e-2
    assert np.abs(model.components_[:, user]).max() < 1e-2
    assert np.abs(model.coef_[~user]).max() > 0.01


def test_bad_penalties_are_named():
    X, y = np.eye(3), np.arange(3.0)
    for beta, message in [
        ([1.0, 2.0], r"beta has shape \(2,\) and type float64; pass a number, 3 numbers"),
        ([1.0, 2.0, -1.0], "beta must be finite and >= 0, got -1.0 for feature 2"),
        ({0: 1.0, 1: 2.0}, r"beta has no number for the feature\(s\) 2. To name fields instead of features"),
        ({0: 1.0, 1: 2.0, 2: 1.0, "x": 1.0}, "beta names what is no feature: 'x'"),
        ({0: 1.0, 1: 2.0, 2: "many"}, "beta must hold numbers, got 'many'"),
        (float("inf"), "The 'beta' parameter .* must be a float in the range"),
    ]:
        with pytest.raises(ValueError, match=message):
            FactorizationMachineRegressor(beta=beta).fit(X, y)
    with pytest.raises(ValueError, match=r"groups has shape \(2,\); pass the field of each of the 3 features"):
        FactorizationMachineRegressor(beta={"a": 1.0}, groups=["a", "a"]).fit(X, y)


@pytest.mark.parametrize(("kernel", "method"), MULTILINEAR)
@pytest.mark.parametrize("solver", ["cd", "block", "newton", "lbfgs"])
def test_parameters_are_drawn_to_their_means_by_group_and_basis(kernel, method, solver):
    """With penalties that leave no choice, the factors are the means; with weak ones the objective never increases."""
    X = sp.random(40, 4, density=0.6, format="csr", random_state=0)
    y = np.random.RandomState(0).standard_normal(40)
    of = np.array([0, 0, 1, 1])
    mean = np.array([[0.5, -1.0, 0.2], [0.3, 0.1, -0.4]])
    strength = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    for size in (1e7, 0.1):
        beta, alpha = Ridge(size * strength, of, mean), Ridge(np.full(2, size), of, np.array([1.0, -2.0]))
        problem, start = make_problem(X, y, kernel, method, 2, alpha=alpha, beta=beta)
        result = run(make_solver(solver), problem, start, max_iter=30, tol=0.0)
        assert np.all(np.diff(result.history) <= 1e-9 * result.history[0])
        assert_allclose(result.history[-1], problem.objective(result.parameters), rtol=1e-8)
        if size > 1:
            expected = np.repeat(mean[of].T[:, None, :], start.factors[0].shape[1], axis=1)
            assert_allclose(result.parameters.factors[0], expected, atol=1e-3)
            assert_allclose(result.parameters.coef, np.array([1.0, 1.0, -2.0, -2.0]), atol=1e-3)


@pytest.mark.parametrize("lower", [None, "augment"])
@pytest.mark.parametrize(("kernel", "method"), [("anova", "direct"), ("homogeneous", "lifted")])
def test_the_gradient_of_a_prior_is_that_of_its_value(kernel, method, lower):
    problem, parameters = random_problem(kernel, method, 2, lower=lower)
    of = np.array([0, 1, 1, 0, 2])
    rng = np.random.RandomState(1)
    beta = Ridge(rng.uniform(0.5, 2, (3, 2)), of, rng.standard_normal((3, 2)))
    alpha = Ridge(rng.uniform(0.5, 2, 3), of, rng.standard_normal(3))
    penalised = on_other_data(problem, problem.design._X, alpha=alpha, beta=beta)
    model = penalised.model
    theta, step = model.pack(parameters), 1e-6
    gradient = model.pack(penalised.value_and_gradient(parameters)[1])
    for i in range(len(theta)):
        ahead, behind = theta.copy(), theta.copy()
        ahead[i] += step
        behind[i] -= step
        slope = penalised.objective(model.unpack(ahead, parameters)) - penalised.objective(
            model.unpack(behind, parameters)
        )
        assert_allclose(gradient[i], slope / (2 * step), rtol=1e-5, atol=1e-6)


def test_a_classifier_takes_penalties_by_field_too(rng):
    X, y, fields = one_hot(rng)
    model = FactorizationMachineClassifier(beta={"user": 1.0, "item": 2.0}, groups=fields, random_state=0)
    assert model.fit(X, np.digitize(y, [-0.5, 0.5])).score(X, np.digitize(y, [-0.5, 0.5])) > 0.6
    network = PolynomialNetworkRegressor(beta={"user": 1.0, "item": 2.0}, groups=fields, random_state=0)
    assert network.fit(X, y).score(X, y) > 0.5


# -- steps as rules


@pytest.mark.parametrize("solver", [CoordinateDescent, BlockDescent])
def test_a_sampler_is_a_rule_and_reproduces_its_prior(solver):
    """Features that no sample has are drawn from the prior alone."""
    of, n_draws = np.array([0, 0, 1, 1, 1]), 2000
    mean, strength = np.array([[0.5, -1.0], [2.0, 0.0]]), np.array([[1.0, 4.0], [0.5, 2.0]])
    problem, start = make_problem(
        sp.csr_matrix((3, 5)), np.ones(3), "anova", "direct", 2, k=2, alpha=Ridge(np.array([1.0, 9.0]), of),
        beta=Ridge(strength / 2, of, mean),
    )  # fmt: skip
    state = solver().init_state(problem, start)
    draws, coefs = np.empty((n_draws, 2, 5)), np.empty((n_draws, 5))
    for i in range(n_draws):
        solver(rule=Gibbs(1, 2, i, 1.0)).update(problem, state)
        draws[i], coefs[i] = state.parameters.factors[0][:, 0], state.parameters.coef
    assert_allclose(draws.mean(axis=0), mean[of].T, atol=5 * np.sqrt(2 / n_draws))
    assert_allclose(draws.var(axis=0), 1 / strength[of].T, rtol=5 * np.sqrt(2 / n_draws))
    assert_allclose(coefs.var(axis=0), [1.0, 1.0, 1 / 9, 1 / 9, 1 / 9], rtol=5 * np.sqrt(2 / n_draws))


# -- sums over parts


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize(("kernel", "method"), [("anova", "direct"), ("homogeneous", "direct"), ("anova", "lifted")])
def test_losses_and_gradients_of_parts_of_the_rows_add_up(kernel, method, loss):
    problem, parameters = random_problem(kernel, method, 3, loss, n=30, lower="augment")
    X, weight = problem.design._X, problem.response.weight
    parts = [
        on_other_data(problem, X[lo:hi], problem.y[lo:hi], weight[lo:hi]).loss_and_gradient(parameters)
        for lo, hi in [(0, 7), (7, 8), (8, 30)]
    ]
    value, gradient = problem.loss_and_gradient(parameters)
    assert_allclose(sum(part[0] for part in parts), value, rtol=1e-12)
    for name in Parameters._fields:
        for i, whole in enumerate(np.atleast_1d(np.concatenate([np.ravel(a) for a in getattr(gradient, name)]))):
            pieces = [np.concatenate([np.ravel(a) for a in getattr(part[1], name)])[i] for part in parts]
            assert_allclose(sum(pieces), whole, rtol=1e-9, atol=1e-9)
    # The penalty is added once, to the sum.
    total, _ = problem.value_and_gradient(parameters)
    assert_allclose(total, value + problem.penalty.value(parameters), rtol=1e-12)
