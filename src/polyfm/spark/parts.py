"""What runs on the workers during a fit: rows are packed once, and asked in every round.

A partition of the DataFrame is a part. Its rows are put in an order that depends on what they hold alone: a shuffle
that is computed again, after an executor was lost, hands them over in another one, and sums would have other last
digits.
"""

import gc
import itertools
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from pyspark import TaskContext

from polyfm.distributed.chunk import Chunk
from polyfm.distributed.engine import Call, PartitionError, answer
from polyfm.distributed.tree import Tree
from polyfm.spark.arrow import column_of, features_of, stacked, table_of

BYTES_OF_A_PIECE = 2**26  # arrays of the JVM, and of Arrow, end at 2^31
FEATURES, LABEL, WEIGHT = "features", "label", "weight"
SCHEMA = "piece binary"
_SEEN: Counter = Counter()  # by kind, tasks that this process has had
_ODD = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)


@dataclass(frozen=True)
class Pack:
    """Batches of rows to pieces of a part; for `mapInArrow`. Rows that cannot be trained on become a message, since
    Spark would try a task that fails again and again."""

    classify: bool
    weighted: bool
    encoder: Any = None  # a `TableEncoder`, where the features are plain columns
    names: tuple[str, ...] = ()  # of these

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            found = self._rows(batches)
            pieces: Any = _pieces(*found) if found else []
        except (ValueError, TypeError) as problem:
            for _ in batches:  # a worker that leaves its input unread is not used again
                pass
            pieces = [str(problem)]
        for piece in pieces:
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(piece, 5)], pa.binary())], ["piece"])

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> tuple | None:
        X: list[Any] = []
        y: list[np.ndarray] = []
        weight: list[np.ndarray] = []
        n = 0
        for batch in batches:
            if batch.num_rows == 0:
                continue
            X.append(self._features(batch, n))
            if len(X) > 1 and X[-1].shape[1] != X[0].shape[1]:
                raise ValueError(f"row {n}: {X[-1].shape[1]} features, where row 0 has {X[0].shape[1]}.")
            y.append(column_of(batch.column(LABEL), "the label", n))
            if self.weighted:
                weight.append(column_of(batch.column(WEIGHT), "the weight", n))
            n += batch.num_rows
        if not X:
            return None
        rows = stacked(X), np.concatenate(y), np.concatenate(weight) if self.weighted else None
        Chunk(0, *rows).facts(self.classify)  # refuses what it does, with the row, before rows are moved
        return rows

    def _features(self, batch: pa.RecordBatch, first_row: int) -> Any:
        if self.encoder is None:
            return features_of(batch.column(FEATURES), first_row)
        return self.encoder.transform(table_of(self.names, batch.columns[: len(self.names)]))


def settle(what: str) -> None:
    """Spark collects garbage after every task, which takes a tenth of a second where it has to look at all that is
    imported and compiled. What is there after the first task of a kind is for good."""
    if _SEEN[what] < 2:
        _SEEN[what] += 1
        gc.freeze()


def this_partition() -> int:
    context = TaskContext.get()
    assert context is not None  # there is one on a worker
    return context.partitionId()


def _pieces(X: Any, y: np.ndarray, weight: np.ndarray | None) -> Iterator[tuple]:
    order = order_by_content(X, y, weight)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sp.issparse(X) else X.nbytes
    n_pieces = max(1, -(-size // BYTES_OF_A_PIECE))
    for rows in np.array_split(order, n_pieces):
        yield X[rows], y[rows], None if weight is None else weight[rows]


def order_by_content(X: Any, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """An order of the rows that does not depend on the one in which they stand."""
    with np.errstate(over="ignore"):
        keys = _mixed(np.unique(y, return_inverse=True)[1].astype(np.uint64) + _ODD[0])
        if weight is not None:
            keys += _mixed(weight.astype(np.float64).view(np.uint64) ^ _ODD[1])
        columns = _mixed((np.arange(X.shape[1], dtype=np.uint64) + np.uint64(1)) * _ODD[0])
        if sp.issparse(X):
            terms = _mixed(X.data.astype(np.float64).view(np.uint64) ^ columns[X.indices])
            sums = np.concatenate([[np.uint64(0)], np.cumsum(terms, dtype=np.uint64)])
            keys += sums[X.indptr[1:]] - sums[X.indptr[:-1]]
        else:
            for j, column in enumerate(columns):
                keys += _mixed(X[:, j].astype(np.float64).view(np.uint64) ^ column)
    return np.argsort(keys, kind="stable")


def _mixed(values: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64."""
    values = (values ^ (values >> np.uint64(30))) * _ODD[1]
    values = (values ^ (values >> np.uint64(27))) * _ODD[2]
    return values ^ (values >> np.uint64(31))


def numbered(partition: int, rows: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
    """Pieces with the number of their partition. The number of the task would not do: a part that is lost is packed
    again by a task that has several of them."""
    return ((partition, bytes(row[0])) for row in rows)


def chunk_of(index: int, pieces: Iterable[bytes]) -> Chunk:
    read = [pickle.loads(piece) for piece in pieces]
    for piece in read:
        if isinstance(piece, str):
            raise PartitionError(f"Partition {index}: {piece}")
    X, y, weight = zip(*read, strict=True)
    return Chunk(
        index, stacked(X), y[0] if len(y) == 1 else np.concatenate(y),
        None if weight[0] is None else weight[0] if len(weight) == 1 else np.concatenate(weight),
    )  # fmt: skip


@dataclass(frozen=True)
class Ask:
    """A call to the parts that a task has; for `mapPartitions`. What is wrong with the rows is an answer, too."""

    message: Any  # a broadcast of pickled bytes: the call, and by partition its place

    def __call__(self, records: Iterable[tuple[int, bytes]]) -> list[bytes]:
        call, places = received(self.message.value)
        settle(call.method)
        tree = Tree(call.n_leaves, call.merge)
        problem: PartitionError | None = None
        for index, pieces in itertools.groupby(records, key=partition_of):
            if problem is not None or index not in places:
                continue
            try:
                chunk = chunk_of(index, (piece for _, piece in pieces))
                tree.put_all(answer(call, [(places[index], chunk)]))
            except PartitionError as found:
                problem = found
        return [pickle.dumps(problem or list(tree.waiting.items()), 5)]


def partition_of(record: tuple[int, bytes]) -> int:
    return record[0]


def received(message: bytes) -> tuple[Call, dict[int, int]]:
    return pickle.loads(message)
