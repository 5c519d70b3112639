"""Columns of tables, and single values: as text, as numbers, and as moments in time.

A value alone becomes what it becomes within its column, so that a row does not depend on the rows around it.
"""

import datetime
from numbers import Integral, Real
from typing import Any

import numpy as np

from polyfm.files.tables import required

CATEGORY, NUMBER, DATE = "category", "number", "date"
DAY = 86_400_000_000  # microseconds
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
PARTS: dict[str, tuple[str, ...]] = {  # of a date: the texts of what it can be
    "month": tuple(map(str, range(1, 13))),
    "weekday": WEEKDAYS,
    "hour": tuple(map(str, range(24))),
}
OFFSET = r"(:\d\d(?:\.\d+)?) ?(?:Z|[+-]\d\d:?\d\d)$"  # from UTC, behind the time


def pandas_for_tables() -> Any:
    return required("pandas", "table", "TableEncoder")


def kind_of(column, is_field: bool, is_date: bool) -> str:
    """What a column is taken for."""
    types, dtype = pandas_for_tables().api.types, column.dtype
    if is_field:
        return CATEGORY
    if is_date or types.is_datetime64_any_dtype(dtype):
        return DATE
    if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
        return NUMBER
    if dtype.kind == "O" and types.infer_dtype(column, skipna=True) in ("date", "datetime", "datetime64"):
        return DATE
    if dtype.kind == "O" or types.is_string_dtype(dtype):
        return CATEGORY
    raise ValueError(
        f"Column {column.name!r} is of type {dtype}, which is neither text nor numbers nor dates. Convert or drop it."
    )


# -- text -------------------------------------------------------------------------------------------------------------


def texts(column) -> tuple[np.ndarray, list[str]]:
    """A column as codes and the texts that they stand for; -1 is a missing value."""
    pandas = pandas_for_tables()
    try:
        if column.dtype == object and pandas.api.types.infer_dtype(column, skipna=True) != "string":
            column = column.map(text, na_action="ignore").astype(object)  # 1 and True are one for pandas, but not here
        codes, values = pandas.factorize(column)
        return codes, [text(value) for value in values]
    except TypeError as problem:
        raise _not_text(column.name, problem) from problem


def text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise TypeError(f"found {type(value).__name__}")


def one_text(name: Any, value: Any) -> str | None:
    """The same of one value."""
    try:
        return None if is_missing(value) else text(value)
    except TypeError as problem:
        raise _not_text(name, problem) from problem


def _not_text(name: Any, problem: Exception) -> TypeError:
    return TypeError(f"Column {name!r} holds values that are neither text nor numbers ({problem}). Convert or drop it.")


def is_missing(value: Any) -> bool:
    if value is None or isinstance(value, (str, float)):
        return value is None or (isinstance(value, float) and value != value)
    if value is pandas_for_tables().NA:
        return True
    different = value != value
    return different is True or (isinstance(different, np.bool_) and bool(different))


# -- numbers ----------------------------------------------------------------------------------------------------------


def numbers(column) -> np.ndarray:
    """A column as float64, NaN where it is missing."""
    pandas = pandas_for_tables()
    try:
        if column.dtype.kind in "mM":
            raise TypeError(f"{column.dtype}")  # pandas would count nanoseconds
        found = pandas.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError, OverflowError) as problem:
        raise ValueError(
            f"Column {column.name!r} was numbers in `fit`, but now holds something else ({problem}). Correct it, or "
            "name the column in `fields` when fitting."
        ) from problem
    if np.any(np.isinf(found)):
        raise ValueError(f"Column {column.name!r} holds infinity. Replace it by a number or leave it missing.")
    return found


def one_number(name: Any, value: Any) -> float:
    """The same of one value. What is neither a plain number nor missing is left to pandas, as within a column."""
    if value is None:
        return np.nan
    if isinstance(value, (float, int, np.integer, np.floating, np.bool_)):
        try:
            number = float(value)
        except OverflowError:
            value = number = np.inf
        if number - number == 0 or number != number:  # finite, or missing
            return number
    return float(numbers(_column(name, value))[0])


# -- dates ------------------------------------------------------------------------------------------------------------


