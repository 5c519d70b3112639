"""What of a DataFrame a fit reads: the features, the label and the weight, under names that workers know."""

import math
from typing import Any, NamedTuple

from pyspark.ml.linalg import VectorUDT
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, BooleanType, DataType, DecimalType, NumericType, StringType

from polyfm.spark.parts import FEATURES, LABEL, WEIGHT


class Features(NamedTuple):
    columns: list[Column]  # as Arrow can hand them over
    plain: tuple[str, ...] | None  # names, where these are plain columns


def type_of(frame: DataFrame, name: str, parameter: str) -> DataType:
    if name not in frame.columns:
        shown = ", ".join(map(repr, frame.columns[:20])) + ", ..." * (len(frame.columns) > 20)
        raise ValueError(f"{parameter}={name!r} is no column of the DataFrame, which has {shown}.")
    return frame.schema[name].dataType


def quoted(name: str) -> Column:
    return sql.col("`" + name.replace("`", "``") + "`")


def features(frame: DataFrame, given: str | list[str]) -> Features:
    if not isinstance(given, str):
        if len(set(given)) < len(given):
            raise ValueError(f"featuresCol={given!r} names a column twice.")
        types = [type_of(frame, name, "featuresCol") for name in given]
        columns = [
            quoted(name).cast("double") if isinstance(kind, DecimalType) else quoted(name)
            for name, kind in zip(given, types, strict=True)
        ]
        return Features(columns, tuple(given))
    kind = type_of(frame, given, "featuresCol")
    if isinstance(kind, VectorUDT):
        return Features([sql.unwrap_udt(quoted(given))], None)
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType):
        return Features([quoted(given)], None)
    raise ValueError(
        f"featuresCol={given!r} is of type {kind.simpleString()}, where vectors or arrays of numbers are needed. For "
        f"plain columns pass a list of their names: featuresCol=[{given!r}]."
    )


def rows_to_train_on(frame: DataFrame, found: Features, label: str, weight: str | None, classify: bool) -> DataFrame:
    kind = type_of(frame, label, "labelCol")
    if isinstance(kind, StringType) and classify:
        y = quoted(label)
    elif isinstance(kind, (NumericType, BooleanType)):
        y = quoted(label).cast("double")
    else:
        raise ValueError(
            f"labelCol={label!r} is of type {kind.simpleString()}, where numbers{' or texts' * classify} are needed."
        )
    columns = [column.alias(f"{FEATURES}{j}") for j, column in enumerate(found.columns)]
    if found.plain is None:
        columns = [found.columns[0].alias(FEATURES)]
    columns.append(y.alias(LABEL))
    if weight:
        if not isinstance(type_of(frame, weight, "weightCol"), NumericType):
            raise ValueError(f"weightCol={weight!r} is no column of numbers.")
        columns.append(quoted(weight).cast("double").alias(WEIGHT))
    return frame.select(*columns)


def feature_names(frame: DataFrame, given: str | list[str]) -> list[str] | None:
    """The names that Spark's own transformers have noted, if they are there for all features and differ."""
    if not isinstance(given, str):
        return None
    noted: Any = (frame.schema[given].metadata or {}).get("ml_attr", {})
    found = {a["idx"]: a.get("name") for attributes in noted.get("attrs", {}).values() for a in attributes}
    size = noted.get("num_attrs", len(found) or math.nan)
    names = [found.get(j) for j in range(len(found))]
    if len(names) != size or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        return None
    return [str(name) for name in names]
