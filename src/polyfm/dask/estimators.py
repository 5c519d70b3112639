"""The four estimators on Dask."""

from typing import Any

from distributed import Client, default_client
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from polyfm.dask.collections import chunks_of, is_collection, predicted
from polyfm.dask.engine import PATIENCE, DaskEngine, is_placed
from polyfm.distributed.estimator import FittedInParts, with_parameters
from polyfm.estimators import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkClassifier,
    PolynomialNetworkRegressor,
)
from polyfm.losses import states

_SUMMARY = """{name} on Dask arrays and DataFrames.

    Rows stay on the workers; what travels are parameters and sums. The model is that of `{name}`, to rounding, and the
    number of workers changes no bit of it. `fit` takes Dask arrays, of dense or CSR chunks, or DataFrames of numbers;
    `DaskTableEncoder` makes numbers of others. ``solver`` is "lbfgs" ("auto" is the same) or "block", ``n_components``
    a number, and a worker uses the threads that it has.

    Parameters
    ----------
    client : distributed.Client, default=None
        The cluster; None is the current client.
"""


def _documented(plain: type) -> Any:
    """A class decorator: the docstring of the ordinary estimator, with what is different here."""
    assert plain.__doc__ is not None
    body = plain.__doc__.partition("    Parameters\n    ----------\n")[2].partition("    References\n")[0]
    own = with_parameters(plain, client=None)

    def decorate(cls: type) -> type:
        cls.__doc__ = _SUMMARY.format(name=plain.__name__) + body.rstrip() + "\n    "
        return own(cls)

    return decorate


def client_of(estimator: Any) -> Client:
    """The estimator's client, or the current one."""
    client = estimator.client
    if client is None:
        try:
            client = default_client()
        except ValueError as problem:
            raise ValueError(
                "There is no Dask client. Make one first, for instance distributed.Client() for all processors of this "
                "machine, or pass client=."
            ) from problem
    if not isinstance(client, Client):
        raise TypeError(f"client is of type {type(client).__name__}; pass a distributed.Client.")
    if client.status == "closed":
        raise ValueError("The Dask client is closed.")
    if client.asynchronous:
        raise ValueError("The Dask client is asynchronous. Pass one made without asynchronous=True.")
    return client


class _OnDask(FittedInParts):
    client: Any
    _fitted: Any

    @property
    def client_(self) -> Client:
        """The client that is used."""
        return client_of(self)

    def _fit(self, X, y, sample_weight, X_val=None, y_val=None):
        self._validate_options()
        client = self.client_
        if is_collection(X_val) or is_collection(y_val):
            raise TypeError("X_val and y_val are rows in memory: pass what their compute() gives.")
        parts, names = chunks_of(X, y, sample_weight)
        engine = DaskEngine(client, parts, is_placed(X), getattr(self, "_patience", PATIENCE))
        try:
            return self._fit_parts(engine, names, X, y, X_val, y_val)
        finally:
            engine.close()

    @property
    def _dtype(self) -> Any:
        check_is_fitted(self)
        return self._fitted.targets[0].coef.dtype

    def _made(self, method: str, X: Any, dtype: Any, width: int | None = None) -> Any:
        """What the ordinary estimator's method makes of X: lazily of a collection, at once of rows in memory."""
        local = self.to_local()
        return predicted(local, method, X, dtype, width) if is_collection(X) else getattr(local, method)(X)

    def __getstate__(self):
        return {**super().__getstate__(), "client": None}  # type: ignore[misc]  # which belongs to this process

    def __sklearn_clone__(self):
        params = self.get_params(deep=False)  # type: ignore[attr-defined]
        del params["client"]
        return type(self)(**{name: clone(value, safe=False) for name, value in params.items()}, client=self.client)


class _Regressor(_OnDask):
    def predict(self, X):
        """Predict targets.

        Parameters
        ----------
        X : Dask array or DataFrame, or rows in memory
            Rows of the features that `fit` saw.

        Returns
        -------
        y : Dask array of shape (n_samples,)
            Not computed yet; of rows in memory, an ndarray.
        """
        return self._made("predict", X, self._dtype)


def _has_probabilities(estimator) -> bool:
    return states(estimator.loss, "probability")


class _Classifier(_OnDask):
    @property
    def _width(self) -> int:
        return len(self.classes_)

    def predict(self, X):
        """Predict class labels.

        Parameters
        ----------
        X : Dask array or DataFrame, or rows in memory
            Rows of the features that `fit` saw.

        Returns
        -------
        y : Dask array of shape (n_samples,)
            Not computed yet; of rows in memory, an ndarray.
        """
        check_is_fitted(self)
        return self._made("predict", X, self.classes_.dtype)

    def decision_function(self, X):
        """The model's values: positive for the second of two classes, largest for the predicted one of more.

        Parameters
        ----------
        X : Dask array or DataFrame, or rows in memory
            Rows of the features that `fit` saw.

        Returns
        -------
        f : Dask array of shape (n_samples,), or (n_samples, n_classes) with more than two classes
            Not computed yet; of rows in memory, an ndarray.
        """
        return self._made("decision_function", X, self._dtype, None if self._width == 2 else self._width)

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Class probabilities, where the loss has them, as the logistic one does.

        Parameters
        ----------
        X : Dask array or DataFrame, or rows in memory
            Rows of the features that `fit` saw.

        Returns
        -------
        p : Dask array of shape (n_samples, n_classes)
            Not computed yet; of rows in memory, an ndarray.
        """
        return self._made("predict_proba", X, self._dtype, self._width)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X):
        """Logarithms of the class probabilities, where the loss has them.

        Parameters
        ----------
        X : Dask array or DataFrame, or rows in memory
            Rows of the features that `fit` saw.

        Returns
        -------
        log_p : Dask array of shape (n_samples, n_classes)
            Not computed yet; of rows in memory, an ndarray.
        """
        return self._made("predict_log_proba", X, self._dtype, self._width)


@_documented(FactorizationMachineRegressor)
class DaskFactorizationMachineRegressor(_Regressor, FactorizationMachineRegressor):
    pass


@_documented(FactorizationMachineClassifier)
class DaskFactorizationMachineClassifier(_Classifier, FactorizationMachineClassifier):
    pass


@_documented(PolynomialNetworkRegressor)
class DaskPolynomialNetworkRegressor(_Regressor, PolynomialNetworkRegressor):
    pass


@_documented(PolynomialNetworkClassifier)
class DaskPolynomialNetworkClassifier(_Classifier, PolynomialNetworkClassifier):
    pass
