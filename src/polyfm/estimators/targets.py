"""Regressors and classifiers: how targets are encoded, and what predictions mean."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_array, column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from polyfm.core.sparse import checked_sparse
from polyfm.estimators._sklearn import (
    HasMethods,
    StrOptions,
    available_if,
    check_sample_weight,
    fit_context,
    with_callbacks,
)
from polyfm.estimators.streaming import StreamingModel, streams
from polyfm.estimators.validation import LARGEST, check_range, is_auto
from polyfm.losses import as_loss, losses_for, states
from polyfm.solvers.interrupts import deferred_interrupts
from polyfm.training.automatic import BEYOND


def _one_vs_rest(codes: np.ndarray, n_classes: int, dtype) -> list[np.ndarray]:
    positive = [1] if n_classes == 2 else range(n_classes)
    return [np.where(codes == c, 1.0, -1.0).astype(dtype) for c in positive]


class Regressor(RegressorMixin, StreamingModel):
    _parameter_constraints = StreamingModel._parameter_constraints | {
        "loss": [StrOptions(set(losses_for("regression"))), HasMethods(["value", "derivative"])],
        "clip": ["boolean", StrOptions({"auto"})],
    }

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, X_val: Any = None, y_val: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            float32 is worked on in float32; everything else in float64.
        y : array-like of shape (n_samples,)
            The targets.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 is the row twice.
        X_val, y_val : like X and y, default=None
            Rows to judge early stopping by, in place of a part of X that is held out.

        Returns
        -------
        self : object
        """
        return self._fit(X, y, sample_weight, X_val, y_val)

    def _fit(self, X, y, sample_weight, X_val=None, y_val=None):
        self._validate_options()
        X, y = validate_data(
            self, checked_sparse(X), y, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32], y_numeric=True
        )
        y = self._as_targets(X, y)
        with deferred_interrupts():
            self._fit_targets(X, y, [y.astype(X.dtype, copy=False)], sample_weight, self._validation(X, X_val, y_val))
        self.target_range_ = np.array([y.min(), y.max()])
        return self

    def _targets(self, codes: np.ndarray, dtype) -> list[np.ndarray]:
        """Numbers of classes as what is trained on: one target, or one for each class against the rest."""
        return _one_vs_rest(codes, len(self.classes_), dtype)

    def _weighted(self, X, y, sample_weight):
        """The weights of the samples; a classifier multiplies them with those of the classes."""
        return sample_weight

    def _as_targets(self, X, y) -> np.ndarray:
        y = np.asarray(y, dtype=np.float64)
        check_range("y", y, LARGEST[X.dtype.name], "Scale the targets, for instance to unit variance.")
        return y

    def _encoded(self, X, y, name: str = "y_val") -> list[np.ndarray]:
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name=name)
        return [self._as_targets(X, column_or_1d(y)).astype(X.dtype, copy=False)]

    @available_if(streams)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from one more batch of rows (``solver="sgd"``), for streams and for data larger than memory.

        The first batch sets the start (unless the model is fitted already) and the size of the steps, so let it be
        representative: a few thousand rows.
        Features that have not occurred yet keep their small random factors until they do.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The number of features must be that of the first batch.
        y : array-like of shape (n_samples,)
            The targets.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 is the row twice.

        Returns
        -------
        self : object
        """
        self._validate_options()
        X, y = validate_data(
            self, checked_sparse(X), y, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32], y_numeric=True,
            reset=not hasattr(self, "_fitted"),
        )  # fmt: skip
        y = self._as_targets(X, y)
        self._partial_fit_targets(X, [y.astype(X.dtype, copy=False)], sample_weight)
        low, high = getattr(self, "target_range_", (np.inf, -np.inf))
        self.target_range_ = np.array([min(low, y.min()), max(high, y.max())])
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        f = self._raw_predict(X)[0]
        bounds = self._bounds
        return f if bounds is None else np.clip(f, *np.asarray(bounds, f.dtype), out=f)

    @property
    def _bounds(self) -> tuple[float, float] | None:
        """What predictions are kept within. With "auto", that is where held-out rows were judged: polynomials that grow
        faster than products of two features go far astray outside of what they have seen."""
        if is_auto(self.clip):
            chosen = is_auto(self.alpha) or is_auto(self.beta)
            steep = self.degree > 2 or self._kernel != "anova"
            if not (chosen and steep and self.loss == "squared" and hasattr(self, "target_range_")):
                return None
            low, high = map(float, self.target_range_)
            return low - BEYOND * (high - low), high + BEYOND * (high - low)
        if not self.clip:
            return None
        if not hasattr(self, "target_range_"):
            raise ValueError("clip=True, but this model does not know the range of its targets. Fit it again.")
        low, high = map(float, self.target_range_)
        return low, high

    def _set_attributes(self, components, lambdas, coefs, intercepts):
        self.components_, self.lambdas_, self.coef_ = components[0], lambdas[0], coefs[0]
        self.intercept_ = float(intercepts[0])


def _has_probabilities(estimator) -> bool:
    return states(estimator.loss, "probability")


class Classifier(ClassifierMixin, StreamingModel):
    _is_ordered = False  # whether classes are in an order, with one target for all
    _parameter_constraints = StreamingModel._parameter_constraints | {
        "loss": [StrOptions(set(losses_for("classification"))), HasMethods(["value", "derivative"])],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, X_val: Any = None, y_val: Any = None) -> Self:
        """Fit the model; more than two classes are learned one against the rest.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            float32 is worked on in float32; everything else in float64.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 is the row twice.
        X_val, y_val : like X and y, default=None
            Rows to judge early stopping by, in place of a part of X that is held out.

        Returns
        -------
        self : object
        """
        return self._fit(X, y, sample_weight, X_val, y_val)

    def _fit(self, X, y, sample_weight, X_val=None, y_val=None):
        self._validate_options()
        self._check_order(y)
        X, y = validate_data(self, checked_sparse(X), y, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32])
        self._check_labels(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        if n_classes < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least 2 classes; the data has one class: "
                f"{str(self.classes_[0])!r}."
            )
        targets, sample_weight = self._targets(codes, X.dtype), self._weighted(X, y, sample_weight)
        with deferred_interrupts():
            self._fit_targets(X, y, targets, sample_weight, self._validation(X, X_val, y_val))
        return self

    def _check_order(self, y) -> None:
        """Refuse labels that say of themselves to be in another order than here."""

    def _check_labels(self, y: np.ndarray) -> None:
        check_classification_targets(y)

    def _targets(self, codes: np.ndarray, dtype) -> list[np.ndarray]:
        """Numbers of classes as what is trained on: one target, or one for each class against the rest."""
        return _one_vs_rest(codes, len(self.classes_), dtype)

    def _weighted(self, X, y, sample_weight):
        """The weights of the samples, times those of their classes."""
        if self.class_weight is None:
            return sample_weight
        of_classes = compute_class_weight(self.class_weight, classes=self.classes_, y=y, sample_weight=sample_weight)
        of_samples = of_classes[np.searchsorted(self.classes_, y)]
        if sample_weight is None:
            return of_samples
        return check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True) * of_samples

    def _encoded(self, X, y, name: str = "y_val") -> list[np.ndarray]:
        y = check_array(y, ensure_2d=False, dtype=None, input_name=name)
        return self._targets(self._codes(column_or_1d(y), name), X.dtype)

    def _codes(self, y, name: str) -> np.ndarray:
        """The numbers of the classes; labels that are none of them are refused."""
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"{name} has the label {str(unknown[0])!r}, which is not among the classes to learn.")
        return np.searchsorted(self.classes_, y)

    @available_if(streams)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one more batch of rows (``solver="sgd"``), for streams and for data larger than memory.

        The first batch sets the start (unless the model is fitted already) and the size of the steps, so let it be
        representative: a few thousand rows.
        Features that have not occurred yet keep their small random factors until they do.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The number of features must be that of the first batch.
        y : array-like of shape (n_samples,)
            The targets.
        classes : array-like of shape (n_classes,), default=None
            All classes; needed in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 is the row twice.

        Returns
        -------
        self : object
        """
        self._validate_options()
        first = not hasattr(self, "classes_")
        X, y = validate_data(
            self, checked_sparse(X), y, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32], reset=first
        )
        check_classification_targets(y)
        if first:
            if classes is None:
                raise ValueError("The first call of partial_fit needs classes=, the labels of all classes.")
            known = np.unique(classes)
            if len(known) < 2:
                raise ValueError(f"classes= must name at least two classes, got {known.tolist()}.")
            self.classes_ = known
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all rows at once, which partial_fit has not. Pass a dict of weights."
            )
        codes = self._codes(y, "y")
        sample_weight = self._weighted(X, y, sample_weight)
        self._partial_fit_targets(X, self._targets(codes, X.dtype), sample_weight)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """The model's values: positive for the second of two classes, largest for the predicted one of more.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        f : ndarray of shape (n_samples,), or (n_samples, n_classes) with more than two classes
        """
        f = self._raw_predict(X)
        return f[0] if len(self.classes_) == 2 else f.T

    def predict(self, X: Any) -> np.ndarray:
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        f = self.decision_function(X)
        return self.classes_[(f > 0).astype(int) if f.ndim == 1 else f.argmax(axis=1)]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities, where the loss has them, as the logistic one does.

        Those of several classes, learned one against the rest, are normalised to sum to one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
        """
        p = as_loss(self.loss).probability(self.decision_function(X))  # type: ignore[attr-defined]
        if p.ndim == 1:
            return np.column_stack([1 - p, p])
        totals = p.sum(axis=1, keepdims=True)
        return np.where(totals > 0, p / np.where(totals > 0, totals, 1), 1 / p.shape[1])

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the class probabilities (where the loss has them).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        log_p : ndarray of shape (n_samples, n_classes)
        """
        return np.log(self.predict_proba(X))

    def _set_attributes(self, components, lambdas, coefs, intercepts):
        self.components_, self.lambdas_ = np.stack(components), np.stack(lambdas)
        self.coef_, self.intercept_ = np.stack(coefs), np.array(intercepts)
