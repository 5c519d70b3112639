"""Coordinate descent on text: columns in turns, on one thread and on two, against one column after the other.

POLYFM_DATA=DIR OMP_NUM_THREADS=1 python benchmarks/turns.py [imdb newsgroups stars] [--epochs 20]

Wall seconds; epochs of all three take turns. Rank 10.
"""

import argparse
import time
from functools import partial

import data
import numpy as np
from solvers import problem

from polyfm.solvers import CoordinateDescent, schedule
from polyfm.training.initial import initial_parameters

# The reader, the loss, and the penalty of the factors; of the newsgroups one is told from the others.
SETS = {
    "imdb": (data.imdb_classes, "logistic", 4.0),
    "newsgroups": (partial(data.newsgroups, 20), "logistic", 1.0),
    "stars": (data.imdb, "squared", 5.0),
}
CONTESTANTS = {"one after the other": 1, "in turns": 1, "in turns, two threads": 2}


def main(names: list[str], epochs: int) -> None:
    usual = schedule.NONZEROS_WORTH_TURNS
    for name in names:
        read, loss, beta = SETS[name]
        X, _, y, _ = read()
        y = np.where(y == y.max(), 1.0, -1.0) if loss == "logistic" else y
        runs = []
        for contestant, n_threads in CONTESTANTS.items():
            schedule.NONZEROS_WORTH_TURNS = np.inf if contestant == "one after the other" else usual
            task, solver = problem(X, y, k=10, beta=beta, loss=loss), CoordinateDescent(n_threads=n_threads)
            solver.update(task, solver.init_state(task, initial_parameters(task, np.random.RandomState(0), 0.1)))
            state = solver.init_state(task, initial_parameters(task, np.random.RandomState(0), 0.1))
            runs.append((task, solver, state))
        seconds, values = np.empty((3, epochs)), np.empty((3, epochs))
        for epoch in range(epochs):
            for r, (task, solver, state) in enumerate(runs):
                began = time.perf_counter()
                values[r, epoch] = solver.update(task, state)
                seconds[r, epoch] = time.perf_counter() - began
        assert np.array_equal(values[1], values[2]), "threads changed the result"
        assert np.all(np.diff(values) <= 0), "an objective rose"
        best = values.min()
        for r, contestant in enumerate(CONTESTANTS):
            near = int(np.argmax(values[r] <= 1.01 * best)) + 1
            reached = f"{near} epochs, {np.median(seconds[r]) * near:.2f} s" if values[r, -1] <= 1.01 * best else "-"
            print(
                f"{name}, {contestant}: an epoch {seconds[r].min():.3f} s ({np.median(seconds[r]):.3f}), median share "
                f"of the first's {np.median(seconds[r] / seconds[0]):.2f}; to 1% of the best of all epochs {reached}",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(SETS))
    parser.add_argument("--epochs", type=int, default=20)
    given = parser.parse_args()
    main(given.names, given.epochs)
