"""Nothing breaks it: strange input gives the right answer or a clear error, never a NaN, a crash or a silent lie."""

import os
import re
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from polyfm import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    FactorizationMachineRegressorCV,
    PolynomialNetworkClassifier,
    PolynomialNetworkRegressor,
    explain,
)
from polyfm.core.design import Design
from polyfm.core.parameters import Parameters
from polyfm.estimators.validation import threads_of
from polyfm.kernels import anova_kernel
from polyfm.solvers import run
from polyfm.solvers.block_descent import BlockDescent
from polyfm.solvers.gauss_newton import GaussNewton
from polyfm.training.path import revived

REGRESSORS = [
    FactorizationMachineRegressor(degree=3, n_components=2),
    FactorizationMachineRegressor(degree=3, n_components=2, fit_lower="augment", fit_lambdas=True),
    FactorizationMachineRegressor(degree=3, n_components=2, method="lifted"),
    PolynomialNetworkRegressor(degree=3, n_components=2),
]
CLASSIFIERS = [FactorizationMachineClassifier(degree=3), PolynomialNetworkClassifier(degree=3)]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
each = pytest.mark.parametrize("estimator", REGRESSORS)


def fit(estimator, X, y, **parameters):
    model = clone(estimator).set_params(**{"random_state": 0, "max_iter": 20, **parameters}).fit(X, y)
    f = model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)
    assert np.all(np.isfinite(f))
    assert np.all(np.isfinite(model.components_))
    assert np.isfinite(model.objective_)
    assert np.all(np.diff(model.history_) <= 1e-12 * model.history_[0])
    return model


@each
@pytest.mark.parametrize("sparse", [False, True])
def test_all_zero_data_predicts_the_mean(estimator, sparse):
    X = np.zeros((6, 4))
    y = np.arange(6.0)
    model = fit(estimator, sp.csr_matrix(X) if sparse else X, y)
    assert_allclose(model.predict(X), 2.5, rtol=1e-6)


@each
def test_constant_target_is_predicted(estimator, rng):
    X = rng.standard_normal((20, 4))
    model = fit(estimator, X, np.full(20, 3.0), max_iter=200)
    assert_allclose(model.predict(X), 3, atol=0.05)


@each
def test_one_sample_works(estimator):
    model = fit(estimator, [[1.0, 2.0, 3.0]], [5.0])
    assert_allclose(model.predict([[1.0, 2.0, 3.0]]), 5, rtol=1e-3)


@each
def test_one_feature_works(estimator, rng):
    X = rng.standard_normal((30, 1))
    fit(estimator, X, X[:, 0] + 1)


@each
def test_no_penalty_and_no_curvature_works(estimator):
    X = np.zeros((8, 4))
    X[:, 0] = [1, 2, 3, 4, 5, 6, 7, 8]
    fit(estimator, X, X[:, 0] ** 2, alpha=0.0, beta=0.0)


@each
def test_more_bases_than_features_works(estimator, rng):
    X = rng.standard_normal((20, 3))
    fit(estimator, X, X[:, 0] * X[:, 1], n_components=12)


def test_degree_beyond_the_features_leaves_a_linear_model(rng):
    X = rng.standard_normal((20, 3))
    y = X @ [1.0, 2.0, 3.0] + 4
    model = fit(FactorizationMachineRegressor(fit_lower=None, alpha=1e-8), X, y, degree=7, tol=1e-12)
    assert_allclose(model.predict(X), y, atol=1e-3)
    assert np.all(np.isfinite(model.components_))


@each
@pytest.mark.parametrize("size", [1e-150, 1e-30, 1e-5, 1e5, 1e30])
def test_huge_and_tiny_features_work(estimator, rng, size):
    X = rng.standard_normal((30, 4))
    y = X[:, 0] * X[:, 1] + X[:, 2]
    model = fit(estimator, X * size, y, alpha=0.0, beta=0.0)
    if size > 1e-100:
        assert model.score(X * size, y) > 0.3


