"""Fitted objects as plain records of JSON and arrays. Only classes and attributes that are listed here are stored."""

from numbers import Real
from typing import Any

import numpy as np
from sklearn import preprocessing
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from polyfm import estimators
from polyfm.files.fitted import chosen, model_to_record, restore_model, restored_stream, stream_to_record
from polyfm.files.values import Reader, UnstorableError, Writer
from polyfm.losses import LOSSES
from polyfm.tabular import TableEncoder

ESTIMATORS = {
    cls.__name__: cls
    for cls in (
        estimators.FactorizationMachineClassifier,
        estimators.FactorizationMachineRegressor,
        estimators.PolynomialNetworkClassifier,
        estimators.PolynomialNetworkRegressor,
    )
}
SCALERS = {
    cls.__name__: cls for cls in (preprocessing.MaxAbsScaler, preprocessing.MinMaxScaler, preprocessing.StandardScaler)
}
FEATURES = ("n_features_in_", "feature_names_in_")
TRAINING = ("objective_", "history_", "n_iter_", "solver_", "validation_losses_", "n_samples_seen_")
# What training leaves beside the parameters. An attribute that is not listed here is not stored.
FITTED = {
    **dict.fromkeys(ESTIMATORS, (*FEATURES, "classes_", *TRAINING)),
    "MaxAbsScaler": (*FEATURES, "max_abs_", "scale_", "n_samples_seen_"),
    "MinMaxScaler": (*FEATURES, "min_", "scale_", "data_min_", "data_max_", "data_range_", "n_samples_seen_"),
    "StandardScaler": (*FEATURES, "mean_", "var_", "scale_", "n_samples_seen_"),
    "TableEncoder": (*FEATURES, "categorical_", "medians_", "means_", "scales_", "flagged_"),
}
OPTIONAL = {"feature_names_in_", *TRAINING}
NOT_STORED = {"checkpoint"}  # a path: it means nothing elsewhere, and `fit` writes to it and deletes it


class MissingLoss:
    """Stands for a user's own loss in a model that was loaded: a file holds a loss's name and numbers, not its code.

    The model predicts as before. Before it is fitted again, its loss must be given again with `set_params`.
    """

    def __init__(self, name: str, numbers: dict[str, float]):
        self._name, self._numbers = name, numbers

    def __repr__(self) -> str:
        return f"<{self._call}, to be given again>"

    @property
    def _call(self) -> str:
        return f"{self._name}({', '.join(f'{name}={number!r}' for name, number in self._numbers.items())})"

    def _refuse(self):
        raise TypeError(
            f"This model was trained with a loss of your own, {self._call}, and loaded from a file, which cannot hold "
            "its code. Predictions do not need it; before fitting, give it again: model.set_params(loss=...)."
        )

    @property
    def curvature(self) -> float:
        return self._refuse()

    def value(self, y, f):
        self._refuse()

    def derivative(self, y, f):
        self._refuse()


# -- objects ----------------------------------------------------------------------------------------------------------


def to_record(obj: Any, writer: Writer, prefix: str = "") -> dict:
    """The record of a fitted estimator, scaler, table encoder or pipeline of these."""
    if isinstance(obj, Pipeline):
        return _pipeline_to_record(obj, writer)
    if chosen(obj) is not obj:
        writer.notes.append(f"This is the model that {type(obj).__name__} has chosen; its search was not stored.")
        obj = chosen(obj)
    name = type(obj).__name__
    known = {**ESTIMATORS, **SCALERS, "TableEncoder": TableEncoder}
    if known.get(name) is not type(obj):
        hint = "Save its best_estimator_. " if hasattr(obj, "best_estimator_") else ""
        raise UnstorableError(
            f"{hint}A model file holds {', '.join(sorted(known))}, or a Pipeline of these, but not {name}"
        )
    check_is_fitted(obj)
    record = {
        "class": name,
        "parameters": _parameters_to_record(obj, writer, prefix),
        "fitted": _fitted_to_record(obj, writer, prefix),
    }
    if name in ESTIMATORS:
        obj._validate_params()
        record["model"] = model_to_record(obj, writer, prefix)
        if getattr(obj, "_stream", None) is not None:
            record["stream"] = [stream_to_record(s, writer, f"{prefix}stream{t}.") for t, s in enumerate(obj._stream)]
    if name == "TableEncoder":
        record["categories"] = [
            writer.strings(f"{prefix}categories_{i}", values) for i, values in enumerate(obj.categories_)
        ]
    return record


def _fitted_to_record(obj: Any, writer: Writer, prefix: str) -> dict:
    record = {}
    for key in FITTED[type(obj).__name__]:
        if hasattr(obj, key):
            try:
                record[key] = writer.value(prefix + key, getattr(obj, key))
            except UnstorableError as problem:
                raise UnstorableError(f"{key} is {problem}; use numbers or text") from problem
    return record


