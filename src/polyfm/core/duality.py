"""How far a model of degree 2 is from the best of any rank: the convex problem behind it, and bounds from its dual.

Over symmetric matrices M and predictions f_i = <w, x_i> + w0 + <M, X_i>, with X_i = x_i x_i^T (homogeneous) or its part
off the diagonal, halved (ANOVA), every model of degree 2 is a point of one convex problem,

    P = sum_i c_i l(y_i, f_i) + alpha/2 |w|^2 + beta |M|_*        |M|_* the sum of the absolute eigenvalues

where M is positive semi-definite if all lambda are positive. Penalties on factors are never less than beta |M|_*. By
Fenchel's duality, any numbers g whose sum is zero (where there is an intercept) give a bound from below,

    D(g) = - sum_i c_i l*(y_i, g_i / c_i) - |X^T g|^2 / (2 alpha)      provided that A(g) (see `spectrum`) reaches no
                                                                       farther than beta beyond zero

and at the optimum g_i = c_i l'(y_i, f_i) makes the two equal. docs/certificate.md has the proofs.

Letters: c weights, g slopes, f predictions, root the square roots of the penalties by feature (1 stands for beta then),
s what g is multiplied with.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from polyfm.core.design import Design
from polyfm.core.linear import Linear, fit_linear, shifted, slopes
from polyfm.core.model import Group
from polyfm.core.parameters import Parameters
from polyfm.core.penalty import Ridge
from polyfm.core.problem import Problem
from polyfm.core.spectrum import Curvature, Extreme, Pairs
from polyfm.loops import rows

COUNTS = 1e-4  # of the largest eigenvalue: what is smaller is no part of the rank
FEW_WEIGHTS = 400  # linear weights that are solved for to the last digits
CENTRING_STEPS = 60
SLACK = 0.05  # of the gap: where linear weights have less to do with it, they are not fitted again
ROUNDING = 1e-12  # of the sum of absolute slopes: what counts as a sum of zero


class Bound(NamedTuple):
    """A bound on the objective from below, and what it was made of."""

    value: float
    reach: float  # of A(g), in units of beta: at most 1 at the optimum
    n_products: int
    exact: bool  # whether the reach is, or to a tolerance


@dataclass(frozen=True)
class Convex:
    """The convex problem behind a problem of degree 2, for bases of the given signs."""

    problem: Problem
    signs: tuple[int, ...]  # 1, -1 or both
    beside: np.ndarray | None = None  # predictions that come from elsewhere and stay as they are

    def __post_init__(self):
        check_certifiable(self.problem)

    @property
    def group(self) -> Group:
        return self.problem.model.groups[0]

    @property
    def repeats(self) -> bool:
        return bool(self.group.form.repeats)

    @cached_property
    def X(self):
        """The rows of the design in double precision, as numpy and scipy take them."""
        return self.problem.design.derived(_in_double)

    @cached_property
    def c(self) -> np.ndarray:
        weight = self.problem.response.weight
        return np.ones(self.problem.design.shape[0]) if weight is None else weight.astype(np.float64)

    @cached_property
    def by_weight(self) -> np.ndarray:
        """1 / c, where there is a weight: rows of none have no slope either."""
        return np.divide(1.0, self.c, out=np.zeros_like(self.c), where=self.c > 0)

    @cached_property
    def alpha(self) -> np.ndarray:
        return _by_feature(self.problem.penalty.alpha, self.problem.design.shape[1])

    @cached_property
    def root(self) -> np.ndarray:
        """The square roots of beta, for every feature and dummy."""
        return np.sqrt(_by_feature(self.problem.penalty.beta[0], self.problem.design.shape[1] + self.group.n_dummies))

    # -- the primal side ----------------------------------------------------------------------------------------------

    def eigenvalues(self, parameters: Parameters) -> np.ndarray:
        """Those of M that may differ from zero, in units in which all penalties are 1. The sum of their absolute values
        is never more than the penalties on factors."""
        B, C = _bases(self.group, parameters, self.root)
        R = np.asarray(np.linalg.qr(B.T, mode="r"))
        S = R @ C @ R.T
        return np.linalg.eigvalsh((S + S.T) / 2)

    def spectrum(self, parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
        """The same with their eigenvectors, as columns."""
        B, C = _bases(self.group, parameters, self.root)
        Q, R = np.linalg.qr(B.T)
        S = R @ C @ R.T
        values, Z = np.linalg.eigh((S + S.T) / 2)
        return values, Q @ Z

    def predictions(self, parameters: Parameters) -> np.ndarray:
        f = self.problem.model.predict(parameters, self.problem.design).astype(np.float64, copy=False)
        return f if self.beside is None else f + self.beside

    def objective(self, f: np.ndarray, coef: np.ndarray, norm: float) -> float:
        linear = 0.5 * float(self.alpha @ np.square(coef, dtype=np.float64)) if self.problem.model.fit_linear else 0.0
        return float(rows.total_loss(self.problem.response, shifted(self.problem.response, f))) + linear + norm

    def refitted(self, parameters: Parameters, f: np.ndarray) -> tuple[np.ndarray, Linear]:
        """The best linear weights and intercept beside the same interactions, and predictions with them."""
        model, d = self.problem.model, self.problem.design.shape[1]
        coef = parameters.coef.astype(np.float64) if model.fit_linear else np.zeros(d)
        start = Linear(coef, float(parameters.intercept[0]))
        if not model.fit_linear:
            shift = self._shift(f) if model.fit_intercept else 0.0
            return f + shift, Linear(coef, start.intercept + shift)
        rest, pairs = f - self.X @ coef - start.intercept, self.problem.design.derived(_pairs_of)

        def products(h: np.ndarray) -> Curvature:
            return Curvature(self.X, h, repeats=True, n_dummies=1, pairs=pairs)

        found = fit_linear(
            self.X, self.problem.response, self.alpha, model.fit_intercept, start,
            1e-9 if d <= FEW_WEIGHTS else 1e-2, rest, products=None if pairs is None else products,
        )  # fmt: skip
        return rest + self.X @ found.coef + found.intercept, found

    # -- the dual side ------------------------------------------------------------------------------------------------

    def slopes(self, f: np.ndarray) -> np.ndarray:
        return slopes(self.problem.response, f)[0]

    def centred(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """f with the best intercept, its slopes, and these with a sum of zero: what rounding has left goes in
        proportion, which keeps each of them between zero and what it was."""
        if not self.problem.model.fit_intercept:
            g = self.slopes(f)
            return f, g, g
        f = f + self._shift(f)
        g = self.slopes(f)
        total, size = float(g.sum()), float(np.abs(g).sum())
        if abs(total) <= ROUNDING * size:
            return f, g, g
        up, down = 0.5 * (size + total), 0.5 * (size - total)
        level = min(up, down)
        if level == 0:
            return f, g, np.zeros_like(g)
        return f, g, np.where(g > 0, g * (level / up), g * (level / down))

    def _shift(self, f: np.ndarray) -> float:
        """What to add to the intercept for slopes of sum zero: Newton's method, within what is known to enclose it."""
        low, high, shift = -np.inf, np.inf, 0.0
        response = self.problem.response
        for _ in range(CENTRING_STEPS):
            g, h = slopes(response, f + shift)
            slope = float(g.sum())
            if abs(slope) <= ROUNDING * float(np.abs(g).sum()):
                break
            low, high = (shift, high) if slope < 0 else (low, shift)
            trial = shift - slope / float(h.sum())
            if not low < trial < high:
                trial = 0.5 * (low + high) if np.isfinite(low) and np.isfinite(high) else shift
            if trial == shift:
                break
            shift = trial
        return shift

    def slack(self, f: np.ndarray, coef: np.ndarray) -> float:
        """What linear weights that are not the best beside the interactions add to the gap, about."""
        if not self.problem.model.fit_linear:
            return 0.0
        moved = np.ravel(self.X.T @ self.slopes(f)) + self.alpha * coef
        return 0.5 * float(np.square(moved) @ (1.0 / self.alpha))

    def curvature(self, g: np.ndarray) -> Curvature:
        return Curvature(
            self.X, g, repeats=self.repeats, n_dummies=self.group.n_dummies, root=self.root,
            pairs=self.problem.design.derived(_pairs_of),
        )  # fmt: skip

    def bound(self, f: np.ndarray, *, few: int, tol: float, seed: int = 0) -> Bound:
        """A bound from the slopes at f. A reach that is known to a tolerance counts as that much larger."""
        f, true, g = self.centred(f)
        if not np.all(np.isfinite(g)):
            raise ValueError(
                f"The loss {type(self.problem.loss).__name__} has a derivative that is no number at a sample."
            )
        found: Extreme = self.curvature(g).extreme(self.signs, few=few, tol=tol, seed=seed)
        reach = found.value + found.error
        return Bound(self.dual(f, true, g, reach), reach, found.n_products, found.error == 0)

    def best_bound(
        self, parameters: Parameters, f: np.ndarray, objective: float, *, few: int, tol: float, seed: int = 0
    ) -> Bound:
        """The better of two bounds: from a model's predictions f, and from those with linear weights that are the best
        beside its interactions. The second is better where the linear weights are what is not trained to the end, and
        may be worse where the interactions are; it is not asked for where it cannot gain much."""
        first = self.bound(f, few=few, tol=tol, seed=seed)
        if self.slack(f, parameters.coef) <= SLACK * (objective - first.value):
            return first
        second = self.bound(self.refitted(parameters, f)[0], few=few, tol=tol, seed=seed)
        best = max(first, second, key=lambda bound: bound.value)
        return best._replace(n_products=first.n_products + second.n_products)

    def dual(self, f: np.ndarray, true: np.ndarray, g: np.ndarray, reach: float) -> float:
        """max over s of D(s g), where `true` are the slopes at f that g is made of."""
        most = 1.0 / reach if reach > 0 else np.inf
        linear = 0.0
        if self.problem.model.fit_linear:
            moved = np.ravel(self.X.T @ g)
            linear = float(np.square(moved) @ (1.0 / self.alpha))
        fixed = 0.0 if self.beside is None else float(g @ self.beside)
        loss, c = self.problem.loss, self.c
        y = np.asarray(self.problem.y, dtype=np.float64)
        if not hasattr(loss, "conjugate"):
            # -l*(y, u) = l(y, f) - u f at u = l'(y, f), and by convexity -l*(y, s u) >= -s l*(y, u) for losses >= 0.
            kept = np.divide(g, true, out=np.ones_like(g), where=true != 0)
            slope = float(kept @ (self._losses(f) - true * f)) + fixed
            s = min(1.0, most, max(slope / linear, 0.0) if linear > 0 else 1.0)
            return max(s * slope - 0.5 * s * s * linear, 0.0)
        if getattr(loss, "quadratic", False) and getattr(loss, "residual", False):
            s = (fixed - float(y @ g)) / (float((g * g) @ self.by_weight) / loss.curvature + linear or 1.0)
            s = min(max(s, 0.0), most)
        else:
            s = min(1.0, most)
        value = s * fixed - float(c @ loss.conjugate(y, s * g * self.by_weight)) - 0.5 * s * s * linear
        nothing = -float(c @ loss.conjugate(y, np.zeros_like(g)))
        return max(value, nothing)

    def _losses(self, f: np.ndarray) -> np.ndarray:
        """c_i l(y_i, f_i); refused where one is negative."""
        found = rows.losses(self.problem.response, shifted(self.problem.response, f))
        if len(found) and found.min() < 0:
            name = type(self.problem.loss).__name__
            raise ValueError(
                f"The loss {name} is negative ({found.min():.3g}) at a sample: without a bound from below there is no "
                "certificate. Add a constant that makes it >= 0, or give it its `conjugate(y, u)`."
            )
        return found


