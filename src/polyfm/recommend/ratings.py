"""Explicit feedback: an estimator of polyfm trained on ratings, its vectors, and new ids in one small solve each.

A row is a context, which is a user and perhaps a situation, and an item. An ANOVA form is affine in all parameters of
one feature, so that those of a new id solve a regression with the rest of the model fixed:

    f = f_0 + w_j + sum_s lambda_s p_js A^(m - 1)(p_s, rest of the row)
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier

from polyfm.core.design import Design
from polyfm.core.fitted import Fitted
from polyfm.core.hyper import Groups, Hyper
from polyfm.core.model import Group
from polyfm.core.parameters import Parameters
from polyfm.core.penalty import Penalty
from polyfm.core.posterior import Gaussians
from polyfm.estimators.base import PolynomialModel
from polyfm.files.fitted import chosen
from polyfm.losses import as_loss
from polyfm.recommend.two_towers import candidate_tower, context_tower, parts_of

NEWTON_STEPS = 100
SMALL = 1e-6  # the rate of the prior of a precision, which hundreds of ids outweigh
ENOUGH = 1e-10  # a step this small, against the parameters, ends the solve


class Ratings:
    """A fitted estimator over the features of contexts, and behind them those of items."""

    def __init__(self, estimator: Any):
        self.estimator = estimator

    @classmethod
    def train(cls, model: Any, X: sp.csr_matrix, y: np.ndarray, weight: np.ndarray | None) -> "Ratings":
        """Fit an estimator, which becomes part of this."""
        if not isinstance(model, PolynomialModel):
            raise TypeError(
                f"estimator must be one of polyfm's regressors or classifiers, got {type(model).__name__}. Of other "
                "models, no vectors of users and items are known."
            )
        if is_classifier(model) and len(np.unique(y)) > 2:
            raise ValueError(
                f"The ratings have {len(np.unique(y))} values, and a classifier ranks by one class against another: "
                "pass a column of two values, or a regressor."
            )
        return cls(chosen(model.fit(X, y, sample_weight=weight)))

    @property
    def _parameters(self) -> Parameters:
        return self.estimator._fitted.targets[0]

    def vectors(self, which: int, X: sp.csr_matrix) -> np.ndarray:
        """Those of contexts (0) or of items (1)."""
        fitted = self.estimator._fitted
        beside = sp.csr_matrix((X.shape[0], self.estimator.n_features_in_ - X.shape[1]))
        whole = sp.hstack([beside, X] if which else [X, beside], format="csr")
        return (candidate_tower if which else context_tower)(fitted, fitted.targets[0], whole)

    def grow(self, at: int, n: int) -> None:
        """n more features from `at` on, whose parameters are 0."""
        model, fitted = self.estimator, self.estimator._fitted
        grown = [
            p._replace(
                factors=tuple(np.insert(P, [at] * n, 0, axis=2) for P in p.factors),
                coef=np.insert(p.coef, [at] * n, 0),
            )
            for p in fitted.targets
        ]
        for name in ("alpha", "beta", "groups"):  # by feature: as that of the id before
            value = getattr(model, name)
            if not isinstance(value, (str, dict)) and np.ndim(value) and len(value) == model.n_features_in_:
                setattr(model, name, np.insert(np.asarray(value), [at] * n, np.asarray(value)[at - 1]))
        if hasattr(model, "groups_"):  # of Bayesian estimators, which have variances beside
            model.groups_ = np.insert(model.groups_, [at] * n, model.groups_[at - 1])
            if isinstance(model._posterior[0], Gaussians):
                model._posterior = [
                    q._replace(
                        factors=tuple(np.insert(V, [at] * n, 0, axis=2) for V in q.factors),
                        coef=np.insert(q.coef, [at] * n, 0),
                    )
                    for q in model._posterior
                ]
        model.n_features_in_ += n
        model._stream = None  # steps of a stream are sized anew
        model._set_fitted(Fitted(fitted.model, grown))

    # -- new ids ------------------------------------------------------------------------------------------------------

    def check_affine(self) -> None:
        for group in self.estimator._fitted.model.groups:
            if group.form.repeats is not False:
                raise ValueError(
                    f"{type(self.estimator).__name__} has powers of single features: a new id is no small solve. Fit "
                    "again, or take a factorization machine."
                )

    def fold_in(
        self, features: np.ndarray, of: np.ndarray, X: sp.csr_matrix, y: np.ndarray, weight: np.ndarray
    ) -> None:
        """Parameters of new features, each by its own rows, where all other parameters stay: `of` says for each row
        of X, which holds the feature already, which of the features it has."""
        model = self.estimator._fitted.model
        p, C = self._parameters.copy(), self._slopes(X)
        f = self.estimator._fitted.predict(Design(X))[0].astype(np.float64)
        strength, mean = self._penalties(int(features[0]) - 1)
        loss = as_loss(self.estimator.loss)
        order = np.argsort(of, kind="stable")
        bounds = np.searchsorted(of[order], np.arange(len(features) + 1))
        for n, j in enumerate(features):
            mine = order[bounds[n] : bounds[n + 1]]
            if not len(mine):
                continue
            theta = _solved(loss, C[mine], y[mine], weight[mine], f[mine], strength, mean)
            _put(model, theta, p.factors, p.coef, j)
            if hasattr(self.estimator, "_posterior"):
                q = self.estimator._posterior[0]
                curvature = np.einsum("n,nq,nq->q", weight[mine], C[mine], C[mine]) + strength
                _put(model, q.noise[0] ** 2 / curvature, q.factors, q.coef, j)
        self.estimator._set_fitted(Fitted(model, [p]))

    def _slopes(self, X: sp.csr_matrix) -> np.ndarray:
        """The derivative of each row's prediction by the parameters of a feature that it has, with the value 1, and
        whose factors are 0: those of (basis, factor) for each group, and of the linear weight."""
        model, p = self.estimator._fitted.model, self._parameters
        found = []
        for group, P, lams in model.each(p):
            weights = np.asarray(lams, dtype=np.float64) * group.form.scale
            rest = parts_of(group, P, weights, Design(X.astype(np.float64)), with_dummies=True)
            c = group.form.part_weights or (1.0,) * len(rest)
            by_factor = [weights * c[q] * rest[-1 - q] for q in _single_parts(group)]
            found.append(np.stack(by_factor, axis=2).reshape(X.shape[0], -1))
        if model.fit_linear:
            found.append(np.ones((X.shape[0], 1)))
        return np.hstack(found)

    def _penalties(self, like: int) -> tuple[np.ndarray, np.ndarray]:
        """Second derivatives of the penalty, and means, for the parameters of a feature such as `like`."""
        model, p, d = self.estimator._fitted.model, self._parameters, self.estimator.n_features_in_
        if hasattr(self.estimator, "_posterior"):
            return self._prior(like)
        recipe = self.estimator._as_chosen(self.estimator._recipe(d))
        penalty = Penalty.of(model, d, recipe.alpha, recipe.beta)
        strengths: list[np.ndarray] = []
        means: list[np.ndarray] = []
        for g, (group, _, lams) in enumerate(model.each(p)):
            for found, values in zip(
                (strengths, means), _at(penalty.prior(g, lams.astype(np.float64)), like), strict=True
            ):
                found.append(np.repeat(values, group.form.n_factors))
        if model.fit_linear:
            for found, values in zip((strengths, means), _at(penalty.linear_prior(), like), strict=True):
                found.append(values)
        return np.concatenate(strengths), np.concatenate(means)

    def _prior(self, like: int) -> tuple[np.ndarray, np.ndarray]:
        """The same of a Bayesian estimator: what the features of the field of `like` tell, in units of squared
        residuals."""
        p, q, model = self._parameters, self.estimator._posterior[0], self.estimator._fitted.model
        field = self.estimator.groups_ == self.estimator.groups_[like]
        known = np.flatnonzero(field & (q.factors[0][0, 0] > 0))  # not those that are new themselves
        groups = Groups.from_labels(np.zeros(len(known), dtype=np.int64))
        strengths: list[np.ndarray] = []
        means: list[np.ndarray] = []
        pairs = [(P[:, 0][:, known], V[:, 0][:, known]) for P, V in zip(p.factors, q.factors, strict=True)]
        pairs += [(p.coef[None, known], q.coef[None, known])] if model.fit_linear else []
        for theta, variances in pairs:
            hyper = Hyper.held(groups, len(theta), 1.0, SMALL).given(theta.astype(np.float64), variances)
            strengths.append(hyper.precision[0] * float(q.noise[0]) ** 2)
            means.append(hyper.mean[0])
        return np.concatenate(strengths), np.concatenate(means)


def _put(model: Any, theta: np.ndarray, factors: tuple[np.ndarray, ...], coef: np.ndarray, j: int) -> None:
    """Parameters of feature j, or their variances, in their places."""
    first = 0
    for group, P in zip(model.groups, factors, strict=True):
        last = first + group.n_bases * group.form.n_factors
        P[:, :, j] = theta[first:last].reshape(group.n_bases, group.form.n_factors)
        first = last
    if model.fit_linear:
        coef[j] = theta[-1]


def _at(prior: Any, j: int) -> tuple[np.ndarray, np.ndarray]:
    """Strengths and means of the parameters of feature j, by basis."""
    row = 0 if prior.of is None else int(prior.of[j])
    strength = prior.strength[row]
    return strength, np.zeros_like(strength) if prior.mean is None else prior.mean[row]


def _single_parts(group: Group) -> list[int]:
    """Which part each factor of a feature alone appears in."""
    found = []
    alone = Group(group.form, 1)
    for t in range(group.form.n_factors):
        P = np.zeros((1, group.form.n_factors, 1))
        P[0, t] = 1.0
        parts = parts_of(alone, P, np.ones(1), Design(sp.csr_matrix([[1.0]])), with_dummies=True)
        found.append(next(q for q, part in enumerate(parts) if q and part[0, 0] != 0))
    return found


def _solved(loss: Any, C, y, weight, f, strength: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """The minimum of sum_i weight_i l(y_i, f_i + <C_i, theta>) + strength/2 |theta - mean|^2, by steps that bound the
    second derivative of the loss: for the squared loss, one solve."""
    H = loss.curvature * (C * weight[:, None]).T @ C + np.diag(strength)
    theta = mean.copy()
    factor = np.linalg.inv(H) if np.all(strength > 0) else np.linalg.pinv(H)
    for _ in range(1 if getattr(loss, "quadratic", False) else NEWTON_STEPS):
        slopes = np.array([loss.derivative(*pair) for pair in zip(y, f + C @ theta, strict=True)])
        step = factor @ (C.T @ (weight * slopes) + strength * (theta - mean))
        theta = theta - step
        if np.abs(step).max() <= ENOUGH * max(np.abs(theta).max(), 1.0):
            break
    return theta
