"""polyfm: factorization machines, polynomial networks, and the family between them."""

from polyfm import kernels, losses
from polyfm.conversion import direct_to_lifted, lifted_to_direct
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
    "direct_to_lifted",
    "kernels",
    "lifted_to_direct",
    "losses",
]
