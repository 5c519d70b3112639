"""How far a fitted model of degree 2 is from the best possible one, of any rank: a number that is proved, not guessed.

docs/certificate.md says what such a number promises, what it does not, and why it is true.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from polyfm.core.design import Design
from polyfm.core.duality import Assessment, Convex, assess
from polyfm.core.model import Model
from polyfm.core.parameters import Parameters
from polyfm.core.penalty import Ridge
from polyfm.core.problem import Problem
from polyfm.core.threads import one_thread_of_blas
from polyfm.estimators.base import PolynomialModel
from polyfm.estimators.validation import check_features, is_auto
from polyfm.losses import as_loss
from polyfm.reading.subject import Subject

FEW_FEATURES = 1000  # whose matrix is formed, and its eigenvalues are exact
CONES = {(1,): "positive semi-definite", (-1,): "negative semi-definite", (1, -1): "signed"}
KINDS = {(1,): " with positive weights", (-1,): " with negative weights", (1, -1): ""}


@dataclass(frozen=True)
class Certificate:
    """What `certify` found. Several classes, learned one against the rest, add up.

    Attributes
    ----------
    objective : float
        Of the model: the sum of the losses, alpha/2 |w|^2, and beta times the sum of the absolute eigenvalues of the
        interaction matrix. `objective_` of the estimator, whose penalty is on factors, is never smaller.
    lower_bound : float
        No model with this loss and these penalties, of any rank, has a smaller objective on these data.
    gap, relative_gap : float
        objective - lower_bound, and that in units of the objective.
    cone : {"positive semi-definite", "negative semi-definite", "signed"}
        Which interaction matrices the bound is about: those that the signs of lambda allow.
    violation : float
        By how much, in units of beta, the best new basis would gain more than it costs: 0 at the optimum.
    rank : int
        Bases that the interactions need: eigenvalues above 1e-4 of the largest. The largest over the classes.
    n_products : int
        Products with the data matrix and its transpose that the eigenvalues took.
    exact : bool
        Whether the eigenvalues are exact, as for up to 1,000 features, or to a tolerance (Lanczos from a random start).
    tolerance : float
        By what part of the largest eigenvalue all were enlarged where they are not exact; else 0.
    distance : float or None
        For the squared loss: the root mean square difference, over these rows, between predictions of the model and
        those of the best one is at most this.
    parts : tuple of Certificate
        One for each class, where there are more than two.
    """

    objective: float
    lower_bound: float
    cone: str
    violation: float
    rank: int
    n_products: int
    exact: bool
    tolerance: float
    distance: float | None
    parts: tuple["Certificate", ...] = ()

    @property
    def gap(self) -> float:
        return self.objective - self.lower_bound

    @property
    def relative_gap(self) -> float:
        return self.gap / abs(self.objective) if self.objective else 0.0

    def __str__(self) -> str:
        kind = KINDS[next(signs for signs, cone in CONES.items() if cone == self.cone)]
        how = "exactly" if self.exact else f"up to a tolerance of {self.tolerance:g} in an eigenvalue"
        lines = [
            f"The objective {self.objective:.6g} can be lowered by at most {_percent(self.relative_gap)}: no model of "
            f"any rank{kind} goes below {self.lower_bound:.6g} ({how}).",
            f"The interactions have rank {self.rank}.",
        ]
        if self.violation > 0:
            lines.append(f"A new basis could gain up to {_percent(self.violation)} more than it costs.")
        if self.distance is not None:
            lines.append(f"On these rows, its predictions are within {self.distance:.3g} of the best one's (RMS).")
        if self.relative_gap > 0.5:
            lines.append("So wide a gap says that training has not converged, not that the model is far off.")
        return " ".join(lines)


def _percent(part: float) -> str:
    return f"{100 * part:.3g}%"


def certify(estimator: Any, X: Any, y: Any, sample_weight: Any = None, *, tol: Any = 1e-3) -> Certificate:
    """How far a fitted model of degree 2 is from the best one of any rank.

        objective - smallest possible objective <= objective - D(g),    D the dual objective

    The interactions of degree 2 are a symmetric matrix, and over matrices the problem is convex. Slopes of the losses,
    scaled until no direction gains more than it costs, prove a bound from below. It takes as long as a few epochs.

    Parameters
    ----------
    estimator : object
        A fitted estimator of polyfm with ``degree=2``, or a fitted `Pipeline` that ends in one. Its penalties must be
        positive. It may have been trained by any solver and method, on any rows.
    X, y, sample_weight : as in `fit`
        The rows that the objective is about: those that the model was trained on. Rows of weight 0 are as good as none.
    tol : float, default=1e-3
        Tolerance of eigenvalues where there are more than 1,000 features; they are enlarged by it. A smaller one takes
        more products with the data, as its square root says.

    Returns
    -------
    certificate : Certificate
        It prints as a sentence.

    Examples
    --------
    >>> import polyfm
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_diabetes(return_X_y=True)
    >>> X, y = scale(X), scale(y)
    >>> fm = polyfm.FactorizationMachineRegressor(alpha=1.0, beta=4.0, tol=1e-9, max_iter=2000, random_state=0)
    >>> certificate = polyfm.certify(fm.fit(X, y), X, y)
    >>> bool(certificate.relative_gap < 1e-3)
    True
    >>> certificate.rank
    4
    """
    if not 0 < tol < 1:
        raise ValueError(f"tol must lie between 0 and 1, got {tol!r}.")
    given = prepared(estimator, X, y, sample_weight)
    model, parts = given.model, []
    with one_thread_of_blas():  # the same bits on any machine
        for problem, parameters in given.problems(model._fitted.model):
            signs = signs_of(model, np.concatenate(parameters.lambdas))
            found = assess(Convex(problem, signs), parameters, few=FEW_FEATURES, tol=tol)
            parts.append(certificate_of(found, problem, signs, tol))
    return summed(parts)


class Prepared(NamedTuple):
    """A fitted estimator, and rows as its training would see them, in double precision."""

    model: PolynomialModel
    design: Design
    targets: list[np.ndarray]
    weight: np.ndarray | None
    loss: Any
    alpha: Any
    beta: Any

    def problems(self, model: Model) -> Iterator[tuple[Problem, Parameters]]:
        """For each target the problem that was solved, and what was found."""
        for y, parameters in zip(self.targets, self.model._fitted.targets, strict=True):
            problem = Problem.with_target(self.design, model, self.loss, y, self.weight, self.alpha, self.beta)
            yield problem, parameters.copy(np.float64)


def prepared(estimator, X, y, sample_weight) -> Prepared:
    subject = Subject.of(estimator)
    model = subject.model
    check_is_fitted(model)
    if "beta" not in model.get_params(deep=False):
        raise TypeError(f"{type(model).__name__} has no penalties, but infers them: there is no objective to bound.")
    X = subject.encoded(X)
    check_consistent_length(X, y)
    check_features(X)
    targets = model._encoded(X, y, "y")
    weight = model._checked_weights(X, model._weighted(X, np.asarray(y), sample_weight))
    X, targets, weight = _of_positive_weight(X.astype(np.float64, copy=False), targets, weight)
    alpha, beta = _penalties(model)
    return Prepared(model, Design(X), [t.astype(np.float64) for t in targets], weight, as_loss(model.loss), alpha, beta)


def signs_of(model: PolynomialModel, lambdas: np.ndarray) -> tuple[int, ...]:
    """The signs that bases of an estimator may have."""
    spec = model.init_lambdas
    if model._fitted.model.is_lifted or model.fit_lambdas or (isinstance(spec, str) and spec == "random_signs"):
        return 1, -1
    wanted = np.array([1.0]) if isinstance(spec, str) else np.asarray(spec, dtype=np.float64)
    signs = np.sign(np.concatenate([wanted, lambdas]))
    return tuple(sign for sign in (1, -1) if sign in signs) or (1,)


def _penalties(model: PolynomialModel) -> tuple[Any, Any]:
    """Those that the model was trained with."""
    if not hasattr(model, "beta_"):
        if is_auto(model.alpha) or is_auto(model.beta):
            raise ValueError(
                "This model does not say which penalties it was trained with. Set them: model.set_params(alpha=..., "
                "beta=...)."
            )
        recipe = model._recipe(model.n_features_in_)
        return recipe.alpha, recipe.beta
    alpha, beta = (Ridge.by_feature(p) if isinstance(p, np.ndarray) else float(p) for p in (model.alpha_, model.beta_))
    if is_auto(model.beta) and isinstance(model.beta_, np.ndarray):  # one for each degree
        return alpha, tuple(model.beta_.tolist())
    return alpha, beta


def _of_positive_weight(X, targets: list[np.ndarray], weight: np.ndarray | None):
    if weight is None:
        return X, targets, None
    weight = weight.astype(np.float64)
    kept = np.flatnonzero(weight)
    if len(kept) == len(weight):
        return X, targets, weight
    return X[kept], [y[kept] for y in targets], weight[kept]


def certificate_of(found: Assessment, problem: Problem, signs: tuple[int, ...], tol: float) -> Certificate:
    loss, distance = problem.loss, None
    if getattr(loss, "quadratic", False) and getattr(loss, "residual", False):
        distance = math.sqrt(2 * found.gap / (loss.curvature * problem.total_weight))
    return Certificate(
        found.objective, found.bound, CONES[signs], max(found.reach - 1.0, 0.0), found.rank, found.n_products,
        found.exact, 0.0 if found.exact else tol, distance,
    )  # fmt: skip


def summed(parts: list[Certificate]) -> Certificate:
    """That of all targets."""
    if len(parts) == 1:
        return parts[0]
    cones = {part.cone for part in parts}
    distances = [part.distance for part in parts if part.distance is not None]
    return Certificate(
        sum(part.objective for part in parts), sum(part.lower_bound for part in parts),
        cones.pop() if len(cones) == 1 else "signed", max(part.violation for part in parts),
        max(part.rank for part in parts), sum(part.n_products for part in parts), all(part.exact for part in parts),
        max(part.tolerance for part in parts), max(distances) if distances else None, tuple(parts),
    )  # fmt: skip