class Assessment(NamedTuple):
    """Where a model stands between its objective and what no model can go below."""

    objective: float
    bound: float
    reach: float  # of A(g), in units of beta, for the slopes that gave the bound
    rank: int
    n_products: int
    exact: bool

    @property
    def gap(self) -> float:
        return max(self.objective - self.bound, 0.0)


def assess(convex: Convex, parameters: Parameters, *, few: int, tol: float, seed: int = 0) -> Assessment:
    """The objective of a model, and a bound."""
    with np.errstate(over="ignore", invalid="ignore"):
        values, f = np.abs(convex.eigenvalues(parameters)), convex.predictions(parameters)
        objective = convex.objective(f, parameters.coef, float(values.sum()))
    if not np.isfinite(objective):
        raise ValueError(
            f"The objective of this model is {objective} on these rows: its predictions, or their losses, are beyond "
            "what numbers hold, and there is nothing to compare with. Pass the rows that it was trained on."
        )
    best = convex.best_bound(parameters, f, objective, few=few, tol=tol, seed=seed)
    rank = int(np.sum(values > COUNTS * values.max(initial=0.0)))
    return Assessment(objective, min(best.value, objective), best.reach, rank, best.n_products, best.exact)


def check_certifiable(problem: Problem) -> None:
    """Refuse models and penalties for which there is no bound."""
    model, penalty = problem.model, problem.penalty
    group = model.groups[0]
    if len(model.groups) > 1 or group.degree != 2:
        raise ValueError(
            f"A certificate needs degree=2, got {group.degree}: for products of three and more features, finding the "
            "best model is NP-hard."
        )
    if group.form.repeats is None:
        raise ValueError(
            f"method={group.form.method!r} is not known to have a convex problem; use 'direct' or 'lifted'."
        )
    if model.fit_linear and not np.all(penalty.alpha.strength > 0):
        raise ValueError(
            "A certificate needs alpha > 0 for all linear weights; with alpha=0 there is no bound to find."
        )
    if not np.all(penalty.beta[0].strength > 0):
        raise ValueError("A certificate needs beta > 0 for all features; with beta=0 there is no bound to find.")
    if penalty.beta[0].mean is not None or penalty.alpha.mean is not None:
        raise ValueError("A certificate needs penalties that draw all parameters towards zero.")


def _bases(group: Group, parameters: Parameters, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """B and a small C with diag(root) M diag(root) = B^T C B."""
    P, lams = parameters.factors[0].astype(np.float64), parameters.lambdas[0].astype(np.float64)
    k = len(P)
    B = P.transpose(1, 0, 2).reshape(-1, P.shape[2]) * root
    if not group.form.lifted:
        return B, np.diag(lams)
    C = np.zeros((2 * k, 2 * k))
    C[:k, k:] = C[k:, :k] = 0.5 * np.diag(lams)
    return B, C


def _in_double(design: Design):
    X = design._X
    if not design.is_sparse:
        return np.asarray(X, dtype=np.float64)
    X = X.tocsr()
    return sp.csr_array((np.asarray(X.data, dtype=np.float64), X.indices, X.indptr), shape=X.shape)


def _pairs_of(design: Design) -> Pairs | None:
    return Pairs.of(design.derived(_in_double))


def _by_feature(ridge: Ridge, size: int) -> np.ndarray:
    strength: Any = ridge.strength[:, 0] if ridge.strength.ndim == 2 else ridge.strength
    return np.full(size, strength[0]) if ridge.of is None else strength[ridge.of]
