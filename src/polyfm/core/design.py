"""Design: the data matrix X as compiled loops want it, by rows and by columns."""

import itertools
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from polyfm.loops import arrange as _arrange

N_COLOURS = 64
SHORT = 4  # non-zeros a row: longer rows have no order that suits all their features, and a sorted copy takes memory
SHARES = 16  # that threads draw from: enough for those who are faster to do more, and to keep many threads busy
WORTH_A_THREAD = 2**15  # non-zeros: fewer take less time than threads need to agree
STREAMS = 2**19  # samples: the state of more does not fit into the processor's cache; chosen by measurement
RARE = 8  # samples a feature: with fewer, sums by feature take as much memory as the samples
BLOCK = 2**16  # rows whose state (a MB or two) stays in the processor's cache; chosen by measurement
PIECES = 8  # blocks come in multiples of it, so that threads can share them out; fewer are not worth to go by


class Compressed(NamedTuple):
    """Rows or columns: entry e of line j lies in indptr[j] .. indptr[j + 1]. `data` is None where all values are 1,
    `indices` is None where lines are contiguous and complete."""

    indptr: np.ndarray
    indices: np.ndarray | None
    data: np.ndarray | None


class Groups(NamedTuple):
    """Columns in groups: group g is order[bounds[g]:bounds[g + 1]] (`order` is None where it is 0, 1, 2, ...).

    Columns of one of the first `n_apart` groups have no row in common. What descent does to one of them does not depend
    on the others, so they can be updated at the same time with exactly the result of one after the other.
    """

    order: np.ndarray | None
    bounds: np.ndarray
    n_apart: int


class Fields(NamedTuple):
    """features[g, i] is the feature of group g that sample i has (the number of features where it has none), and
    values[g, i] its value; `values` is None where all are 1."""

    features: np.ndarray
    values: np.ndarray | None


class Plan(NamedTuple):
    """What threads can do at the same time in an epoch of coordinate descent. Piece p of the rows is rows[p] ..
    rows[p + 1], and the features of the first group in the places columns[p] .. columns[p + 1] of the order occur in
    this piece alone; all `columns` are 0 where there are no such pieces. A share c of group g is the columns in the
    places shares[g, c] .. shares[g, c + 1]."""

    rows: np.ndarray
    columns: np.ndarray
    shares: np.ndarray


def frozen(array: np.ndarray, dtype) -> np.ndarray:
    """A read-only view: numba compiles read-only and writable arrays apart, so all data are made read-only."""
    array = np.ascontiguousarray(array, dtype=dtype).view()
    array.flags.writeable = False
    return array


def _ones(n: int) -> np.ndarray:
    """Ones that take no memory."""
    return np.broadcast_to(np.int8(1), (n,))


def _offsets(n_lines: int, length: int) -> np.ndarray:
    return frozen(np.arange(n_lines + 1, dtype=np.uint64) * np.uint64(length), np.uint64)


