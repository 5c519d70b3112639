"""Large loads and long ones: seconds and peak memory, in a process of its own each.

python benchmarks/load.py              # all
python benchmarks/load.py rows         # 2 x 10^8 non-zeros: 2 x 10^7 rows of ten one-hot fields, three epochs
python benchmarks/load.py features     # 5 x 10^7 features at rank 8, one epoch
python benchmarks/load.py predictions  # 10^7 rows
python benchmarks/load.py stream       # 10^4 batches of partial_fit; memory after the first hundred, and at the end
python benchmarks/load.py single       # 10^5 predictions of one row; the same
python benchmarks/load.py fits MINUTES # fits of all kinds in turn; memory after each tenth of the time
"""

import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

CASES = ("rows", "features", "predictions", "stream", "single", "fits")


def memory(name: str) -> float:
    """MB that the kernel knows this process by: VmRSS is now, VmHWM the most so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1e3
    raise LookupError(name)


def one_hot(n: int, sizes: list[int], seed: int = 0) -> sp.csr_matrix:
    """Rows with one feature of each field."""
    rng = np.random.default_rng(seed)
    firsts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    indices = np.empty((n, len(sizes)), dtype=np.int32)
    for f, (first, size) in enumerate(zip(firsts, sizes, strict=True)):
        indices[:, f] = first + rng.integers(size, size=n, dtype=np.int32)
    indptr = np.arange(0, indices.size + 1, len(sizes), dtype=np.int64 if indices.size > 2**31 else np.int32)
    return sp.csr_matrix((np.ones(indices.size, dtype=np.float32), indices.ravel(), indptr), shape=(n, sum(sizes)))


def fitted(X, y, **options):
    from polyfm import FactorizationMachineRegressor

    began, worked = time.perf_counter(), time.process_time()
    model = FactorizationMachineRegressor(**{"alpha": 1, "beta": 1, "tol": 0, "random_state": 0, **options}).fit(X, y)
    print(
        f"  {X.shape[0]:,} x {X.shape[1]:,}, {X.nnz:,} non-zeros ({(X.data.nbytes + X.indices.nbytes) / 1e6:,.0f} MB), "
        f"rank {options['n_components']}: {model.n_iter_} epoch(s) by {model.solver_} in "
        f"{time.perf_counter() - began:.1f} s ({time.process_time() - worked:.1f} s of the processor), "
        f"objective {model.objective_:.6g}; peak {memory('VmHWM'):,.0f} MB",
        flush=True,
    )
    return model


def rows() -> None:
    X = one_hot(20_000_000, [1000] * 10)
    fitted(X, np.random.default_rng(1).standard_normal(X.shape[0], dtype=np.float32), n_components=8, max_iter=3)


def features() -> None:
    X = one_hot(10_000_000, [25_000_000, 25_000_000])
    y = np.random.default_rng(1).standard_normal(X.shape[0], dtype=np.float32)
    fitted(X, y, n_components=8, max_iter=1)


def predictions() -> None:
    X = one_hot(10_000_000, [10_000, 10_000])
    y = np.random.default_rng(1).standard_normal(100_000, dtype=np.float32)
    model = fitted(X[:100_000], y, n_components=16, max_iter=2)
    began = time.perf_counter()
    model.predict(X)
    print(f"  {X.shape[0]:,} rows predicted in {time.perf_counter() - began:.2f} s; peak {memory('VmHWM'):,.0f} MB")


def flat(n: int, settled: int, step) -> None:
    """Memory once it has settled, and at the end."""
    began, at_first = time.perf_counter(), 0.0
    for i in range(n):
        step(i)
        if i == settled:
            at_first = memory("VmRSS")
    print(f"  {n:,} times in {time.perf_counter() - began:.0f} s: {at_first:.1f} MB, then {memory('VmRSS'):.1f} MB")


def stream() -> None:
    from polyfm import FactorizationMachineClassifier

    batches = [one_hot(100, [50, 50], seed) for seed in range(20)]
    model = FactorizationMachineClassifier(solver="sgd", alpha=1, beta=1, random_state=0)
    y = np.arange(100) % 3
    flat(10_000, 100, lambda i: model.partial_fit(batches[i % 20], y, classes=[0, 1, 2]))


def single() -> None:
    X = one_hot(1000, [50, 50])
    model = fitted(X, np.arange(1000.0), n_components=8, max_iter=2)
    lines = [X[i] for i in range(100)]
    flat(100_000, 1000, lambda i: model.predict(lines[i % 100]))


def fits(minutes: str = "5") -> None:
    import polyfm
    from polyfm.solvers import SOLVERS

    X, dense = one_hot(2000, [50, 50]), np.random.default_rng(0).standard_normal((500, 6))
    kinds = [polyfm.FactorizationMachineRegressor, polyfm.FactorizationMachineClassifier]
    began, done, told = time.perf_counter(), 0, 0
    while told < 10:
        for solver in SOLVERS:
            for kind in kinds:
                for data in (X, dense):
                    y = np.arange(data.shape[0]) % 3
                    model = kind(solver=solver, n_components=4, max_iter=3, n_jobs=2, random_state=done)
                    model.fit(data, y).predict(data)
                    done += 1
        passed = (time.perf_counter() - began) / 60
        if passed >= (told + 1) * float(minutes) / 10:  # the first tenth settles it
            told += 1
            print(f"  {done:,} fits in {passed:.1f} minutes: {memory('VmRSS'):.1f} MB", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if len(sys.argv) > 1:
        print(sys.argv[1], flush=True)
        {name: globals()[name] for name in CASES}[sys.argv[1]](*sys.argv[2:])
    else:
        for case in CASES:
            subprocess.run([sys.executable, __file__, case], check=False)
