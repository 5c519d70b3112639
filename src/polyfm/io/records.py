"""Fitted objects as plain records: JSON for numbers and words, arrays beside it. Only what is listed here is stored.

A value is itself where JSON has it; otherwise a tagged object: ``{"array": name}``, ``{"strings": name, ...}``,
``{"list": [...]}``, ``{"float": "inf"}``, ``{"dtype": "float32"}``, ``{"loss": ...}``.
"""

import math
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn import preprocessing
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from polyfm import estimators
from polyfm.io.container import can_hold
from polyfm.losses import LOSSES
from polyfm.model import FORMS, Group, Model, Parameters
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
# What training leaves beside the parameters. An attribute that is not listed here is not stored.
FITTED = {
    **dict.fromkeys(ESTIMATORS, (*FEATURES, "classes_", "objective_", "history_", "n_iter_")),
    "MaxAbsScaler": (*FEATURES, "max_abs_", "scale_", "n_samples_seen_"),
    "MinMaxScaler": (*FEATURES, "min_", "scale_", "data_min_", "data_max_", "data_range_", "n_samples_seen_"),
    "StandardScaler": (*FEATURES, "mean_", "var_", "scale_", "n_samples_seen_"),
    "TableEncoder": (*FEATURES, "categorical_", "medians_", "means_", "scales_", "flagged_"),
}
OPTIONAL = {"feature_names_in_", "objective_", "history_", "n_iter_"}
LONGEST_LIST = 1000
HIGHEST_DEGREE = 1000
LARGEST_WORKSPACE = 2**26  # numbers that predicting one row works on; a lifted ANOVA form takes 2^degree a basis


class UnstorableError(ValueError):
    """An object or value that a model file cannot hold."""


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


# -- values -----------------------------------------------------------------------------------------------------------


