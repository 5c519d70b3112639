"""Single against double precision: seconds of an epoch, and how far the objective is off.

python benchmarks/precision.py [ROWS]   (of a dense table; the made-up log of clicks has three times as many; 1,000,000)
"""

import sys
import time

import numpy as np
from growth import clicks
from solvers import problem

from polyfm.solvers import make_solver
from polyfm.training.initial import initial_parameters

EPOCHS = 5  # the least of their times counts
DENSE = {
    "A^2": {"k": 4},
    "lifted H^2": {"k": 4, "kernel": "homogeneous", "method": "lifted"},
    "lifted H^3": {"k": 2, "kernel": "homogeneous", "method": "lifted", "degree": 3},
    "A^3": {"k": 2, "degree": 3},
    "lifted A^3": {"k": 2, "method": "lifted", "degree": 3},
}


def compare(what: str, X, y, solver: str, **options) -> None:
    """One line: the least times of alternating epochs (of L-BFGS: evaluations) in both precisions."""
    times: dict = {np.float64: [], np.float32: []}
    ends = {}
    tasks = {dtype: problem(X.astype(dtype), y.astype(dtype), lower=None, **options) for dtype in times}
    start = initial_parameters(tasks[np.float64], np.random.RandomState(0), 0.1)
    states = {dtype: make_solver(solver).init_state(task, start.copy(dtype)) for dtype, task in tasks.items()}
    for _ in range(EPOCHS):
        for dtype, task in tasks.items():
            began = time.perf_counter()
            if solver == "cd":
                ends[dtype] = make_solver(solver).update(task, states[dtype])
            else:
                ends[dtype] = task.value_and_gradient(states[dtype].parameters)[0]
            times[dtype].append(time.perf_counter() - began)
    double, single = (min(times[dtype][1:]) for dtype in times)
    off = abs(ends[np.float32] / ends[np.float64] - 1)
    print(
        f"{what:<42} double {double:.3f} s, single {single:.3f} s, {double / single:.2f} times faster; "
        f"objective off by {off:.1e}",
        flush=True,
    )


def main(n: int = 1_000_000) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((n, 30)), rng.standard_normal(n)
    for name, options in DENSE.items():
        compare(f"dense, {name}, an epoch of cd", X, y, "cd", **options)
    compare("dense, A^2, value and gradient", X, y, "lbfgs", k=8)
    X, y = clicks(3 * n), rng.standard_normal(3 * n)
    for kind in ("ones", "real values"):
        if kind == "real values":
            X.data[:] = rng.uniform(0.5, 1.5, X.nnz)
        compare(f"sparse, {kind}, A^2, an epoch of cd", X, y, "cd", k=8)
        compare(f"sparse, {kind}, A^2, value and gradient", X, y, "lbfgs", k=8)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
