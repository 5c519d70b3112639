"""MovieLens 1M at rank 30: coordinate descent on one and two threads, and block descent against its 30 epochs.

POLYFM_DATA=DIR OMP_NUM_THREADS=1 python benchmarks/threads.py [BETA ...]
POLYFM_DATA=DIR OMP_NUM_THREADS=1 python benchmarks/threads.py gradients

The second: the objective and its gradient, as L-BFGS asks for them.
"""

import sys
import time
from collections.abc import Callable
from functools import partial

import data
import numpy as np
from solvers import problem

from polyfm.core.threads import Team
from polyfm.solvers import LBFGS, BlockDescent, CoordinateDescent
from polyfm.training.initial import initial_parameters

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


def gain(one: np.ndarray, two: np.ndarray) -> str:
    """How many times faster two threads are, by the fastest and by the median of neighbouring runs."""
    return f"{one.min() / two.min():.2f} (median {np.median(one / two):.2f}) times faster"


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
        solvers = CoordinateDescent(), CoordinateDescent(n_threads=2), BlockDescent(), BlockDescent(n_threads=2)
        for solver in solvers:
            solver.update(task, solver.init_state(task, start.copy()))  # compiles
        apart = halves(X, y, beta)
        states = [solver.init_state(task, start.copy()) for solver in solvers]
        seconds, values = np.empty((4, EPOCHS)), np.empty((4, EPOCHS))
        yardstick = np.empty((2, EPOCHS))
        for epoch in range(EPOCHS):  # in turns, so that all of them meet the same moods of the machine
            for n_threads in (1, 2):
                yardstick[n_threads - 1, epoch] = seconds_of(apart, n_threads)
            for s, (solver, state) in enumerate(zip(solvers, states, strict=True)):
                began = time.perf_counter()
                values[s, epoch] = solver.update(task, state)
                seconds[s, epoch] = time.perf_counter() - began
        assert np.array_equal(values[0], values[1]), "threads changed the result"
        assert np.array_equal(values[2], values[3]), "threads changed the result"
        goal, whole = values[0, -1], seconds[0].sum()
        print(
            f"beta = {beta:g}: an epoch {seconds[0].min():.3f} s, on two threads {seconds[1].min():.3f} s, "
            f"{gain(*seconds[:2])}; two halves apart {gain(*yardstick)}; {EPOCHS} epochs {whole:.2f} s to {goal:.0f}"
        )
        epochs = int(np.argmax(values[2] <= goal)) + 1
        for n_threads, times in zip((1, 2), seconds[2:], strict=True):
            needed, by_fastest = times[:epochs].sum(), epochs * times.min() / (EPOCHS * seconds[0].min())
            share = "" if theirs is None else f", {needed / theirs:.3f} of myfm's time"
            print(
                f"  block descent, {n_threads} thread(s): {epochs} epochs, {needed:.2f} s, {needed / whole:.2f} of "
                f"coordinate descent's time on one (by the fastest epochs {by_fastest:.2f}){share}",
                flush=True,
            )


def gradients() -> None:
    sets = {
        "MovieLens 1M, k = 30": (data.movielens_1m, 30, "squared"),
        "IMDB, k = 10": (data.imdb_classes, 10, "logistic"),
        "a9a, k = 10": (data.a9a, 10, "logistic"),
        "clicks, 900,000 rows, k = 8": (data.clicks, 8, "logistic"),
        "cadata, k = 10": (partial(data.dense, "cadata"), 10, "squared"),
    }
    for name, (load, rank, loss) in sets.items():
        X, _, y, _ = load()
        y = np.where(y == y.max(), 1.0, -1.0) if loss == "logistic" else y
        task = problem(X, y, k=rank, loss=loss, rows=LBFGS.row_order)
        point, seconds = initial_parameters(task, np.random.RandomState(0), 0.1), np.empty((2, EPOCHS))
        found = [task.value_and_gradient(point, n_threads) for n_threads in (1, 2)]  # compiles
        assert found[0][0] == found[1][0], "threads changed the result"
        for turn in range(EPOCHS):
            for n_threads in (1, 2):
                began = time.perf_counter()
                task.value_and_gradient(point, n_threads)
                seconds[n_threads - 1, turn] = time.perf_counter() - began
        print(f"{name:<28} {1e3 * seconds[0].min():7.2f} ms, two threads {gain(*seconds)}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["gradients"]:
        sys.exit(gradients())
    main([float(beta) for beta in sys.argv[1:]] or [1.0, 4.0, 10.0])
