"""Compile what fits need before they need it: when an image is built, or a machine is set up."""

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from numbers import Integral
from threading import Event
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from polyfm.estimators.validation import threads_of


class Warmed(NamedTuple):
    """What was compiled, and how long it took.

    Attributes
    ----------
    name : str
        As in `warm_up`.
    seconds : float
        Wall time, that of a new process included.
    """

    name: str
    seconds: float


def warm_up(names: list[str] | None = None, n_jobs: int | None = -1) -> list[Warmed]:
    """Compile the loops of common fits and keep them on disk, so that no later process waits for that.

    Small made-up problems are fitted, and predicted, each in a process of its own. Compiled code belongs to a version
    of polyfm and of numba and to a processor; ``NUMBA_CACHE_DIR`` says where it is kept.

    Parameters
    ----------
    names : list of str, default=None
        Of "ratings", "clicks", "text", "tables", "networks" and "bayes"; None: all of them.
    n_jobs : int, default=-1
        Processes at the same time; -1: one a processor.

    Returns
    -------
    warmed : list of Warmed
        Names and seconds, in the order in which they were done.

    Examples
    --------
    >>> import polyfm
    >>> polyfm.warm_up([])
    []
    """
    return list(warming(names, n_jobs))


def warming(names: list[str] | None = None, n_jobs: int | None = -1) -> Iterator[Warmed]:
    """As `warm_up`, one after the other as they are done."""
    names = list(PROBLEMS) if names is None else [names] if isinstance(names, str) else list(names)
    unknown = [name for name in names if name not in PROBLEMS]
    if unknown:
        raise ValueError(f"There is no {unknown[0]!r} to warm up; there are {', '.join(map(repr, PROBLEMS))}.")
    if os.environ.get("POLYFM_CACHE") == "0":
        raise ValueError("Nothing would be kept: POLYFM_CACHE=0 switches the cache off. Unset it.")
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(f"n_jobs must be a number of processes, or -1 for one a processor, got {n_jobs!r}.")
    return _warming(names, threads_of(n_jobs))


def _warming(names: list[str], n_processes: int) -> Iterator[Warmed]:
    pool, running, over = ThreadPoolExecutor(n_processes), set[subprocess.Popen](), Event()
    try:
        for done in as_completed([pool.submit(_in_a_process, name, running, over) for name in names]):
            yield done.result()
    finally:  # Ctrl-C and errors end what is still compiling
        over.set()
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(running):
            process.terminate()
        pool.shutdown()


def _in_a_process(name: str, running: set[subprocess.Popen], over: Event) -> Warmed:
    began = time.perf_counter()
    code = f"from polyfm.warming import fit; fit({name!r})"
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    running.add(process)
    if over.is_set():  # since this one was taken from the queue
        process.terminate()
    _, errors = process.communicate()
    running.remove(process)
    if process.returncode:
        last = errors.strip().splitlines()[-1:] or ["no message"]
        raise RuntimeError(f"{name!r} could not be compiled: {last[0]}")
    return Warmed(name, time.perf_counter() - began)


def fit(name: str) -> None:
    """Fit and predict what is called by this name, in this process, and see that the code was kept."""
    from polyfm.loops import cache

    warnings.simplefilter("ignore")
    for model, X, y in PROBLEMS[name]():
        model.fit(X, y).predict(X)
    if not cache.kept:
        place = os.environ.get("NUMBA_CACHE_DIR", "")
        raise OSError(
            "compiled code cannot be kept: the folder for it cannot be written, others can write there too, or numba "
            "is switched off. Name a private folder in NUMBA_CACHE_DIR" + (f", which is {place!r}." if place else ".")
        )


def _one_hot(fields: int, n: int) -> tuple[Any, np.ndarray]:
    rng = np.random.RandomState(0)
    columns = rng.randint(20, size=(n, fields)) + 20 * np.arange(fields)
    return sp.csr_matrix((np.ones(columns.size), columns.ravel(), np.arange(0, columns.size + 1, fields))), rng.randn(n)


def _ratings() -> Iterator[tuple]:
    from polyfm.estimators import FactorizationMachineClassifier, FactorizationMachineRegressor

    X, y = _one_hot(2, 40_000)
    yield FactorizationMachineRegressor(**FEW), X, y
    yield FactorizationMachineClassifier(**FEW), X, y > 0


def _clicks() -> Iterator[tuple]:
    from polyfm.estimators import FactorizationMachineClassifier, FactorizationMachineRegressor

    for n in (4000, 75_000):  # descends, takes stochastic steps
        X, y = _one_hot(10, n)
        number = sp.csr_matrix(np.random.RandomState(1).randn(n, 1))
        for table in (X, sp.hstack([X, number], format="csr")):
            yield FactorizationMachineClassifier(**FEW), table, y > 0
            yield FactorizationMachineRegressor(**FEW), table, y


def _text() -> Iterator[tuple]:
    from polyfm.estimators import FactorizationMachineClassifier, FactorizationMachineRegressor

    X = sp.random(4000, 400, 0.2, format="csr", random_state=0)  # enough to be updated in turns
    y = np.random.RandomState(0).randn(X.shape[0])
    yield FactorizationMachineClassifier(**FEW), X, y > 0
    yield FactorizationMachineRegressor(**FEW), X, y


def _tables() -> Iterator[tuple]:
    from polyfm.estimators import FactorizationMachineClassifier, FactorizationMachineRegressor

    X, y = np.random.RandomState(0).randn(1000, 8), np.random.RandomState(1).randn(1000)
    yield FactorizationMachineClassifier(**FEW), X, y > 0
    yield FactorizationMachineRegressor(**FEW), X, y


def _networks() -> Iterator[tuple]:
    from polyfm.estimators import PolynomialNetworkClassifier, PolynomialNetworkRegressor

    X, y = np.random.RandomState(0).randn(1000, 8), np.random.RandomState(1).randn(1000)
    yield PolynomialNetworkClassifier(**FEW), X, y > 0
    yield PolynomialNetworkRegressor(**FEW), X, y


def _bayes() -> Iterator[tuple]:
    from polyfm.estimators import BayesianFactorizationMachineClassifier, BayesianFactorizationMachineRegressor

    X, y = _one_hot(2, 40_000)
    few: dict[str, Any] = {"max_iter": 2, "n_components": 4, "random_state": 0}
    for inference in ("variational", "gibbs"):
        yield BayesianFactorizationMachineRegressor(inference=inference, n_samples=2, **few), X, y
    yield BayesianFactorizationMachineClassifier(**few), X, y > 0


FEW: dict[str, Any] = {"max_iter": 2, "random_state": 0}
PROBLEMS: dict[str, Callable[[], Iterator[tuple]]] = {
    "ratings": _ratings,
    "clicks": _clicks,
    "text": _text,
    "tables": _tables,
    "networks": _networks,
    "bayes": _bayes,
}
