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
