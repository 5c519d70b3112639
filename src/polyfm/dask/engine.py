"""The engine on Dask: one task a worker and round, pinned to who has the rows.

A round takes all that it needs along. Where a worker is lost, its parts are given to others, which compute their rows
anew from the graph, and the round is asked again: to the same bits, since sums run over parts in a fixed order.
"""

import time
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import Any

import dask
from distributed import Client, Future, KilledWorker, futures_of
from distributed.comm.core import CommClosedError

from polyfm.distributed.chunk import Chunk
from polyfm.distributed.engine import Call, Engine, PartitionError, answer
from polyfm.distributed.tree import Node
from polyfm.solvers.interrupts import interrupted

LOOK = 1.0  # seconds after which a wait looks at the workers
PATIENCE = 60.0  # seconds without any worker after which a fit gives up
MOST_TRIALS = 10  # of one round, whose workers are lost one after the other
LOST = (KilledWorker, CommClosedError, CancelledError)


class NoWorkersError(RuntimeError):
    """There is nobody to do the work."""


def workers_of(client: Client) -> dict[str, int]:
    """The workers and their numbers of threads."""
    try:
        return dict(client.nthreads())
    except Exception as problem:  # of whatever kind: nobody is there to answer
        raise NoWorkersError(f"Dask's scheduler does not answer any more ({problem}).") from problem


def living(client: Client, patience: float) -> dict[str, int]:
    """The same; waits for one, but not for ever."""
    until, wanted = time.monotonic() + patience, None
    while True:
        found = workers_of(client)
        if found:
            return found
        if wanted is None:  # clusters that grow with their work have to see some
            wanted = client.submit(_is_there, None, pure=False)
        if interrupted():
            raise KeyboardInterrupt
        if time.monotonic() > until:
            raise NoWorkersError(
                f"There was no Dask worker for {patience:g} s. Start some, and look into the logs of those that ended. "
                "A checkpoint= keeps what was learned so far."
            )
        time.sleep(min(LOOK, patience / 10))


def result_of(client: Client, task: Any, patience: float) -> Any:
    """What a delayed task gives, while somebody looks at the workers."""
    future = client.compute(task)
    while True:
        living(client, patience)
        try:
            return future.result(timeout=LOOK)
        except NotYet:
            if future.done():  # it is the task's own
                raise


