"""Model files: what goes in comes out, bit for bit; what does not belong is refused; nothing is ever half written."""

import contextlib
import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from untrained import untrained

import polyfm
from polyfm import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkClassifier,
    PolynomialNetworkRegressor,
)
from polyfm.files import container
from polyfm.losses import Logistic
from polyfm.modelfile import ModelFileError, load_model, model_info, save_model
from polyfm.tabular import TableEncoder

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
X = np.random.RandomState(0).standard_normal((12, 5))
Y = X[:, 0] + X[:, 1] * X[:, 2]
DATA = Path(__file__).parent / "data"


class Huber:
    curvature = 1.0

    def __init__(self, delta=1.0):
        self.delta = delta

    def value(self, y, f):
        r = abs(f - y)
        return 0.5 * r * r if r <= self.delta else self.delta * (r - 0.5 * self.delta)

    def derivative(self, y, f):
        return max(-self.delta, min(self.delta, f - y))


def rewritten(source, target, change_header=None, change_members=None, sums=True, compression=zipfile.ZIP_STORED):
    """A model file altered by someone who knows the format, sums included."""
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if change_header:
        header = json.loads(members["header.json"])
        members["header.json"] = json.dumps(change_header(header) or header).encode()
    if change_members:
        members = change_members(members) or members
    if sums:
        lines = [f"{hashlib.sha256(m).hexdigest()}  {name}\n" for name, m in members.items() if name != "SHA256SUMS"]
        members["SHA256SUMS"] = "".join(lines).encode()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return target


def public(estimator):
    return {name: value for name, value in vars(estimator).items() if name.endswith("_") and name[0] != "_"}


def assert_same(loaded, model):
    assert type(loaded) is type(model)
    assert public(loaded).keys() == public(model).keys()
    for name, value in public(model).items():
        assert_array_equal(getattr(loaded, name), value, err_msg=name)
        assert np.asarray(getattr(loaded, name)).dtype == np.asarray(value).dtype, name
    for name, value in model.get_params().items():
        assert_array_equal(loaded.get_params()[name], value, err_msg=name)


def saved_and_loaded(model, tmp_path):
    save_model(model, tmp_path / "model.polyfm")
    return load_model(tmp_path / "model.polyfm")


