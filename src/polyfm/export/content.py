"""What an exported model holds: the numbers that predict, and what predictions are made of them."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from polyfm.core.model import Group
from polyfm.estimators.base import PolynomialModel
from polyfm.losses import LOSSES, states

FORMS_WITH_FORMULAS = {("anova", "direct"), ("anova", "lifted"), ("homogeneous", "direct"), ("homogeneous", "lifted")}
WITHOUT_MEANS = (
    "BayesianFactorizationMachineClassifier", "BayesianFactorizationMachineOrdinal",
    "BayesianPolynomialNetworkClassifier",
)  # fmt: skip


class ExportError(ValueError):
    """A model that another format cannot express, or a file that cannot be written: says what to do."""


class Bases(NamedTuple):
    """The bases of one form and degree, of all targets one after the other."""

    group: Group
    factors: np.ndarray  # (targets * bases, factors, features + dummies), in double precision
    lambdas: np.ndarray  # (targets, bases), times the form's scale


class Content(NamedTuple):
    """T targets: one, or one for each of several classes."""

    name: str  # of the estimator's class
    bases: list[Bases]
    coef: np.ndarray | None  # (T, features)
    intercept: np.ndarray  # (T,)
    n_features: int
    clip: tuple[float, float] | None
    classes: np.ndarray | None
    has_probabilities: bool

    @classmethod
    def of(cls, estimator: Any, *, raw_scores: bool = False) -> "Content":
        """What is to be exported of an estimator; an error where its predictions are not made of numbers alone."""
        _check(estimator)
        check_is_fitted(estimator)
        model, targets = estimator._fitted.model, estimator._fitted.targets
        bases = []
        for g, group in enumerate(model.groups):
            if (group.form.kernel, group.form.method) not in FORMS_WITH_FORMULAS:
                raise ExportError(
                    f"The form {type(group.form).__name__} (method={group.form.method!r}) is not exported: only "
                    "polyfm's own forms have formulas for other programs. Train with method='direct' or 'lifted'."
                )
            factors = np.concatenate([p.factors[g].astype(np.float64) for p in targets])
            lambdas = np.stack([p.lambdas[g].astype(np.float64) for p in targets]) * group.form.scale
            bases.append(Bases(group, factors, lambdas))
        coef = np.stack([p.coef.astype(np.float64) for p in targets]) if model.fit_linear else None
        intercept = np.array([float(p.intercept[0]) for p in targets])
        clip = getattr(estimator, "_bounds", None)
        classes = getattr(estimator, "classes_", None)
        probable = classes is not None and not raw_scores and _has_probabilities(estimator)
        d = estimator.n_features_in_
        return cls(type(estimator).__name__, bases, coef, intercept, d, clip, classes, probable)

    @property
    def n_targets(self) -> int:
        return len(self.intercept)


def _check(estimator: Any) -> None:
    name = type(estimator).__name__
    if name in WITHOUT_MEANS:
        raise ExportError(
            f"{name} is not exported: its probabilities are an average over all that is possible of the parameters, "
            "not a formula of their means. Export a FactorizationMachineClassifier, or a "
            "BayesianFactorizationMachineRegressor, whose predictions are means."
        )
    if name == "FactorizationMachineOrdinal":
        raise ExportError(
            f"{name} is not exported: other formats have no classes in an order. Export a "
            "FactorizationMachineClassifier, or a FactorizationMachineRegressor of the labels."
        )
    if name == "Recommender":
        raise ExportError(
            "A Recommender is not exported: it looks up users and items. Serve it from a file of its own "
            "(save_model), or write out its lists (recommend)."
        )
    if not isinstance(estimator, PolynomialModel):
        raise ExportError(
            f"{name} is not exported: pass a fitted FactorizationMachine* or PolynomialNetwork*; of a search such as "
            "GridSearchCV, its best_estimator_."
        )


def _has_probabilities(estimator: Any) -> bool:
    if not states(estimator.loss, "probability"):
        return False
    if not isinstance(estimator.loss, str) and type(estimator.loss) is not LOSSES["logistic"]:
        raise ExportError(
            f"loss={type(estimator.loss).__name__} has probabilities of its own, made by code that is not exported. "
            "Pass raw_scores=True to export the values of decision_function, or train with loss='logistic'."
        )
    return True
