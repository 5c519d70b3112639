"""Gauss-Newton: its matrices against finite differences, its promises, and the other solvers' objectives."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from problems import FORMS, make_problem, on_other_data, random_problem

from polyfm.core.model import build_model
from polyfm.core.parameters import Parameters
from polyfm.core.penalty import Penalty
from polyfm.solvers import CoordinateDescent, run
from polyfm.solvers.gauss_newton import GaussNewton, State, objectives
from polyfm.solvers.gauss_newton.objectives import Reduced, Reduction, Rows, monomials_of
from polyfm.solvers.gauss_newton.quadratic import LowRank, Products
from polyfm.solvers.lbfgs import LBFGS
from polyfm.training.initial import initial_parameters


class Cosh:
    """A user's loss: log cosh (f - y), whose second derivative is 1 - tanh^2."""

    curvature = 1.0

    def value(self, y, f):
        return abs(f - y) + np.log(0.5 + 0.5 * np.exp(-2.0 * abs(f - y)))

    def derivative(self, y, f):
        return np.tanh(f - y)


PLAIN = {"alpha": 1.0, "beta": 1.0, "init_scale": 0.1, "order": "given"}
BENDS = {
    "squared": lambda y, f: np.ones_like(f),
    "logistic": lambda y, f: 1 / (2 + 2 * np.cosh(f)),
    "squared_hinge": lambda y, f: 2.0 * (y * f < 1),
    "cosh": lambda y, f: 1 - np.tanh(f - y) ** 2,
}


def problem_and_parameters(kernel, method, degree, loss="squared", lower="augment", n=14, d=4, **options):
    return random_problem(kernel, method, degree, Cosh() if loss == "cosh" else loss, lower, n=n, d=d, **options)


def reference(problem, parameters, bends):
    """Gradient and Gauss-Newton matrix from central differences of the predictions, in the order of theta."""
    theta = problem.model.pack(parameters)

    def predict(theta):
        return problem.model.predict(problem.model.unpack(theta, parameters), problem.design)

    f, step = predict(theta), 1e-6
    J = np.column_stack([(predict(theta + h) - predict(theta - h)) / (2 * step) for h in step * np.eye(len(theta))])
    weight = np.ones(len(f)) if problem.response.weight is None else problem.response.weight
    y = problem.y.astype(np.float64)
    slopes = np.array([problem.loss.derivative(*pair) for pair in zip(y, f, strict=True)])
    penalties, _ = problem.penalty.diagonal(parameters)
    H = J.T @ ((weight * bends(y, f))[:, None] * J) + np.diag(penalties)
    return J.T @ (weight * slopes) + penalties * theta, H


def whole(local):
    """H of any kind of local model."""
    if isinstance(local, Products):
        return np.column_stack([local.times(v) for v in np.eye(len(local.theta))])
    if isinstance(local, LowRank):
        return local.B.T @ local.B + np.diag(local.penalties)
    return np.tril(local.H) + np.tril(local.H, -1).T


@pytest.mark.parametrize("products", [False, True])
@pytest.mark.parametrize(
    ("kernel", "method", "dense", "loss"),
    [*((*form, False, "squared") for form in FORMS), *((*FORMS[0], True, loss) for loss in BENDS)],
)
def test_gauss_newton_matrix_is_that_of_finite_differences(kernel, method, dense, loss, products, monkeypatch):
    monkeypatch.setattr(objectives, "MOST_COLUMNS", 0 if products else 10**6)
    problem, parameters = problem_and_parameters(kernel, method, 2, loss, dense=dense)
    theta = problem.model.pack(parameters)
    local = Rows(problem, parameters).local(theta)
    gradient, H = reference(problem, parameters, BENDS[loss])
    assert isinstance(local, Products) == products
    assert_allclose(local.value, problem.objective(parameters), rtol=1e-12)
    assert_allclose(local.gradient, gradient, rtol=1e-5, atol=1e-6 * np.abs(gradient).max())
    assert_allclose(whole(local), H, rtol=1e-5, atol=1e-6 * np.abs(H).max())
    assert_allclose(local.diagonal, H.diagonal(), rtol=1e-5, atol=1e-6 * np.abs(H).max())


