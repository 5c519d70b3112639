"""ONNX: a runtime that knows nothing of polyfm predicts what the model does."""

import numpy as np
import pytest
import reference
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from untrained import untrained

from polyfm import (
    BayesianFactorizationMachineClassifier,
    BayesianFactorizationMachineRegressor,
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    FactorizationMachineRegressorCV,
    PolynomialNetworkClassifier,
    PolynomialNetworkRegressor,
)
from polyfm.tabular import TableEncoder

for needed in ("onnx", "skl2onnx", "onnxruntime"):
    pytest.importorskip(needed, reason=f"{needed} is not installed: pip install 'polyfm[onnx]' onnxruntime")
import onnx  # noqa: E402
import onnxruntime  # noqa: E402

from polyfm.export import ExportError, register_converters, to_onnx  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of skl2onnx
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

X = np.random.RandomState(0).standard_normal((8, 5)).astype(np.float32)


def run(model, rows):
    """The outputs of an ONNX model by name, after the checks of the format."""
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, rows if isinstance(rows, dict) else {"X": rows}), strict=True))


def operators(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from operators(attribute.g)


def assert_close(found, expected):
    """To 1e-5 of the predictions, and of their size where they are near 0."""
    assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("degree", [2, 3, 5])
@pytest.mark.parametrize("method", ["direct", "lifted"])
@pytest.mark.parametrize("lower", [None, "explicit", "augment"])
@pytest.mark.parametrize("cls", [FactorizationMachineRegressor, PolynomialNetworkRegressor])
def test_every_model_predicts_the_same_by_standard_operators(cls, lower, method, degree):
    lambdas = {"init_lambdas": "ones"}
    if method == "direct":
        n_bases = 3 * (degree - 1 if lower == "explicit" else 1)
        lambdas["init_lambdas"] = np.resize([0.5, -2.0, 0.0], n_bases)
    model = untrained(cls(degree=degree, n_components=3, method=method, fit_lower=lower, **lambdas))
    exported = to_onnx(model)
    assert {node.domain for node in operators(exported.graph)} == {""}
    assert_close(run(exported, X)["variable"][:, 0], reference.predict(model, X.astype(np.float64)))


@pytest.mark.parametrize("parameters", [{"fit_linear": False}, {"fit_intercept": False}], ids=str)
def test_models_without_weights_or_intercept_predict_the_same(parameters):
    model = untrained(FactorizationMachineRegressor(n_components=1, **parameters))
    assert_close(run(to_onnx(model), X)["variable"][:, 0], reference.predict(model, X.astype(np.float64)))


@pytest.mark.parametrize("method", ["direct", "lifted"])
@pytest.mark.parametrize("degree", [2, 3])
def test_many_features_go_by_power_sums(degree, method):
    model = untrained(
        FactorizationMachineRegressor(degree=degree, n_components=2, method=method, fit_lower="augment"), n_features=201
    )
    wide = np.zeros((6, 201), dtype=np.float32)
    wide[:, ::40] = np.random.RandomState(1).standard_normal((6, 6))
    exported = to_onnx(model)
    assert not any(node.op_type == "Scan" for node in exported.graph.node)
    kept = np.append(np.arange(0, 201, 40), np.arange(201, 201 + degree - 1))  # what is not 0, and dummies
    small = untrained(model.__class__(**model.get_params()), n_features=6)
    for ours, theirs in zip(small._fitted.targets[0].factors, model._fitted.targets[0].factors, strict=True):
        ours[:] = theirs[:, :, kept]
    small._fitted.targets[0].coef[:] = model.coef_[::40]
    small.intercept_ = small._fitted.targets[0].intercept[0] = model.intercept_
    small._set_fitted(small._fitted)
    assert_close(run(exported, wide)["variable"][:, 0], reference.predict(small, wide[:, ::40].astype(np.float64)))


@pytest.mark.parametrize("degree", [2, 3, 4, 6])
def test_one_large_feature_costs_no_digits(degree):
    model = untrained(FactorizationMachineRegressor(degree=degree, n_components=2, fit_lower=None), n_features=7)
    rows = np.random.RandomState(1).standard_normal((20, 7)).astype(np.float32)
    rows[:, 0] *= 1e4
    expected = reference.predict(model, rows.astype(np.float64))
    assert_allclose(
        run(to_onnx(model), rows)["variable"][:, 0], expected, rtol=1e-5, atol=1e-5 * np.median(abs(expected))
    )


def test_double_precision_keeps_all_digits():
    model = untrained(FactorizationMachineRegressor(degree=3, n_components=3))
    rows = 20261118.0 + np.arange(10.0).reshape(2, 5)  # which single precision rounds
    found = run(to_onnx(model, dtype=np.float64), rows)["variable"]
    assert found.dtype == np.float64
    assert_allclose(found[:, 0], reference.predict(model, rows), rtol=1e-12)


def test_clipped_predictions_are_clipped():
    model = untrained(FactorizationMachineRegressor(n_components=3, clip=True))
    model.target_range_ = np.array([-1.0, 0.5])
    found = run(to_onnx(model), X)["variable"]
    assert_close(found[:, 0], np.clip(reference.predict(model, X.astype(np.float64)), -1, 0.5))
    assert found.min() == -1
    assert found.max() == 0.5


@pytest.mark.parametrize("classes", [["no", "yes"], [3, 1, 2], ["a", "ä", "c d"], [0.0, 1.0]], ids=str)
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("cls", [FactorizationMachineClassifier, PolynomialNetworkClassifier])
def test_classifiers_give_labels_and_probabilities_or_scores(cls, loss, classes):
    model = untrained(cls(n_components=3, loss=loss), classes=classes)
    rows = X.astype(np.float64)
    found = run(to_onnx(model), X)
    assert_array_equal(found["label"], model.predict(rows))
    if loss == "logistic":
        assert list(found) == ["label", "probabilities"]
        assert_allclose(found["probabilities"], model.predict_proba(rows), atol=1e-6)
    else:
        assert list(found) == ["label", "scores"]
        assert_close(found["scores"], model.decision_function(rows).reshape(len(X), -1))
    scores = run(to_onnx(model, raw_scores=True), X)["scores"]
    assert_close(scores, model.decision_function(rows).reshape(len(X), -1))


def test_classes_that_all_have_no_chance_are_equally_probable():
    model = untrained(FactorizationMachineClassifier(n_components=1), classes=[0, 1, 2])
    for p in model._fitted.targets:
        p.intercept[:] = -1e6
    assert_allclose(run(to_onnx(model), X)["probabilities"], 1 / 3, rtol=1e-6)


def test_searches_and_bayesian_means_are_exported(rng):
    rows = rng.standard_normal((40, 3))
    y = rows[:, 0] * rows[:, 1]
    search = FactorizationMachineRegressorCV(betas=[1.0], cv=2, n_components=2, alpha=1.0, random_state=0).fit(rows, y)
    bayes = BayesianFactorizationMachineRegressor(n_components=2, max_iter=3, random_state=0).fit(rows, y)
    for model in (search, bayes):
        assert_close(run(to_onnx(model), rows.astype(np.float32))["variable"][:, 0], model.predict(rows))


# -- pipelines --------------------------------------------------------------------------------------------------------

pandas = pytest.importorskip("pandas")
TABLE = pandas.DataFrame(
    {
        "user": [1, 2, 1, 3, 2, 4],
        "genre": ["drama", "war", None, "drama", "comedy", "war"],
        "age": [31.0, np.nan, 20.0, 55.0, 41.0, 18.0],
    }
)


def piped(*steps, table=TABLE, cls=FactorizationMachineRegressor, classes=None, degree=2):
    encoded = make_pipeline(*steps).fit_transform(table)
    return make_pipeline(
        *steps, untrained(cls(n_components=2, degree=degree), n_features=encoded.shape[1], classes=classes)
    )


def as_inputs(table):
    return {
        name: column.to_numpy(dtype=np.float32)[:, None]
        if column.dtype.kind in "if"
        else column.fillna("").to_numpy(dtype=object)[:, None]
        for name, column in table.items()
    }


def test_scalers_and_encoders_of_scikit_learn_come_along():
    numbers = piped(StandardScaler(), table=X.astype(np.float64))
    assert_close(run(to_onnx(numbers), X)["variable"][:, 0], numbers.predict(X.astype(np.float64)))
    table = TABLE.fillna({"genre": "?", "age": 30})
    steps = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["genre"]), (StandardScaler(), ["age", "user"])
    )
    for degree in (2, 3):
        pipeline = piped(steps, table=table, cls=FactorizationMachineClassifier, classes=["a", "b", "c"], degree=degree)
        found = run(to_onnx(pipeline, X=table), as_inputs(table))
        assert_array_equal(found["label"], pipeline.predict(table))
        assert_allclose(found["probabilities"], pipeline.predict_proba(table), atol=1e-5)


