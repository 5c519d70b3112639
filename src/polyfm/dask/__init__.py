"""The same models on Dask: rows stay on the workers, and what comes back is the ordinary estimator.

>>> from polyfm.dask import DaskFactorizationMachineRegressor  # doctest: +SKIP
>>> model = DaskFactorizationMachineRegressor(n_components=16).fit(dX, dy)  # doctest: +SKIP
>>> model.to_local()  # the ordinary estimator  # doctest: +SKIP
"""

try:
    import dask.array
    import distributed
except ImportError as problem:
    raise ImportError("polyfm.dask needs Dask: pip install 'polyfm[dask]'") from problem

from polyfm.dask.encoder import DaskTableEncoder
from polyfm.dask.engine import NoWorkersError
from polyfm.dask.estimators import (
    DaskFactorizationMachineClassifier,
    DaskFactorizationMachineRegressor,
    DaskPolynomialNetworkClassifier,
    DaskPolynomialNetworkRegressor,
)

__all__ = [
    "DaskFactorizationMachineClassifier",
    "DaskFactorizationMachineRegressor",
    "DaskPolynomialNetworkClassifier",
    "DaskPolynomialNetworkRegressor",
    "DaskTableEncoder",
    "NoWorkersError",
]
del dask, distributed
