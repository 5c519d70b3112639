"""The best model of degree 2 of any rank: bases are added until a duality gap proves that nothing is left to gain.

One stair: directions in which the loss falls faster than the penalty rises (eigenvectors of A(g) beyond beta, see
`core/spectrum.py`) become bases; another solver descends over all of them; the eigendecomposition of their sum turns
them into the fewest bases with the same predictions and the least penalty; and the gap is measured. Enough bases
leave no local minimum that is not global (docs/certificate.md), so that what is found does not depend on the start.

Letters as in `core/duality.py`: g slopes, root the square roots of the penalties by feature, B = P diag(root) bases in
units in which beta is 1, mu eigenvalues of A(g) in these units.
"""

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from polyfm.core.duality import COUNTS, Convex
from polyfm.core.parameters import Parameters
from polyfm.core.penalty import Penalty, Ridge
from polyfm.core.problem import Problem
from polyfm.core.threads import one_thread_of_blas
from polyfm.loops.forms import form_of
from polyfm.solvers.base import Resume, Solver, run_in_place
from polyfm.solvers.monitor import Monitor
from polyfm.solvers.registry import automatic_local, make_solver, solver_class

FEW_FEATURES = 1000  # whose A(g) is formed
LEAST_TOLERANCE, MOST_TOLERANCE = 1e-5, 1e-2  # of eigenvalues; between them, a tenth of the gap
DEAD = 1e-6  # of the largest eigenvalue: what is smaller is no basis
FAR = 1.2  # times beta: where A(g) reaches farther, the number of bases is doubled
TOL, LEAST_TOL = 1e-3, 1e-12  # of the gap to reach: what a descent stops at; a tenth where that does not halve the gap
MOST_AT_ONCE = 128  # new bases: all have to be found before one is of use
PATIENCE = 2  # stairs that gain nothing


class Pace(NamedTuple):
    first: int  # new bases of the first stair
    growing: int  # epochs of a stair where the last one needed all of its bases: then more are missing
    epochs: int  # of other stairs, at most
    look: int  # epochs between two looks at the gap within a stair


PACES = {
    "block": Pace(16, 3, 6, 6),
    "cd": Pace(4, 6, 6, 6),
    "newton": Pace(16, 40, 40, 40),
    "lbfgs": Pace(4, 8, 200, 20),
}


@dataclass
class State:
    parameters: Parameters  # direct, with as many bases as there are now
    objective: float = math.inf
    bound: float = -math.inf  # the best so far
    reach: float = math.inf  # of A(g)
    f: np.ndarray | None = None  # predictions at the parameters
    n_stairs: int = 0
    full: bool = True  # whether all bases of the last stair are of use
    tol: float = 1.0  # of the descent, in units of what it begins with
    idle: int = 0  # stairs without a gain
    note: str = ""
    prepared: dict = field(default_factory=dict)  # what one descent leaves for the next

    @property
    def gap(self) -> float:
        """In units of the objective."""
        return max(self.objective - self.bound, 0.0) / (abs(self.objective) or 1.0)


