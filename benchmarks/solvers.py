"""The solvers against each other, and the path of betas against an exhaustive search.

POLYFM_DATA=DIR python benchmarks/solvers.py [compare stochastic everywhere search]
"""

import sys
import time
import warnings

import data
import numpy as np
from sklearn.model_selection import GridSearchCV, KFold

import polyfm
from polyfm.core.design import Design
from polyfm.core.model import build_model
from polyfm.core.problem import Problem
from polyfm.losses import as_loss
from polyfm.solvers import SGD, SOLVERS, make_solver, run
from polyfm.solvers.sgd import tiled_permutation
from polyfm.training.initial import initial_parameters

warnings.simplefilter("ignore")
SETS = {
    "MovieLens 1M": (data.movielens_1m, {"k": 30, "beta": 10.0}),
    "Last.fm": (data.lastfm, {"k": 10, "beta": 30.0}),
    "IMDB": (data.imdb, {"k": 10, "beta": 5.0}),
    "a9a": (data.a9a, {"k": 10, "beta": 5.0, "loss": "logistic"}),
    "abalone": (lambda: data.dense("abalone"), {}),
    "cadata": (lambda: data.dense("cadata"), {}),
    "cpusmall": (lambda: data.dense("cpusmall"), {}),
}


def problem(
    X, y, kernel="anova", method="direct", degree=2, k=10, beta=1.0, loss="squared", lower="explicit", rows="sorted"
):
    model = build_model(kernel, method, degree, k, lower, True, True)
    return Problem.with_target(Design(X, rows), model, as_loss(loss), y, None, 1.0, beta)


class Clock:
    """A hook that notes the time of each epoch and stops when it is up."""

    def __init__(self, seconds: float):
        self.seconds, self.times = seconds, []
        self.began = time.perf_counter()

    def __call__(self, monitor, state) -> bool:
        self.times.append(time.perf_counter() - self.began)
        return self.times[-1] > self.seconds


def trace(task: Problem, name: str, seconds: float):
    """Objectives and times of one run, compiled beforehand."""
    start = initial_parameters(task, np.random.RandomState(0), 0.1)
    run(make_solver(name), task, start, max_iter=1, tol=0.0)
    clock = Clock(seconds)
    result = run(make_solver(name), task, start, max_iter=100_000, tol=-1.0, hooks=(clock,))
    return np.array(clock.times), result.history[: len(clock.times)]


def compare() -> None:
    """Seconds to come within 1% and 0.1% of the best objective that any solver finds in the given time."""
    cases = [(name, load, {**o}) for name, (load, o) in SETS.items()]
    cases += [
        (
            "cadata, PN 3",
            SETS["cadata"][0],
            {"kernel": "homogeneous", "method": "lifted", "degree": 3, "lower": "augment"},
        ),
        ("cadata, FM 3", SETS["cadata"][0], {"degree": 3, "lower": "augment"}),
    ]
    print(f"{'problem':<16}{'best':>12}   " + "".join(f"{s + ' 1% / 0.1%':>24}" for s in SOLVERS))
    for name, load, options in cases:
        X, _, y, _ = load()
        seconds = 12.0 if X.shape[0] > 50_000 else 5.0
        tasks = {rows: problem(X, y, **options, rows=rows) for rows in {kind.row_order for kind in SOLVERS.values()}}
        traces = {s: trace(tasks[kind.row_order], s, seconds) for s, kind in SOLVERS.items()}
        best = min(history.min() for _, history in traces.values())
        cells = []
        for times, history in traces.values():
            reached = [times[history <= best * (1 + part)] for part in (0.01, 0.001)]
            cells.append(" / ".join(f"{t[0]:.2f} s" if len(t) else "-" for t in reached))
        print(f"{name:<16}{best:>12.6g}   " + "".join(f"{cell:>24}" for cell in cells), flush=True)


def stochastic() -> None:
    """Seconds of one stochastic epoch on MovieLens 1M at k = 30, without the evaluation of the objective."""
    X, _, y, _ = data.movielens_1m()
    for dtype in (np.float64, np.float32):
        task = problem(X.astype(dtype), y, k=30, beta=10.0, rows="shuffled")
        solver = SGD()
        state = solver.init_state(task, initial_parameters(task, np.random.RandomState(0), 0.1))
        counts = np.maximum(np.diff(task.design.columns.indptr.astype(np.int64)), 1)
        times = []
        for _ in range(5):
            order = tiled_permutation(X.shape[0], 0)
            began = time.perf_counter()
            solver._pass(task, state, order, counts, X.shape[0])
            times.append(time.perf_counter() - began)
        print(f"MovieLens 1M, k = 30, {np.dtype(dtype).name}: {min(times[1:]):.3f} s an epoch")


def everywhere() -> None:
    """The default steps on every data set, beside coordinate descent: held-out scores after at most 30 epochs."""
    cases = dict(SETS)
    cases["20 Newsgroups (6 of 20)"] = (data.newsgroups, {"k": 5, "beta": 1.0, "loss": "logistic"})
    cases["Criteo (tiny)"] = (data.criteo, {"k": 5, "beta": 5.0, "loss": "logistic"})
    cases["MovieLens 100K"] = (data.movielens_100k, {"k": 10, "beta": 5.0})
    print(f"{'set':<26}{'cd':>8}{'sgd':>8}   steps halved")
    for name, (load, o) in cases.items():
        X, X_test, y, y_test = load()
        classify = o.get("loss") == "logistic"
        kind = polyfm.FactorizationMachineClassifier if classify else polyfm.FactorizationMachineRegressor
        scores, halved = [], "no"
        for solver in ("cd", "sgd"):
            model = kind(
                n_components=o.get("k", 10), beta=o.get("beta", 1.0), solver=solver, max_iter=30, random_state=0
            )
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                scores.append(model.fit(X, y).score(X_test, y_test))
            halved = "yes" if any("halved" in str(w.message) for w in caught) else halved
        print(f"{name:<26}{scores[0]:>8.4f}{scores[1]:>8.4f}   {halved}", flush=True)


def search() -> None:
    """The path of betas against GridSearchCV: time and chosen score."""
    for name, kind, cv_kind in (
        ("abalone", polyfm.PolynomialNetworkRegressor, polyfm.PolynomialNetworkRegressorCV),
        ("cadata", polyfm.FactorizationMachineRegressor, polyfm.FactorizationMachineRegressorCV),
    ):
        X, _, y, _ = data.dense(name)
        betas, options = np.logspace(-3, 3, 10), {"random_state": 0, "n_components": 10}
        for warm in (kind(**options), cv_kind(betas=betas[:2], **options)):
            warm.fit(X[:100], y[:100])  # compiles
        path, grid = (
            cv_kind(betas=betas, cv=KFold(5), **options),
            GridSearchCV(kind(**options), {"beta": betas}, cv=KFold(5)),
        )
        times: tuple[list, list] = ([], [])
        for _ in range(3):
            for model, seconds in zip((path, grid), times, strict=True):
                began = time.perf_counter()
                model.fit(X, y)
                seconds.append(time.perf_counter() - began)
        ours, theirs = map(min, times)
        print(
            f"{name}: path {ours:.2f} s, R2 {path.best_score_:.4f} at beta = {path.beta_:.3g}; grid {theirs:.2f} s, "
            f"R2 {grid.best_score_:.4f} at {grid.best_params_['beta']:.3g}; {theirs / ours:.1f} times faster"
        )


PARTS = {f.__name__: f for f in (compare, stochastic, everywhere, search)}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
