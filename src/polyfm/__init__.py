"""polyfm: factorization machines, polynomial networks, and the family between them."""

from polyfm import kernels, losses
from polyfm.estimators import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkClassifier,
    PolynomialNetworkRegressor,
)

__version__ = "0.1.0"

__all__ = [
    "FactorizationMachineClassifier",
    "FactorizationMachineRegressor",
    "PolynomialNetworkClassifier",
    "PolynomialNetworkRegressor",
    "kernels",
    "losses",
]
