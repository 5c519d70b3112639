"""Threads over loops that release the GIL, and how loops on several threads wait for each other."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic, overload

from polyfm.loops.jit import compiled, inline

T = TypeVar("T")
WORTH_A_BLOCK = 8  # rows a number: with fewer, to clear and add up its sums takes as long as to compute them
PATIENCE = 2000  # looks at the others' progress, some microseconds, before the processor is offered to somebody else


def _count(numbers):
    """numbers[0]++, which loops on several threads can do at the same time."""
    numbers[0] += 1
    return numbers[0] - 1


def _read(numbers):
    """numbers[0], as other threads have left it."""
    return numbers[0]


def _atomic(function: Callable, instruction: Callable) -> None:
    """Compile a function of an array of int64 to an instruction that no other thread can come in between."""

    def generator(typing, numbers):
        def generate(context, builder, signature, arguments):
            return instruction(builder, context.make_array(numbers)(context, builder, arguments[0]).data)

        return types.int64(numbers), generate

    operation: Any = intrinsic(generator)
    overload(function)(lambda numbers: lambda numbers: operation(numbers))


_atomic(_count, lambda builder, place: builder.atomic_rmw("add", place, ir.IntType(64)(1), "seq_cst"))
_atomic(_read, lambda builder, place: builder.load_atomic(place, "acquire", 8))

_give_way: Any = inline(lambda: 0)
if hasattr(os, "sched_yield"):
    _give_way = types.ExternalFunction("sched_yield", types.int32())


@inline
def _wait(arrivals, end, n_threads):
    """Arrive, and look until all have arrived, or `end` says that somebody will not."""
    goal = (_count(arrivals) // n_threads + 1) * n_threads
    looks = 0
    while _read(arrivals) < goal:
        if _read(end) != 0:
            return False
        looks += 1
        if looks > PATIENCE:
            _give_way()
    return True


@compiled
class Meeting(NamedTuple):
    """Where loops on several threads wait for each other: a microsecond, where handing each of them a new call takes
    a hundred."""

    n_threads: int
    arrivals: np.ndarray  # one number: how many times a thread has arrived
    end: np.ndarray  # one number: not 0 when a thread failed and the others should return
    drawn: np.ndarray  # one number: how many times a thread has drawn

    def attend(self):
        """Wait for all threads. False says to return at once: one of them will never come."""
        return True if self.n_threads == 1 else _wait(self.arrivals, self.end, self.n_threads)

    def draw(self):
        """The next of the numbers 0, 1, 2, ... that no thread has drawn yet: who is faster does more of the work."""
        return _count(self.drawn)


def meeting_of(n_threads: int) -> Meeting:
    return Meeting(n_threads, *(np.zeros(1, dtype=np.int64) for _ in range(3)))


class Team:
    """A number of threads, the calling one among them: they share out calls (`run`), or each calls a loop that waits
    for the others on its way (`meet`). Loops that are not compiled have but one: Python's counting can be interrupted.
    """

    def __init__(self, n_threads: int):
        n_threads = 1 if config.DISABLE_JIT else n_threads  # type: ignore[attr-defined]  # set when numba starts
        self.n_threads = n_threads
        self._pool = ThreadPoolExecutor(n_threads - 1) if n_threads > 1 else None

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, *exception) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def run(self, task: Callable[..., None], shares: Iterable[tuple]) -> None:
        """task(*share) for each share, at the same time; returns when all are done."""
        if self._pool is None:
            for share in shares:
                task(*share)
            return
        first, *others = shares
        waiting = [self._pool.submit(task, *share) for share in others]
        task(*first)
        for future in waiting:
            future.result()

    def meet(self, task: Callable[[int, Meeting], None]) -> None:
        """task(me, meeting) for each thread's number `me`: loops that wait for each other on their way."""
        meeting = meeting_of(self.n_threads)

        def take_part(me: int) -> None:
            try:
                if meeting.end[0] == 0:
                    task(me, meeting)
            except BaseException:
                meeting.end[0] = 1
                raise

        waiting: list[Future] = []
        try:
            if self._pool is not None:
                waiting.extend(self._pool.submit(take_part, me) for me in range(1, self.n_threads))
            take_part(0)
        except BaseException:
            meeting.end[0] = 1
            raise
        for future in waiting:
            future.result()


def row_blocks(n_rows: int, n_numbers: int, visits: float) -> np.ndarray:
    """Bounds of blocks of rows that each add up `n_numbers` of their own, of which a number is added to by `visits`
    rows. There are enough blocks for a few threads, unless their sums take much memory, or more time than their rows.
    How many depends on the problem alone: so do sums of blocks that are added in order."""
    n_blocks = max(1, min(4, n_rows // 1000, 2**27 // max(n_numbers, 1), int(visits / WORTH_A_BLOCK)))
    return np.linspace(0, n_rows, n_blocks + 1).astype(np.int64)


def in_order(task: Callable[[int], T], n: int, n_threads: int) -> list[T]:
    """task(0), task(1), ..., task(n - 1)."""
    if n_threads == 1 or n == 1:
        return [task(i) for i in range(n)]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(task, range(n)))
