"""What estimators share whose rows are in parts, whatever the cluster."""

import inspect
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from polyfm.distributed.engine import Engine
from polyfm.distributed.recipe import DistributedRecipe, check_distributed
from polyfm.distributed.rows import RowsInParts
from polyfm.solvers.interrupts import deferred_interrupts


class FittedInParts:
    """To stand before an estimator among the bases of a class: `_fit_parts` takes the place of `_fit`."""

    _plain: type  # the ordinary estimator

    def _validate_options(self) -> None:
        super()._validate_options()  # type: ignore[misc]
        check_distributed(self)

    def _recipe(self, n_features: int) -> DistributedRecipe:
        plain = super()._recipe(n_features)  # type: ignore[misc]
        return replace(plain.of_kind(DistributedRecipe), may_take_steps=False)

    def _fit_parts(
        self, engine: Engine, names: list[str] | None = None, X: Any = None, y: Any = None, X_val: Any = None,
        y_val: Any = None,
    ) -> Any:  # fmt: skip
        """Fit to the rows that the engine has. `names` are those of the features; X and y are what callbacks get."""
        self._validate_options()
        with deferred_interrupts():
            data = RowsInParts(self, engine, X, y, None if names is None else len(names))
            self.n_features_in_ = data.shape[1]
            self.__dict__.pop("feature_names_in_", None)
            if names is not None and all(isinstance(name, str) for name in names):
                self.feature_names_in_ = np.array(names, dtype=object)
            if data.classes is not None:
                self.classes_ = data.classes
            data.validation = self._validation(SimpleNamespace(dtype=data.dtype), X_val, y_val)  # type: ignore[attr-defined]
            self._train(data)  # type: ignore[attr-defined]
        if not is_classifier(self):
            self.target_range_ = data.target_range
        return self

    def to_local(self) -> Any:
        """The ordinary estimator, fitted: for `save_model`, `interactions`, and rows in memory.

        Returns
        -------
        estimator : object
            Of the class that this one is named after.
        """
        check_is_fitted(self)
        known = inspect.signature(self._plain).parameters
        local = self._plain(**{name: value for name, value in self.get_params(deep=False).items() if name in known})  # type: ignore[attr-defined]
        params = set(self.get_params(deep=False))  # type: ignore[attr-defined]
        local.__dict__.update({name: value for name, value in vars(self).items() if name not in params})
        return local


def with_parameters(plain: type, **more: Any) -> Any:
    """A constructor with the parameters of an estimator and some more, and their defaults: a class decorator. What
    scikit-learn reads is the signature."""
    own = inspect.signature(plain).parameters.values()
    added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value) for name, value in more.items()]

    def decorate(cls: type) -> type:
        def __init__(self, **given: Any) -> None:  # noqa: N807
            for name, default in more.items():
                setattr(self, name, given.pop(name, default))
            plain.__init__(self, **given)  # type: ignore[misc]

        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        __init__.__signature__ = inspect.Signature([first, *own, *added])  # type: ignore[attr-defined]
        cls.__init__ = __init__  # type: ignore[misc]
        cls._plain = plain  # type: ignore[attr-defined]
        return cls

    return decorate
