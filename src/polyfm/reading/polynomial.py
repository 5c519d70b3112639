"""The polynomial that a fitted model is: for each degree, the bases and weights that its monomials' weights come from.

Letters: d features, k bases, P (d x k) the bases *by feature*, lam (k), a (d) norms of features.
"""

import math
from typing import NamedTuple

import numpy as np

from polyfm.conversion import lifted_to_direct
from polyfm.core.model import Group, Model
from polyfm.core.parameters import Parameters
from polyfm.estimators.base import PolynomialModel


class Terms(NamedTuple):
    """All monomials of one degree: weight = multiplicity * sum_s lam_s P[j1, s] ... P[jn, s]."""

    degree: int
    repeats: bool  # whether features may repeat: the homogeneous kernel
    lam: np.ndarray  # (k,)
    P: np.ndarray  # (d, k)

    @property
    def n_monomials(self) -> int:
        d = len(self.P)
        return math.comb(d + self.degree - 1, self.degree) if self.repeats else math.comb(d, self.degree)

    def weights(self, features: np.ndarray) -> np.ndarray:
        """Weights of monomials, given as rows of features in rising order."""
        products = self.P[features[:, 0]]
        for t in range(1, self.degree):
            products = products * self.P[features[:, t]]
        W = products @ self.lam
        if not self.repeats:
            return W
        run, repetitions = np.ones(len(features)), np.ones(len(features))
        for t in range(1, self.degree):
            run = np.where(features[:, t] == features[:, t - 1], run + 1, 1)
            repetitions *= run
        return W * math.factorial(self.degree) / repetitions

    def total(self) -> float:
        """The sum of all weights: the kernel expansion at x = (1, .., 1)."""
        if self.repeats:
            return float(self.lam @ self.P.sum(axis=0) ** self.degree)
        return float(self.lam @ elementary(self.P, self.degree))


class Polynomial(NamedTuple):
    """One target of a fitted estimator, in double precision."""

    groups: list[tuple[Group, np.ndarray, np.ndarray]]  # group, factors (bases, factors, features + dummies), lambdas
    coef: np.ndarray | None
    intercept: float
    n_features: int

    @classmethod
    def of(cls, estimator: PolynomialModel, target) -> "Polynomial":
        model, p = estimator._fitted.model, estimator._fitted.targets[target_index(estimator, target)]
        if any(group.form.repeats is None for group in model.groups):
            names = ", ".join(sorted({type(group.form).__name__ for group in model.groups}))
            raise TypeError(f"The form {names} does not say which monomials it is a polynomial of: it cannot be read.")
        return cls.of_parameters(model, p)

    @classmethod
    def of_parameters(cls, model: Model, p: Parameters) -> "Polynomial":
        groups = [(group, P.astype(np.float64, copy=False), lam.astype(np.float64)) for group, P, lam in model.each(p)]
        coef = p.coef.astype(np.float64) if model.fit_linear else None
        return cls(groups, coef, float(p.intercept[0]), len(p.coef))

    @property
    def degrees(self) -> list[int]:
        """The degrees >= 1 that have terms."""
        found = {1} if self.coef is not None else set()
        for group, _, _ in self.groups:
            found.update(range(1 if group.n_dummies else group.degree, group.degree + 1))
        return sorted(found)

    def check_degree(self, degree) -> int:
        if degree is None:
            return self.degrees[-1]
        if degree not in self.degrees:
            raise ValueError(
                f"degree={degree!r}, but the model has terms of degree {', '.join(map(str, self.degrees))} only. Pass "
                "one of these, or fit the model with another degree, fit_lower or fit_linear."
            )
        return int(degree)

    def constant(self) -> float:
        """The intercept, and what a dummy feature of the homogeneous kernel adds to it."""
        no_features = np.array([], dtype=int)
        return self.intercept + sum(
            float(np.sum(_lowered(group, *_direct(group, P, lam, no_features), 0)[0]))
            for group, P, lam in self.groups
            if group.n_dummies
        )

    def terms(self, degree: int, *, columns: np.ndarray | None = None, scale: np.ndarray | None = None) -> Terms:
        """All terms of one degree, of some of the features."""
        columns = np.arange(self.n_features) if columns is None else columns
        lams, bases = [np.empty(0)], [np.empty((len(columns), 0))]
        if degree == 1 and self.coef is not None:
            lams.append(np.ones(1))
            bases.append(self.coef[columns, None])
        for group, P, lam in self.groups:
            if degree == group.degree or (degree < group.degree and group.n_dummies):
                lam, P = _lowered(group, *_direct(group, P, lam, columns), degree)
                lams.append(lam)
                bases.append(P.T)
        stacked = np.ascontiguousarray(np.hstack(bases))
        if scale is not None:
            stacked *= scale[columns, None]
        return Terms(degree, bool(self.groups[0][0].form.repeats), np.concatenate(lams), stacked)


def _direct(group: Group, P: np.ndarray, lam: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """lambdas (k) and bases (k, columns + dummies) of the direct form of a group."""
    dummies = np.arange(P.shape[2] - group.n_dummies, P.shape[2])
    P = P[:, :, np.concatenate([columns, dummies])]
    if not group.form.lifted:
        return lam, P[:, 0]
    # Factors of very different norms would lose digits in the sums that the conversion takes: share the norm first.
    norms = np.linalg.norm(P, axis=2, keepdims=True)
    alive = norms.min(axis=1, keepdims=True, initial=np.inf) > 0
    shared = np.exp(np.mean(np.log(np.where(alive, norms, 1.0)), axis=1, keepdims=True))
    U = np.where(alive, P * (shared / np.where(alive, norms, 1.0)), 0.0)
    U[:, 0] *= lam[:, None]
    return lifted_to_direct(U.transpose(1, 0, 2))


def _lowered(group: Group, lam: np.ndarray, P: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """The terms of lower degree that dummy features of value 1 give: some of the factors are dummies (section 8)."""
    m, c = group.degree, group.n_dummies
    if c == 0:
        return lam, P
    P, dummies = P[:, : P.shape[1] - c], P[:, P.shape[1] - c :]
    if group.form.repeats:
        return lam * math.comb(m, degree) * dummies[:, 0] ** (m - degree), P
    return lam * elementary(dummies.T, m - degree), P


def elementary(Q: np.ndarray, degree: int) -> np.ndarray:
    """The sum over sets of `degree` rows of their products, for each column: A^degree(q, 1), as in Lemma 2."""
    A = np.zeros((degree + 1, Q.shape[1]))
    A[0] = 1.0
    for q in Q:
        A[1:] += q * A[:-1]
    return A[degree]


def target_index(estimator, target) -> int:
    """Which set of parameters belongs to a class."""
    if not hasattr(estimator, "classes_"):
        if target is not None:
            raise ValueError(f"target={target!r} is for classifiers; a regressor has one target: leave it out.")
        return 0
    classes = estimator.classes_
    if estimator._is_ordered:
        if target is not None:
            raise ValueError(f"target={target!r}: classes in an order have one model for all: leave it out.")
        return 0
    found = np.flatnonzero(classes == target)
    if len(classes) == 2:
        if target is None or 1 in found:
            return 0
        if 0 in found:
            raise ValueError(
                f"target={target!r}: with two classes the model speaks for {classes.tolist()[1]!r}; the weights for "
                f"{target!r} are the same with the opposite sign. Leave target out."
            )
    if len(found) == 0:
        problem = f"The model has {len(classes)} classes" if target is None else f"target={target!r} is no class"
        raise ValueError(f"{problem}: pass one of {', '.join(map(repr, classes[:10].tolist()))} as target.")
    return int(found[0])