def from_record(record: dict, reader: Reader) -> Any:
    """The fitted object of a record."""
    name = record["class"]
    if name == "Pipeline":
        steps = [(str(step["name"]), _step(step["object"], reader)) for step in record["steps"]]
        if len({name for name, _ in steps}) < max(1, len(steps)):
            raise ValueError("a pipeline without steps, or with two of one name")
        return Pipeline(steps)
    cls = {**ESTIMATORS, **SCALERS, "TableEncoder": TableEncoder}[name]
    obj = cls(**_parameters_from_record(cls, record["parameters"], reader))
    obj._validate_params()
    fitted = {key: reader.value(value) for key, value in record["fitted"].items()}
    required = set(FITTED[name]) - OPTIONAL - ({"classes_"} if not hasattr(cls, "decision_function") else set())
    if not required <= set(fitted) <= set(FITTED[name]):
        raise ValueError(f"unknown or missing attributes among {sorted(fitted)}")
    for key, value in fitted.items():
        setattr(obj, key, value)
    if type(obj.n_features_in_) is not int or obj.n_features_in_ < 1:
        raise ValueError("an impossible number of features")
    if "feature_names_in_" in fitted and obj.feature_names_in_.shape != (obj.n_features_in_,):
        raise ValueError("as many feature names as there are features were expected")
    if name in ESTIMATORS:
        restore_model(obj, record["model"], reader)
        if "stream" in record:
            obj._stream = [
                restored_stream(entry, p, reader)
                for entry, p in zip(record["stream"], obj._fitted.targets, strict=True)
            ]
    elif name == "TableEncoder":
        obj.categories_ = [reader.strings(values) for values in record["categories"]]
        obj._restore()
    elif any(v.shape != (obj.n_features_in_,) for v in fitted.values() if isinstance(v, np.ndarray)):
        raise ValueError("as many numbers as there are features were expected")
    return obj


def _step(record: Any, reader: Reader) -> Any:
    return record if record == "passthrough" else from_record(record, reader)


def _pipeline_to_record(pipeline: Pipeline, writer: Writer) -> dict:
    steps = []
    for i, (name, step) in enumerate(pipeline.steps):
        if step is None or (isinstance(step, str) and step == "passthrough"):
            steps.append({"name": name, "object": "passthrough"})
        elif isinstance(step, Pipeline):
            raise UnstorableError(
                "A model file holds a pipeline of single steps; put the inner pipeline's steps into it"
            )
        else:
            steps.append({"name": name, "object": to_record(step, writer, f"step{i}.")})
    if pipeline.memory is not None:
        writer.notes.append("The pipeline's memory (cache) was not stored.")
    return {"class": "Pipeline", "steps": steps}


def _parameters_to_record(obj: Any, writer: Writer, prefix: str) -> dict:
    """Constructor parameters; those that cannot be stored are left out, with a note, and load as their defaults."""
    record = {}
    for name, value in obj.get_params(deep=False).items():
        if name == "loss" and not isinstance(value, str):
            record[name] = _loss_to_record(value, writer)
            continue
        try:
            if name in NOT_STORED and value is not None:
                raise UnstorableError("a path of this machine")
            record[name] = writer.value(prefix + name, value)
        except UnstorableError as problem:
            writer.notes.append(f"The parameter {name} was {problem}; it was not stored and loads as its default.")
    return record


def _parameters_from_record(cls: type, record: dict, reader: Reader) -> dict:
    known = cls._get_param_names()  # type: ignore[attr-defined]
    if any(record.get(name) is not None for name in NOT_STORED):
        raise ValueError(f"one of the parameters {sorted(NOT_STORED)}, which are never stored")
    if unknown := set(record) - set(known):
        raise ValueError(f"parameters that {cls.__name__} does not have: {sorted(unknown)}")
    loss = record.get("loss")
    given = {"loss": _loss_from_record(loss, reader)} if isinstance(loss, dict) else {}
    return {name: reader.value(value) for name, value in record.items() if name not in given} | given


def _loss_to_record(loss: Any, writer: Writer) -> dict:
    if isinstance(loss, MissingLoss):
        name, numbers = loss._name, {key: writer.value(key, number) for key, number in loss._numbers.items()}
    else:
        name = type(loss).__name__
        fields = getattr(loss, "_fields", None) or tuple(getattr(loss, "__dict__", ()))
        numbers = {key: getattr(loss, key) for key in fields}
        numbers = {key: writer.value(key, float(n)) for key, n in numbers.items() if isinstance(n, Real)}
        if type(loss) in LOSSES.values():
            return {"loss": name, "numbers": numbers, "own": False}
    writer.notes.append(
        f"The loss is the user's own class {name}; its code was not stored. The loaded model predicts; before it is "
        "fitted again, give it its loss with set_params(loss=...)."
    )
    return {"loss": name, "numbers": numbers, "own": True}


def _loss_from_record(record: dict, reader: Reader) -> Any:
    numbers = {str(key): float(reader.value(number)) for key, number in record["numbers"].items()}
    if record["own"]:
        return MissingLoss(str(record["loss"]), numbers)
    return {cls.__name__: cls for cls in LOSSES.values()}[record["loss"]](**numbers)
