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
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

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


class Pairs:
    """Which pairs of features occur in rows, where every row has the same few non-zeros, such as one-hot fields have:
    then a product with X^T diag(g) X takes as long as one with X alone, or less."""

    def __init__(self, X, length: int):
        (n, self.d), nnz = X.shape, X.nnz
        columns, values = X.indices[:nnz].reshape(-1, length), X.data[:nnz].reshape(-1, length)
        self.parts = []  # for each two places of a row: the rows by the first feature, and where they go
        for a in range(length - 1):
            # By way of another format, which is to sort by counting.
            at = sp.csr_array((np.ones(n, np.int8), columns[:, a], np.arange(n + 1)), shape=(n, self.d)).tocsc()
            order = at.indices
            for b in range(a + 1, length):
                self.parts.append((order, values[order, a] * values[order, b], columns[order, b], at.indptr))

    @classmethod
    def of(cls, X) -> "Pairs | None":
        """None where rows are longer, or differ."""
        n, nnz = X.shape[0], X.nnz if sp.issparse(X) else 0
        if not nnz or X.format != "csr" or nnz % n or X.shape[1] > nnz or not 2 <= nnz // n <= MOST_IN_A_ROW:
            return None
        return cls(X, nnz // n) if np.all(np.diff(X.indptr) == nnz // n) else None

    def above_diagonal(self, g: np.ndarray):
        """Of X^T diag(g) X, as a sum of matrices."""
        shape = self.d, self.d
        return [sp.csr_array((g[order] * c, at, indptr), shape=shape) for order, c, at, indptr in self.parts]


class Curvature:
    """The matrix A for given slopes g, by its products. `n_dummies` columns of ones follow those of X.

    With `root` it is diag(root)^-1 A diag(root)^-1: penalties by feature are features of other sizes. By `pairs`
    of features, where rows are short, products are faster.
    """

    def __init__(
        self, X, g: np.ndarray, *, repeats: bool, n_dummies: int = 0, root: np.ndarray | None = None,
        pairs: Pairs | None = None,
    ):  # fmt: skip
        self.X, self.g, self.n_dummies, self.root = X, g, n_dummies, root
        self.size = X.shape[1] + n_dummies
        self.total = float(g.sum())
        self.sums = np.ravel(X.T @ g) if n_dummies else None
        self.half = 1.0 if repeats else 0.5
        self.pairs = None if pairs is None else pairs.above_diagonal(g)
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
        out = self._product(of_features)
        if self.sums is not None:
            of_dummies = float(v[d:].sum())
            out = np.append(out + of_dummies * self.sums, np.full(self.n_dummies, self.sums @ of_features))
            out[d:] += of_dummies * self.total
        out = out + self.diagonal * v
        out *= self.half
        return out if self.root is None else out / self.root

    def _product(self, v: np.ndarray) -> np.ndarray:
        """X^T diag(g) X v, without its diagonal where there are pairs."""
        if self.pairs is None:
            return np.ravel(self.X.T @ (self.g * (self.X @ v)))
        return sum(part @ v + part.T @ v for part in self.pairs)

    def dense(self) -> np.ndarray:
        """The matrix itself, for few features."""
        d = self.X.shape[1]
        out = np.full((self.size, self.size), self.total)
        if self.pairs is not None:
            upper = sum(part.toarray() for part in self.pairs)
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

    def bound(self) -> float:
        """That no eigenvalue is beyond, in absolute terms."""
        size = np.abs(self.g)
        return self.half * float(squared_columns(self.X, size).sum() + self.n_dummies * size.sum())

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


def beta_max(X, g: np.ndarray, *, repeats: bool, n_dummies: int, signed: bool, seed: int = 0) -> float:
    """The beta from which on interactions of degree 2 are zero; `repeats`: of a feature with itself too.

    At most a hundredth too small where there are many features.
    """
    return lowest_beta(Curvature(X, g, repeats=repeats, n_dummies=n_dummies), signed=signed, seed=seed)


def lowest_beta(A: Curvature, *, signed: bool, seed: int = 0) -> float:
    """The same, of a matrix."""
    signs = (1, -1) if signed else (1,)
    if A.size <= FEW_FEATURES:
        return A.extreme(signs, few=FEW_FEATURES, tol=TOLERANCE).value
    operator = LinearOperator((A.size, A.size), matvec=A, dtype=np.float64)
    try:
        values = eigsh(
            operator, k=1, which="LM" if signed else "SA", tol=TOLERANCE,
            v0=np.random.RandomState(seed).standard_normal(A.size), maxiter=MOST_PRODUCTS, return_eigenvectors=False,
        )  # fmt: skip
    except ArpackError as stopped:  # no convergence, or nothing but zeros
        values = getattr(stopped, "eigenvalues", ())
        if not len(values):
            return A.bound()
    return reach(values.min(), values.max(), signs)
