"""What the steps of a pipeline make of a table: for each feature its name, the column it comes from, and its field.

A field is what an encoder makes of one column, of which a row has one feature: the one-hot columns of sex or of user.
Names are those of `get_feature_names_out`. A step that nothing is known of is followed by names: what it calls as it
was called before is what it was before.
"""

from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder

from polyfm.tabular import TableEncoder

Fields = np.ndarray  # (features,) of objects: equal ones are of one field, None is of none


class Features(NamedTuple):
    names: np.ndarray  # (features,) of objects
    sources: np.ndarray  # (features,): the column of the table that a feature comes from, -1 where it is not known
    fields: Fields

    @classmethod
    def new(cls, names) -> "Features":
        names = np.asarray(names, dtype=object)
        return cls(names, np.full(len(names), -1), np.full(len(names), None, dtype=object))

    @classmethod
    def of_table(cls, names) -> "Features":
        return cls.new(names)._replace(sources=np.arange(len(names)))

    def take(self, positions) -> "Features":
        return Features(*(part[positions] for part in self))

    def followed_by(self, other: "Features") -> "Features":
        return Features(*(np.concatenate(parts) for parts in zip(self, other, strict=True)))


def trace(step: Any, features: Features | None) -> Features | None:
    """The features that come out of a fitted step; None where even their number is not known."""
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return features
    if isinstance(step, Pipeline):
        for _, part in step.steps:
            features = trace(part, features)
        return features
    if isinstance(step, FeatureUnion):
        return _side_by_side(step, features)
    d = getattr(step, "n_features_in_", None)
    if d is None:
        features = None  # it takes texts, or whatever else is no table
    elif features is None or len(features.names) != d:
        features = Features.new(getattr(step, "feature_names_in_", [f"x{j}" for j in range(d)]))
    if isinstance(step, ColumnTransformer) and features is not None:
        return _columns_apart(step, features)
    names = _names_out(step, features)
    if names is None:
        return None
    if features is None:
        return Features.new(names)
    for kind, widths in ((OneHotEncoder, _one_hot_widths), (KBinsDiscretizer, _bin_widths)):
        if isinstance(step, kind):
            return _fields_of_widths(step, names, features, widths(step))
    if hasattr(step, "get_fields_out"):
        return _fields_by_label(step, names, features)
    if isinstance(step, TableEncoder):
        return _fields_by_name(step, names, features)
    return _by_name(names, features)


def _names_out(step: Any, features: Features | None) -> np.ndarray | None:
    if not hasattr(step, "get_feature_names_out"):
        return None
    given = None if features is None or hasattr(step, "feature_names_in_") else features.names
    for names in (given, None):
        try:
            return np.asarray(step.get_feature_names_out(names), dtype=object)
        except (TypeError, ValueError, AttributeError, NotImplementedError):
            continue  # it takes no names, or a part of it has none to give
    return None


def _by_name(names: np.ndarray, features: Features) -> Features:
    """Features that keep their name are what they were."""
    if list(names) == list(features.names):
        return features
    before: dict[Any, int] = {}
    for j, name in enumerate(features.names):
        before[name] = -1 if name in before else j
    positions = np.array([before.get(name, -1) for name in names], dtype=int)
    new, known = Features.new(names), positions >= 0
    new.sources[known], new.fields[known] = features.sources[positions[known]], features.fields[positions[known]]
    return new


# -- encoders ---------------------------------------------------------------------------------------------------------


def _fields_of_widths(step: Any, names: np.ndarray, features: Features, widths: list[int]) -> Features:
    """Column j becomes widths[j] features, a field."""
    if sum(widths) != len(names):
        return Features.new(names)
    column = np.repeat(np.arange(len(widths)), widths)
    return _fields_of_columns(step, names, features, column, column.tolist())


def _one_hot_widths(step: Any) -> list[int]:
    infrequent = getattr(step, "infrequent_categories_", None) or [None] * len(step.categories_)
    dropped = [None] * len(step.categories_) if step.drop_idx_ is None else step.drop_idx_
    return [
        len(values) - (len(rare) - 1 if rare is not None and len(rare) else 0) - (drop is not None)
        for values, rare, drop in zip(step.categories_, infrequent, dropped, strict=True)
    ]