@each
@pytest.mark.parametrize("size", [1e-150, 1e-30, 1e30, 1e99])
def test_huge_and_tiny_targets_work(estimator, rng, size):
    X = rng.standard_normal((30, 4))
    y = (X[:, 0] * X[:, 1] + X[:, 2]) * size
    model = fit(estimator, X, y, alpha=0.0, beta=0.0)
    assert np.var(y - model.predict(X)) < 0.5 * np.var(y) or size < 1e-100


@each
def test_mixed_scales_never_raise_the_objective(estimator, rng):
    """Removing the dominant feature from a product cancels nearly all digits; the objective must still not rise."""
    X = rng.standard_normal((40, 6)) * [1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6]
    fit(estimator, X, X[:, 2] + rng.standard_normal(40), degree=4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each
def test_values_beyond_all_products_are_refused(estimator, dtype):
    X = np.ones((4, 3), dtype=dtype)
    X[0, 0] = 1e200 if dtype == np.float64 else 1e25
    with pytest.raises(ValueError, match=r"X has a value of magnitude 1e\+(200|25).*Scale the features"):
        clone(estimator).fit(X, np.ones(4))


@each
def test_targets_that_overflow_are_refused(estimator, rng):
    with pytest.raises(ValueError, match=r"y has a value of magnitude 1e\+200.*Scale"):
        clone(estimator).fit(rng.standard_normal((5, 3)), [1e200, -1e200, 0, 0, 1])


@pytest.mark.parametrize("estimator", [*REGRESSORS, *CLASSIFIERS])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_values_are_refused(estimator, bad):
    X = np.ones((4, 3))
    X[1, 2] = bad
    with pytest.raises(ValueError, match="NaN|infinity"):
        clone(estimator).fit(X, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="NaN|infinity"):
        clone(estimator).fit(sp.csr_matrix(X), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="NaN|infinity"):
        clone(estimator).fit(np.ones((4, 3)), [0, 1, 0, 1], sample_weight=[1, bad, 1, 1])


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_separable_classes_stay_finite(estimator, rng):
    X = rng.standard_normal((40, 3))
    for loss in ("logistic", "squared_hinge"):
        model = fit(estimator, X * 100, X[:, 0] > 0, loss=loss, alpha=0.0, beta=0.0)
        assert model.score(X * 100, X[:, 0] > 0) > 0.9


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"degree": 1}, "degree"),
        ({"degree": 2.5}, "degree"),
        ({"n_components": 0}, "n_components"),
        ({"beta": -1.0}, "beta"),
        ({"beta": np.inf}, "beta"),
        ({"alpha": np.nan}, "alpha"),
        ({"loss": "hinge"}, "loss"),
        ({"fit_lower": "all"}, "fit_lower"),
        ({"solver": "magic"}, "solver"),
        ({"init_scale": 0.0}, "init_scale"),
        ({"init_lambdas": [1.0, 2.0]}, r"init_lambdas has shape \(2,\), but the model has 10 bases"),
        ({"init_lambdas": [np.nan] * 10}, "init_lambdas must be finite"),
        ({"method": "lifted", "fit_lambdas": True}, "fit_lambdas=True needs method='direct'"),
        ({"method": "lifted", "init_lambdas": "random_signs"}, "init_lambdas needs method='direct'"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises((ValueError, TypeError), match=message):
        FactorizationMachineRegressor(**parameters).fit([[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0])


def test_direct_polynomial_networks_say_what_works():
    with pytest.raises(ValueError, match="cannot be trained by solver='cd'.*Use solver='newton', 'lbfgs' or 'sgd'"):
        PolynomialNetworkRegressor(method="direct", solver="cd").fit([[1.0]], [1.0])


def test_weights_that_cannot_be_are_refused(small):
    X, y = small
    with pytest.raises(ValueError, match="zero"):
        FactorizationMachineRegressor().fit(X, y, sample_weight=np.zeros(len(y)))
    with pytest.raises(ValueError, match="Negative values"):
        FactorizationMachineRegressor().fit(X, y, sample_weight=-np.ones(len(y)))


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="one class: 'a'"):
        FactorizationMachineClassifier().fit([[1.0], [2.0]], ["a", "a"])


def test_failed_fit_leaves_the_fitted_model_alone(small):
    X, y = small
    model = FactorizationMachineRegressor(random_state=0).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="y has a value of magnitude"):
        model.fit(X, y * 1e200)
    assert_allclose(model.predict(X), before)


