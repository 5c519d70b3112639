"""The order of rows that training works in: the objective does not care, but the processor's cache does."""

import numpy as np

from polyfm.loops import arrange

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
    order = arrange.locality_order(_read_only(X.indptr), _read_only(X.indices), d, n_row_blocks(n))
    return None if np.all(order[1:] > order[:-1]) else order


def in_order(X, order: np.ndarray, is_binary: bool):
    """The rows of a CSR matrix in another order, without the copies that indexing makes on its way. Values that are
    all ones are neither read nor written."""
    data, new_data = (None, None) if is_binary else (_read_only(X.data), np.empty(X.nnz, X.dtype))
    indptr, indices = np.empty_like(X.indptr), np.empty(X.nnz, X.indices.dtype)
    arrange.take_rows(_read_only(X.indptr), _read_only(X.indices), data, order, indptr, indices, new_data)
    return type(X)((ones(X.nnz) if new_data is None else new_data, indices, indptr), shape=X.shape)


def ones(n: int) -> np.ndarray:
    """Ones that take no memory."""
    return np.broadcast_to(np.int8(1), (n,))


def _read_only(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array
