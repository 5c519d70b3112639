"""Threads over loops that release the GIL."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor


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
