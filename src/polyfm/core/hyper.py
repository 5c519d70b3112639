"""Hyper-parameters of Bayesian models: the precision and the mean of the parameters of each field and basis.

    theta_js ~ N(mu_gs, 1 / lam_gs),   g the group of feature j
    mu_gs | lam_gs ~ N(0, 1 / (g0 lam_gs)),   lam_gs ~ Gamma(a0 / 2, b0 / 2),   a0 = g0 = 1

Gamma is by shape and rate. All that data have to say comes in by sums over a group: with N features in it, kappa =
g0 + N and mun = sum theta / kappa, the posterior of (mu, lam) is again of this kind, with

    lam ~ Gamma((a0 + N) / 2, (b0 + sum theta^2 - kappa mun^2) / 2),   mu | lam ~ N(mun, 1 / (kappa lam)).

That is a draw (Gibbs) or, with E theta^2 for theta^2, the best factor of a mean-field posterior (variational).

The m factors of a lifted basis share mu and lam, so that N counts them all: data tell the product of the sizes of the
factors alone, and the prior, as the penalty beta/2 sum_t |U^t|^2, draws them towards each other.

Where the noise has a heavy tail, a precision that is learned from the parameters trusts it too much (decision 0016).
Precisions of the bases are then tied to that of the noise, tau, which is learned:

    theta_js ~ N(0, 1 / (strength tau))
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, psi

from polyfm.core.penalty import Ridge
from polyfm.loops.prior import Prior

A0 = G0 = 1.0


class Groups(NamedTuple):
    """The groups of features, dummy features included."""

    of: np.ndarray  # (features + dummies,): the group of each
    sizes: np.ndarray  # (groups,): parameters of a basis
    silent: np.ndarray  # (groups,): whether none of its features occurs

    @classmethod
    def from_labels(cls, labels: np.ndarray, occurs: np.ndarray | None = None, n_factors: int = 1) -> "Groups":
        """The group of each feature, and whether it occurs in the data; None: all do."""
        sizes = n_factors * np.bincount(labels).astype(np.float64)
        return cls(labels.astype(np.uint32), sizes, np.bincount(labels, weights=occurs) == 0)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """(bases, features) or (bases, factors, features) -> (groups, bases): sums over the features of each group, in
        their order."""
        of = self.of.astype(np.intp)  # once, and not for every basis
        values = values if values.ndim == 2 else values.sum(axis=1)
        return np.stack([np.bincount(of, weights=row, minlength=len(self.sizes)) for row in values], axis=1)


class Hyper(NamedTuple):
    """The distribution of (mu, lam) of each group and basis: all arrays are (groups, bases), or have length 1 there."""

    groups: Groups
    b0: np.ndarray  # (groups, 1)
    shape: np.ndarray
    rate: np.ndarray
    mean: np.ndarray  # of mu
    kappa: np.ndarray

    @property
    def n_tied(self) -> int:
        return 0

    @classmethod
    def held(cls, groups: Groups, n_bases: int, precision: float | np.ndarray, b0: float | np.ndarray) -> "Hyper":
        """The precision is known, and the mean is 0, however large the group is. Numbers, or one for each group."""
        shape = np.repeat((A0 + groups.sizes[:, None]) / 2, n_bases, axis=1)
        kappa = np.repeat(G0 + groups.sizes[:, None], n_bases, axis=1)
        precision, b0 = (np.broadcast_to(value, len(shape))[:, None] for value in (precision, b0))
        return cls(groups, b0, shape, shape / precision, np.zeros_like(shape), kappa)

    def given(self, means: np.ndarray, variances: np.ndarray | None) -> "Hyper":
        """The posterior given parameters (bases, features), or their means and variances."""
        squares = means**2 if variances is None else means**2 + variances
        mean = self.groups.sums(means) / self.kappa
        rate = (self.b0 + np.maximum(self.groups.sums(squares) - self.kappa * mean**2, 0.0)) / 2
        return self._replace(rate=rate, mean=mean)

    def draw(self, rng: np.random.Generator) -> "Hyper":
        """The point (mu, lam) that was drawn, as a distribution that is at this point: `precision` and `mean`."""
        precision = rng.gamma(self.shape) / self.rate
        mean = self.mean + rng.standard_normal(self.mean.shape) / np.sqrt(self.kappa * precision)
        # Where no data hold it, a precision would go where it likes, and the mean of predictions would not exist.
        precision[self.groups.silent], mean[self.groups.silent] = 1 / self.b0[self.groups.silent], 0.0
        return self._replace(rate=self.shape / precision, mean=mean)

    @property
    def precision(self) -> np.ndarray:
        """E lam."""
        return self.shape / self.rate

    def prior(self, tau: float) -> Prior:
        """For loops of variational inference."""
        return Prior(self.groups.of, self.precision, self.mean)

    def ridge(self, tau: float) -> Ridge:
        """Penalties in units of squared residuals, whose precision is tau."""
        return Ridge(self.precision / tau, self.groups.of, self.mean)

    def tied_squares(self, means: np.ndarray, variances: np.ndarray | None) -> float:
        return 0.0

    def kept(self) -> dict[str, np.ndarray]:
        """What `restored` needs, for checkpoints."""
        return {"b0": self.b0, "rate": self.rate, "centre": self.mean}

    def restored(self, arrays: dict[str, np.ndarray]) -> "Hyper":
        return self._replace(b0=arrays["b0"].copy(), rate=arrays["rate"].copy(), mean=arrays["centre"].copy())

    def bound(self, means: np.ndarray, variances: np.ndarray) -> float:
        """What the parameters and their hyper-parameters contribute to the evidence lower bound:
        E log p(theta | mu, lam) + H(theta) - KL(q(mu, lam) | p(mu, lam))."""
        a, b, n = self.shape, self.rate, self.groups.sizes[:, None]
        log_lam = psi(a) - np.log(b)
        lam = a / b
        sums, squares = self.groups.sums(means), self.groups.sums(means**2 + variances)
        gaps = squares - 2 * self.mean * sums + n * self.mean**2
        total = 0.5 * n * (log_lam - np.log(2 * np.pi)) - 0.5 * (lam * gaps + n / self.kappa)
        total += 0.5 * (np.log(G0 / self.kappa) + 1.0) - 0.5 * G0 * (lam * self.mean**2 + 1.0 / self.kappa)
        total -= gamma_divergence(a, b, A0 / 2, self.b0 / 2)
        return float(np.sum(total)) + entropy(variances)


class Tied(NamedTuple):
    """Precisions that are `strength` times that of the noise. To the noise a parameter is then what one more row is: a
    residual theta of this weight (`tied_squares`)."""

    groups: Groups
    n_bases: int
    strength: float

    @property
    def n_tied(self) -> int:
        """How many parameters there are."""
        return int(self.groups.sizes.sum()) * self.n_bases

    def _by_group(self, value: float) -> np.ndarray:
        return np.full((len(self.groups.sizes), self.n_bases), value)

    def given(self, means: np.ndarray, variances: np.ndarray | None) -> "Tied":
        """Nothing is learned."""
        return self

    def draw(self, rng: np.random.Generator) -> "Tied":
        return self

    def prior(self, tau: float) -> Prior:
        return Prior(self.groups.of, self._by_group(self.strength * tau), self._by_group(0.0))

    def ridge(self, tau: float) -> Ridge:
        return Ridge(self._by_group(self.strength), self.groups.of, self._by_group(0.0))

    def tied_squares(self, means: np.ndarray, variances: np.ndarray | None) -> float:
        """strength E sum theta^2."""
        squares = float(np.sum(means**2)) + (0.0 if variances is None else float(np.sum(variances)))
        return self.strength * squares

    def kept(self) -> dict[str, np.ndarray]:
        return {"strength": np.array([self.strength])}

    def restored(self, arrays: dict[str, np.ndarray]) -> "Tied":
        return self._replace(strength=float(arrays["strength"][0]))

    def bound(self, means: np.ndarray, variances: np.ndarray) -> float:
        """As that of `Hyper`, less what the noise has as its own: a parameter is a row of the likelihood."""
        return 0.5 * self.n_tied * math.log(self.strength) + entropy(variances)


def entropy(variances: np.ndarray) -> float:
    """Of independent Gaussians."""
    return 0.5 * float(np.sum(np.log(2 * np.pi * math.e * variances)))


def gamma_divergence(a, b, a0, b0):
    """KL(Gamma(a, b) | Gamma(a0, b0)), by shape and rate."""
    return (a - a0) * psi(a) - gammaln(a) + gammaln(a0) + a0 * (np.log(b) - np.log(b0)) + a * (b0 - b) / b
