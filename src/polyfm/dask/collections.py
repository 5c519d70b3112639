"""Dask's collections as chunks, and predictions as collections."""

from typing import Any

import dask
import dask.array as da
import numpy as np


def is_frame(X: Any) -> bool:
    return hasattr(X, "npartitions") and hasattr(X, "to_delayed") and not isinstance(X, da.Array)


def partitions_of(frame: Any) -> list[Any]:
    """The partitions of a DataFrame or a column, delayed, as they are cut. Dask's optimizer would put those of a file
    together of which few columns are read, and the rows of X would stand in others than the targets."""
    return frame.simplify().to_delayed(optimize_graph=False)


def is_collection(X: Any) -> bool:
    return dask.is_dask_collection(X)


def chunks_of(X: Any, y: Any, weight: Any) -> tuple[list[tuple], list[str] | None]:
    """The arguments of chunks, delayed, and the names of the features where there are any."""
    for name, of, needed in (("X", X, True), ("y", y, True), ("sample_weight", weight, False)):
        if (of is None and needed) or not (of is None or isinstance(of, da.Array) or is_frame(of)):
            raise TypeError(
                f"{name} is of type {type(of).__name__}; pass a Dask array or DataFrame. For rows in memory there is "
                "the ordinary estimator."
            )
    names = [str(name) for name in X.columns] if is_frame(X) else None
    X = _of_whole_rows(X) if names is None else X
    rows = _blocks(X)
    others = []
    for name, of in (("y", y), ("sample_weight", weight)):
        if of is None:
            others.append([None] * len(rows))
            continue
        of = _as_cut(X, of)
        found = _blocks(of)
        if len(found) != len(rows):
            raise ValueError(
                f"X has {len(rows)} partitions, {name} has {len(found)}, and their rows are not known. Cut both in the "
                "same places, for instance by taking them from one DataFrame (which, if at all, is persisted whole)."
            )
        others.append(found)
    return [(i, *row) for i, row in enumerate(zip(rows, *others, strict=True))], names


def _as_cut(X: Any, y: Any) -> Any:
    """y in the chunks of X, where their sizes are known."""
    if not (isinstance(X, da.Array) and isinstance(y, da.Array)) or y.chunks[0] == X.chunks[0]:
        return y
    known = not np.isnan([*X.chunks[0], *y.chunks[0]]).any()
    if known and sum(X.chunks[0]) != sum(y.chunks[0]):
        raise ValueError(f"X has {sum(X.chunks[0])} rows, but there are {sum(y.chunks[0])} targets or weights.")
    return y.rechunk({0: X.chunks[0]}) if known else y


def _of_whole_rows(X: Any) -> Any:
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} axes, where 2 are needed: rows and features.")
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _blocks(collection: Any) -> list[Any]:
    if isinstance(collection, da.Array):
        return list(np.ravel(collection.to_delayed()))
    return [dask.delayed(_values, pure=False)(part) for part in partitions_of(collection)]


def _values(block: Any) -> Any:
    """A part of a collection as an array or a sparse matrix."""
    if block is None or not hasattr(block, "to_numpy"):
        return block
    if hasattr(block, "dtypes") and hasattr(block, "columns"):
        words = [name for name, kind in block.dtypes.items() if kind.kind not in "fiub"]
        if words:
            raise TypeError(
                f"Column {words[0]!r} holds no numbers ({block.dtypes[words[0]]}). Encode the table first: "
                "polyfm.dask.DaskTableEncoder."
            )
        single = all(kind == np.float32 for kind in block.dtypes)
        return block.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
    return block.to_numpy()


def predicted(model: Any, method: str, X: Any, dtype: Any, width: int | None) -> Any:
    """What a method of a fitted estimator makes of X, lazily: an array with a row for each of X."""
    local = dask.delayed(model, traverse=False, pure=False)
    if is_frame(X):
        parts = [dask.delayed(_predict, pure=False)(part, local, method, width, dtype) for part in partitions_of(X)]
        shape = (np.nan,) if width is None else (np.nan, width)
        return da.concatenate([da.from_delayed(part, shape, dtype) for part in parts])
    X = _of_whole_rows(X)
    meta = np.empty((0,) if width is None else (0, 0), dtype)
    arguments = {"model": local, "method": method, "width": width, "kind": dtype, "dtype": dtype, "meta": meta}
    if width is None:
        return X.map_blocks(_predict, drop_axis=1, **arguments)
    return X.map_blocks(_predict, chunks=(X.chunks[0], (width,)), **arguments)


def _predict(X: Any, model: Any, method: str, width: int | None, kind: Any) -> np.ndarray:
    if X.shape[0] == 0:
        return np.empty((0,) if width is None else (0, width), kind)
    return getattr(model, method)(X).astype(kind, copy=False)