def _bin_widths(step: Any) -> list[int]:
    return [1] * len(step.n_bins_) if step.encode == "ordinal" else [int(n) for n in step.n_bins_]


def _fields_by_label(step: Any, names: np.ndarray, features: Features) -> Features:
    """Encoders that say the field of each feature by `get_fields_out`: a column, or ``column.part``."""
    labels = list(step.get_fields_out(None if hasattr(step, "feature_names_in_") else features.names))
    columns, place = features.names.tolist(), {}
    for label in dict.fromkeys(labels):
        exact = _only([label], columns)
        place[label] = exact if exact >= 0 else _only([c for c in columns if str(label).startswith(f"{c}.")], columns)
    return _fields_of_columns(step, names, features, np.array([place[label] for label in labels]), labels)


def _fields_by_name(step: Any, names: np.ndarray, features: Features) -> Features:
    """Encoders that call a feature ``column``, ``column=value`` or ``column is missing``."""
    columns = features.names.tolist()
    column = np.array([_only([c for c in columns if name in (c, f"{c} is missing")], columns) for name in names])
    for i in np.flatnonzero(column < 0):
        column[i] = _only([c for c in columns if str(names[i]).startswith(f"{c}=")], columns)
    return _fields_of_columns(step, names, features, column, column.tolist())


def _only(fitting: list, columns: list) -> int:
    """The place of the one column that fits, or -1."""
    return columns.index(fitting[0]) if len(fitting) == 1 and columns.count(fitting[0]) == 1 else -1


def _fields_of_columns(step: Any, names: np.ndarray, features: Features, column: np.ndarray, labels: list) -> Features:
    """Features of known columns, or of none (-1), whose fields have labels."""
    new, known = Features.new(names), column >= 0
    new.sources[known] = features.sources[column[known]]
    for i in np.flatnonzero(known):
        new.fields[i] = (id(step), labels[i])
    return new


# -- steps side by side -----------------------------------------------------------------------------------------------


def _columns_apart(step: Any, features: Features) -> Features | None:
    parts: dict[int, Features] = {}
    for name, part, columns in step.transformers_:
        at = step.output_indices_.get(name, slice(0, 0))
        width = at.stop - at.start
        if width == 0:
            continue
        out = trace(part, features.take(_positions(columns, features.names)))
        if out is None or len(out.names) != width:
            out = Features.new([str(i) for i in range(width)])
        parts[at.start] = out._replace(names=np.array([f"{name}__{own}" for own in out.names], dtype=object))
    new = Features.new([])
    for start in sorted(parts):
        new = new.followed_by(parts[start])
    names = _names_out(step, features)
    return new if names is None or len(names) != len(new.names) else new._replace(names=names)


def _positions(columns: Any, names: np.ndarray) -> np.ndarray:
    """Columns as ColumnTransformer takes them, as positions."""
    place: dict[Any, Any] = {name: j for j, name in enumerate(names)}
    if isinstance(columns, slice):
        start, stop = place.get(columns.start, columns.start), columns.stop
        if isinstance(stop, str):
            stop = place[stop] + 1  # a slice of names has its last one, too
        return np.arange(len(names))[start : stop : columns.step]
    columns = [columns] if isinstance(columns, str) or np.ndim(columns) == 0 else list(columns)
    if columns and all(isinstance(column, bool | np.bool_) for column in columns):
        return np.flatnonzero(columns)
    return np.arange(len(names))[[place.get(c, -1) if isinstance(c, str) else int(c) for c in columns]]


def _side_by_side(step: Any, features: Features | None) -> Features | None:
    new = Features.new([])
    for _, part in step.transformer_list:
        out = Features.new([]) if isinstance(part, str) and part == "drop" else trace(part, features)
        if out is None:
            return None
        new = new.followed_by(out)
    names = _names_out(step, features)
    return new if names is None or len(names) != len(new.names) else new._replace(names=names)
