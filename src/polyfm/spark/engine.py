"""Spark as an engine: a round is a job over the packed parts."""

import pickle
from collections.abc import Iterable
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from polyfm.distributed.engine import Call, Engine
from polyfm.distributed.tree import Node
from polyfm.spark.parts import SCHEMA, Ask, Pack, numbered, partition_of


class SparkEngine(Engine):
    """The parts of a DataFrame with the columns that `Pack` expects. They stay on the executors, packed: in memory, and
    on disk where that is short. A part that is lost is computed again by Spark.

    Neighbouring partitions share a task, so that a round has no more tasks than there are cores, and so that less is
    sent to the driver: what a task knows is added up there, along the same tree.
    """

    def __init__(self, rows: DataFrame, pack: Pack):
        super().__init__()
        packed = rows.mapInArrow(pack, SCHEMA).rdd.mapPartitionsWithIndex(numbered)
        self.parts = packed.persist(StorageLevel.MEMORY_AND_DISK)
        self.context: Any = self.parts.context
        self.n_tasks = max(1, min(self.parts.getNumPartitions(), self.context.defaultParallelism))
        there = sorted(set(self.parts.map(partition_of).collect()))  # packs them: empty ones give nothing
        if not there:
            raise ValueError(f"There are no rows: all {self.parts.getNumPartitions()} partition(s) are empty.")
        self.places = {index: place for place, index in enumerate(there)}
        self.n_parts = len(there)

    def keep(self, places: list[int]) -> None:
        by_place = {place: index for index, place in self.places.items()}
        self.places = {by_place[old]: new for new, old in enumerate(places)}
        self.n_parts = len(places)

    def answers(self, call: Call) -> Iterable[list[tuple[Node, Any]]]:
        message = pickle.dumps((call, self.places), 5)
        sent = self.context.broadcast(message)
        try:
            parts = self.parts.coalesce(self.n_tasks) if self.n_tasks < self.parts.getNumPartitions() else self.parts
            found = parts.mapPartitions(Ask(sent)).collect()
        finally:
            sent.destroy()
        for nodes in map(pickle.loads, found):
            if isinstance(nodes, Exception):
                raise nodes
            yield nodes

    @property
    def n_workers(self) -> int:
        return self.n_tasks

    def close(self) -> None:
        self.parts.unpersist()
