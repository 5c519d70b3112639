"""Where data come from: svmlight, libsvm and libFM files, tables, or the embedded set; whole or in chunks."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import numpy as np

from polyfm.files.atomic import is_pipe
from polyfm.files.tables import Dialect, column_names, renamed

FORMATS = ["auto", "svmlight", "libsvm", "libfm", "csv", "tsv", "parquet"]
TABLES = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet"}
CHUNK = 50_000  # rows
MOST_NAMED = 20  # columns in a message
SEPARATORS = (";", "\t", "|", ",")
UNNAMED = "Unnamed: 0"  # what pandas calls a first column without a name


@dataclass(frozen=True)
class Source:
    """A file (or the embedded set, where there is none) and how to read it."""

    path: Path | None
    format: str = "auto"
    target: str | None = None
    text: tuple[str, ...] = ()
    zero_based: bool | str = "auto"
    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None

    @property
    def kind(self) -> str:
        if self.path is None:
            return "embedded"
        if self.format in ("libsvm", "libfm"):
            return "svmlight"
        if self.format != "auto":
            return self.format
        suffixes = [s for s in map(str.lower, self.path.suffixes) if s not in (".gz", ".bz2", ".xz")]
        return TABLES.get(suffixes[-1] if suffixes else "", "svmlight")

    @property
    def is_table(self) -> bool:
        return self.kind in ("csv", "tsv", "parquet")

    @property
    def counts_from_zero(self) -> bool | str:
        return {"libfm": True, "libsvm": False}.get(self.format, self.zero_based)

    def check_options(self) -> None:
        """Refuse options that would have no effect, or contradict each other."""
        of_text = {"--text": bool(self.text), "--sep": self.sep is not None}
        of_text |= {"--decimal": self.decimal is not None, "--encoding": self.encoding is not None}
        given = {"--target": self.target is not None, **of_text}
        given |= {"--zero-based or --one-based": self.zero_based != "auto", "--format": self.format != "auto"}
        foreign = {
            "embedded": list(given),
            "svmlight": ["--target", *of_text],
            "parquet": [*of_text, "--zero-based or --one-based"],
        }.get(self.kind, ["--zero-based or --one-based"])
        for option in foreign:
            if given[option]:
                what = "needs a file to read" if self.path is None else f"makes no sense for {self._described}"
                raise click.UsageError(f"{option} {what}.")
        if self.zero_based != "auto" and self.counts_from_zero != self.zero_based:
            raise click.UsageError(f"--format {self.format} says by itself from where features are counted.")
        self._dialect.check()

    @property
    def _described(self) -> str:
        how = f"--format {self.format} says so" if self.format != "auto" else "by its name; --format says otherwise"
        return f"{self.path}, a {'Parquet' if self.kind == 'parquet' else self.kind} file ({how})"

    # -- the columns of a table ---------------------------------------------------------------------------------------

    @property
    def _dialect(self) -> Dialect:
        sep = self.sep if self.sep is not None else {"csv": ",", "tsv": "\t"}.get(self.format)
        return Dialect(sep, self.decimal or ".", self.encoding or "utf-8", "rename")

    @cached_property
    def _raw_names(self) -> list[str]:
        assert self.path is not None
        self._check_content()
        return [str(name) for name in column_names(self.path, self._dialect)]

    @property
    def names(self) -> list[str]:
        """The columns of a table, as they are called once it is read."""
        names = renamed(self._raw_names)
        return [UNNAMED if not name and j == 0 else name or f"Unnamed: {j}" for j, name in enumerate(names)]

    def check_names(self, *options: tuple[str, tuple[str, ...]]) -> None:
        """Refuse options that name columns which are not there."""
        for option, names in options:
            for name in names:
                if name not in self.names:
                    raise click.UsageError(f"{option} {name!r}: {self.path} has no such column. {self.hint(name)}")

    def hint(self, *names: str) -> str:
        """What may have been meant by columns that are not there."""
        there = self._raw_names
        if len(there) == 1:
            for sep in SEPARATORS:
                if sep in there[0]:
                    shown = "tab" if sep == "\t" else repr(sep)
                    return f"It has one column, {there[0]!r}: if {shown} separates them, say --sep {shown}."
        near = [other for name in names for other in difflib.get_close_matches(name, there, 1, 0.8) if name]
        same = [other for name in names for other in there if other.strip().casefold() == name.strip().casefold()]
        meant = list(dict.fromkeys(same + near))
        return f"Its columns are {listed(there)}." + (f" Is it {listed(meant)}?" if meant else "")

    def _need_target(self) -> str:
        if self.target is None:
            raise click.UsageError(f"Name the column to predict: --target, one of {listed(self._raw_names)}.")
        if self.target not in self._raw_names:
            raise click.UsageError(f"There is no column {self.target!r} to predict. {self.hint(self.target)}")
        if self._raw_names.count(self.target) > 1:
            raise click.UsageError(f"{self.path}: has several columns named {self.target!r}, the target. Rename them.")
        return self.target

    # -- rows ---------------------------------------------------------------------------------------------------------

    def read(self) -> tuple[Any, np.ndarray]:
        """All features and targets."""
        if self.path is None:
            from sklearn.datasets import load_diabetes

            table, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
            return table, np.asarray(y)
        if self.is_table:
            from polyfm.datafiles import read_table

            self._need_target()
            return self._split(read_table(self.path, text=self.text, **self._dialect._asdict()))
        from polyfm.datafiles import read_svmlight

        return read_svmlight(self.path, zero_based=self.counts_from_zero)  # type: ignore[arg-type]

    def table(self, text: tuple[str, ...] = ()) -> Any:
        """All columns of a table, those in `text` as they are written."""
        from polyfm.datafiles import read_table

        assert self.path is not None
        if not self.is_table:
            raise click.UsageError(f"{self._described}, is no table: give CSV, TSV or Parquet, or say --format csv.")
        text = () if self.kind == "parquet" else tuple(n for n in (*self.text, *text) if n in self.names)
        return read_table(self.path, text=text, **self._dialect._asdict())

    def chunks(self, n_features: int | None = None, *, with_target: bool) -> Iterator[tuple[Any, Any]]:
        """The same some rows at a time, in bounded memory. Of a table whose target is not asked for, all columns."""
        if self.path is None:
            yield self.read()
        elif self.is_table:
            from polyfm.datafiles import iter_table

            if with_target:
                self._need_target()
            for table in iter_table(self.path, chunk_rows=CHUNK, text=self.text, **self._dialect._asdict()):
                yield self._split(table) if with_target else (table, None)
        else:
            from polyfm.datafiles import iter_svmlight

            zero_based: Any = self.counts_from_zero
            if is_pipe(self.path) and (n_features is None or zero_based == "auto"):
                remedy = "Copy it to a file first" + (", or say --zero-based or --one-based." if n_features else ".")
                raise click.UsageError(f"{self.path}: is a pipe or a device, and must be read twice. {remedy}")
            yield from iter_svmlight(self.path, chunk_rows=CHUNK, n_features=n_features, zero_based=zero_based)

    def _check_content(self) -> None:
        """A format that was asked for must be what is there."""
        from polyfm.files.tables import is_parquet

        assert self.path is not None
        if self.format != "auto" and is_parquet(self.path) != (self.format == "parquet"):
            what = "is not a Parquet file" if self.format == "parquet" else "is a Parquet file"
            raise click.UsageError(f"{self.path}: {what}, but --format says {self.format}.")

    def _split(self, table) -> tuple[Any, np.ndarray]:
        y = table.pop(self.target)
        if y.isna().any():
            raise click.UsageError(
                f"The target {self.target!r} is missing in {int(y.isna().sum())} row(s); remove them."
            )
        return table, self._target_values(y)

    def _target_values(self, y) -> np.ndarray:
        """Numbers, True and False, or text."""
        from pandas.api import types

        if hasattr(y, "cat"):
            y = y.astype(y.cat.categories.dtype)
        if types.is_bool_dtype(y.dtype):
            return y.to_numpy(dtype=bool)
        if types.is_numeric_dtype(y.dtype) and not types.is_complex_dtype(y.dtype):
            return y.to_numpy(dtype=y.dtype if isinstance(y.dtype, np.dtype) else y.dtype.numpy_dtype)
        values = y.to_numpy(dtype=object)
        for allowed, dtype in (((str,), object), ((int, float), np.float64)):
            if all(isinstance(value, allowed) for value in values):
                return values.astype(dtype)
        kinds = ", ".join(sorted({type(value).__name__ for value in values}))
        raise click.UsageError(f"The target {self.target!r} holds {kinds}: neither text nor numbers. Convert it.")


def listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:MOST_NAMED])) + (" ..." if len(names) > MOST_NAMED else "")


def is_classification(task: str, y: np.ndarray) -> bool:
    """Labels that are words or that take only two values are classes, unless the task was given."""
    words = y.dtype.kind in "OUS"
    if task == "regression" and words:
        raise click.UsageError(f"--task regression needs numbers to predict, and there is text such as {str(y[0])!r}.")
    if task != "auto":
        return task == "classification"
    return words or y.dtype.kind == "b" or len(np.unique(y)) <= 2
