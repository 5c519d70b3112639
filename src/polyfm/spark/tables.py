"""Plain columns: a `TableEncoder` that learns from all partitions, in one job."""

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from polyfm.distributed.engine import PartitionError
from polyfm.spark.arrow import table_of
from polyfm.spark.parts import this_partition
from polyfm.tabular import TableEncoder
from polyfm.tabular.summary import Summary, fit_to_summary, kinds_of

SCHEMA = "partition int, summary binary"


@dataclass(frozen=True)
class Summarise:
    """The rows of a partition to their summary; for `mapInArrow`."""

    names: tuple[str, ...]
    empty: bytes  # a pickled `Summary`

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: Summary | str = pickle.loads(self.empty)
        row = 0
        for batch in batches:
            if batch.num_rows and isinstance(found, Summary):
                try:
                    found.add(table_of(self.names, batch.columns[: len(self.names)]))
                except (ValueError, TypeError) as problem:
                    found = f"rows {row} to {row + batch.num_rows - 1}: {problem}"
            row += batch.num_rows
        if row:
            data = pickle.dumps(found.close() if isinstance(found, Summary) else found, 5)
            columns = [pa.array([this_partition()], pa.int32()), pa.array([data], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, ["partition", "summary"])


def fitted_encoder(rows: DataFrame, names: tuple[str, ...], options: dict[str, Any]) -> TableEncoder:
    """An encoder of the first columns of these rows."""
    encoder = TableEncoder(**options)
    nothing = rows.limit(0).toArrow()
    empty = kinds_of(encoder, table_of(names, nothing.columns[: len(names)]))
    collected = rows.mapInArrow(Summarise(names, pickle.dumps(empty)), SCHEMA).collect()
    summaries = []
    for index, data in sorted(collected):
        found = pickle.loads(data)
        if isinstance(found, str):
            raise PartitionError(f"Partition {index}: {found}")
        summaries.append(found)
    if not summaries:
        raise ValueError("There are no rows: all partitions are empty.")
    return fit_to_summary(encoder, list(names), reduce(Summary.merged, summaries))
