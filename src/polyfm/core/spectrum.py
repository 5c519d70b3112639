"""What a new basis could gain: the curvature of the loss along interactions of degree 2, and the penalty to match it.

With g_i = w_i l'(y_i, f_i), a new basis p changes the objective by <p, A p> + beta |p|^2 to second order, where

    A = X^T diag(g) X  (homogeneous),     A = (X^T diag(g) X - diag(sum_i g_i x_ij^2)) / 2  (ANOVA)

so that p = 0 is optimal exactly if beta is at least -lambda_min(A), or the largest |lambda| where bases of both signs
are allowed. At the linear model alone that is beta_max: above it, the best model has no interactions at all. The
problem in the tensor is convex, hence the optimum is global.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from polyfm.core.lanczos import lanczos
from polyfm.core.linear import squared_columns

FEW_FEATURES = 64  # whose matrix is formed and decomposed as a whole
TOLERANCE = 1e-2
MOST_PRODUCTS = 300
MOST_IN_A_ROW = 4  # non-zeros: the products of such rows are fewer than what it takes to go through the rows
ROWS_AT_ONCE = 8192


class Extreme(NamedTuple):
    """How far A reaches beyond zero, in the directions in which bases of some signs would gain."""

    value: float
    error: float  # by which it may be too small; 0 where it is exact
    n_products: int


class Curvature:
    """The matrix A for given slopes g, by its products. `n_dummies` columns of ones follow those of X.

    With `root` it is diag(root)^-1 A diag(root)^-1: penalties by feature are features of other sizes. `by_pairs` of
    features, where rows are short, products are faster, and take memory.
    """

    def __init__(
        self, X, g: np.ndarray, *, repeats: bool, n_dummies: int = 0, root: np.ndarray | None = None,
        by_pairs: bool = False,
    ):  # fmt: skip
        self.X, self.g, self.n_dummies, self.root = X, g, n_dummies, root
        self.size = X.shape[1] + n_dummies
        self.total = float(g.sum())
        self.sums = np.ravel(X.T @ g) if n_dummies else None
        self.half = 1.0 if repeats else 0.5
        self.pairs = _pairs(X, g) if by_pairs else None
        # What is left to add to the diagonal: pairs have none; products with X have one, which the ANOVA kernel lacks.
        self.diagonal = np.zeros(self.size)
        if (self.pairs is None) != repeats:
            self.diagonal[: X.shape[1]] = squared_columns(X, g) * (1.0 if repeats else -1.0)
        if not repeats:
            self.diagonal[X.shape[1] :] = -self.total

    def __call__(self, v: np.ndarray) -> np.ndarray:
        v = np.ravel(v)
        v = v if self.root is None else v / self.root
        d = self.X.shape[1]
        of_features = v[:d]
        if self.pairs is None:
            out = np.ravel(self.X.T @ (self.g * (self.X @ of_features)))
        else:
            out = self.pairs @ of_features + self.pairs.T @ of_features
        if self.sums is not None:
            of_dummies = float(v[d:].sum())
            out = np.append(out + of_dummies * self.sums, np.full(self.n_dummies, self.sums @ of_features))
            out[d:] += of_dummies * self.total
        out = out + self.diagonal * v
        out *= self.half
        return out if self.root is None else out / self.root

    def dense(self) -> np.ndarray:
        """The matrix itself, for few features."""
        d = self.X.shape[1]
        out = np.full((self.size, self.size), self.total)
        if self.pairs is not None:
            upper = self.pairs.toarray()
            out[:d, :d] = upper + upper.T
        else:
            out[:d, :d] = 0.0
            for lo in range(0, self.X.shape[0], ROWS_AT_ONCE):
                rows, g = self.X[lo : lo + ROWS_AT_ONCE], self.g[lo : lo + ROWS_AT_ONCE, None]
                part = rows.T @ (rows.multiply(g).tocsr() if sp.issparse(rows) else g * rows)
                out[:d, :d] += part.toarray() if sp.issparse(part) else part
        if self.sums is not None:
            out[:d, d:] = self.sums[:, None]
            out[d:, :d] = self.sums
        out[np.diag_indices(self.size)] += self.diagonal
        out *= self.half
        return out if self.root is None else out / np.outer(self.root, self.root)

    def extreme(self, signs: tuple[int, ...], *, few: int, tol: float, seed: int = 0) -> Extreme:
        """How far A reaches: exactly for at most `few` features, else to a part `tol` of its largest eigenvalue."""
        if self.size <= few:
            values = np.linalg.eigvalsh(self.dense())
            return Extreme(reach(values[0], values[-1], signs), 0.0, self.size)
        ends = lanczos(self, self.size, signs, tol=tol, seed=seed)
        return Extreme(reach(ends.lowest, ends.highest, signs), tol * ends.size, ends.n_products)


def reach(lowest: float, highest: float, signs: tuple[int, ...]) -> float:
    """max(-lowest, 0) for bases of positive lambda, max(highest, 0) for those of negative, the larger for both."""
    return float(max(0.0, -lowest if 1 in signs else 0.0, highest if -1 in signs else 0.0))


def _pairs(X, g: np.ndarray):
    """The part of X^T diag(g) X above its diagonal, where every row has the same few non-zeros, such as one-hot fields
    have: then a product takes as long as one with X alone, or less."""
    (n, d), nnz = X.shape, X.nnz if sp.issparse(X) else 0
    if not nnz or X.format != "csr" or nnz % n or d > nnz:
        return None
    length = nnz // n
    if not 2 <= length <= MOST_IN_A_ROW or np.any(np.diff(X.indptr) != length):
        return None
    columns, data = X.indices[:nnz].reshape(-1, length), X.data[:nnz].reshape(-1, length)
    upper = None
    for a in range(length):
        for b in range(a + 1, length):
            part = sp.csr_array((g * data[:, a] * data[:, b], (columns[:, a], columns[:, b])), shape=(d, d))
            upper = part if upper is None else upper + part
    return upper


def beta_max(X, g: np.ndarray, *, repeats: bool, n_dummies: int, signed: bool, seed: int = 0) -> float:
    """The beta from which on interactions of degree 2 are zero; `repeats`: of a feature with itself too.

    At most a hundredth too small where there are many features.
    """
    signs = (1, -1) if signed else (1,)
    A = Curvature(X, g, repeats=repeats, n_dummies=n_dummies)
    if A.size <= FEW_FEATURES:
        return A.extreme(signs, few=FEW_FEATURES, tol=TOLERANCE).value
    operator = LinearOperator((A.size, A.size), matvec=A, dtype=np.float64)
    try:
        values = eigsh(
            operator, k=1, which="LM" if signed else "SA", tol=TOLERANCE,
            v0=np.random.RandomState(seed).standard_normal(A.size), maxiter=MOST_PRODUCTS, return_eigenvectors=False,
        )  # fmt: skip
    except ArpackNoConvergence as stopped:
        values = stopped.eigenvalues
        if not len(values):  # a bound that is never too small
            columns = np.append(squared_columns(X, np.abs(g)), np.full(n_dummies, np.abs(g).sum()))
            return float(columns.sum()) * (1.0 if repeats else 0.5)
    return reach(values.min(), values.max(), signs)
