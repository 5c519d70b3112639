"""Implicit feedback without negative sampling: least squares over all pairs of contexts and items.

    sum over observed (c, i) of a_ci (f_ci - 1)^2 + omega sum over all (c, i) of f_ci^2 + sum_j pen_j |t_j|^2,
    f_ci = <q_c, z_i>,  q_c = sum_j x_cj t_j over the features of a context,  z_i the same over those of an item

The second sum is <Q'Q, Z'Z>: two small matrices stand for all pairs. The objective is quadratic in the factors of one
side. Descent takes turns: features of an id have rows of their own, and each is moved by a few steps of conjugate
gradients; what is left, features that rows share, by a few steps for all of them together. No step raises the
objective. (Hu, Koren and Volinsky 2008; Bayer, He, Kanagal and Rendle 2017; penalties that grow with how often a
feature occurs: Rendle et al. 2021.) At a degree above 2, z and q are the parts of `across`, and the objective is
quadratic in the factors of each single feature: these take turns.
"""

import itertools
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from polyfm.core.parameters import Parameters
from polyfm.core.threads import Team
from polyfm.loops import all_pairs as loops
from polyfm.recommend import across
from polyfm.recommend.across import arrays_of
from polyfm.solvers import Resume, Solver

STEPS = 3  # of conjugate gradients for an id
SHARED_STEPS = 6  # for shared features


