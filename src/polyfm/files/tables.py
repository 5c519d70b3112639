"""Readers of tables: CSV and TSV by pandas, Parquet by pyarrow; whole or in chunks of rows."""

import math
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from numbers import Integral
from typing import Any, NamedTuple

from polyfm.files.atomic import DataFileError, Path, reading, reading_data, shown

FIRST_ROWS = 100_000  # rows that decide which columns are numbers when a file is read in chunks
COMPRESSED = (".gz", ".bz2", ".xz")
TABBED = (".tsv", ".tab")
PARQUET = b"PAR1"


def required(module: str, extra: str, purpose: str) -> Any:
    """An optional dependency, or an error that says how to get it."""
    try:
        return import_module(module)
    except ImportError as problem:
        raise ImportError(f"{purpose} needs {module}: pip install 'polyfm[{extra}]'") from problem


class Dialect(NamedTuple):
    """How a text file is written, and what is done about columns that share a name."""

    separator: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    duplicates: str = "error"

    def check(self) -> None:
        for name, value in (("separator", self.separator), ("decimal", self.decimal)):
            if value is not None and (not isinstance(value, str) or len(value) != 1):
                raise ValueError(f"{name} must be one character, got {value!r}.")
        try:
            "".encode(self.encoding)
        except (LookupError, TypeError, ValueError) as problem:
            raise ValueError(
                f"encoding must be one that Python knows, such as 'utf-8' or 'cp1252', got {self.encoding!r}."
            ) from problem
        if self.duplicates not in ("error", "rename"):
            raise ValueError(f"duplicates must be 'error' or 'rename', got {self.duplicates!r}.")


def read_table(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    text: Sequence[str] = (),
    separator: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8",
    duplicates: str = "error",
) -> Any:
    """Read a whole table from a CSV, TSV or Parquet file; text may be compressed by gzip, bzip2 or xz.

    Parameters
    ----------
    path : str or path-like
        Text has its column names in the first line.
    columns : list of str, default=None
        The columns to read; by default all.
    text : list of str, default=()
        Columns of a text file to keep as text even where they look like numbers, such as "007".
    separator : str, default=None
        Between columns of a text file. By default a tab where the name ends in .tsv or .tab, and else a comma.
    decimal : str, default="."
        The sign before the decimals of numbers in a text file.
    encoding : str, default="utf-8"
        Of a text file.
    duplicates : {"error", "rename"}, default="error"
        What to do about columns that share a name: refuse the file, or call them a, a.1, a.2 and so on, with a warning.

    Returns
    -------
    table : pandas.DataFrame

    Raises
    ------
    DataFileError
        If there is no such file or it is malformed.
    ImportError
        If pandas (or pyarrow, for Parquet) is not installed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from polyfm.datafiles import read_table
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory) / "ratings.csv"
    ...     _ = path.write_text("user,item,rating\\n007,12,3.5\\n008,,4\\n")
    ...     read_table(path, text=["user"])
      user  item  rating
    0  007  12.0     3.5
    1  008   NaN     4.0
    """
    dialect = Dialect(separator, decimal, encoding, duplicates)
    dialect.check()
    pandas = required("pandas", "table", "Reading tables")
    if is_parquet(path):
        return pandas.concat(_parquet_batches(path, columns, FIRST_ROWS, dialect), ignore_index=True)
    return next(_text_chunks(path, columns, dict.fromkeys(text, str), dialect, None))


