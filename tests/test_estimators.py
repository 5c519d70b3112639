"""What users see: attributes, input kinds, weights, classes, stopping, persistence."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import reference
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from polyfm import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkClassifier,
    PolynomialNetworkRegressor,
)

REGRESSORS = [
    FactorizationMachineRegressor(degree=3, n_components=2),
    FactorizationMachineRegressor(degree=3, n_components=2, fit_lower="augment", init_lambdas="random_signs"),
    FactorizationMachineRegressor(degree=3, n_components=2, method="lifted"),
    PolynomialNetworkRegressor(degree=3, n_components=2),
]
CLASSIFIERS = [FactorizationMachineClassifier(), PolynomialNetworkClassifier()]
SHORT = {"random_state": 0, "alpha": 1.0, "beta": 1.0, "max_iter": 5, "tol": 0}
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@quiet
@pytest.mark.parametrize("estimator", REGRESSORS)
@pytest.mark.parametrize("weighted", [False, True])
def test_attributes_explain_predictions_and_objective(small, estimator, weighted):
    X, y = small
    weight = np.linspace(0, 2, len(y)) if weighted else None
    model = clone(estimator).set_params(**{**SHORT, "alpha": 0.3, "beta": 0.7}).fit(X, y, sample_weight=weight)
    assert_allclose(model.predict(X), reference.predict(model, X), rtol=1e-9, atol=1e-9)
    assert_allclose(model.objective_, reference.objective(model, X, y, weight), rtol=1e-10)
    assert model.history_[-1] == model.objective_
    assert len(model.history_) == model.n_iter_ == 5
    assert np.all(np.diff(model.history_) <= 0)
    assert model.n_features_in_ == X.shape[1]
    assert len(model.lambdas_) == len(model.degrees_)


@quiet
@pytest.mark.parametrize("estimator", [*REGRESSORS, *CLASSIFIERS])
def test_every_kind_of_input_gives_the_same_model(small, estimator):
    X, y = small
    if estimator in CLASSIFIERS:
        y = np.where(y > 0, "yes", "no")
    wide = X.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    frozen = X.toarray()
    frozen.flags.writeable = False
    doubled = sp.coo_matrix(
        (np.repeat(X.data / 2, 2), (np.repeat(X.nonzero()[0], 2), np.repeat(X.nonzero()[1], 2))), shape=X.shape
    )
    duplicates = sp.csr_matrix((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape)
    assert not duplicates.has_canonical_format
    columns = [f"feature {j}" for j in range(X.shape[1])]
    model = clone(estimator).set_params(**SHORT).fit(X, y)
    expected = model.components_
    for kind in (
        X.toarray(), np.asfortranarray(X.toarray()), X.tocsc(), sp.csr_array(X), sp.csc_array(X), wide, doubled,
        duplicates, frozen, X.toarray().tolist(), pd.DataFrame(X.toarray(), columns=columns),
    ):  # fmt: skip
        fitted = clone(model).fit(kind, y)
        assert_allclose(fitted.components_, expected, rtol=1e-6, atol=1e-9)
        assert_allclose(fitted.objective_, model.objective_, rtol=1e-9)
    assert duplicates.nnz == 2 * X.nnz  # the caller's matrix is left alone
    assert list(clone(model).fit(pd.DataFrame(X.toarray(), columns=columns), y).feature_names_in_) == columns


def test_memory_mapped_sparse_input_works(small, tmp_path):
    X, y = small
    parts = {}
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(X, name))
        parts[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    mapped = sp.csr_matrix((parts["data"], parts["indices"], parts["indptr"]), shape=X.shape)
    model = FactorizationMachineRegressor(random_state=0).fit(X, y)
    assert_array_equal(clone(model).fit(mapped, y).predict(mapped), model.predict(X))


@quiet
@pytest.mark.parametrize("estimator", [REGRESSORS[0], CLASSIFIERS[-1]])
@pytest.mark.parametrize("dense", [True, False])
def test_single_precision_in_is_single_precision_out(small, estimator, dense):
    X, y = small
    X = X.toarray() if dense else X
    y = y > 0 if estimator in CLASSIFIERS else y
    double = clone(estimator).set_params(random_state=0, max_iter=30).fit(X, y)
    single = clone(double).fit(X.astype(np.float32), y)
    assert single.components_.dtype == single.coef_.dtype == np.float32
    decide = "predict" if estimator in REGRESSORS else "decision_function"
    assert getattr(single, decide)(X.astype(np.float32)).dtype == np.float32
    assert_allclose(single.objective_, double.objective_, rtol=1e-3)


@pytest.mark.parametrize("estimator", [*REGRESSORS[:3], *CLASSIFIERS])
def test_weight_two_is_the_row_twice_and_weight_zero_no_row(small, estimator):
    X, y = small
    X = X.toarray()
    y = (y > 0) * 2.0 - 1 if estimator in CLASSIFIERS else y
    weight = np.random.RandomState(1).randint(0, 3, len(y)).astype(float)
    rows = np.repeat(np.arange(len(y)), weight.astype(int))
    options = {"random_state": 0, "max_iter": 30, "tol": 1e-3}
    weighted = clone(estimator).set_params(**options).fit(X, y, sample_weight=weight)
    repeated = clone(weighted).fit(X[rows], y[rows])
    assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-7)
    assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-4, atol=1e-5)


def test_degree_three_beats_ridge_where_features_interact(rng):
    X = rng.standard_normal((400, 6))
    y = X[:, 0] + X[:, 1] * X[:, 2] + X[:, 3] * X[:, 4] * X[:, 5]
    scores = cross_val_score(FactorizationMachineRegressor(degree=3, random_state=0), X, y)
    assert scores.mean() > 0.98
    assert cross_val_score(Ridge(), X, y).mean() < 0.5


def test_polynomial_network_learns_squares(rng):
    X = rng.standard_normal((300, 5))
    y = (X[:, 0] + X[:, 1]) ** 2 - X[:, 2] ** 2
    assert cross_val_score(PolynomialNetworkRegressor(random_state=0), X, y).mean() > 0.98
    assert cross_val_score(FactorizationMachineRegressor(random_state=0), X, y).mean() < 0.9


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "squared"])
@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_binary_classification_learns_xor(rng, estimator, loss):
    X = rng.uniform(-1, 1, (300, 4))
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "differ")
    model = clone(estimator).set_params(loss=loss, beta=0.01, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert list(model.classes_) == ["differ", "same"]
    assert_array_equal(model.predict(X) == "same", model.decision_function(X) > 0)
    assert model.coef_.shape == (1, 4)
    assert model.components_.shape[0] == 1


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_multiclass_gives_probabilities_that_sum_to_one(estimator):
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    model = clone(estimator).set_params(beta=0.1, random_state=0).fit(X, y)
    proba = model.predict_proba(X)
    assert proba.shape == (150, 3)
    assert_allclose(proba.sum(axis=1), 1)
    assert_allclose(np.exp(model.predict_log_proba(X)), proba)
    assert model.decision_function(X).shape == (150, 3)
    assert model.score(X, y) > 0.95
    assert model.coef_.shape == (3, 4)
    assert model.intercept_.shape == (3,)
    assert not hasattr(clone(estimator).set_params(loss="squared_hinge"), "predict_proba")


def test_works_in_pipelines_and_searches():
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), FactorizationMachineClassifier(random_state=0))
    search = GridSearchCV(
        pipeline, {"factorizationmachineclassifier__beta": [0.1, 10.0]}, scoring="neg_log_loss", cv=3
    ).fit(X, y)
    assert search.best_score_ > -0.4


@pytest.mark.skipif(sklearn.__version__ < "1.8", reason="pipelines of scikit-learn 1.7 do not route weights to score")
def test_sample_weights_are_routed():
    X, y = load_diabetes(return_X_y=True)
    with config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        model = FactorizationMachineRegressor(random_state=0).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        search = GridSearchCV(make_pipeline(scaler, model), {"factorizationmachineregressor__beta": [100.0]})
        search.fit(X, y, sample_weight=np.r_[np.ones(400), np.zeros(42)])
    assert search.best_estimator_.score(X[:400], y[:400]) > 0.4


@quiet
@pytest.mark.parametrize("estimator", [*REGRESSORS, *CLASSIFIERS])
def test_pickled_model_predicts_the_same(small, estimator):
    X, y = small
    y = y > 0 if estimator in CLASSIFIERS else y
    model = clone(estimator).set_params(**SHORT).fit(X, y)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_same_seed_same_model_and_other_seed_another(small):
    X, y = small
    a, b, c = (FactorizationMachineRegressor(random_state=seed).fit(X, y).components_ for seed in (1, 1, 2))
    assert_array_equal(a, b)
    assert not np.allclose(a, c)


# -- stopping ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", REGRESSORS)
def test_a_change_of_units_changes_nothing_but_the_units(estimator):
    """X -> c X and y -> q y, with alpha and beta to match, is the same problem: same epochs, same predictions."""
    X, y = load_diabetes(return_X_y=True)
    X, y = scale(X), y - y.mean()
    c, q, m = 64.0, 1 / 128, 3
    model = clone(estimator).set_params(random_state=0, degree=m, fit_lower=None, alpha=5.0, beta=300.0).fit(X, y)
    # lambda stays 1, so p scales as (q / c^m)^(1/m); beta |p|^2 must scale as q^2.
    shrink = (q / c**m) ** (1 / m)
    other = clone(model).set_params(alpha=5.0 * c**2, beta=300.0 * q**2 / shrink**2).fit(c * X, q * y)
    assert other.n_iter_ == model.n_iter_
    assert_allclose(other.predict(c * X), q * model.predict(X), rtol=1e-6, atol=1e-8)
    assert_allclose(other.objective_, q**2 * model.objective_, rtol=1e-8)


def test_warning_says_what_to_do(small):
    with pytest.warns(ConvergenceWarning, match=r"max_iter=2 epochs.*lowered the objective by .* more than tol=0"):
        FactorizationMachineRegressor(max_iter=2, tol=0.0, random_state=0).fit(*small)


def test_perfect_fit_stops_by_itself(rng):
    X = rng.standard_normal((50, 3))
    model = FactorizationMachineRegressor(alpha=0.0, beta=0.0, random_state=0, max_iter=1000).fit(X, X[:, 0])
    assert model.n_iter_ < 1000
    assert model.score(X, X[:, 0]) > 1 - 1e-6


@quiet
@pytest.mark.parametrize("estimator", REGRESSORS)
def test_warm_start_goes_on_where_training_stopped(small, estimator):
    X, y = small
    whole = clone(estimator).set_params(**SHORT, fit_lower=None).set_params(max_iter=10).fit(X, y)
    parts = clone(whole).set_params(max_iter=5, warm_start=True)
    first = parts.fit(X, y).history_
    assert_allclose(np.r_[first, parts.fit(X, y).history_], whole.history_, rtol=1e-10)


def test_warm_start_with_other_shapes_is_an_error(small):
    X, y = small
    model = FactorizationMachineRegressor(warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="warm_start=True, but the fitted parameters have other shapes"):
        model.set_params(n_components=3).fit(X, y)


def test_verbose_prints_a_line_an_epoch(small, capsys):
    model = FactorizationMachineRegressor(alpha=1.0, beta=1.0, verbose=1, random_state=0).fit(*small)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_iter_
    assert "epoch    1   objective" in lines[0]


def test_verbose_shows_a_bar_on_a_terminal(small, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    FactorizationMachineRegressor(alpha=1.0, beta=1.0, verbose=1, max_iter=4, tol=0, random_state=0).fit(*small)
    lines = capsys.readouterr().out.split("\n")
    assert lines[0].startswith("\r\033[Kepoch    1")
    assert lines[1].startswith("████████░░░░░░░░░░░░░░░░░░░░░░  25% of 4 epochs")
    assert "epoch    4" in lines[-2]
    assert lines[-1] == ""  # nothing is left below the last line


def test_lambdas_are_kept_or_fitted_as_asked(small):
    X, y = small
    given = np.linspace(-1, 1, 10)
    keep = FactorizationMachineRegressor(init_lambdas=given).fit(X, y)
    assert_array_equal(keep.lambdas_, given)
    signs = FactorizationMachineRegressor(init_lambdas="random_signs", random_state=0).fit(X, y)
    assert set(signs.lambdas_) == {-1.0, 1.0}
    fitted = FactorizationMachineRegressor(
        beta=0.01, init_lambdas="random_signs", fit_lambdas=True, random_state=0
    ).fit(X, y)
    assert len(set(np.abs(fitted.lambdas_))) > 2


def test_import_compiles_nothing():
    code = "import numba.core.dispatcher as d; d.Dispatcher.compile = lambda *a: 1 / 0; import polyfm"
    subprocess.run([sys.executable, "-c", code], check=True)