def test_fits_raise_no_runtime_warnings(small):
    X, y = small
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for estimator in REGRESSORS:
            fit(estimator, X, y)
        for estimator in CLASSIFIERS:
            fit(estimator, X, y > 0)


# -- structure of sparse input


def malformed(kind, make=sp.csr_matrix):
    """A sound matrix whose arrays have been changed since."""
    X = make(np.arange(1.0, 31.0).reshape(6, 5))
    if kind == "too large":
        X.indices[7] = 5 if make is sp.csr_matrix else 6
    elif kind == "far too large":
        X.indices[7] = 2**31 - 1
    elif kind == "negative":
        X.indices[7] = -1
    elif kind == "falling":
        X.indptr[2] = 29
    elif kind == "from 1":
        X.indptr[0] = 1
    elif kind == "negative start":
        X.indptr[0] = -3
    elif kind == "too short":
        X.indptr = X.indptr[:-2]
    elif kind == "beyond the end":
        X.indptr[-1] = 1000
    elif kind == "fewer values":
        X.data = X.data[:10]
    elif kind == "real":
        X.indices = X.indices.astype(float)
    return X


FAULTS = [
    "too large", "far too large", "negative", "falling", "from 1", "negative start", "too short", "beyond the end",
    "fewer values", "real",
]  # fmt: skip


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_matrix])
@pytest.mark.parametrize("kind", FAULTS)
def test_malformed_sparse_input_is_named_and_never_followed(kind, make):
    y = np.arange(6.0)
    sound = FactorizationMachineRegressor(n_components=2, max_iter=1, random_state=0)
    sound.fit(malformed(""), y)
    stream = FactorizationMachineRegressor(solver="sgd", n_components=2)
    calls = [
        lambda X: FactorizationMachineRegressor().fit(X, y), lambda X: FactorizationMachineClassifier().fit(X, y > 2),
        lambda X: stream.partial_fit(X, y), sound.predict, lambda X: anova_kernel(X, np.ones((2, 5))),
        lambda X: anova_kernel(np.ones((2, 5)), X), lambda X: explain(sound, X),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ValueError, match=r"is malformed: .* Build it anew"):
            call(malformed(kind, make))


def test_messages_about_malformed_input_say_where():
    for X, message in [
        (malformed("too large"), "row 1 has the column index 5, but there are 5 columns, 0 to 4"),
        (malformed("negative", sp.csc_matrix), "column 1 has the row index -1, but there are 6 rows, 0 to 5"),
        (malformed("falling"), "its indptr must rise from 0, but entry 3 is 15 after 29"),
        (malformed("too short"), "its indptr has 5 entries, where 7 are needed"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            FactorizationMachineRegressor().fit(X, np.arange(6.0))


def test_other_formats_are_checked_too():
    coordinates = sp.coo_matrix(np.eye(4))
    coordinates.col = np.array([0, 1, 2, 9], dtype=np.int32)
    blocks = sp.bsr_matrix(np.ones((4, 4)), blocksize=(2, 2))
    blocks.indices[1] = 7
    lists = sp.lil_matrix(np.eye(4))
    lists.rows[2] = [11]
    for X in (coordinates, blocks, lists):
        with pytest.raises(ValueError, match="is malformed|exceeds|index"):
            FactorizationMachineRegressor().fit(X, np.arange(4.0))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_array, sp.coo_array])
