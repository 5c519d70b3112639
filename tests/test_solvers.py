"""Solvers agree: on problems where they must, all reach the same objective."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from polyfm import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkClassifier,
    PolynomialNetworkRegressor,
)
from polyfm.solvers import SOLVERS
from polyfm.solvers.sgd import SGD

KINDS = {
    ("anova", "squared"): FactorizationMachineRegressor,
    ("anova", "logistic"): FactorizationMachineClassifier,
    ("anova", "squared_hinge"): FactorizationMachineClassifier,
    ("homogeneous", "squared"): PolynomialNetworkRegressor,
    ("homogeneous", "logistic"): PolynomialNetworkClassifier,
    ("homogeneous", "squared_hinge"): PolynomialNetworkClassifier,
}
STOCHASTIC = {"max_iter": 300, "tol": 0.0}, 0.1  # epochs, and how far above the best objective a solver may end
EXACT = {"max_iter": 3000, "tol": 1e-10}, 1e-4
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def fit(kernel, method, loss, solver):
    """Degree 2, more bases than features, a penalty: every local minimum of the lifted problem is global (section 6),
    and with lambda of both signs so is, in practice, that of the direct one."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((80, 4))
    y = X[:, 0] * X[:, 1] - X[:, 2] ** 2 + X[:, 3] + 0.3 * rng.standard_normal(80)
    y = y if loss == "squared" else y > np.median(y)
    options = {"loss": loss, "alpha": 1.0, "beta": 1.0, "n_components": 8, "fit_lower": None, "fit_linear": True}
    if method == "direct":
        options["init_lambdas"] = np.tile([1.0, -1.0], 4)
    estimator = KINDS[kernel, loss](method=method, solver=solver, random_state=0, **options, **budget(solver)[0])
    return estimator.fit(X, y)


def budget(solver):
    return EXACT if SOLVERS[solver].monotone else STOCHASTIC


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
@pytest.mark.parametrize(("kernel", "method"), [(k, m) for k in ("anova", "homogeneous") for m in ("direct", "lifted")])
def test_all_solvers_reach_the_same_objective(kernel, method, loss):
    multilinear = (kernel, method) != ("homogeneous", "direct")
    solvers = [name for name, cls in SOLVERS.items() if multilinear or not cls.needs_multilinear]
    models = {solver: fit(kernel, method, loss, solver) for solver in solvers}
    best = min(model.objective_ for model in models.values())
    for solver, model in models.items():
        assert model.solver_ == solver
        if SOLVERS[solver].monotone:
            assert np.all(np.diff(model.history_) <= 1e-9 * model.history_[0])
        assert_allclose(model.objective_, best, rtol=budget(solver)[1], err_msg=solver)


def test_direct_and_lifted_forms_reach_the_same_minimum():
    for kernel in ("anova", "homogeneous"):
        direct = fit(kernel, "direct", "squared", "lbfgs")
        lifted = fit(kernel, "lifted", "squared", "lbfgs")
        assert_allclose(direct.objective_, lifted.objective_, rtol=1e-4)


