"""MovieLens 1M at rank 30: coordinate descent on one and two threads, and block descent against its 30 epochs.

POLYFM_DATA=DIR OMP_NUM_THREADS=1 python benchmarks/threads.py [BETA ...]
"""

import sys
import time
from collections.abc import Callable
from functools import partial

import data
import numpy as np
from solvers import problem

from polyfm.initial import initial_parameters
from polyfm.solvers import BlockDescent, CoordinateDescent
from polyfm.threads import Team

EPOCHS = 30


def halves(X, y, beta: float) -> list[Callable[[], float]]:
    """An epoch on either half of the rows, each a problem of its own: what two threads gain where nothing is shared and
    nobody waits is what the machine has to give."""
    solver, middle = CoordinateDescent(), len(y) // 2
    epochs = []
    for rows in (slice(middle), slice(middle, None)):
        task = problem(X[rows], y[rows], k=30, beta=beta)
        state = solver.init_state(task, initial_parameters(task, np.random.RandomState(0), 0.1))
        epochs.append(partial(solver.update, task, state))
    return epochs


def seconds_of(epochs: list[Callable[[], float]], n_threads: int) -> float:
    with Team(n_threads) as team:
        began = time.perf_counter()
        team.run(lambda epoch: epoch(), [(epoch,) for epoch in epochs])
        return time.perf_counter() - began


def gain(one: list[float], two: list[float]) -> str:
    """How many times faster two threads are, by the fastest and by the median of neighbouring runs."""
    pairs = np.array(one) / np.array(two)
    return f"{min(one) / min(two):.2f} (median {np.median(pairs):.2f}) times faster"


def myfm_seconds(X, y, iterations: int = EPOCHS) -> float | None:
    """Seconds of as many Gibbs iterations of myfm, or None where it is not installed."""
    try:
        import myfm
    except ImportError:
        return None
    times: list[float] = []

    def note(*_) -> tuple[bool, str]:
        times.append(time.perf_counter())
        return False, ""

    model = myfm.MyFMRegressor(rank=30, random_seed=0)
    model.fit(X, y, n_iter=iterations + 1, callback=note)
    return times[-1] - times[0]


def main(betas: list[float]) -> None:
    X, _, y, _ = data.movielens_1m()
    theirs = myfm_seconds(X, y)
    if theirs is not None:
        print(f"myfm, {EPOCHS} Gibbs iterations: {theirs:.1f} s")
    for beta in betas:
        task = problem(X, y, k=30, beta=beta)
        start = initial_parameters(task, np.random.RandomState(0), 0.1)
        one, two = CoordinateDescent(), CoordinateDescent(n_threads=2)
        for solver in (one, two):
            solver.update(task, solver.init_state(task, start.copy()))  # compiles
        apart = halves(X, y, beta)
        states = [solver.init_state(task, start.copy()) for solver in (one, two)]
        times: tuple[list[float], list[float]] = ([], [])
        yardstick: tuple[list[float], list[float]] = ([], [])
        for _ in range(EPOCHS):
            values = []
            for n_threads, seconds in zip((1, 2), yardstick, strict=True):
                seconds.append(seconds_of(apart, n_threads))
            for solver, state, seconds in zip((one, two), states, times, strict=True):
                began = time.perf_counter()
                values.append(solver.update(task, state))
                seconds.append(time.perf_counter() - began)
            assert values[0] == values[1], "threads changed the result"
        goal, whole = values[0], sum(times[0])
        print(
            f"beta = {beta:g}: an epoch {min(times[0]):.3f} s, on two threads {min(times[1]):.3f} s, "
            f"{gain(*times)}; two halves apart {gain(*yardstick)}; {EPOCHS} epochs {whole:.2f} s to {goal:.0f}"
        )
        for n_threads in (1, 2):
            solver = BlockDescent(n_threads=n_threads)
            solver.update(task, solver.init_state(task, start.copy()))  # compiles
            began = time.perf_counter()
            state, epochs = solver.init_state(task, start.copy()), 1
            while solver.update(task, state) > goal:
                epochs += 1
            seconds = time.perf_counter() - began
            share = "" if theirs is None else f", {seconds / theirs:.3f} of myfm's time"
            print(
                f"  block descent, {n_threads} thread(s): {epochs} epochs, {seconds:.2f} s, {seconds / whole:.2f} of "
                f"coordinate descent's time on one{share}",
                flush=True,
            )


if __name__ == "__main__":
    main([float(beta) for beta in sys.argv[1:]] or [1.0, 4.0, 10.0])
