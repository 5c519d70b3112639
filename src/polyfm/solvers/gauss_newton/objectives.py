"""The objective as a function of one vector theta, with its quadratic model: over all rows, or a few that tell them."""

import itertools
import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, blas, lapack, qr, solve_triangular

from polyfm.core.design import Design
from polyfm.core.jacobian import Jacobian
from polyfm.core.model import Model
from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.core.spectrum import Curvature
from polyfm.loops.derivatives import slopes_and_curvatures
from polyfm.solvers.gauss_newton.quadratic import Factorised, Local, LowRank, Products

# H is formed where it has at most so many columns and costs less than the products that stand for it: n p^2 operations
# at the speed of a matrix product against 10 to 40 products (by measurement, sparse and dense X).
MOST_COLUMNS, OPERATIONS_WORTH_A_PRODUCT = 3000, 5000


class Diagonal(NamedTuple):
    """The penalties over theta: 1/2 sum strength (theta - mean)^2."""

    strengths: np.ndarray
    means: np.ndarray | None  # None: all are 0

    @classmethod
    def of(cls, problem: Problem, parameters: Parameters) -> "Diagonal":
        return cls(*problem.penalty.diagonal(parameters))

    def value(self, theta: np.ndarray) -> float:
        return 0.5 * float(self.strengths @ np.square(self._gaps(theta)))

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        return self.strengths * self._gaps(theta)

    def _gaps(self, theta: np.ndarray) -> np.ndarray:
        return theta if self.means is None else theta - self.means


class Bend:
    """sum_i slope_i times the second derivatives of f_i by direct bases of degree 2, lambda_s 2 A(g) for each basis s.

    At the optimum the penalties keep it positive; elsewhere a part of it is taken, so small that they do."""

    def __init__(self, problem: Problem, parameters: Parameters, X, strengths: np.ndarray):
        self.X, self.group, self.lams = X, problem.model.groups[0], parameters.lambdas[0].astype(np.float64)
        d, k = X.shape[1] + self.group.n_dummies, self.group.n_bases
        self.root = np.sqrt(strengths[: d * k : k])

    def __call__(self, slopes: np.ndarray) -> np.ndarray:
        A = 2 * Curvature(self.X, slopes, repeats=bool(self.group.form.repeats), n_dummies=self.group.n_dummies).dense()
        values = np.linalg.eigvalsh(A / np.outer(self.root, self.root))
        lowest = min(values[0] * self.lams.max(), values[-1] * self.lams.min())
        return np.kron(A, np.diag(self.lams / max(1.0, -lowest)))


