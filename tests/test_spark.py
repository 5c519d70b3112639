"""Spark: the ordinary models from DataFrames, in pipelines and searches, and in files."""
# ruff: noqa: E402

import copy
import math
import os
import shutil
import signal
import sys
import warnings
from threading import current_thread, main_thread
from types import SimpleNamespace

import numpy as np
import pytest
from in_parts import ratings
from numpy.testing import assert_allclose, assert_array_equal

import polyfm
from polyfm import FactorizationMachineClassifier, FactorizationMachineRegressor, PolynomialNetworkClassifier
from polyfm.distributed.engine import PartitionError

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="polyfm.spark needs pyspark: pip install 'polyfm[spark]'")
if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
    pytest.skip("polyfm.spark needs Java 17 or later", allow_module_level=True)

from pyspark import SparkContext
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import BinaryClassificationEvaluator, RegressionEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.linalg import Vectors
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as sql

from polyfm.spark import (
    SparkFactorizationMachineClassifier,
    SparkFactorizationMachineClassifierModel,
    SparkFactorizationMachineRegressor,
    SparkFactorizationMachineRegressorModel,
    SparkPolynomialNetworkClassifier,
    SparkPolynomialNetworkRegressor,
)
from polyfm.spark.arrow import features_of
from polyfm.spark.engine import SparkEngine
from polyfm.spark.estimators import check_frame
from polyfm.spark.parts import Pack, order_by_content
from polyfm.spark.rows import features, rows_to_train_on

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),  # nor is it needed
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
FIXED = {"alpha": 1.0, "beta": 1.0, "n_components": 3, "tol": 0.0}


@pytest.fixture(scope="module")
def spark():
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = (
            SparkSession.builder.master("local[2, 3]")  # tasks that fail are tried three times
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.codegen.wholeStage", "false")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")  # compiled sooner, not better
            .config("spark.log.level", "OFF")
            .getOrCreate()
        )
    yield session
    session.stop()


def vectors_of(X):
    rows = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    return [Vectors.sparse(X.shape[1], X.indices[lo:hi].tolist(), X.data[lo:hi].tolist()) for lo, hi in rows]


@pytest.fixture(scope="module")
def rated(spark):
    """Ratings in five partitions, of which the third is empty and the fourth has one row; X, y and weights."""
    X, y = ratings(300)
    weight = np.random.RandomState(0).uniform(0.5, 2, 300)
    cuts = np.digitize(np.arange(300), [100, 200, 200, 201])
    rows = [*zip(vectors_of(X), y.tolist(), weight.tolist(), cuts.tolist(), strict=True)]
    frame = spark.createDataFrame(rows, ["features", "label", "weight", "part"])
    rdd = frame.rdd.keyBy(lambda row: row.part).partitionBy(5, int).values()
    return spark.createDataFrame(rdd, frame.schema).cache(), X, y, weight


def assert_same(found, expected, rtol=1e-9):
    assert_allclose(found.history_, expected.history_, rtol=rtol)
    for name in ("components_", "coef_", "intercept_"):
        scale = np.abs(expected.components_).max()
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=rtol, atol=rtol * scale)


# -- the same models --------------------------------------------------------------------------------------------------


def test_partitions_give_the_model_of_all_rows(rated, monkeypatch, capsys):
    frame, X, y, weight = rated
    assert frame.rdd.getNumPartitions() == 5
    estimator = SparkFactorizationMachineRegressor(maxIter=4, seed=3, weightCol="weight", verbose=1, **FIXED)
    model = estimator.fit(frame)
    lines = capsys.readouterr().out.splitlines()
    assert all("objective" in line and "round" in line and "MB" in line for line in lines)
    expected = FactorizationMachineRegressor(max_iter=4, random_state=3, solver="lbfgs", **FIXED).fit(X, y, weight)
    local = model.toLocal()
    assert type(local) is FactorizationMachineRegressor
    assert_same(local, expected)

    predicted = model.transform(frame.select("features", "label")).toArrow()
    assert predicted.column_names == ["features", "label", "prediction"]
    order = np.argsort(predicted["label"].to_numpy())
    assert_allclose(predicted["prediction"].to_numpy()[order], local.predict(X)[np.argsort(y)])

    monkeypatch.setattr(SparkContext, "defaultParallelism", 1)  # one task has all partitions
    again = estimator.fit(frame).toLocal()
    assert_array_equal(again.components_, local.components_)  # to the bit
    assert_array_equal(again.history_, local.history_)


