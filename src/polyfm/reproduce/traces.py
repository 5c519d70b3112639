"""Objectives against time: one run of a solver on a problem, watched by a clock."""

import time
from itertools import pairwise
from typing import Any

from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.reproduce.experiment import Row
from polyfm.solvers import Monitor, Solver, run

FOREVER = 1_000_000
# What a table keeps: the epochs 0, 1, 2, 3, 4, 6, 10, 16, 25, 40, 63, 100, ..., and the first within 10% and 2%.
EPOCHS, NEAR = {0, *(round(10 ** (i / 5)) for i in range(31))}, (0.1, 0.02)


class Clock:
    """A hook that notes when each epoch ended, and stops when the time is up."""

    def __init__(self, seconds: float):
        self.limit, self.times = seconds, [0.0]
        self.began = time.perf_counter()

    def __call__(self, monitor: Monitor, state: Any) -> bool:
        self.times.append(time.perf_counter() - self.began)
        return self.times[-1] >= self.limit


def trace(
    solver: Solver, problem: Problem, start: Parameters, *, epochs: int = FOREVER, seconds: float = float("inf")
) -> list[Row]:
    """The objective at the start and after each epoch. All is compiled, and X laid out, before the clock starts."""
    run(solver, problem, start, max_iter=1, tol=-1.0)
    clock = Clock(seconds)
    result = run(solver, problem, start, max_iter=epochs, tol=-1.0, hooks=(clock,))
    objectives = [problem.objective(start), *result.history.tolist()]
    # A solver that finds no better point may add an objective that no epoch has led to; it is left out.
    return [
        {"epoch": epoch, "seconds": seconds, "objective": objective}
        for epoch, (seconds, objective) in enumerate(zip(clock.times, objectives, strict=False))
    ]


def normalised(rows: list[Row], of: tuple[str, ...]) -> list[Row]:
    """Objectives relative to the worst start among the runs that share the coordinates `of`."""
    worst: dict[tuple, float] = {}
    for row in rows:
        if row["epoch"] == 0:
            group = tuple(row[name] for name in of)
            worst[group] = max(worst.get(group, 0.0), row["objective"])
    return [{**row, "relative_objective": row["objective"] / worst[tuple(row[name] for name in of)]} for row in rows]


def thinned(rows: list[Row]) -> list[Row]:
    """What a table keeps of runs, one after the other: epochs ever further apart, those that come near the lowest
    objective that any run has with the same kernel, and the last of each run; six digits of each number."""
    lowest: dict[str, float] = {}
    for row in rows:
        lowest[row["kernel"]] = min(lowest.get(row["kernel"], row["objective"]), row["objective"])
    kept, goals = [], []
    for row, after in pairwise([*rows, {"epoch": 0}]):
        if row["epoch"] == 0:
            goals = [lowest[row["kernel"]] * (1 + part) for part in NEAR]
        ahead = [goal for goal in goals if row["objective"] > goal]
        if row["epoch"] in EPOCHS or after["epoch"] == 0 or len(ahead) < len(goals):
            kept.append({k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in row.items()})
        goals = ahead
    return kept
