"""Pipelines, unions and column transformers as records: their parts are written and read by whoever calls."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from polyfm.files.tables import required
from polyfm.files.transformers import MOST_FEATURES, check_features, check_width, parameters_to_record
from polyfm.files.values import Reader, UnstorableError, Writer

COMPOSITIONS: dict[str, type] = {cls.__name__: cls for cls in (ColumnTransformer, FeatureUnion, Pipeline)}
WORDS = ("passthrough", "drop")
MOST_COLUMNS = 2**31

Write = Callable[[Any, Writer, str], dict]
Read = Callable[[dict, Reader], Any]


def to_record(obj: Any, writer: Writer, prefix: str, write: Write) -> dict:
    if isinstance(obj, Pipeline):
        if obj.memory is not None:
            writer.notes.append("The pipeline's memory (cache) was not stored.")
        steps = [(name, "passthrough" if step is None else step) for name, step in obj.steps]
        return {"class": "Pipeline", "steps": _parts_to_record(steps, writer, f"{prefix}step", write)}
    if isinstance(obj, FeatureUnion):
        parameters = parameters_to_record(obj, writer, prefix, ("transformer_list",))
        parts = _parts_to_record(obj.transformer_list, writer, f"{prefix}part", write)
        return {"class": "FeatureUnion", "parameters": parameters, "parts": parts}
    return _columns_to_record(obj, writer, prefix, write)


def from_record(record: dict, parameters: dict[str, Any], reader: Reader, read: Read) -> Any:
    if record["class"] == "Pipeline":
        return Pipeline(_parts_from_record(record["steps"], reader, read))
    if record["class"] == "FeatureUnion":
        _check_weights(parameters)
        return FeatureUnion(_parts_from_record(record["parts"], reader, read), **parameters)
    return _columns_from_record(record, parameters, reader, read)


def _parts_to_record(parts: list, writer: Writer, prefix: str, write: Write) -> list[dict]:
    return [
        {"name": name, "object": part if isinstance(part, str) else write(part, writer, f"{prefix}{i}.")}
        for i, (name, part) in enumerate(parts)
    ]


def _parts_from_record(records: list, reader: Reader, read: Read) -> list[tuple[str, Any]]:
    parts = [(str(record["name"]), _part(record["object"], reader, read)) for record in records]
    if len({name for name, _ in parts}) < max(1, len(parts)):
        raise ValueError("a composition without steps, or with two of one name")
    return parts


def _part(record: Any, reader: Reader, read: Read) -> Any:
    return record if isinstance(record, str) and record in WORDS else read(record, reader)


# -- columns ----------------------------------------------------------------------------------------------------------


class _Stand(TransformerMixin, BaseEstimator):
    """Stands in for a transformer of so many columns, while scikit-learn learns who takes which."""

    def __init__(self, width: int = 1):
        self.width = width

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return sp.csr_matrix((len(X), self.width))


def _columns_to_record(obj: ColumnTransformer, writer: Writer, prefix: str, write: Write) -> dict:
    check_is_fitted(obj)
    check_width(obj)
    parts = []
    for i, (name, part, columns) in enumerate(obj.transformers_):
        chosen = _chosen(columns, obj.n_features_in_)
        width = obj.output_indices_[name]
        if isinstance(chosen, list) and not chosen:
            part = "drop"
        elif type(part) is FunctionTransformer and part.func is None:
            part = "passthrough"
        parts.append(
            {
                "name": name,
                "object": part if isinstance(part, str) else write(part, writer, f"{prefix}part{i}."),
                "columns": writer.value(f"{prefix}columns{i}", chosen),
                "width": [width.start, width.stop],
            }
        )
    fitted = {name: getattr(obj, name) for name in ("n_features_in_", "feature_names_in_") if hasattr(obj, name)}
    return {
        "class": "ColumnTransformer",
        "parameters": parameters_to_record(obj, writer, prefix, ("transformers", "remainder")),
        "fitted": {key: writer.value(prefix + key, value) for key, value in fitted.items()},
        "remainder": any(name == "remainder" for name, *_ in obj.transformers_),
        "sparse": bool(obj.sparse_output_),
        "parts": parts,
    }


def _chosen(columns: Any, n_features: int) -> Any:
    """Columns as they were chosen: one by its name or number, or a list of them."""
    if isinstance(columns, str):
        return columns
    if isinstance(columns, (int, np.integer)) and not isinstance(columns, bool):
        return int(columns)
    if isinstance(columns, slice):
        if isinstance(columns.start, str) or isinstance(columns.stop, str):
            raise UnstorableError("A slice of column names cannot be stored; name the columns in a list")
        return list(range(*columns.indices(n_features)))
    found = np.asarray(list(columns))
    return np.flatnonzero(found).tolist() if found.dtype == bool else found.tolist()


def _columns_from_record(record: dict, parameters: dict[str, Any], reader: Reader, read: Read) -> ColumnTransformer:
    fitted = {key: reader.value(value) for key, value in record["fitted"].items()}
    if not {"n_features_in_"} <= set(fitted) <= {"n_features_in_", "feature_names_in_"}:
        raise ValueError(f"unknown or missing attributes among {sorted(fitted)}")
    n_features = check_features(fitted)
    if n_features > MOST_FEATURES:
        raise ValueError("too many features")
    found = _parts_from_record(record["parts"], reader, read)
    columns = [_checked_columns(reader.value(part["columns"]), n_features) for part in record["parts"]]
    bounds = [_checked_bounds(part["width"]) for part in record["parts"]]
    stands: list[tuple[str, Any, Any]] = [
        (name, part if isinstance(part, str) else _Stand(max(1, hi - lo)), chosen)
        for (name, part), chosen, (lo, hi) in zip(found, columns, bounds, strict=True)
    ]
    names = fitted.get("feature_names_in_")
    row: Any = np.zeros((1, n_features))
    if names is not None:
        row = required("pandas", "table", "A model of named columns").DataFrame(row, columns=list(names))
    later = {name: parameters[name] for name in ("sparse_threshold", "n_jobs", "verbose") if name in parameters}
    given = {name: value for name, value in parameters.items() if name not in later}
    rest = stands.pop() if record["remainder"] and stands[-1][0] == "remainder" else ("remainder", "drop", [])
    obj = ColumnTransformer(stands, remainder=rest[1], sparse_threshold=1.0, **given)
    obj._validate_params()
    _check_weights(parameters)
    obj.fit(row)
    learned = {name: (part, chosen) for name, part, chosen in obj.transformers_}
    if set(learned) | {"remainder"} != {name for name, _ in found} | {"remainder"}:
        raise ValueError("columns that nobody takes")
    obj.transformers_ = [
        (name, learned[name][0] if isinstance(part, str) else part, learned[name][1])
        for name, part in found
        if name in learned
    ]
    obj.output_indices_ = {name: slice(lo, hi) for (name, _), (lo, hi) in zip(found, bounds, strict=True)}
    obj.output_indices_.setdefault("remainder", slice(0, 0))
    obj.sparse_output_ = bool(record["sparse"])
    fresh = {name: part if isinstance(part, str) else clone(part) for name, part in found}
    obj.transformers = [(name, fresh[name], chosen) for name, _, chosen in stands]
    obj.remainder = fresh.get("remainder", "drop") if rest[2] else "drop"
    obj.set_params(**{"sparse_threshold": 0.3, **later})
    obj._validate_params()
    return obj


def _check_weights(parameters: dict[str, Any]) -> None:
    weights = parameters.get("transformer_weights") or {}
    if not isinstance(weights, dict) or not all(type(weight) in (int, float) for weight in weights.values()):
        raise ValueError("weights that are no numbers")


def _checked_columns(chosen: Any, n_features: int) -> Any:
    chosen = chosen.tolist() if isinstance(chosen, np.ndarray) else chosen  # a long list
    for column in chosen if isinstance(chosen, list) else [chosen]:
        if type(column) is int and not -n_features <= column < n_features:
            raise ValueError("columns that are not there")
        if type(column) not in (int, str):
            raise ValueError("columns that are neither names nor numbers")
    return chosen


def _checked_bounds(bounds: Any) -> tuple[int, int]:
    lo, hi = bounds
    if type(lo) is not int or type(hi) is not int or not 0 <= lo <= hi < MOST_COLUMNS:
        raise ValueError("an impossible number of columns")
    return lo, hi