def test_the_order_of_rows_within_a_partition_changes_no_bit(rated):
    frame = rated[0].coalesce(1)
    estimator = SparkFactorizationMachineRegressor(maxIter=1, **FIXED)
    found = [estimator.fit(frame.sortWithinPartitions(order)).toLocal() for order in ("label", "weight")]
    assert_array_equal(found[0].components_, found[1].components_)


def test_classes_may_be_texts_and_features_arrays(spark):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((200, 3))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])]
    frame = spark.createDataFrame([*zip(X.tolist(), y.tolist(), strict=True)], ["features", "label"]).repartition(2)
    options = {**FIXED, "class_weight": "balanced", "beta": 0.1}
    model = SparkPolynomialNetworkClassifier(maxIter=2, **options).fit(frame)
    expected = PolynomialNetworkClassifier(max_iter=2, random_state=0, solver="lbfgs", **options).fit(X, y)
    local = model.toLocal()
    assert_same(local, expected)
    found = model.transform(frame)
    assert dict(found.dtypes)["prediction"] == "string"
    for row in found.limit(3).collect():
        x = np.array([row.features])
        assert row.prediction == local.predict(x)[0]
        assert_allclose(row.probability.toArray(), local.predict_proba(x)[0])
        assert_allclose(row.rawPrediction.toArray(), local.decision_function(x)[0])
    bare = SparkPolynomialNetworkClassifier(probabilityCol="", rawPredictionCol="").copy()
    assert set(model.copy({model.probabilityCol: "", model.rawPredictionCol: ""}).transform(frame).columns) == {
        "features", "label", "prediction",
    }  # fmt: skip
    assert bare.getProbabilityCol() == ""


