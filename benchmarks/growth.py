"""Seconds and memory of an epoch against rows, non-zeros a row, bases and degree, up to 10^8 non-zeros, on a made-up
log of clicks.

python benchmarks/growth.py [OUT.csv] [PICTURE.png]

A row has one feature of each of ten one-hot fields: two large ones (a hundredth of the rows each, as users and items),
the others of 10 to 10,000 values; more fields are more of the same. Each point is a process of its own, so that peak
memory can be told.
"""

import csv
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

SIZES = [10**4, 10**5, 10**6, 10**7]  # rows; ten times as many non-zeros
ROUNDS, SMALL = 4, 10**5  # small points are measured in so many rounds, of which the fastest counts
POINTS = (
    [("rows", n, 4, 2, 10) for n in SIZES]
    + [("fields", 10**5, 4, 2, fields) for fields in (5, 10, 20, 40)]
    + [("bases", 10**5, k, 2, 10) for k in (2, 4, 8, 16, 32, 64)]
    + [("degree", 10**5, 4, m, 10) for m in (2, 3, 4, 5, 6)]
)


def clicks(n: int, fields: int = 10):
    """X as CSR of ones (int32 indices, double precision), made in pieces."""
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    sizes = [max(n // 100, 10), max(n // 100, 10), 10_000, 1_000, 1_000, 100, 100, 10, 10, 10]
    sizes = (sizes * -(-fields // len(sizes)))[:fields]
    starts = np.concatenate(([0], np.cumsum(sizes)))
    indices = np.empty((n, len(sizes)), dtype=np.int32)
    for field, size in enumerate(sizes):
        indices[:, field] = starts[field] + rng.integers(size, size=n, dtype=np.int32)
    indptr = np.arange(0, indices.size + 1, len(sizes), dtype=np.int32)
    return sp.csr_matrix((np.ones(indices.size), indices.ravel(), indptr), shape=(n, int(starts[-1])))


def memory(name: str) -> float:
    """Memory that this process holds (VmRSS) or has held at most (VmHWM), in bytes, as Linux tells."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return float(line.split()[1]) * 1024
    raise LookupError(name)


def measure(n: int, k: int, degree: int, fields: int) -> dict:
    import warnings

    from polyfm import FactorizationMachineRegressor
    from polyfm.training.hooks import watching

    warnings.simplefilter("ignore")
    options = {"n_components": k, "degree": degree, "fit_lower": None, "solver": "cd", "tol": 0, "random_state": 0}
    rows = min(n, 40_000 // fields)  # enough for the same loops
    options |= {"alpha": 1, "beta": 1}
    FactorizationMachineRegressor(max_iter=1, **options).fit(clicks(rows, fields), np.arange(float(rows)))  # compiles
    Path("/proc/self/clear_refs").write_text("5")  # forget the most so far: the compiler's
    before = memory("VmRSS")
    X = clicks(n, fields)
    y = np.random.default_rng(1).standard_normal(n)
    began = time.perf_counter()
    model = FactorizationMachineRegressor(max_iter=4 if n > 10**6 else 20, **options)
    times: list[float] = []
    with watching(lambda seen: times.append(time.perf_counter())):
        model.fit(X, y)
    epochs = np.diff(times)
    in_csc = X.nnz * 12 + X.shape[1] * 4
    parameters = model.components_.nbytes + model.coef_.nbytes
    return {
        "rows": n, "nonzeros": X.nnz, "fields": fields, "bases": k, "degree": degree, "epoch": float(epochs.min()),
        "fit": time.perf_counter() - began, "memory": (memory("VmHWM") - before - parameters) / in_csc,
        "bandwidth": bandwidth(),
    }  # fmt: skip


def bandwidth() -> float:
    """Bytes a second that one thread copies (read and written)."""
    a, b = np.ones(2**25), np.empty(2**25)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        np.copyto(b, a)
        times.append(time.perf_counter() - began)
    return 2 * a.nbytes / min(times)


def floor(point: dict) -> float:
    """Seconds that memory needs at least: for each basis, two passes over the columns (index, and a sample's line of
    state) and one over the rows, all at the speed of a copy; the linear weights are one more basis."""
    return point["nonzeros"] * (point["bases"] + 1) * (2 * (4 + 16) + 4) / point["bandwidth"]


def picture(rows: list[dict], path: str) -> None:
    import matplotlib.pyplot as plt

    labels = {
        "rows": "non-zeros, ten a row", "fields": "non-zeros a row", "bases": "bases, linear weights as one more",
        "degree": "degree m",
    }  # fmt: skip
    figure, axes = plt.subplots(1, 5, figsize=(17, 3.6), constrained_layout=True)
    for axis, (name, label) in zip(axes, labels.items(), strict=False):
        points = [r for r in rows if r["axis"] == name]
        x = np.array([r["nonzeros" if name == "rows" else name] for r in points], dtype=float) + (name == "bases")
        t = np.array([r["epoch"] for r in points])
        slope = np.polyfit(np.log(x), np.log(t), 1)[0]
        axis.loglog(x, t, "o-", color="#0072B2", label=f"an epoch (slope {slope:.2f})")
        axis.loglog(x, t[-1] * x / x[-1], ":", color="grey", label="slope 1")
        if name == "rows":
            axis.loglog(x, [floor(r) for r in points], "--", color="#D55E00", label="at the speed of a copy")
        axis.set(xlabel=label, ylabel="seconds")
        if name != "rows":
            axis.set_xticks(x, [f"{value:.0f}" for value in x])
            axis.xaxis.minorticks_off()
        axis.legend(frameon=False, fontsize=8, loc="upper left")
    points = [r for r in rows if r["axis"] == "rows"]
    axes[4].semilogx([r["nonzeros"] for r in points], [r["memory"] for r in points], "o-", color="#0072B2")
    axes[4].axhline(2.5, ls=":", color="grey")
    axes[4].set(xlabel="non-zeros, ten a row", ylabel="peak memory / X in CSC", ylim=(0, None))
    figure.savefig(path, dpi=120)


def main(out: str = "growth.csv", image: str = "growth.png") -> None:
    found: dict[tuple, list[dict]] = {point: [] for point in POINTS}
    for r in range(ROUNDS):
        for point in POINTS:
            if r == 0 or point[1] <= SMALL:
                command = [sys.executable, __file__, "--point", *map(str, point[1:])]
                output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                found[point].append({"axis": point[0], **json.loads(output.strip().splitlines()[-1])})
                values = found[point][-1].items()
                print(", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in values), flush=True)
    rows = [min(runs, key=lambda run: run["epoch"]) for runs in found.values()]
    with open(out, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    picture(rows, image)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--point"]:
        print(json.dumps(measure(*map(int, sys.argv[2:]))))
    else:
        main(*sys.argv[1:])