@dataclass(frozen=True)
class Staircase(Solver):
    """An epoch is one stair. It ends at a gap of `gap_tol`, or where nothing is gained any more with `most` bases."""

    signs: tuple[int, ...] = (1,)
    local: str = "auto"
    gap_tol: float = 1e-2
    most: int = 100
    n_threads: int = 1

    summary = "bases are added until a duality gap proves that nothing is left to gain"
    epoch = "new bases, a descent over all, and a certificate"
    window = None

    def init_state(self, problem: Problem, parameters: Parameters, resume: Resume | None = None) -> State:
        """Start from any bases; where there are none, from the best linear model."""
        convex = Convex(problem, self.signs)
        own = merged(convex, parameters, self.signs, self.most)
        if not own.factors[0].any():
            convex = Convex(of_rank(problem, own), self.signs)
            _, best = convex.refitted(own, convex.predictions(own))
            dtype = problem.design.dtype
            own = own._replace(coef=best.coef.astype(dtype), intercept=np.array([best.intercept], dtype=dtype))
        return State(own)

    def objective(self, problem: Problem, state: State) -> float:
        self._look(problem, state)
        return state.objective

    def value(self, problem: Problem, parameters: Parameters) -> float:
        return of_rank(problem, parameters).objective(parameters)

    def learned(self, problem: Problem, state: State) -> Resume:
        return {"gap": np.array([max(state.objective - state.bound, 0.0)])}

    def running(self):
        return one_thread_of_blas()  # the same bits on any number of threads

    def update(self, problem: Problem, state: State) -> float | None:
        if state.gap <= self.gap_tol or state.idle >= PATIENCE:
            return None
        name, before, gap = self.local, state.objective, state.gap
        tol = max(state.tol * TOL * self.gap_tol, LEAST_TOL)
        if name == "auto":
            rank = len(state.parameters.lambdas[0])
            name = automatic_local(problem.model, problem.design, first=state.n_stairs == 0, rank=rank)
        widened = self._widened(Convex(of_rank(problem, state.parameters), self.signs), state, PACES[name].first)
        task = of_rank(problem, widened)
        given = {"n_threads": self.n_threads, "exact": True, "prepared": state.prepared}
        options = {key: given[key] for key in given.keys() & solver_class(name).options()}
        found = run_in_place(
            make_solver(name, **options), task, widened, tol=tol,
            max_iter=PACES[name].growing if state.full else PACES[name].epochs,
            hooks=(partial(self._enough, task, state, PACES[name].look),), resumable=False,
        )  # fmt: skip
        state.parameters = merged(Convex(task, self.signs), found.parameters, self.signs, self.most)
        if found.interrupted:
            raise KeyboardInterrupt
        self._look(problem, state)
        state.full = len(state.parameters.lambdas[0]) == len(widened.lambdas[0])
        if state.gap > 0.5 * gap:
            state.tol *= 0.1
        # With as many bases as there may be, or where descents have been to the end, nothing else can help.
        at_its_end = tol == LEAST_TOL or len(state.parameters.lambdas[0]) >= self.most
        gained = before - state.objective > TOL * self.gap_tol * abs(before)
        state.idle = 0 if gained or not at_its_end else state.idle + 1
        state.n_stairs += 1
        return state.objective

    def finish(self, problem: Problem, state: State) -> float:
        """Without bases so small that nobody would miss them, if the gap agrees."""
        state.objective = self.value(problem, state.parameters)
        sizes = np.square(state.parameters.factors[0].astype(np.float64)).sum(axis=(1, 2))
        kept = sizes > COUNTS * sizes.max(initial=0.0)
        if 0 < kept.sum() < len(kept) and state.gap <= self.gap_tol:
            fewer = state.parameters._replace(
                factors=(state.parameters.factors[0][kept],), lambdas=(state.parameters.lambdas[0][kept],)
            )
            trial = State(fewer, bound=state.bound)
            self._look(problem, trial)
            if trial.gap <= self.gap_tol:
                state.parameters, state.objective, state.bound = fewer, trial.objective, trial.bound
        return state.objective

    # -- one stair ----------------------------------------------------------------------------------------------------

    def _look(self, problem: Problem, state: State, quick: bool = False) -> None:
        """Objective, bound and gap at the parameters; a `quick` look leaves linear weights as they are."""
        parameters = state.parameters
        convex = Convex(of_rank(problem, parameters), self.signs)
        f = convex.predictions(parameters)
        norm = float(np.abs(convex.eigenvalues(parameters)).sum())
        state.f, state.objective = f, convex.objective(f, parameters.coef, norm)
        if state.gap > self.gap_tol:  # a bound holds for all parameters: the best one so far may do
            tol = float(np.clip(0.1 * state.gap, max(0.1 * self.gap_tol, LEAST_TOLERANCE), MOST_TOLERANCE))
            bound = partial(convex.bound, f) if quick else partial(convex.best_bound, parameters, f, state.objective)
            best = bound(few=FEW_FEATURES, tol=tol)
            state.reach, state.bound = best.reach, max(state.bound, best.value)
        rank = len(parameters.lambdas[0]) if parameters.factors[0].any() else 0
        state.note = f"   gap {state.gap:.2e}   rank {rank}"

    def _enough(self, task: Problem, state: State, every: int, monitor: Monitor, inner: Any) -> bool:
        """A hook: whether the gap is small enough in the middle of a stair, which has a memory to lose."""
        if len(monitor.history) % every or len(monitor.history) == monitor.max_iter:
            return False
        trial = State(inner.parameters, bound=state.bound)
        self._look(task, trial, quick=True)
        state.bound = trial.bound
        return trial.gap <= self.gap_tol

    def _widened(self, convex: Convex, state: State, first: int) -> Parameters:
        """The parameters with new bases, along which the objective falls."""
        parameters, f = state.parameters, state.f
        rank = len(parameters.lambdas[0])
        growth = (1.0 if state.reach > FAR else 0.5) if state.full else 0.125
        many = max(first if growth == 1 else first // 4, int(growth * rank))
        many = min(many, MOST_AT_ONCE, self.most - rank, len(convex.root))
        if many <= 0 or f is None:
            return parameters
        g = convex.slopes(f)
        mu, V = violators(convex, g, parameters, self.signs, many)
        if not len(mu):
            return parameters
        signs, gains = -np.sign(mu), np.abs(mu) - 1.0
        P = np.sqrt(gains)[:, None] * V / convex.root
        dtype = convex.problem.design.dtype
        new = Parameters(
            (np.asarray(P[:, None, :], dtype=dtype),), (signs.astype(dtype),),
            np.zeros_like(parameters.coef), np.zeros_like(parameters.intercept),
        )  # fmt: skip
        # P(M + tau D) <= P(M) - tau sum gains^2 + tau^2/2 sum_i h_i <D, X_i>^2, h the bound on the losses' curvature.
        moved = of_rank(convex.problem, new).model.predict(new, convex.problem.design).astype(np.float64)
        bend = convex.problem.loss.curvature * float(convex.c @ np.square(moved))
        tau = float(gains @ gains) / bend if bend > 0 else 0.0
        if tau <= 0:
            return parameters
        kept = parameters.factors[0].any(axis=(1, 2))
        factors = np.concatenate([parameters.factors[0][kept], (math.sqrt(tau) * new.factors[0]).astype(dtype)])
        return parameters._replace(
            factors=(factors,), lambdas=(np.concatenate([parameters.lambdas[0][kept], new.lambdas[0]]),)
        )


def of_rank(problem: Problem, parameters: Parameters) -> Problem:
    """The same problem over direct bases, as many as the parameters have."""
    group, d = problem.model.groups[0], problem.design.shape[1]
    form = form_of(group.form.kernel, "direct", 2)
    model = replace(problem.model, groups=(replace(group, form=form, n_bases=len(parameters.lambdas[0])),))
    alpha, beta = problem.penalty.alpha, problem.penalty.beta[0]
    return replace(problem, model=model, penalty=Penalty.of(model, d, alpha, Ridge(beta.strength[:, 0], beta.of)))


def merged(convex: Convex, parameters: Parameters, signs: tuple[int, ...], most: int) -> Parameters:
    """The fewest bases, of weights 1 and -1, with the same predictions and the least penalty, the largest first."""
    values, vectors = convex.spectrum(parameters)
    keep = np.flatnonzero(np.abs(values) > DEAD * np.abs(values).max(initial=0.0))
    keep = keep[np.isin(np.sign(values[keep]), signs)]
    keep = keep[np.argsort(-np.abs(values[keep]), kind="stable")][:most]
    if not len(keep):  # a model has one basis at least, and be it zero
        keep, values = np.array([0]), np.zeros(1)
    dtype = convex.problem.design.dtype
    P = np.sqrt(np.abs(values[keep]))[:, None] * vectors[:, keep].T / convex.root
    # Of v and -v, which are one basis, that whose largest entry is positive.
    P *= np.where(P[np.arange(len(P)), np.abs(P).argmax(axis=1)] < 0, -1.0, 1.0)[:, None]
    lambdas = np.where(values[keep] < 0, -1, np.where(values[keep] > 0, 1, signs[0])).astype(dtype)
    return Parameters(
        (np.ascontiguousarray(P[:, None, :], dtype=dtype),), (lambdas,), parameters.coef.astype(dtype),
        parameters.intercept.astype(dtype),
    )  # fmt: skip


def violators(
    convex: Convex, g: np.ndarray, parameters: Parameters, signs: tuple[int, ...], many: int
) -> tuple[np.ndarray, np.ndarray]:
    """Up to `many` eigenvalues of A(g) beyond 1 and their eigenvectors, outside of what the bases span already.

    Within it A(g) has as many eigenvalues close to 1 as there are bases, which would hide the others.
    """
    A = convex.curvature(g)
    B = parameters.factors[0][:, 0].astype(np.float64) * convex.root
    Q = np.linalg.qr(B[B.any(axis=1)].T)[0]
    if A.size <= FEW_FEATURES:
        dense = A.dense()
        dense = dense - Q @ (Q.T @ dense)
        dense = dense - (dense @ Q) @ Q.T
        mu, V = np.linalg.eigh((dense + dense.T) / 2)
    else:

        def outside(v: np.ndarray) -> np.ndarray:
            return v - Q @ (Q.T @ v)

        # What starts outside stays there.
        operator: Any = LinearOperator((A.size, A.size), matvec=lambda v: outside(A(v)), dtype=np.float64)
        which = "SA" if signs == (1,) else "LA" if signs == (-1,) else "BE" if many > 1 else "LM"
        start = outside(np.random.RandomState(0).standard_normal(A.size))
        try:
            mu, V = eigsh(operator, k=min(many, A.size - 1), which=which, tol=0.1, v0=start, maxiter=20)
        except ArpackNoConvergence as stopped:
            mu, V = stopped.eigenvalues, stopped.eigenvectors
    wanted = ((mu < -1) & (1 in signs)) | ((mu > 1) & (-1 in signs))
    at = np.flatnonzero(wanted)
    at = at[np.argsort(-np.abs(mu[at]), kind="stable")][:many]
    return mu[at], V[:, at].T