def test_plain_columns_go_through_an_encoder(spark, tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    users, genres, ages = rng.randint(8, size=200), rng.choice(["drama", "comedy"], 200), rng.randint(20, 60, 200)
    y = 0.1 * ages + (genres == "drama") * (users % 3)
    rows = [
        (int(user), None if i == 7 else str(genre), None if i % 50 == 3 else float(age), float(label))
        for i, (user, genre, age, label) in enumerate(zip(users, genres, ages, y, strict=True))
    ]
    frame = spark.createDataFrame(rows, ["user", "genre", "age", "rating"]).repartition(3)
    names = ["user", "genre", "age"]
    estimator = SparkFactorizationMachineRegressor(
        featuresCol=names, labelCol="rating", fields=["user"], maxIter=2, **FIXED
    )
    model = estimator.fit(frame)
    table = pandas.DataFrame(rows, columns=[*names, "rating"])
    encoder = polyfm.TableEncoder(fields=["user"]).fit(table[names])
    expected = FactorizationMachineRegressor(max_iter=2, random_state=0, solver="lbfgs", **FIXED)
    expected.fit(encoder.transform(table[names]), table["rating"])
    encoder_found, found = model.toLocal()
    assert_array_equal(encoder_found.get_feature_names_out(), encoder.get_feature_names_out())
    assert_same(found, expected)
    row = model.transform(frame).filter("user = 3 and age is not null").first()
    one = pandas.DataFrame([[row.user, row.genre, row.age]], columns=names)
    assert_allclose(row.prediction, model.toLocal().predict(one)[0])
    polyfm.save_model(model.toLocal(), tmp_path / "model.polyfm")
    with pytest.raises(ValueError, match="fields=\\['nobody'\\] are no columns"):
        estimator.copy({estimator.fields: ["nobody"]}).fit(frame)


# -- pipelines, searches, files ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flat(spark):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((160, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(float)
    rows = [(*x, label) for x, label in zip(X.tolist(), y.tolist(), strict=True)]
    return spark.createDataFrame(rows, ["a", "b", "c", "label"]).repartition(2).cache()


def test_pipelines_fit_save_and_load(flat, tmp_path):
    machine = SparkFactorizationMachineClassifier(maxIter=5, class_weight={0.0: 1.0, 1.0: 2.0}, **FIXED)
    assembler = VectorAssembler(inputCols=["a", "b", "c"], outputCol="features")
    pipeline = Pipeline(stages=[assembler, machine])
    pipeline.write().overwrite().save(str(tmp_path / "estimator"))
    read = Pipeline.load(str(tmp_path / "estimator")).getStages()[1]
    assert {param.name: value for param, value in read.extractParamMap().items()} == {
        param.name: value for param, value in machine.extractParamMap().items()
    }
    model = pipeline.fit(flat)
    assert model.stages[1].toLocal().feature_names_in_.tolist() == ["a", "b", "c"]
    model.save(str(tmp_path / "model"))
    loaded = PipelineModel.load(str(tmp_path / "model"))
    found, expected = (m.transform(flat).orderBy("a").collect() for m in (loaded, model))
    assert found == expected
    assert BinaryClassificationEvaluator().evaluate(model.transform(flat)) > 0.9
    assert loaded.stages[1].uid == model.stages[1].uid
    kept = [file.read_bytes() for file in (tmp_path / "model").rglob("*") if file.is_file()]
    assert not any(b"\x80\x05\x95" in data for data in kept)  # how a pickle begins


def test_a_search_finds_the_better_parameters(flat):
    frame = flat.select(sql.array("a", "b", "c").alias("features"), (sql.col("a") * sql.col("b")).alias("label"))
    machine = SparkFactorizationMachineRegressor(maxIter=3, **FIXED)
    grid = ParamGridBuilder().addGrid(machine.beta, [0.1, 1e4]).build()
    search = CrossValidator(estimator=machine, estimatorParamMaps=grid, evaluator=RegressionEvaluator(), numFolds=2)
    found = search.fit(frame)
    assert found.avgMetrics[0] < found.avgMetrics[1]
    assert found.bestModel.toLocal().beta == 0.1


def test_models_load_alone(flat, tmp_path):
    frame = flat.select(sql.array("a", "b").alias("x"), sql.col("c").alias("y"))
    estimator = SparkFactorizationMachineRegressor(featuresCol="x", labelCol="y", maxIter=1, **FIXED)
    model = estimator.fit(frame)
    model.save(str(tmp_path / "model"))
    loaded = SparkFactorizationMachineRegressorModel.load(str(tmp_path / "model"))
    assert_array_equal(loaded.toLocal().components_, model.toLocal().components_)
    assert loaded.getFeaturesCol() == "x"
    assert loaded.getOrDefault("n_components") == 3
    model.transform(frame)  # sends the model to the executors, which is no part of it
    assert_array_equal(copy.deepcopy(model).toLocal().components_, model.toLocal().components_)
    with pytest.raises(Exception, match="already exists"):
        model.save(str(tmp_path / "model"))
    own = SparkFactorizationMachineRegressor(loss=object())
    with pytest.raises(ValueError, match="loss=<object .* Save the estimator with one that has a name"):
        own.save(str(tmp_path / "own"))


def test_parameters_are_those__ordinary_options_estimators():
    estimator = SparkPolynomialNetworkRegressor()
    ordinary = polyfm.PolynomialNetworkRegressor().get_params()
    assert estimator._ordinary_options() == {
        **{name: ordinary[name] for name in estimator._ordinary_options()}, "random_state": 0,
    }  # fmt: skip
    assert "degree: The degree m of the highest interactions." in estimator.explainParams()
    assert estimator.setMaxIter(7).setTol(0.1).setSeed(-1).getMaxIter() == 7
    assert estimator._ordinary_options()["random_state"] == 2**32 - 1
    assert estimator.setFeaturesCol(("a", "b")).getFeaturesCol() == ["a", "b"]
    with pytest.raises(TypeError, match="has no parameter 'max_iter'. It has .*maxIter"):
        SparkFactorizationMachineRegressor(max_iter=3)
    with pytest.raises(TypeError, match="featuresCol is the name of a column, or a list"):
        SparkFactorizationMachineRegressor(featuresCol=[1])


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_bad_rows_are_named_by_partition_and_row(rated):
    frame = rated[0].withColumn("n", sql.row_number().over(Window.partitionBy("part").orderBy("label")))
    first = frame.filter("part = 1").coalesce(1).sortWithinPartitions("n")
    machine = SparkFactorizationMachineRegressor(maxIter=1, weightCol="weight", **FIXED)
    for change, message in (
        ({"label": sql.when(sql.col("n") == 6, math.nan).otherwise(sql.col("label"))}, "row 5: y is not finite"),
        ({"label": sql.when(sql.col("n") == 6, None).otherwise(sql.col("label"))}, "row 5: the label is null"),
        ({"weight": -sql.col("weight")}, "row 0: the weight is -"),
        ({"features": sql.when(sql.col("n") != 4, sql.col("features"))}, "row 3: the features are null"),
    ):
        with pytest.raises(PartitionError, match=f"Partition 0: {message}"):
            machine.fit(first.withColumns(change))
    with pytest.raises(ValueError, match="There are no rows: all . partition"):
        machine.fit(rated[0].filter("part = 9"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"featuresCol": "fatures"}, "featuresCol='fatures' is no column of the DataFrame, which has 'a', 'b'"),
        ({"featuresCol": "a"}, r"of type double, where vectors .* pass a list of their names: featuresCol=\['a'\]"),
        ({"featuresCol": ["a", "a"]}, "names a column twice"),
        ({"featuresCol": ["a"], "labelCol": "text"}, "labelCol='text' is of type string, where numbers are needed"),
        ({"featuresCol": ["a"], "weightCol": "text"}, "weightCol='text' is no column of numbers"),
        ({"featuresCol": ["a"], "solver": "cd"}, "solver='cd' needs all rows on one machine"),
        ({"featuresCol": ["a"], "degree": 1.5}, "degree"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(flat, given, message):
    with pytest.raises(ValueError, match=message):
        SparkFactorizationMachineRegressor(**given).fit(flat.withColumn("text", sql.lit("?")))


def test_an_output_column_that_is_there_is_refused(flat):
    frame = flat.select(sql.array("a", "b").alias("features"), sql.col("c").alias("Prediction"))
    model = SparkFactorizationMachineRegressorModel(None)
    with pytest.raises(ValueError, match="has a column 'prediction' already"):
        model.transform(frame)
    classes = SparkFactorizationMachineClassifierModel(FactorizationMachineClassifier())
    with pytest.raises(ValueError, match="Two outputs are named 'p'"):
        classes.transform(frame, {classes.predictionCol: "p", classes.probabilityCol: "p"})


def test_a_session_that_was_stopped_is_named():
    stopped = SimpleNamespace(_jdf=None, sparkSession=SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None)))
    with pytest.raises(ValueError, match="The Spark session of this DataFrame was stopped"):
        check_frame(stopped)


