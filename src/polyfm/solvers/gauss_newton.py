"""Damped Gauss-Newton (Levenberg-Marquardt) on all smooth parameters, for problems with few of them.

Letters: theta all parameters in one vector, J the Jacobian of the predictions, H = J^T diag(w l'') J + penalties the
Gauss-Newton matrix, g the gradient. A step solves (H + mu diag(H)) s = -g; mu falls where the quadratic model foretells
the decrease well and rises where it does not. Only steps that lower the objective are taken.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, blas, cho_factor, cho_solve, lapack, qr, solve_triangular
from threadpoolctl import threadpool_limits

from polyfm import _curvature
from polyfm._curvature import Jacobian
from polyfm.design import Design
from polyfm.losses import Squared
from polyfm.model import Model, Parameters
from polyfm.problem import Problem
from polyfm.solvers.base import Monitor
from polyfm.solvers.coordinate_descent import descend_lambdas
from polyfm.solvers.lbfgs import _packed, _unpacked

# H is formed where it has at most DENSE columns and costs less than the products that stand for it: n p^2 operations at
# the speed of a matrix product against 10 to 40 products (by measurement, sparse and dense X).
DENSE, WORTH = 3000, 5000
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 0.1, 1e-10, 1e12
CG_STEPS, CG_TOLERANCE = 100, 0.1


class Local(Protocol):
    """The quadratic model of the objective around theta."""

    value: float
    gradient: np.ndarray
    diagonal: np.ndarray  # of H

    def step(self, damping: float) -> np.ndarray:
        """s, where (H + damping diag(H)) s = -g."""
        ...


@dataclass
class Factorised:
    """H itself, for a Cholesky factorisation."""

    value: float
    gradient: np.ndarray
    H: np.ndarray  # its lower half

    def __post_init__(self):
        self.diagonal = _positive(self.H.diagonal())

    def step(self, damping: float) -> np.ndarray:
        A = self.H.copy(order="F")
        A[np.diag_indices_from(A)] += damping * self.diagonal
        return -cho_solve(cho_factor(A, lower=True, overwrite_a=True, check_finite=False), self.gradient)


@dataclass
class LowRank:
    """H = B^T B + penalties with fewer rows in B than parameters: by Woodbury a system of the size of the rows."""

    value: float
    gradient: np.ndarray
    B: np.ndarray
    penalties: np.ndarray

    def __post_init__(self):
        self.diagonal = _positive(np.einsum("ij,ij->j", self.B, self.B) + self.penalties)

    def step(self, damping: float) -> np.ndarray:
        E = self.penalties + damping * self.diagonal
        K = blas.dsyrk(1.0, (self.B / np.sqrt(E)).T, trans=1, lower=1)
        K[np.diag_indices_from(K)] += 1.0
        v = self.gradient / E
        inner = cho_solve(cho_factor(K, lower=True, overwrite_a=True, check_finite=False), self.B @ v)
        return (inner @ self.B) / E - v


@dataclass
class Products:
    """H through its products, for conjugate gradients with the diagonal as preconditioner."""

    value: float
    gradient: np.ndarray
    jacobian: Jacobian
    theta: np.ndarray
    bends: np.ndarray
    penalties: np.ndarray

    def __post_init__(self):
        self.diagonal = _positive(self.jacobian.squares(self.theta, self.bends) + self.penalties)

    def times(self, v: np.ndarray) -> np.ndarray:
        u = self.bends * self.jacobian.forward(self.theta, v)
        return self.jacobian.backward(self.theta, u) + self.penalties * v

    def step(self, damping: float) -> np.ndarray:
        s, residual = np.zeros_like(self.gradient), -self.gradient
        z = residual / self.diagonal
        direction, size = z, residual @ z
        target = CG_TOLERANCE**2 * size
        for _ in range(CG_STEPS):
            image = self.times(direction) + damping * self.diagonal * direction
            length = size / (direction @ image)
            s = s + length * direction
            residual = residual - length * image
            z = residual / self.diagonal
            before, size = size, residual @ z
            if size <= target:
                break
            direction = z + (size / before) * direction
        return s


def _positive(diagonal: np.ndarray) -> np.ndarray:
    """A diagonal to divide by, where some parameters do nothing and cost nothing."""
    return np.maximum(diagonal, max(1e-14 * float(diagonal.max(initial=0.0)), 1e-290))


class Rows:
    """The objective over all rows of X."""

    def __init__(self, problem: Problem, parameters: Parameters, n_threads: int = 1):
        self.problem, self.penalties = problem, _penalties(problem, parameters)
        self.jacobian = Jacobian(problem.model, parameters, problem.design.rows, problem.offset, n_threads)

    def value(self, theta: np.ndarray) -> float:
        return self._value(self.jacobian.predict(theta), theta)

    def _value(self, f: np.ndarray, theta: np.ndarray) -> float:
        return self.problem.total_loss(f) + 0.5 * float(self.penalties @ np.square(theta))

    def local(self, theta: np.ndarray) -> Local:
        n, p = self.jacobian.n_rows, self.jacobian.size
        if p > DENSE or p * p > WORTH * self.jacobian.entries:
            f = self.jacobian.predict(theta)
            slopes, bends = self._slopes_and_bends(f, 0, n)
            gradient = self.jacobian.backward(theta, slopes) + self.penalties * theta
            return Products(self._value(f, theta), gradient, self.jacobian, theta, bends, self.penalties)
        f, gradient = np.empty(n), self.penalties * theta
        H = np.asfortranarray(np.diag(self.penalties))
        tile = min(max(2**19 // max(p, 1), 64), 1024)
        for lo in range(0, n, tile):
            hi = min(lo + tile, n)
            f[lo:hi], J = self.jacobian.tile(theta, lo, hi)
            slopes, bends = self._slopes_and_bends(f[lo:hi], lo, hi)
            gradient += slopes @ J
            J *= np.sqrt(bends)[:, None]
            H = blas.dsyrk(1.0, J.T, beta=1.0, c=H, lower=1, overwrite_c=1)
        return Factorised(self._value(f, theta), gradient, H)

    def _slopes_and_bends(self, f: np.ndarray, lo: int, hi: int) -> tuple[np.ndarray, np.ndarray]:
        y, weight = (None if a is None else a[lo:hi] for a in (self.problem.target, self.problem.weight))
        return _curvature.slopes_and_bends(self.problem.loss, y, weight, f)


class Reduced:
    """The same objective over a few rows of X that tell all the others: exact for the squared loss.

    Whatever the parameters, predictions are combinations of the monomials of the features that the model can form: they
    lie in a space of so many dimensions, with an orthonormal basis Q. Predictions f_Z at as many rows Z then give the
    coordinates Q_Z^-1 f_Z of f, and |f - y|^2 = |Q_Z^-1 f_Z - Q^T y|^2 + |y - Q Q^T y|^2. After one pass over the data
    a step costs the same for any number of samples. Rotating the basis makes Q_Z triangular.
    """

    def __init__(self, problem: Problem, parameters: Parameters, monomials: list[tuple[int, ...]]):
        self.penalties = _penalties(problem, parameters)
        R, keep, self.target, rest = _orthogonalise(problem, monomials)
        self.constant = 0.5 * rest
        chosen, Q_Z = _choose(problem, [monomials[k] for k in keep], R)
        rotation, self.R = qr(Q_Z.T, check_finite=False)
        self.target = rotation.T @ self.target
        if problem.weight is not None:
            self.R /= np.sqrt(problem.weight[chosen].astype(np.float64))
        self.R = np.asfortranarray(self.R)
        X = _dense(problem.design, chosen)
        self.jacobian = Jacobian(problem.model, parameters, Design(X).rows)

    def value(self, theta: np.ndarray) -> float:
        residual = solve_triangular(self.R, self.jacobian.predict(theta), trans=1, check_finite=False) - self.target
        return self._value(residual, theta)

    def _value(self, residual: np.ndarray, theta: np.ndarray) -> float:
        return self.constant + 0.5 * float(residual @ residual) + 0.5 * float(self.penalties @ np.square(theta))

    def local(self, theta: np.ndarray) -> Local:
        f, J = self.jacobian.tile(theta, 0, self.jacobian.n_rows)
        residual = solve_triangular(self.R, f, trans=1, check_finite=False) - self.target
        B = blas.dtrsm(1.0, self.R, J.T, side=1, overwrite_b=1).T
        gradient = residual @ B + self.penalties * theta
        if B.shape[0] < B.shape[1]:
            return LowRank(self._value(residual, theta), gradient, B, self.penalties)
        H = blas.dsyrk(1.0, B.T, lower=1)
        H[np.diag_indices_from(H)] += self.penalties
        return Factorised(self._value(residual, theta), gradient, H)


def _monomials(model: Model, d: int, most: int) -> list[tuple[int, ...]] | None:
    """The products of features that predictions combine, as tuples of their numbers, or None if more than `most`."""
    kinds = [(False, 1)] * model.fit_linear + [(False, 0)] * model.fit_intercept
    for group in model.groups:
        powers = group.kernel == "homogeneous"
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
        if problem.weight is not None:
            values *= np.sqrt(problem.weight[rows].astype(np.float64))
        yield rows, values.T


def _orthogonalise(problem: Problem, monomials: list[tuple[int, ...]]):
    """R and the monomials `keep` such that Phi[:, keep] R^-1 = Q is an orthonormal basis; Q^T y; |y - Q Q^T y|^2."""
    M = len(monomials)
    R: np.ndarray = np.zeros((0, M + 1))
    for rows, values in _tiles(problem, monomials):
        y = problem.y[rows].astype(np.float64)
        if problem.weight is not None:
            y = y * np.sqrt(problem.weight[rows].astype(np.float64))
        R = np.asarray(np.linalg.qr(np.vstack([R, np.column_stack([values, y])]), mode="r"))
    norms = np.sqrt(np.sum(np.square(R[:, :M]), axis=0))
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


def _penalties(problem: Problem, parameters: Parameters) -> np.ndarray:
    """The diagonal second derivative of the penalties, in the order of theta."""
    model, d = problem.model, len(parameters.coef)
    parts = []
    for group, lams in zip(model.groups, parameters.lambdas, strict=True):
        _, factors, features = group.shape(d)
        parts.append(np.tile(group.penalties(problem.beta, lams.astype(np.float64)), features * factors))
    parts += [np.full(d, float(problem.alpha))] * model.fit_linear + [np.zeros(1)] * model.fit_intercept
    return np.concatenate(parts)


def _order(problem: Problem, parameters: Parameters) -> np.ndarray:
    """Where the parameters of theta, with the bases last, lie in L-BFGS's vector."""
    numbers = np.arange(len(_packed(parameters, problem)))
    start, parts = 0, []
    for P in parameters.factors:
        parts.append(numbers[start : start + P.size].reshape(P.shape).transpose(2, 1, 0).ravel())
        start += P.size
    return np.concatenate([*parts, numbers[start:]])


