"""Readers of tables: CSV and TSV by pandas, Parquet by pyarrow; whole or in chunks of rows."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from numbers import Integral
from typing import Any

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


def read_table(
    path: Path, *, columns: Sequence[str] | None = None, text: Sequence[str] = (), separator: str | None = None
):
    """Read a whole table from a CSV, TSV or Parquet file; text may be compressed by gzip, bzip2 or xz.

    Parameters
    ----------
    path : str or path-like
        Text has its column names in the first line, and is UTF-8.
    columns : list of str, default=None
        The columns to read; by default all.
    text : list of str, default=()
        Columns of a text file to keep as text even where they look like numbers, such as "007".
    separator : str, default=None
        Between columns of a text file. By default a tab where the name ends in .tsv or .tab, and else a comma.

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
    pandas = required("pandas", "table", "Reading tables")
    if is_parquet(path):
        return pandas.concat(_parquet_batches(path, columns, FIRST_ROWS), ignore_index=True)
    return next(_text_chunks(path, columns, dict.fromkeys(text, str), separator, None))


def iter_table(
    path: Path,
    *,
    chunk_rows: int = 100_000,
    columns: Sequence[str] | None = None,
    text: Sequence[str] = (),
    separator: str | None = None,
) -> Iterator[Any]:
    """Read a table some rows at a time, in bounded memory.

    The first 100,000 rows of a text file decide which columns are numbers and which are text; a column of numbers that
    holds text further down is an error, which says to name it in `text`.

    Parameters
    ----------
    path : str or path-like
    chunk_rows : int, default=100_000
        Rows a chunk; the last one may have fewer.
    columns, text, separator
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
    pandas = required("pandas", "table", "Reading tables")
    if is_parquet(path):
        return _parquet_batches(path, columns, int(chunk_rows))
    types: dict[str, Any] = dict.fromkeys(text, str)
    for name, dtype in next(_text_chunks(path, columns, types, separator, FIRST_ROWS)).dtypes.items():
        if pandas.api.types.is_bool_dtype(dtype):
            types[name] = "boolean"  # may have gaps further down
        elif not pandas.api.types.is_numeric_dtype(dtype):
            types[name] = str
    return _checked_chunks(path, _text_chunks(path, columns, types, separator, int(chunk_rows)), types)


def _checked_chunks(path: Path, chunks: Iterator[Any], types: dict[str, Any]) -> Iterator[Any]:
    """Chunks whose numbers have stayed numbers."""
    pandas = required("pandas", "table", "Reading tables")
    for chunk in chunks:
        for name in chunk.columns:
            if name not in types and not pandas.api.types.is_numeric_dtype(chunk[name].dtype):
                numbers = pandas.to_numeric(chunk[name], errors="coerce")
                wrong = chunk[name][numbers.isna() & chunk[name].notna()]
                what = f", for instance {shown(str(wrong.iloc[0]))} in row {wrong.index[0] + 1}" if len(wrong) else ""
                raise DataFileError(
                    f"{path}: column {name!r} was numbers in the first {FIRST_ROWS} rows, but holds text later{what}. "
                    f"Correct it, or read it as text: text=[{name!r}]."
                )
        yield chunk


def _separator(path: Path, separator: str | None) -> str:
    if separator is not None:
        return separator
    name = os.fsdecode(os.fspath(path)).lower()
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    return "\t" if name.endswith(TABBED) else ","


def _text_chunks(
    path: Path, columns, types: dict[str, Any], separator: str | None, chunk_rows: int | None
) -> Iterator[Any]:
    """The table in chunks, or in one."""
    pandas = required("pandas", "table", "Reading tables")
    options = {"sep": _separator(path, separator), "low_memory": False, "encoding": "utf-8"}
    with _text_problems(path):
        with reading_data(path) as file:  # were there more columns than names, the first would become an index
            first = pandas.read_csv(file, header=None, nrows=2, dtype=str, keep_default_na=False, **options)
        _check_unique(path, list(first.iloc[0]))
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
def _text_problems(path: Path) -> Iterator[None]:
    """What pandas says, as a `DataFileError`."""
    try:
        yield
    except DataFileError:
        raise
    except UnicodeDecodeError as problem:
        where = _first_undecodable(path)
        raise DataFileError(f"{path}{where} is not UTF-8 ({problem.reason}). Save the table as UTF-8.") from problem
    except (ValueError, OverflowError) as problem:
        said = str(problem).strip().removeprefix("Error tokenizing data. C error: ")
        raise DataFileError(
            f"{path}: is not a table of one line a row, with column names in the first ({said}). Correct it; is the "
            "separator right?"
        ) from problem


def _first_undecodable(path: Path) -> str:
    with reading_data(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return f", line {number}: {shown(line)}"
    return ":"


def _check_unique(path: Path, names: list[str]) -> None:
    """Of columns that share a name, pandas would rename all but the first."""
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        raise DataFileError(f"{path}: has several columns named {shown(twice[0])}. Rename them.")


def _check_columns(path: Path, names: list[str], wanted: list[str]) -> None:
    if missing := [name for name in wanted if name not in names]:
        there = ", ".join(map(repr, names[:20])) + (" ..." if len(names) > 20 else "")
        raise DataFileError(f"{path}: has no column {', '.join(map(repr, missing))}. Its columns are {there}.")


# -- Parquet ----------------------------------------------------------------------------------------------------------


def is_parquet(path: Path) -> bool:
    """Whether the file's first bytes say so."""
    with reading(path, DataFileError, regular=True) as file:
        return file.read(len(PARQUET)) == PARQUET


def _parquet_batches(path: Path, columns, chunk_rows: int) -> Iterator[Any]:
    parquet = required("pyarrow.parquet", "parquet", "Reading Parquet files")
    with reading(path, DataFileError, regular=True) as file:
        try:
            table = parquet.ParquetFile(file, page_checksum_verification=True)
            _check_unique(path, table.schema_arrow.names)
            _check_columns(path, table.schema_arrow.names, list(columns or ()))
            n_rows = 0
            for batch in table.iter_batches(batch_size=chunk_rows, columns=None if columns is None else list(columns)):
                n_rows += len(batch)
                if len(batch):
                    yield batch.to_pandas()
        except DataFileError:
            raise
        except Exception as problem:  # damaged files raise many kinds
            raise DataFileError(
                f"{path}: the Parquet data are damaged or cut short ({problem}). Copy or write the file again."
            ) from problem
        if n_rows == 0:
            raise DataFileError(f"{path}: has no rows. Is the file complete?")
