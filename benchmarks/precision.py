"""Single against double precision: seconds of an epoch, and how far the objective is off.

python benchmarks/precision.py [ROWS]   (of the made-up log of clicks in growth.py; default 3,000,000)
"""

import sys
import time

import numpy as np
from growth import clicks
from solvers import problem

from polyfm.initial import initial_parameters
from polyfm.solvers import make_solver


def main(n: int = 3_000_000, epochs: int = 4) -> None:
    X = clicks(n)
    y = np.random.default_rng(1).standard_normal(n)
    weights = np.random.default_rng(2).uniform(0.5, 1.5, X.nnz)
    for kind in ("ones", "real values"):
        if kind == "real values":
            X.data[:] = weights
        for name in ("cd", "lbfgs"):
            times: dict = {np.float64: [], np.float32: []}
            ends = {}
            tasks = {dtype: problem(X.astype(dtype), y.astype(dtype), k=8, lower=None) for dtype in times}
            solvers = {dtype: make_solver(name) for dtype in times}
            start = initial_parameters(tasks[np.float64], np.random.RandomState(0), 0.1)
            states = {dtype: solvers[dtype].init_state(tasks[dtype], start.copy(dtype)) for dtype in times}
            for _ in range(epochs + 1):
                for dtype, task in tasks.items():
                    began = time.perf_counter()
                    if name == "cd":
                        ends[dtype] = solvers[dtype].update(task, states[dtype])
                    else:
                        ends[dtype] = task.value_and_gradient(states[dtype].parameters)[0]
                    times[dtype].append(time.perf_counter() - began)
            double, single = (min(times[dtype][1:]) for dtype in times)
            off = abs(ends[np.float32] / ends[np.float64] - 1)
            what = "an epoch of cd" if name == "cd" else "value and gradient"
            print(
                f"{kind}, {what}: double {double:.3f} s, single {single:.3f} s, {double / single:.2f} times faster; "
                f"objective off by {off:.1e}",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