MODELS = {
    "fm": FactorizationMachineRegressor(n_components=3, beta=np.float64(0.1), random_state=4),
    "fm lambdas": FactorizationMachineRegressor(n_components=2, init_lambdas=[1.0, -2.0]),
    "fm degree 4": FactorizationMachineRegressor(degree=4, n_components=2, fit_linear=False, fit_intercept=False),
    "fm augmented": FactorizationMachineRegressor(degree=3, n_components=2, fit_lower="augment"),
    "fm lifted": FactorizationMachineRegressor(degree=3, n_components=2, method="lifted"),
    "pn": PolynomialNetworkRegressor(degree=3, n_components=2),
    "pn direct": PolynomialNetworkRegressor(n_components=2, method="direct", fit_lower=None),
}
CLASSIFIERS = {
    "fm": FactorizationMachineClassifier(n_components=2),
    "fm lifted": FactorizationMachineClassifier(degree=3, n_components=2, method="lifted", loss="squared_hinge"),
    "pn": PolynomialNetworkClassifier(n_components=2, loss=Logistic(curvature=0.5)),
}
LABELS = {
    "numbers": np.array([0, 1]),
    "three": np.array([3, 7, 11]),
    "text": np.array(["a", "bé", "c"]),
    "objects": np.array(["no", "yes"], dtype=object),
    "booleans": np.array([False, True]),
    "floats": np.array([0.5, 1.5, 2.5], dtype=np.float32),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_regressors_come_back_bit_for_bit(model, dtype, tmp_path):
    model = untrained(clone(model), dtype=dtype)
    loaded = saved_and_loaded(model, tmp_path)
    assert_same(loaded, model)
    assert loaded._fitted.model == model._fitted.model
    assert model_info(tmp_path / "model.polyfm")["dtype"] == np.dtype(dtype).name


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("model", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_classifiers_come_back_bit_for_bit(model, labels, tmp_path):
    model = untrained(clone(model), classes=labels)
    loaded = saved_and_loaded(model, tmp_path)
    assert_same(loaded, model)
    assert model_info(tmp_path / "model.polyfm")["n_classes"] == len(labels)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_trained_model_predicts_the_same_and_keeps_every_attribute(early_stopping, tmp_path):
    table = pd.DataFrame(X, columns=list("abcde"))
    model = FactorizationMachineRegressor(max_iter=3, random_state=0, early_stopping=early_stopping).fit(table, Y)
    loaded = saved_and_loaded(model, tmp_path)
    assert_same(loaded, model)
    assert_array_equal(loaded.predict(table), model.predict(table))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(table.rename(columns={"a": "z"}))
    assert model_info(tmp_path / "model.polyfm")["notes"] == []


def test_trained_classifier_predicts_the_same(tmp_path):
    model = FactorizationMachineClassifier(max_iter=3, random_state=0).fit(X, np.where(Y > 0, "up", "down"))
    loaded = saved_and_loaded(model, tmp_path)
    assert_same(loaded, model)
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_loaded_model_can_be_cloned_trained_on_and_saved_again(tmp_path):
    model = FactorizationMachineRegressor(max_iter=3, random_state=0, warm_start=True).fit(X, Y)
    loaded = saved_and_loaded(model, tmp_path)
    before = (tmp_path / "model.polyfm").read_bytes()
    save_model(loaded, tmp_path / "again.polyfm")
    assert (tmp_path / "again.polyfm").read_bytes() == before
    assert_array_equal(clone(loaded).fit(X, Y).predict(X), model.predict(X))
    assert loaded.fit(X, Y).objective_ <= model.objective_


def test_streams_go_on_where_they_were(tmp_path):
    model = FactorizationMachineRegressor(solver="sgd", n_components=2, random_state=0).partial_fit(X, Y)
    loaded = saved_and_loaded(model, tmp_path)
    assert_same(loaded, model)
    assert_array_equal(loaded.partial_fit(X, Y).components_, model.partial_fit(X, Y).components_)
    assert (loaded.n_samples_seen_, loaded.n_iter_) == (24, 2)


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_of_a_search_the_chosen_model_is_stored(in_pipeline, tmp_path):
    search = polyfm.FactorizationMachineRegressorCV(n_betas=2, cv=2, max_iter=3, ranks=[1, 2], random_state=0)
    model = (make_pipeline(MaxAbsScaler(), search) if in_pipeline else search).fit(X, Y)
    loaded = saved_and_loaded(model, tmp_path)
    assert_array_equal(loaded.predict(X), model.predict(X))
    last = loaded[-1] if in_pipeline else loaded
    search = model[-1] if in_pipeline else model
    assert type(last) is FactorizationMachineRegressor
    assert (last.beta, last.n_components, last.objective_) == (search.beta_, search.n_components_, search.objective_)
    assert model_info(tmp_path / "model.polyfm")["notes"] == [
        "This is the model that FactorizationMachineRegressorCV has chosen; its search was not stored."
    ]


def test_converted_models_come_back_without_an_objective(tmp_path):
    model = untrained(FactorizationMachineRegressor(degree=3, n_components=2, method="lifted")).to_direct()
    assert_same(saved_and_loaded(model, tmp_path), model)
    assert model_info(tmp_path / "model.polyfm")["objective"] is None


@pytest.mark.parametrize("scaler", [StandardScaler(with_mean=False), MaxAbsScaler(), MinMaxScaler((-1, 1))])
def test_pipelines_with_scalers_come_back(scaler, tmp_path):
    model = make_pipeline(scaler, "passthrough", FactorizationMachineRegressor(max_iter=3, random_state=0)).fit(X, Y)
    loaded = saved_and_loaded(model, tmp_path)
    assert [name for name, _ in loaded.steps] == [name for name, _ in model.steps]
    assert_same(loaded[0], model[0])
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert model_info(tmp_path / "model.polyfm")["steps"][1:] == ["passthrough", "FactorizationMachineRegressor"]


MACHINE = FactorizationMachineRegressor(max_iter=3, n_components=2, random_state=0)
WORDS = np.array(["a b", "b c d", "a", "c c d e", "e f", "a b c", "f", "d é", "b", "a f", "x y", "y a b"], dtype=object)
MIXED = pd.DataFrame(
    {
        "city": ["x", "y", "x", None, "z", "x", "y", "x", "x", "y", "w", "x"],
        "size": pd.Categorical(list("smlsmlsmlsml"), categories=list("sml")),
        "code": np.arange(12) % 5,
        "price": [1.0, np.nan, 3, 4, 5, 6, np.nan, 8, 9, 1, 2, 3],
        "empty": [np.nan] * 12,
        "words": WORDS,
    }
)
NUMBERS = np.where(np.arange(60).reshape(12, 5) % 7 == 3, np.nan, X)
# What is transformed, and transformers of it: each must do the same once it was saved and loaded.
TRANSFORMERS = {
    "robust scaler": (X, RobustScaler()),
    "normalizer": (X, Normalizer()),
    "binarizer": (X, Binarizer(threshold=0.3)),
    "bins": (X, KBinsDiscretizer(4, encode="onehot", strategy="uniform")),
    "bins, ordinal": (np.hstack([X, np.ones((12, 1))]), KBinsDiscretizer(3, encode="ordinal", strategy="kmeans")),
    "one-hot": (MIXED[["city", "size", "code"]], OneHotEncoder(handle_unknown="ignore")),
    "one-hot, dropped": (MIXED[["city", "code"]], OneHotEncoder(drop="if_binary", sparse_output=False, dtype=np.int8)),
    "one-hot, rare": (MIXED[["city", "code"]], OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist")),
    "one-hot, rare first": (MIXED[["city"]], OneHotEncoder(max_categories=2, drop="first")),
    "one-hot, given": (MIXED[["size"]], OneHotEncoder(categories=[["l", "m", "s", "xl"]])),
    "one-hot of numbers": (np.round(X), OneHotEncoder(handle_unknown="ignore")),
    "one-hot of numbers with gaps": (np.round(NUMBERS), OneHotEncoder()),
    "one-hot of words": (WORDS[:, None].astype(str), OneHotEncoder()),
    "ordinal": (MIXED[["city", "size"]], OrdinalEncoder(encoded_missing_value=-1)),
    "ordinal, rare": (
        MIXED[["code", "city"]],
        OrdinalEncoder(min_frequency=3, handle_unknown="use_encoded_value", unknown_value=-1),
    ),
    "ordinal with gaps": (np.round(NUMBERS), OrdinalEncoder()),
    "imputer": (NUMBERS, SimpleImputer()),
    "imputer, flags": (NUMBERS, SimpleImputer(strategy="median", add_indicator=True)),
    "imputer, empty": (MIXED[["price", "empty"]], SimpleImputer()),
    "imputer, kept": (MIXED[["price", "empty"]], SimpleImputer(keep_empty_features=True, strategy="most_frequent")),
    "imputer of text": (MIXED[["city", "words"]].astype(object), SimpleImputer(strategy="most_frequent")),
    "imputer, constant": (
        np.array([["a", None], [None, None]] * 6, dtype=object),
        SimpleImputer(
            missing_values=None, strategy="constant", fill_value="?", add_indicator=True, keep_empty_features=True
        ),
    ),
    "imputer of zeros": (np.round(X), SimpleImputer(missing_values=0, strategy="constant", fill_value=7)),
    "float32": (NUMBERS.astype(np.float32), SimpleImputer()),
    "flags of gaps": (NUMBERS, MissingIndicator(error_on_new=False)),
    "flags of all": (NUMBERS, MissingIndicator(features="all")),
    "counts": (WORDS, CountVectorizer(ngram_range=(1, 2), token_pattern=r"\S+")),
    "tf-idf": (WORDS, TfidfVectorizer(token_pattern=r"(?u)\b\w+\b", sublinear_tf=True, stop_words=["b"])),
    "tf without idf": (WORDS, TfidfVectorizer(analyzer="char", use_idf=False, min_df=2)),
    "tf-idf, given": (WORDS, TfidfVectorizer(vocabulary=["b", "a"], token_pattern=r"\w+", smooth_idf=False)),
    "idf": (np.abs(np.round(X)), TfidfTransformer()),
    "hashed words": (WORDS, HashingVectorizer(n_features=16, alternate_sign=False)),
    "hashed": ([w.split() for w in WORDS], FeatureHasher(8, input_type="string")),
    "dicts": ([{"a": 1, "b": str(i % 3)} for i in range(12)], DictVectorizer()),
    "union": (
        X,
        FeatureUnion(
            [("a", StandardScaler()), ("b", MaxAbsScaler()), ("c", "drop")], transformer_weights={"b": 3.0}
        ),
    ),
    "columns": (
        MIXED,
        ColumnTransformer(
            [
                ("words", TfidfVectorizer(token_pattern=r"\w+"), "words"),
                ("hot", OneHotEncoder(handle_unknown="ignore"), ["size", "city"]),
                ("number", make_pipeline(SimpleImputer(), StandardScaler()), make_column_selector(dtype_include=float)),
                ("none", StandardScaler(), []),
                ("left out", "drop", ["empty"]),
            ],
            remainder="passthrough",
            transformer_weights={"hot": 0.5},
        ),
    ),
    "columns of an array": (
        X,
        ColumnTransformer(
            [("a", StandardScaler(), [0, 2]), ("b", "passthrough", slice(3, 5))],
            remainder=MaxAbsScaler(),
            sparse_threshold=0,
        ),
    ),
    "columns by a mask": (X, ColumnTransformer([("a", MinMaxScaler(), np.arange(5) % 2 == 0)])),
    "columns within columns": (
        MIXED[["price", "code", "city"]],
        make_column_transformer(
            (make_column_transformer((StandardScaler(), ["code"]), remainder=SimpleImputer()), ["price", "code"]),
            (OneHotEncoder(sparse_output=False), ["city"]),
        ),
    ),
    "pandas within": (
        MIXED[["price", "code"]],
        make_pipeline(
            SimpleImputer().set_output(transform="pandas"), make_column_transformer((StandardScaler(), ["code"]))
        ),
    ),
    "a table within": (
        MIXED[["price", "city"]], make_column_transformer((TableEncoder(min_frequency=2), ["price", "city"]))
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")  # of columns that are empty, or all the same
@pytest.mark.parametrize("case", TRANSFORMERS)
def test_transformers_of_scikit_learn_come_back(case, tmp_path):
    data, transformer = TRANSFORMERS[case]
    transformer = clone(transformer).fit(data)
    loaded = saved_and_loaded(transformer, tmp_path)
    expected, found = transformer.transform(data), loaded.transform(data)
    assert type(found) is type(expected)
    dense = [np.asarray(m.toarray() if hasattr(m, "toarray") else m) for m in (expected, found)]
    assert dense[0].dtype == dense[1].dtype
    assert_array_equal(*dense)
    if hasattr(transformer, "get_feature_names_out") and not case.startswith("hashed"):
        with contextlib.suppress(AttributeError):  # of parts that give no names
            assert_array_equal(loaded.get_feature_names_out(), transformer.get_feature_names_out())
    again = clone(loaded).fit(data).transform(data)  # parameters, too, are those that were given
    assert_array_equal(np.asarray(again.toarray() if hasattr(again, "toarray") else again), dense[0])
    save_model(loaded, tmp_path / "again.polyfm")
    assert (tmp_path / "again.polyfm").read_bytes() == (tmp_path / "model.polyfm").read_bytes()


def test_unseen_values_mean_the_same_to_transformers_that_were_loaded(tmp_path):
    rare = OneHotEncoder(min_frequency=3, handle_unknown="infrequent_if_exist")
    encoder = make_column_transformer((rare, ["city"]), (SimpleImputer(), ["price"]))
    model = make_pipeline(encoder, MACHINE).fit(MIXED, Y)
    loaded = saved_and_loaded(model, tmp_path)
    new = pd.DataFrame({"city": ["new", "x", "w", None], "price": [np.nan, 1, 2, 3], "more": 1})
    assert_array_equal(loaded.predict(new), model.predict(new))
    assert model_info(tmp_path / "model.polyfm")["steps"] == ["ColumnTransformer", "FactorizationMachineRegressor"]
    with pytest.raises(ValueError, match="columns are missing: {'price'}"):
        loaded.predict(new[["city"]])
    strict = saved_and_loaded(OneHotEncoder().fit(MIXED[["city"]]), tmp_path)
    with pytest.raises(ValueError, match="unknown categories"):
        strict.transform(new[["city"]])


def test_frames_come_out_of_loaded_transformers_where_they_came_out_before(tmp_path):
    encoder = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["city"]), ("passthrough", ["code"]), remainder="drop"
    ).set_output(transform="pandas")
    encoder.fit(MIXED)
    save_model(encoder, tmp_path / "model.polyfm")
    with config_context(transform_output="polars"):
        loaded = load_model(tmp_path / "model.polyfm")
    pd.testing.assert_frame_equal(loaded.transform(MIXED), encoder.transform(MIXED))


def test_the_table_that_a_model_learned_from_is_remembered(tmp_path):
    save_model(untrained(FactorizationMachineRegressor()), tmp_path / "m", table={"target": "y", "text": ["zip"]})
    assert model_info(tmp_path / "m")["table"] == {"target": "y", "text": ["zip"]}
    save_model(untrained(FactorizationMachineRegressor()), tmp_path / "m")
    assert model_info(tmp_path / "m")["table"] is None
    for wrong in ({"target": 3}, {"text": "zip"}, {"text": [1]}, {"other": "y"}):
        with pytest.raises(ModelFileError, match="table must be"):
            save_model(untrained(FactorizationMachineRegressor()), tmp_path / "m", table=wrong)
        hostile = rewritten(
            tmp_path / "m", tmp_path / "hostile", lambda header, wrong=wrong: {**header, "table": wrong}
        )
        with pytest.raises(ModelFileError, match="does not understand"):
            model_info(hostile)


TABLE = pd.DataFrame(
    {
        "user": [1, 2, 3, 1, 2, 3, 1, 2],
        "genre": ["drama", None, "comedy", "drama", "é", "", "drama", "comedy"],
        "age": [20.0, np.nan, 40, 50, 35, 22, 61, 18],
        "score": [1, 2, 3, 4, 5, 6, 7, 8],
    }
)


def test_pipelines_from_tables_come_back(tmp_path):
    model = make_pipeline(TableEncoder(fields=["user"]), FactorizationMachineRegressor(max_iter=3))
    model.fit(TABLE, np.arange(8.0))
    loaded = saved_and_loaded(model, tmp_path)
    new = pd.DataFrame({"user": [1, 9], "genre": ["war", None], "age": [np.nan, 5], "score": [np.nan, 2.0]})
    for table in (TABLE, new):
        assert_array_equal(loaded[0].transform(table).toarray(), model[0].transform(table).toarray())
        assert_array_equal(loaded.predict(table), model.predict(table))
    assert_array_equal(loaded[0].get_feature_names_out(), model[0].get_feature_names_out())
    assert loaded[0].fields == ["user"]


def test_encoders_of_dates_rare_values_and_hashes_come_back(tmp_path):
    table = TABLE.assign(
        when=pd.date_range("2026-01-01", periods=8, freq="8h"),
        day=[f"{i}.1.2026" for i in range(1, 9)],
        many=list("abcdefgh"),
    )
    options = {"dates": {"day": "%d.%m.%Y"}, "min_frequency": 1, "n_buckets": 4}
    model = make_pipeline(TableEncoder(["user"], **options).set_output(transform="pandas"), MACHINE)
    model.fit(table, np.arange(8.0))
    loaded = saved_and_loaded(model, tmp_path)
    assert loaded[0].get_params() == model[0].get_params()
    pd.testing.assert_frame_equal(loaded[0].transform(table), model[0].transform(table))
    assert_array_equal(loaded.predict(table), model.predict(table))
    assert loaded.predict(table[3:4])[0] == loaded.predict(table.iloc[3].to_dict())[0] == model.predict(table)[3]


def test_own_loss_is_remembered_by_name_and_asked_for_before_fitting(tmp_path):
    model = FactorizationMachineRegressor(loss=Huber(0.5), max_iter=3, random_state=0).fit(X, Y)
    loaded = saved_and_loaded(model, tmp_path)
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert "Huber(delta=0.5)" in repr(loaded)
    info = model_info(tmp_path / "model.polyfm")
    assert info["parameters"]["loss"] == "Huber(delta=0.5)"
    assert "own class Huber" in info["notes"][0]
    for copy in (loaded, clone(loaded), saved_and_loaded(loaded, tmp_path)):
        with pytest.raises(TypeError, match=r"loss of your own, Huber\(delta=0.5\).*set_params\(loss="):
            copy.fit(X, Y)
    assert_array_equal(loaded.set_params(loss=Huber(0.5)).fit(X, Y).predict(X), model.predict(X))


def test_penalties_that_training_took_come_back(tmp_path):
    model = untrained(FactorizationMachineRegressor(beta=np.arange(5.0)))
    model.alpha_, model.beta_ = 2.0, np.arange(5.0)
    assert_same(saved_and_loaded(model, tmp_path), model)


def test_what_cannot_be_stored_is_noted(tmp_path):
    model = untrained(FactorizationMachineRegressor(random_state=np.random.RandomState(0), checkpoint="state.npz"))
    loaded = saved_and_loaded(model, tmp_path)
    assert loaded.random_state is None
    assert loaded.checkpoint is None
    notes = model_info(tmp_path / "model.polyfm")["notes"]
    assert [note.split()[2] for note in notes] == ["checkpoint", "random_state"]


def test_info_tells_what_is_inside(tmp_path):
    model = untrained(FactorizationMachineClassifier(degree=3, n_components=4, beta=0.25), classes=[1, 2, 3])
    save_model(model, tmp_path / "model.polyfm")
    info = model_info(tmp_path / "model.polyfm")
    expected = {
        "class": "FactorizationMachineClassifier",
        "degree": 3,
        "degrees": [3, 2],
        "rank": 4,
        "n_features": 5,
        "n_classes": 3,
        "objective": 1.5,
        "n_iter": 3,
        "n_parameters": 3 * (2 * (4 * 5 + 4) + 5 + 1),
        "dtype": "float64",
        "steps": None,
        "notes": [],
        "format_version": 1,
        "polyfm_version": polyfm.__version__,
        "bytes": os.path.getsize(tmp_path / "model.polyfm"),
    }
    assert {key: info[key] for key in expected} == expected
    assert info["parameters"]["beta"] == 0.25
    assert info["shapes"]["factors_0"] == (3, 4, 1, 5)


def test_file_is_a_plain_zip_of_json_and_arrays_with_standard_sums(tmp_path):
    save_model(untrained(FactorizationMachineRegressor()), tmp_path / "model.polyfm")
    with zipfile.ZipFile(tmp_path / "model.polyfm") as archive:
        header = json.loads(archive.read("header.json"))
        assert (header["format"], header["polyfm_version"]) == ("polyfm-model", polyfm.__version__)
        for line in archive.read("SHA256SUMS").decode().splitlines():
            digest, name = line.split("  ")
            assert hashlib.sha256(archive.read(name)).hexdigest() == digest
        with archive.open("arrays/coef.npy") as file:
            assert np.load(file, allow_pickle=False).shape == (1, 5)


# -- models of earlier releases ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("*.polyfm")))
def test_models_of_earlier_releases_can_be_read(name):
    expected = json.loads((DATA / f"{name}.json").read_text())
    model = load_model(DATA / f"{name}.polyfm")
    rows = pd.DataFrame(expected["rows"]) if name.startswith("table") else expected["rows"]
    assert [type(step).__name__ for step in getattr(model, "named_steps", {"": model}).values()] == expected["classes"]
    predictions = model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows)
    np.testing.assert_allclose(predictions, expected["predictions"], rtol=1e-9)
    if "std" in expected:
        np.testing.assert_allclose(model.predict(rows, return_std=True)[1], expected["std"], rtol=1e-9)
    assert model_info(DATA / f"{name}.polyfm")["polyfm_version"].startswith(name.split("-")[1])


# -- what cannot be saved ---------------------------------------------------------------------------------------------


class Subclass(FactorizationMachineRegressor):
    pass


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Ridge().fit(X, Y), "not Ridge"),
        (lambda: untrained(Subclass()), "not Subclass"),
        (lambda: GridSearchCV(Ridge(), {"alpha": [1.0]}, cv=2).fit(X, Y), "Save its best_estimator_"),
        (lambda: make_pipeline(PolynomialFeatures(), Ridge()).fit(X, Y), "not PolynomialFeatures"),
        (lambda: make_pipeline(make_pipeline(MaxAbsScaler()), Ridge()).fit(X, Y), "not Ridge"),
        (
            lambda: make_pipeline(FunctionTransformer(np.abs), MACHINE).fit(X, Y),
            "code of your own.*before the pipeline",
        ),
        (
            lambda: TfidfVectorizer(tokenizer=str.split, token_pattern=None).fit(["a b"]),
            "tokenizer.*is code of your own",
        ),
        (lambda: TfidfVectorizer(token_pattern="(a+)+b").fit(["aab"]), "can take forever"),
        (lambda: TfidfVectorizer(token_pattern=r"\w*\w*\w*\w*b").fit(["aab"]), "can take forever"),
        (lambda: CountVectorizer(input="filename").fit([__file__]), "opens files"),
        (lambda: OneHotEncoder().fit(np.array([["2020"]], "datetime64[Y]")), "datetime64"),
        (
            lambda: ColumnTransformer([("s", MaxAbsScaler(), slice("a", "b"))]).fit(
                pd.DataFrame(X, columns=list("abcde"))
            ),
            "slice of column names",
        ),
        (
            lambda: untrained(FactorizationMachineClassifier(), classes=np.array(["2020", "2021"], "datetime64[Y]")),
            "classes_ is an array of type datetime64.*numbers or text",
        ),
        (lambda: untrained(FactorizationMachineRegressor(degree=27, method="lifted")), "too high"),
    ],
)
def test_what_cannot_be_saved_says_why(make, why, tmp_path):
    with pytest.raises(ModelFileError, match=f"model.polyfm: .* cannot be saved: .*{why}"):
        save_model(make(), tmp_path / "model.polyfm")
    assert os.listdir(tmp_path) == []