def iter_table(
    path: Path,
    *,
    chunk_rows: int = 100_000,
    columns: Sequence[str] | None = None,
    text: Sequence[str] = (),
    separator: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8",
    duplicates: str = "error",
) -> Iterator[Any]:
    """Read a table some rows at a time, in bounded memory.

    The first 100,000 rows of a text file decide which columns are numbers and which are text; a column of numbers that
    holds text further down is an error, which says to name it in `text`.

    Parameters
    ----------
    path : str or path-like
        The file.
    chunk_rows : int, default=100_000
        Rows a chunk; the last one may have fewer.
    columns, text, separator, decimal, encoding, duplicates
        As in `read_table`.

    Yields
    ------
    table : pandas.DataFrame

    Raises
    ------
    DataFileError, ImportError
        As `read_table` does.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from polyfm.datafiles import iter_table
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory) / "ratings.tsv"
    ...     _ = path.write_text("user\\trating\\nada\\t3\\nbob\\t5\\neve\\t4\\n")
    ...     [len(table) for table in iter_table(path, chunk_rows=2)]
    [2, 1]
    """
    if not isinstance(chunk_rows, Integral) or chunk_rows < 1:
        raise ValueError(f"chunk_rows must be an integer >= 1, got {chunk_rows!r}.")
    dialect = Dialect(separator, decimal, encoding, duplicates)
    dialect.check()
    pandas = required("pandas", "table", "Reading tables")
    if is_parquet(path):
        return _parquet_batches(path, columns, int(chunk_rows), dialect)
    types: dict[str, Any] = dict.fromkeys(text, str)
    for name, dtype in next(_text_chunks(path, columns, types, dialect, FIRST_ROWS)).dtypes.items():
        if pandas.api.types.is_bool_dtype(dtype):
            types[name] = "boolean"  # may have gaps further down
        elif not pandas.api.types.is_numeric_dtype(dtype):
            types[name] = str
    return _checked_chunks(path, _text_chunks(path, columns, types, dialect, int(chunk_rows)), types)


def column_names(path: Path, dialect: Dialect) -> list[str]:
    """The names of the columns as they stand in the file; "" where there is none."""
    dialect.check()
    pandas = required("pandas", "table", "Reading tables")
    if is_parquet(path):
        parquet = required("pyarrow.parquet", "parquet", "Reading Parquet files")
        with reading(path, DataFileError, regular=True) as file, _parquet_problems(path):
            return list(parquet.read_schema(file).names)
    with _text_problems(path, dialect):
        return _first_line(pandas, path, dialect)


def _checked_chunks(path: Path, chunks: Iterator[Any], types: dict[str, Any]) -> Iterator[Any]:
    """Chunks whose numbers have stayed numbers."""
    pandas = required("pandas", "table", "Reading tables")
    for chunk in chunks:
        for name in chunk.columns:
            if name not in types and not pandas.api.types.is_numeric_dtype(chunk[name].dtype):
                wrong = chunk[name][chunk[name].notna() & ~chunk[name].map(_is_number)]
                what = f", for instance {shown(str(wrong.iloc[0]))} in row {wrong.index[0] + 1}" if len(wrong) else ""
                raise DataFileError(
                    f"{path}: column {name!r} was numbers in the first {FIRST_ROWS} rows, but holds text later{what}. "
                    f"Correct it, or have it read as text: text=[{name!r}], or --text {name} for a command."
                )
        yield chunk


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (ValueError, TypeError, OverflowError):
        return False


def _separator(path: Path, separator: str | None) -> str:
    if separator is not None:
        return separator
    name = os.fsdecode(os.fspath(path)).lower()
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    return "\t" if name.endswith(TABBED) else ","


def _options(path: Path, dialect: Dialect) -> dict[str, Any]:
    return {
        "sep": _separator(path, dialect.separator), "decimal": dialect.decimal, "encoding": dialect.encoding,
        "low_memory": False,
    }  # fmt: skip


def _first_line(pandas: Any, path: Path, dialect: Dialect) -> list[str]:
    """The names; if there were more columns than names, pandas would later take the first for an index."""
    with reading_data(path) as file:
        options = {"header": None, "nrows": 2, "dtype": str, "keep_default_na": False}
        return list(pandas.read_csv(file, **options, **_options(path, dialect)).iloc[0])


def _text_chunks(path: Path, columns, types: dict[str, Any], dialect: Dialect, chunk_rows: int | None) -> Iterator[Any]:
    """The table in chunks, or in one."""
    pandas = required("pandas", "table", "Reading tables")
    options = _options(path, dialect)
    with _text_problems(path, dialect):
        raw = _first_line(pandas, path, dialect)
        _check_unique(path, raw, dialect)
        with reading_data(path) as file:
            names = list(pandas.read_csv(file, nrows=0, **options).columns)
        _check_columns(path, names, [*(columns or ()), *(name for name in types)])
        with reading_data(path) as file:
            wanted = {"usecols": None if columns is None else list(columns), "dtype": types}
            if chunk_rows is None:
                chunks = iter([pandas.read_csv(file, **wanted, **options)])
            else:
                chunks = pandas.read_csv(file, chunksize=chunk_rows, **wanted, **options)
            n_rows = 0
            for chunk in chunks:
                n_rows += len(chunk)
                if len(chunk):
                    yield chunk
            if n_rows == 0:
                raise DataFileError(f"{path}: has no rows below its column names. Is the file complete?")


