"""The estimators as Spark has them, and the models that they fit."""

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from pyspark import SparkContext
from pyspark.ml import Estimator, Model
from pyspark.ml.functions import array_to_vector
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline, make_pipeline

from polyfm.distributed.estimator import FittedInParts, with_parameters
from polyfm.estimators import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkClassifier,
    PolynomialNetworkRegressor,
)
from polyfm.spark.docstrings import documented, documented_model
from polyfm.spark.engine import SparkEngine
from polyfm.spark.files import Reader, Writer
from polyfm.spark.params import ClassColumns, Columns
from polyfm.spark.parts import Pack
from polyfm.spark.prediction import PREDICTION, PROBABILITY, RAW, TYPES, predictor
from polyfm.spark.rows import feature_names, features, rows_to_train_on
from polyfm.spark.tables import fitted_encoder

try:
    import cloudpickle
except ImportError:
    from pyspark import cloudpickle


def check_java() -> None:
    """Spark runs on Java; without one, what it says of that is hard to read."""
    if SparkContext._gateway is not None or os.environ.get("SPARK_REMOTE"):
        return
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if found is None:
        where = f"there is none in JAVA_HOME={home}" if home else "no java is on the PATH, and JAVA_HOME is not set"
        raise ImportError(
            f"polyfm.spark needs Java 17 or later, which Spark runs on, but {where}. Install one, for instance with "
            "`apt install openjdk-17-jre-headless`, `brew install openjdk@17` or from https://adoptium.net, and set "
            "JAVA_HOME to its folder."
        )


def check_frame(frame: Any) -> None:
    if not hasattr(frame, "_jdf"):
        raise TypeError(
            f"polyfm.spark needs a DataFrame of a Spark session with a driver of its own, got {type(frame).__module__}."
            f"{type(frame).__name__}. Spark Connect has no RDDs, which the rounds of a fit run on."
        )
    if frame.sparkSession.sparkContext._jsc is None:
        raise ValueError("The Spark session of this DataFrame was stopped. Start one, and read the DataFrame anew.")


@contextmanager
def deferring_to_polyfm() -> Iterator[None]:
    """Spark's handler of Ctrl-C asks the JVM to cancel all jobs, in the middle of whatever was asked of it, and the fit
    is lost. Within, polyfm minds Ctrl-C as ever: the model so far is kept once the epoch is over."""
    before = signal.getsignal(signal.SIGINT)
    is_sparks = str(getattr(before, "__module__", "")).startswith("pyspark.")
    if not is_sparks or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Saved(MLReadable, MLWritable):
    _is_model: ClassVar[bool] = False

    @classmethod
    def read(cls) -> Reader:
        """A reader of what `write` has written."""
        return Reader(cls)


class _SparkEstimator(Estimator, _Saved):
    _plain: type
    _model: type

    def __init__(self, **given: Any):
        check_java()
        super().__init__()
        self.setParams(**given)

    def setParams(self, **given: Any) -> Any:
        """Set parameters by name.

        Parameters
        ----------
        **given : object
            As in the constructor.

        Returns
        -------
        self : object
        """
        for name in given:
            if not self.hasParam(name):
                known = ", ".join(sorted(param.name for param in self.params))
                raise TypeError(f"{type(self).__name__} has no parameter {name!r}. It has {known}.")
        return self._set(**given)

    def _fit(self, dataset: DataFrame) -> Any:
        check_frame(dataset)
        estimator: Any = _in_parts(self._plain, type(self).__name__)(**self._ordinary_options())  # type: ignore[attr-defined]
        estimator._validate_params()
        estimator._validate_options()
        given = self.getFeaturesCol()  # type: ignore[attr-defined]
        found, classify = features(dataset, given), is_classifier(estimator)
        weight = self.getOrDefault("weightCol") if self.isDefined("weightCol") else None
        rows = rows_to_train_on(dataset, found, self.getOrDefault("labelCol"), weight, classify)
        encoder = None
        names = feature_names(dataset, given)
        if found.plain is not None:  # whose names the encoder knows
            encoder = fitted_encoder(rows, found.plain, self._table_options())  # type: ignore[attr-defined]
        engine = SparkEngine(rows, Pack(classify, bool(weight), encoder, found.plain or ()))
        try:
            with deferring_to_polyfm():
                estimator._fit_parts(engine, names)
        finally:
            engine.close()
        local = estimator.to_local()
        return self._copyValues(self._model(local if encoder is None else make_pipeline(encoder, local)))

    def write(self) -> Writer:
        """A writer of the parameters, as JSON."""
        return Writer(self)


def _in_parts(plain: type, name: str) -> type:
    return with_parameters(plain)(type(name, (FittedInParts, plain), {}))