def moments(column, layout: str | None) -> np.ndarray:
    """A column as microseconds since 1970 by the clock that it was written by (an offset from UTC is left out), NaT
    where it is missing. Text is read by its `layout`, in the signs of `strptime`; without one, as ISO 8601."""
    pandas = pandas_for_tables()
    types = pandas.api.types
    try:
        if types.is_numeric_dtype(column.dtype):
            if not column.isna().all():
                raise TypeError("numbers")
            return np.full(len(column), np.datetime64("NaT", "us"))
        if not types.is_datetime64_any_dtype(column.dtype):
            column = _parsed(column.astype(object), layout)
        if column.dt.tz is not None:
            column = column.dt.tz_localize(None)
    except (TypeError, ValueError, OverflowError) as problem:
        said = str(problem).split(". You might want")[0]
        how = "as 2026-11-18 13:05:00" if layout is None else f"as {layout!r}"
        raise ValueError(
            f"Column {column.name!r} holds something that is no date, written {how} ({said}). Correct or drop it."
        ) from problem
    return column.to_numpy(dtype="datetime64[us]")


def _parsed(column, layout: str | None):
    pandas = pandas_for_tables()
    words = column.map(lambda value: isinstance(value, str))
    if words.any():
        if not (words | column.isna()).all():
            column = column.map(
                lambda value: value if isinstance(value, str) else value.isoformat(), na_action="ignore"
            )
        return pandas.to_datetime(column.str.strip().str.replace(OFFSET, r"\1", regex=True), format=layout or "ISO8601")
    return pandas.to_datetime(column.map(lambda value: pandas.Timestamp(value).tz_localize(None), na_action="ignore"))


def one_moment(name: Any, value: Any, layout: str | None) -> np.ndarray:
    return moments(_column(name, value), layout)


def days(when: np.ndarray) -> np.ndarray:
    """Moments as days since 1970, NaN where they are missing."""
    return np.where(np.isnat(when), np.nan, when.astype(np.int64) / DAY)


def part(when: np.ndarray, name: str) -> np.ndarray:
    """A part of each moment, as a position in `PARTS`, or -1 where it is missing."""
    if name == "month":
        found = when.astype("datetime64[M]").astype(np.int64) % 12
    elif name == "weekday":
        found = (when.astype("datetime64[D]").astype(np.int64) + 3) % 7  # 1970 began with a Thursday
    else:
        found = when.astype(np.int64) // (DAY // 24) % 24
    return np.where(np.isnat(when), -1, found)


def _column(name: Any, value: Any) -> Any:
    return pandas_for_tables().Series([value], name=name)


# -- tables of other libraries ----------------------------------------------------------------------------------------


def as_pandas(table: Any) -> Any:
    """A table of polars or pyarrow, or a list of rows as mappings, as a DataFrame; anything else as it is."""
    pandas = pandas_for_tables()
    if isinstance(table, pandas.DataFrame):
        return table
    if is_polars(table):
        if not hasattr(table, "height"):
            raise TypeError("A polars LazyFrame has no rows yet: collect() it first.")
        return pandas.DataFrame({column.name: _from_polars(column) for column in table.get_columns()})
    return table.to_pandas() if hasattr(table, "to_pandas") else table


def is_polars(table: Any) -> bool:
    return type(table).__module__.partition(".")[0] == "polars"


def _from_polars(column: Any) -> Any:
    """A column of polars, without the detour over pyarrow that its own way takes."""
    pandas = pandas_for_tables()
    kind = type(column.dtype).__name__
    if kind in ("String", "Categorical", "Enum"):
        return pandas.Series(column.to_list(), dtype=object)
    if kind == "Decimal":
        return pandas.Series([None if value is None else float(value) for value in column.to_list()], dtype=float)
    if kind == "Datetime" and column.dtype.time_zone is not None:
        column = column.dt.replace_time_zone(None)
    if column.null_count() and kind == "Boolean":
        return pandas.array(column.to_list(), dtype="boolean")
    if column.null_count() and kind.startswith(("Int", "UInt")):
        return pandas.array(column.to_list(), dtype="UInt64" if kind == "UInt64" else "Int64")
    return column.to_numpy()