@pytest.mark.parametrize("kernel", ["anova", "homogeneous"])
@pytest.mark.parametrize("lower", [None, "augment"])
@pytest.mark.parametrize(("loss", "reduce"), [("squared", False), ("squared", True), ("logistic", False)])
def test_newton_has_the_curvature_of_predictions_as_far_as_penalties_keep_it_positive(kernel, loss, lower, reduce):
    problem, parameters = problem_and_parameters(kernel, "direct", 2, loss, lower=lower, n=100, weighted=True)
    parameters.lambdas[0][:] = np.sign(parameters.lambdas[0])
    bent = []
    for strength in (1e5, 0.1):
        task = replace(problem, penalty=Penalty.of(problem.model, 4, 1.0, strength))
        theta = task.model.pack(parameters)
        reduction = Reduction.of(task, monomials_of(task.model, 4, 100)) if reduce else None
        view = Reduced(task, parameters, reduction, True) if reduce else Rows(task, parameters, exact=True)
        plain, local = Rows(task, parameters).local(theta), view.local(theta)
        bent.append(whole(local) - whole(plain))
        assert np.linalg.eigvalsh(whole(local))[0] > 0
        assert_allclose(local.diagonal, plain.diagonal, rtol=1e-6)
    slope = [
        task.model.pack(task.value_and_gradient(task.model.unpack(theta + sign * h, parameters))[1])
        for h in 1e-6 * np.eye(len(theta))
        for sign in (1, -1)
    ]
    hessian = np.array([(ahead - behind) / 2e-6 for ahead, behind in zip(slope[::2], slope[1::2], strict=True)])
    missing = hessian - whole(plain)
    assert_allclose(bent[0], missing, rtol=1e-4, atol=1e-5 * np.abs(missing).max())
    part = np.linalg.norm(bent[1]) / np.linalg.norm(bent[0])
    assert 0 < part < 1  # at these parameters, which are not the best
    assert_allclose(bent[1], part * bent[0], rtol=1e-4, atol=1e-6 * np.abs(missing).max())


@pytest.mark.parametrize("lower", [None, "explicit", "augment"])
@pytest.mark.parametrize(("linear", "intercept"), [(True, False), (False, True), (False, False)])
def test_every_group_and_term_has_its_place(lower, linear, intercept):
    problem, parameters = problem_and_parameters(
        "anova", "direct", 3, lower=lower, linear=linear, intercept=intercept, weighted=False, dense=True
    )
    theta = problem.model.pack(parameters)
    local = Rows(problem, parameters).local(theta)
    gradient, H = reference(problem, parameters, BENDS["squared"])
    assert_allclose(local.value, problem.objective(parameters), rtol=1e-12)
    assert_allclose(local.gradient, gradient, rtol=1e-5, atol=1e-6 * np.abs(gradient).max())
    assert_allclose(whole(local), H, rtol=1e-5, atol=1e-6 * np.abs(H).max())


@pytest.mark.parametrize("lower", [None, "explicit", "augment"])
@pytest.mark.parametrize(("kernel", "method"), FORMS)
@pytest.mark.parametrize("k", [1, 6])  # fewer parameters than monomials, and more
def test_a_few_rows_tell_all_others(kernel, method, lower, k):
    """With the squared loss: the same value, gradient and matrix, from as many rows as there are monomials. Features
    that are copies or 0/1 make fewer of them independent."""
    linear = lower is None
    problem, parameters = problem_and_parameters(kernel, method, 3, lower=lower, n=400, linear=linear, k=k)
    X = problem.design._X.toarray()
    X[:, 2], X[:, 3] = X[:, 0], X[:, 1] > 0
    for weight in (None, problem.response.weight):
        task = on_other_data(problem, X, weight=weight)
        theta = task.model.pack(parameters)
        monomials = monomials_of(task.model, X.shape[1], 100)
        reduced = Reduced(task, parameters, Reduction.of(task, monomials))
        assert reduced.jacobian.n_rows < len(monomials) < 40
        ours, theirs = reduced.local(theta), Rows(task, parameters).local(theta)
        assert_allclose(ours.value, theirs.value, rtol=1e-11)
        assert_allclose(reduced.value(theta), theirs.value, rtol=1e-11)
        assert_allclose(ours.gradient, theirs.gradient, rtol=1e-8, atol=1e-9 * np.abs(theirs.gradient).max())
        assert_allclose(whole(ours), whole(theirs), rtol=1e-8, atol=1e-9 * np.abs(whole(theirs)).max())
        for damping in (1e-4, 1.0):
            step = theirs.step(damping)
            assert_allclose(ours.step(damping), step, rtol=1e-6, atol=1e-7 * np.abs(step).max())