def test_unfitted_models_are_refused(tmp_path):
    for model in (FactorizationMachineRegressor(), make_pipeline(StandardScaler(), FactorizationMachineRegressor())):
        with pytest.raises(NotFittedError):
            save_model(model, tmp_path / "model.polyfm")


# -- writing whole or not at all --------------------------------------------------------------------------------------


@pytest.fixture
def old(tmp_path):
    """A model file that is about to be replaced."""
    save_model(untrained(FactorizationMachineRegressor()), tmp_path / "model.polyfm")
    return tmp_path / "model.polyfm"


def test_failure_while_writing_leaves_the_old_file(old, monkeypatch):
    before = old.read_bytes()
    for broken in ("os.fsync", "os.replace", "polyfm.files.container._add"):
        with monkeypatch.context() as patch:
            patch.setattr(broken, lambda *args: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            with pytest.raises(ModelFileError, match="No space left.*Nothing was changed"):
                save_model(untrained(FactorizationMachineRegressor(), seed=1), old)
        assert old.read_bytes() == before
        assert os.listdir(old.parent) == [old.name]


def test_interruption_while_writing_leaves_the_old_file(old, monkeypatch):
    before = old.read_bytes()
    monkeypatch.setattr(container, "_add", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        save_model(untrained(FactorizationMachineRegressor(), seed=1), old)
    assert (old.read_bytes(), os.listdir(old.parent)) == (before, [old.name])


@pytest.mark.slow
def test_killed_process_never_leaves_half_a_model(tmp_path):
    code = """
import sys, numpy as np
from untrained import untrained
from polyfm import FactorizationMachineRegressor
from polyfm.modelfile import save_model
models = [untrained(FactorizationMachineRegressor(), n_features=20_000, seed=i) for i in range(2)]
print("ready", flush=True)
while True:
    for model in models:
        save_model(model, sys.argv[1])
"""
    path, here = tmp_path / "model.polyfm", str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])}
    for wait in (0.05, 0.11):
        process = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, env=environment)
        assert process.stdout.readline() == b"ready\n"
        while not path.exists():
            time.sleep(0.01)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert load_model(path).n_features_in_ == 20_000


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_permissions_are_the_usual_ones_or_those_of_the_replaced_file(tmp_path):
    model = untrained(FactorizationMachineRegressor())
    mask = os.umask(0o027)
    try:
        save_model(model, tmp_path / "model.polyfm")
        assert stat.S_IMODE(os.stat(tmp_path / "model.polyfm").st_mode) == 0o640
        os.chmod(tmp_path / "model.polyfm", 0o604)
        save_model(model, tmp_path / "model.polyfm")
        assert stat.S_IMODE(os.stat(tmp_path / "model.polyfm").st_mode) == 0o604
    finally:
        os.umask(mask)