@pytest.mark.parametrize("signals", [False, True])
def test_ctrl_c_keeps_the_model_so_far(rated, monkeypatch, signals):
    asked, ask = [], SparkEngine.answers

    def interrupted(self, call):
        asked.append(call.method)
        if asked.count("loss_and_gradient") == 5:
            asked.append("loss_and_gradient")
            if not signals:
                raise KeyboardInterrupt
            os.kill(os.getpid(), signal.SIGINT)
        return ask(self, call)

    monkeypatch.setattr(SparkEngine, "answers", interrupted)
    before = signal.getsignal(signal.SIGINT)
    if signals and not (main_thread() is current_thread() and before.__module__.startswith("pyspark")):
        pytest.skip("signals go elsewhere here")
    with pytest.warns(UserWarning, match="interrupted"):
        model = SparkFactorizationMachineRegressor(maxIter=9, **FIXED).fit(rated[0])
    assert 0 < model.toLocal().n_iter_ < 9
    assert signal.getsignal(signal.SIGINT) is before


def test_parts_that_are_lost_are_packed_again(rated):
    frame = rated[0]
    engine = SparkEngine(rows_to_train_on(frame, features(frame, "features"), "label", None, False), Pack(False, False))
    assert engine.n_tasks < engine.n_parts == 4
    before = engine.each("digest")
    engine.parts.unpersist(blocking=True)
    assert engine.each("digest") == before
    engine.close()


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_time_alone(rated, tmp_path):
    marker = str(tmp_path / "killed")

    class Deadly:  # known here alone, and so sent by value
        curvature, residual = 1.0, True

        def value(self, y, f):
            return 0.5 * (f - y) ** 2

        def derivative(self, y, f):
            return f - y

        def __setstate__(self, state):
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)

        def __getstate__(self):
            return {"some": "state"}

    found = [
        SparkFactorizationMachineRegressor(maxIter=1, loss=loss, **FIXED).fit(rated[0]).toLocal()
        for loss in (Deadly(), Deadly())
    ]
    assert os.path.exists(marker)
    assert_array_equal(found[0].components_, found[1].components_)  # to the bit


