"""A fitted `Recommender` as a record of JSON and arrays, read back with suspicion. See `polyfm.files.records`."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from polyfm.core.sparse import checked_sparse
from polyfm.files.values import Reader, UnstorableError, Writer
from polyfm.recommend.pairs import Pairs, Seen
from polyfm.recommend.ratings import Ratings
from polyfm.recommend.recommender import Recommender
from polyfm.recommend.sides import Side, Situation
from polyfm.tabular import TableEncoder, columns

DATES = "datetime64[us]"
KINDS: tuple[Callable, ...] = (str, int, float, lambda text: text == "True")  # of ids: what makes them of their texts


def to_record(rec: Recommender, writer: Writer, prefix: str, of: Callable) -> dict:
    """All but the parameters; `of` gives the record of an estimator or encoder."""
    check_is_fitted(rec, "users_")
    engine, situation = rec._engine, rec.situation_.encoder
    record = {
        "users": _side_to_record(rec.users_, writer, f"{prefix}users.", of),
        "items": _side_to_record(rec.items_, writer, f"{prefix}items.", of),
        "situation": None if situation is None else of(situation, writer, f"{prefix}situation."),
        "seen": _sparse_to_record(rec.seen_, writer, f"{prefix}seen"),
        "target": rec.target_,
        "weight": rec.weight_,
        "polars": rec._polars,
    }
    if isinstance(engine, Ratings):
        own = None if rec.estimator is None else type(rec.estimator).__name__
        return {**record, "estimator": of(engine.estimator, writer, f"{prefix}estimator."), "own": own}
    pairs = {
        "factors": [writer.array(f"{prefix}factors{side}", T) for side, T in enumerate(engine.factors)],
        "who": writer.array(f"{prefix}who", engine.seen.who),
        "situations": _sparse_to_record(engine.seen.situations, writer, f"{prefix}situations"),
        "what": writer.array(f"{prefix}what", engine.seen.what),
        "weights": _sparse_to_record(engine.seen.weights, writer, f"{prefix}weights"),
        "history": writer.array(f"{prefix}history", rec.history_),
    }
    return {**record, "pairs": pairs}


def from_record(record: dict, parameters: dict, reader: Reader, of: Callable) -> Recommender:
    """`of` gives the estimator or encoder of a record."""
    rec = Recommender(**parameters)
    rec._validate_params()
    rec.users_ = _side_from_record(record["users"], reader, of, rec.user)
    rec.items_ = _side_from_record(record["items"], reader, of, rec.item)
    situation = None if record["situation"] is None else of(record["situation"], reader)
    _require(situation is None or isinstance(situation, TableEncoder), "a situation without an encoder")
    rec.situation_ = Situation(situation)
    rec.seen_ = _sparse_from_record(record["seen"], reader, (len(rec.users_), len(rec.items_)))
    rec.target_, rec.weight_, rec._polars = record["target"], record["weight"], bool(record["polars"])
    _require(all(name is None or isinstance(name, str) for name in (rec.target_, rec.weight_)), "columns without names")
    sizes = (rec.users_.X.shape[1] + rec.situation_.size, rec.items_.X.shape[1])
    if rec.feedback == "explicit":
        model = of(record["estimator"], reader)
        _require(hasattr(model, "_fitted") and model.n_features_in_ == sum(sizes), "an estimator of other features")
        _require(len(model._fitted.targets) == 1, "an estimator of several classes")
        rec._engine = Ratings(model)
        if record["own"] is not None:
            rec.estimator = clone(model)
        return rec
    pairs = record["pairs"]
    factors = tuple(_floats(reader.array(entry["array"]), 2) for entry in pairs["factors"])
    who, what = (
        _positions(reader.array(pairs[name]["array"]), len(side))
        for name, side in (("who", rec.users_), ("what", rec.items_))
    )
    situations = _sparse_from_record(pairs["situations"], reader, (len(who), rec.situation_.size))
    weights = _sparse_from_record(pairs["weights"], reader, (len(who), len(what)))
    _require(not np.any(weights.data < 0), "negative weights")
    rec._engine = Pairs(factors, Seen(who, situations, what, weights), rec._options())
    _require([T.shape for T in factors] == rec._engine.shapes(sizes), "factors of other shapes")
    rec.history_ = _floats(reader.array(pairs["history"]["array"]), 1)
    rec.n_iter_ = len(rec.history_)
    return rec


# -- sides ------------------------------------------------------------------------------------------------------------


def _side_to_record(side: Side, writer: Writer, prefix: str, of: Callable) -> dict:
    kinds = np.array([_kind(value) for value in side.values], dtype=np.uint8)
    if np.any(kinds == len(KINDS)):
        kinds[kinds == len(KINDS)] = 0
        writer.notes.append(f"Some ids of {side.column} are neither text nor numbers: they load as text.")
    table = []
    for n, name in enumerate(side.table.columns):
        if name != side.column:
            try:
                table.append([str(name), _column_to_record(side.table[name], writer, f"{prefix}table{n}")])
            except UnstorableError as problem:
                writer.notes.append(f"The column {name!r} of {side.column} is {problem}; filters will not see it.")
    return {
        "encoder": of(side.encoder, writer, f"{prefix}encoder."),
        "texts": writer.strings(f"{prefix}texts", np.array([*side.texts, None], dtype=object)[:-1]),
        "kinds": writer.array(f"{prefix}kinds", kinds),
        "table": table,
        "X": _sparse_to_record(side.X, writer, f"{prefix}X"),
    }


def _kind(value: Any) -> int:
    """Which of KINDS an id is."""
    types = (str, Integral, Real, (bool, np.bool_))
    return next((kind for kind in (3, 0, 1, 2) if isinstance(value, types[kind])), len(KINDS))  # type: ignore[arg-type]


def _side_from_record(record: dict, reader: Reader, of: Callable, column: str) -> Side:
    encoder = of(record["encoder"], reader)
    _require(isinstance(encoder, TableEncoder) and encoder.feature_names_in_[0] == column, "a side of other ids")
    texts = reader.strings(record["texts"]).tolist()
    _require(len(set(texts)) == len(texts), "an id twice")
    kinds = reader.array(record["kinds"]["array"])
    _require(kinds.dtype == np.uint8 and kinds.shape == (len(texts),) and bool(np.all(kinds < len(KINDS))), "odd kinds")
    values = [KINDS[kind](text) for kind, text in zip(kinds.tolist(), texts, strict=True)]
    table = {column: np.array([*texts, None], dtype=object)[:-1]}
    for name, entry in record["table"]:
        table[str(name)] = _column_from_record(entry, reader)
    _require(all(len(found) == len(texts) for found in table.values()), "columns of other lengths")
    X = _sparse_from_record(record["X"], reader, (len(texts), len(encoder.get_feature_names_out())))
    n_ids = len(encoder.categories_[0])
    _require(encoder.sources_[0] == 0 and not encoder.rare_[0] and not encoder.buckets_[0], "ids that are not encoded")
    _require(not len(texts) or X[:, :n_ids].getnnz(axis=1).max() <= 1, "a row with several ids")
    return Side(column, texts, values, columns.pandas_for_tables().DataFrame(table), encoder, X)


def _column_to_record(column: Any, writer: Writer, name: str) -> dict:
    """Numbers as they are, dates as microseconds, all else as codes of distinct values."""
    types = columns.pandas_for_tables().api.types
    if types.is_datetime64_any_dtype(column.dtype):
        plain = column.dt.tz_localize(None) if column.dt.tz is not None else column
        return {"dates": writer.array(name, plain.to_numpy(dtype=DATES).astype(np.int64))}
    if types.is_numeric_dtype(column.dtype) and not types.is_complex_dtype(column.dtype):
        plain = column.to_numpy(
            dtype=column.dtype if isinstance(column.dtype, np.dtype) else np.float64, na_value=np.nan
        )
        return {"numbers": writer.array(name, plain)}
    codes, distinct = columns.pandas_for_tables().factorize(column.astype(object))
    found = np.array([*distinct, None], dtype=object)[:-1]
    return {"codes": writer.array(f"{name}.codes", codes.astype(np.int64)), "of": writer.objects(f"{name}.of", found)}


def _column_from_record(record: dict, reader: Reader) -> np.ndarray:
    if "dates" in record:
        found = reader.array(record["dates"]["array"])
        _require(found.dtype == np.int64 and found.ndim == 1, "dates of a wrong type")
        return found.astype(DATES)
    if "numbers" in record:
        found = reader.array(record["numbers"]["array"])
        _require(found.ndim == 1, "numbers of a wrong shape")
        return found
    codes, distinct = reader.array(record["codes"]["array"]), reader.objects(record["of"])
    _require(codes.dtype == np.int64 and codes.ndim == 1, "codes of a wrong type")
    _require(not len(codes) or (codes.min() >= -1 and codes.max() < len(distinct)), "codes of nothing")
    return np.array([*distinct.tolist(), None], dtype=object)[codes]


# -- arrays -----------------------------------------------------------------------------------------------------------


def _require(sound: bool, what: str) -> None:
    if not sound:
        raise ValueError(what)


def _sparse_to_record(X: sp.csr_matrix, writer: Writer, name: str) -> dict:
    X = sp.csr_matrix(X)
    parts = {
        "data": X.data.astype(np.float64),
        "indices": X.indices.astype(np.int64),
        "indptr": X.indptr.astype(np.int64),
    }
    return {part: writer.array(f"{name}.{part}", array) for part, array in parts.items()}


def _sparse_from_record(record: dict, reader: Reader, shape: tuple[int, int]) -> sp.csr_matrix:
    data, indices, indptr = (reader.array(record[part]["array"]) for part in ("data", "indices", "indptr"))
    _require(data.dtype == np.float64 and indices.dtype == indptr.dtype == np.int64, "a matrix of wrong types")
    _require(data.ndim == indices.ndim == indptr.ndim == 1 and len(indptr) == shape[0] + 1, "a matrix of another shape")
    X = sp.csr_matrix(shape)
    X.data, X.indices, X.indptr = data, indices, indptr
    X = checked_sparse(X, "a matrix of the file")
    _require(bool(np.all(np.isfinite(X.data))), "a matrix that is not finite")
    X = sp.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=shape)
    X.sort_indices()
    _require(X.has_canonical_format, "a matrix with an entry twice")
    return X


def _floats(array: np.ndarray, ndim: int) -> np.ndarray:
    _require(array.dtype == np.float64 and array.ndim == ndim and bool(np.all(np.isfinite(array))), "odd numbers")
    return array


def _positions(array: np.ndarray, n: int) -> np.ndarray:
    _require(array.dtype == np.int64 and array.ndim == 1, "positions of a wrong type")
    _require(not len(array) or (array.min() >= 0 and array.max() < n), "positions out of range")
    return array