def test_the_other_byte_order_is_read(make):
    X, y = make(np.arange(1.0, 31.0).reshape(6, 5)), np.arange(6.0)
    swapped = X.copy()
    swapped.data = X.data.astype(">f8")
    if X.format != "coo":
        swapped.indices, swapped.indptr = X.indices.astype(">i4"), X.indptr.astype(">i4")
    model = FactorizationMachineRegressor(n_components=2, max_iter=3, random_state=0)
    expected = clone(model).fit(X, y).predict(X)
    assert_array_equal(model.fit(swapped, y).predict(swapped), expected)


# -- rounding


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:Rounding errors", "ignore:Features differ"
)
@pytest.mark.parametrize("solver", ["cd", "block"])
@pytest.mark.parametrize(("degree", "span"), [(2, 30), (2, 60), (3, 30), (4, 8), (4, 30)])
def test_the_objective_never_increases_and_is_right_whatever_the_scales(rng, solver, degree, span):
    for _ in range(3):
        X = rng.standard_normal((60, 6))
        y = X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * rng.standard_normal(60)
        X = X * 10.0 ** rng.uniform(-span, span, 6)
        model = FactorizationMachineRegressor(
            degree=degree, solver=solver, alpha=1.0, beta=1.0, max_iter=30, tol=0, n_components=3, random_state=0
        )
        model.fit(X, y)
        history = model.history_
        assert np.all(np.diff(history) <= 1e-10 * np.abs(history[:-1]))
        problem = model._recipe(6).problem(Design(X), y, None)
        assert_allclose(model.objective_, problem.objective(model._fitted.targets[0]), rtol=1e-9)


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:Rounding errors", "ignore:Features differ"
)
@pytest.mark.parametrize("size", [1e-90, 1e17])
def test_features_far_from_the_ones_that_augment_them_keep_the_objective_right(rng, size):
    for _ in range(5):
        X, y = size * rng.standard_normal((60, 1)), rng.standard_normal(60)
        model = FactorizationMachineRegressor(
            fit_lower="augment",
            solver="cd",
            alpha=1.0,
            beta=1.0,
            max_iter=3,
            tol=0,
            n_components=3,
            init_scale=1e3,
            random_state=0,
        )
        problem = model.fit(X, y)._recipe(1).problem(Design(X), y, None)
        assert_allclose(model.objective_, problem.objective(model._fitted.targets[0]), rtol=1e-9)


def test_rounding_that_ends_training_is_said(rng):
    X, y = rng.standard_normal((60, 6)) * 10.0 ** np.linspace(-30, 30, 6), rng.standard_normal(60)
    model = FactorizationMachineRegressor(
        degree=4, solver="cd", alpha=1.0, beta=1.0, max_iter=100, n_components=3, random_state=0, tol=0
    )
    with pytest.warns(UserWarning, match="Rounding errors keep the objective from falling below"):
        model.fit(X, y)
    assert model.objective_ == model.history_.min()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("size", "weight"), [(1e70, 1.0), (1.0, 1e-300)])
