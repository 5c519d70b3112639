"""The scikit-learn face: estimators validate and encode, and leave the numbers to `Problem` and its solvers."""

import copy
import warnings
from numbers import Integral, Real

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from polyfm._sklearn import HasMethods, Interval, StrOptions, check_sample_weight, fit_context
from polyfm.conversion import converted
from polyfm.design import Design
from polyfm.initial import initial_parameters
from polyfm.losses import CLASSIFICATION_LOSSES, REGRESSION_LOSSES, Logistic, as_loss
from polyfm.model import Model, Parameters, build_model
from polyfm.problem import Problem
from polyfm.solvers import SOLVERS, Result, run

LARGEST = {"float64": 1e100, "float32": 1e15}  # beyond these, squares of derivatives overflow
SUPPORTED = {("anova", "direct"), ("anova", "lifted"), ("homogeneous", "lifted")}


class PolynomialModel(BaseEstimator):
    """What the four estimators share. Subclasses set the kernel and encode their targets."""

    _kernel: str

    _parameter_constraints: dict = {
        "degree": [Interval(Integral, 2, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "beta": [Interval(Real, 0, None, closed="left")],
        "method": [StrOptions({"direct", "lifted"})],
        "fit_lower": [StrOptions({"explicit", "augment"}), None],
        "fit_linear": ["boolean"],
        "fit_intercept": ["boolean"],
        "init_lambdas": [StrOptions({"ones", "random_signs"}), "array-like"],
        "fit_lambdas": ["boolean"],
        "init_scale": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions(set(SOLVERS))],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # -- fitting ------------------------------------------------------------------------------------------------------

    def _validate_options(self) -> None:
        """Combinations of parameters that make no sense, before any work is done."""
        if (self._kernel, self.method) not in SUPPORTED:
            works = sorted(method for kernel, method in SUPPORTED if kernel == self._kernel)
            raise ValueError(
                f"{type(self).__name__} has no solver for method={self.method!r} with solver={self.solver!r}: the "
                f"homogeneous kernel is not multilinear in its bases. Use method={' or '.join(map(repr, works))}."
            )
        if self.method == "lifted":
            if self.fit_lambdas:
                raise ValueError("fit_lambdas=True needs method='direct': a lifted model has no lambdas to fit.")
            if not isinstance(self.init_lambdas, str) or self.init_lambdas != "ones":
                raise ValueError("init_lambdas needs method='direct': a lifted model has no lambdas.")
        for name in ("alpha", "beta", "init_scale"):
            if not np.isfinite(getattr(self, name)):
                raise ValueError(f"{name} must be finite, got {getattr(self, name)}.")

    def _model(self) -> Model:
        return build_model(
            self._kernel, self.method, self.degree, self.n_components, self.fit_lower, self.fit_linear,
            self.fit_intercept,
        )  # fmt: skip

    def _given_lambdas(self, model: Model):
        """`init_lambdas` as a word or as a checked array over all bases."""
        if isinstance(self.init_lambdas, str):
            return self.init_lambdas
        lams = np.asarray(self.init_lambdas, dtype=np.float64)
        n_bases = sum(group.n_bases for group in model.groups)
        if lams.shape != (n_bases,):
            raise ValueError(
                f"init_lambdas has shape {lams.shape}, but the model has {n_bases} bases (n_components="
                f"{self.n_components} for each of {len(model.groups)} degree(s)): pass ({n_bases},) values."
            )
        if not np.all(np.isfinite(lams)):
            raise ValueError("init_lambdas must be finite numbers.")
        return lams

    def _fit_targets(self, X, targets: list[np.ndarray], sample_weight) -> None:
        """Fit one set of parameters for each target; they share the views of X."""
        loss = as_loss(self.loss)
        model = self._model()
        lams = self._given_lambdas(model)
        if sample_weight is not None:
            sample_weight = check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
            if not np.any(sample_weight):
                raise ValueError("All sample weights are zero: there is nothing to fit.")
        _check_range(
            "X", X.data if hasattr(X, "indptr") else X, LARGEST[X.dtype.name],
            "Scale the features first, for instance with sklearn.preprocessing.StandardScaler or MaxAbsScaler.",
        )  # fmt: skip
        design = Design(X, sort_rows=True)
        starts = self._warm_starts(model, design, len(targets))
        rng = check_random_state(self.random_state)
        results = []
        for y, start in zip(targets, starts, strict=True):
            problem = Problem.with_target(design, model, loss, y, sample_weight, self.alpha, self.beta)
            if start is None:
                start = initial_parameters(problem, rng, self.init_scale, lams)
            solver = SOLVERS[self.solver](fit_lambdas=self.fit_lambdas)
            results.append(run(solver, problem, start, max_iter=self.max_iter, tol=self.tol, verbose=self.verbose))
        self._keep(model, results)

    def _warm_starts(self, model: Model, design: Design, n_targets: int) -> list[Parameters | None]:
        previous = getattr(self, "_parameters", None)
        if not self.warm_start or previous is None:
            return [None] * n_targets
        shapes = [group.shape(design.shape[1]) for group in model.groups]
        same = len(previous) == n_targets and [P.shape for P in previous[0].factors] == shapes
        if not same:
            raise ValueError(
                "warm_start=True, but the fitted parameters have other shapes than this model and data ask for. Keep "
                "degree, n_components, fit_lower, the features and the classes, or set warm_start=False."
            )
        return [parameters.copy(design.dtype) for parameters in previous]

    def _keep(self, model: Model, results: list[Result]) -> None:
        """Turn results into fitted attributes. Objectives of several targets add up: one-vs-rest is one sum."""
        self._keep_parameters(model, [result.parameters for result in results])
        longest = max(result.n_iter for result in results)
        padded = [np.pad(r.history, (0, longest - r.n_iter), mode="edge") for r in results]
        self.history_ = np.sum(padded, axis=0)
        self.objective_ = float(self.history_[-1])
        self.n_iter_ = longest
        if not all(result.converged for result in results):
            h = max((r.history for r in results if not r.converged), key=len)
            rate = (
                f"; the last one lowered the objective by {(h[-2] - h[-1]) / abs(h[-2]):.1e} of it"
                if len(h) > 1
                else ""
            )
            warnings.warn(
                f"Not converged after max_iter={self.max_iter} epochs{rate}, more than tol={self.tol:g}. Raise "
                "max_iter for a lower objective, raise tol to stop earlier in silence, or raise beta; features of very "
                "different scales also slow training down (try sklearn.preprocessing.StandardScaler).",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _keep_parameters(self, model: Model, parameters: list[Parameters]) -> None:
        self._fitted_model = model
        self._parameters = parameters
        self.degrees_ = np.concatenate([np.full(g.n_bases, g.degree) for g in model.groups])
        components = [_stacked_components(model, p) for p in parameters]
        lambdas = [np.concatenate(p.lambdas) for p in parameters]
        self._set_attributes(components, lambdas, [p.coef for p in parameters], [p.intercept[0] for p in parameters])

    # -- the other form -----------------------------------------------------------------------------------------------

    def to_direct(self):
        """The same fitted model as a kernel expansion sum_s lambda_s K(p_s, x), with identical predictions.

        Degree 2 gives at most twice as many bases as the lifted model has, higher degrees at most 2^(degree - 1)
        times as many; see `lifted_to_direct`. `objective_` and `history_` belong to the lifted objective and are not
        carried over. With ``warm_start=True`` the result can be trained on.

        Returns
        -------
        estimator : object
            Of the same class, with ``method="direct"``.
        """
        return self._converted("direct")

    def to_lifted(self):
        """The same fitted model in lifted form, with identical predictions and as many bases.

        With ``warm_start=True`` the result can be trained on, from the same start as the direct model (the paper's
        section 9.2).

        Returns
        -------
        estimator : object
            Of the same class, with ``method="lifted"``.
        """
        return self._converted("lifted")

    def _converted(self, method: str):
        check_is_fitted(self)
        other = copy.deepcopy(self)
        if self.method == method:
            return other
        model, parameters = converted(self._fitted_model, self._parameters, method)
        other.set_params(method=method, n_components=model.groups[0].n_bases, init_lambdas="ones", fit_lambdas=False)
        for name in ("objective_", "history_"):
            vars(other).pop(name, None)
        other._keep_parameters(model, parameters)
        return other

    # -- prediction ---------------------------------------------------------------------------------------------------

    def _raw_predict(self, X) -> np.ndarray:
        """Predictions of shape (targets, samples)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        design = Design(X)
        return np.stack([self._fitted_model.predict(p, design) for p in self._parameters])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _check_range(name: str, values: np.ndarray, limit: float, remedy: str) -> None:
    largest = max(abs(float(values.max())), abs(float(values.min()))) if values.size else 0.0
    if largest > limit:
        raise ValueError(
            f"{name} has a value of magnitude {largest:.3g}, too large for products and squares in {values.dtype}. {remedy}"
        )


def _stacked_components(model: Model, parameters: Parameters) -> np.ndarray:
    """All bases in one array: (bases, features) when direct, (degree, bases, features) when lifted, where bases of a
    lower degree have zeros for the factors that they lack."""
    if model.groups[0].method == "direct":
        return np.concatenate([P[:, 0] for P in parameters.factors])
    degree = model.groups[0].degree
    padded = [np.pad(P, ((0, 0), (0, degree - P.shape[1]), (0, 0))) for P in parameters.factors]
    return np.concatenate(padded).transpose(1, 0, 2)


class Regressor(RegressorMixin, PolynomialModel):
    _parameter_constraints = PolynomialModel._parameter_constraints | {
        "loss": [StrOptions(set(REGRESSION_LOSSES)), HasMethods(["value", "derivative"])]
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            float32 is worked on in float32; everything else in float64.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 is the row twice.

        Returns
        -------
        self : object
        """
        self._validate_options()
        X, y = validate_data(self, X, y, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32], y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        _check_range("y", y, LARGEST[X.dtype.name], "Scale the targets, for instance to unit variance.")
        self._fit_targets(X, [y.astype(X.dtype)], sample_weight)
        return self

    def predict(self, X):
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        return self._raw_predict(X)[0]

    def _set_attributes(self, components, lambdas, coefs, intercepts):
        self.components_, self.lambdas_, self.coef_ = components[0], lambdas[0], coefs[0]
        self.intercept_ = float(intercepts[0])


def _has_probabilities(estimator) -> bool:
    return estimator.loss == "logistic" or isinstance(estimator.loss, Logistic)


class Classifier(ClassifierMixin, PolynomialModel):
    _parameter_constraints = PolynomialModel._parameter_constraints | {
        "loss": [StrOptions(set(CLASSIFICATION_LOSSES)), HasMethods(["value", "derivative"])]
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit the model; more than two classes are learned one against the rest.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            float32 is worked on in float32; everything else in float64.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 is the row twice.

        Returns
        -------
        self : object
        """
        self._validate_options()
        X, y = validate_data(self, X, y, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        if n_classes < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least 2 classes; the data has one class: "
                f"{str(self.classes_[0])!r}."
            )
        positive = [1] if n_classes == 2 else range(n_classes)
        self._fit_targets(X, [np.where(codes == c, 1.0, -1.0).astype(X.dtype) for c in positive], sample_weight)
        return self

    def decision_function(self, X):
        """The model's values: positive for the second of two classes, largest for the predicted one of more.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        f : ndarray of shape (n_samples,), or (n_samples, n_classes) with more than two classes
        """
        f = self._raw_predict(X)
        return f[0] if len(self.classes_) == 2 else f.T

    def predict(self, X):
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        f = self.decision_function(X)
        return self.classes_[(f > 0).astype(int) if f.ndim == 1 else f.argmax(axis=1)]

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Class probabilities (logistic loss only); one-vs-rest probabilities are normalised to sum to one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
        """
        p = expit(self.decision_function(X))
        if p.ndim == 1:
            return np.column_stack([1 - p, p])
        totals = p.sum(axis=1, keepdims=True)
        return np.where(totals > 0, p / np.where(totals > 0, totals, 1), 1 / p.shape[1])

    @available_if(_has_probabilities)
    def predict_log_proba(self, X):
        """Logarithms of the class probabilities (logistic loss only).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_p : ndarray of shape (n_samples, n_classes)
        """
        return np.log(self.predict_proba(X))

    def _set_attributes(self, components, lambdas, coefs, intercepts):
        self.components_, self.lambdas_ = np.stack(components), np.stack(lambdas)
        self.coef_, self.intercept_ = np.stack(coefs), np.array(intercepts)
