"""Where data come from: svmlight, libsvm and libFM files, tables, or the embedded set; whole or in chunks."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from polyfm.cli.terminal import note
from polyfm.estimators.validation import LARGEST
from polyfm.files.atomic import is_pipe, shown

FORMATS = ["auto", "svmlight", "libsvm", "libfm", "csv", "tsv", "parquet"]
TABLES = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet"}
CHUNK = 50_000  # rows
MOST_NAMED = 20  # columns in a message
MOSTLY = 0.5  # of a column of text: so many numbers make it look like a mistake
ENOUGH = 10_000  # of its values, to tell
LIKE_A_NUMBER = r"[-+]?[\d.,' ]{1,40}(?:[eE][-+]?\d{1,5})?%?"


@dataclass(frozen=True)
class Source:
    """A file (or the embedded set, where there is none) and how to read it."""

    path: Path | None
    format: str = "auto"
    target: str | None = None
    text: tuple[str, ...] = ()
    zero_based: bool | str = "auto"

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
        given = {"--target": self.target is not None, "--text": bool(self.text)}
        given |= {"--zero-based or --one-based": self.zero_based != "auto", "--format": self.format != "auto"}
        foreign = {
            "embedded": ["--target", "--text", "--zero-based or --one-based", "--format"],
            "svmlight": ["--target", "--text"],
            "parquet": ["--text", "--zero-based or --one-based"],
        }.get(self.kind, ["--zero-based or --one-based"])
        for option in foreign:
            if given[option]:
                what = "needs a file to read" if self.path is None else f"makes no sense for {self._described}"
                raise click.UsageError(f"{option} {what}.")
        if self.zero_based != "auto" and self.counts_from_zero != self.zero_based:
            raise click.UsageError(f"--format {self.format} says by itself from where features are counted.")

    @property
    def _described(self) -> str:
        how = f"--format {self.format} says so" if self.format != "auto" else "by its name; --format says otherwise"
        return f"{self.path}, a {'Parquet' if self.kind == 'parquet' else self.kind} file ({how})"

    def read(self) -> tuple[Any, np.ndarray]:
        """All features and targets."""
        if self.path is None:
            from sklearn.datasets import load_diabetes

            table, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
            return table, np.asarray(y)
        if self.is_table:
            from polyfm.datafiles import read_table

            self._check_content()
            return self._split(read_table(self.path, text=self.text, separator=self._separator))
        from polyfm.datafiles import read_svmlight

        return read_svmlight(self.path, zero_based=self.counts_from_zero)  # type: ignore[arg-type]

    def chunks(self, n_features: int | None = None, *, with_target: bool) -> Iterator[tuple[Any, Any]]:
        """The same some rows at a time, in bounded memory. Targets of tables may be absent where not needed."""
        if self.path is None:
            yield self.read()
        elif self.is_table:
            from polyfm.datafiles import iter_table

            self._check_content()
            for table in iter_table(self.path, chunk_rows=CHUNK, text=self.text, separator=self._separator):
                if with_target:
                    yield self._split(table)
                else:
                    yield table.drop(columns=[self.target] if self.target in table else []), None
        else:
            from polyfm.datafiles import iter_svmlight

            zero_based: Any = self.counts_from_zero
            if is_pipe(self.path) and (n_features is None or zero_based == "auto"):
                remedy = "Copy it to a file first" + (", or say --zero-based or --one-based." if n_features else ".")
                raise click.UsageError(f"{self.path}: is a pipe or a device, and must be read twice. {remedy}")
            yield from iter_svmlight(self.path, chunk_rows=CHUNK, n_features=n_features, zero_based=zero_based)

    @property
    def _separator(self) -> str | None:
        return {"csv": ",", "tsv": "\t"}.get(self.format)

    def _check_content(self) -> None:
        """A format that was asked for must be what is there."""
        from polyfm.files.tables import is_parquet

        assert self.path is not None
        if self.format != "auto" and is_parquet(self.path) != (self.format == "parquet"):
            what = "is not a Parquet file" if self.format == "parquet" else "is a Parquet file"
            raise click.UsageError(f"{self.path}: {what}, but --format says {self.format}.")

    def _split(self, table) -> tuple[Any, np.ndarray]:
        there = ", ".join(map(repr, map(str, table.columns[:MOST_NAMED])))
        there += " ..." if len(table.columns) > MOST_NAMED else ""
        if self.target is None:
            raise click.UsageError(f"Name the column to predict: --target, one of {there}.")
        if self.target not in table:
            raise click.UsageError(f"There is no column {self.target!r}; there are {there}.")
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


def check_table(table, declared: set[str]) -> None:
    """Look at the columns to learn from: numbers that are too large are refused, and text that may be a mistake is
    noted, where it was not declared to be what it is."""
    import pandas

    for name, column in table.items():
        if column.dtype.kind == "f":
            largest = column.abs().max()
            if LARGEST["float64"] < largest < np.inf:
                raise click.UsageError(f"Column {name!r} has a value of magnitude {largest:.3g}. Scale or correct it.")
        elif name not in declared and column.dtype.kind == "O" and not hasattr(column, "cat"):
            there = column.dropna().astype(str)
            some = there.iloc[:: max(1, len(there) // ENOUGH)]
            if some.str.strip().str.fullmatch(LIKE_A_NUMBER).mean() >= MOSTLY:
                words = there[pandas.to_numeric(there, errors="coerce").isna()]
                why = f"{shown(words.iloc[0])} in row {words.index[0]}, counted from 0" if len(words) else ""
                note(
                    f"column {name!r} is taken for text, one feature a value, because of {why or 'large numbers'}. "
                    f"Correct it, or say --text {name} if it is meant."
                )


def is_classification(task: str, y: np.ndarray) -> bool:
    """Labels that are words or that take only two values are classes, unless the task was given."""
    words = y.dtype.kind in "OUS"
    if task == "regression" and words:
        raise click.UsageError(f"--task regression needs numbers to predict, and there is text such as {str(y[0])!r}.")
    if task != "auto":
        return task == "classification"
    return words or y.dtype.kind == "b" or len(np.unique(y)) <= 2