class DaskEngine(Engine):
    """`parts` are the arguments of chunks, delayed, in order; `placed` says that their rows are on workers already."""

    def __init__(self, client: Client, parts: list[tuple], placed: bool = False, patience: float = PATIENCE):
        super().__init__()
        self.client, self.patience, self.parts = client, patience, parts
        self.n_parts = len(parts)
        self._waiting = ThreadPoolExecutor(1)
        self._doubt = False  # whether a worker may have gone
        self.n_threads = living(self.client, self.patience)
        addresses = list(self.n_threads)
        # Those that come next to each other go to one worker: it adds them up, and has less to send.
        self.chunks = [
            self._computed(place, None if placed else addresses[place * len(addresses) // len(parts)])
            for place in range(len(parts))
        ]
        self.owners = self._owners()

    def _computed(self, place: int, address: str | None) -> Future:
        """A future of a chunk, if possible on this worker. What it is made of may be anywhere: a task that may run
        elsewhere than on a worker that has gone waits for that one all the same, if there was no other at the time."""
        where = {} if address is None else {"workers": [address], "allow_other_workers": True}
        with dask.annotate(**where):
            chunk = dask.delayed(Chunk, pure=False)(*self.parts[place])
        return self.client.compute(chunk, sync=False)

    def _owners(self) -> list[str]:
        """Who has which chunk, once all are there."""
        self._result(lambda: self.client.gather(self.client.map(_is_there, self.chunks, pure=False)), self.chunks)
        found = self.client.who_has(self.chunks)
        return [next(iter(found.get(chunk.key, ())), "") for chunk in self.chunks]

    def keep(self, places: list[int]) -> None:
        self.chunks = [self.chunks[place] for place in places]
        self.owners = [self.owners[place] for place in places]
        self.parts = [self.parts[place] for place in places]
        self.n_parts = len(self.chunks)

    @property
    def n_workers(self) -> int:
        return len(set(self.owners))

    def answers(self, call: Call) -> Iterable[list[tuple[Node, Any]]]:
        lost: BaseException | None = None
        for _ in range(MOST_TRIALS):
            self._settle()
            places = defaultdict(list)
            for place, owner in enumerate(self.owners):
                places[owner].append(place)
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
                futures = [
                    self.client.submit(
                        _answer, call, own, [self.chunks[place] for place in own], self.n_threads[owner],
                        workers=[owner], allow_other_workers=False, pure=False,
                    )
                    for owner, own in places.items()
                ]  # fmt: skip
            try:
                return self._result(lambda: self.client.gather(futures), futures, set(places))  # noqa: B023
            except _LostError as problem:
                lost = problem.__cause__
                self.client.cancel(futures)
                if interrupted():  # in a terminal, Ctrl-C ends the workers of a LocalCluster, too
                    raise KeyboardInterrupt from None
        raise NoWorkersError(
            f"Workers, or rows, were lost {MOST_TRIALS} times in one round (last: {lost}). Rows that were only "
            "scattered cannot be computed anew. Of workers that ended, logs may say why; often it is memory: use more "
            "of them, or smaller partitions."
        ) from lost

    # -- who is there -------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Give parts whose worker has gone to those with the fewest."""
        if all(owner in self.n_threads for owner in self.owners) and not self._doubt:
            return
        self.n_threads = living(self.client, self.patience)
        self._doubt = False
        loads = dict.fromkeys(self.n_threads, 0)
        for owner in self.owners:
            if owner in loads:
                loads[owner] += 1
        for place, owner in enumerate(self.owners):
            if owner not in loads:
                taker = min(loads, key=lambda address: loads[address])
                self.owners[place] = taker
                loads[taker] += 1
                self.chunks[place] = self._computed(place, None)

    def _result(self, gather: Any, futures: list[Future], needed: set[str] | None = None) -> Any:
        """What `gather` gives."""
        try:
            return self._watched(gather, futures, needed)
        except KeyboardInterrupt:  # the thread would wait on, and the process could not end
            self.client.cancel(futures, force=True)
            raise

    def _watched(self, gather: Any, futures: list[Future], needed: set[str] | None) -> Any:
        """While it waits, somebody looks at the workers: a task that is pinned to one that has gone would wait for
        ever."""
        box, alone_since = self._waiting.submit(gather), None
        while True:
            try:
                return box.result(timeout=LOOK)
            except NotYet:
                if box.done():  # it is the task's own
                    raise
                there = set(workers_of(self.client))
                if needed is not None and not needed <= there:
                    self._abandon()
                    raise _LostError from None
                alone_since = None if there else alone_since or time.monotonic()
                if alone_since and time.monotonic() - alone_since > self.patience:
                    self._abandon()
                    living(self.client, self.patience)
            except LOST as problem:
                self._doubt = True
                if needed is not None:
                    raise _LostError from problem
                raise NoWorkersError(f"Workers were lost while they loaded the rows: {problem}") from problem
            except PartitionError:
                raise
            except Exception as problem:
                if needed is None:  # the rows could not be computed
                    for place, future in enumerate(futures):
                        if future.status == "error":
                            raise PartitionError(f"Partition {place} cannot be computed: {problem}") from problem
                raise

    def _abandon(self) -> None:
        """Whoever waits for what never comes may do so for ever."""
        self._doubt = True
        self._waiting.shutdown(wait=False)
        self._waiting = ThreadPoolExecutor(1)

    def close(self) -> None:
        """Let the rows go."""
        self._waiting.shutdown(wait=False)
        for chunk in self.chunks:
            chunk.release()
        self.chunks, self.parts = [], []


class _LostError(Exception):
    """A round has to be asked again."""


def _answer(call: Call, places: list[int], chunks: list[Chunk], n_threads: int) -> list[tuple[Node, Any]]:
    return answer(call, list(zip(places, chunks, strict=True)), n_threads)


def _is_there(chunk: Chunk) -> bool:
    return chunk is not None


def is_placed(collection: Any) -> bool:
    """Whether its rows are on workers already."""
    return bool(futures_of(collection))
