"""Threads over loops that release the GIL."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import TypeVar

import numpy as np
from numba import config
from threadpoolctl import ThreadpoolController

from polyfm.loops.barrier import Barrier, barrier_of

T = TypeVar("T")
ROWS_WORTH_A_SUM = 8  # rows a number: with fewer, to clear and add up its sums takes as long as to compute them


_libraries = cache(lambda: ThreadpoolController())  # to look for them takes milliseconds


def one_thread_of_blas() -> AbstractContextManager:
    """For the same bits on any machine; and products that are small, or run in threads of our own, would wait."""
    return _libraries().limit(limits=1, user_api="blas")


class Team:
    """A number of threads, the calling one among them: they share out calls (`run`), or each calls a loop that waits
    for the others on its way (`together`). Loops that are not compiled have but one: Python's counting can be
    interrupted.
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

    def together(self, task: Callable[[int, Barrier], None]) -> None:
        """task(me, barrier) for each thread's number `me`: loops that wait for each other on their way."""
        barrier = barrier_of(self.n_threads)

        def take_part(me: int) -> None:
            try:
                if barrier.end[0] == 0:
                    task(me, barrier)
            except BaseException:
                barrier.end[0] = 1
                raise

        waiting: list[Future] = []
        try:
            if self._pool is not None:
                waiting.extend(self._pool.submit(take_part, me) for me in range(1, self.n_threads))
            take_part(0)
        except BaseException:
            barrier.end[0] = 1
            raise
        for future in waiting:
            future.result()


def row_blocks(n_rows: int, n_numbers: int, visits: float) -> np.ndarray:
    """Bounds of blocks of rows that each add up `n_numbers` of their own, of which a number is added to by `visits`
    rows. There are enough blocks for a few threads, unless their sums take much memory, or more time than their rows.
    How many depends on the problem alone: so do sums of blocks that are added in order."""
    n_blocks = max(1, min(4, n_rows // 1000, 2**27 // max(n_numbers, 1), int(visits / ROWS_WORTH_A_SUM)))
    return np.linspace(0, n_rows, n_blocks + 1).astype(np.int64)


def in_order(task: Callable[[int], T], n: int, n_threads: int) -> list[T]:
    """task(0), task(1), ..., task(n - 1)."""
    if n_threads == 1 or n == 1:
        return [task(i) for i in range(n)]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(task, range(n)))
