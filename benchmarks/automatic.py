"""What solver="auto" rests on for sparse data: block descent against coordinate descent, to the same objective.

POLYFM_DATA=DIR OMP_NUM_THREADS=1 python benchmarks/automatic.py [EPOCHS [CASE ...]]

Coordinate descent runs its epochs; block descent runs until it is as low, or has taken three times as long.
"""

import sys
import time
from functools import partial

import data
import numpy as np
from growth import clicks
from solvers import problem

from polyfm.solvers import BlockDescent, CoordinateDescent, automatic
from polyfm.training.initial import initial_parameters


def made_up(n: int, fields: int):
    X = clicks(n, fields)
    P = np.random.default_rng(1).standard_normal((X.shape[1], 5)) * 0.3
    Q = X @ P
    y = np.sum(Q**2 - X @ P**2, axis=1) + np.random.default_rng(2).standard_normal(n)
    return X, y


CASES = {
    "MovieLens 1M": lambda: data.movielens_1m()[::2],
    "Last.fm": lambda: data.lastfm()[::2],
    "a9a": lambda: data.a9a()[::2],
    "IMDB": lambda: data.imdb()[::2],
    **{f"clicks, {fields} fields": partial(made_up, 200_000, fields) for fields in (2, 3, 4, 6, 10)},
}


def seconds_to(solver, task, start, goal: float, most: float) -> tuple[int, float, float]:
    """Epochs, seconds and the objective reached when it is below the goal or the time is over."""
    solver.update(task, solver.init_state(task, start.copy()))  # compiles
    state, epochs, value, began = solver.init_state(task, start.copy()), 0, np.inf, time.perf_counter()
    while value > goal and time.perf_counter() - began < most:
        value = solver.update(task, state)
        epochs += 1
    return epochs, time.perf_counter() - began, value


def main(epochs: int, names: list[str]) -> None:
    for name in names:
        X, y = CASES[name]()
        y = y - y.mean()
        for k in (4, 10, 30):
            task = problem(X, y, k=k, beta=1.0)
            start = initial_parameters(task, np.random.RandomState(0), 0.1)
            cd = CoordinateDescent()
            cd.update(task, cd.init_state(task, start.copy()))  # compiles
            state, began = cd.init_state(task, start.copy()), time.perf_counter()
            for _ in range(epochs):
                goal = cd.update(task, state)
            seconds = time.perf_counter() - began
            taken, theirs, value = seconds_to(BlockDescent(), task, start, goal, 3 * seconds)
            end = f"{theirs / seconds:.2f}" if value <= goal else "not reached"
            print(
                f"{name}, k = {k}, {X.nnz / X.shape[0]:.0f} non-zeros a row: {epochs} epochs of cd {seconds:.2f} s; "
                f"block {taken} epochs, {theirs:.2f} s: {end}; auto takes {automatic(task.model, task.design)}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 10, sys.argv[2:] or list(CASES))
