"""Peak memory of training beyond the data: of each point, a process of its own.

    POLYFM_DATA=DIR python benchmarks/memory.py [movielens clicks] [--solver auto cd block sgd] [--defaults]

A process loads the data, compiles by a fit to some of the rows, and lets the kernel forget the most memory so far. What
counts is the peak of the fit that follows, less what the process held before it with data and libraries. Beside it, X
in CSC (values in eight bytes, row numbers in four) and the parameters. --defaults: with penalties that the data choose.
"""

import argparse
import ctypes
import gc
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

DATA = {"movielens": "MovieLens 1M, rank 30", "clicks": "clicks, rank 8, logistic"}


def held(name: str) -> float:
    """Megabytes that this process holds (VmRSS) or has held at most (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return float(line.split()[1]) * 1024 / 1e6
    raise LookupError(name)


def child(name: str, solver: str, options: dict[str, Any]) -> dict[str, Any]:
    import data
    import numpy as np

    import polyfm

    warnings.simplefilter("ignore")
    if name == "movielens":
        X, _, y, _ = data.movielens_1m()
        model = polyfm.FactorizationMachineRegressor(n_components=30, solver=solver, random_state=0, **options)
    else:
        X, _, y, _ = data.clicks()
        model = polyfm.FactorizationMachineClassifier(n_components=8, solver=solver, random_state=0, **options)
    # The same loops: of large data they are others than of small ones.
    few = np.sort(np.random.RandomState(0).choice(X.shape[0], max(X.shape[0] // 10, 60_000), replace=False))
    model.fit(X[few], y[few])
    if name == "clicks":  # beyond half a million rows descent goes along the samples
        model.fit(X[:600_000], y[:600_000])
    model = polyfm.__dict__[type(model).__name__](**model.get_params())
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before, began = held("VmRSS"), time.process_time()
    model.fit(X, y)
    took = time.process_time() - began
    parameters = (model.components_.nbytes + model.coef_.nbytes) / 1e6
    in_csc = (12 * X.nnz + 4 * X.shape[1]) / 1e6
    peak = held("VmHWM") - before
    return {"solver": model.solver_, "seconds": took, "peak": peak, "csc": in_csc, "parameters": parameters}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", choices=[*DATA, []])
    parser.add_argument("--solver", nargs="+", default=["auto", "cd", "block", "sgd"])
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        options: dict[str, Any] = {"max_iter": arguments.epochs, "tol": 0.0}
        options |= {} if arguments.defaults else {"alpha": 1.0, "beta": 1.0}
        print(json.dumps(child(arguments.data[0], arguments.solver[0], options)))
        return
    print(f"{'':<28}{'solver':<14}{'peak':>8}{'X in CSC':>10}{'parameters':>12}{'bound':>8}  MB")
    for name in arguments.data or DATA:
        for solver in arguments.solver:
            command = [sys.executable, __file__, name, "--solver", solver, "--epochs", str(arguments.epochs), "--child"]
            command += ["--defaults"] * arguments.defaults
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"{DATA[name]:<28}{solver:<14}{done.stderr.strip().splitlines()[-1]}")
                continue
            found = json.loads(done.stdout)
            chosen = solver if solver == found["solver"] else f"{solver}: {found['solver']}"
            bound = 2 * found["csc"] + found["parameters"]
            print(
                f"{DATA[name]:<28}{chosen:<14}{found['peak']:8.0f}{found['csc']:10.0f}{found['parameters']:12.1f}"
                f"{bound:8.0f}  ({found['seconds']:.1f} s)",
                flush=True,
            )


if __name__ == "__main__":
    main()
