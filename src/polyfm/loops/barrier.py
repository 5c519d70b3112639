"""How loops on several threads wait for each other, and share out work, without going back to Python."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from polyfm.loops.jit import compiled, inline, overload

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
class Barrier(NamedTuple):
    """Where threads wait for each other: a tenth of a microsecond when both are ready, where handing each of them a new
    call takes a hundred. Beside it a counter of tickets from which they draw work, so that the faster one does more."""

    n_threads: int
    arrivals: np.ndarray  # (1,): how many times a thread has arrived
    end: np.ndarray  # (1,): not 0 when a thread failed and the others should return
    tickets: np.ndarray  # (1,): how many times a thread has drawn

    def wait(self):
        """Wait for all threads. False says to return at once: one of them will never come."""
        return True if self.n_threads == 1 else _wait(self.arrivals, self.end, self.n_threads)

    def draw(self):
        """The next of the numbers 0, 1, 2, ... that no thread has drawn yet."""
        return _count(self.tickets)


def barrier_of(n_threads: int) -> Barrier:
    return Barrier(n_threads, *(np.zeros(1, dtype=np.int64) for _ in range(3)))
