"""Stochastic descent takes the steps that a slow loop takes, whose gradients come from elsewhere."""

import pickle

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from problems import FORMS, make_problem, random_problem
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from polyfm import FactorizationMachineClassifier, FactorizationMachineRegressor
from polyfm.core import model
from polyfm.core.penalty import Ridge
from polyfm.core.problem import Problem
from polyfm.loops import stochastic
from polyfm.solvers import copies, run, sgd
from polyfm.solvers.copies import FEWEST_ROWS, JOINS, TOUCHES, Joins
from polyfm.solvers.sgd import SGD, State
from polyfm.solvers.tables import Tables


def arrays_of(parameters):
    return [*parameters.factors, parameters.coef, parameters.intercept]


def dense(problem):
    """X, from the rows of the design."""
    indptr, indices, data = problem.design.rows
    X = np.zeros(problem.design.shape)
    for i in range(len(X)):
        entries = slice(int(indptr[i]), int(indptr[i + 1]))
        X[i, slice(None) if indices is None else indices[entries]] = 1.0 if data is None else data[entries]
    return X


def prediction(problem, parameters, x):
    total = parameters.intercept[0] + parameters.coef @ x
    for group, P, lams in problem.model.each(parameters):
        z = np.append(x, np.ones(group.n_dummies))
        for B, lam in zip(P, lams, strict=True):
            if group.form.lifted:
                kernel = {"anova": reference.lifted_anova, "homogeneous": reference.lifted_homogeneous}
                total += lam * kernel[group.form.kernel](B, z)
            else:
                kernel = {"anova": reference.anova, "homogeneous": reference.homogeneous}
                total += lam * kernel[group.form.kernel](B[0], z, group.degree)
    return total


def slopes_of(problem, parameters, X, i):
    """The gradient of a row's loss by all parameters, from differences: exact, since predictions are of at most the
    second degree in any one parameter."""
    f = prediction(problem, parameters, X[i]) - (0 if problem.response.shift is None else problem.response.shift[i])
    slope = problem.response.slope(i, f)
    found = [np.zeros(theta.shape) for theta in arrays_of(parameters)]
    for theta, out in zip(arrays_of(parameters), found, strict=True):
        for index in np.ndindex(theta.shape):
            old, ends = theta[index], []
            for change in (0.5, -0.5):
                theta[index] = old + change
                ends.append(prediction(problem, parameters, X[i]))
            theta[index] = old
            out[index] = slope * (ends[0] - ends[1])
    return found


def slow_pass(problem, parameters, sums, etas, order, batch):
    """AdaGrad on dense arrays. A row's share of a feature's penalty is 1 / rows with the feature: all, where X is
    dense."""
    X, model = dense(problem), problem.model
    n, d = X.shape
    present = (X != 0) | (problem.design.rows.indices is None)
    counts = np.maximum(present.sum(axis=0), 1)
    fitted = [*[True] * len(model.groups), model.fit_linear, model.fit_intercept]
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        slopes = [sum(parts) for parts in zip(*(slopes_of(problem, parameters, X, i) for i in chosen), strict=True)]
        pulls = arrays_of(problem.penalty.gradient(parameters))
        share = present[chosen].sum(axis=0) / counts
        for g, theta in enumerate(arrays_of(parameters)):
            dummies = theta.shape[-1] - d
            part = np.append(share, [len(chosen) / n] * dummies) if dummies >= 0 else 1.0
            slope = np.where(part > 0, slopes[g] + part * pulls[g], 0.0) * fitted[g]
            sums[g] += slope**2
            theta -= etas[g] * slope / np.sqrt(sums[g])


CASES = [
    *((kernel, method, degree, lower, "squared", False) for kernel, method in FORMS for degree, lower in [(2, None)]),
    ("anova", "direct", 3, "augment", "logistic", False),
    ("homogeneous", "lifted", 3, "augment", "squared", True),
    ("homogeneous", "lifted", 3, "explicit", "squared_hinge", False),
    ("anova", "direct", 4, "explicit", "squared", False),
]


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize(("kernel", "method", "degree", "lower", "loss", "is_dense"), CASES)
def test_a_pass_takes_the_steps_of_a_slow_one(monkeypatch, kernel, method, degree, lower, loss, is_dense, batch):
    """The loop runs uncompiled here, so that every case is cheap; below, compiled and not are compared."""
    monkeypatch.setattr(sgd, "run_epoch", stochastic.epoch.py_func)
    problem, parameters = random_problem(kernel, method, degree, loss, lower, dense=is_dense)
    compare_with_slow_pass(problem, parameters, batch)