@pytest.mark.skipif(os.name == "nt", reason="POSIX links")
def test_saving_through_a_link_replaces_what_it_points_to(old):
    link = old.parent / "link"
    link.symlink_to(old)
    save_model(untrained(FactorizationMachineRegressor(), n_features=7), link)
    assert link.is_symlink()
    assert load_model(old).n_features_in_ == load_model(link).n_features_in_ == 7


def test_places_that_cannot_be_written_are_named(old, monkeypatch):
    model = untrained(FactorizationMachineRegressor())
    for path, why in [
        (old.parent, "is a directory"),
        (old.parent / "none" / "model.polyfm", "cannot be written.*directory exists"),
        (old / "model.polyfm", "cannot be written"),
        ("a\0b", "cannot be written"),
    ]:
        with pytest.raises(ModelFileError, match=why):
            save_model(model, path)
    monkeypatch.setattr(os, "access", lambda *args: False)
    with pytest.raises(ModelFileError, match="read-only"):
        save_model(model, old)


# -- files that are not what they should be ---------------------------------------------------------------------------


def test_cut_files_are_refused(old):
    whole = old.read_bytes()
    for size in [0, 1, 3, 4, 30, 100, len(whole) // 2, len(whole) - 30, len(whole) - 22, len(whole) - 1]:
        old.write_bytes(whole[:size])
        for read in (load_model, model_info):
            with pytest.raises(
                ModelFileError, match=r"model\.polyfm: is (not a polyfm model file|damaged|a zip archive)"
            ):
                read(old)


def test_altered_arrays_are_noticed(old):
    whole = bytearray(old.read_bytes())
    whole[whole.find(b"arrays/coef.npy") + 180] ^= 1  # the name, 20 bytes more of the archive, and 128 of numpy
    old.write_bytes(whole)
    with pytest.raises(ModelFileError, match=r"damaged: 'arrays/coef\.npy' cannot be read"):
        load_model(old)


def test_altered_headers_and_arrays_are_noticed_by_their_sums(old, tmp_path):
    def change(members):
        members["arrays/coef.npy"] = members["arrays/coef.npy"][:-8] + bytes(8)

    with pytest.raises(ModelFileError, match=r"'arrays/coef\.npy' does not have its SHA-256 sum"):
        load_model(rewritten(old, tmp_path / "a", change_members=change, sums=False))
    for read in (load_model, model_info):
        with pytest.raises(ModelFileError, match=r"'header\.json' does not have its SHA-256 sum"):
            read(rewritten(old, tmp_path / "b", lambda header: {**header, "notes": ["!"]}, sums=False))


def test_newer_formats_say_to_update(old, tmp_path):
    path = rewritten(old, tmp_path / "new", lambda h: {**h, "format_version": 2, "polyfm_version": "9.0", "object": 1})
    for read in (load_model, model_info):
        with pytest.raises(ModelFileError, match=r"written by polyfm '9\.0' in format 2, newer.*pip install --upgrade"):
            read(path)


def test_parameters_of_a_newer_release_say_to_update(old, tmp_path):
    def change(header):
        header["polyfm_version"] = "0.9"
        header["object"]["parameters"]["magic"] = 3

    with pytest.raises(ModelFileError, match=r"does not have: \['magic'\].*polyfm '0\.9' wrote it.*update polyfm"):
        load_model(rewritten(old, tmp_path / "new", change))


def test_parameters_that_an_older_release_did_not_know_load_as_defaults(old, tmp_path):
    def change(header):
        del header["object"]["parameters"]["n_jobs"], header["object"]["parameters"]["solver"]

    model = load_model(rewritten(old, tmp_path / "older", change))
    assert (model.n_jobs, model.solver) == (None, "auto")


def foreign(tmp_path):
    import pickle

    (tmp_path / "pickle").write_bytes(pickle.dumps({"a": 1}))
    (tmp_path / "text").write_text("1 1:2\n")
    np.savez(tmp_path / "arrays.npz", a=np.ones(3))
    with zipfile.ZipFile(tmp_path / "other", "w") as archive:
        archive.writestr("header.json", "{}")
        archive.writestr("SHA256SUMS", f"{hashlib.sha256(b'{}').hexdigest()}  header.json\n")
    return ["pickle", "text", "arrays.npz", "other"]


def test_foreign_files_are_refused(tmp_path):
    for name in foreign(tmp_path):
        with pytest.raises(
            ModelFileError, match=f"{name}: is (not a polyfm model file|a zip archive without).*save_model"
        ):
            load_model(tmp_path / name)


def set_at(*keys, value):
    def change(header):
        at = header
        for key in keys[:-1]:
            at = at[key]
        at[keys[-1]] = value

    return change


GROUP = ("object", "model", "groups", 0)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (set_at("arrays", "factors_0", "shape", value=[1, 10**6, 10**6, 5]), "declares .* bytes for array 'factors_0'"),
        (set_at("arrays", "factors_0", "shape", value=[-1, 5]), "impossible array"),
        (set_at("arrays", "factors_0", "shape", value=[5, 10]), "is not what it was"),
        (set_at("arrays", "factors_0", "dtype", value="|O"), "impossible array"),
        (set_at("arrays", "factors_0", "dtype", value="<f4"), "is not what it was"),
        (set_at("arrays", "more", value={"dtype": "<f8", "shape": [1]}), "members are not those"),
        (set_at("arrays", value=None), "without arrays"),
        (set_at("format", value="other"), "not a polyfm model file"),
        (set_at("format_version", value="1"), "no sound format version"),
        (set_at("object", "class", value="os.system"), "does not understand"),
        (set_at("object", "class", value=["a"]), "does not understand"),
        (set_at("object", "class", value="PolynomialNetworkRegressor"), "unknown form"),
        (set_at("object", "class", value="FactorizationMachineClassifier"), "parameters that"),
        (set_at("object", "parameters", "degree", value="two"), "degree"),
        (set_at("object", "parameters", "checkpoint", value="/etc/passwd"), "never stored"),
        (set_at("object", "parameters", "beta", value={"array": "none"}), "does not understand"),
        (set_at("object", "fitted", "predict", value=1), "attributes"),
        (set_at("object", "fitted", "target_range_", value="a"), "target_range_"),
        (set_at("object", "fitted", value={"n_features_in_": 5, "alpha_": 1.0}), "without the other"),
        (set_at("object", "fitted", "n_features_in_", value=10**12), "parameters that are not"),
        (set_at("object", "fitted", "n_features_in_", value=True), "impossible number of features"),
        (set_at("object", "fitted", "feature_names_in_", value="a"), "does not understand"),
        (set_at(*GROUP, "degree", value=10**9), "degree=1000000000"),
        (set_at(*GROUP, "degree", value=2.0), "degree=2.0"),
        (set_at(*GROUP, "n_bases", value=10**6), "parameters that are not"),
        (set_at(*GROUP, "n_dummies", value=-1), "n_dummies=-1"),
        (set_at(*GROUP, "method", value="magic"), "unknown form"),
        (set_at("object", "model", "groups", value=[]), "no bases"),
        (set_at("object", "model", "coef", value={"array": "intercept"}), "parameters that are not"),
        (set_at("object", value={}), "does not understand"),
        (set_at("object", value={"class": "Pipeline", "steps": []}), "without steps"),
    ],
)
def test_hostile_headers_with_sound_sums_are_refused(change, why, old, tmp_path):
    with pytest.raises(ModelFileError, match=why):
        load_model(rewritten(old, tmp_path / "hostile", change))


