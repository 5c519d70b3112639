"""The linear model alone, <w, x> + w0: what interactions have to beat, and where their training can start."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from polyfm.core.baseline import best_constant
from polyfm.core.design import frozen
from polyfm.loops import rows
from polyfm.loops.derivatives import slopes_and_curvatures
from polyfm.loops.response import Response

NEWTON_STEPS = 30
CONJUGATE_STEPS = 100
HALVINGS = 30
TINY = np.finfo(np.float64).tiny
FLOOR = 1e-3  # of the loss's bound on its curvature: where it is flatter, a Newton step would go too far


class Linear(NamedTuple):
    coef: np.ndarray  # (features,), in double precision
    intercept: float

    def predict(self, X) -> np.ndarray:
        """Predictions; without a single weight, of any X."""
        return np.full(X.shape[0], self.intercept) + (X @ self.coef if self.coef.any() else 0.0)


def response_of(loss, y: np.ndarray, weight: np.ndarray | None) -> Response:
    """Targets and weights as loops take them; `Response` says why losses of the residual keep them apart."""
    y = frozen(y, y.dtype)
    weight = None if weight is None else frozen(weight, y.dtype)
    return Response(loss, None, weight, y) if getattr(loss, "residual", False) else Response(loss, y, weight, None)


def shifted(response: Response, f: np.ndarray) -> np.ndarray:
    return f if response.shift is None else f - response.shift


def total_loss(response: Response, f: np.ndarray) -> float:
    """sum_i w_i l(y_i, f_i)."""
    return float(rows.total_loss(response, shifted(response, f)))


def slopes(response: Response, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """w_i l'(y_i, f_i) and w_i l''(y_i, f_i), the latter above a floor."""
    loss, weight = response.loss, response.weight
    if response.shift is not None and getattr(loss, "quadratic", False):
        curvature = np.float64(loss.curvature)
        h = np.broadcast_to(curvature, f.shape) if weight is None else curvature * weight.astype(np.float64)
        g = f - response.shift
        g *= h
        return g, h
    g, h = slopes_and_curvatures(response, np.asarray(shifted(response, f), dtype=np.float64), 0)
    return g, np.maximum(h, FLOOR * loss.curvature * (1.0 if weight is None else weight))


def squared(X):
    """x_ij^2; of ones, X itself."""
    if sp.issparse(X) and has_ones_alone(X):
        return X
    if sp.issparse(X) and X.format in ("csr", "csc") and X.has_canonical_format:
        return type(X)((np.square(X.data), X.indices, X.indptr), shape=X.shape)
    return X.multiply(X) if hasattr(X, "multiply") else X * X


def has_ones_alone(X) -> bool:
    """Whether all non-zeros of a sparse matrix in canonical format are 1."""
    known = X.format in ("csr", "csc") and X.nnz > 0 and X.has_canonical_format
    return known and bool(X.data[: X.nnz].min() == 1 == X.data[: X.nnz].max())


def squared_columns(X, h: np.ndarray) -> np.ndarray:
    """sum_i h_i x_ij^2 for every feature."""
    return np.asarray(squared(X).T @ h)


