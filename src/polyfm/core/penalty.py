"""Penalties on parameters, their value, gradient and second derivative, in one home.

    direct   beta sum_s |lambda_s| |p_s|^2      lifted   beta/2 sum_t |U^t|^2      linear   alpha/2 |w|^2

where alpha and beta are a number, or one for each group of features and each basis, and parameters may be drawn towards
means other than 0: |p|^2 then stands for sum_j beta_j (p_j - mean_j)^2. The intercept is never penalised.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from polyfm.core.design import frozen
from polyfm.core.model import Group, Model
from polyfm.core.parameters import Parameters
from polyfm.loops.prior import Prior

AT_ONCE = 2**20  # numbers whose squares may stand in memory together


class Ridge(NamedTuple):
    """Strengths by group of features and, where there is a second axis, by basis; with means or without."""

    strength: np.ndarray  # (groups,) or (groups, bases)
    of: np.ndarray | None = None  # (features,) or (features + dummies,): the group of each; None: all are in group 0
    mean: np.ndarray | None = None  # like `strength`; None: all are 0

    @classmethod
    def by_feature(cls, strengths: np.ndarray) -> "Ridge":
        """One strength for each feature; equal ones make a group."""
        values, of = np.unique(np.asarray(strengths, dtype=np.float64), return_inverse=True)
        return cls(values) if len(values) == 1 else cls(values, of.astype(np.uint32))

    @property
    def is_zero(self) -> bool:
        return not np.any(self.strength)

    @property
    def spread(self) -> float:
        """How many times the parameters of one feature may be as large as those of another, for the same penalty."""
        least, most = math.sqrt(self.strength.min()), math.sqrt(self.strength.max())
        return most / least if least > 0 else math.inf if most > 0 else 1.0

    def times(self, number: float) -> "Ridge":
        return self._replace(strength=number * self.strength)

    def by_basis(self, n_bases: int, n_features: int, n_dummies: int) -> "Ridge":
        """The same with an axis for bases, and a group for dummy features, which take the mean of all features."""
        of, strength = self.of, _with_bases(self.strength, n_bases)
        mean = None if self.mean is None else _with_bases(self.mean, n_bases)
        if of is not None and len(of) < n_features + n_dummies:
            sizes = np.bincount(of, minlength=len(strength))
            strength = np.vstack([strength, sizes @ strength / sizes.sum()])
            mean = None if mean is None else np.vstack([mean, np.zeros(n_bases)])
            of = np.concatenate([of, np.full(n_dummies, len(strength) - 1)])
        return Ridge(strength, None if of is None else of.astype(np.uint32), mean)


def _with_bases(values: np.ndarray, n_bases: int) -> np.ndarray:
    return values if values.ndim == 2 else np.repeat(values[:, None], n_bases, axis=1)


def as_ridge(penalty: "float | Ridge") -> Ridge:
    return penalty if isinstance(penalty, Ridge) else Ridge(np.array([float(penalty)]))


@dataclass(frozen=True)
class Penalty:
    """The penalties of a model on so many features."""

    model: Model
    n_features: int
    alpha: Ridge
    beta: tuple[Ridge, ...]  # one for each group of bases

    @classmethod
    def of(cls, model: Model, n_features: int, alpha, beta) -> "Penalty":
        """`beta` is one for all groups of bases, or a tuple with one for each."""
        betas = beta if isinstance(beta, tuple) and not isinstance(beta, Ridge) else (beta,) * len(model.groups)
        ridges = [as_ridge(b) for b in betas]
        return cls(
            model,
            n_features,
            as_ridge(alpha).by_basis(1, n_features, 0),
            tuple(
                b.by_basis(group.n_bases, n_features, group.n_dummies)
                for b, group in zip(ridges, model.groups, strict=True)
            ),
        )

    def linear_prior(self, dtype=np.float64) -> Prior:
        """The prior on the linear weights, for loops."""
        return _as_prior(self.alpha, dtype)

    def prior(self, g: int, lams: np.ndarray, dtype=np.float64) -> Prior:
        """The prior on the factors of group g, for loops: `strength` is the second derivative of the penalty by any
        one factor of a basis, 2 beta |lambda_s| when direct and beta when lifted (section 6 of the paper)."""
        return _as_prior(self._weighted(g, lams), dtype)

    def squared_norms(self, g: int, P: np.ndarray) -> np.ndarray:
        """sum_j beta_j (p_js - mean_j)^2 over all factors of each basis of group g."""
        ridge = self.beta[g]
        return ridge.strength[0] * _squares(ridge, P) if ridge.of is None else _squares(ridge, P)

    def value(self, parameters: Parameters) -> float:
        with np.errstate(over="ignore"):  # an objective that is not finite is named by those who ask for it
            total = 0.5 * self._total(self.alpha, parameters.coef[None, None, :])
            for g, (_, P, lams) in enumerate(self.model.each(parameters)):
                total += 0.5 * self._total(self._weighted(g, lams.astype(np.float64)), P)
        return total

    def _weighted(self, g: int, lams: np.ndarray) -> Ridge:
        """The strengths of group g as second derivatives."""
        return self.beta[g]._replace(strength=self.beta[g].strength * _factor(self.model.groups[g], lams))

    @staticmethod
    def _total(ridge: Ridge, P: np.ndarray) -> float:
        squares = _squares(ridge, P)
        return float(ridge.strength[0] @ squares) if ridge.of is None else float(squares.sum())

    def gradient(self, parameters: Parameters) -> Parameters:
        """The gradient by all parameters, lambda included."""
        factors, lambdas = [], []
        for g, (group, P, lams) in enumerate(self.model.each(parameters)):
            factors.append(_slopes(self._weighted(g, lams), P))
            norms = np.zeros(len(lams)) if group.form.lifted else np.sign(lams) * self.squared_norms(g, P)
            lambdas.append(norms)
        coef = _slopes(self.alpha, parameters.coef[None, None, :])[0, 0]
        return Parameters(tuple(factors), tuple(lambdas), coef, np.zeros(1))

    def diagonal(self, parameters: Parameters) -> tuple[np.ndarray, np.ndarray | None]:
        """The second derivatives by, and the means of, the packed parameters (`Model.pack`)."""
        model = self.model
        strengths, means = [], []
        for g, (_, P, lams) in enumerate(model.each(parameters)):
            ridge = self._weighted(g, lams.astype(np.float64))
            strengths.append(_by_parameter(ridge.strength, ridge.of, P.shape))
            means.append(_by_parameter(_or_zeros(ridge.mean, ridge.strength), ridge.of, P.shape))
        if model.fit_linear:
            shape = (1, 1, self.n_features)
            strengths.append(_by_parameter(self.alpha.strength, self.alpha.of, shape))
            means.append(_by_parameter(_or_zeros(self.alpha.mean, self.alpha.strength), self.alpha.of, shape))
        if model.fit_intercept:
            strengths.append(np.zeros(1))
            means.append(np.zeros(1))
        centred = all(ridge.mean is None for ridge in (self.alpha, *self.beta))
        return np.concatenate(strengths), None if centred else np.concatenate(means)


def _as_prior(ridge: Ridge, dtype) -> Prior:
    strength, of, mean = ridge
    return Prior(
        None if of is None else frozen(of, np.uint32), frozen(strength, dtype),
        None if mean is None else frozen(mean, dtype),
    )  # fmt: skip


def _factor(group: Group, lams: np.ndarray) -> np.ndarray:
    """What multiplies the strengths of each basis."""
    return np.ones(lams.shape) if group.form.lifted else 2 * np.abs(lams)


def _or_zeros(mean: np.ndarray | None, like: np.ndarray) -> np.ndarray:
    return np.zeros_like(like) if mean is None else mean


def _by_parameter(values: np.ndarray, of: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray:
    """(groups, bases) -> (features, factors, bases), flat."""
    n_bases, n_factors, n_features = shape
    of = np.zeros(n_features, dtype=np.uint32) if of is None else of
    return np.repeat(values[of][:, None, :], n_factors, axis=1).reshape(n_features * n_factors * n_bases)


def _gaps(ridge: Ridge, P: np.ndarray, s: int) -> np.ndarray:
    """P_s - mean, (factors, features)."""
    if ridge.mean is None:
        return P[s]
    return P[s] - (ridge.mean[0, s] if ridge.of is None else ridge.mean[ridge.of, s])


def _squares(ridge: Ridge, P: np.ndarray) -> np.ndarray:
    """sum_tj (P_stj - mean_sj)^2 for each basis s, in double precision; times strength_sj where that depends on j."""
    if ridge.of is None and ridge.mean is None and P.size < AT_ONCE:
        return np.sum(np.square(P, dtype=np.float64), axis=(1, 2))
    out = np.empty(len(P))
    for s in range(len(P)):
        squares = np.square(_gaps(ridge, P, s), dtype=np.float64)
        out[s] = squares.sum() if ridge.of is None else ridge.strength[ridge.of, s] @ squares.sum(axis=0)
    return out


def _slopes(ridge: Ridge, P: np.ndarray) -> np.ndarray:
    """strength (P - mean)."""
    if ridge.of is None and ridge.mean is None:
        return ridge.strength[0][:, None, None] * P
    out = np.empty(P.shape)
    for s in range(len(P)):
        out[s] = (ridge.strength[0, s] if ridge.of is None else ridge.strength[ridge.of, s]) * _gaps(ridge, P, s)
    return out
