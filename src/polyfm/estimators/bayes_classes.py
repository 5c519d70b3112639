"""Bayesian machines for classes: without an order, by probit models, and with one, by cut points."""

from typing import Any, Self

import numpy as np
from scipy.special import log_ndtr, log_softmax
from sklearn.utils.validation import check_is_fitted

from polyfm.estimators._sklearn import fit_context, with_callbacks
from polyfm.estimators.bayes import Bayesian
from polyfm.estimators.bayes_docstrings import documented_bayes
from polyfm.estimators.ordinal import OrderedClassifier
from polyfm.estimators.targets import Classifier
from polyfm.estimators.validation import RandomState
from polyfm.files.atomic import Path


class BayesianClassifier(Bayesian, Classifier):
    """What Bayesian classifiers share whose classes have no order."""

    _likelihood = "probit"
    _parameter_constraints = Bayesian._parameter_constraints | {
        "class_weight": Classifier._parameter_constraints["class_weight"]
    }

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # type: ignore[override]
        """Fit the model; more than two classes are learned one against the rest.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The samples.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 is the row twice.

        Returns
        -------
        self : object
        """
        return self._fit(X, y, sample_weight)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: positive for the second of two classes, largest for the predicted one of more. The normal
        distribution function of a score is the probability of the class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        scores : ndarray of shape (n_samples,), or (n_samples, n_classes) with more than two classes
        """
        scores = self._of_posterior("scores", X)
        return scores[0] if len(self.classes_) == 2 else scores.T

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities. What is not known of the parameters draws them towards each other.

        Those of several classes, learned one against the rest, are normalised to sum to one.

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
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([log_ndtr(-scores), log_ndtr(scores)])
        return log_softmax(log_ndtr(scores), axis=1)


@documented_bayes
class BayesianFactorizationMachineClassifier(BayesianClassifier):
    def __init__(
        self,
        *,
        degree: int = 2,
        n_components: int = 10,
        inference: str = "variational",
        groups: Any = "auto",
        n_samples: int = 50,
        thinning: int = 2,
        class_weight: Any = None,
        method: str = "direct",
        fit_lower: str | None = "explicit",
        fit_linear: bool = True,
        fit_intercept: bool = True,
        max_iter: int = 200,
        tol: float = 1e-3,
        checkpoint: Path | None = None,
        checkpoint_interval: int = 10,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.degree = degree
        self.n_components = n_components
        self.inference = inference
        self.groups = groups
        self.n_samples = n_samples
        self.thinning = thinning
        self.class_weight = class_weight
        self.method = method
        self.fit_lower = fit_lower
        self.fit_linear = fit_linear
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.checkpoint = checkpoint
        self.checkpoint_interval = checkpoint_interval
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


@documented_bayes
class BayesianFactorizationMachineOrdinal(Bayesian, OrderedClassifier):
    _likelihood = "ordered"
    _parameter_constraints = {
        name: allowed for name, allowed in Bayesian._parameter_constraints.items() if name != "fit_intercept"
    }
    class_weight = None

    def __init__(
        self,
        *,
        degree: int = 2,
        n_components: int = 10,
        inference: str = "variational",
        groups: Any = "auto",
        n_samples: int = 50,
        thinning: int = 2,
        method: str = "direct",
        fit_lower: str | None = "explicit",
        fit_linear: bool = True,
        max_iter: int = 200,
        tol: float = 1e-3,
        checkpoint: Path | None = None,
        checkpoint_interval: int = 10,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.degree = degree
        self.n_components = n_components
        self.inference = inference
        self.groups = groups
        self.n_samples = n_samples
        self.thinning = thinning
        self.method = method
        self.fit_lower = fit_lower
        self.fit_linear = fit_linear
        self.max_iter = max_iter
        self.tol = tol
        self.checkpoint = checkpoint
        self.checkpoint_interval = checkpoint_interval
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

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

    @property
    def cut_points_(self) -> np.ndarray:
        """(n_classes - 1,): where one class ends and the next begins; with Gibbs sampling, the means."""
        check_is_fitted(self)
        cuts: Any = self._posterior[0].cuts
        return cuts if cuts.ndim == 1 else cuts.mean(axis=0)

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
        p = self._of_posterior("class_probabilities", X)[0]
        return p / p.sum(axis=1, keepdims=True)
