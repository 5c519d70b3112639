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
    d = getattr(step, "n_features_in_", None)
    if d is not None and (features is None or len(features.names) != d):
        features = Features.new(getattr(step, "feature_names_in_", [f"x{j}" for j in range(d)]))
    if isinstance(step, ColumnTransformer) and features is not None:
        return _columns_apart(step, features)
    if isinstance(step, FeatureUnion):
        return _side_by_side(step, features)
    names = _names_out(step, features)
    if names is None:
        return None
    if features is None:
        return Features.new(names)
    for kind, widths in ((OneHotEncoder, _one_hot_widths), (KBinsDiscretizer, _bin_widths)):
        if isinstance(step, kind):
            return _fields_of_widths(step, names, features, widths(step))
    if isinstance(step, TableEncoder):
        return _fields_of_table(step, names, features)
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
    new = Features.new(names)
    if sum(widths) != len(names):
        return new
    column = np.repeat(np.arange(len(widths)), widths)
    new.sources[:] = features.sources[column]
    new.fields[:] = [(id(step), j) for j in column.tolist()]
    return new


def _one_hot_widths(step: Any) -> list[int]:
    infrequent = getattr(step, "infrequent_categories_", None) or [None] * len(step.categories_)
    dropped = [None] * len(step.categories_) if step.drop_idx_ is None else step.drop_idx_
    return [
        len(values) - (len(rare) - 1 if rare is not None and len(rare) else 0) - (drop is not None)
        for values, rare, drop in zip(step.categories_, infrequent, dropped, strict=True)
    ]


def _bin_widths(step: Any) -> list[int]:
    return [1] * len(step.n_bins_) if step.encode == "ordinal" else [int(n) for n in step.n_bins_]


def _fields_of_table(step: Any, names: np.ndarray, features: Features) -> Features:
    """The features of a column that is no number are ``column=value`` or ``column is missing``."""
    new = Features.new(names)
    column = _columns_in_order(step)
    if len(column) != len(names):
        column = _columns_by_name(names.tolist(), features.names.tolist())
    known = column >= 0
    new.sources[known] = features.sources[column[known]]
    new.fields[known] = _as_objects([(id(step), j) for j in column[known].tolist()])
    return new


def _columns_in_order(step: Any) -> np.ndarray:
    texts, numbers = np.flatnonzero(step.categorical_), np.flatnonzero(~step.categorical_)
    if len(texts) != len(step.categories_) or len(step.flagged_) != len(numbers):
        return np.empty(0, dtype=int)
    return np.concatenate(
        [np.repeat(texts, [len(values) for values in step.categories_]), numbers, numbers[step.flagged_]]
    )


def _columns_by_name(names: list, columns: list) -> np.ndarray:
    """The column of each feature, -1 where two would do."""
    found = np.full(len(names), -1)
    for i, name in enumerate(names):
        fitting = [j for j, column in enumerate(columns) if name in (column, f"{column} is missing")]
        fitting = fitting or [j for j, column in enumerate(columns) if str(name).startswith(f"{column}=")]
        if len(fitting) == 1:
            found[i] = fitting[0]
    return found


def _as_objects(values: list) -> np.ndarray:
    """An array of tuples, which NumPy would take for rows."""
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


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