@pytest.mark.parametrize("encoder", [TableEncoder(fields=["user"]), TableEncoder(min_frequency=2)], ids=str)
def test_tables_are_encoded_within_the_model(encoder):
    pipeline = piped(encoder, degree=3)
    exported = to_onnx(pipeline)
    assert {node.domain for node in operators(exported.graph)} <= {"", "ai.onnx.ml"}  # both are of the standard
    new = pandas.DataFrame({"user": [2, 9], "genre": ["never seen", None], "age": [np.nan, 33.0]})
    for table in (TABLE, new):
        given = table.astype({"user": str}) if "user" in (encoder.fields or []) else table
        assert_close(run(exported, as_inputs(given))["variable"][:, 0], pipeline.predict(table))


def test_texts_come_along():
    texts = ["a good film", "a bad film", "good good"]
    pipeline = piped(CountVectorizer(lowercase=False), table=texts)  # to fold case, the runtime needs a locale
    exported = to_onnx(pipeline, X=texts)
    assert_close(run(exported, np.array(texts, dtype=object))["variable"][:, 0], pipeline.predict(texts))


def test_skl2onnx_itself_knows_the_estimators():
    import skl2onnx

    register_converters()
    pipeline = piped(StandardScaler(), table=X.astype(np.float64), cls=FactorizationMachineClassifier, classes=[0, 1])
    found = run(skl2onnx.to_onnx(pipeline, X, options={"zipmap": False}), X)
    assert_allclose(found["probabilities"], pipeline.predict_proba(X.astype(np.float64)), atol=1e-5)


