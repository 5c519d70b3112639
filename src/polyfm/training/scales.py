"""Scales of penalties: the linear model alone, and the beta from which on interactions are not worth their price.

All of them follow a change of units in X or y.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from polyfm.core.baseline import best_constant
from polyfm.core.linear import Linear, fit_linear, has_ones_alone, response_of, slopes, squared_columns
from polyfm.core.model import Model
from polyfm.core.penalty import Ridge
from polyfm.core.row_order import ones
from polyfm.core.spectrum import beta_max
from polyfm.loops.response import Response
from polyfm.training.recipe import Recipe

TINY = np.finfo(np.float64).tiny
FEW_NONZEROS = 3e5


class Rows(NamedTuple):
    """Samples with the targets of one or several models."""

    X: Any
    targets: list[np.ndarray]
    weight: np.ndarray | None

    def take(self, rows: np.ndarray) -> "Rows":
        weight = None if self.weight is None else self.weight[rows]
        return Rows(_rows_of(self.X, rows), [y[rows] for y in self.targets], weight)

    @property
    def nnz(self) -> int:
        return self.X.nnz if hasattr(self.X, "nnz") else self.X.size

    @property
    def total(self) -> float:
        """The sum of the weights."""
        return float(self.X.shape[0] if self.weight is None else np.sum(self.weight, dtype=np.float64))

    def responses(self, loss) -> list[Response]:
        return [response_of(loss, y, self.weight) for y in self.targets]


def _rows_of(X, rows: np.ndarray):
    """X[rows]; where all values are 1, those of X are shared and not copied."""
    if not sp.issparse(X) or not has_ones_alone(X):
        return X[rows]
    taken = type(X)((ones(X.nnz), X.indices[: X.nnz], X.indptr), shape=X.shape)[rows]
    taken.data = X.data[: taken.nnz]  # a new matrix would copy what is a small part of another array
    return taken


def linear_models(
    model: Model, loss, data: Rows, alpha: float | Ridge, starts: list[Linear] | None = None, exact: bool = False
) -> list[Linear]:
    """The linear models of all targets, or the best constants where a model has no linear weights. Near starts save
    time, and make little difference else. `exact` ones of few data know no rounding: a weight of 2 is the row twice."""
    if not model.fit_linear:
        constants = [best_constant(response) if model.fit_intercept else 0.0 for response in data.responses(loss)]
        return [Linear(np.zeros(data.X.shape[1]), constant) for constant in constants]
    strength = _by_feature(alpha, data.X.shape[1])
    rtol = 1e-10 if exact and data.nnz < FEW_NONZEROS else 1e-3
    return [
        fit_linear(
            data.X, response, strength, model.fit_intercept, starts[t] if starts else None, rtol, of_constant=True
        )
        for t, response in enumerate(data.responses(loss))
    ]


def penalty_scales(recipe: Recipe, data: Rows, linear: list[Linear]) -> tuple[float, ...]:
    """For each group of bases the beta at the upper end of what matters: beta_max of degree 2; for degree m that times
    the (1 - 2/m)-th power of the size of the residuals, which makes it follow the units of y as well."""
    largest, size = 0.0, 0.0
    lowest = recipe.model.groups[-1]
    ones = isinstance(recipe.init_lambdas, str) and recipe.init_lambdas == "ones"
    for response, fit in zip(data.responses(recipe.loss), linear, strict=True):
        g, _ = slopes(response, fit.predict(data.X))
        squares = np.square(g) if data.weight is None else np.square(g) / np.maximum(data.weight, TINY)
        size = max(size, math.sqrt(float(squares.sum()) / data.total) / recipe.loss.curvature)
        found = beta_max(
            data.X, g, repeats=lowest.form.kernel == "homogeneous", n_dummies=min(lowest.n_dummies, 1),
            signed=lowest.form.lifted or recipe.fit_lambdas or not ones,
        )  # fmt: skip
        largest = max(largest, found)
    return tuple(largest * size ** (1 - 2 / group.degree) if size else 0.0 for group in recipe.model.groups)


def mean_curvature(model: Model, loss, data: Rows) -> float:
    """The mean over features and targets of the loss's second derivative by a linear weight, at the best constant."""
    total = 0.0
    for response in data.responses(loss):
        constant = best_constant(response) if model.fit_intercept else 0.0
        _, h = slopes(response, np.full(data.X.shape[0], constant))
        total += float(np.mean(squared_columns(data.X, h)))
    return total / len(data.targets)


def _by_feature(penalty: float | Ridge, n_features: int) -> np.ndarray:
    if not isinstance(penalty, Ridge):
        return np.full(n_features, float(penalty))
    return np.full(n_features, penalty.strength[0]) if penalty.of is None else penalty.strength[penalty.of]
