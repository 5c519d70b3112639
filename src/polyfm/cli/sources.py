"""Where data come from: svmlight, libsvm and libFM files, tables, or the embedded set; whole or in chunks."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

FORMATS = ["auto", "svmlight", "libsvm", "libfm", "csv", "tsv", "parquet"]
TABLES = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet"}
CHUNK = 50_000  # rows


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
        suffixes = [s for s in self.path.suffixes if s not in (".gz", ".bz2", ".xz")]
        return TABLES.get(suffixes[-1].lower() if suffixes else "", "svmlight")

    @property
    def is_table(self) -> bool:
        return self.kind in ("csv", "tsv", "parquet")

    @property
    def counts_from_zero(self) -> bool | str:
        return {"libfm": True, "libsvm": False}.get(self.format, self.zero_based)

    def read(self) -> tuple[Any, np.ndarray]:
        """All features and targets."""
        if self.path is None:
            from sklearn.datasets import load_diabetes

            table, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
            return table, np.asarray(y)
        if self.is_table:
            from polyfm.datafiles import read_table

            return self._split(read_table(self.path, text=self.text, separator=self._separator))
        from polyfm.datafiles import read_svmlight

        return read_svmlight(self.path, zero_based=self.counts_from_zero)  # type: ignore[arg-type]

    def chunks(self, n_features: int | None = None, *, with_target: bool) -> Iterator[tuple[Any, Any]]:
        """The same some rows at a time, in bounded memory. Targets of tables may be absent where not needed."""
        if self.path is None:
            yield self.read()
        elif self.is_table:
            from polyfm.datafiles import iter_table

            for table in iter_table(self.path, chunk_rows=CHUNK, text=self.text, separator=self._separator):
                if with_target:
                    yield self._split(table)
                else:
                    yield table.drop(columns=[self.target] if self.target in table else []), None
        else:
            from polyfm.datafiles import iter_svmlight

            zero_based: Any = self.counts_from_zero
            yield from iter_svmlight(self.path, chunk_rows=CHUNK, n_features=n_features, zero_based=zero_based)

    @property
    def _separator(self) -> str | None:
        return {"csv": ",", "tsv": "\t"}.get(self.format)

    def _split(self, table) -> tuple[Any, np.ndarray]:
        if self.target is None:
            raise click.UsageError(
                f"Name the column to predict: --target, one of {', '.join(map(str, table.columns))}."
            )
        if self.target not in table:
            raise click.UsageError(
                f"There is no column {self.target!r}; there are {', '.join(map(str, table.columns))}."
            )
        y = table.pop(self.target)
        if y.isna().any():
            raise click.UsageError(
                f"The target {self.target!r} is missing in {int(y.isna().sum())} row(s); remove them."
            )
        return table, np.asarray(y)


def is_classification(task: str, y: np.ndarray) -> bool:
    """Labels that are words or that take only two values are classes, unless the task was given."""
    if task != "auto":
        return task == "classification"
    return y.dtype.kind in "OUSb" or len(np.unique(y[:CHUNK])) <= 2
