"""Epochs of the lifted forms beside direct ones with as many parameters (k = m r).

POLYFM_DATA=DIR python benchmarks/lifted.py [movielens imdb cadata]
"""

import sys
import time

import data
import numpy as np
from foundation import alternate, epochs, report


def compare(title: str, X, y, r: int, degrees=(2, 3), unit="s", lower=None, repeats=3) -> None:
    for m in degrees:
        common = {"degree": m, "lower": lower, "linear": lower is None}
        contestants = {
            f"direct A^{m}, k = {m * r}": epochs(X, y, k=m * r, **common),
            f"lifted H^{m}, r = {r}": epochs(X, y, k=r, kernel="homogeneous", method="lifted", **common),
            f"lifted A^{m}, r = {r}": epochs(X, y, k=r, method="lifted", **common),
        }
        report(f"{title}, degree {m}", alternate(contestants, repeats), unit)


def movielens() -> None:
    X, _, y, _ = data.movielens_1m()
    compare("MovieLens 1M", X, y, r=10, lower="augment")


def imdb() -> None:
    X, _, y, _ = data.imdb()
    compare("IMDB", X, y, r=10)


def cadata() -> None:
    X, _, y, _ = data.dense("cadata")
    compare("cadata", X, y, r=10, unit="ms", lower="augment", repeats=20)
    yardstick()


def yardstick() -> None:
    """What this machine gives: one thread's matrix product and copy."""
    A = np.random.RandomState(0).standard_normal((1000, 1000))
    a, b = np.zeros(2**25), np.ones(2**25)
    product, copy = (min(timed(f) for _ in range(5)) for f in (lambda: A @ A, lambda: np.copyto(a, b)))
    print(f"\nyardstick: product {2e-9 * 1000**3 / product:.1f} GFlop/s, copy {2e-9 * a.nbytes / copy:.1f} GB/s")


def timed(f) -> float:
    began = time.perf_counter()
    f()
    return time.perf_counter() - began


PARTS = {f.__name__: f for f in (movielens, imdb, cadata)}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
