"""What is assumed of the targets given the predictions f, for Bayesian inference.

A likelihood has

- `z`, targets around which predictions are Gaussian, with precision `tau`: the targets themselves, or latent ones,
- ``begin(problem, residuals)``: residuals of the model that inference starts from have this size,
- ``learn(problem, residuals, squares)``: the best distribution of all that is its own, given expected residuals f - z
  (which it brings up to date where z changes) and squares = E sum w (f - z)^2, which it returns,
- ``bound(problem, squares)``: its part of the evidence lower bound,
- ``draw(problem, residuals, seed, iteration)``: draw all that is its own, given the residuals (likewise brought up to
  date), and ``log_likelihood(problem, residuals)`` afterwards,
- ``tie(n)``: the precisions of n parameters are tied to `tau` (`core.hyper.Tied`). The three methods above take the
  sum of their squares, `tied`, as the last argument,
- ``kept()``, what a model needs of it to predict,
- ``resume()`` and ``restore(arrays)``, for checkpoints; `shapes` says what they look like.
"""

import math
from typing import Any

import numpy as np
from scipy.special import ndtri, psi

from polyfm.core.hyper import A0, gamma_divergence
from polyfm.core.problem import Problem
from polyfm.loops import ordered
from polyfm.solvers.base import Resume

CUT_PRECISION = 0.1  # of the prior of cut points
CUT_STEPS = 20  # of Newton's method, at most
FARTHEST = 20.0  # that a step moves the logarithm of a gap: exp of much more is no gap, and overflows
TAILS = 5.0  # degrees of freedom of the proposal for cut points
TINY = 1e-12  # of the variance of the targets: less is no noise, but rounding


def weighted_sum(problem: Problem, values: np.ndarray) -> float:
    """sum_i w_i values_i, in double precision."""
    weight = problem.response.weight
    return float(values.sum(dtype=np.float64) if weight is None else weight.astype(np.float64) @ values)


def squares_of(problem: Problem, residuals: np.ndarray) -> float:
    """sum_i w_i residuals_i^2, in double precision."""
    weight, r = problem.response.weight, residuals.astype(np.float64, copy=False)
    return float(np.einsum("i,i->", r if weight is None else weight * r, r))


def key_of(seed: int) -> tuple[int, int]:
    """A seed as a key of `philox`."""
    return seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF


