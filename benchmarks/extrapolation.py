"""Coordinate descent with and without extrapolation: epochs and CPU seconds to parts of the best objective.

POLYFM_DATA=DIR OMP_NUM_THREADS=1 python benchmarks/extrapolation.py
"""

import time
from functools import partial

import data
import numpy as np
from solvers import problem

from polyfm.solvers import CoordinateDescent, parabolas
from polyfm.training.initial import initial_parameters

# The reader, the loss, rank and penalty of the factors, epochs.
SETS = {
    "clicks": (partial(data.clicks, 60_000, 10, 400), "logistic", 10, 5.0, 400),
    "a9a": (data.a9a, "logistic", 10, 5.0, 300),
    "IMDB": (data.imdb_classes, "logistic", 10, 1.0, 50),
    "abalone": (partial(data.dense, "abalone"), "squared", 10, 1.0, 400),
    "cadata": (partial(data.dense, "cadata"), "squared", 10, 1.0, 300),
    "MovieLens 100K": (data.movielens_100k, "squared", 10, 5.0, 60),
    "MovieLens 1M": (data.movielens_1m, "squared", 30, 10.0, 30),
}
PARTS = (0.03, 0.01, 0.001)  # above the best objective of both
WAYS = {"without": 10**9, "with": parabolas.STEPS}


def main() -> None:
    for name, (load, loss, rank, beta, epochs) in SETS.items():
        X, _, y, _ = load()
        y = np.where(y == y.max(), 1.0, -1.0) if loss == "logistic" else y
        task, method = problem(X, y, k=rank, beta=beta, loss=loss), CoordinateDescent()
        start = initial_parameters(task, np.random.RandomState(0), 0.1)
        method.update(task, method.init_state(task, start.copy()))  # compiles
        states = {way: method.init_state(task, start.copy()) for way in WAYS}
        times, values = ({way: [] for way in WAYS} for _ in range(2))
        for _ in range(epochs):
            for way, parabolas.STEPS in WAYS.items():
                began = time.process_time()
                values[way].append(method.update(task, states[way]))
                times[way].append(time.process_time() - began)
        best = min(min(course) for course in values.values())
        for way in WAYS:
            marks = [np.flatnonzero(np.array(values[way]) <= (1 + part) * best)[:1] for part in PARTS]
            cells = [f"{m[0] + 1} ({sum(times[way][: m[0] + 1]):.2f} s)" if len(m) else "-" for m in marks]
            print(f"{name:<15} {way:<8} " + " ".join(f"{cell:>14}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
