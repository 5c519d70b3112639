"""polyfm: factorization machines, polynomial networks, and the family between them."""

from importlib import import_module

TYPE_CHECKING = False  # type checkers know better; to import `typing` takes time in which Ctrl-C is Python's own
if TYPE_CHECKING:
    from polyfm import display, kernels, losses
    from polyfm.certificate import Certificate, certify
    from polyfm.conversion import direct_to_lifted, lifted_to_direct
    from polyfm.diagnosis import Diagnosis, diagnose
    from polyfm.estimators import (
        BayesianFactorizationMachineClassifier,
        BayesianFactorizationMachineOrdinal,
        BayesianFactorizationMachineRegressor,
        BayesianPolynomialNetworkClassifier,
        BayesianPolynomialNetworkRegressor,
        FactorizationMachineClassifier,
        FactorizationMachineClassifierCV,
        FactorizationMachineOrdinal,
        FactorizationMachineRegressor,
        FactorizationMachineRegressorCV,
        PolynomialNetworkClassifier,
        PolynomialNetworkClassifierCV,
        PolynomialNetworkRegressor,
        PolynomialNetworkRegressorCV,
    )
    from polyfm.interpretation import explain, interactions
    from polyfm.modelfile import load_model, model_info, save_model
    from polyfm.reporting import report
    from polyfm.tabular import TableEncoder
    from polyfm.warming import Warmed, warm_up

__version__ = "0.2.0"

__all__ = [
    "BayesianFactorizationMachineClassifier",
    "BayesianFactorizationMachineOrdinal",
    "BayesianFactorizationMachineRegressor",
    "BayesianPolynomialNetworkClassifier",
    "BayesianPolynomialNetworkRegressor",
    "Certificate",
    "Diagnosis",
    "FactorizationMachineClassifier",
    "FactorizationMachineClassifierCV",
    "FactorizationMachineOrdinal",
    "FactorizationMachineRegressor",
    "FactorizationMachineRegressorCV",
    "PolynomialNetworkClassifier",
    "PolynomialNetworkClassifierCV",
    "PolynomialNetworkRegressor",
    "PolynomialNetworkRegressorCV",
    "TableEncoder",
    "Warmed",
    "certify",
    "diagnose",
    "direct_to_lifted",
    "display",
    "explain",
    "interactions",
    "kernels",
    "lifted_to_direct",
    "load_model",
    "losses",
    "model_info",
    "report",
    "save_model",
    "warm_up",
]

_MODULES = {"display", "kernels", "losses"}
_HOMES = (
    "estimators",
    "conversion",
    "interpretation",
    "certificate",
    "diagnosis",
    "modelfile",
    "tabular",
    "reporting",
    "warming",
)  # of the other names


if not TYPE_CHECKING:  # a type checker would believe in every name

    def __getattr__(name: str) -> object:
        """Import a public name when it is first asked for: the command line has to be ready for Ctrl-C before that."""
        if name in _MODULES or name in _HOMES:
            return import_module(f"polyfm.{name}")
        if name in __all__:
            for home in map(import_module, (f"polyfm.{home}" for home in _HOMES)):
                if hasattr(home, name):
                    globals()[name] = getattr(home, name)
                    return globals()[name]
        raise AttributeError(f"module 'polyfm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
