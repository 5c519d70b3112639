"""Seconds of a stochastic epoch, its objective included, in both precisions; and of xLearn's on clicks, if it is there.

POLYFM_DATA=DIR OMP_NUM_THREADS=1 python benchmarks/stochastic.py [threads | shares]

Processor seconds of one thread, the fastest of some epochs. With "threads" seconds on one and on two, in turns, of an
epoch and of the value and gradient that L-BFGS asks for. With "shares" what two shares of the rows on two threads gain:
seconds of the pass alone, in turns with one share, and what is learned, on rows held out, after 1 to 4 epochs. Only a
machine that does nothing else tells the former.
"""

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import data
import numpy as np
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import roc_auc_score, root_mean_squared_error

from polyfm import FactorizationMachineClassifier, FactorizationMachineRegressor
from polyfm.core.design import Design
from polyfm.core.model import build_model
from polyfm.core.problem import Problem
from polyfm.losses import as_loss
from polyfm.solvers import SGD
from polyfm.solvers.sgd import _occurrences, tiled_permutation
from polyfm.training.hooks import watching
from polyfm.training.initial import initial_parameters

EPOCHS = 6


def movielens():
    X, X_test, y, y_test = data.movielens_1m()
    return FactorizationMachineRegressor, sp.vstack([X, X_test]).tocsr(), np.concatenate([y, y_test]), 30


def reviews():
    X, _, y, _ = data.imdb_classes()
    return FactorizationMachineClassifier, X, y, 8


def clicks():
    X, X_test, y, y_test = data.clicks()
    return FactorizationMachineClassifier, sp.vstack([X, X_test]).tocsr(), np.concatenate([y, y_test]), 8


SETS = {"MovieLens 1M, k = 30": movielens, "IMDB, k = 8": reviews, "clicks, k = 8": clicks}
TESTED = dict(zip(SETS, (data.movielens_1m, data.imdb_classes, data.clicks), strict=True))


def epoch(kind, X, y, k: int, batch_size="auto") -> tuple[float, float]:
    """The seconds of the fastest epoch, and the last objective."""
    options = {"solver": "sgd", "alpha": 1.0, "beta": 1.0, "tol": 0, "random_state": 0, "batch_size": batch_size}
    kind(n_components=k, max_iter=1, **options).fit(X[:: len(y) // 500], y[:: len(y) // 500])  # compile
    clock: list[float] = []
    with watching(lambda progress: clock.append(time.process_time())):
        model = kind(n_components=k, max_iter=EPOCHS, **options).fit(X, y)
    return float(np.min(np.diff(clock))), model.objective_


def in_turns(task: Callable[[int], object], times: int = 7) -> str:
    """Seconds of task(1) and of task(2), the median of some, and of their ratios."""
    seconds = np.empty((times + 1, 2))
    for turn in seconds:
        for n_threads in (1, 2):
            began = time.perf_counter()
            task(n_threads)
            turn[n_threads - 1] = time.perf_counter() - began
    one, two = seconds[1:].T
    return f"{np.median(one):.3f} / {np.median(two):.3f} s, {np.median(one / two):.2f} times"


def on_two_threads(name: str, kind, X, y, k: int) -> None:
    loss = as_loss("squared" if kind is FactorizationMachineRegressor else "logistic")
    y = y if kind is FactorizationMachineRegressor else np.where(y > 0, 1.0, -1.0)
    model = build_model("anova", "direct", 2, k, None, True, True)
    for what, rows in (("an epoch", "shuffled"), ("value and gradient", "sorted")):
        problem = Problem.with_target(Design(X, rows), model, loss, y, None, 1.0, 1.0)
        start = initial_parameters(problem, np.random.RandomState(0), 0.1)
        start = model.unpack(model.pack(start), start)  # as L-BFGS has them
        states = [SGD().init_state(problem, start.copy()) for _ in range(2)]

        def task(n_threads: int, problem=problem, start=start, states=states, what=what) -> object:
            if what == "an epoch":
                return SGD(n_threads=n_threads).update(problem, states[n_threads - 1])
            return problem.value_and_gradient(start, n_threads)

        print(f"{name}, {what} on one and two threads: {in_turns(task)}", flush=True)


def in_two_shares(name: str, kind, X, X_test, y, y_test, k: int) -> None:
    squared = kind is FactorizationMachineRegressor
    model, loss = build_model("anova", "direct", 2, k, None, True, True), as_loss("squared" if squared else "logistic")
    y, measure = (y, root_mean_squared_error) if squared else (np.where(y > 0, 1.0, -1.0), roc_auc_score)
    for dtype in (np.float64, np.float32):
        problem = Problem.with_target(Design(X.astype(dtype), "shuffled"), model, loss, y, None, 1.0, 1.0)
        start, counts = initial_parameters(problem, np.random.RandomState(0), 0.1).copy(dtype), _occurrences(problem)
        solvers = [SGD(), SGD(shares=2, n_threads=2)]
        states = [solver.init_state(problem, start.copy()) for solver in solvers]
        learned: list[list[float]] = [[], []]

        def task(shares: int, problem=problem, states=states, counts=counts, solvers=solvers) -> None:
            state, n = states[shares - 1], problem.design.shape[0]
            order = tiled_permutation(n, [0, state.epoch])
            solvers[shares - 1]._pass(problem, state, order, np.maximum(counts, 1), n)

        for _ in range(4):
            for shares in (1, 2):
                task(shares)
                f = model.predict(states[shares - 1].parameters, Design(X_test.astype(dtype)))
                learned[shares - 1].append(float(measure(y_test, f)))
        print(f"{name}, {dtype.__name__}, a pass of one share and of two: {in_turns(task, 15)}")
        for shares, scores in enumerate(learned, 1):
            print(f"    {shares}: " + " ".join(f"{score:.4f}" for score in scores), flush=True)


def xlearn_epoch(X, y, k: int) -> float:
    """What five more epochs take, a fifth of it; xLearn reads its binary copy of the file each time."""
    import xlearn

    with tempfile.TemporaryDirectory() as directory:
        file, model_file = str(Path(directory, "train")), str(Path(directory, "model"))
        dump_svmlight_file(X, np.maximum(y, 0), file)

        def seconds(epochs: int) -> float:
            model = xlearn.create_fm()
            model.setTrain(file)
            model.setQuiet()
            model.disableNorm()
            began = time.process_time()
            model.fit({"task": "binary", "k": k, "epoch": epochs, "nthread": 1}, model_file)
            return time.process_time() - began

        seconds(1)
        return (seconds(6) - seconds(1)) / 5


def main() -> None:
    warnings.simplefilter("ignore")
    for name, load in SETS.items():
        kind, X, y, k = load()
        if sys.argv[1:] == ["shares"]:
            in_two_shares(name, kind, *TESTED[name](), k)
            continue
        if sys.argv[1:] == ["threads"]:
            on_two_threads(name, kind, X, y, k)
            continue
        for dtype in (np.float64, np.float32):
            seconds, objective = epoch(kind, X.astype(dtype), y, k)
            each = seconds / X.nnz * 1e9
            print(f"{name}, {dtype.__name__}: {seconds:.3f} s, {each:.1f} ns a non-zero; {objective:.8g}", flush=True)
    if sys.argv[1:]:
        return
    try:
        print(f"xLearn, {name}: {xlearn_epoch(X, y, k):.3f} s")
    except ImportError:
        print("xLearn is not installed.")


if __name__ == "__main__":
    main()
