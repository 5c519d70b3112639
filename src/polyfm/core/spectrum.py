"""The largest penalty that matters: above beta_max, the best model of degree 2 has no interactions at all.

With g_i = w_i l'(y_i, f_i) at the linear model alone, a new basis p changes the objective by <p, A p> + beta |p|^2 to
second order, where

    A = X^T diag(g) X  (homogeneous),     A = (X^T diag(g) X - diag(sum_i g_i x_ij^2)) / 2  (ANOVA)

so that p = 0 is optimal exactly if beta is at least -lambda_min(A), or the largest |lambda| where bases of both signs
are allowed. The problem in the tensor is convex, hence the optimum is global.
"""

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from polyfm.core.linear import squared_columns

FEW_FEATURES = 64  # whose matrix is formed and decomposed as a whole
TOLERANCE = 1e-2
MOST_PRODUCTS = 300


def beta_max(X, g: np.ndarray, *, repeats: bool, n_dummies: int, signed: bool, seed: int = 0) -> float:
    """The beta from which on interactions of degree 2 are zero; `repeats`: of a feature with itself too.

    `n_dummies` columns of ones follow those of X. At most a hundredth too small where there are many features.
    """
    d = X.shape[1]
    total = float(g.sum())
    correction = None
    if not repeats:
        correction = np.append(squared_columns(X, g), np.full(n_dummies, total))

    def product(v: np.ndarray) -> np.ndarray:
        v = np.ravel(v)
        u = g * (X @ v[:d] + v[d:].sum())
        out = np.append(np.ravel(X.T @ u), np.full(n_dummies, u.sum()))
        return out if correction is None else 0.5 * (out - correction * v)

    size = d + n_dummies
    if size <= FEW_FEATURES:
        values = np.linalg.eigvalsh(np.column_stack([product(e) for e in np.eye(size)]))
        return _largest(values, signed)
    rng = np.random.RandomState(seed)
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    try:
        values = eigsh(
            operator, k=1, which="LM" if signed else "SA", tol=TOLERANCE, v0=rng.standard_normal(size),
            maxiter=MOST_PRODUCTS, return_eigenvectors=False,
        )  # fmt: skip
    except ArpackNoConvergence as stopped:
        values = stopped.eigenvalues
        if not len(values):  # a bound that is never too small
            columns = np.sqrt(np.append(squared_columns(X, np.abs(g)), np.full(n_dummies, np.abs(g).sum())))
            return float(np.square(columns).sum()) * (1.0 if repeats else 0.5)
    return _largest(values, signed)


def _largest(values: np.ndarray, signed: bool) -> float:
    return float(max(np.abs(values).max(), 0.0) if signed else max(-values.min(), 0.0))
