"""Threads over loops that release the GIL."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

T = TypeVar("T")
WORTH_A_BLOCK = 8  # rows a number: with fewer, to clear and add up its sums takes as long as to compute them


class Team:
    """A number of threads that share out calls; the calling thread is one of them."""

    def __init__(self, n_threads: int):
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