@dataclass
class State:
    parameters: Parameters
    damping: float = FIRST_DAMPING
    growth: float = 2.0  # of the damping, should the next step fail


@dataclass(frozen=True)
class GaussNewton:
    """An epoch is one step. With `fit_lambdas`, the lasso in lambda comes before each."""

    fit_lambdas: bool = False
    n_threads: int = 1
    window: int = 3  # a step may be short while the damping is found
    reduce: bool = True  # whether a few rows may stand for all, where the loss is squared

    def init_state(self, problem: Problem, parameters: Parameters, extra: dict[str, np.ndarray] | None = None) -> State:
        return State(parameters.copy(), *(map(float, extra["damping"]) if extra else ()))

    def extra(self, state: State) -> dict[str, np.ndarray]:
        return {"damping": np.array([state.damping, state.growth])}

    def minimise(self, problem: Problem, state: State, monitor: Monitor) -> None:
        # The matrices are small: threads that were not asked for would cost more than they bring.
        with threadpool_limits(self.n_threads, user_api="blas"):
            self._minimise(problem, state, monitor)

    def _minimise(self, problem: Problem, state: State, monitor: Monitor) -> None:
        order = _order(problem, state.parameters)
        view = self._view(problem, state.parameters, order)
        before = np.inf
        while True:
            if self.fit_lambdas:
                f = problem.predict(state.parameters)
                for group, P, lams in zip(
                    problem.model.groups, state.parameters.factors, state.parameters.lambdas, strict=True
                ):
                    descend_lambdas(problem, group, P, lams, f)
                view = Rows(problem, state.parameters, self.n_threads)
            value, moved = self._update(problem, state, view, order)
            if not moved and (not self.fit_lambdas or value >= before):
                break
            if monitor(value, state):
                return
            before = value
        if not monitor.history:
            monitor(value, state)
        monitor.converged = True  # no step lowers the objective any more

    def _view(self, problem: Problem, parameters: Parameters, order: np.ndarray) -> Rows | Reduced:
        """The objective over all rows, or over the few that tell all others where that is much cheaper."""
        rows = Rows(problem, parameters, self.n_threads)
        n, d = problem.design.shape
        p = rows.jacobian.size
        if not isinstance(problem.loss, Squared) or self.fit_lambdas or not self.reduce or p == 0:
            return rows
        # What prepares it costs some 4 n M^2 operations, a step over all rows n p^2.
        monomials = _monomials(problem.model, d, int(min(n // 4, 1000, 1.5 * p)))
        if not monomials or 2 * len(monomials) * (len(monomials) + p) > n * p or len(monomials) * p > 2**24:
            return rows
        theta = _packed(parameters, problem)[order]
        exact = rows.value(theta)
        try:
            reduced = Reduced(problem, parameters, monomials)
            return reduced if abs(reduced.value(theta) - exact) <= 1e-9 * abs(exact) else rows
        except LinAlgError:
            return rows

    def _update(self, problem: Problem, state: State, view: Rows | Reduced, order: np.ndarray) -> tuple[float, bool]:
        """Take one step; the objective, and whether there was a step that lowered it."""
        packed = _packed(state.parameters, problem)
        theta = packed[order]
        local = view.local(theta)
        with np.errstate(over="ignore", invalid="ignore"):
            while state.damping <= MOST_DAMPING:
                try:
                    step = local.step(state.damping)
                except LinAlgError:  # rounding has made H indefinite
                    step = np.full_like(theta, np.nan)
                foretold = 0.5 * float(state.damping * local.diagonal @ np.square(step) - local.gradient @ step)
                trial = (theta + step).astype(state.parameters.coef.dtype).astype(np.float64)
                value = view.value(trial)
                if value < local.value:
                    # Nielsen's rule: smooth in the ratio of the decrease to what was foretold.
                    ratio = min((local.value - value) / max(foretold, 1e-290), 1.0)
                    state.damping *= max(1 / 3, 1 - (2 * ratio - 1) ** 3)
                    state.damping, state.growth = max(state.damping, LEAST_DAMPING), 2.0
                    packed[order] = trial
                    state.parameters = _unpacked(packed, state.parameters, problem)
                    return value, True
                state.damping *= state.growth
                state.growth *= 2.0
        state.damping, state.growth = FIRST_DAMPING, 2.0
        return local.value, False
