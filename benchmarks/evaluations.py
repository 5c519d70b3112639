"""L-BFGS on sparse data, with its metric and without: evaluations of the objective to 5%, 1% and 0.1% of the best.

POLYFM_DATA=DIR python benchmarks/evaluations.py [--data NAME ...] [--most 250]
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import data
import numpy as np
from solvers import problem

from polyfm.core.problem import Problem
from polyfm.solvers import LBFGS, lbfgs, run
from polyfm.training.initial import initial_parameters

SETS: dict[str, tuple[Callable, dict[str, Any]]] = {
    "movielens-1m": (data.movielens_1m, {"k": 16, "beta": 10.0}),
    "movielens-100k": (data.movielens_100k, {"k": 8, "beta": 5.0}),
    "lastfm": (data.lastfm, {"k": 10, "beta": 30.0}),
    "clicks": (partial(data.clicks, 100_000, 20, 1000), {"k": 8, "beta": 5.0, "loss": "logistic"}),
    "a9a": (data.a9a, {"k": 10, "beta": 5.0, "loss": "logistic"}),
    "imdb-classes": (data.imdb_classes, {"k": 10, "beta": 1.0, "loss": "logistic"}),
    "imdb": (data.imdb, {"k": 10, "beta": 5.0}),
}
PARTS = (0.05, 0.01, 0.001)


class Counted(Problem):
    """A problem that notes its values."""

    def value_and_gradient(self, *arguments):
        value, gradient = super().value_and_gradient(*arguments)
        VALUES.append(value)
        return value, gradient


VALUES: list[float] = []


def trace(task: Problem, most: int) -> tuple[np.ndarray, float]:
    """The best objective after each evaluation, and the processor's seconds."""
    VALUES.clear()
    counted = Counted(**{name: getattr(task, name) for name in task.__dataclass_fields__})
    start = initial_parameters(task, np.random.RandomState(0), 0.1)
    began = time.process_time()
    run(LBFGS(), counted, start, max_iter=10**6, tol=-1.0, hooks=(lambda monitor, state: len(VALUES) >= most,))
    return np.minimum.accumulate(VALUES), time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--most", type=int, default=250)
    options = parser.parse_args()
    renewals = lbfgs.RENEWALS
    for name in options.data:
        load, settings = SETS[name]
        X, _, y, _ = load()
        y = np.where(y > 0, 1.0, -1.0) if settings.get("loss") == "logistic" else y
        task = problem(X, y, **settings)
        found = {}
        for kind, times in (("compile", renewals), ("metric", renewals), ("plain", ())):
            lbfgs.RENEWALS = times
            found[kind] = trace(task, 1 if kind == "compile" else options.most)
        best = min(values[-1] for values, _ in found.values())
        print(f"{name}: the best objective is {best:.6g}")
        for kind in ("plain", "metric"):
            values, seconds = found[kind]
            marks = [np.flatnonzero(values <= (1 + part) * best) for part in PARTS]
            counts = ", ".join(str(mark[0] + 1) if len(mark) else "-" for mark in marks)
            print(f"  {kind}: {counts} evaluations; {len(values)} took {seconds:.2f} s of the processor", flush=True)


if __name__ == "__main__":
    main()
