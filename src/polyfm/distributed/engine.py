"""Engines: how a method is called on every part, and what comes back."""

import pickle
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import scipy.sparse as sp

try:  # which every cluster has; without it, classes that no module has stay in this process
    import cloudpickle
except ImportError:
    cloudpickle = pickle

from polyfm.core.threads import in_order
from polyfm.distributed.chunk import Chunk
from polyfm.distributed.tree import Node, Tree


class Sent:
    """Something small that is the same in many calls. Whoever receives it often has but one copy of it: a loss of a
    user's own is compiled once in a process."""

    def __init__(self, value: Any):
        self.value = value
        self._bytes: bytes | None = None

    def __reduce__(self):
        if self._bytes is None:
            self._bytes = cloudpickle.dumps(self.value)
        return _received, (self._bytes,)


@lru_cache(32)
def _received(data: bytes) -> Sent:
    return Sent(pickle.loads(data))


class Call(NamedTuple):
    """A method of `Chunk` with its arguments, and how the answers of parts are merged (`tree.MERGES`)."""

    method: str
    arguments: tuple
    merge: str
    n_leaves: int


class PartitionError(ValueError):
    """A part of the rows is not as it should be; the message names it."""


def answer(call: Call, chunks: Sequence[tuple[int, Chunk]], n_threads: int = 1) -> list[tuple[Node, Any]]:
    """What a worker has to say, which has these chunks, each with its place among all."""
    tree = Tree(call.n_leaves, call.merge)

    def ask(which: int) -> Any:
        place, chunk = chunks[which]
        try:
            found = getattr(chunk, call.method)(*call.arguments)
        except PartitionError:
            raise
        except Exception as problem:
            kind = PartitionError if isinstance(problem, (ValueError, TypeError)) else RuntimeError
            raise kind(f"Partition {chunk.index}: {problem}") from problem
        return {place: found} if call.merge == "each" else found

    for first in range(0, len(chunks), n_threads):  # a few at a time: what is added up is let go
        which = range(first, min(first + n_threads, len(chunks)))
        found = in_order(lambda i: ask(first + i), len(which), n_threads)  # noqa: B023  # called at once
        tree.put_all(((0, chunks[i][0]), value) for i, value in zip(which, found, strict=True))
    return list(tree.waiting.items())


def nbytes(value: Any) -> int:
    """Of all arrays in tuples, lists and dicts; the rest is small."""
    if isinstance(value, (tuple, list)):
        return sum(map(nbytes, value))
    if isinstance(value, dict):
        return sum(map(nbytes, value.values()))
    if sp.issparse(value):
        return value.data.nbytes + value.indices.nbytes + value.indptr.nbytes
    return getattr(value, "nbytes", 8)


@dataclass
class Traffic:
    """What calls have taken so far."""

    rounds: int = 0
    seconds: float = 0.0
    sent: int = 0  # bytes
    received: int = 0


class Engine:
    """Calls methods of `Chunk` on all parts. Subclasses say where these are.

    A call has all that a worker needs beside its rows. So it does not matter which worker answers for which part, nor
    whether it has ever been asked before: what a lost worker should have said, another one says.
    """

    n_parts: int

    def __init__(self) -> None:
        self.traffic = Traffic()

    def __call__(self, method: str, *arguments: Any, merge: str = "sum") -> Any:
        """What the method gives for all parts together."""
        began = time.perf_counter()
        tree = Tree(self.n_parts, merge)
        for nodes in self.answers(Call(method, arguments, merge, self.n_parts)):
            self.traffic.received += nbytes(nodes)
            tree.put_all(nodes)
        self.traffic.rounds += 1
        self.traffic.sent += nbytes(arguments) * self.n_workers
        self.traffic.seconds += time.perf_counter() - began
        return tree.root

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """What the method gives, by part."""
        found = self(method, *arguments, merge="each")
        return [found[place] for place in range(self.n_parts)]

    def keep(self, places: list[int]) -> None:
        """Ask these parts alone from now on."""
        raise NotImplementedError

    def answers(self, call: Call) -> Iterable[list[tuple[Node, Any]]]:
        """What the workers have to say, in any order."""
        raise NotImplementedError

    @property
    def n_workers(self) -> int:
        return 1


class InProcess(Engine):
    """All parts in this process, shared out among `n_workers` that are none: for tests, and to see what a cut into
    parts does. `sent` is applied to calls and answers, as by a network."""

    def __init__(self, chunks: Iterable[Chunk], n_workers: int = 1, sent: Callable[[Any], Any] = lambda value: value):
        super().__init__()
        self.chunks, self._n_workers, self.sent = list(chunks), n_workers, sent
        self.n_parts = len(self.chunks)

    def keep(self, places: list[int]) -> None:
        self.chunks = [self.chunks[place] for place in places]
        self.n_parts = len(self.chunks)

    def answers(self, call: Call) -> Iterable[list[tuple[Node, Any]]]:
        parts = list(enumerate(self.chunks))
        for worker in range(self._n_workers):
            yield self.sent(answer(self.sent(call), parts[worker :: self._n_workers]))

    @property
    def n_workers(self) -> int:
        return self._n_workers
