"""Factorization machines for classes in an order, such as ratings: a cumulative logit model."""

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy.special import log_expit
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from polyfm.core.design import Design, frozen
from polyfm.core.parameters import Parameters
from polyfm.estimators._sklearn import fit_context, with_callbacks
from polyfm.estimators.targets import Classifier
from polyfm.losses import CumulativeLogit
from polyfm.solvers import Solver, solver_class
from polyfm.solvers.cut_points import WithCutPoints, marginal_cuts
from polyfm.training.recipe import Recipe
from polyfm.training.session import Outcome, Validation

MOST_CLASSES = 1000


class OrderedClassifier(Classifier):
    """What classifiers share whose classes are in an order, with cut points between them in place of an intercept."""

    _is_ordered = True
    fit_intercept = False

    def _check_order(self, y) -> None:
        dtype: Any = getattr(y, "dtype", None)
        if getattr(dtype, "ordered", False):
            names = list(dtype.categories)
            if names != sorted(names):
                raise ValueError(
                    f"y is an ordered categorical, {' < '.join(map(str, names))}, and classes are in the order of "
                    "sorting here. Pass y.cat.codes, the numbers of the categories."
                )

    def _check_labels(self, y: np.ndarray) -> None:
        """Numbers may be fractions, such as half stars, as long as most of them are there more than once."""
        if y.dtype.kind != "f" or len(np.unique(y)) > len(y) // 2:
            check_classification_targets(y)

    def _targets(self, codes: np.ndarray, dtype) -> list[np.ndarray]:
        return [codes.astype(dtype)]

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        log_p : ndarray of shape (n_samples, n_classes)
        """
        return np.log(self.predict_proba(X))

    def decision_function(self, X: Any) -> np.ndarray:
        """Logarithms of the class probabilities; of two classes, the difference of the two.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        scores : ndarray of shape (n_samples,), or (n_samples, n_classes) with more than two classes
        """
        scores = self.predict_log_proba(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_mean(self, X: Any) -> np.ndarray:
        """The expected label, where labels are numbers: less wrong by its square than the most probable one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        p = self.predict_proba(X)
        if self.classes_.dtype.kind not in "biuf":
            raise TypeError(f"predict_mean needs labels that are numbers, and these are {self.classes_.dtype}.")
        return p @ self.classes_.astype(np.float64)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # of classes without an order, which scikit-learn's checks have
        return tags


@dataclass(frozen=True)
class OrdinalRecipe(Recipe):
    """As `Recipe`; cut points are learned with the rest."""

    def solver_name(self, design: Design) -> str:
        name = super().solver_name(design)
        return name if solver_class(name).keeps_predictions else "cd"

    def make_solver(self, name: str, seed: int) -> Solver:
        return WithCutPoints(super().make_solver(name, seed))


