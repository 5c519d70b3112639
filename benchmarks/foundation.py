"""Time and memory of direct coordinate descent, with `myfm` beside it where it is installed.

    POLYFM_DATA=DIR python benchmarks/foundation.py [movielens degrees imdb dense startup]

One thread throughout. Runs alternate and minima are reported, since machines are noisy; ratios are what to trust.
"""

import subprocess
import sys
import time
import warnings

import data
import numpy as np

from polyfm import FactorizationMachineRegressor
from polyfm.core.design import Design
from polyfm.core.model import build_model
from polyfm.core.problem import Problem
from polyfm.losses import as_loss
from polyfm.solvers import CoordinateDescent
from polyfm.training.initial import initial_parameters

warnings.simplefilter("ignore")


def epochs(
    X, y, *, kernel="anova", method="direct", degree=2, k=30, lower=None, linear=True, loss="squared", beta=10.0
):
    """A function that runs one epoch and returns its seconds."""
    model = build_model(kernel, method, degree, k, lower, linear, True)
    problem = Problem.with_target(Design(X, "sorted"), model, as_loss(loss), y, None, 1.0, beta)
    solver = CoordinateDescent()
    state = solver.init_state(problem, initial_parameters(problem, np.random.RandomState(0), 0.1))

    def one() -> float:
        began = time.perf_counter()
        solver.update(problem, state)
        return time.perf_counter() - began

    one()  # compiles
    return one


def alternate(contestants: dict, repeats: int = 7) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, run in contestants.items():
            times[name].append(run())
    return {name: min(t) for name, t in times.items()}


def report(title: str, best: dict[str, float], unit: str = "s") -> None:
    print(f"\n{title}")
    first = next(iter(best.values()))
    for name, seconds in best.items():
        shown = f"{seconds:8.3f} s" if unit == "s" else f"{1e3 * seconds:8.2f} ms"
        print(f"  {name:<44}{shown}   {seconds / first:5.2f} x the first")


def myfm_iteration(X, y, rank: int):
    """Seconds of one Gibbs iteration: the difference between a long and a short run."""
    import myfm

    def fit(n_iter: int) -> float:
        began = time.perf_counter()
        myfm.MyFMRegressor(rank=rank, random_seed=1).fit(X, y, n_iter=n_iter, n_kept_samples=1)
        return time.perf_counter() - began

    return lambda: (fit(5) - fit(2)) / 3


def movielens() -> None:
    X, _, y, _ = data.movielens_1m()
    contestants = {"polyfm, one epoch": epochs(X, y)}
    try:
        contestants["myfm, one Gibbs iteration"] = myfm_iteration(X, y, 30)
    except ImportError:
        print("myfm is not installed: pip install myfm")
    report(f"MovieLens 1M, {X.shape[0]:,} x {X.shape[1]:,}, k = 30, linear weights", alternate(contestants, 5))


def degrees() -> None:
    X, _, y, _ = data.movielens_1m()
    report(
        "MovieLens 1M, augmented: degree - 1 dummy features, so nnz grows too",
        alternate({f"degree {m}": epochs(X, y, degree=m, k=10, lower="augment", beta=50.0) for m in (2, 3, 4, 5)}, 3),
    )
    X, _, y, _ = data.imdb()
    report(
        "IMDB, no lower degrees (k = 5)",
        alternate({f"degree {m}": epochs(X, y, degree=m, k=5) for m in (2, 3, 4, 5)}, 3),
    )


def imdb() -> None:
    X, _, y, _ = data.imdb()
    contestants = {
        "direct A^2, k = 20, squared": epochs(X, y, k=20),
        "direct A^2, k = 20, logistic": epochs(X, np.where(y > 5, 1.0, -1.0), k=20, loss="logistic"),
    }
    report(f"IMDB, {X.shape[0]:,} x {X.shape[1]:,}, {X.nnz:,} non-zeros", alternate(contestants, 3))


def dense() -> None:
    X, _, y, _ = data.dense("cadata")
    contestants = {
        "direct A^2, k = 30": epochs(X, y, k=30),
        "direct A^3, k = 30": epochs(X, y, degree=3, k=30),
        "direct A^3, k = 30, augmented": epochs(X, y, degree=3, k=30, lower="augment"),
    }
    report(f"cadata, {X.shape[0]:,} x {X.shape[1]}, dense", alternate(contestants, 20), "ms")


def startup() -> None:
    """A new process: import, and a first fit without and with the compiled loops on disk."""
    code = (
        "import time; t = time.perf_counter(); import sklearn.base, numba, scipy.sparse; a = time.perf_counter(); "
        "import polyfm, numpy as np; b = time.perf_counter(); X = np.random.RandomState(0).randn(100, 5); "
        "polyfm.FactorizationMachineRegressor(alpha=1, beta=1, max_iter=2).fit(X, X[:, 0]); c = time.perf_counter(); "
        "print(f'{a - t:.2f} s for scikit-learn and numba, {b - a:.2f} s more for polyfm, {c - b:.2f} s to fit')"
    )
    print("\nStart-up of a new process")
    for label, cache in (("nothing cached", "0"), ("warming", "1"), ("cached", "1")):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True,
            env={**__import__("os").environ, "POLYFM_CACHE": cache},
        )  # fmt: skip
        if label != "warming":
            print(f"  {label:<16}{done.stdout.strip()}")


def memory() -> None:
    """Peak memory of a fit beyond X itself."""
    import resource

    X, _, y, _ = data.movielens_1m()
    size = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    FactorizationMachineRegressor(n_components=30, alpha=1, beta=1, max_iter=2).fit(X, y)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nMemory: X is {size:.0f} MiB in CSR; peak {before:.0f} MiB before the fit, {after:.0f} MiB after")


PARTS = {f.__name__: f for f in (memory, movielens, degrees, imdb, dense, startup)}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
