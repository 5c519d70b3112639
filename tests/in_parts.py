"""Estimators on rows that are cut into parts, all in this process."""

import itertools
import pickle

import numpy as np
import scipy.sparse as sp

from polyfm import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkRegressor,
)
from polyfm.distributed.chunk import Chunk
from polyfm.distributed.engine import InProcess
from polyfm.distributed.estimator import FittedInParts, with_parameters


def by_pickle(value):
    return pickle.loads(pickle.dumps(value, 5))


def chunks_of(X, y, weight=None, cuts=()):
    bounds = itertools.pairwise([0, *cuts, X.shape[0]])
    return [
        Chunk(i, X[lo:hi], y[lo:hi], None if weight is None else weight[lo:hi]) for i, (lo, hi) in enumerate(bounds)
    ]


class _InParts(FittedInParts):
    def _fit(self, X, y, sample_weight, X_val=None, y_val=None):
        self.engine_ = InProcess(chunks_of(X, y, sample_weight, self.cuts), self.n_workers, self.sent)
        return self._fit_parts(self.engine_, X_val=X_val, y_val=y_val)


MORE = {"cuts": (), "n_workers": 1, "sent": by_pickle}


@with_parameters(FactorizationMachineRegressor, **MORE)
class FMRegressor(_InParts, FactorizationMachineRegressor):
    pass


@with_parameters(FactorizationMachineClassifier, **MORE)
class FMClassifier(_InParts, FactorizationMachineClassifier):
    pass


@with_parameters(PolynomialNetworkRegressor, **MORE)
class PNRegressor(_InParts, PolynomialNetworkRegressor):
    pass


def ratings(n=1500, sizes=(30, 20, 4), seed=0):
    """Rows of one-hot fields, and what a product of traits makes of the first two."""
    rng = np.random.RandomState(seed)
    first = np.cumsum([0, *sizes])[:-1]
    columns = np.column_stack([start + rng.randint(size, size=n) for start, size in zip(first, sizes, strict=True)])
    shape = n, sum(sizes)
    X = sp.csr_matrix((np.ones(columns.size), (np.repeat(np.arange(n), len(sizes)), columns.ravel())), shape=shape)
    traits = rng.standard_normal((shape[1], 3))
    return X, (traits[columns[:, 0]] * traits[columns[:, 1]]).sum(axis=1) + 0.1 * rng.standard_normal(n)
