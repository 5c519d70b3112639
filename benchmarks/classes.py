"""Coordinate and block descent on classes: the cost of an epoch beside one of the squared loss, and how soon it is far.

POLYFM_DATA=DIR OMP_NUM_THREADS=1 python benchmarks/classes.py [--data NAME ...] [--seconds 8] [--write FILE]
    [--against FILE]

`--write` keeps the curves in a file. `--against` reads those of another revision (PYTHONPATH says which is imported)
and shows both beside the best objective of either.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial

import data
import numpy as np
from solvers import problem

from polyfm.core.problem import Problem
from polyfm.solvers import make_solver
from polyfm.training.initial import initial_parameters

# The reader, the solvers and the penalty of the factors; one group against all others.
SETS: dict[str, tuple[Callable, tuple[str, ...], float]] = {
    "clicks": (partial(data.clicks, 60_000, 10, 400), ("cd", "block"), 5.0),
    "a9a": (data.a9a, ("cd", "block"), 5.0),
    "imdb": (data.imdb_classes, ("cd",), 1.0),
    "newsgroups": (partial(data.newsgroups, 20), ("cd",), 1.0),
}
PARTS = (0.1, 0.03, 0.01)  # above the best objective
RANK, ROUNDS = 10, 12


def started(task: Problem, solver: str):
    """A solver and its state after one epoch, so that all is compiled."""
    method = make_solver(solver)
    state = method.init_state(task, initial_parameters(task, np.random.RandomState(0), 0.1))
    method.update(task, state)
    return method, state


def epochs(X, y, solver: str, beta: float) -> list[float]:
    """Seconds of an epoch with the squared and the logistic loss: the least of several that take turns."""
    tasks = [problem(X, y, k=RANK, beta=beta, loss=loss) for loss in ("squared", "logistic")]
    runs = [(task, *started(task, solver), []) for task in tasks]
    for _ in range(ROUNDS):
        for task, method, state, times in runs:
            began = time.process_time()
            method.update(task, state)
            times.append(time.process_time() - began)
    return [min(times) for *_, times in runs]


def curve(X, y, solver: str, beta: float, seconds: float) -> tuple[list[float], list[float]]:
    """Seconds of the processor, and objectives, epoch by epoch."""
    task = problem(X, y, k=RANK, beta=beta, loss="logistic")
    started(task, solver)
    method = make_solver(solver)
    state = method.init_state(task, initial_parameters(task, np.random.RandomState(0), 0.1))
    times, values = [0.0], [method.objective(task, state)]
    while times[-1] < seconds:
        began = time.process_time()
        value = method.update(task, state)
        times.append(times[-1] + time.process_time() - began)
        values.append(values[-1] if value is None else value)
    return times, values


def reached(times, values, best: float) -> str:
    marks = [np.flatnonzero(np.asarray(values) <= (1 + part) * best) for part in PARTS]
    return ", ".join(f"{times[mark[0]]:.2f}" if len(mark) else "not" for mark in marks)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--write")
    parser.add_argument("--against")
    options = parser.parse_args()
    others = {}
    if options.against:
        with open(options.against) as file:
            others = json.load(file)
    curves = {}
    for name in options.data:
        load, solvers, beta = SETS[name]
        X, _, y, _ = load()
        y = np.where(y == y.max() if name != "newsgroups" else y == 0, 1.0, -1.0)
        for solver in solvers:
            squared, logistic = epochs(X, y, solver, beta)
            print(f"{name}, {solver}: an epoch {logistic:.4f} s, of the squared loss {squared:.4f} s", end="; ")
            print(f"{logistic / squared:.2f} times", flush=True)
            curves[f"{name}, {solver}"] = curve(X, y, solver, beta, options.seconds)
        cases = [f"{name}, {solver}" for solver in solvers]
        best = min(min(known[case][1]) for case in cases for known in (curves, others) if case in known)
        for case in cases:
            print(f"{case}: seconds to {PARTS} above {best:.6g}: {reached(*curves[case], best)}", end="")
            print(f"; in the other run {reached(*others[case], best)}" if case in others else "", flush=True)
    if options.write:
        with open(options.write, "w") as file:
            json.dump(curves, file)


if __name__ == "__main__":
    main()