PART = ("object", "parts", 0)
FIRST = (*PART, "object")  # an encoder


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (set_at(*PART, "columns", value=99), "columns that are not there"),
        (set_at(*PART, "columns", value={"list": [[0]], "tuple": False}), "does not understand"),
        (set_at(*PART, "width", value=[0, 2**62]), "impossible number of columns"),
        (set_at(*PART, "object", value="magic"), "does not understand"),
        (set_at(*PART, "name", value="b"), "two of one name"),
        (set_at("object", "fitted", "n_features_in_", value=2**40), "feature names|too many"),
        (set_at("object", "parameters", "transformer_weights", value={"dict": [["a", "x"]]}), "no numbers"),
        (set_at("object", "output", value="code"), "unknown kind"),
        (set_at(*FIRST, "class", value="FunctionTransformer"), "does not understand"),
        (set_at(*FIRST, "parameters", "categories", value={"list": [], "tuple": False}), "never stored so"),
        (set_at(*FIRST, "parameters", "drop", value={"dict": []}), "does not understand"),
        (set_at(*FIRST, "parameters", "sparse_output", value="yes"), "sparse_output"),
        (set_at(*FIRST, "special", "categories", value=[]), "as many lists of categories"),
        (set_at(*FIRST, "special", "rare", 0, value={"array": "part0.edges"}), "does not understand"),
        (set_at(*FIRST, "special", value={}), "does not understand"),
        (set_at(*FIRST, "fitted", "transform", value=1), "attributes"),
        (
            set_at("object", "parts", 1, "object", "special", "idf", value={"array": "part0.columns"}),
            "does not underst",
        ),
        (set_at("object", "parts", 1, "object", "parameters", "input", value="filename"), "opens files"),
        (set_at("object", "parts", 1, "object", "parameters", "token_pattern", value="(a|aa)+$"), "take forever"),
        (set_at("object", "parts", 1, "object", "parameters", "tokenizer", value="os.system"), "tokenizer"),
    ],
)
def test_hostile_transformers_are_refused(change, why, tmp_path):
    encoder = ColumnTransformer(
        [("a", OneHotEncoder(min_frequency=2), ["city"]), ("b", TfidfVectorizer(token_pattern=r"\w+"), "words")]
    ).fit(MIXED)  # fmt: skip
    save_model(encoder, tmp_path / "model.polyfm")
    with pytest.raises(ModelFileError, match=why):
        load_model(rewritten(tmp_path / "model.polyfm", tmp_path / "hostile", change))