def test_rows_in_any_order_can_be_chosen_from():
    """The first rows alone, of one feature, do not tell all monomials; nor do rows of no weight."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((3000, 4))
    X[:2000, 1:] = 0.0
    weight = np.where(rng.uniform(size=3000) < 0.5, 0.0, 1.0)
    y = X[:, 0] ** 3 + X[:, 1]
    problem, start = make_problem(X, y, "homogeneous", "lifted", 3, "augment", weight=weight, linear=False, **PLAIN)
    theta = problem.model.pack(start)
    view = GaussNewton()._view(problem, State(start))
    assert isinstance(view, Reduced)
    for scale in (1.0, 10.0):
        assert_allclose(view.value(scale * theta), Rows(problem, start).value(scale * theta), rtol=1e-11)


def test_features_that_are_all_zero_are_no_trouble():
    y = np.random.RandomState(0).standard_normal(200)
    problem, start = make_problem(np.zeros((200, 3)), y, "homogeneous", "lifted", 2, intercept=False, **PLAIN)
    result = run(GaussNewton(), problem, start, max_iter=10, tol=0.0)
    assert_allclose(result.history[-1], 0.5 * y @ y)


def test_monomials_are_those_that_the_model_can_form():
    def count(kernel, degree, lower, linear, intercept):
        model = build_model(kernel, "lifted", degree, 3, lower, linear, intercept)
        return len(monomials_of(model, 8, 10**4))

    assert count("homogeneous", 3, "augment", False, True) == 165  # all of degree at most 3
    assert count("homogeneous", 3, None, False, False) == 120
    assert count("anova", 3, None, True, True) == 56 + 8 + 1
    assert count("anova", 3, "augment", False, True) == 56 + 28 + 8 + 1
    assert count("anova", 3, "explicit", True, False) == 56 + 28 + 8
    assert monomials_of(build_model("anova", "direct", 3, 3, None, True, True), 10**6, 1000) is None


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize(("kernel", "method"), FORMS)
def test_objective_never_increases_and_is_that_of_the_problem(kernel, method, loss):
    for n in (60, 400):  # all rows, and with the squared loss a few of them
        problem, _ = problem_and_parameters(kernel, method, 2, loss, n=n, k=4)
        start = initial_parameters(problem, 0, 0.1)
        result = run(GaussNewton(), problem, start, max_iter=40, tol=0.0)
        assert np.all(np.diff([problem.objective(start), *result.history]) <= 0)
        assert_allclose(result.history[-1], problem.objective(result.parameters), rtol=1e-10)


def agreeing(kernel, method, loss, n=80):
    """Degree 2, more bases than features, a penalty: every local minimum is global (section 6)."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((n, 4))
    y = X[:, 0] * X[:, 1] - X[:, 2] ** 2 + X[:, 3] + 0.3 * rng.standard_normal(n)
    y = y if loss == "squared" else np.where(y > np.median(y), 1.0, -1.0)
    lams = "ones" if method == "lifted" else np.tile([1.0, -1.0], 4)
    return make_problem(X, y, kernel, method, 2, k=8, loss=loss, init_lambdas=lams, **PLAIN)


@pytest.mark.parametrize(
    ("kernel", "method", "loss"),
    [(*form, "squared") for form in FORMS] + [(*FORMS[2], "logistic"), (*FORMS[3], "squared_hinge")],
)
def test_reaches_the_objective_of_lbfgs(kernel, method, loss):
    problem, start = agreeing(kernel, method, loss)
    expected = run(LBFGS(), problem, start, max_iter=3000, tol=1e-11).history[-1]
    result = run(GaussNewton(), problem, start, max_iter=300, tol=1e-9)
    assert result.converged
    assert_allclose(result.history[-1], expected, rtol=1e-4)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_all_ways_to_solve_and_coordinate_descent_agree(loss, monkeypatch):
    problem, start = agreeing("homogeneous", "lifted", loss, n=300)
    ends = [run(CoordinateDescent(), problem, start, max_iter=3000, tol=1e-11).history[-1]]
    ends += [
        run(GaussNewton(reduce=reduce), problem, start, max_iter=300, tol=1e-9).history[-1] for reduce in (True, False)
    ]
    monkeypatch.setattr(objectives, "MOST_COLUMNS", 0)
    ends.append(run(GaussNewton(reduce=False), problem, start, max_iter=300, tol=1e-9).history[-1])
    assert_allclose(ends, min(ends), rtol=1e-4)


