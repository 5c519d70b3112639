"""What there is to read: a fitted model, alone or at the end of a pipeline, and what its features are to its user."""

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from polyfm.core.sparse import checked_sparse
from polyfm.estimators.base import PolynomialModel
from polyfm.reading.trace import Features, trace


class Subject(NamedTuple):
    model: PolynomialModel
    steps: Pipeline | None  # what comes before the model
    features: Features
    columns: list | None  # the names of the table's columns, which `features.sources` counts

    @classmethod
    def of(cls, estimator, feature_names=None) -> "Subject":
        model, steps = _apart(estimator)
        check_is_fitted(model)
        d = model.n_features_in_
        features = Features.of_table(getattr(model, "feature_names_in_", [f"x{j}" for j in range(d)]))
        columns: list | None = None
        if steps is not None:
            columns = _columns(steps)
            found = trace(steps, None if columns is None else Features.of_table(columns))
            if found is None or len(found.names) != d:
                features.sources[:] = -1
            else:
                features = found
        if feature_names is not None:
            features = features._replace(names=_checked_names(feature_names, d))
            if not hasattr(estimator, "feature_names_in_"):
                features.sources[:] = -1  # the columns have names that nobody knows
        return cls(model, steps, features, columns)

    @property
    def fields(self) -> np.ndarray | None:
        """The field of each feature by the encoders of the pipeline, or None where they make none."""
        fields = self.features.fields
        return None if all(field is None for field in fields) else fields

    def encoded(self, X, name: str = "X") -> Any:
        """Rows as the model takes them."""
        if self.steps is not None:
            X = self.steps.transform(X)
        X = checked_sparse(X, name)
        return validate_data(self.model, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])

    def row(self, x) -> "Row":
        if self.steps is None:
            return Row(*_nonzeros(self.model, x), None)
        x = self._as_rows(x)
        encoded = self.steps.transform(x)
        if encoded.shape[0] != 1:
            raise ValueError(
                f"x has {encoded.shape[0]} rows, but one was expected: explain one row at a time, for instance "
                "x=X[:1] or, of a frame, x=X.iloc[0]."
            )
        return Row(*_nonzeros(self.model, encoded), self._inputs(x))

    def _as_rows(self, x) -> Any:
        """One row as a table of one."""
        if isinstance(x, str) or (isinstance(x, dict) and self.columns is None):
            return [x]
        if isinstance(x, dict) or (hasattr(x, "to_frame") and self.columns is not None):
            import pandas

            return pandas.DataFrame([dict(x)])
        if self.columns is None or sp.issparse(x) or hasattr(x, "columns"):
            return x
        x = np.asarray(x) if isinstance(x, np.ndarray) else np.asarray(x, dtype=object)
        return x.reshape(1, -1) if x.ndim == 1 else x

    def _inputs(self, x) -> list[str] | None:
        """For each column of a table of one row what stands in it, such as ``age = 30``; None where features do not
        come from columns, as far as is known."""
        if self.columns is None or np.all(self.features.sources < 0):
            return None
        if hasattr(x, "columns"):
            values = [np.asarray(x[name])[0] for name in self.columns]
        else:
            values = (x.toarray() if sp.issparse(x) else np.asarray(x, dtype=object))[0].tolist()
        return [f"{name} = {_shown(value)}" for name, value in zip(self.columns, values, strict=True)]

    def inputs(self, row: "Row", positions: np.ndarray) -> str:
        """What stood in the columns that some features come from: ``sex = F, length = 0.5``."""
        sources = dict.fromkeys(self.features.sources[positions].tolist())
        return ", ".join(row.inputs[j] for j in sources if j >= 0) if row.inputs else ""


class Row(NamedTuple):
    """One row: the features of it that are not 0 and, of a pipeline on a table, what stood in its columns."""

    present: np.ndarray
    values: np.ndarray
    inputs: list[str] | None


def _apart(estimator) -> tuple[Any, Pipeline | None]:
    """The model at the end of an estimator, and the steps before it."""
    *steps, model = list(_flat(estimator)) or [estimator]
    if not isinstance(model, PolynomialModel):
        of = "" if model is estimator else f" that ends in {type(model).__name__}"
        raise TypeError(
            f"Only estimators of polyfm can be read, got {type(estimator).__name__}{of}. Pass a fitted "
            "FactorizationMachine* or PolynomialNetwork*, or a Pipeline that ends in one; of a search, its "
            "best_estimator_."
        )
    return model, Pipeline([(str(i), step) for i, step in enumerate(steps)]) if steps else None


def _columns(steps: Pipeline) -> list | None:
    """Names of the columns that go into a pipeline, or None where what goes in has none, such as texts."""
    first = next(_flat(steps), None)
    d = getattr(first, "n_features_in_", None)
    return None if d is None else list(getattr(first, "feature_names_in_", [f"x{j}" for j in range(d)]))


def _flat(step: Any) -> Iterator[Any]:
    """The steps of pipelines within pipelines that do anything."""
    if isinstance(step, Pipeline):
        for _, part in step.steps:
            yield from _flat(part)
    elif step is not None and not isinstance(step, str):
        yield step


def _checked_names(feature_names, d: int) -> np.ndarray:
    names = list(feature_names)
    if len(names) != d:
        raise ValueError(
            f"feature_names has {len(names)} names, but the model was fitted on {d} features: pass one name for each, "
            "in the order of the columns."
        )
    array = np.empty(d, dtype=object)
    array[:] = names
    return array


def _in_order(model, x) -> Any:
    """A row that has names, a dict or a Series, as a list in the order of the features."""
    names = getattr(model, "feature_names_in_", None)
    if sp.issparse(x) or not (isinstance(x, dict) or (hasattr(x, "index") and hasattr(x, "to_dict"))):
        return x
    if names is None:
        if isinstance(x, dict):
            raise ValueError("x is a dict, and the model knows its features by number alone: pass an array.")
        return x
    if hasattr(x, "columns"):
        return x  # a table of one row, whose names have been checked
    row = dict(x)
    lacking = [name for name in names if name not in row]
    if lacking and not isinstance(x, dict):
        return x  # a Series without these names, by position
    if lacking:
        raise ValueError(f"x lacks {lacking[0]!r}, a feature that the model was fitted on: pass a value for each.")
    return [row[name] for name in names]


def _nonzeros(model, x) -> tuple[np.ndarray, np.ndarray]:
    """Positions and values of the features of one row that are not 0."""
    d = model.n_features_in_
    if hasattr(x, "columns"):
        validate_data(model, x, reset=False, skip_check_array=True)  # names and their order
    x = checked_sparse(_in_order(model, x), "x")
    if np.iscomplexobj(x.data if sp.issparse(x) else x):
        raise ValueError("x holds complex numbers; features are real ones.")
    if sp.issparse(x):
        x = x.toarray()
    row = np.asarray(x, dtype=np.float64)
    if row.shape not in {(d,), (1, d)}:
        raise ValueError(
            f"x has shape {row.shape}, but one row of {d} features was expected, ({d},) or (1, {d}): explain one row "
            "at a time, for instance x=X[:1]."
        )
    row = row.reshape(d)
    if not np.all(np.isfinite(row)):
        raise ValueError(f"x has a value that is not a finite number, in feature {int(np.argmin(np.isfinite(row)))}.")
    present = np.flatnonzero(row)
    return present, row[present]


def _shown(value: Any) -> str:
    if value is None or str(value) in ("nan", "NaT", "<NA>"):
        return "missing"
    return f"{float(value):.6g}" if isinstance(value, Real) and not isinstance(value, Integral) else str(value)
