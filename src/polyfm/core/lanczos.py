"""Extreme eigenvalues of symmetric matrices that are known by their products alone (Lanczos 1950).

From a random start, k products give a tridiagonal matrix whose extreme eigenvalues (Ritz values) approach those of the
matrix from within. Kuczynski and Wozniakowski (1992): the largest is off by more than a part e of the spread of all
eigenvalues with a probability of at most 1.65 sqrt(size) exp(-sqrt(e) (2k - 1)), however close they lie. The error
falls as 1/k^2 at least, so that a value that has grown by less than some amount over the last third of the products has
about that much left to grow, or less. So it ends there, and in any case when the probability is below one in a million.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal

FEWEST, EVERY = 12, 4  # products before the first look, and between two
SURE = 16.0  # products times the root of the tolerance: 1.65 sqrt(1e7) exp(-2 SURE / sqrt(2)) < 1e-6
NOTHING = 1e-14  # of the matrix's size: the space that the start spans has ended, and with it all that can be found


class Ritz(NamedTuple):
    lowest: float
    highest: float
    n_products: int

    @property
    def size(self) -> float:
        return max(abs(self.lowest), abs(self.highest))


def lanczos(
    product: Callable[[np.ndarray], np.ndarray], size: int, signs: tuple[int, ...], *, tol: float, seed: int = 0
) -> Ritz:
    """The ends of the spectrum, of which the lowest (for the sign 1) and the highest (-1) are good to about `tol` of
    the larger of them. Three vectors are kept at a time.

    Rounding brings copies of eigenvalues that have been found already, which do no harm to the extreme ones.
    """
    rng = np.random.RandomState(seed)
    q = rng.standard_normal(size)
    q /= np.linalg.norm(q)
    before = np.zeros(size)
    diagonal: list[float] = []
    beside: list[float] = []
    looks: list[tuple[int, float]] = []
    most = min(size, math.ceil(SURE / math.sqrt(tol)))
    for k in range(1, most + 1):
        u = product(q)
        diagonal.append(float(q @ u))
        u = u - diagonal[-1] * q - (beside[-1] if beside else 0.0) * before
        length = float(np.linalg.norm(u))
        over = length <= NOTHING * max(max(map(abs, diagonal)), max(beside, default=0.0), 1e-300)
        if over or k == most or (k >= FEWEST and k % EVERY == 0):
            found = Ritz(*_ends(diagonal, beside), k)
            extreme = max([-found.lowest] * (1 in signs) + [found.highest] * (-1 in signs))
            earlier = [value for at, value in looks if at <= 2 * k / 3]
            looks.append((k, extreme))
            if over or (earlier and extreme - earlier[-1] <= tol * found.size):
                return found
        before, q = q, u / length
        beside.append(length)
    return found


def _ends(diagonal: list[float], beside: list[float]) -> tuple[float, float]:
    n = len(diagonal)
    if n == 1:
        return diagonal[0], diagonal[0]
    values = eigh_tridiagonal(np.array(diagonal), np.array(beside[: n - 1]), eigvals_only=True)
    return float(values[0]), float(values[-1])