class Rows:
    """The objective over all rows of X."""

    def __init__(self, problem: Problem, parameters: Parameters, n_threads: int = 1, exact: bool = False):
        self.problem, self.ridge = problem, Diagonal.of(problem, parameters)
        self.bend = Bend(problem, parameters, problem.design._X, self.ridge.strengths) if exact else None
        self.jacobian = Jacobian(problem.model, parameters, problem.design.rows, problem.response.shift, n_threads)

    def value(self, theta: np.ndarray) -> float:
        return self._value(self.jacobian.predict(theta), theta)

    def _value(self, f: np.ndarray, theta: np.ndarray) -> float:
        return self.problem.total_loss(f) + self.ridge.value(theta)

    def local(self, theta: np.ndarray) -> Local:
        n, p = self.jacobian.n_rows, self.jacobian.size
        if p > MOST_COLUMNS or p * p > OPERATIONS_WORTH_A_PRODUCT * self.jacobian.entries:
            f = self.jacobian.predict(theta)
            slopes, curvatures = slopes_and_curvatures(self.problem.response, f, 0)
            gradient = self.jacobian.backward(theta, slopes) + self.ridge.gradient(theta)
            return Products(self._value(f, theta), gradient, self.jacobian, theta, curvatures, self.ridge.strengths)
        f, g, gradient = np.empty(n), np.empty(n), self.ridge.gradient(theta)
        H = np.asfortranarray(np.diag(self.ridge.strengths))
        tile = min(max(2**19 // max(p, 1), 64), 1024)
        for lo in range(0, n, tile):
            hi = min(lo + tile, n)
            f[lo:hi], J = self.jacobian.tile(theta, lo, hi)
            slopes, curvatures = slopes_and_curvatures(self.problem.response, f[lo:hi], lo)
            g[lo:hi] = slopes
            gradient += slopes @ J
            J *= np.sqrt(curvatures)[:, None]
            H = blas.dsyrk(1.0, J.T, beta=1.0, c=H, lower=1, overwrite_c=1)
        return Factorised(self._value(f, theta), gradient, H, None if self.bend is None else self.bend(g))


class Reduced:
    """The same objective over a few rows of X that tell all the others: exact for the squared loss.

    Whatever the parameters, predictions are combinations of the monomials of the features that the model can form: they
    lie in a space of so many dimensions, with an orthonormal basis Q. Predictions f_Z at as many rows Z then give the
    coordinates Q_Z^-1 f_Z of f, and |f - y|^2 = |Q_Z^-1 f_Z - Q^T y|^2 + |y - Q Q^T y|^2. After one pass over the data
    a step costs the same for any number of samples. Rotating the basis makes Q_Z triangular.
    """

    def __init__(self, problem: Problem, parameters: Parameters, reduction: "Reduction", exact: bool = False):
        self.ridge = Diagonal.of(problem, parameters)
        X, self.R, self.target, self.constant = reduction
        self.bend = Bend(problem, parameters, X, self.ridge.strengths) if exact else None
        self.jacobian = Jacobian(problem.model, parameters, Design(X).rows)

    def value(self, theta: np.ndarray) -> float:
        residual = solve_triangular(self.R, self.jacobian.predict(theta), trans=1, check_finite=False) - self.target
        return self._value(residual, theta)

    def _value(self, residual: np.ndarray, theta: np.ndarray) -> float:
        return self.constant + 0.5 * float(residual @ residual) + self.ridge.value(theta)

    def local(self, theta: np.ndarray) -> Local:
        f, J = self.jacobian.tile(theta, 0, self.jacobian.n_rows)
        residual = solve_triangular(self.R, f, trans=1, check_finite=False) - self.target
        B = blas.dtrsm(1.0, self.R, J.T, side=1, overwrite_b=1).T
        gradient = residual @ B + self.ridge.gradient(theta)
        if B.shape[0] < B.shape[1] and self.bend is None:
            return LowRank(self._value(residual, theta), gradient, B, self.ridge.strengths)
        H = blas.dsyrk(1.0, B.T, lower=1)
        H[np.diag_indices_from(H)] += self.ridge.strengths
        g = solve_triangular(self.R, residual, check_finite=False)
        return Factorised(self._value(residual, theta), gradient, H, None if self.bend is None else self.bend(g))


class Reduction(NamedTuple):
    """What `Reduced` needs to know of the data: the rows Z, R = Q_Z^T, Q^T y and |y - Q Q^T y|^2 / 2."""

    X: np.ndarray
    R: np.ndarray
    target: np.ndarray
    constant: float

    @classmethod
    def of(cls, problem: Problem, monomials: list[tuple[int, ...]]) -> "Reduction":
        R, keep, target, rest = _orthogonalise(problem, monomials)
        chosen, Q_Z = _choose(problem, [monomials[k] for k in keep], R)
        rotation, R = qr(Q_Z.T, check_finite=False)
        if problem.response.weight is not None:
            R /= np.sqrt(problem.response.weight[chosen].astype(np.float64))
        return cls(_dense(problem.design, chosen), np.asfortranarray(R), rotation.T @ target, 0.5 * rest)


def monomials_of(model: Model, d: int, most: int) -> list[tuple[int, ...]] | None:
    """The products of features that predictions combine, as tuples of their numbers, or None if more than `most`."""
    kinds = [(False, 1)] * model.fit_linear + [(False, 0)] * model.fit_intercept
    for group in model.groups:
        powers = group.form.repeats
        if powers is None:
            return None
        # A dummy feature of the homogeneous kernel may be taken again and again; those of the ANOVA kernel once each.
        lowest = (0 if group.n_dummies else group.degree) if powers else max(group.degree - group.n_dummies, 0)
        kinds += [(powers, m) for m in range(lowest, group.degree + 1)]
    if max((math.comb(d + m - 1 if powers else d, m) for powers, m in kinds), default=0) > most:
        return None
    found: set[tuple[int, ...]] = set()
    for powers, m in kinds:
        found.update((itertools.combinations_with_replacement if powers else itertools.combinations)(range(d), m))
    return sorted(found, key=lambda features: (len(features), features)) if len(found) <= most else None


def _dense(design: Design, rows) -> np.ndarray:
    X = design._X[rows]
    return np.asarray(X.toarray() if design.is_sparse else X, dtype=np.float64)


def _tiles(problem: Problem, monomials: list[tuple[int, ...]]):
    """The values of the monomials, times sqrt(w), by tiles: the numbers of the rows, and a column for each."""
    n, d = problem.design.shape
    degree = max(map(len, monomials))
    table = np.array([[*features, *[d] * (degree - len(features))] for features in monomials], dtype=np.int64)
    size = max(1024, 4 * len(monomials))
    for lo in range(0, n, size):
        rows = np.arange(lo, min(lo + size, n))
        columns = np.vstack([_dense(problem.design, slice(lo, lo + size)).T, np.ones(len(rows))])
        values = np.ones((len(monomials), len(rows)))
        for factor in table.T:
            values *= columns[factor]
        if problem.response.weight is not None:
            values *= np.sqrt(problem.response.weight[rows].astype(np.float64))
        yield rows, values.T


def _orthogonalise(problem: Problem, monomials: list[tuple[int, ...]]):
    """R and the monomials `keep` such that Phi[:, keep] R^-1 = Q is an orthonormal basis; Q^T y; |y - Q Q^T y|^2."""
    M = len(monomials)
    R: np.ndarray = np.zeros((0, M + 1))
    for rows, values in _tiles(problem, monomials):
        y = problem.y[rows].astype(np.float64)
        if problem.response.weight is not None:
            y = y * np.sqrt(problem.response.weight[rows].astype(np.float64))
        R = np.asarray(np.linalg.qr(np.vstack([R, np.column_stack([values, y])]), mode="r"))
    with np.errstate(over="ignore"):
        norms = np.sqrt(np.sum(np.square(R[:, :M]), axis=0))
    if not np.all(np.isfinite(norms)):
        raise LinAlgError("The squares of monomials are too large.")
    norms[norms == 0] = 1.0
    q, r, order = qr(R[:, :M] / norms, pivoting=True, check_finite=False)
    # Features may be dependent, or equal to their own squares: then fewer monomials say the same.
    rank = int(np.sum(np.abs(r.diagonal()) > 1e-11 * abs(r[0, 0])))
    if rank == 0:
        raise LinAlgError("No monomial has a value other than zero.")
    keep = order[:rank]
    y = q.T @ R[:, M]
    return r[:rank, :rank] * norms[keep], keep, y[:rank], float(y[rank:] @ y[rank:])


def _choose(problem: Problem, monomials: list[tuple[int, ...]], R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows Z, as many as monomials, and Q_Z. Pivots of an elimination, tile by tile against the best so far, keep
    Q_Z far from singular, so that no digits are lost in Q_Z^-1."""
    chosen, Q_Z = np.zeros(0, dtype=np.int64), np.zeros((0, len(monomials)))
    for rows, values in _tiles(problem, monomials):
        Q = solve_triangular(R, values.T, trans=1, check_finite=False).T
        candidates, Q = np.concatenate([chosen, rows]), np.vstack([Q_Z, Q])
        order = np.arange(len(candidates))
        for k, pivot in enumerate(lapack.dgetrf(Q)[1]):
            order[[k, pivot]] = order[[pivot, k]]
        order = order[: len(monomials)]
        chosen, Q_Z = candidates[order], Q[order]
    return chosen, Q_Z