@dataclass(frozen=True)
class Rows:
    """One side: the features of its rows. The first `n_ids` features are the ids, of which a row has at most one."""

    X: sp.csr_matrix
    n_ids: int

    @cached_property
    def members(self) -> tuple[np.ndarray, np.ndarray]:
        ids = self.X[:, : self.n_ids].tocsc()
        return ids.indptr.astype(np.uint32), ids.indices.astype(np.uint32)

    @cached_property
    def all_members(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows that have each feature, shared ones included, and its values."""
        return arrays_of(self.X.tocsc())

    @cached_property
    def shared(self) -> sp.csr_matrix:
        return self.X[:, self.n_ids :].tocsr()

    @cached_property
    def shared_turned(self) -> sp.csr_matrix:
        return self.shared.T.tocsr()


class AllPairs:
    """The problem: who was seen with what, how much that counts, and what everything else counts."""

    dtype = np.dtype(np.float64)

    def __init__(
        self, contexts: Rows, items: Rows, seen: sp.csr_matrix, omega: float, reg: float, nu: float, degree: int,
        n_components: int,
    ):  # fmt: skip
        self.sides, self.degree, self.n_components = (contexts, items), degree, n_components
        turned = seen.T.tocsr()
        self.seen = tuple(
            (m.indptr.astype(np.uint32), m.indices.astype(np.uint32), m.data.astype(np.float64)) for m in (seen, turned)
        )
        self.omega = omega
        counts = [np.diff(m.indptr) for m in (seen, turned)]
        self.penalties = tuple(
            penalty(rows.X, count, other.X.shape[0], omega, reg, nu)
            for rows, count, other in zip(self.sides, counts, self.sides[::-1], strict=True)
        )

    @property
    def design(self) -> "AllPairs":
        return self

    def objective(self, parameters: Parameters) -> float:
        T = parameters.factors
        Q, Z = self.parts(0, T), self.turned(1, T)
        total = loops.squares(self.seen[0], Q, Z) + self.omega * np.sum((Q.T @ Q) * (Z.T @ Z))
        return float(total + sum(p @ np.einsum("jk,jk->j", t, t) for p, t in zip(self.penalties, T, strict=True)))

    def parts(self, side: int, T: tuple[np.ndarray, ...]) -> np.ndarray:
        return across.parts(self.sides[side].X, T[side], self.degree, self.n_components)

    def turned(self, side: int, T: tuple[np.ndarray, ...]) -> np.ndarray:
        """Parts in the order in which they meet those of the other side."""
        return np.ascontiguousarray(across.turned(self.parts(side, T), self.degree, self.n_components))


def penalty(X: sp.csr_matrix, counts: np.ndarray, n_others: int, omega: float, reg: float, nu: float) -> np.ndarray:
    """reg (sum_c x_cj^2 (n_c + omega n_others))^nu, for each feature j."""
    return reg * (X.multiply(X).T @ (counts + omega * n_others)) ** nu


@dataclass
class State:
    parameters: Parameters
    team: Team


@dataclass(frozen=True)
class AllPairsDescent(Solver):
    """Descent for `AllPairs`, in the place of a problem: the factors of both sides in turns."""

    n_threads: int = 1

    summary = "least squares over all pairs of contexts and items, a side at a time"
    epoch = "one pass over the features of both sides"
    fits_lambdas = False

    def init_state(self, problem: Any, parameters: Parameters, resume: Resume | None = None) -> State:
        return State(parameters, Team(self.n_threads))

    def update(self, problem: Any, state: State) -> float:
        for side in (0, 1):
            _sweep(problem, state.parameters.factors, side, state.team)
        return problem.objective(state.parameters)

    def finish(self, problem: Any, state: State) -> None:
        state.team.__exit__()


@dataclass(frozen=True)
class AllPairsRecipe:
    """How a session trains `AllPairs`, which stands for the data and the problem at once."""

    n_threads: int = 1

    def solver_name(self, design: AllPairs) -> str:
        return "all-pairs"

    def make_solver(self, name: str, seed: int) -> AllPairsDescent:
        return AllPairsDescent(self.n_threads)

    def problem(self, design: AllPairs, y: Any, weight: Any) -> AllPairs:
        return design

    def start(self, problem: AllPairs, seed: int) -> Parameters:
        rng, k = np.random.RandomState(seed), problem.n_components
        columns = k * (problem.degree - 1)
        factors = tuple(0.1 / np.sqrt(k) * rng.standard_normal((rows.X.shape[1], columns)) for rows in problem.sides)
        for t, rows in zip(factors, problem.sides, strict=True):
            t[rows.n_ids :, :k] *= 0.1  # many features add up
            t[:, k:] *= 10.0  # products of three and more: small ones would never grow
        return as_parameters(factors)


def as_parameters(factors: tuple[np.ndarray, ...]) -> Parameters:
    """Factors of the two sides, as sessions and checkpoints want them."""
    return Parameters(factors, tuple(np.empty(0) for _ in factors), np.empty(0), np.zeros(1))


def _sweep(problem: AllPairs, T: tuple[np.ndarray, ...], side: int, team: Team) -> None:
    """All features of one side, the other side fixed."""
    rows, t, pen, seen = problem.sides[side], T[side], problem.penalties[side], problem.seen[side]
    Z = problem.turned(1 - side, T)
    G = problem.omega * (Z.T @ Z)
    Q = problem.parts(side, T)
    if problem.degree > 2:
        m, k = problem.degree, problem.n_components
        solve = partial(loops.solve_features, seen, Z, G, pen, rows.all_members, t, Q, m, k, STEPS)
        if rows.n_ids:
            team.run(solve, _shares(rows.n_ids, team.n_threads))
        solve(rows.n_ids, rows.X.shape[1])
        return
    if rows.n_ids:
        solve = partial(loops.solve_field, seen, Z, G, pen, rows.members, t, Q, STEPS)
        team.run(solve, _shares(rows.n_ids, team.n_threads))
    if rows.X.shape[1] > rows.n_ids:
        _solve_shared(rows, t[rows.n_ids :], pen[rows.n_ids :, None], seen, Z, G, Q, team)


def _solve_shared(rows: Rows, t, pen, seen, Z, G, Q, team: Team) -> None:
    """Conjugate gradients for all shared features together: each step is one pass over the observed pairs."""
    n = len(Q)
    shares = _shares(n, team.n_threads)
    out = np.empty_like(Q)

    def product(P: np.ndarray) -> np.ndarray:
        team.run(lambda lo, hi: loops.products(seen, Z, G, P, lo, hi, out), shares)
        return rows.shared_turned @ out

    team.run(lambda lo, hi: loops.pulls(seen, Z, lo, hi, out), shares)
    r = rows.shared_turned @ out
    r -= product(Q) + pen * t
    size = _diagonal(rows, seen, Z, G) + pen  # features occur more or less often: Jacobi's preconditioner
    y = r / size
    p, gain = y.copy(), float(np.sum(r * y))
    floor = 1e-20 * gain
    for _ in range(SHARED_STEPS):
        if not gain > floor:
            return
        v = product(rows.shared @ p) + pen * p
        curvature = float(np.sum(p * v))
        if not curvature > 0:
            return
        t += gain / curvature * p
        r -= gain / curvature * v
        y = r / size
        after = float(np.sum(r * y))
        p = y + after / gain * p
        gain = after


def _diagonal(rows: Rows, seen, Z, G) -> np.ndarray:
    """The diagonal of the curvature, by feature and component."""
    indptr, indices, weights = seen
    A = sp.csr_matrix((weights, indices.astype(np.int32), indptr.astype(np.int32)), shape=(len(indptr) - 1, len(Z)))
    squared = rows.shared_turned.multiply(rows.shared_turned).tocsr()
    found = squared @ (A @ (Z * Z)) + np.outer(np.asarray(squared.sum(axis=1)).ravel(), np.diag(G))
    return found + 1e-12 * found.max(initial=1e-300)


def _shares(n: int, n_threads: int) -> list[tuple[int, int]]:
    bounds = [n * part // n_threads for part in range(n_threads + 1)]
    return list(itertools.pairwise(bounds))


def fold_in(
    seen: sp.csr_matrix, Z: np.ndarray, gram: np.ndarray, parts: np.ndarray, penalty: float, degree: int, k: int
):
    """The factors of one new id, in one solve. The rows that have it were seen with rows of the other side, whose parts
    in the order in which they meet are Z; `gram` is omega sum_i z_i z_i' over all of these, `parts` those of the rows
    without it."""
    size = k * (degree - 1)
    H, pull = penalty * np.eye(size), np.zeros(size)
    for c in range(seen.shape[0]):
        mine = slice(seen.indptr[c], seen.indptr[c + 1])
        z, a = Z[seen.indices[mine]], seen.data[mine]
        J = _slopes(parts[c], degree, k)
        curvature = (z * a[:, None]).T @ z + gram
        H += J @ curvature @ J.T
        pull += J @ (z.T @ a - curvature @ parts[c])
    return np.linalg.solve(H, pull)


def _slopes(parts: np.ndarray, degree: int, k: int) -> np.ndarray:
    """The derivative of a row's parts by the factors of a feature of value 1 that it lacks: A^(t-1) where A^t is."""
    J, first = np.zeros((k * (degree - 1), len(parts))), 0
    s = np.arange(k)
    for d in range(2, degree + 1):
        for t in range(1, d):
            to = first + (t - 1) * k
            J[(d - 2) * k + s, to + s] = 1.0 if t == 1 else parts[to - k + s]
        first += (d - 1) * k
    return J