def test_without_java_its_name_and_the_remedy_are_told(monkeypatch, tmp_path):
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImportError, match="Java 17 or later.*no java is on the PATH.*openjdk-17"):
        SparkFactorizationMachineRegressor()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ImportError, match="there is none in JAVA_HOME="):
        SparkFactorizationMachineClassifier()


# -- columns of Arrow -------------------------------------------------------------------------------------------------

VECTOR = pa.struct(
    [("type", pa.int8()), ("size", pa.int32()), ("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.float64()))]
)


def vector(values=None, size=None, indices=None):
    return {"type": 1 if size is None else 0, "size": size, "indices": indices, "values": values}


def test_vectors_become_arrays_or_sparse_rows():
    dense = features_of(pa.array([vector([1.0, 0.0]), vector([2.0, 3.0])], VECTOR))
    assert_array_equal(dense, [[1, 0], [2, 3]])
    mixed = features_of(pa.array([vector([1.0, 0.0]), vector([5.0], 2, [1]), vector([], 2, [])], VECTOR))
    assert_array_equal(mixed.toarray(), [[1, 0], [0, 5], [0, 0]])
    assert mixed.nnz == 2
    sliced = pa.array([vector([9.0], 2, [0]), vector([1.0], 2, [1]), vector([2.0, 3.0])], VECTOR)[1:]
    assert_array_equal(features_of(sliced).toarray(), [[0, 1], [2, 3]])
    single = features_of(pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32()))[1:])
    assert single.dtype == np.float32
    assert_array_equal(single, [[3, 4], [5, 6]])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([vector([1.0], 2, [0]), None], "row 11: the features are null"),
        ([vector([1.0], 2, [0]), vector([1.0], 3, [0])], "row 11: 3 features, where row 10 has 2"),
        ([vector([1.0], 2, [0]), vector([1.0, 2.0], 2, [0, 2])], "row 11: a vector of size 2 has index 2"),
        ([vector([1.0], 2, [0]), vector([1.0], 2, [0, 1])], "from row 10 on: .* not as many indices as values"),
    ],
)
def test_vectors_that_are_none_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        features_of(pa.array(rows, VECTOR), 10)


def test_arrays_that_are_none_are_refused():
    kind = pa.list_(pa.float64())
    for rows, message in (
        ([[1.0], [1.0, None]], "row 1: a feature is null"),
        ([[1.0], [1.0, 2.0]], "row 1: 2 features, where row 0 has 1"),
    ):
        with pytest.raises(ValueError, match=message):
            features_of(pa.array(rows, kind))


@pytest.mark.parametrize("dense", [False, True])
def test_rows_have_an_order_of_their_own(dense):
    X, y = ratings(200)
    X = X.toarray() if dense else X
    mixed = np.random.RandomState(0).permutation(200)
    one, other = order_by_content(X, y, y**2), order_by_content(X[mixed], y[mixed], y[mixed] ** 2)
    assert_array_equal(mixed[other], one)
    same = X[np.zeros(200, dtype=int)]
    assert_array_equal(order_by_content(same, np.zeros(200), None), np.arange(200))


def test_a_loss_without_probabilities_has_no_column_of_them(flat):
    frame = flat.select(sql.array("a", "b").alias("features"), "label")
    model = SparkFactorizationMachineClassifier(maxIter=1, loss="squared_hinge", **FIXED).fit(frame)
    assert model.transform(frame).columns == ["features", "label", "prediction", "rawPrediction"]
    assert isinstance(model.toLocal(), FactorizationMachineClassifier)
