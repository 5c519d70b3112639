"""The scikit-learn face: estimators validate and encode, and leave the numbers to `polyfm.training`."""

from polyfm.estimators.bayes import BayesianFactorizationMachineRegressor
from polyfm.estimators.bayes_classes import BayesianFactorizationMachineClassifier, BayesianFactorizationMachineOrdinal
from polyfm.estimators.bayes_networks import BayesianPolynomialNetworkClassifier, BayesianPolynomialNetworkRegressor
from polyfm.estimators.ordinal import FactorizationMachineOrdinal
from polyfm.estimators.plain import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkClassifier,
    PolynomialNetworkRegressor,
)
from polyfm.estimators.search import (
    FactorizationMachineClassifierCV,
    FactorizationMachineRegressorCV,
    PolynomialNetworkClassifierCV,
    PolynomialNetworkRegressorCV,
)

__all__ = [
    "BayesianFactorizationMachineClassifier",
    "BayesianFactorizationMachineOrdinal",
    "BayesianFactorizationMachineRegressor",
    "BayesianPolynomialNetworkClassifier",
    "BayesianPolynomialNetworkRegressor",
    "FactorizationMachineClassifier",
    "FactorizationMachineClassifierCV",
    "FactorizationMachineOrdinal",
    "FactorizationMachineRegressor",
    "FactorizationMachineRegressorCV",
    "PolynomialNetworkClassifier",
    "PolynomialNetworkClassifierCV",
    "PolynomialNetworkRegressor",
    "PolynomialNetworkRegressorCV",
]
