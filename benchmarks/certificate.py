"""Certificates and automatic ranks: their time, in plain fits and epochs of the same process.

POLYFM_DATA=DIR python benchmarks/certificate.py [certify ml100k dense imdb ml1m]

Seconds are those of one thread's processor time, unless two threads are named. beta is given as a part of beta_max, the
one from which on there are no interactions; alpha = 1.
"""

import sys
import time
import warnings

import data
import numpy as np

from polyfm import FactorizationMachineRegressor, certify
from polyfm.core.design import Design
from polyfm.solvers import make_solver, run
from polyfm.training.scales import Rows, linear_models, penalty_scales

DENSE = {"diabetes": 0.2, "abalone": 0.02, "cadata": 0.01, "cpusmall": 0.02}  # parts of beta_max


def seconds(f, repeats: int = 3) -> float:
    """The least of some runs, after one that compiles."""
    f()
    found = []
    for _ in range(repeats):
        began = time.process_time()
        f()
        found.append(time.process_time() - began)
    return min(found)


def beta_of(X, y, part: float) -> float:
    recipe = FactorizationMachineRegressor(alpha=1.0, beta=1.0)._recipe(X.shape[1])
    rows = Rows(X, [y], None)
    return part * penalty_scales(recipe, rows, linear_models(recipe.model, recipe.loss, rows, 1.0))[0]


def plain(k: int, beta: float, **options):
    return FactorizationMachineRegressor(n_components=k, alpha=1.0, beta=beta, random_state=0, **options)


def automatic(beta: float, gap: float, most: int = 100, n_jobs: int = 1):
    return FactorizationMachineRegressor(
        n_components="auto", alpha=1.0, beta=beta, gap_tol=gap, max_components=most, n_jobs=n_jobs
    )


def report(
    title: str, X, y, X_test, y_test, part: float, gap: float, k: int, most: int = 100, repeats: int = 3
) -> None:
    beta = beta_of(X, y, part)
    model = automatic(beta, gap, most)
    fits, ours = (seconds(lambda m=m: m.fit(X, y), repeats) for m in (plain(k, beta), model))
    print(
        f"{title}: beta {part:g} beta_max, rank {model.n_components_}, gap {model.duality_gap_:.1e}, {model.solver_}; "
        f"{ours:.3g} s = {ours / fits:.2g} plain fits with k = {k} ({fits:.3g} s); R2 on test rows "
        f"{model.score(X_test, y_test):.4f}, plain {plain(k, beta).fit(X, y).score(X_test, y_test):.4f}",
        flush=True,
    )


def certified() -> None:
    X, _, y, _ = data.movielens_1m()
    beta = beta_of(X, y, 0.35)
    model = plain(10, beta).fit(X, y)
    problem = model._recipe(X.shape[1]).problem(Design(X, "sorted"), y, None)
    start = model._fitted.targets[0]
    few, many = (seconds(lambda n=n: run(make_solver("block"), problem, start, max_iter=n, tol=0)) for n in (2, 12))
    took = seconds(lambda: certify(model, X, y))
    epoch = (many - few) / 10
    found = certify(model, X, y)
    print(f"MovieLens 1M, k = 10: certificate {took:.3g} s = {took / epoch:.2g} epochs, {found.n_products} products")


def ml100k() -> None:
    X, X_test, y, y_test = data.movielens_100k()
    report("MovieLens 100K", X, y, X_test, y_test, 0.5, 1e-3, 30)


def dense() -> None:
    for name, part in DENSE.items():
        X, X_test, y, y_test = data.diabetes() if name == "diabetes" else data.dense(name)
        report(name, X, y, X_test, y_test, part, 1e-4, 30, repeats=5)


def imdb() -> None:
    X, X_test, y, y_test = data.imdb()
    report("IMDB", X, y, X_test, y_test, 0.3, 1e-2, 10, repeats=1)
    timed("IMDB", X, y, X_test, y_test, 0.3)


def ml1m() -> None:
    X, X_test, y, y_test = data.movielens_1m()
    for part in (0.35, 0.12):
        timed("MovieLens 1M", X, y, X_test, y_test, part)


def timed(title: str, X, y, X_test, y_test, part: float) -> None:
    """One fit on two threads, by the clock."""
    model = automatic(beta_of(X, y, part), 1e-2, 500, n_jobs=2)
    automatic(beta_of(X, y, part), 1e-2, 100, n_jobs=2).set_params(max_iter=2).fit(X[:2000], y[:2000])  # compiles
    began, before = time.perf_counter(), time.process_time()
    model.fit(X, y)
    clock, processor = time.perf_counter() - began, time.process_time() - before
    error = np.sqrt(np.mean(np.square(model.predict(X_test) - y_test)))
    print(
        f"{title}: beta {part:g} beta_max, two threads {clock:.3g} s by the clock, {processor:.3g} s of processors, "
        f"rank {model.n_components_}, gap {model.duality_gap_:.1e}, RMSE on test rows {error:.4f}",
        flush=True,
    )


PARTS = {"certify": certified, "ml100k": ml100k, "dense": dense, "imdb": imdb, "ml1m": ml1m}

if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