def generator(seed: int, iteration: int, purpose: int) -> np.random.Generator:
    """Random numbers that depend on nothing but these."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, iteration, purpose])))


class Likelihood:
    """What likelihoods share."""

    def tie(self, n: int) -> None:
        """The noise of latent targets is known: nothing is tied to it."""

    def kept(self) -> Resume:
        """What a model keeps of it, beside the noise."""
        return {}


class Gaussian(Likelihood):
    """y ~ N(f, 1 / tau), tau ~ Gamma(a0 / 2, s2 / 2), with s2 the size of squared residuals to expect."""

    shapes: dict[str, tuple[int | None, ...]] = {"noise": (2,)}

    def __init__(self, problem: Problem):
        self.z = problem.y.astype(np.float64)
        self.n, self.shape = problem.total_weight, (A0 + problem.total_weight) / 2
        mean, eps = weighted_sum(problem, self.z) / self.n, float(np.finfo(problem.y.dtype).eps)
        of_digits = (eps * float(np.abs(self.z).max())) ** 2
        self.smallest = max(TINY * weighted_sum(problem, (self.z - mean) ** 2) / self.n, of_digits, 1e-200)
        self.s2, self.rate = 1.0, self.shape
        self.n_tied = 0

    def tie(self, n: int) -> None:
        """Each is like a row. The precision stays what it is."""
        tau, self.n_tied = self.tau, n
        self.shape = (A0 + self.n + n) / 2
        self.rate = self.shape / tau

    def constant(self, problem: Problem) -> float:
        """The best prediction that is the same for all."""
        return weighted_sum(problem, self.z) / self.n

    def begin(self, problem: Problem, residuals: np.ndarray) -> None:
        self.s2 = max(weighted_sum(problem, residuals**2) / self.n, self.smallest)
        self.rate = self.shape * self.s2

    @property
    def tau(self) -> float:
        return self.shape / self.rate

    def learn(self, problem: Problem, residuals: np.ndarray, squares: float, tied: float = 0.0) -> float:
        self.rate = (self.s2 + max(squares, 0.0) + tied) / 2
        return squares

    def bound(self, problem: Problem, squares: float, tied: float = 0.0) -> float:
        value = 0.5 * (self.n + self.n_tied) * (psi(self.shape) - math.log(self.rate) - math.log(2 * math.pi))
        value -= 0.5 * self.tau * (squares + tied) + gamma_divergence(self.shape, self.rate, A0 / 2, self.s2 / 2)
        return float(value)

    def draw(self, problem: Problem, residuals: np.ndarray, seed: int, iteration: int, tied: float = 0.0) -> None:
        squares = squares_of(problem, residuals)
        tau = generator(seed, iteration, 0).gamma(self.shape) * 2 / (self.s2 + squares + tied)
        self.rate = self.shape / tau

    def log_likelihood(self, problem: Problem, residuals: np.ndarray) -> float:
        squares = squares_of(problem, residuals)
        return 0.5 * (self.n * math.log(self.tau / (2 * math.pi)) - self.tau * squares)

    def resume(self) -> Resume:
        return {"noise": np.array([self.s2, self.rate])}

    def restore(self, arrays: Resume) -> None:
        self.s2, self.rate = arrays["noise"].tolist()


class Probit(Likelihood):
    """The classes -1 and 1 are the signs of latent targets z ~ N(f, 1)."""

    shapes: dict[str, tuple[int | None, ...]] = {"latent": (None,), "evidence": (2,)}
    tau = 1.0

    def __init__(self, problem: Problem):
        self.n, self.weight = problem.total_weight, problem.response.weight
        self.codes, self.cuts = self._classes(problem.y, problem.response.weight)
        self.z = np.zeros(len(problem.y))
        self.evidence = self.squares = 0.0  # sums of w log P(class) and of squared residuals, at expected predictions

    @staticmethod
    def _classes(y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The class of each sample, from 0 on, and the cut points of z between them."""
        return (y > 0).astype(np.uint32), np.array([-np.inf, 0.0, np.inf])

    def constant(self, problem: Problem) -> float:
        positive = weighted_sum(problem, (self.codes > 0).astype(np.float64))
        return float(ndtri((positive + 0.5) / (self.n + 1)))

    def begin(self, problem: Problem, residuals: np.ndarray) -> None:
        self.learn(problem, residuals, 0.0)

    def learn(self, problem: Problem, residuals: np.ndarray, squares: float, tied: float = 0.0) -> float:
        before = weighted_sum(problem, residuals**2)
        f, new = residuals + self.z, np.empty(len(residuals))
        self.evidence, self.squares = ordered.expect(self.codes, self.weight, self.cuts, f, new)
        self.z = f - new
        residuals[:] = new
        return squares - before + self.squares

    def bound(self, problem: Problem, squares: float, tied: float = 0.0) -> float:
        """E log p(y, z | f) + H(z) at the best latent targets, those of `learn`: log P(class) at the expected
        predictions, less half of their variances."""
        return self.evidence - 0.5 * (squares - self.squares)

    def draw(self, problem: Problem, residuals: np.ndarray, seed: int, iteration: int, tied: float = 0.0) -> None:
        f, new = residuals + self.z, np.empty(len(residuals))
        ordered.draw(self.codes, self.weight, self.cuts, f, *key_of(seed), iteration, new)
        self.z = f - new
        residuals[:] = new

    def log_likelihood(self, problem: Problem, residuals: np.ndarray) -> float:
        f = residuals + self.z
        return float(ordered.expect(self.codes, self.weight, self.cuts, f, np.empty(len(f)))[0])

    def resume(self) -> Resume:
        return {"latent": self.z.copy(), "evidence": np.array([self.evidence, self.squares])}

    def restore(self, arrays: Resume) -> None:
        self.z = arrays["latent"].copy()
        self.evidence, self.squares = arrays["evidence"].tolist()