@contextmanager
def _text_problems(path: Path, dialect: Dialect) -> Iterator[None]:
    """What pandas says, as a `DataFileError`."""
    try:
        yield
    except DataFileError:
        raise
    except UnicodeError as problem:
        where = _first_undecodable(path, dialect.encoding)
        name = "UTF-8" if dialect.encoding.lower() in ("utf-8", "utf8") else dialect.encoding
        raise DataFileError(
            f"{path}{where} is not {name} ({getattr(problem, 'reason', problem)}). Save the table as UTF-8, or say how "
            "it is encoded: encoding='cp1252', or --encoding cp1252 for a command."
        ) from problem
    except (ValueError, OverflowError) as problem:
        said = str(problem).strip().removeprefix("Error tokenizing data. C error: ")
        raise DataFileError(
            f"{path}: is not a table of one line a row, with column names in the first ({said}). Correct it; is "
            f"{_separator(path, dialect.separator)!r} the right separator (separator=';', or --sep ';' for a command)?"
        ) from problem


def _first_undecodable(path: Path, encoding: str) -> str:
    with reading_data(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode(encoding)
            except UnicodeError:
                return f", line {number}: {shown(line)}"
    return ":"


def _check_unique(path: Path, names: list[str], dialect: Dialect) -> None:
    """Of columns that share a name, all but the first are renamed."""
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if not twice:
        return
    if dialect.duplicates == "error":
        raise DataFileError(f"{path}: has several columns named {shown(twice[0])}. Rename them.")
    warnings.warn(
        f"{path}: has several columns named {', '.join(map(shown, twice))}; from the second on, they are called "
        f"{shown(twice[0] + '.1')} and so on, in their order.",
        stacklevel=4,
    )


def renamed(names: list[str]) -> list[str]:
    """Names that differ: a, a.1, a.2 where a comes three times."""
    taken, counts, found = set(names), Counter(), []  # type: ignore[var-annotated]
    for name in names:
        new = name
        while counts[name] and new in taken:
            new = f"{name}.{counts[name]}"
            counts[name] += new in taken
        counts[name] += 1
        taken.add(new)
        found.append(new)
    return found


def _check_columns(path: Path, names: list[str], wanted: list[str]) -> None:
    if missing := [name for name in wanted if name not in names]:
        there = ", ".join(map(repr, names[:20])) + (" ..." if len(names) > 20 else "")
        raise DataFileError(f"{path}: has no column {', '.join(map(repr, missing))}. Its columns are {there}.")


# -- Parquet ----------------------------------------------------------------------------------------------------------


def is_parquet(path: Path) -> bool:
    """Whether the file's first bytes say so."""
    with reading(path, DataFileError, regular=True) as file:
        return file.read(len(PARQUET)) == PARQUET


def _parquet_batches(path: Path, columns, chunk_rows: int, dialect: Dialect) -> Iterator[Any]:
    parquet = required("pyarrow.parquet", "parquet", "Reading Parquet files")
    with reading(path, DataFileError, regular=True) as file, _parquet_problems(path):
        table = parquet.ParquetFile(file, page_checksum_verification=True)
        names = table.schema_arrow.names
        _check_unique(path, names, dialect)
        new = renamed(names)
        _check_columns(path, new, list(columns or ()))
        chosen = None if columns is None or new != names else list(columns)
        n_rows = 0
        for batch in table.iter_batches(batch_size=chunk_rows, columns=chosen):
            n_rows += len(batch)
            if len(batch):
                frame = batch.to_pandas()
                if new != names:
                    frame = frame.set_axis(new, axis=1)
                yield frame if columns is None else frame[list(columns)]
        if n_rows == 0:
            raise DataFileError(f"{path}: has no rows. Is the file complete?")


@contextmanager
def _parquet_problems(path: Path) -> Iterator[None]:
    try:
        yield
    except (DataFileError, GeneratorExit):
        raise
    except Exception as problem:  # damaged files raise many kinds
        raise DataFileError(
            f"{path}: the Parquet data are damaged or cut short ({problem}). Copy or write the file again."
        ) from problem
