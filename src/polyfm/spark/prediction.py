"""Predictions on the workers: a function of columns of Arrow."""

import pickle
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.pipeline import Pipeline

from polyfm.spark.arrow import features_of, table_of
from polyfm.spark.parts import settle

PREDICTION, PROBABILITY, RAW = "prediction", "probability", "raw"
TYPES = {PREDICTION: "double", PROBABILITY: "array<double>", RAW: "array<double>"}


@lru_cache(4)
def _model(data: bytes) -> Any:
    return pickle.loads(data)


def predictor(model: Any, wanted: tuple[str, ...], names: tuple[str, ...] | None) -> Callable[..., pa.Array]:
    """What `arrow_udf` takes. `model` is a broadcast of a pickled estimator, or of a pipeline of an encoder and one;
    `names` are those of plain columns."""

    def predict(*columns: pa.Array) -> pa.Array:
        settle("predict")
        X = features_of(columns[0]) if names is None else table_of(names, columns)
        nothing: dict[str, Any] = {what: [] for what in wanted}
        found = answers(_model(model.value), X, wanted) if len(columns[0]) else nothing
        return pa.StructArray.from_arrays([_as_arrow(found[what], what) for what in wanted], list(wanted))

    def _as_arrow(values: Any, what: str) -> pa.Array:
        if what != PREDICTION:
            return pa.array(list(values), pa.list_(pa.float64()))
        values = np.asarray(values)
        return pa.array(values, pa.string()) if values.dtype.kind in "UO" else pa.array(values.astype(np.float64))

    return predict


def answers(model: Any, X: Any, wanted: tuple[str, ...]) -> dict[str, np.ndarray]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        if isinstance(model, Pipeline):
            X, model = model[0].transform(X), model[-1]
        found = {PREDICTION: model.predict(X)}
        if PROBABILITY in wanted:
            found[PROBABILITY] = model.predict_proba(X)
        if RAW in wanted:
            f = model.decision_function(X)
            found[RAW] = np.column_stack([-f, f]) if f.ndim == 1 else f
    return found