def test_gradients_whose_squares_no_number_holds_are_followed_all_the_same(rng, size, weight):
    X = rng.standard_normal((60, 3))
    y = (1e90 if size > 1 else 1.0) * (X[:, 0] * X[:, 1] + X[:, 2])
    model = FactorizationMachineRegressor(
        solver="lbfgs", n_components=2, alpha=0, beta=0, tol=0, max_iter=30, random_state=0
    )
    model.fit(size * X, y, sample_weight=np.full(60, weight))
    assert model.objective_ < 0.8 * model.history_[0]


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:Rounding errors", "ignore:Features differ"
)
def test_penalties_far_from_each_other_keep_the_objective_right_in_single_precision(rng):
    X = sp.csr_matrix((rng.uniform(size=(60, 2)) < 0.5).astype(np.float32))
    y = rng.standard_normal(60).astype(np.float32)
    for seed in range(5):
        model = FactorizationMachineRegressor(
            method="lifted", solver="cd", alpha=1.0, beta=[4e6, 0.0], fit_linear=False, n_components=5, tol=0,
            max_iter=15, random_state=seed,
        ).fit(X, y)  # fmt: skip
        problem = model._recipe(2).problem(Design(X), y, None)
        assert_allclose(model.objective_, problem.objective(model._fitted.targets[0]), rtol=1e-4)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_lambdas_in_single_precision_never_raise_the_objective(rng):
    X, y = rng.standard_normal((10, 5)).astype(np.float32), 1e14 * np.arange(10)
    model = PolynomialNetworkRegressor(
        degree=3,
        method="direct",
        solver="newton",
        fit_lambdas=True,
        warm_start=True,
        tol=0,
        max_iter=15,
        random_state=0,
    )
    history = model.fit(X, y).fit(X, y).history_  # the second fit begins where rounding is all that is left
    assert np.all(np.diff(history) <= 1e-4 * history[0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_factors_whose_squares_overflow_are_not_taken_for_dead(rng):
    fresh = Parameters((np.ones((2, 1, 3)),), (np.ones(2),), np.zeros(3), np.zeros(1))
    large = fresh._replace(factors=(np.array([[[1e200] * 3], [[1e-9] * 3]]),))
    assert_array_equal(revived(large, fresh).factors[0], [[[1e200] * 3], [[1.0] * 3]])


@pytest.mark.parametrize(
    ("name", "array"), [("f", np.zeros(12, dtype=bool)), ("f", np.zeros(12, dtype=int)), ("epoch", np.zeros(1))]
)
def test_what_a_solver_goes_on_from_must_be_of_the_kind_that_it_gave(rng, name, array):
    X, y = rng.standard_normal((12, 3)), rng.standard_normal(12)
    recipe = FactorizationMachineRegressor(n_components=2, solver="block", alpha=1.0, beta=1.0)._recipe(3)
    problem = recipe.problem(Design(X), y, None)
    start, solver = recipe.start(problem, 0), BlockDescent()
    sound = run(solver, problem, start, max_iter=1, tol=0).resume
    run(solver, problem, start, max_iter=1, tol=0, resume=sound)
    with pytest.raises(ValueError, match=f"the checkpoint's '{name}' holds what is no number, or one of another kind"):
        run(solver, problem, start, max_iter=1, tol=0, resume={**sound, name: array})


@pytest.mark.parametrize(("place", "value"), [(0, 0.0), (1, 0.0), (1, np.inf)])
def test_damping_that_no_run_has_is_not_gone_on_from(rng, place, value):
    X, y = rng.standard_normal((12, 3)), rng.standard_normal(12)
    recipe = FactorizationMachineRegressor(n_components=2, solver="newton", alpha=1.0, beta=1.0)._recipe(3)
    problem = recipe.problem(Design(X), y, None)
    start, solver = recipe.start(problem, 0), GaussNewton()
    resume = run(solver, problem, start, max_iter=1, tol=0).resume
    resume["numbers"][place] = value
    with pytest.raises(ValueError, match="no run has that"):
        run(solver, problem, start, max_iter=1, tol=0, resume=resume)


def test_targets_whose_squared_losses_overflow_choose_penalties_too(rng):
    X = rng.standard_normal((40, 3))
    for power in (50, 80):
        model = FactorizationMachineRegressor(n_components=2, random_state=0).fit(X, 10.0**power * X[:, 0] * X[:, 1])
        assert model.score(X, 10.0**power * X[:, 0] * X[:, 1]) > 0.9


def test_a_model_that_does_not_know_the_range_of_its_targets_says_so(rng):
    X, y = rng.standard_normal((12, 3)), rng.standard_normal(12)
    model = FactorizationMachineRegressor(n_components=2, alpha=1.0, beta=1.0, max_iter=1, tol=1.0).fit(X, y)
    del model.target_range_
    with pytest.raises(ValueError, match="clip=True, but this model does not know"):
        model.set_params(clip=True).predict(X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scores_that_overflow_are_as_low_as_scores_can_be(rng):
    X, y = rng.standard_normal((12, 2)), rng.standard_normal(12)
    X[6:] *= 1e90
    model = FactorizationMachineRegressorCV(betas=[1.0], cv=[(np.arange(6), np.arange(6, 12))], random_state=0)
    with pytest.raises(ValueError, match="overflow"):  # in the refit on all rows
        model.fit(X, y)


# -- size


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"degree": 50}, r"The 'degree' parameter .* must be an int in the range \[2, 30\]. Got 50"),
        ({"n_components": 10**12}, r"The model would need .* GB, for 7e\+12 parameters"),
        ({"degree": 28, "method": "lifted"}, "would need .*(GB|numbers of working space)"),
    ],
)
def test_absurd_sizes_are_refused_before_any_work(small, parameters, message):
    began = time.perf_counter()
    with pytest.raises(ValueError, match=message):
        FactorizationMachineRegressor(**parameters).fit(*small)
    assert time.perf_counter() - began < 2


