"""The structure of sparse matrices, checked before any compiled code follows their indices.

scipy checks it when a matrix is made, not when its arrays are changed or another library has made them, and an index
out of range would be read or written to all the same.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from polyfm.loops import arrange

INDEX_TYPES = {np.dtype(np.int32).str, np.dtype(np.int64).str}
REMEDY = "Build it anew, for instance from its coordinates with scipy.sparse.coo_array."


def checked_sparse(X: Any, name: str = "X") -> Any:
    """X as it is, unless it is sparse: then with sound indices of this machine's byte order, or a ValueError."""
    if not sp.issparse(X):
        return X
    if X.format in ("csr", "csc") and _is_sound(X):  # in some microseconds: one row is predicted in thirty
        return X
    X = _in_native_order(X)
    if X.format in ("csr", "csc", "bsr"):
        _check_compressed(X, name)
    elif X.format == "coo":
        _check_coordinates(X, name)
    else:
        X = X.tocsr()
        _check_compressed(X, name)
    return X


def _is_sound(X: Any) -> bool:
    """Whether the structure is one that loops can follow; not, too, where it is of a type that they do not know."""
    indptr, indices, data = X.indptr, X.indices, X.data
    known = indptr.dtype.str in INDEX_TYPES and indices.dtype.str in INDEX_TYPES and data.dtype.isnative
    if not known or indptr.ndim != 1 or indices.ndim != 1:
        return False
    n, width = X.shape if X.format == "csr" else X.shape[::-1]
    return bool(arrange.is_sound(indptr, indices, data.shape[0], n, width))


def _in_native_order(X: Any) -> Any:
    compressed = X.format in ("csr", "csc", "bsr")
    if not compressed and X.format != "coo":
        return X
    places = (X.indices, X.indptr) if compressed else X.coords
    if all(array.dtype.isnative for array in (X.data, *places)):
        return X
    data, *places = (array.astype(array.dtype.newbyteorder("=")) for array in (X.data, *places))
    return type(X)((data, *places) if compressed else (data, tuple(places)), shape=X.shape)


def _check_compressed(X: Any, name: str) -> None:
    indptr, indices, data = X.indptr, X.indices, X.data
    n, width = X.shape if X.format != "csc" else X.shape[::-1]
    if X.format == "bsr":
        n, width = n // X.blocksize[0], width // X.blocksize[1]
    for part, array in (("indptr", indptr), ("indices", indices)):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(
                f"{name} is malformed: its {part} has shape {array.shape} and type {array.dtype}, not one axis of "
                f"integers. {REMEDY}"
            )
    if len(indptr) != n + 1:
        raise ValueError(
            f"{name} is malformed: its indptr has {len(indptr)} entries, where {n + 1} are needed. {REMEDY}"
        )
    nnz = int(indptr[-1])
    if indptr[0] != 0 or not (indptr[1:] >= indptr[:-1]).all():
        at = 0 if indptr[0] != 0 else int(np.argmax(indptr[1:] < indptr[:-1])) + 1
        raise ValueError(
            f"{name} is malformed: its indptr must rise from 0, but entry {at} is {indptr[at]}"
            f"{f' after {indptr[at - 1]}' if at else ''}. {REMEDY}"
        )
    if nnz > len(indices) or nnz > len(data):
        raise ValueError(
            f"{name} is malformed: its indptr ends at {nnz}, but there are {len(indices)} indices and {len(data)} "
            f"values. {REMEDY}"
        )
    if nnz:
        _check_indices(indices[:nnz], width, indptr, X.format, name)


def _check_indices(indices: np.ndarray, width: int, indptr: np.ndarray, kind: str, name: str) -> None:
    # As unsigned numbers, negative ones are too large.
    if indices.view(f"u{indices.itemsize}").max() < width:
        return
    e = int(np.argmax((indices < 0) | (indices >= width)))
    line, other = ("column", "row") if kind == "csc" else ("row", "column")
    where = int(np.searchsorted(indptr, e, side="right")) - 1
    raise ValueError(
        f"{name} is malformed: {line} {where} has the {other} index {indices[e]}, but there are {width} {other}s, 0 to "
        f"{width - 1}. {REMEDY}"
    )


def _check_coordinates(X: Any, name: str) -> None:
    for axis, (values, size) in enumerate(zip(X.coords, X.shape, strict=True)):
        if len(values) != len(X.data):
            raise ValueError(f"{name} is malformed: {len(values)} coordinates for {len(X.data)} values. {REMEDY}")
        wrong = (values < 0) | (values >= size)
        if wrong.any():
            e = int(np.argmax(wrong))
            raise ValueError(
                f"{name} is malformed: entry {e} has the {('row', 'column')[axis]} {values[e]}, but {name} has shape "
                f"{X.shape}. {REMEDY}"
            )