class Writer:
    """Collects arrays and notes while objects become records."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.notes: list[str] = []

    def array(self, name: str, array: np.ndarray) -> dict:
        if not can_hold(array):
            raise UnstorableError(f"an array of type {array.dtype}")
        self.arrays[name] = np.ascontiguousarray(array)
        return {"array": name}

    def strings(self, name: str, values: np.ndarray) -> dict:
        """Texts as their UTF-8 bytes and where each ends; a None at the end is a flag."""
        texts = list(values)
        none = bool(texts) and texts[-1] is None
        texts = texts[: len(texts) - none]
        if not all(isinstance(text, str) for text in texts):
            other = next(text for text in texts if not isinstance(text, str))
            raise UnstorableError(f"an array that holds {type(other).__name__} and is neither of numbers nor of text")
        parts = [text.encode("utf-8", "surrogatepass") for text in texts]
        kind = "U" if values.dtype.kind == "U" and _is_even(texts) else "object"
        self.array(f"{name}.text", np.frombuffer(b"".join(parts), dtype=np.uint8))
        self.array(f"{name}.ends", np.cumsum([len(part) for part in parts], dtype=np.int64))
        return {"strings": name, "kind": kind, "none": none, "count": len(values)}

    def value(self, name: str, value: Any) -> Any:
        """Any value that a record can hold; others raise `UnstorableError`."""
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real):
            number = float(value)
            return number if math.isfinite(number) else {"float": repr(number)}
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
            return {"dtype": np.dtype(value).name}
        if isinstance(value, (list, tuple)) and len(value) <= LONGEST_LIST:
            simple = [self.value(name, item) for item in value]
            if not any(isinstance(item, dict) for item in simple):
                return {"list": simple, "tuple": isinstance(value, tuple)}
        if isinstance(value, (list, tuple, np.ndarray)):
            array = np.asarray(value)
            return self.strings(name, array) if array.dtype.kind in "UOT" else self.array(name, array)
        raise UnstorableError(f"an object of type {type(value).__name__}")


def _is_even(texts: list[str]) -> bool:
    """Whether an array of fixed width, as long as the longest text, takes not much more memory than the texts."""
    return max(map(len, texts), default=0) * len(texts) <= 16 * sum(map(len, texts)) + 2**20


class Reader:
    """Gives values back. A record is of unknown origin: whatever is odd raises, as some kind of ValueError, KeyError,
    TypeError or AttributeError that the caller turns into one error."""

    def __init__(self, arrays: dict[str, np.ndarray]):
        self.arrays = arrays

    def strings(self, record: dict) -> np.ndarray:
        text, ends = self.arrays[f"{record['strings']}.text"], self.arrays[f"{record['strings']}.ends"]
        bounds = np.concatenate([[0], ends])
        if text.dtype != np.uint8 or ends.dtype != np.int64 or text.ndim != 1 or ends.ndim != 1:
            raise ValueError("texts of a wrong type")
        if np.any(np.diff(bounds) < 0) or bounds[-1] != len(text):
            raise ValueError("texts that do not end where they should")
        data = text.tobytes()
        texts: list = [data[lo:hi].decode("utf-8", "surrogatepass") for lo, hi in pairwise(bounds)]
        if record["kind"] == "U" and not record["none"]:
            if not _is_even(texts):
                raise ValueError("texts of too different lengths")
            return np.array(texts, dtype=np.str_)
        out = np.empty(len(texts) + bool(record["none"]), dtype=object)
        out[: len(texts)] = texts
        return out

    def value(self, value: Any) -> Any:
        if not isinstance(value, dict):
            if isinstance(value, list):
                raise ValueError("a bare list")
            return value
        if "array" in value:
            return self.arrays[value["array"]]
        if "strings" in value:
            return self.strings(value)
        if "list" in value:
            items = [self.value(item) for item in value["list"]]
            return tuple(items) if value["tuple"] else items
        if "float" in value:
            return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[value["float"]]
        return {"float32": np.float32, "float64": np.float64}[value["dtype"]]


# -- objects ----------------------------------------------------------------------------------------------------------


def to_record(obj: Any, writer: Writer, prefix: str = "") -> dict:
    """The record of a fitted estimator, scaler, table encoder or pipeline of these."""
    name = type(obj).__name__
    if isinstance(obj, Pipeline):
        return _pipeline_to_record(obj, writer)
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
        "fitted": {key: writer.value(prefix + key, getattr(obj, key)) for key in FITTED[name] if hasattr(obj, key)},
    }
    if name in ESTIMATORS:
        obj._validate_params()
        record["model"] = _model_to_record(obj, writer, prefix)
    if name == "TableEncoder":
        record["categories"] = [
            writer.strings(f"{prefix}categories_{i}", values) for i, values in enumerate(obj.categories_)
        ]
    return record


def from_record(record: dict, reader: Reader) -> Any:
    """The fitted object of a record."""
    name = record["class"]
    if name == "Pipeline":
        steps = [(str(step["name"]), _step(step["object"], reader)) for step in record["steps"]]
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
        _restore_model(obj, record["model"], reader)
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
            record[name] = writer.value(prefix + name, value)
        except UnstorableError as problem:
            writer.notes.append(f"The parameter {name} was {problem}; it was not stored and loads as its default.")
    return record


def _parameters_from_record(cls: type, record: dict, reader: Reader) -> dict:
    known = cls._get_param_names()  # type: ignore[attr-defined]
    if unknown := set(record) - set(known):
        raise ValueError(f"parameters that {cls.__name__} does not have: {sorted(unknown)}")
    loss = record.get("loss")
    given = {"loss": _loss_from_record(loss)} if isinstance(loss, dict) else {}
    return {name: reader.value(value) for name, value in record.items() if name not in given} | given


def _loss_to_record(loss: Any, writer: Writer) -> dict:
    if isinstance(loss, MissingLoss):
        name, numbers = loss._name, dict(loss._numbers)
    else:
        name = type(loss).__name__
        fields = getattr(loss, "_fields", None) or tuple(vars(loss))
        numbers = {key: getattr(loss, key) for key in fields}
        numbers = {key: float(number) for key, number in numbers.items() if isinstance(number, Real)}
        if type(loss) in LOSSES.values():
            return {"loss": name, "numbers": numbers, "own": False}
    writer.notes.append(
        f"The loss is the user's own class {name}; its code was not stored. The loaded model predicts; before it is "
        "fitted again, give it its loss with set_params(loss=...)."
    )
    return {"loss": name, "numbers": numbers, "own": True}


def _loss_from_record(record: dict) -> Any:
    numbers = {str(key): float(number) for key, number in record["numbers"].items()}
    if record["own"]:
        return MissingLoss(str(record["loss"]), numbers)
    return {cls.__name__: cls for cls in LOSSES.values()}[record["loss"]](**numbers)


# -- the parameters of an estimator -----------------------------------------------------------------------------------


def _is_workable(group: Group) -> bool:
    return group.degree <= HIGHEST_DEGREE and group.n_slots * group.n_bases <= LARGEST_WORKSPACE


def _model_to_record(estimator: Any, writer: Writer, prefix: str) -> dict:
    model, targets = estimator._fitted_model, estimator._parameters
    groups = []
    for g, group in enumerate(model.groups):
        if not _is_workable(group):
            raise UnstorableError(f"Degree {group.degree} and rank {group.n_bases} are too high to load again")
        groups.append(
            {
                "kernel": group.kernel,
                "method": group.method,
                "degree": int(group.degree),
                "n_bases": int(group.n_bases),
                "n_dummies": int(group.n_dummies),
                "factors": writer.array(f"{prefix}factors_{g}", np.stack([p.factors[g] for p in targets])),
                "lambdas": writer.array(f"{prefix}lambdas_{g}", np.stack([p.lambdas[g] for p in targets])),
            }
        )
    return {
        "groups": groups,
        "fit_linear": bool(model.fit_linear),
        "fit_intercept": bool(model.fit_intercept),
        "coef": writer.array(f"{prefix}coef", np.stack([p.coef for p in targets])),
        "intercept": writer.array(f"{prefix}intercept", np.stack([p.intercept for p in targets])),
    }


def _restore_model(estimator: Any, record: dict, reader: Reader) -> None:
    n_features = estimator.n_features_in_
    n_targets = 1
    if hasattr(estimator, "decision_function"):
        if estimator.classes_.ndim != 1 or len(np.unique(estimator.classes_)) < max(2, len(estimator.classes_)):
            raise ValueError("class labels that are fewer than two, or repeated")
        n_targets = 1 if len(estimator.classes_) == 2 else len(estimator.classes_)

    def numbers(value: dict, *shape: int) -> np.ndarray:
        array = reader.value(value)
        if array.dtype.kind != "f" or array.shape != (n_targets, *shape) or not np.all(np.isfinite(array)):
            raise ValueError(f"parameters that are not {(n_targets, *shape)} finite numbers")
        return array

    groups = []
    for entry in record["groups"]:
        fields = {name: entry[name] for name in ("kernel", "method", "degree", "n_bases", "n_dummies")}
        if (fields["kernel"], fields["method"]) not in FORMS or fields["kernel"] != estimator._kernel:
            raise ValueError("bases of an unknown form")
        for name, lo, hi in (("degree", 2, HIGHEST_DEGREE), ("n_bases", 1, 2**31), ("n_dummies", 0, HIGHEST_DEGREE)):
            if type(fields[name]) is not int or not lo <= fields[name] <= hi:
                raise ValueError(f"{name}={fields[name]!r}")
        groups.append(Group(**fields))
        if not _is_workable(groups[-1]):
            raise ValueError("a degree and rank too high to predict with")
    if not groups or len({group.method for group in groups}) > 1:
        raise ValueError("no bases, or bases of several forms")
    if [g.degree for g in groups] != sorted({g.degree for g in groups}, reverse=True):
        raise ValueError("degrees that do not fall")
    model = Model(tuple(groups), bool(record["fit_linear"]), bool(record["fit_intercept"]))
    factors = [numbers(e["factors"], *g.shape(n_features)) for e, g in zip(record["groups"], groups, strict=True)]
    lambdas = [numbers(e["lambdas"], g.n_bases) for e, g in zip(record["groups"], groups, strict=True)]
    coef, intercept = numbers(record["coef"], n_features), numbers(record["intercept"], 1)
    parameters = [
        Parameters(tuple(f[t] for f in factors), tuple(lams[t] for lams in lambdas), coef[t], intercept[t])
        for t in range(n_targets)
    ]
    estimator._keep_parameters(model, parameters)