def test_an_array_is_used_once(tmp_path):
    """So that a small file does not become many copies of it."""
    encoder = OneHotEncoder().fit(MIXED[["city", "size"]])
    save_model(encoder, tmp_path / "model.polyfm")

    def change(header):
        categories = header["object"]["special"]["categories"]
        categories[1] = categories[0]

    with pytest.raises(ModelFileError, match="does not understand"):
        load_model(rewritten(tmp_path / "model.polyfm", tmp_path / "hostile", change))


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("kinds_", np.array(["category", "magic", "number"], dtype=object), "unknown kinds"),
        ("sources_", np.array([7, 1, 1]), "blocks of no column"),
        ("parts_", np.array(["", "year", "hour"], dtype=object), "blocks of no column"),
        ("buckets_", np.array([-1, 0, 0]), "impossible buckets"),
        ("rare_", np.array([0.0, 1.0, 2.0]), "wrong types"),
        ("flagged_", np.array([True]), "do not belong together"),
        ("scales_", np.array([0.0, 1.0]), "cannot be"),
    ],
)
def test_hostile_encoders_are_refused(key, value, why, tmp_path):
    when = pd.to_datetime(["2026-01-01 10:00", "2026-02-05 11:00"])
    encoder = TableEncoder().fit(pd.DataFrame({"city": ["x", "y"], "when": when, "n": [1.0, 2.0]}))
    save_model(encoder, tmp_path / "model.polyfm")
    load_model(tmp_path / "model.polyfm")
    setattr(encoder, key, value)
    save_model(encoder, tmp_path / "model.polyfm")
    with pytest.raises(ModelFileError, match=why):
        load_model(tmp_path / "model.polyfm")


