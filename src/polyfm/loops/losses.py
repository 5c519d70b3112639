"""The losses that come with polyfm, as loops compile them. `polyfm.losses` is their public door, and says what a loss
is."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import entr, expit

from polyfm.loops.jit import compiled


@compiled
class Squared(NamedTuple):
    """l = (f - y)^2 / 2, for real targets."""

    curvature: float = 1.0

    tasks = ("regression", "classification")
    residual = True
    quadratic = True

    def value(self, y, f):
        return 0.5 * (f - y) * (f - y)

    def derivative(self, y, f):
        return f - y

    def second_derivative(self, y, f):
        return 1.0

    def conjugate(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        return u * (0.5 * u + y)


@compiled
class SquaredHinge(NamedTuple):
    """l = max(1 - y f, 0)^2, for targets -1 and 1."""

    curvature: float = 2.0

    tasks = ("classification",)

    def value(self, y, f):
        margin = max(1.0 - y * f, 0.0)
        return margin * margin

    def derivative(self, y, f):
        return -2.0 * y * max(1.0 - y * f, 0.0)

    def second_derivative(self, y, f):
        return 2.0 if y * f < 1.0 else 0.0

    def conjugate(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        a = -y * u
        return np.where(a >= 0, a * (0.25 * a - 1.0), np.inf)


@compiled
class Logistic(NamedTuple):
    """l = log(1 + exp(-y f)), for targets -1 and 1. Nothing can overflow, and no branch be guessed wrong. All three
    methods take the same exponential, so that loops which ask for several compute it once."""

    curvature: float = 0.25

    tasks = ("classification",)

    def value(self, y, f):
        z = y * f
        return math.log1p(math.exp(-abs(z))) + max(-z, 0.0)

    def derivative(self, y, f):
        z = y * f
        e = math.exp(-abs(z))
        return -y * (e if z > 0.0 else 1.0) / (1.0 + e)

    def second_derivative(self, y, f):
        e = math.exp(-abs(y * f))
        return e / ((1.0 + e) * (1.0 + e))

    def probability(self, f: np.ndarray) -> np.ndarray:
        return expit(f)

    def conjugate(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        p = -y * u
        inside = (p >= 0) & (p <= 1)
        return np.where(inside, -entr(np.where(inside, p, 0.0)) - entr(np.where(inside, 1.0 - p, 0.0)), np.inf)


@compiled
class CumulativeLogit(NamedTuple):
    """l = -log P(class y), with P(class <= c) = sigma(cuts[c] - f), for classes 0 .. K - 1 in an order.

    Since sigma(u) - sigma(v) = sigma(u) sigma(-v) (1 - exp(v - u)), that is two logistic losses, one for the cut point
    on each side, and a term that does not depend on f.
    """

    cuts: np.ndarray  # (K - 1,), rising
    curvature: float = 0.5

    tasks = ()

    def value(self, y, f):
        c = int(y)
        total = 0.0
        if c < self.cuts.shape[0]:
            z = f - self.cuts[c]
            total += math.log1p(math.exp(-abs(z))) + max(z, 0.0)
        if c > 0:
            z = self.cuts[c - 1] - f
            total += math.log1p(math.exp(-abs(z))) + max(z, 0.0)
            if c < self.cuts.shape[0]:
                total -= math.log(-math.expm1(self.cuts[c - 1] - self.cuts[c]))
        return total

    def derivative(self, y, f):
        c = int(y)
        slope = 0.0
        if c < self.cuts.shape[0]:
            z = f - self.cuts[c]
            e = math.exp(-abs(z))
            slope += (1.0 if z > 0.0 else e) / (1.0 + e)
        if c > 0:
            z = self.cuts[c - 1] - f
            e = math.exp(-abs(z))
            slope -= (1.0 if z > 0.0 else e) / (1.0 + e)
        return slope

    def second_derivative(self, y, f):
        c = int(y)
        bend = 0.0
        if c < self.cuts.shape[0]:
            e = math.exp(-abs(f - self.cuts[c]))
            bend += e / ((1.0 + e) * (1.0 + e))
        if c > 0:
            e = math.exp(-abs(self.cuts[c - 1] - f))
            bend += e / ((1.0 + e) * (1.0 + e))
        return bend
