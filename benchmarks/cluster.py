"""Rows in parts: rounds to the optimum, what a round costs on Dask, and a large fit beside the same on one machine.

POLYFM_DATA=DIR python benchmarks/cluster.py rounds            # MovieLens 1M, rank 16
python benchmarks/cluster.py overhead                          # two workers, 3e5 parameters
python benchmarks/cluster.py large [--nonzeros 1e8]            # wall time and peak memory; wants a quiet machine
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from polyfm import FactorizationMachineClassifier
from polyfm.distributed.chunk import Chunk
from polyfm.distributed.engine import InProcess
from polyfm.distributed.estimator import FittedInParts, with_parameters

FIELDS, SIZE, PARTS = 10, 2000, 16  # of the large problem
LARGE = {"n_components": 8, "alpha": 1.0, "beta": 5.0, "max_iter": 20, "tol": 0.0, "random_state": 0}


# -- rounds -----------------------------------------------------------------------------------------------------------


class Counted(InProcess):
    """Counts the rounds of training, those before it left out: facts about the rows, and the start."""

    n_rounds = 0

    def answers(self, call):
        self.n_rounds += call.method in ("loss", "loss_and_gradient", "diagonal", "along_intercept", "systems")
        return super().answers(call)


def rounds(most: int) -> None:
    import data

    from polyfm import FactorizationMachineRegressor

    @with_parameters(FactorizationMachineRegressor)
    class InParts(FittedInParts, FactorizationMachineRegressor):
        def _fit(self, X, y, sample_weight, X_val=None, y_val=None):
            bounds = itertools.pairwise(np.linspace(0, X.shape[0], 5).astype(int))
            self.engine = Counted(Chunk(i, X[lo:hi], y[lo:hi]) for i, (lo, hi) in enumerate(bounds))
            return self._fit_parts(self.engine)

    X, _, y, _ = data.movielens_1m()
    found = {}
    for solver in ("lbfgs", "block"):
        from polyfm.training.hooks import watching

        seen: list[tuple[int, float]] = []
        model = InParts(
            n_components=16, alpha=2.0, beta=8.0, solver=solver, max_iter=most if solver == "lbfgs" else most // 3,
            tol=0.0, random_state=0,
        )  # fmt: skip

        def note(progress, model=model, seen=seen):
            seen.append((model.engine.n_rounds, progress.objective))

        with watching(note), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
        found[solver] = np.array(seen), model.engine
    best = min(history[:, 1].min() for history, _ in found.values())
    for solver, (history, engine) in found.items():
        marks = []
        for part in (0.05, 0.01, 0.001):
            there = history[history[:, 1] <= (1 + part) * best]
            marks.append(f"{int(there[0, 0])}" if len(there) else "-")
        traffic = engine.traffic
        per_round = (traffic.sent + traffic.received) / traffic.rounds / 1e6
        print(
            f"{solver}: {', '.join(marks)} rounds to 5%, 1% and 0.1% of {best:.6g}, and "
            f"{traffic.rounds - engine.n_rounds} before; {per_round:.2f} MB a round"
        )


# -- what a round costs -----------------------------------------------------------------------------------------------


def cluster() -> Any:
    from distributed import LocalCluster

    return LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0")


def seconds_of(pids: list[int]) -> float:
    import psutil

    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(t.user + t.system for t in times)


def overhead(n: int) -> None:
    """Of rounds over rows that are next to none: a gradient of 3e5 parameters."""
    from distributed import Client

    from polyfm.core.model import build_model
    from polyfm.core.parameters import Parameters
    from polyfm.dask.engine import DaskEngine
    from polyfm.distributed.chunk import Layout
    from polyfm.distributed.engine import Sent
    from polyfm.distributed.problem import DistributedDesign

    d = 300_000 // 17
    model = build_model("anova", "direct", 2, 16, None, True, True)
    with cluster() as running, Client(running) as client:
        rng = np.random.RandomState(0)
        parts = []
        for i in range(4):
            columns = rng.randint(d, size=(50, 2))
            X = sp.csr_matrix((np.ones(100), (np.repeat(np.arange(50), 2), columns.ravel())), shape=(50, d))
            parts.append((i, X, rng.standard_normal(50)))
        engine = DaskEngine(client, parts)
        layout = Sent(Layout("float64", True, d, "sorted", None, None))
        problem = DistributedDesign(engine, (200, d), 400, layout, "squared").problem(model, 0, 1.0, 1.0)
        start = Parameters((rng.standard_normal((16, 1, d)),), (np.ones(16),), np.zeros(d), np.zeros(1))
        start = model.unpack(model.pack(start), start)
        pids = [os.getpid(), *client.run(os.getpid).values()]
        for _ in range(5):
            problem.loss_and_gradient(start)
        walls, before = [], seconds_of(pids)
        for _ in range(n):
            began = time.perf_counter()
            problem.loss_and_gradient(start)
            walls.append(1e3 * (time.perf_counter() - began))
        spent = 1e3 * (seconds_of(pids) - before) / n
        print(
            f"{model.pack(start).size} parameters, two workers, 4 parts: a round takes {spent:.0f} ms of all "
            f"processors, {min(walls):.0f} / {np.median(walls):.0f} ms of wall time (least / median of {n})"
        )
        engine.close()


# -- a large fit ------------------------------------------------------------------------------------------------------


def rows(part: int, n: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """A part of the large problem: one-hot fields of skewed frequencies, and clicks."""
    rng = np.random.RandomState(part)
    columns = (SIZE * rng.uniform(size=(n, FIELDS)) ** 2).astype(np.int32) + SIZE * np.arange(FIELDS, dtype=np.int32)
    X = sp.csr_matrix(
        (np.ones(columns.size), columns.ravel(), np.arange(0, columns.size + 1, FIELDS, dtype=np.int32)),
        shape=(n, FIELDS * SIZE),
    )
    traits = np.random.RandomState(0).standard_normal((FIELDS * SIZE, 2))
    f = np.sum(traits[columns[:, 0]] * traits[columns[:, 1]], axis=1) + traits[columns[:, 2], 0] - 1
    return X, rng.uniform(size=n) < 1 / (1 + np.exp(-f))


class Peak(threading.Thread):
    """The most memory that this process and its children have had at one time; shared pages count once."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most, self.ended = 0, threading.Event()

    def run(self) -> None:
        import psutil

        while not self.ended.wait(0.2):
            total = 0
            for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
                try:
                    total += process.memory_full_info().pss
                except (psutil.Error, AttributeError):
                    continue
            self.most = max(self.most, total)

    def stop(self) -> float:
        self.ended.set()
        self.join()
        return self.most / 1e9


