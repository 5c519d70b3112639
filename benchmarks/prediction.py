"""Rows a second of prediction against scikit-learn's Nystroem pipeline of equal accuracy, and the overhead of one row.

POLYFM_DATA=DIR python benchmarks/prediction.py
"""

import time

import data
import numpy as np
import scipy.sparse as sp
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

import polyfm


def fastest(call, seconds: float = 1.0) -> float:
    """The shortest time of a call, over about `seconds`."""
    call()
    best, began = np.inf, time.perf_counter()
    while time.perf_counter() - began < seconds:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def equally_good(X, y, X_test, y_test, score: float, classify: bool):
    """The smallest Nystroem pipeline (components doubled each time) that scores as well, or the largest tried."""
    for components in (25, 50, 100, 200, 400):
        best = None
        for gamma in (0.03, 0.1):
            features = Nystroem(kernel="poly", degree=3, gamma=gamma, coef0=1, n_components=components, random_state=0)
            last = RidgeClassifier(alpha=1e-3) if classify else Ridge(alpha=1e-3)
            model = make_pipeline(features, last).fit(X, y)
            reached = model.score(X_test, y_test)
            if best is None or reached > best[0]:
                best = reached, model
        if best[0] >= score:
            break
    return components, *best


def case(name: str, sets, model, classify: bool) -> None:
    X, X_test, y, y_test = sets
    model.set_params(random_state=0, max_iter=100).fit(X, y)
    score = model.score(X_test, y_test)
    components, reached, pipeline = equally_good(X, y, X_test, y_test, score, classify)
    batch = _stacked(X_test, -(-100_000 // X_test.shape[0]))
    n = batch.shape[0]
    for threads in (1, 2):
        with threadpool_limits(threads):
            model.set_params(n_jobs=threads)
            ours, theirs = [], []
            for _ in range(3):
                ours.append(fastest(lambda: model.predict(batch), 0.5))
                theirs.append(fastest(lambda: pipeline.predict(batch), 0.5))
        print(
            f"{name}, {threads} thread(s): polyfm {n / min(ours) / 1e6:.2f} M rows/s (score {score:.4f}), Nystroem of "
            f"{components} {n / min(theirs) / 1e6:.3f} M rows/s ({reached:.4f}): {min(theirs) / min(ours):.1f} times"
        )
    model.set_params(n_jobs=None)
    row = X_test[:1]
    print(f"{name}, one row: {fastest(lambda: model.predict(row), 0.5) * 1e6:.0f} microseconds", flush=True)


def _stacked(X, repeats: int):
    return np.tile(X, (repeats, 1)) if isinstance(X, np.ndarray) else sp.vstack([X] * repeats, format="csr")


if __name__ == "__main__":
    network = polyfm.PolynomialNetworkRegressor(degree=3, n_components=10, beta=1.0)
    case("cadata (dense)", data.dense("cadata"), network, False)
    case("a9a (sparse)", data.a9a(), polyfm.FactorizationMachineClassifier(n_components=8, alpha=1.0, beta=5.0), True)
