"""What `compare.py` times inside a long-lived process, and that process: the polyfm of one revision, on its PYTHONPATH.

It is told what to do by lines of JSON, [verb, argument, ...], and answers each with one line. Only public estimators
are used, so that old revisions run too, and every default that matters is given, since it may change.
"""

import gc
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

COMMON = {"alpha": 1.0, "beta": 1.0, "init_scale": 0.1, "tol": 0.0, "random_state": 0}
MACHINE = {"degree": 2, "fit_lower": "explicit", "fit_linear": True, "method": "direct"}
SQUARED = MACHINE | {"loss": "squared", "n_components": 30}
LOGISTIC = MACHINE | {"loss": "logistic", "n_components": 10, "solver": "lbfgs"}
CLICKS = LOGISTIC | {"n_components": 8}
NETWORK = {"degree": 3, "fit_lower": "augment", "fit_linear": False, "method": "lifted", "loss": "squared"}


class Case(NamedTuple):
    title: str
    data: str
    estimator: str
    parameters: dict[str, Any]
    epochs: int
    rows: int = 0  # to predict; where 0, the fit is what is timed
    calls: int = 1  # in one sample, so that it lasts long enough for the clock


REGRESSOR, CLASSIFIER = "FactorizationMachineRegressor", "FactorizationMachineClassifier"
CASES = {
    "movielens-start": Case("MovieLens 1M, cd, 1 epoch", "movielens", REGRESSOR, SQUARED | {"solver": "cd"}, 1),
    "movielens-cd": Case("MovieLens 1M, cd, 4 epochs", "movielens", REGRESSOR, SQUARED | {"solver": "cd"}, 4),
    "movielens-block": Case("MovieLens 1M, block, 4 epochs", "movielens", REGRESSOR, SQUARED | {"solver": "block"}, 4),
    "predict-row": Case("predict 1 row", "movielens", REGRESSOR, SQUARED | {"solver": "cd"}, 1, 1, 10_000),
    "predict-rows": Case("predict 100,000 rows", "movielens", REGRESSOR, SQUARED | {"solver": "cd"}, 1, 100_000, 100),
    "imdb-cd": Case("IMDB, cd, 2 epochs", "imdb", REGRESSOR, SQUARED | {"solver": "cd", "n_components": 20}, 2),
    "cadata-lifted": Case(
        "cadata, lifted H^3, cd, 100 epochs", "cadata", "PolynomialNetworkRegressor",
        NETWORK | {"solver": "cd", "n_components": 10}, 100,
    ),
    "clicks-sgd": Case("clicks, sgd, 2 epochs", "clicks", CLASSIFIER, CLICKS | {"solver": "sgd"}, 2),
    "clicks-start": Case("clicks, cd, 1 epoch", "clicks", CLASSIFIER, CLICKS | {"solver": "cd"}, 1),
    "imdb-sgd": Case("IMDB, sgd, 2 epochs", "imdb-classes", CLASSIFIER, LOGISTIC | {"solver": "sgd"}, 2),
    "a9a-cd": Case("a9a, logistic, cd, 10 epochs", "a9a", CLASSIFIER, LOGISTIC | {"solver": "cd"}, 10),
    "a9a-lbfgs": Case("a9a, L-BFGS, 30 epochs", "a9a", CLASSIFIER, LOGISTIC, 30),
}  # fmt: skip


@lru_cache(maxsize=1)
def published(name: str) -> tuple:
    import data

    readers = {
        "movielens": data.movielens_1m, "imdb": data.imdb, "imdb-classes": data.imdb_classes, "clicks": data.clicks,
        "cadata": partial(data.dense, "cadata"),
    }  # fmt: skip
    return readers.get(name, data.a9a)()


@lru_cache(maxsize=1)
def made_up(name: str) -> tuple:
    """Small data of the same kind, for --quick."""
    import data
    import numpy as np

    rng = np.random.RandomState(0)
    y = rng.standard_normal(1500)
    if name == "cadata":
        X = rng.standard_normal((1500, 8))
    else:
        X = data.one_hot(
            *(rng.randint(size, size=1500) for size in (100, 60, 20, 20)[: 2 if name == "movielens" else 4])
        )
    if name.startswith("imdb"):
        X.data[:] = rng.uniform(0.1, 1.0, X.nnz)
    if name in ("a9a", "clicks", "imdb-classes"):
        y = np.where(y > 0, 1.0, -1.0)
    return X[:1000], X[1000:], y[:1000], y[1000:]


def prepared(case: Case, quick: bool, threads: int) -> Callable[[], list[float]]:
    """What to time: a call that returns numbers on which both revisions should agree."""
    import numpy as np

    import polyfm

    X, X_test, y, _ = (made_up if quick else published)(case.data)
    estimator = getattr(polyfm, case.estimator)
    model = estimator(**COMMON, **case.parameters, max_iter=case.epochs, n_jobs=threads)
    rows = X_test[np.arange(case.rows) % X_test.shape[0]]

    def fit() -> list[float]:
        model.fit(X, y)
        return [model.objective_, model.n_iter_]

    def predict() -> list[float]:
        return [float(np.abs(model.predict(rows)).mean())]

    fit()
    return predict if case.rows else fit


class Worker:
    def __init__(self, quick: bool, threads: int):
        self.quick, self.threads = quick, threads
        self.case: Case | None = None
        self.call: Callable[[], list[float]] | None = None

    def prepare(self, name: str) -> dict[str, Any]:
        """Load, compile and run once; or say why not."""
        self.case, self.call = CASES[name], None
        try:
            self.call = prepared(self.case, self.quick, self.threads)
            return {"results": self.call()}
        except FileNotFoundError as error:
            return {"trouble": f"POLYFM_DATA has no {Path(error.filename).name}"}
        except SystemExit as error:  # there is no POLYFM_DATA
            return {"trouble": str(error)}
        except Exception as error:
            return {"trouble": f"{type(error).__name__}: {error}"}

    def sample(self) -> dict[str, Any]:
        gc.collect()
        began = time.perf_counter()
        for _ in range(self.case.calls):
            self.call()
        return {"seconds": (time.perf_counter() - began) / self.case.calls}

    def peak(self) -> dict[str, Any]:
        from peers.base import peak_mb

        return {"mb": peak_mb()}


def main(quick: str, threads: str) -> None:
    import polyfm

    source = os.environ["PYTHONPATH"]
    if not Path(polyfm.__file__).is_relative_to(source):
        raise SystemExit(f"polyfm was imported from {polyfm.__file__} and not from {source}.")
    warnings.simplefilter("ignore")
    worker = Worker(quick == "quick", int(threads))
    answers, sys.stdout = sys.stdout, sys.stderr  # nothing that is printed gets among the answers
    for line in sys.stdin:
        verb, *arguments = json.loads(line)
        print(json.dumps(getattr(worker, verb)(*arguments)), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