def on_one_machine(n: int) -> None:
    parts = [rows(part, n // PARTS) for part in range(PARTS)]
    X, y = sp.vstack([X for X, _ in parts], format="csr"), np.concatenate([y for _, y in parts])
    del parts
    model = FactorizationMachineClassifier(solver="lbfgs", n_jobs=2, **LARGE)
    warnings.simplefilter("ignore")
    FactorizationMachineClassifier(solver="lbfgs", n_jobs=2, **{**LARGE, "max_iter": 1}).fit(X[:10000], y[:10000])
    peak = Peak()
    peak.start()
    began = time.perf_counter()
    model.fit(X, y)
    print(json.dumps({"wall": time.perf_counter() - began, "peak": peak.stop(), "objective": model.objective_}))


def on_dask(n: int) -> None:
    import dask
    import dask.array as da
    from distributed import Client, wait

    from polyfm.dask import DaskFactorizationMachineClassifier

    warnings.simplefilter("ignore")
    meta = sp.csr_matrix((0, 0))
    with cluster() as running, Client(running):
        pairs = [dask.delayed(rows, nout=2)(part, n // PARTS) for part in range(PARTS)]
        width = FIELDS * SIZE
        dX = da.concatenate([da.from_delayed(X, (n // PARTS, width), float, meta=meta) for X, _ in pairs])
        dy = da.concatenate([da.from_delayed(y, (n // PARTS,), bool) for _, y in pairs])
        few = rows(0, 10000)
        small = da.from_delayed(dask.delayed(few[0]), few[0].shape, float, meta=meta), da.from_array(few[1])
        DaskFactorizationMachineClassifier(**{**LARGE, "max_iter": 1}).fit(*small)
        peak = Peak()
        peak.start()
        dX, dy = dask.persist(dX, dy)
        wait([dX, dy])
        began = time.perf_counter()
        model = DaskFactorizationMachineClassifier(**LARGE).fit(dX, dy)
        print(json.dumps({"wall": time.perf_counter() - began, "peak": peak.stop(), "objective": model.objective_}))


def large(nonzeros: float) -> None:
    n = int(nonzeros) // FIELDS // PARTS * PARTS
    size = (12 * n * FIELDS + 4 * n) / 1e9
    found = {}
    for kind in ("on_one_machine", "on_dask"):
        done = subprocess.run(
            [sys.executable, __file__, kind, "--nonzeros", str(nonzeros)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        found[kind] = json.loads(done.stdout.splitlines()[-1])
        print(kind, {name: round(value, 3) for name, value in found[kind].items()}, flush=True)
    one, many = found["on_one_machine"], found["on_dask"]
    times, peaks = many["wall"] / one["wall"], [found["peak"] / size for found in (many, one)]
    print(
        f"{n} rows, X is {size:.2f} GB: {times:.2f} times the wall time, peak {peaks[0]:.2f} times X (one machine "
        f"{peaks[1]:.2f}), objective {many['objective'] / one['objective'] - 1:+.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["rounds", "overhead", "large", "on_one_machine", "on_dask"])
    parser.add_argument("--most", type=int, default=150, help="epochs of the longest run that counts rounds")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--nonzeros", type=float, default=1e8)
    options = parser.parse_args()
    if options.what == "rounds":
        rounds(options.most)
    elif options.what == "overhead":
        overhead(options.repeats)
    elif options.what == "large":
        large(options.nonzeros)
    else:
        {"on_one_machine": on_one_machine, "on_dask": on_dask}[options.what](
            int(options.nonzeros) // FIELDS // PARTS * PARTS
        )


if __name__ == "__main__":
    main()