@pytest.mark.parametrize("kind", [FactorizationMachineRegressor, PolynomialNetworkRegressor])
def test_lbfgs_alternates_with_the_lasso_in_lambda(kind):
    """Figure 1 of the paper: fitting lambda reaches a lower objective, above all with the homogeneous kernel."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((100, 4))
    y = X[:, 0] ** 2 - X[:, 1] ** 2 - X[:, 2] * X[:, 3]
    options = {
        "method": "direct", "solver": "lbfgs", "fit_lower": None, "fit_linear": False, "n_components": 6,
        "max_iter": 500, "tol": 1e-7, "random_state": 0, "alpha": 1.0, "beta": 1.0,
    }  # fmt: skip
    ones = kind(**options).fit(X, y)
    fitted = kind(fit_lambdas=True, init_lambdas="random_signs", **options).fit(X, y)
    assert np.all(np.diff(fitted.history_) <= 1e-9 * fitted.history_[0])
    assert fitted.objective_ < (0.8 if kind is PolynomialNetworkRegressor else 1.0) * ones.objective_
    assert np.any(fitted.lambdas_ < 0)


def test_auto_says_what_it_chose(small):
    X, y = small
    assert FactorizationMachineRegressor().fit(X, y).solver_ == "cd"
    assert PolynomialNetworkRegressor().fit(X, y).solver_ == "cd"
    assert PolynomialNetworkRegressor(method="direct").fit(sp.csr_matrix(X), y).solver_ == "lbfgs"
    assert PolynomialNetworkRegressor(method="direct").fit(sp.csr_matrix(X).toarray(), y).solver_ == "newton"
    rng = np.random.RandomState(0)
    columns = np.column_stack([rng.randint(100, size=40_000), 100 + rng.randint(50, size=40_000)])
    one_hot = sp.csr_matrix((np.ones(80_000), columns.ravel(), np.arange(0, 80_001, 2)))
    y = rng.standard_normal(40_000)
    assert FactorizationMachineRegressor(max_iter=1).fit(one_hot, y).solver_ == "block"
    assert FactorizationMachineRegressor(n_components=2, max_iter=1).fit(one_hot, y).solver_ == "cd"
    longer = sp.hstack([one_hot] * 3, format="csr")
    assert FactorizationMachineRegressor(max_iter=1).fit(longer, y).solver_ == "cd"


def test_threads_change_nothing(small):
    X, y = np.tile(small[0].toarray(), (200, 1)), np.tile(small[1], 200)
    one, two = (
        FactorizationMachineRegressor(solver="lbfgs", max_iter=5, random_state=0, n_jobs=n).fit(X, y) for n in (1, 2)
    )
    assert np.array_equal(one.components_, two.components_)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stochastic_steps_need_no_learning_rate(scale, dtype):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((500, 6))
    y = 100 * scale * (X[:, 0] * X[:, 1] + X[:, 2])
    model = FactorizationMachineRegressor(
        solver="sgd", alpha=0.0, beta=0.0, random_state=0, max_iter=30, tol=0, fit_lower=None
    )
    assert model.fit((X * scale).astype(dtype), y).score((X * scale).astype(dtype), y) > 0.95


def test_divergence_is_backed_off_from_and_reported(small, monkeypatch):
    X, y = small
    start = SGD.init_state

    def reckless(self, *args, **kwargs):
        state = start(self, *args, **kwargs)
        state.step = 1e4
        return state

    monkeypatch.setattr(SGD, "init_state", reckless)
    model = FactorizationMachineRegressor(solver="sgd", alpha=1.0, beta=1.0, max_iter=60, tol=0, random_state=0)
    with pytest.warns(UserWarning, match=r"halved \d+ time"):
        model.fit(X, y)
    assert np.all(np.isfinite(model.predict(X)))
    assert model.objective_ < 0.5 * np.sum((y - y.mean()) ** 2)


@pytest.mark.parametrize("kind", [FactorizationMachineRegressor, FactorizationMachineClassifier])
def test_partial_fit_learns_from_a_stream(kind):
    rng = np.random.RandomState(0)
    model = kind(solver="sgd", alpha=0.1, beta=0.1, random_state=0)
    for batch in range(30):
        X = rng.standard_normal((300, 5))
        if batch < 3:
            X[:, 4] = 0  # a feature that is not seen at first
        f = X[:, 0] * X[:, 1] + X[:, 4]
        if kind is FactorizationMachineRegressor:
            model.partial_fit(X, f)
        else:
            model.partial_fit(X, f > 0, classes=[False, True])
    X = rng.standard_normal((300, 5))
    f = X[:, 0] * X[:, 1] + X[:, 4]
    score = model.score(X, f if kind is FactorizationMachineRegressor else f > 0)
    assert score > 0.9
    assert model.n_samples_seen_ == 9000
    assert model.n_iter_ == 30


def test_partial_fit_says_what_it_needs(small):
    X, y = small
    with pytest.raises(AttributeError, match="has no attribute 'partial_fit'"):
        FactorizationMachineRegressor().partial_fit(X, y)
    classifier = FactorizationMachineClassifier(solver="sgd")
    with pytest.raises(ValueError, match="needs classes="):
        classifier.partial_fit(X, y > 0)
    with pytest.raises(ValueError, match=r"classes= must name at least two classes, got \[True\]"):
        classifier.partial_fit(X, y > 0, classes=[True])
    classifier.partial_fit(X, y > 0, classes=[False, True])
    with pytest.raises(ValueError, match="label '7', which is not among the classes"):
        classifier.partial_fit(X, np.full(len(y), 7))
    with pytest.raises(ValueError, match="features"):
        classifier.partial_fit(X[:, :3], y > 0)
    with pytest.raises(ValueError, match="fit_lambdas=True needs solver"):
        FactorizationMachineRegressor(solver="sgd", fit_lambdas=True).fit(X, y)


def test_solvers_raise_no_runtime_warnings(small):
    X, y = small
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for solver in SOLVERS:
            FactorizationMachineRegressor(solver=solver, max_iter=20, random_state=0).fit(X, y)