class _SparkModel(Model, _Saved):
    """A fitted model: `transform` predicts, `toLocal` gives the ordinary estimator."""

    _is_model = True
    _plain: type

    def __init__(self, local: Any = None):
        super().__init__()
        self._local = local
        self._sent: Any = None

    def toLocal(self) -> Any:
        """The ordinary estimator, fitted; where the features are plain columns, a pipeline of a `TableEncoder` and
        it."""
        return self._local

    def _outputs(self) -> dict[str, str]:
        """What is predicted, and the column that it goes to."""
        return {PREDICTION: self.getOrDefault("predictionCol")}

    def _transform(self, dataset: DataFrame) -> DataFrame:
        check_frame(dataset)
        outputs = {what: name for what, name in self._outputs().items() if name}
        there, new = set(map(str.lower, dataset.columns)), set()  # Spark tells no capitals from small letters
        for name in outputs.values():
            if name.lower() in there:
                raise ValueError(f"The DataFrame has a column {name!r} already. Drop it, or name another one.")
            if name.lower() in new:
                raise ValueError(f"Two outputs are named {name!r}. Name them apart, or leave one out by an empty name.")
            new.add(name.lower())
        found = features(dataset, self.getFeaturesCol())  # type: ignore[attr-defined]
        types = {what: TYPES[what] for what in outputs}
        last = self._local[-1] if isinstance(self._local, Pipeline) else self._local
        if getattr(last, "classes_", np.empty(0)).dtype.kind in "UO":
            types[PREDICTION] = "string"
        schema = ", ".join(f"{what} {types[what]}" for what in outputs)
        udf: Any = sql.arrow_udf
        predict = udf(predictor(self._broadcast(dataset), tuple(outputs), found.plain), f"struct<{schema}>")
        together = f"{self.uid} predicts"
        dataset = dataset.withColumn(together, predict(*found.columns))
        for what, name in outputs.items():
            column = sql.col(f"`{together}`").getField(what)
            dataset = dataset.withColumn(name, column if what == PREDICTION else array_to_vector(column))
        return dataset.drop(together)

    def _broadcast(self, dataset: DataFrame) -> Any:
        context = dataset.sparkSession.sparkContext
        if self._sent is None or self._sent[0] is not context:
            self._sent = context, context.broadcast(cloudpickle.dumps(self._local))
        return self._sent[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sent": None}  # which belongs to this process

    def write(self) -> Writer:
        """A writer of the parameters, as JSON, and of polyfm's model file: no pickle, safe to load from a stranger."""
        return Writer(self, self._local)


class _SparkClassificationModel(_SparkModel):
    def _outputs(self) -> dict[str, str]:
        last = self._local[-1] if isinstance(self._local, Pipeline) else self._local
        more = {PROBABILITY: self.getOrDefault("probabilityCol")} if hasattr(last, "predict_proba") else {}
        return {**super()._outputs(), RAW: self.getOrDefault("rawPredictionCol"), **more}


_SET = """Set `{name}`.

        Parameters
        ----------
        value : object
            As in the constructor.

        Returns
        -------
        self : object
        """


def _setter(name: str) -> Any:
    def set_it(self: Any, value: Any) -> Any:
        return self._set(**{name: value})

    set_it.__name__ = "set" + name[0].upper() + name[1:]
    set_it.__doc__ = _SET.format(name=name)
    return set_it


for _cls, _names in (
    (Columns, ("featuresCol", "labelCol", "predictionCol", "weightCol", "maxIter", "tol", "seed")),
    (ClassColumns, ("probabilityCol", "rawPredictionCol")),
):
    for _name in _names:
        setattr(_cls, (_made := _setter(_name)).__name__, _made)


@documented_model(FactorizationMachineRegressor)
class SparkFactorizationMachineRegressorModel(_SparkModel, Columns):
    pass


@documented_model(FactorizationMachineClassifier)
class SparkFactorizationMachineClassifierModel(_SparkClassificationModel, ClassColumns):
    pass


@documented_model(PolynomialNetworkRegressor)
class SparkPolynomialNetworkRegressorModel(_SparkModel, Columns):
    pass


@documented_model(PolynomialNetworkClassifier)
class SparkPolynomialNetworkClassifierModel(_SparkClassificationModel, ClassColumns):
    pass


@documented(FactorizationMachineRegressor)
class SparkFactorizationMachineRegressor(_SparkEstimator, Columns):
    _model = SparkFactorizationMachineRegressorModel


@documented(FactorizationMachineClassifier)
class SparkFactorizationMachineClassifier(_SparkEstimator, ClassColumns):
    _model = SparkFactorizationMachineClassifierModel


@documented(PolynomialNetworkRegressor)
class SparkPolynomialNetworkRegressor(_SparkEstimator, Columns):
    _model = SparkPolynomialNetworkRegressorModel


@documented(PolynomialNetworkClassifier)
class SparkPolynomialNetworkClassifier(_SparkEstimator, ClassColumns):
    _model = SparkPolynomialNetworkClassifierModel