def test_numbers_that_are_not_finite_are_refused(tmp_path):
    model = untrained(FactorizationMachineRegressor())
    model._fitted.targets[0].coef[2] = np.nan
    save_model(model, tmp_path / "model.polyfm")
    with pytest.raises(ModelFileError, match="finite"):
        load_model(tmp_path / "model.polyfm")


def test_pickles_among_the_arrays_are_never_opened(old, tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    import io

    stream = io.BytesIO()
    np.save(stream, np.array([Bomb()], dtype=object), allow_pickle=True)

    def change(members):
        members["arrays/coef.npy"] = stream.getvalue()
        header = json.loads(members["header.json"])
        header["arrays"]["coef"] = {"dtype": "|b1", "shape": [len(stream.getvalue()) - 128]}
        members["header.json"] = json.dumps(header).encode()

    with pytest.raises(ModelFileError, match="is not what it was"):
        load_model(rewritten(old, tmp_path / "bomb", change_members=change))
    assert not (tmp_path / "exploded").exists()


def test_bombs_do_not_reach_memory(old, tmp_path):
    def inflate(members):
        members["arrays/coef.npy"] += bytes(50_000_000)

    bomb = rewritten(old, tmp_path / "bomb", change_members=inflate, compression=zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 100_000
    long = rewritten(old, tmp_path / "long", lambda header: {**header, "notes": ["x" * 2**21]})
    crowd = tmp_path / "crowd"
    with zipfile.ZipFile(crowd, "w") as archive:
        for i in range(15_000):
            archive.writestr(f"arrays/{i}-{'x' * 60}", b"")
    tracemalloc.start()
    try:
        for path, why in [(bomb, "compressed"), (long, "'header.json' has .* bytes"), (crowd, "at once")]:
            with pytest.raises(ModelFileError, match=why):
                load_model(path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_members_of_one_name_and_members_that_overlap_are_refused(old, tmp_path):
    with zipfile.ZipFile(old) as archive:
        header = archive.read("header.json")
    double = tmp_path / "double"
    double.write_bytes(old.read_bytes())
    with zipfile.ZipFile(double, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("header.json", header)
    with pytest.raises(ModelFileError, match="two members have one name"):
        load_model(double)
    # Every entry of the list of members points at the same bytes.
    overlap = tmp_path / "overlap"
    with zipfile.ZipFile(overlap, "w") as archive:
        for name in ("header.json", "SHA256SUMS"):
            archive.writestr(name, header)
        large = zipfile.ZipInfo("arrays/0.npy")
        archive.writestr(large, bytes(100_000))
        for i in range(1, 50):
            info = zipfile.ZipInfo(f"arrays/{i}.npy")
            info.header_offset, info.CRC = large.header_offset, large.CRC
            info.file_size = info.compress_size = 100_000
            archive.filelist.append(info)
            archive.NameToInfo[info.filename] = info
    with pytest.raises(ModelFileError, match="larger than the file"):
        load_model(overlap)


def test_loading_takes_little_more_memory_than_the_model(tmp_path):
    model = untrained(FactorizationMachineRegressor(), n_features=200_000)
    save_model(model, tmp_path / "model.polyfm")
    size = os.path.getsize(tmp_path / "model.polyfm")
    tracemalloc.start()
    try:
        load_model(tmp_path / "model.polyfm")
        assert tracemalloc.get_traced_memory()[1] < 4 * size
        tracemalloc.reset_peak()
        start = tracemalloc.get_traced_memory()[0]
        model_info(tmp_path / "model.polyfm")
        assert tracemalloc.get_traced_memory()[1] - start < 1_000_000
    finally:
        tracemalloc.stop()


def test_places_that_cannot_be_read_are_named(tmp_path, old, monkeypatch):
    for path, why in [
        (tmp_path / "none", "no such file"),
        (tmp_path, "is a directory"),
        (old / "x", "cannot be opened"),
        ("a\0b", "cannot be opened"),
        ("x" * 5000, "cannot be opened"),
    ]:
        with pytest.raises(ModelFileError, match=why):
            load_model(path)
    monkeypatch.setattr("builtins.open", lambda *args: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    with pytest.raises(ModelFileError, match="you may not read it"):
        load_model(old)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_pipes_are_refused_rather_than_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for use in (load_model, lambda path: save_model(untrained(FactorizationMachineRegressor()), path)):
        with pytest.raises(ModelFileError, match="pipe"):
            use(tmp_path / "pipe")


def test_links_are_followed(old, tmp_path):
    (tmp_path / "link").symlink_to(old)
    assert_same(load_model(tmp_path / "link"), load_model(old))
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(ModelFileError, match="cannot be opened"):
        load_model(tmp_path / "loop")


def test_numbers_that_json_lacks_come_back(tmp_path):
    model = untrained(FactorizationMachineRegressor(loss=Huber(np.inf)))
    assert "delta=inf" in repr(saved_and_loaded(model, tmp_path).loss)
