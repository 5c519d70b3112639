"""What a fitted estimator is and does: its attributes, its predictions, and the same model in the other form."""

import copy
from collections.abc import Callable
from typing import Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from polyfm.conversion import converted
from polyfm.core.design import Design
from polyfm.core.fitted import Fitted
from polyfm.core.model import Model
from polyfm.core.parameters import Parameters
from polyfm.core.sparse import checked_sparse
from polyfm.estimators._sklearn import CallbackSupportMixin, FactsMixin
from polyfm.estimators.summary import facts_html
from polyfm.estimators.validation import threads_of


class FittedModel(FactsMixin, CallbackSupportMixin, BaseEstimator):
    """An estimator whose model, once there is one, is `_fitted`."""

    _fitted: Fitted
    _set_attributes: Callable[..., None]  # factors, lambdas, linear weights and intercepts, of one target or of several

    def _set_fitted(self, fitted: Fitted) -> None:
        self._fitted = fitted
        self.degrees_ = np.concatenate([np.full(g.n_bases, g.degree) for g in fitted.model.groups])
        components = [_stacked_components(fitted.model, p) for p in fitted.targets]
        lambdas = [np.concatenate(p.lambdas) for p in fitted.targets]
        coefs, intercepts = [p.coef for p in fitted.targets], [p.intercept[0] for p in fitted.targets]
        self._set_attributes(components, lambdas, coefs, intercepts)

    # -- the other form -----------------------------------------------------------------------------------------------

    def to_direct(self) -> Self:
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

    def to_lifted(self) -> Self:
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
        model, parameters = converted(self._fitted.model, self._fitted.targets, method)
        other.set_params(method=method, n_components=model.groups[0].n_bases, init_lambdas="ones", fit_lambdas=False)
        for name in ("objective_", "history_"):
            if hasattr(other, name):
                delattr(other, name)
        other._set_fitted(Fitted(model, parameters))
        return other

    # -- prediction ---------------------------------------------------------------------------------------------------

    def _raw_predict(self, X) -> np.ndarray:
        """Predictions of shape (targets, samples)."""
        if not hasattr(self, "_fitted"):
            check_is_fitted(self)
        X = checked_sparse(X)
        if not self._is_plain(X):
            X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._fitted.predict(Design(X), threads_of(self.n_jobs))

    def _is_plain(self, X) -> bool:
        """Whether X is an array that scikit-learn's checks would let pass as it is. They take longer than a row."""
        if hasattr(self, "feature_names_in_") or not (type(X) is np.ndarray or sp.issparse(X)):
            return False
        if (
            X.ndim != 2
            or X.shape[0] == 0
            or X.shape[1] != self.n_features_in_
            or X.dtype not in (np.float64, np.float32)
        ):
            return False
        if type(X) is np.ndarray:
            return bool(np.isfinite(X.sum()))
        return X.format == "csr" and X.indices.dtype == np.int32 and bool(np.isfinite(X.data.sum()))

    def _facts_html(self) -> str:
        return facts_html(self) if hasattr(self, "_fitted") else ""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _stacked_components(model: Model, parameters: Parameters) -> np.ndarray:
    """All bases in one array: (bases, features) when direct, (degree, bases, features) when lifted, where bases of a
    lower degree have zeros for the factors that they lack."""
    if not model.is_lifted:
        return _joined([P[:, 0] for P in parameters.factors])
    degree = model.groups[0].degree
    padded = [np.pad(P, ((0, 0), (0, degree - P.shape[1]), (0, 0))) for P in parameters.factors[1:]]
    return _joined([parameters.factors[0], *padded]).transpose(1, 0, 2)


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    """The arrays one after the other; one alone is not copied, and so must not be written to."""
    joined = np.concatenate(arrays) if len(arrays) > 1 else arrays[0].view()
    joined.flags.writeable = False
    return joined