@pytest.mark.parametrize("reduce", [True, False])
def test_a_warm_start_goes_on_exactly(reduce):
    problem, start = agreeing("homogeneous", "lifted", "squared", n=300)
    solver = GaussNewton(reduce=reduce)
    assert isinstance(solver._view(problem, State(start)), Reduced if reduce else Rows)
    once = run(solver, problem, start, max_iter=10, tol=-1.0)
    half = run(solver, problem, start, max_iter=5, tol=-1.0)
    again = run(solver, problem, half.parameters, max_iter=5, tol=-1.0, resume=half.resume)
    assert_array_equal(once.history, [*half.history, *again.history])
    assert_array_equal(once.parameters.factors[0], again.parameters.factors[0])
    assert_array_equal(once.resume["numbers"], again.resume["numbers"])


@pytest.mark.parametrize("kernel", ["anova", "homogeneous"])
def test_lambdas_are_fitted_in_turn(kernel):
    """From this start L-BFGS, which takes the same turns, ends where Gauss-Newton does."""
    problem, start = agreeing(kernel, "direct", "squared")
    expected = run(LBFGS(fit_lambdas=True), problem, start, max_iter=3000, tol=1e-9)
    fitted = run(GaussNewton(fit_lambdas=True), problem, start, max_iter=100, tol=1e-8)
    assert np.all(np.diff(fitted.history) <= 0)
    assert_allclose(fitted.history[-1], expected.history[-1], rtol=1e-4)
    assert_allclose(fitted.history[-1], problem.objective(fitted.parameters), rtol=1e-10)


@pytest.mark.parametrize("n", [60, 400])
def test_single_precision_is_close_to_double(n):
    results = []
    for dtype in (np.float32, np.float64):
        problem, start = problem_and_parameters("homogeneous", "lifted", 2, n=n, dtype=dtype, dense=True)
        result = run(GaussNewton(), problem, start, max_iter=30, tol=1e-6)
        assert result.parameters.factors[0].dtype == dtype
        assert np.all(np.diff(result.history) <= 0)
        assert_allclose(result.history[-1], problem.objective(result.parameters), rtol=1e-5)
        results.append(result.history[-1])
    assert_allclose(*results, rtol=1e-2)


def test_threads_change_nothing(monkeypatch):
    monkeypatch.setattr(objectives, "MOST_COLUMNS", 0)
    problem, start = problem_and_parameters("anova", "lifted", 2, "logistic", n=3000)
    one, two = (run(GaussNewton(n_threads=n), problem, start, max_iter=4, tol=-1.0) for n in (1, 2))
    assert_array_equal(one.history, two.history)
    assert_array_equal(one.parameters.factors[0], two.parameters.factors[0])


def test_says_so_where_nothing_can_be_lowered():
    """All targets equal: the best constant is the minimum, and zero factors stay zero."""
    problem, _ = problem_and_parameters("anova", "direct", 2)
    problem = on_other_data(problem, problem.design._X, np.ones(14), alpha=1.0, beta=1.0)
    start = initial_parameters(problem, 0, 0.1)
    start = Parameters(tuple(0 * P for P in start.factors), *start[1:])
    result = run(GaussNewton(), problem, start, max_iter=50, tol=-1.0)
    assert result.converged
    assert result.n_iter == 1
    assert_array_equal(result.parameters.factors[0], start.factors[0])


def test_parameters_that_do_nothing_and_cost_nothing_stay():
    problem, start = problem_and_parameters("anova", "direct", 2, n=300, dense=True)
    X = problem.design._X.copy()
    X[:, 1] = 0.0
    for reduce in (True, False):
        task = on_other_data(problem, X, alpha=0.0, beta=0.0)
        result = run(GaussNewton(reduce=reduce), task, start, max_iter=20, tol=1e-6)
        assert np.all(np.isfinite(result.history))
        assert_allclose(result.parameters.factors[0][:, :, 1], start.factors[0][:, :, 1], rtol=1e-10)