class Design:
    """A view of X (dense array, CSR or CSC) that never writes to it; indices are unsigned, which loops need.

    With `sort_rows`, sparse rows are put in an order in which those that share features are near each other. The
    objective does not care, but the cache does. With `shuffle_rows`, a seed, they are put in a random order, which
    stochastic steps want and can then read from front to back. ``order`` maps our rows to the caller's, and is None
    where they agree.
    """

    def __init__(self, X, *, sort_rows: bool = False, shuffle_rows: int | None = None):
        self.shape: tuple[int, int] = X.shape
        self.dtype = X.dtype
        self.is_sparse = sp.issparse(X)
        self.order: np.ndarray | None = None
        if self.is_sparse:
            if max(X.shape) >= 2**32:
                raise ValueError(f"X has shape {X.shape}; at most 2**32 - 1 rows and columns are supported.")
            if not X.has_canonical_format:
                X = X.copy()
                X.sum_duplicates()
            self._binary = X.nnz == 0 or bool(X.data.min() == 1 == X.data.max())
            if sort_rows and self._binary:  # nobody reads values that are all ones: let them, and copies, be small
                X = type(X)((_ones(X.nnz), X.indices[: X.nnz], X.indptr), shape=X.shape)
            if sort_rows and (X.nnz <= SHORT * X.shape[0] or (self._binary and X.shape[0] < STREAMS)):
                X = X.tocsr()
                self.order = _locality_order(X)
                X = X if self.order is None else self._in_order(X)
        if shuffle_rows is not None:
            self.order = np.random.RandomState(shuffle_rows).permutation(X.shape[0]).astype(np.uint32)
            X = self._in_order(X.tocsr()) if self.is_sparse else X[self.order]
        self._X = X

    @cached_property
    def rows(self) -> Compressed:
        if self.is_sparse:
            return self._compressed(self._X.tocsr())
        n, d = self.shape
        return Compressed(_offsets(n, d), None, frozen(self._X, self.dtype).reshape(-1))

    @cached_property
    def columns(self) -> Compressed:
        if self.is_sparse:
            return self._compressed(self._X.tocsc())
        n, d = self.shape
        return Compressed(_offsets(d, n), None, frozen(np.asarray(self._X).T, self.dtype).reshape(-1))

    @cached_property
    def groups(self) -> Groups | None:
        """Columns that can be updated at the same time, or None where there are too few (text, dense data).

        One-hot fields are such groups. The answer depends on X alone: descent takes columns in this order whatever
        the number of threads.
        """
        indptr, rows, _ = self.columns
        if rows is None or len(rows) < WORTH_A_THREAD:
            return None
        colours = _arrange.colour(indptr, rows, self.shape[0])
        sizes = np.diff(indptr.astype(np.int64))
        n_apart = int(colours.max()) + 1 if colours.max() < N_COLOURS else N_COLOURS
        nonzeros = np.bincount(colours, weights=sizes, minlength=N_COLOURS + 1)
        largest = np.zeros(N_COLOURS + 1)
        np.maximum.at(largest, colours, sizes)
        apart = (nonzeros >= WORTH_A_THREAD) & (largest <= nonzeros / 2)
        if nonzeros[:N_COLOURS][apart[:N_COLOURS]].sum() < 0.75 * len(rows):
            return None
        bounds = np.concatenate(([0], np.cumsum(np.bincount(colours)))).astype(np.int64)
        in_order = bool(np.all(colours[1:] >= colours[:-1]))
        order = None if in_order else frozen(np.argsort(colours, kind="stable"), np.uint32)
        return Groups(order, bounds, n_apart)

    @cached_property
    def fields(self) -> Fields | None:
        """One-hot fields by sample, or None where columns are as well walked down one after the other: where the
        samples' state fits into the cache, where two fields have put them in an order that suits both, where groups
        have gaps, or where features are rare."""
        n, d = self.shape
        if n < STREAMS or d * RARE > n or self.groups is None:
            return None
        order, bounds, n_apart = self.groups
        n_groups = len(bounds) - 1
        indptr, rows, data = self.columns
        if n_groups < 3 or n_apart < n_groups or indptr[-1] < n_groups * n / 2:
            return None
        features = np.full((n_groups, n), d, dtype=np.uint32)
        values = None if data is None else np.zeros((n_groups, n), dtype=self.dtype)
        _arrange.fields_of(indptr, rows, data, order, bounds, features, values)
        del self.columns  # fields take their place; whoever needs both computes them anew
        return Fields(features, values)

    def shares(self, n: int) -> np.ndarray:
        """shares[g, c] .. shares[g, c + 1]: a part of the columns of group g, about equal to the others in non-zeros;
        groups that are not apart, or not worth it, are one part and empty ones."""
        order, bounds, n_apart = self.groups or Groups(None, np.array([0, self.shape[1]]), 0)
        sizes = np.diff(self.columns.indptr.astype(np.int64))
        before = np.concatenate(([0], np.cumsum(sizes if order is None else sizes[order])))
        shares = np.repeat(bounds[1:, None], n + 1, axis=1)
        shares[:, 0] = bounds[:-1]
        for g, (lo, hi) in enumerate(itertools.pairwise(bounds)):
            if g < n_apart and before[hi] - before[lo] >= WORTH_A_THREAD:
                inner = np.searchsorted(before, np.linspace(before[lo], before[hi], n + 1)[1:-1])
                shares[g, 1:-1] = np.clip(inner, lo, hi)
        return shares

    def plan(self) -> Plan:
        rows, columns = self._pieces()
        if len(rows) <= PIECES:  # fewer than that
            rows, columns = np.linspace(0, self.shape[0], SHARES + 1).astype(np.int64), np.zeros(SHARES + 1, np.int64)
        return Plan(rows, columns, self.shares(SHARES))

    def _pieces(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of pieces of rows, and of the first group's features that occur in a piece and in no other."""
        n, (order, bounds, _) = self.shape[0], self.groups or Groups(None, np.zeros(2, dtype=np.int64), 0)
        indptr, rows = self.columns.indptr.astype(np.int64), self.columns.indices
        assert rows is not None
        features = np.arange(bounds[1]) if order is None else order[: bounds[1]]
        start, stop = indptr[features], indptr[features + 1]
        occurs = start < stop
        first, last = np.full(len(features), n), np.full(len(features), -1)
        first[occurs], last[occurs] = rows[start[occurs]], rows[stop[occurs] - 1]
        behind, ahead = np.maximum.accumulate(last), np.minimum.accumulate(first[::-1])[::-1]
        cuts = np.flatnonzero(behind[:-1] < ahead[1:]) + 1
        _, chosen = np.unique(ahead[cuts] * (2 * _n_blocks(n)) // n, return_index=True)
        cuts = cuts[chosen]
        return np.concatenate(([0], ahead[cuts], [n])), np.concatenate(([0], cuts, [bounds[1]]))

    def _in_order(self, X):
        """The rows of X in our order, without the copies that indexing makes on its way."""
        data, new_data = (None, None) if self._binary else (frozen(X.data, X.dtype), np.empty(X.nnz, X.dtype))
        indptr, indices = np.empty_like(X.indptr), np.empty(X.nnz, X.indices.dtype)
        old = frozen(X.indptr, X.indptr.dtype), frozen(X.indices, X.indices.dtype), data
        _arrange.take_rows(*old, self.order, indptr, indices, new_data)
        return type(X)((_ones(X.nnz) if new_data is None else new_data, indices, indptr), shape=X.shape)

    @property
    def ones(self) -> Compressed:
        """A dummy feature: one column of ones, of no memory."""
        return Compressed(_offsets(1, self.shape[0]), None, None)

    def _compressed(self, X) -> Compressed:
        data = None if self._binary else frozen(X.data, self.dtype)
        indices = X.indices.view(np.uint32) if X.indices.dtype == np.int32 else X.indices
        indptr = X.indptr.view(np.uint32 if X.indptr.dtype == np.int32 else np.uint64)
        return Compressed(frozen(indptr, indptr.dtype), frozen(indices, np.uint32), data)


def _n_blocks(n_rows: int) -> int:
    """How many blocks of rows there are whose state fits into the processor's cache."""
    return -(-n_rows // (PIECES * BLOCK)) * PIECES


def _locality_order(X) -> np.ndarray | None:
    """An order of the rows in which those that share one of their first two features lie near each other, or None
    where they are in that order already.

    Sorted by the first feature alone, the rows of one value of the second would be scattered all over memory. So rows
    are sorted by blocks of first features that fit into the processor's cache, and within a block by the second.
    """
    n, d = X.shape
    if X.nnz == 0:
        return None
    order = _arrange.locality_order(
        frozen(X.indptr, X.indptr.dtype), frozen(X.indices, X.indices.dtype), d, _n_blocks(n)
    )
    return None if np.all(order[1:] > order[:-1]) else order
