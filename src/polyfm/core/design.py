"""Design: the data matrix X as compiled loops want it, by rows and by columns."""

import weakref
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from polyfm.core import row_order as ordering

RowOrder = Literal["given", "sorted", "shuffled"]
NONZEROS_OF_A_SHORT_ROW = 4  # longer rows have no order that suits all their features, and a sorted copy takes memory


class Compressed(NamedTuple):
    """Rows or columns: entry e of line j lies in indptr[j] .. indptr[j + 1]. `data` is None where all values are 1,
    `indices` is None where lines are contiguous and complete."""

    indptr: np.ndarray
    indices: np.ndarray | None
    data: np.ndarray | None


def frozen(array: np.ndarray, dtype) -> np.ndarray:
    """A read-only view: numba compiles read-only and writable arrays apart, so all data are made read-only."""
    array = np.ascontiguousarray(array, dtype=dtype).view()
    array.flags.writeable = False
    return array


def _offsets(n_lines: int, length: int) -> np.ndarray:
    return frozen(np.arange(n_lines + 1, dtype=np.uint64) * np.uint64(length), np.uint64)


def sizes(design: "Design") -> tuple[float, float]:
    """The largest values of the smallest and of the largest feature, in absolute terms."""
    _, indices, data = design.rows
    if data is None or not len(data):
        return 1.0, 1.0
    d = design.shape[1]
    if indices is None:
        rows = data.reshape(-1, d)
        largest = np.maximum(rows.max(axis=0), -rows.min(axis=0))
    else:
        largest = np.zeros(d, dtype=data.dtype)
        np.maximum.at(largest, indices, np.abs(data))
    largest = largest[largest > 0]
    return (float(largest.min()), float(largest.max())) if len(largest) else (1.0, 1.0)


class Design:
    """A view of X (dense array, CSR or CSC) that never writes to it; indices are unsigned, which loops need.

    Its rows may stand in another order than the caller's. "sorted": sparse rows that share features are near each
    other, which is kind to the cache. "shuffled", by a seed: in a random order, which stochastic steps want and can
    then read from front to back. ``order`` maps our rows to the caller's, and is None where they agree.
    """

    def __init__(self, X, row_order: RowOrder = "given", seed: int = 0):
        self.shape: tuple[int, int] = X.shape
        self.dtype = X.dtype
        self.is_sparse = sp.issparse(X)
        self.order: np.ndarray | None = None
        self._derived: dict[Callable, Any] = {}
        if self.is_sparse:
            if max(X.shape) >= 2**32:
                raise ValueError(f"X has shape {X.shape}; at most 2**32 - 1 rows and columns are supported.")
            if not X.has_canonical_format:
                X = X.copy()
                X.sum_duplicates()
            self._is_binary = X.nnz == 0 or bool(X.data.min() == 1 == X.data.max())
        if row_order == "sorted" and self.is_sparse:
            X = self._sorted(X)
        elif row_order == "shuffled":
            self.order = np.random.RandomState(seed).permutation(X.shape[0]).astype(np.uint32)
        self.given = X  # whose rows are still to be shuffled, if they are to be
        self._is_shuffled = row_order == "shuffled"

    @cached_property
    def _X(self):
        """Rows in our order. They are shuffled when somebody asks for them: a search for penalties that comes first has
        rows of its own, and both need not be there at once."""
        X = self.given
        if self._is_shuffled:
            X = self._in_order(X.tocsr()) if self.is_sparse else X[self.order]
        return X

    def _sorted(self, X):
        if self._is_binary:  # nobody reads values that are all ones: let them, and copies, be small
            X = type(X)((ordering.ones(X.nnz), X.indices[: X.nnz], X.indptr), shape=X.shape)
        short = X.nnz <= NONZEROS_OF_A_SHORT_ROW * X.shape[0]
        if short or (self._is_binary and X.shape[0] < ordering.SAMPLES_BEYOND_CACHE):
            X = X.tocsr()
            self.order = ordering.locality_order(X)
            X = X if self.order is None else self._in_order(X)
        return X

    def _in_order(self, X):
        assert self.order is not None
        return ordering.in_order(X, self.order, self._is_binary)

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

    def release_columns(self) -> None:
        """Let go of the view by columns; who asks for it again computes it anew."""
        del self.columns

    @property
    def nnz(self) -> int:
        return self.given.nnz if self.is_sparse else self.given.size

    @property
    def has_short_rows(self) -> bool:
        return self.is_sparse and self.nnz <= NONZEROS_OF_A_SHORT_ROW * self.shape[0]

    @property
    def ones(self) -> Compressed:
        """A dummy feature: one column of ones, of no memory."""
        return Compressed(_offsets(1, self.shape[0]), None, None)

    def derived(self, make: Callable[["Design"], Any]) -> Any:
        """make(self), computed once: what others derive from X lives as long as X."""
        if make not in self._derived:
            self._derived[make] = make(weakref.proxy(self))  # a circle would keep both until somebody looks for it
        return self._derived[make]

    def _compressed(self, X) -> Compressed:
        data = None if self._is_binary else frozen(X.data, self.dtype)
        indices = X.indices.view(np.uint32) if X.indices.dtype == np.int32 else X.indices
        # Loops are compiled for one type of offsets more where there are so many non-zeros, and not before.
        indptr = X.indptr.view(np.uint32 if X.indptr.dtype == np.int32 else np.uint64)
        if indptr.dtype == np.uint64 and X.nnz < 2**32:
            indptr = indptr.astype(np.uint32)
        return Compressed(frozen(indptr, indptr.dtype), frozen(indices, np.uint32), data)
