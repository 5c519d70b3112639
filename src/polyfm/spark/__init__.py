"""The estimators on DataFrames of Spark, as Spark ML has estimators.

Needs ``pip install "polyfm[spark]"`` and Java 17 or later.
"""

from typing import TYPE_CHECKING, Any

from polyfm.files.tables import required

for _module in ("pyspark", "pyarrow"):
    required(_module, "spark", "polyfm.spark")

if TYPE_CHECKING:
    from polyfm.spark.estimators import (
        SparkFactorizationMachineClassifier,
        SparkFactorizationMachineClassifierModel,
        SparkFactorizationMachineRegressor,
        SparkFactorizationMachineRegressorModel,
        SparkPolynomialNetworkClassifier,
        SparkPolynomialNetworkClassifierModel,
        SparkPolynomialNetworkRegressor,
        SparkPolynomialNetworkRegressorModel,
    )

__all__ = [
    "SparkFactorizationMachineClassifier",
    "SparkFactorizationMachineClassifierModel",
    "SparkFactorizationMachineRegressor",
    "SparkFactorizationMachineRegressorModel",
    "SparkPolynomialNetworkClassifier",
    "SparkPolynomialNetworkClassifierModel",
    "SparkPolynomialNetworkRegressor",
    "SparkPolynomialNetworkRegressorModel",
]


def __getattr__(name: str) -> Any:
    """Import the estimators when they are first asked for: workers need less, and start sooner."""
    if name in __all__:
        from polyfm.spark import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'polyfm.spark' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
