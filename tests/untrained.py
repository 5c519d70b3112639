"""Fitted estimators with random parameters: as good as trained ones for files, and nothing needs to be compiled."""

import numpy as np

from polyfm.core.fitted import Fitted
from polyfm.core.parameters import Parameters
from polyfm.estimators.validation import check_lambdas


def untrained(estimator, n_features=5, classes=None, dtype=np.float64, seed=0):
    """`estimator` as after `fit`, with every attribute that `fit` sets."""
    rng = np.random.RandomState(seed)
    model = estimator._model()
    estimator.n_features_in_ = n_features
    n_targets = 1
    if classes is not None:
        estimator.classes_ = np.unique(classes)
        n_targets = 1 if len(estimator.classes_) == 2 else len(estimator.classes_)
    given = check_lambdas(estimator.init_lambdas, model)
    n_bases = sum(group.n_bases for group in model.groups)
    lams = np.ones(n_bases) if isinstance(given, str) else given
    cuts = np.cumsum([group.n_bases for group in model.groups])[:-1]
    parameters = [
        Parameters(
            tuple(rng.standard_normal(group.shape(n_features)) for group in model.groups),
            tuple(np.split(lams, cuts)),
            rng.standard_normal(n_features) if model.fit_linear else np.zeros(n_features),
            rng.standard_normal(1) if model.fit_intercept else np.zeros(1),
        ).copy(dtype)
        for _ in range(n_targets)
    ]
    estimator._set_fitted(Fitted(model, parameters))
    estimator.history_ = np.array([3.0, 2.0, 1.5])
    estimator.objective_ = 1.5
    estimator.n_iter_ = 3
    estimator.solver_ = "cd"
    return estimator