@np.errstate(over="ignore", invalid="ignore")  # a step that is not finite is shortened to nothing
def fit_linear(
    X, response: Response, alpha: np.ndarray, fit_intercept: bool, start: Linear | None = None, rtol: float = 1e-3,
    beside: np.ndarray | None = None, of_constant: bool = False,
    products: Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray]] | None = None,
) -> Linear:  # fmt: skip
    """argmin over w, w0 of sum_i w_i l(y_i, f_i) + sum_j alpha_j w_j^2 / 2, by Newton's method.

    `beside` are predictions that come from elsewhere, and are added to those of the linear model.

    Steps are found by preconditioned conjugate gradients and shortened until they lower the objective; `rtol` is the
    part of the gradient at the start that may remain, or, with `of_constant`, of that at the best constant: then a
    start near the minimum saves steps. `products(h)`, where it is given, is a faster way to multiply with
    [X, 1]^T diag(h) [X, 1].
    """
    d = X.shape[1]
    theta = np.zeros(d + 1) if start is None else np.append(start.coef, start.intercept)
    if start is None and fit_intercept:
        theta[d] = best_constant(response)
    free = np.append(np.ones(d), float(fit_intercept))
    ridge = np.append(alpha, 0.0)

    def predict(v: np.ndarray) -> np.ndarray:
        f = X @ v[:d]
        f += v[d]
        return f

    def objective(v: np.ndarray, f: np.ndarray) -> float:
        return total_loss(response, f) + 0.5 * float((ridge * v) @ v)

    def gradient_at(v: np.ndarray, g: np.ndarray) -> np.ndarray:
        return free * (np.append(X.T @ g, g.sum()) + ridge * v)

    def products_with(h: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        if products is not None:
            times = products(h)
            return lambda v: free * (times(v) + ridge * v)

        def product(v: np.ndarray) -> np.ndarray:
            f = predict(v)
            f *= h
            return gradient_at(v, f)

        return product

    def inverse_of(h: np.ndarray) -> np.ndarray:
        """Of the diagonal of the second derivatives: with it gradients have a size that knows no units."""
        diagonal = np.append(np.asarray(squares.T @ h), h.sum()) + ridge
        normal = diagonal >= TINY  # the inverse of less would overflow
        return np.where(normal, free / np.where(normal, diagonal, 1), 0)

    f = predict(theta) if beside is None else predict(theta) + beside
    value, first, squares = objective(theta, f), None, squared(X)
    if of_constant and start is not None:
        constant = np.append(np.zeros(d), best_constant(response) if fit_intercept else 0.0)
        of_all = np.full(len(f), constant[d])
        g, h = slopes(response, of_all)
        first = _size(gradient_at(constant, g), inverse_of(h))
        lowest = objective(constant, of_all)
        if not value <= lowest:
            # Rows of one class alone lead to where the losses of the other are straight, and no step leads back.
            theta, f, value = constant, of_all, lowest
    exact = getattr(response.loss, "quadratic", False)
    for _ in range(1 if exact else NEWTON_STEPS):
        g, h = slopes(response, f)
        gradient, inverse = gradient_at(theta, g), inverse_of(h)
        del g
        size = _size(gradient, inverse)
        first = size if first is None else first
        if size <= rtol * first:
            break
        enough = rtol * first / size
        enough = enough if exact else min(max(enough, 0.1), 0.5)
        step = _conjugate_gradients(products_with(h), -gradient, inverse, enough)
        change, slope = predict(step), float(gradient @ step)
        length = 1.0
        for _ in range(HALVINGS):
            trial = theta + length * step
            moved = length * change
            moved += f
            lower = objective(trial, moved)
            if lower <= value + 1e-4 * length * slope:
                theta, f, value = trial, moved, lower
                break
            length *= 0.5
        else:
            break
    return Linear(theta[:d], float(theta[d]))


def _size(gradient: np.ndarray, inverse: np.ndarray) -> float:
    return float(np.sqrt(gradient @ (inverse * gradient)))


def _conjugate_gradients(product, b: np.ndarray, inverse: np.ndarray, rtol: float) -> np.ndarray:
    """An approximate solution v of product(v) = b, preconditioned by a diagonal."""
    v, r = np.zeros_like(b), b.copy()
    z = inverse * r
    p, rz = z.copy(), float(r @ z)
    enough = rtol * rtol * rz
    for _ in range(CONJUGATE_STEPS):
        if rz <= enough:
            break
        q = product(p)
        curvature = float(p @ q)
        if curvature <= 0:
            break
        step = rz / curvature
        v += step * p
        r -= step * q
        z = inverse * r
        rz, before = float(r @ z), rz
        p = z + (rz / before) * p
    return v