def test_no_more_threads_than_processors(small):
    assert threads_of(10**6) == threads_of(-1) <= (os.cpu_count() or 1)
    X, y = small
    model = FactorizationMachineRegressor(n_jobs=10**6, random_state=0).fit(X, y)
    assert np.all(np.isfinite(model.predict(X)))


# -- what an attack found


def test_a_search_on_threads_leaves_the_filters_of_warnings_alone(rng):
    X, y = rng.standard_normal((200, 4)), rng.standard_normal(200)
    before = list(warnings.filters)
    for _ in range(3):
        FactorizationMachineRegressorCV(solver="lbfgs", n_betas=3, cv=4, n_jobs=2, max_iter=10).fit(X, y)
    assert list(warnings.filters) == before


def test_keys_of_warm_starts_do_not_depend_on_what_scipy_remembers(rng):
    X, y = sp.csr_matrix(rng.standard_normal((50, 6))), rng.standard_normal(50)
    options = {"solver": "sgd", "tol": 0, "random_state": 0}
    whole = FactorizationMachineRegressor(max_iter=6, **options).fit(X.copy(), y)
    parts = FactorizationMachineRegressor(max_iter=3, warm_start=True, **options).fit(X, y)
    assert X.has_canonical_format  # asking makes scipy remember the answer
    assert_array_equal(parts.fit(X, y).components_, whole.components_)


def test_gauss_newton_gives_the_same_bits_on_any_number_of_threads(rng):
    X = rng.standard_normal((60, 40))
    one, two = (
        FactorizationMachineClassifier(solver="newton", max_iter=3, random_state=0, n_jobs=n).fit(X, X[:, 0] > 0)
        for n in (1, 2)
    )
    assert_array_equal(one.components_, two.components_)


@pytest.mark.parametrize(
    ("make", "weight", "message"),
    [
        (lambda: FactorizationMachineRegressorCV(cv=2, betas=[1.0]), np.eye(12)[0], "the rows that fold 1 trains on"),
        (lambda: FactorizationMachineRegressor(early_stopping=True, random_state=0), np.eye(12)[0], "to hold out"),
        (
            lambda: FactorizationMachineRegressor(),
            np.full(12, 1e200),
            "sample_weight has a value of magnitude 1e\\+200",
        ),
        (lambda: FactorizationMachineRegressor(beta=1e300), None, "beta is 1e\\+300, too large"),
        (lambda: FactorizationMachineRegressor(beta=10**400), None, "beta must be finite, got 1000"),
        (lambda: FactorizationMachineRegressor(tol=10**400), None, "tol must be finite, got 1000"),
        (lambda: FactorizationMachineRegressorCV(cv=12, betas=[1.0]), None, "No beta has a score on every fold"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_weights_and_penalties_out_of_range_are_named(rng, make, weight, message):
    X, y = rng.standard_normal((12, 3)), rng.standard_normal(12)
    with pytest.raises(ValueError, match=message):
        make().fit(X, y, sample_weight=weight)


def test_the_smallest_weights_are_weights(rng):
    X, y = rng.standard_normal((12, 3)), rng.standard_normal(12)
    for kind, target in ((FactorizationMachineRegressor, y), (FactorizationMachineClassifier, y > 0)):
        assert kind(random_state=0).fit(X, target, sample_weight=np.full(12, 1e-300)).objective_ > 0