def compare_with_slow_pass(problem, parameters, batch):
    n, expected, solver = problem.design.shape[0], parameters.copy(), SGD(batch_size=batch)
    sizes = np.linspace(0.1, 0.3, len(arrays_of(parameters)))
    state = State(parameters, Tables.of(parameters, None, parameters.coef.dtype), sizes)
    sums = [np.full(theta.shape, 1e-30) for theta in arrays_of(expected)]
    order = np.random.RandomState(1).permutation(n)
    for _ in range(2):
        solver._pass(problem, state, order, np.maximum(sgd._occurrences(problem), 1), n)
        slow_pass(problem, expected, sums, state.step * sizes, order, batch)
    for found, wanted in zip(arrays_of(state.parameters), arrays_of(expected), strict=True):
        assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    for found, wanted in zip(state.accumulators, sums, strict=True):
        assert_allclose(found, wanted.T, rtol=1e-8)


@pytest.mark.parametrize("batch", ["auto", pytest.param(5, marks=pytest.mark.slow)])
def test_compiled_and_not_are_one(monkeypatch, batch):
    problem, parameters = random_problem("anova", "direct", 2, n=40, weighted=False)
    results = []
    for loop in (stochastic.epoch, stochastic.epoch.py_func):
        monkeypatch.setattr(sgd, "run_epoch", loop)
        solver = SGD(batch_size=batch)
        state = solver.init_state(problem, parameters.copy())
        for _ in range(3):
            solver.update(problem, state)
        results.append(arrays_of(state.parameters))
    for found, wanted in zip(*results, strict=True):
        assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_penalties_and_means_by_feature_and_basis_are_shared_out(monkeypatch):
    monkeypatch.setattr(sgd, "run_epoch", stochastic.epoch.py_func)
    problem, parameters = random_problem("anova", "direct", 2)
    of = np.array([0, 1, 0, 1, 1], dtype=np.uint32)
    beta = Ridge(np.array([[0.5, 1.0], [2.0, 0.1]]), of, np.array([[0.3, -0.2], [0.0, 1.0]]))
    alpha = Ridge(np.array([0.5, 3.0]), of, np.array([0.1, -0.4]))
    problem = Problem.with_target(problem.design, problem.model, problem.loss, problem.y, None, alpha, beta)
    compare_with_slow_pass(problem, parameters, 1)


def generated_clicks(rng, n=2000, fields=8, size=50):
    """One-hot fields with frequent and rare values, and two classes."""
    codes = np.minimum(rng.geometric(0.1, size=(n, fields)) - 1, size - 1)
    y = np.where(codes[:, 0] * codes[:, 1] % 3 + rng.standard_normal(n) > 1, 1.0, -1.0)
    indices = (codes + size * np.arange(fields)).ravel()
    return sp.csr_matrix((np.ones(n * fields), indices, np.arange(0, n * fields + 1, fields)), (n, fields * size)), y


def test_threads_change_no_bit(rng, monkeypatch):
    """They share out the rows whose predictions the objective asks for."""
    monkeypatch.setattr(model, "ROWS_AT_ONCE", 150)
    problem, parameters = make_problem(*generated_clicks(rng), "anova", "direct", 2, loss="logistic")
    results = [run(SGD(n_threads=n), problem, parameters, max_iter=4, tol=0) for n in (1, 2, 3)]
    for result in results[1:]:
        assert_array_equal(result.history, results[0].history)
        for found, wanted in zip(arrays_of(result.parameters), arrays_of(results[0].parameters), strict=True):
            assert_array_equal(found, wanted)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_single_precision_stays_near_double(rng, loss):
    X, y = generated_clicks(rng)
    objectives = []
    for dtype in (np.float64, np.float32):
        problem, parameters = make_problem(X.astype(dtype), y, "anova", "direct", 2, loss=loss)
        parameters = parameters.copy(dtype)
        result = run(SGD(), problem, parameters, max_iter=8, tol=0)
        assert result.parameters.coef.dtype == dtype
        objectives.append(result.history)
    assert_allclose(objectives[1], objectives[0], rtol=1e-4)


def test_what_is_not_fitted_stays(monkeypatch):
    monkeypatch.setattr(sgd, "run_epoch", stochastic.epoch.py_func)
    problem, parameters = random_problem("anova", "direct", 2, linear=False, intercept=False)
    solver = SGD()
    state = solver.init_state(problem, parameters)
    solver.update(problem, state)
    assert not state.parameters.coef.any()
    assert state.parameters.intercept[0] == 0


