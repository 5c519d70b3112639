"""Columns of Arrow as features: what a worker makes of the batches that Spark hands it."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from polyfm.files.tables import required

SPARSE = 0  # the `type` of a vector of Spark ML; 1 is a dense one


def features_of(column: pa.Array, first_row: int = 0) -> Any:
    """A column of vectors (as the struct that they are underneath) or of arrays, as a matrix: an array where all rows
    are dense, CSR where some are not. `first_row` is the number of its first row, for messages."""
    column = _whole(column)
    _refuse_null(column, "the features are null", first_row)
    if pa.types.is_struct(column.type):
        return _of_vectors(column, first_row)
    return _of_arrays(column, first_row)


def _of_arrays(column: pa.Array, first_row: int) -> np.ndarray:
    values = column.flatten()
    lengths = np.diff(column.offsets.to_numpy())
    if values.null_count:
        row = int(np.searchsorted(np.cumsum(lengths), np.argmin(values.is_valid()), side="right"))
        raise ValueError(f"row {first_row + row}: a feature is null. Fill it in, or drop the row.")
    width = _one_width(lengths, first_row)
    return values.to_numpy(zero_copy_only=False).reshape(len(column), width)


def _of_vectors(column: pa.Array, first_row: int) -> Any:
    is_sparse = column.field("type").to_numpy(zero_copy_only=False) == SPARSE
    values, lists = _whole(column.field("values")), _whole(column.field("indices"))
    data = values.flatten().to_numpy(zero_copy_only=False)
    lengths = np.diff(values.offsets.to_numpy()).astype(np.int64)
    declared = np.nan_to_num(column.field("size").to_numpy(zero_copy_only=False)).astype(np.int64)
    width = _one_width(np.where(is_sparse, declared, lengths), first_row)
    if not is_sparse.any():
        return data.reshape(len(column), width)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    given = lists.flatten().to_numpy(zero_copy_only=False)
    of_sparse = np.repeat(is_sparse, lengths)
    indices = np.empty(len(data), dtype=np.int64)
    if np.count_nonzero(of_sparse) != len(given):
        raise ValueError(f"from row {first_row} on: a sparse vector has not as many indices as values.")
    indices[of_sparse] = given
    indices[~of_sparse] = np.tile(np.arange(width), np.count_nonzero(~is_sparse))
    wrong = (indices < 0) | (indices >= width)
    if wrong.any():
        at = int(np.argmax(wrong))
        row = int(np.searchsorted(indptr, at, side="right")) - 1
        raise ValueError(f"row {first_row + row}: a vector of size {width} has index {indices[at]}.")
    kind = np.int32 if max(len(data), width) < 2**31 else np.int64
    X = sp.csr_matrix((data, indices.astype(kind), indptr.astype(kind)), shape=(len(column), width))
    if is_sparse.all():
        return X
    X = X.copy()  # what Arrow has is not to be written to
    X.eliminate_zeros()
    return X


def _one_width(widths: np.ndarray, first_row: int) -> int:
    other = widths != (widths[0] if len(widths) else 0)
    if other.any():
        row = int(np.argmax(other))
        raise ValueError(
            f"row {first_row + row}: {widths[row]} features, where row {first_row} has {widths[0]}. All need as many."
        )
    return int(widths[0]) if len(widths) else 0


def stacked(parts: Sequence[Any]) -> Any:
    """Matrices one below the other; CSR if one of them is."""
    if len(parts) == 1:
        return parts[0]
    if any(map(sp.issparse, parts)):
        return sp.vstack([sp.csr_matrix(part) for part in parts], format="csr")
    return np.concatenate(parts)


def column_of(column: pa.Array, what: str, first_row: int = 0) -> np.ndarray:
    """A column of numbers or of texts, none of them null."""
    column = _whole(column)
    _refuse_null(column, f"{what} is null", first_row)
    found = column.to_numpy(zero_copy_only=False)
    return found.astype(str) if found.dtype == object else found


def table_of(names: Iterable[str], arrays: Iterable[pa.Array]) -> Any:
    """Plain columns as a DataFrame of pandas, of types that do not depend on which rows these are."""
    pandas = required("pandas", "table", "A list of columns")
    nullable = {
        pa.int8(): pandas.Int8Dtype(), pa.int16(): pandas.Int16Dtype(), pa.int32(): pandas.Int32Dtype(),
        pa.int64(): pandas.Int64Dtype(), pa.bool_(): pandas.BooleanDtype(),
    }  # fmt: skip
    columns = {}
    for name, column in zip(names, arrays, strict=True):
        column = _whole(column)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            columns[name] = pandas.Series(column.to_pylist(), dtype=object)
        elif pa.types.is_null(column.type):
            columns[name] = pandas.Series([None] * len(column), dtype=object)
        else:
            columns[name] = column.to_pandas(types_mapper=nullable.get, date_as_object=False)
    return pandas.DataFrame(columns)


def _whole(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _refuse_null(column: pa.Array, said: str, first_row: int) -> None:
    if column.null_count:
        row = int(np.argmin(column.is_valid().to_numpy(zero_copy_only=False)))
        raise ValueError(f"row {first_row + row}: {said}. Fill it in, or drop the row.")
