"""How a table, or a single row, becomes a row or rows of a sparse matrix, once everything is learned."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from polyfm.tabular import columns
from polyfm.tabular.blocks import NOWHERE, Block
from polyfm.tabular.columns import DATE, NUMBER

ROWS = 2**16  # encoded at a time
MOST_NAMED = 20


def listed(names) -> str:
    return ", ".join(map(repr, names[:MOST_NAMED])) + (" ..." if len(names) > MOST_NAMED else "")


def is_row(X: Any) -> bool:
    return isinstance(X, Mapping) and not sp.issparse(X)  # one format of sparse matrices is a dict


class Plan:
    """The columns of the output: those of the one-hot blocks, then numbers, then flags of missing numbers.

    A row alone goes another, quicker way than a table, by the same operations on the same numbers: both give the same
    bits.
    """

    def __init__(
        self, kinds: np.ndarray, names: list[str] | None, layouts: list[str | None], blocks: list[Block],
        medians: np.ndarray, means: np.ndarray, scales: np.ndarray, flagged: np.ndarray, dtype: np.dtype,
    ):  # fmt: skip
        self.names, self.blocks, self.dtype = names, blocks, dtype
        self.medians, self.means, self.scales, self.flagged = medians, means, scales, flagged
        self.n_columns = len(kinds)
        self.dates = {j: layouts[j] for j in np.flatnonzero(kinds == DATE).tolist()}
        self.of_numbers = np.flatnonzero((kinds == DATE) | (kinds == NUMBER)).tolist()
        self.first_number = 0
        for block in blocks:
            self.first_number = block.place(self.first_number)
        first_flag = self.first_number + len(medians)
        self.n_encoded = first_flag + int(flagged.sum())
        flags = np.where(flagged, first_flag + np.cumsum(flagged) - 1, NOWHERE)
        places = range(self.first_number, first_flag)
        self.scaling = list(
            zip(self.of_numbers, places, medians.tolist(), means.tolist(), scales.tolist(), flags.tolist(), strict=True)
        )

    # -- many rows ----------------------------------------------------------------------------------------------------

    def of_table(self, table) -> sp.csr_matrix:
        parts = [self._of_rows(table.iloc[i : i + ROWS]) for i in range(0, len(table), ROWS)]
        return parts[0] if len(parts) == 1 else sp.csr_matrix(sp.vstack(parts, format="csr"))

    def _of_rows(self, table) -> sp.csr_matrix:
        moments = {j: columns.moments(table.iloc[:, j], layout) for j, layout in self.dates.items()}
        numbers = np.empty((len(table), len(self.of_numbers)))
        for i, j in enumerate(self.of_numbers):
            numbers[:, i] = columns.days(moments[j]) if j in moments else columns.numbers(table.iloc[:, j])
        missing = np.isnan(numbers)
        begin = len(self.blocks)
        end = begin + len(self.of_numbers)
        n_entries = begin + self.n_encoded - self.first_number
        places = np.empty((len(table), n_entries), dtype=np.int64)
        values = np.ones((len(table), n_entries))
        for b, block in enumerate(self.blocks):
            if block.part:
                places[:, b] = block.of_parts(columns.part(moments[block.source], block.part))
            else:
                places[:, b] = block.columns(*columns.texts(table.iloc[:, block.source]))
        places[:, begin:] = np.arange(self.first_number, self.n_encoded)
        values[:, begin:end] = (np.where(missing, self.medians, numbers) - self.means) / self.scales
        values[:, end:] = missing[:, self.flagged]
        there = (places != NOWHERE) & (values != 0)
        return self._csr(values[there], places[there], np.concatenate([[0], np.cumsum(there.sum(axis=1))]))

    def _csr(self, values: Any, places: Any, bounds: Any) -> sp.csr_matrix:
        index = np.int32 if max(self.n_encoded, len(values)) < 2**31 else np.int64
        parts = (np.array(values, dtype=self.dtype), np.array(places, dtype=index), np.array(bounds, dtype=index))
        return sp.csr_matrix(parts, shape=(len(bounds) - 1, self.n_encoded))

    # -- one row ------------------------------------------------------------------------------------------------------

    def single_row(self, X: Any) -> list | None:
        """The values of a single row, where X is no more than that and has names; None where it must be looked at as a
        table."""
        if isinstance(X, list) and len(X) == 1:
            X = X[0]
        if is_row(X):
            return self.values(X)
        if not hasattr(X, "__len__") or not hasattr(X, "columns") or len(X) != 1 or list(X.columns) != self.names:
            return None
        if columns.is_polars(X):
            return None if self.dates else list(X.row(0))
        if not hasattr(X, "iat"):
            return None
        at = X.iat
        return [at[0, j] for j in range(self.n_columns)]

    def values(self, row: Mapping) -> list:
        """The values of a mapping, in the order of the columns."""
        if self.names is None:
            raise ValueError("The encoder was fitted without column names, and cannot look values up. Pass an array.")
        try:
            return [row[name] for name in self.names]
        except KeyError:
            lacking = [name for name in self.names if name not in row]
            raise ValueError(f"The row lacks {listed(lacking)}. Pass None for a value that is missing.") from None

    def of_row(self, row: list) -> sp.csr_matrix:
        moments = {j: columns.one_moment(self._name(j), row[j], layout) for j, layout in self.dates.items()}
        places = []
        for block in self.blocks:
            value = row[block.source]
            if block.part:
                place = int(block.of_parts(columns.part(moments[block.source], block.part))[0])
            else:
                place = block.find(value if type(value) is str else columns.one_text(self._name(block.source), value))
            if place != NOWHERE:
                places.append(place)
        values, flags = [1.0] * len(places), []
        for j, place, median, mean, scale, flag in self.scaling:
            x = float(columns.days(moments[j])[0]) if j in moments else columns.one_number(self._name(j), row[j])
            if x != x:
                x = median
                if flag != NOWHERE:
                    flags.append(flag)
            x = (x - mean) / scale
            if x:
                places.append(place)
                values.append(x)
        places += flags
        return self._csr(values + [1.0] * len(flags), places, [0, len(places)])

    def _name(self, j: int) -> Any:
        return j if self.names is None else self.names[j]
