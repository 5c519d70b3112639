"""polyfm: factorization machines, polynomial networks, and the family between them."""

from polyfm import display, kernels, losses
from polyfm.conversion import direct_to_lifted, lifted_to_direct
from polyfm.estimators import (
    FactorizationMachineClassifier,
    FactorizationMachineClassifierCV,
    FactorizationMachineRegressor,
    FactorizationMachineRegressorCV,
    PolynomialNetworkClassifier,
    PolynomialNetworkClassifierCV,
    PolynomialNetworkRegressor,
    PolynomialNetworkRegressorCV,
)
from polyfm.interpretation import explain, interactions
from polyfm.modelfile import load_model, model_info, save_model
from polyfm.tabular import TableEncoder

__version__ = "0.1.0"

__all__ = [
    "FactorizationMachineClassifier",
    "FactorizationMachineClassifierCV",
    "FactorizationMachineRegressor",
    "FactorizationMachineRegressorCV",
    "PolynomialNetworkClassifier",
    "PolynomialNetworkClassifierCV",
    "PolynomialNetworkRegressor",
    "PolynomialNetworkRegressorCV",
    "TableEncoder",
    "direct_to_lifted",
    "display",
    "explain",
    "interactions",
    "kernels",
    "lifted_to_direct",
    "load_model",
    "losses",
    "model_info",
    "save_model",
]
