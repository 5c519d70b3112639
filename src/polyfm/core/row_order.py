"""The order of rows that training works in: the objective does not care, but the processor's cache does."""

import numpy as np
import scipy.sparse as sp

SAMPLES_BEYOND_CACHE = 2**19  # whose state does not fit into the processor's cache; chosen by measurement
ROWS_A_BLOCK = 2**16  # whose state (a MB or two) stays in the processor's cache; chosen by measurement
BLOCKS_AT_ONCE = 8  # blocks come in multiples of it, so that threads can share them out; fewer are not worth to go by


def n_row_blocks(n_rows: int) -> int:
    """How many blocks of rows there are whose state fits into the processor's cache."""
    return -(-n_rows // (BLOCKS_AT_ONCE * ROWS_A_BLOCK)) * BLOCKS_AT_ONCE


def locality_order(X) -> np.ndarray | None:
    """An order of the rows of a CSR matrix in which those that share one of their first two features lie near each
    other, or None where they are in that order already.

    Sorted by the first feature alone, the rows of one value of the second would be scattered all over memory. So rows
    are sorted by blocks of first features that fit into the processor's cache, and within a block by the second.
    """
    n, d = X.shape
    if X.nnz == 0:
        return None
    first, second = _feature(X, 0), _feature(X, 1)
    # Three stable sorts, the last key first. First features are in as many blocks, of about as many rows each.
    ends = np.cumsum(np.bincount(first, minlength=d))
    block = (np.maximum(ends - 1, 0) * n_row_blocks(n) // n).astype(first.dtype)
    order = _sorted_by(first, d)
    order = order[_sorted_by(second[order], d)]
    order = order[_sorted_by(block[first[order]], n_row_blocks(n))]
    if np.all(order[1:] > order[:-1]):
        return None
    return order.view(np.uint32) if order.dtype == np.int32 else order.astype(np.uint32)


def _feature(X, place: int) -> np.ndarray:
    """The feature in this place of each row of a CSR matrix; 0 where a row is shorter."""
    length = X.nnz // X.shape[0]
    if length > place and np.all(np.diff(X.indptr) == length):  # no copy
        return X.indices[place : X.nnz : length]
    entry = X.indptr[:-1] + place
    has = entry < X.indptr[1:]
    return np.where(has, X.indices[np.where(has, entry, 0)], 0)


def _sorted_by(key: np.ndarray, n_keys: int) -> np.ndarray:
    """A stable sort by counting, which scipy has for matrices: row i has one entry, in column key[i]."""
    n = len(key)
    offsets = np.arange(n + 1, dtype=key.dtype)
    return sp.csr_array((ones(n), key, offsets), shape=(n, n_keys)).tocsc().indices


def in_order(X, order: np.ndarray, is_binary: bool):
    """The rows of a CSR matrix in another order; nothing is copied of values that are all ones."""
    order = order.view(np.int32) if X.indices.dtype == np.int32 else order  # else scipy makes a copy that it can use
    if not is_binary:
        return X[order]
    X = type(X)((ones(X.nnz), X.indices[: X.nnz], X.indptr), shape=X.shape)[order]
    return type(X)((ones(X.nnz), X.indices, X.indptr), shape=X.shape)


def ones(n: int) -> np.ndarray:
    """Ones that take no memory."""
    return np.broadcast_to(np.int8(1), (n,))