class FactorizationMachineOrdinal(OrderedClassifier):
    """A factorization machine for classes in an order, such as ratings: the cumulative logit model.

    P(class <= c | x) = 1 / (1 + exp(f(x) - cut_c)), with f the sum of linear weights and interactions that
    `FactorizationMachineClassifier` has for one class against another, and cut points that are learned. The loss is
    the negative log-likelihood; bases, linear weights and cut points take turns, and the objective never increases.

    Parameters
    ----------
    degree : int, default=2
        Degree m of the interactions, at least 2.
    n_components : int, default=10
        Number of bases (the rank) for each degree.
    alpha, beta : float, "auto", array-like of shape (n_features,) or dict, default="auto"
        Penalties on linear weights and bases, as in `FactorizationMachineClassifier`. "auto" is chosen on held-out
        rows, with the cut points that the classes' frequencies give.
    groups : array-like of shape (n_features,), default=None
        The field of each feature, for penalties by field.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply those of the samples.
    method : {"direct", "lifted"}, default="direct"
        As in `FactorizationMachineClassifier`.
    fit_lower : {"explicit", "augment"} or None, default="explicit"
        Interactions of lower degree.
    fit_linear : bool, default=True
        Whether to fit linear weights.
    init_lambdas : {"ones", "random_signs"} or array of shape (n_bases,), default="ones"
        The weights of the bases (direct only).
    fit_lambdas : bool, default=False
        Fit them too (direct only).
    init_scale : float, default=0.1
        Size of the random initial interactions.
    solver : {"auto", "cd", "block"}, default="auto"
        Coordinate descent, or block descent where rows have few features. "auto" chooses; `solver_` says which it was.
    max_iter : int, default=200
        Most epochs.
    tol : float, default=1e-3
        Stop when an epoch lowers the objective by less than this fraction of it.
    checkpoint : str or path, default=None
        A file to which the state of training is written every `checkpoint_interval` epochs.
    checkpoint_interval : int, default=10
        Epochs between two writings of the checkpoint.
    warm_start : bool, default=False
        Start from the parameters and cut points of the previous `fit`.
    n_jobs : int, default=None
        Threads for training and prediction. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the initial bases.
    verbose : int, default=0
        Print a line for each epoch.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, in their order.
    cut_points_ : ndarray of shape (n_classes - 1,)
        Where one class ends and the next begins, on the scale of f.
    components_, degrees_, lambdas_, coef_, alpha_, beta_, objective_, history_, n_iter_, solver_, n_features_in_
        As in `FactorizationMachineClassifier`, for one target.

    Examples
    --------
    >>> import numpy as np
    >>> from polyfm import FactorizationMachineOrdinal
    >>> X = np.random.RandomState(0).standard_normal((300, 4))
    >>> y = np.searchsorted([-1, 0, 1], X[:, 0] * X[:, 1] + X[:, 2])
    >>> model = FactorizationMachineOrdinal(n_components=2, random_state=0).fit(X, y)
    >>> bool(np.abs(model.predict_mean(X) - y).mean() < 0.3)
    True
    """

    _kernel = "anova"
    _parameter_constraints = {
        name: allowed
        for name, allowed in Classifier._parameter_constraints.items()
        if name not in (
            "loss", "fit_intercept", "batch_size", "shares", "gap_tol", "max_components", "early_stopping",
            "validation_fraction", "n_iter_no_change",
        )
    } | {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions({"auto", "cd", "block"})],
    }  # fmt: skip
    batch_size, shares, gap_tol, max_components = "auto", 1, 1e-2, 100  # which other estimators let their users choose
    early_stopping = False

    def __init__(
        self,
        *,
        degree=2,
        n_components=10,
        alpha="auto",
        beta="auto",
        groups=None,
        class_weight=None,
        method="direct",
        fit_lower="explicit",
        fit_linear=True,
        init_lambdas="ones",
        fit_lambdas=False,
        init_scale=0.1,
        solver="auto",
        max_iter=200,
        tol=1e-3,
        checkpoint=None,
        checkpoint_interval=10,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.degree = degree
        self.n_components = n_components
        self.alpha = alpha
        self.beta = beta
        self.groups = groups
        self.class_weight = class_weight
        self.method = method
        self.fit_lower = fit_lower
        self.fit_linear = fit_linear
        self.init_lambdas = init_lambdas
        self.fit_lambdas = fit_lambdas
        self.init_scale = init_scale
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.checkpoint = checkpoint
        self.checkpoint_interval = checkpoint_interval
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @property
    def loss(self) -> CumulativeLogit:
        """The negative log-likelihood at the cut points of the moment."""
        cuts = getattr(self, "_first_cuts", None)
        return CumulativeLogit(frozen(getattr(self, "cut_points_", np.zeros(1)) if cuts is None else cuts, np.float64))

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # type: ignore[override]
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The samples.
        y : array-like of shape (n_samples,)
            Class labels, such as ratings: their order is that of sorting.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 is the row twice.

        Returns
        -------
        self : object
        """
        return self._fit(X, y, sample_weight)

    def _fit_targets(
        self, X, y, targets: list[np.ndarray], sample_weight, validation: Validation | None = None
    ) -> None:
        n_classes = len(self.classes_)
        if n_classes > MOST_CLASSES:
            raise ValueError(
                f"y has {n_classes} distinct labels, and each needs a cut point: more than {MOST_CLASSES} is a matter "
                "for FactorizationMachineRegressor."
            )
        cuts = marginal_cuts(targets[0], self._checked_weights(X, sample_weight), n_classes)
        before = getattr(self, "cut_points_", ())
        self._first_cuts = before if self.warm_start and len(before) == len(cuts) else cuts
        try:
            super()._fit_targets(X, y, targets, sample_weight, validation)
        finally:
            del self._first_cuts

    def _recipe(self, n_features: int) -> Recipe:
        return replace(super()._recipe(n_features).of_kind(OrdinalRecipe), may_take_steps=False)

    def _identity_of_loss(self) -> Any:
        """That of all cut points: they are learned, and a run that goes on has its own."""
        return "cumulative logit"

    def _complete(self, recipe: Recipe, *args, **options) -> tuple[Recipe, list[Parameters]]:
        """Penalties are chosen with cut points that stay where they are: held-out rows are judged by the same."""
        recipe, starts = super()._complete(recipe.of_kind(Recipe), *args, **options)
        return recipe.of_kind(OrdinalRecipe), starts

    def _keep(self, recipe: Recipe, outcomes: list[Outcome], solver: str) -> None:
        super()._keep(recipe, outcomes, solver)
        self.cut_points_ = outcomes[0].result.learned["cuts"]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        log_p : ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        away = self._raw_predict(X)[0].astype(np.float64)[:, None] - self.cut_points_
        nothing = np.zeros((len(away), 1))
        # As the loss has it: below the cut point above, above the one below, and what both leave out.
        log_p = np.hstack([log_expit(-away), nothing]) + np.hstack([nothing, log_expit(away)])
        log_p[:, 1:-1] += np.log(-np.expm1(-np.diff(self.cut_points_)))
        return log_p