# -- files and errors -------------------------------------------------------------------------------------------------


def test_a_file_holds_what_is_returned_and_the_same_model_gives_the_same_file(tmp_path):
    model = untrained(FactorizationMachineRegressor(n_components=2, degree=4))
    exported = to_onnx(model, tmp_path / "a.onnx")
    to_onnx(model, tmp_path / "b.onnx")
    assert onnx.load(tmp_path / "a.onnx") == exported
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    with pytest.raises(ExportError, match="cannot be written"):
        to_onnx(model, tmp_path / "nowhere" / "a.onnx")


class Own:
    curvature = 1.0

    def value(self, y, f):
        return 0.5 * (1 - y * f) ** 2

    def derivative(self, y, f):
        return f - y

    def probability(self, f):
        return np.clip(0.5 + f / 2, 0, 1)


def test_what_cannot_be_exported_is_named_with_a_remedy():
    for model, words in (
        (LinearRegression(), "LinearRegression is not exported"),
        (BayesianFactorizationMachineClassifier(), "Export a FactorizationMachineClassifier"),
        (untrained(FactorizationMachineClassifier(loss=Own()), classes=[0, 1]), "raw_scores=True"),
        (untrained(FactorizationMachineClassifier(), classes=[0.5, 1.5]), "whole numbers and texts"),
        (piped(FunctionTransformer(np.exp, feature_names_out=None), table=X), "FunctionTransformer"),
        (piped(TableEncoder(fields=["user"], n_buckets=2)), "'user' is hashed"),
        (piped(TableEncoder(dates=["at"]), table=pandas.DataFrame({"at": ["2026-11-18", None]})), "'at' holds dates"),
        (piped(make_column_transformer((OneHotEncoder(), ["user"]))), "rows of it as X"),
    ):
        with pytest.raises(ExportError, match=words):
            to_onnx(model)
    found = run(to_onnx(untrained(FactorizationMachineClassifier(loss=Own()), classes=[0, 1]), raw_scores=True), X)
    assert found["scores"].shape == (8, 1)
    with pytest.raises(ExportError, match="float32 or float64"):
        to_onnx(untrained(FactorizationMachineRegressor()), dtype=np.int64)
