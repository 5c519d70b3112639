"""Parameters in Spark's way: what Spark has names for in its spelling, all else as the estimators spell it."""

import inspect
import re
from typing import Any

import numpy as np
from pyspark.ml.param import Param, Params
from pyspark.ml.param.shared import (
    HasLabelCol,
    HasMaxIter,
    HasPredictionCol,
    HasProbabilityCol,
    HasRawPredictionCol,
    HasSeed,
    HasTol,
    HasWeightCol,
)

SPELLED = {"max_iter": "maxIter", "tol": "tol", "random_state": "seed"}
# What needs the rows in one place, or is Spark's business.
LEFT_OUT = ("batch_size", "shares", "gap_tol", "max_components", "warm_start", "n_jobs")
OF_TABLES = {
    "fields": "names of columns of numbers that are categories, such as ids; for a list of columns",
    "dates": "names of columns of text that are dates; for a list of columns",
    "min_frequency": "how often a value has to occur to have a feature of its own; for a list of columns",
    "n_buckets": "features that the values of a column are hashed into where there are more; for a list of columns",
}
PAIRS = "pairs"  # a dict in JSON, whose keys may be numbers


def as_stored(value: Any) -> Any:
    """A value of a parameter as JSON can hold it."""
    return {PAIRS: [list(pair) for pair in value.items()]} if isinstance(value, dict) else value


def as_given(value: Any) -> Any:
    """A value of a parameter in plain types of Python."""
    if isinstance(value, dict):
        pairs = value[PAIRS] if list(value) == [PAIRS] else value.items()
        return {as_given(key): as_given(item) for key, item in pairs}
    if isinstance(value, (list, tuple)):
        return [as_given(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return value


def columns_or_name(value: Any) -> str | list[str]:
    if isinstance(value, str):
        return value
    names = list(value) if isinstance(value, (list, tuple)) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError(f"featuresCol is the name of a column, or a list of such names; got {value!r}")
    return names


class Columns(HasLabelCol, HasPredictionCol, HasWeightCol, HasMaxIter, HasTol, HasSeed):
    """The parameters that estimators and their models share."""

    featuresCol: Param = Param(  # noqa: N815
        Params._dummy(),
        "featuresCol",
        "a column of vectors or arrays, or a list of plain columns.",
        typeConverter=columns_or_name,  # type: ignore[arg-type]
    )
    _plain: type  # the ordinary estimator

    def __init__(self) -> None:
        super().__init__()
        own = inspect.signature(self._plain).parameters
        self._setDefault(**{SPELLED.get(n, n): as_given(p.default) for n, p in own.items() if n not in LEFT_OUT})
        self._setDefault(featuresCol="features", seed=0, **dict.fromkeys(OF_TABLES))

    def getFeaturesCol(self) -> str | list[str]:
        """The value of `featuresCol`, or its default."""
        return self.getOrDefault(self.featuresCol)

    def _ordinary_options(self) -> dict[str, Any]:
        """Parameters as the ordinary estimator takes them."""
        names = [name for name in inspect.signature(self._plain).parameters if name not in LEFT_OUT]
        found = {name: self.getOrDefault(SPELLED.get(name, name)) for name in names}
        return {**found, "random_state": int(found["random_state"]) % 2**32}

    def _table_options(self) -> dict[str, Any]:
        return {name: self.getOrDefault(name) for name in OF_TABLES}


class ClassColumns(Columns, HasProbabilityCol, HasRawPredictionCol):
    """Those of classifiers: an empty name leaves a column out."""


def with_params(plain: type) -> Any:
    """The parameters of an estimator as those of a class of Spark's: a class decorator."""

    def decorate(cls: type) -> type:
        cls._plain = plain  # type: ignore[attr-defined]
        said = _descriptions(plain) | OF_TABLES
        for name in (*inspect.signature(plain).parameters, *OF_TABLES):
            if name not in (*LEFT_OUT, *SPELLED):
                doc = said.get(name, "as in the ordinary estimator")
                setattr(cls, name, Param(Params._dummy(), name, doc, typeConverter=as_given))  # type: ignore[arg-type]
        return cls

    return decorate


def _descriptions(plain: type) -> dict[str, str]:
    """What the docstring says of each parameter, in one line."""
    section = (plain.__doc__ or "").partition("Parameters\n")[2].partition("Attributes\n")[0]
    found = re.findall(r"^    (\w+) : .*\n((?:        .*\n|\n)+)", section, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}
