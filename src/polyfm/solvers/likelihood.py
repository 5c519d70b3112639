"""What is assumed of the targets given the predictions f, for Bayesian inference.

A likelihood has

- `z`, targets around which predictions are Gaussian, with precision `tau`: the targets themselves, or latent ones,
- ``begin(problem, residuals)``: residuals of the model that inference starts from have this size,
- ``learn(problem, residuals, squares)``: the best distribution of all that is its own, given expected residuals f - z
  (which it brings up to date where z changes) and squares = E sum w (f - z)^2, which it returns,
- ``bound(problem, squares)``: its part of the evidence lower bound,
- ``draw(problem, residuals, seed, iteration)``: draw all that is its own, given the residuals (likewise brought up to
  date), and ``log_likelihood(problem, residuals)`` afterwards,
- ``resume()`` and ``restore(arrays)``, for checkpoints; `shapes` says what they look like.
"""

import math
from typing import Any

import numpy as np
from scipy.special import psi

from polyfm.core.hyper import A0, gamma_divergence
from polyfm.core.problem import Problem
from polyfm.solvers.base import Resume

TINY = 1e-12  # of the squared targets: less is no noise, but rounding


def weighted_sum(problem: Problem, values: np.ndarray) -> float:
    """sum_i w_i values_i, in double precision."""
    weight = problem.response.weight
    return float(values.sum(dtype=np.float64) if weight is None else weight.astype(np.float64) @ values)


def key_of(seed: int) -> tuple[int, int]:
    """A seed as a key of `philox`."""
    return seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF


def generator(seed: int, iteration: int, purpose: int) -> np.random.Generator:
    """Random numbers that depend on nothing but these."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, iteration, purpose])))


class Gaussian:
    """y ~ N(f, 1 / tau), tau ~ Gamma(a0 / 2, s2 / 2), with s2 the size of squared residuals to expect."""

    shapes: dict[str, tuple[int | None, ...]] = {"noise": (2,)}

    def __init__(self, problem: Problem):
        self.z = problem.y.astype(np.float64)
        self.n, self.shape = problem.total_weight, (A0 + problem.total_weight) / 2
        self.smallest = TINY * max(weighted_sum(problem, self.z**2) / self.n, 1e-200)
        self.s2, self.rate = 1.0, self.shape

    def constant(self, problem: Problem) -> float:
        """The best prediction that is the same for all."""
        return weighted_sum(problem, self.z) / self.n

    def begin(self, problem: Problem, residuals: np.ndarray) -> None:
        self.s2 = max(weighted_sum(problem, residuals**2) / self.n, self.smallest)
        self.rate = self.shape * self.s2

    @property
    def tau(self) -> float:
        return self.shape / self.rate

    def learn(self, problem: Problem, residuals: np.ndarray, squares: float) -> float:
        self.rate = (self.s2 + max(squares, 0.0)) / 2
        return squares

    def bound(self, problem: Problem, squares: float) -> float:
        value = 0.5 * self.n * (psi(self.shape) - math.log(self.rate) - math.log(2 * math.pi))
        value -= 0.5 * self.tau * squares + gamma_divergence(self.shape, self.rate, A0 / 2, self.s2 / 2)
        return float(value)

    def draw(self, problem: Problem, residuals: np.ndarray, seed: int, iteration: int) -> None:
        squares = weighted_sum(problem, residuals.astype(np.float64) ** 2)
        tau = generator(seed, iteration, 0).gamma(self.shape) * 2 / (self.s2 + squares)
        self.rate = self.shape / tau

    def log_likelihood(self, problem: Problem, residuals: np.ndarray) -> float:
        squares = weighted_sum(problem, residuals.astype(np.float64) ** 2)
        return 0.5 * (self.n * math.log(self.tau / (2 * math.pi)) - self.tau * squares)

    def resume(self) -> Resume:
        return {"noise": np.array([self.s2, self.rate])}

    def restore(self, arrays: Resume) -> None:
        self.s2, self.rate = arrays["noise"].tolist()


LIKELIHOODS: dict[str, Any] = {"gaussian": Gaussian}