def test_rows_with_a_feature_are_counted(rng):
    for X in (np.ones((7, 3)), rng.binomial(1, 0.4, size=(50, 9)).astype(float)):
        problem, _ = make_problem(X, np.ones(len(X)), "anova", "direct", 2)
        assert_array_equal(sgd._occurrences(problem), [len(X)] * X.shape[1])
    problem, _ = make_problem(sp.csr_matrix(X), np.ones(len(X)), "anova", "direct", 2)
    assert_array_equal(sgd._occurrences(problem), X.sum(axis=0))


def slow_pass_in_shares(problem, parameters, sums, etas, order, shares):
    """Shares of the rows one after the other, each from where all were joined last. The order in which a feature is
    joined is worked out anew, one feature at a time."""
    n, d = problem.design.shape
    frequencies = np.maximum(sgd._occurrences(problem), 1) / n
    n_joins = min(max(n // (shares * FEWEST_ROWS), 1), JOINS)
    bounds = np.linspace(0, n, n_joins * shares + 1).astype(int)
    own = [(parameters.copy(), [s.copy() for s in sums]) for _ in range(shares)]
    for turn in range(1, n_joins + 1):
        for r, (theta, h) in enumerate(own):
            first = (turn - 1) * shares + r
            slow_pass(problem, theta, h, etas, order[bounds[first] : bounds[first + 1]], 1)
        every = [1] * d
        for j in range(d):
            while frequencies[j] * n / n_joins * every[j] < TOUCHES:
                every[j] *= 2
        due = np.array([turn == n_joins or turn % every[j] == 0 for j in range(d)])
        for g, (theta, h) in enumerate(zip(arrays_of(parameters), sums, strict=True)):
            others = [(arrays_of(copy)[g], h_r[g]) for copy, h_r in own]
            joined = h + sum(h_r - h for _, h_r in others)
            moved = theta + sum((theta_r - theta) * h_r for theta_r, h_r in others) / joined
            here = np.append(due, [True] * (theta.shape[-1] - d)) if theta.shape[-1] >= d else True
            theta[:], h[:] = np.where(here, moved, theta), np.where(here, joined, h)
            for theta_r, h_r in others:
                theta_r[:], h_r[:] = np.where(here, theta, theta_r), np.where(here, h, h_r)


@pytest.mark.parametrize("shares", [2, 3])
@pytest.mark.parametrize(
    ("kernel", "method", "degree", "lower"),
    [("anova", "direct", 3, "augment"), *((kernel, method, 2, None) for kernel, method in FORMS)],
)
def test_shares_of_the_rows_are_joined_as_slow_ones_are(monkeypatch, shares, kernel, method, degree, lower):
    monkeypatch.setattr(sgd, "run_epoch", stochastic.epoch.py_func)
    monkeypatch.setattr(copies, "join", stochastic.join.py_func)
    for name, value in {"FEWEST_ROWS": 2, "FEWEST_JOINS": 1, "TOUCHES": 5}.items():  # few rows, joined several times
        monkeypatch.setattr(copies, name, value)
        monkeypatch.setitem(globals(), name, value)
    problem, parameters = random_problem(kernel, method, degree, "logistic", lower)
    n, expected, solver = problem.design.shape[0], parameters.copy(), SGD(shares=shares)
    sizes = np.linspace(0.1, 0.3, len(arrays_of(parameters)))
    state = State(parameters, Tables.of(parameters, None, parameters.coef.dtype), sizes)
    sums = [np.full(theta.shape, 1e-30) for theta in arrays_of(expected)]
    for _ in range(2):
        order = np.random.RandomState(1).permutation(n)
        solver._pass(problem, state, order, np.maximum(sgd._occurrences(problem), 1), n)
        slow_pass_in_shares(problem, expected, sums, state.step * sizes, order, shares)
    for found, wanted in zip(arrays_of(state.parameters), arrays_of(expected), strict=True):
        assert_allclose(found, wanted, rtol=1e-8, atol=1e-8)
    for found, wanted in zip(state.accumulators, sums, strict=True):
        assert_allclose(found, wanted.T, rtol=1e-7)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("batch", ["auto", 3])
def test_shares_have_the_same_bits_on_any_number_of_threads(rng, dtype, batch):
    X, y = generated_clicks(rng)
    problem, parameters = make_problem(X.astype(dtype), y, "anova", "direct", 2, loss="logistic")
    parameters = parameters.copy(dtype)
    one, two, three = (
        run(SGD(shares=2, n_threads=n, batch_size=batch), problem, parameters, max_iter=4, tol=0) for n in (1, 2, 3)
    )
    for result in (two, three):
        assert_array_equal(result.history, one.history)
        for found, wanted in zip(arrays_of(result.parameters), arrays_of(one.parameters), strict=True):
            assert found.dtype == dtype
            assert_array_equal(found, wanted)
    alone = run(SGD(batch_size=batch), problem, parameters, max_iter=4, tol=0)
    assert one.history[-1] < 1.1 * alone.history[-1]


def test_features_are_joined_the_more_often_the_more_rows_they_are_in():
    joins = Joins.of(64 * FEWEST_ROWS, 2, np.array([1e-9, 1.0, 1e-12, TOUCHES / (4 * FEWEST_ROWS)]))
    assert joins.cuts.shape == (32, 3)
    assert joins.cuts[0, 0] == 0
    assert joins.cuts[-1, -1] == 64 * FEWEST_ROWS
    assert_array_equal(joins.cuts[1:, 0], joins.cuts[:-1, -1])
    assert_array_equal(joins.features[:2], [1, 3])
    assert_array_equal(joins.due[:8], [1, 2, 1, 2, 1, 2, 1, 2])
    assert joins.due[-1] == 4


@pytest.mark.parametrize("n", [0, 1, 3, 300])
def test_few_rows_are_joined_once(n):
    cuts, _, due = Joins.of(n, 3, np.ones(2))
    assert cuts[0, 0] == 0
    assert cuts[-1, -1] == n
    assert due[-1] == 2


def test_a_rule_that_cannot_be_joined_refuses_shares():
    class Plain(SGD):
        factor_rule = tuple

    Plain()
    with pytest.raises(ValueError, match="tuple does not say how copies are joined: shares must be 1, got 2"):
        Plain(shares=2)


def test_a_stream_and_a_checkpoint_take_shares(rng):
    problem, parameters = make_problem(*generated_clicks(rng), "anova", "direct", 2, loss="logistic")
    solver = SGD(shares=2)
    state = solver.init_state(problem, parameters.copy())
    before = problem.objective(parameters)
    for _ in range(2):
        solver.stream(problem, state)
    assert problem.objective(state.parameters) < before
    resumed = solver.init_state(problem, state.parameters.copy(), solver.resume(state))
    for each in (state, resumed):
        solver.stream(problem, each)
    for found, wanted in zip(arrays_of(resumed.parameters), arrays_of(state.parameters), strict=True):
        assert_array_equal(found, wanted)


def test_estimators_with_shares_do_not_depend_on_n_jobs(rng):
    X, y = generated_clicks(rng)
    options = {"solver": "sgd", "alpha": 1.0, "beta": 1.0, "max_iter": 2, "tol": 0, "random_state": 0}
    with pytest.warns(ConvergenceWarning):
        one, two, alone = (
            FactorizationMachineClassifier(n_components=2, shares=shares, n_jobs=n_jobs, **options).fit(X, y)
            for shares, n_jobs in [(2, 1), (2, 2), (1, 1)]
        )
    assert_array_equal(one.components_, two.components_)
    assert np.any(one.components_ != alone.components_)
    with pytest.raises(ValueError, match="'shares' parameter"):
        FactorizationMachineClassifier(solver="sgd", shares=0).fit(X, y)


def test_a_stream_goes_on_with_more_shares_and_keeps_no_copies(rng):
    X, y = rng.standard_normal((3000, 6)), rng.standard_normal(3000)
    model = FactorizationMachineRegressor(alpha=0.1, beta=0.1, solver="sgd", shares=2, random_state=0)
    model.partial_fit(X, y)
    size = len(pickle.dumps(model))
    model.set_params(shares=4).partial_fit(X, y)
    assert model.n_samples_seen_ == 6000
    one = clone(model).set_params(shares=1).partial_fit(X, y)
    assert size <= len(pickle.dumps(one)) + 200


def test_few_rows_have_few_shares():
    assert [copies.most_shares(n, 8) for n in (1, 511, 512, 1000, 10_000)] == [1, 1, 2, 3, 8]


def test_steps_follow_the_units_of_tiny_targets(rng):
    X = sp.random(3000, 30, 0.3, format="csr", random_state=0)
    y = np.asarray(X[:, 0].multiply(X[:, 1]).sum(axis=1)).ravel() + X @ rng.standard_normal(30)
    options = {"solver": "sgd", "alpha": 1e-3, "max_iter": 5, "tol": 0, "random_state": 0}
    with pytest.warns(ConvergenceWarning):
        plain = FactorizationMachineRegressor(beta=1e-3, **options).fit(X, y)
    with pytest.warns(ConvergenceWarning):
        tiny = FactorizationMachineRegressor(beta=1e-3 * 1e-18, **options).fit(X, 1e-18 * y)
    assert_allclose(tiny.predict(X) * 1e18, plain.predict(X), rtol=1e-6, atol=1e-6)