class Ordered(Probit):
    """Classes in an order, 0 .. K - 1: class c is cuts[c] < z <= cuts[c + 1]. Cut points are learned, in the place of
    an intercept: the first is a_1, and each other exp(a_c) beyond the one before, with a ~ N(0, 1 / CUT_PRECISION)."""

    shapes = {**Probit.shapes, "cuts": (None,)}

    @staticmethod
    def _classes(y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        codes = y.astype(np.uint32)
        counts = np.bincount(codes, weights=weight) + 1.0
        return codes, np.concatenate(([-np.inf], ndtri(np.cumsum(counts)[:-1] / counts.sum()), [np.inf]))

    def constant(self, problem: Problem) -> float:
        return 0.0

    def learn(self, problem: Problem, residuals: np.ndarray, squares: float, tied: float = 0.0) -> float:
        self.cuts = folded(self._mode(residuals + self.z)[0])
        return super().learn(problem, residuals, squares)

    def bound(self, problem: Problem, squares: float, tied: float = 0.0) -> float:
        return super().bound(problem, squares) - 0.5 * CUT_PRECISION * float(np.sum(unfolded(self.cuts) ** 2))

    def draw(self, problem: Problem, residuals: np.ndarray, seed: int, iteration: int, tied: float = 0.0) -> None:
        self._draw_cuts(residuals + self.z, generator(seed, iteration, 0))
        super().draw(problem, residuals, seed, iteration)

    def _draw_cuts(self, f: np.ndarray, rng: np.random.Generator) -> None:
        """Given the predictions, without latent targets: propose from a multivariate t around the mode, and accept by
        the ratio of Metropolis and Hastings."""
        mode, precision = self._mode(f)
        L = np.linalg.cholesky(precision)
        trial = mode + np.linalg.solve(L.T, rng.standard_normal(len(mode)) / math.sqrt(rng.chisquare(TAILS) / TAILS))

        def log_ratio(a: np.ndarray) -> float:
            gap = L.T @ (a - mode)
            proposal = -0.5 * (TAILS + len(a)) * math.log1p(float(gap @ gap) / TAILS)
            return self._posterior(f, a)[0] - proposal

        if math.log(rng.uniform()) < log_ratio(trial) - log_ratio(unfolded(self.cuts)):
            self.cuts = folded(trial)

    def _posterior(self, f: np.ndarray, a: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The log-posterior of a, its gradient and its Hessian."""
        cuts = folded(a)
        K = len(cuts) - 1
        slopes, diagonal, beside = np.zeros(K + 1), np.zeros(K + 1), np.zeros(K + 1)
        value = ordered.cut_slopes(self.codes, self.weight, cuts, f, slopes, diagonal, beside)
        H = np.diag(diagonal[1:-1]) + np.diag(beside[1:-2], 1) + np.diag(beside[1:-2], -1)
        J = np.tril(np.ones((K - 1, K - 1))) * np.concatenate(([1.0], np.exp(a[1:])))  # of the cut points by a
        g, H = J.T @ slopes[1:-1], J.T @ H @ J
        H[np.arange(1, K - 1), np.arange(1, K - 1)] += g[1:]  # the second derivative of exp
        value -= 0.5 * CUT_PRECISION * float(a @ a)
        return value, g - CUT_PRECISION * a, H - CUT_PRECISION * np.eye(K - 1)

    def _mode(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mode of the posterior of a by damped Newton steps, and minus the Hessian there."""
        a = unfolded(self.cuts)
        value, g, H = self._posterior(f, a)
        for _ in range(CUT_STEPS):
            direction = np.linalg.solve(_positive(-H), g)
            gain = float(g @ direction)
            if gain < 1e-9 * max(abs(value), 1.0):
                break
            step, found = min(1.0, FARTHEST / np.max(np.abs(direction[1:]), initial=FARTHEST)), None
            while step > 1e-6:
                trial = a + step * direction
                found = self._posterior(f, trial)
                if found[0] >= value + 1e-4 * step * gain:
                    break
                step /= 2
            else:
                break
            a, (value, g, H) = trial, found
        return a, _positive(-H)

    def kept(self) -> Resume:
        return {"cuts": self.cuts[1:-1].copy()}

    def resume(self) -> Resume:
        return super().resume() | self.kept()

    def restore(self, arrays: Resume) -> None:
        super().restore(arrays)
        self.cuts = np.concatenate(([-np.inf], arrays["cuts"], [np.inf]))


def folded(a: np.ndarray) -> np.ndarray:
    """Cut points, from -inf to inf, of their free parameters."""
    return np.concatenate(([-np.inf], a[0] + np.concatenate(([0.0], np.cumsum(np.exp(a[1:])))), [np.inf]))


def unfolded(cuts: np.ndarray) -> np.ndarray:
    return np.concatenate((cuts[1:2], np.log(np.diff(cuts[1:-1]))))


def _positive(H: np.ndarray) -> np.ndarray:
    """H with its eigenvalues, where negative or tiny, made positive."""
    values, vectors = np.linalg.eigh((H + H.T) / 2)
    return (vectors * np.maximum(np.abs(values), 1e-8 * max(np.abs(values).max(), 1e-300))) @ vectors.T


LIKELIHOODS: dict[str, Any] = {"gaussian": Gaussian, "probit": Probit, "ordered": Ordered}
