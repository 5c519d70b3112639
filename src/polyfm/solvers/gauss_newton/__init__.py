"""Damped Gauss-Newton (Levenberg-Marquardt) on all smooth parameters, for problems with few of them.

Letters: theta all parameters in one vector, J the Jacobian of the predictions, H = J^T diag(w l'') J + penalties the
Gauss-Newton matrix, g the gradient. A step solves (H + mu diag(H)) s = -g; mu falls where the quadratic model predicts
the decrease well and rises where it does not. Only steps that lower the objective are taken.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.core.threads import one_thread_of_blas
from polyfm.solvers.base import Resume, Solver
from polyfm.solvers.directions import descend_all_lambdas
from polyfm.solvers.gauss_newton.objectives import Reduced, Reduction, Rows, monomials_of

FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 0.1, 1e-10, 1e12
FIRST_OF_EXACT = 0.01  # damping where H is exact


@dataclass
class State:
    parameters: Parameters
    damping: float = FIRST_DAMPING
    growth: float = 2.0  # of the damping, should the next step fail
    before: float = np.inf  # the objective after the last epoch
    reduced: bool | None = None  # whether a few rows stand for all; None: not decided yet
    view: Rows | Reduced | None = None


@dataclass(frozen=True)
class GaussNewton(Solver):
    """An epoch is one step. With `fit_lambdas`, the lasso in lambda comes before each."""

    fit_lambdas: bool = False
    n_threads: int = 1
    reduce: bool = True  # whether a few rows may stand for all, where the loss is squared
    exact: bool = False  # Newton's method: H has the curvature of predictions, too; for direct bases of degree 2
    prepared: dict[tuple, Reduction] | None = None  # what other runs on the same rows and targets have prepared

    summary = "damped Gauss-Newton steps: every combination; best for small dense problems"
    epoch = "one damped step of all parameters"
    resume_kinds = {"reduced": "b"}
    window = 3  # a step may be short while the damping is found

    def init_state(self, problem: Problem, parameters: Parameters, resume: Resume | None = None) -> State:
        if not resume:
            return State(parameters, self._first_damping)
        damping, growth, before = map(float, resume["numbers"])
        return State(parameters, damping, growth, before, bool(resume["reduced"][0]))

    def resume(self, state: State) -> Resume:
        numbers = np.array([state.damping, state.growth, state.before])
        return {"numbers": numbers, "reduced": np.array([bool(state.reduced)])}

    def resume_shapes(self, problem: Problem, parameters: Parameters) -> dict[str, tuple[int | None, ...]]:
        return {"numbers": (3,), "reduced": (1,)}

    def check_resume(self, problem: Problem, parameters: Parameters, resume: Resume) -> None:
        super().check_resume(problem, parameters, resume)
        damping, growth = resume["numbers"][:2]
        if not (LEAST_DAMPING <= damping < np.inf and 2.0 <= growth < np.inf):  # or no step would ever be short enough
            raise ValueError(f"the checkpoint's damping is {damping:.3g} and its growth {growth:.3g}: no run has that.")

    @property
    def _first_damping(self) -> float:
        return FIRST_OF_EXACT if self.exact else FIRST_DAMPING

    def running(self):
        # The matrices are small; and BLAS on several threads would add up in another order, and give other bits.
        return one_thread_of_blas()

    def update(self, problem: Problem, state: State) -> float | None:
        if self.fit_lambdas:
            state.view = self._visit_lambdas(problem, state)
        elif state.view is None:
            state.view = self._view(problem, state)
        value, moved = self._step(problem, state, state.view)
        if not moved and (not self.fit_lambdas or value >= state.before):
            return None
        state.before = value
        return value

    def _visit_lambdas(self, problem: Problem, state: State) -> Rows:
        """The lasso in lambda; taken back where rounding, of parameters in single precision, makes it cost more."""
        parameters = state.parameters
        before = [lams.copy() for lams in parameters.lambdas]
        descend_all_lambdas(problem, parameters)
        rows = Rows(problem, parameters, self.n_threads, self.exact)
        if not rows.value(problem.model.pack(parameters)) > state.before:
            return rows
        for lams, old in zip(parameters.lambdas, before, strict=True):
            lams[:] = old
        return Rows(problem, parameters, self.n_threads, self.exact)

    def _view(self, problem: Problem, state: State) -> Rows | Reduced:
        """The objective over all rows, or over the few that tell all others where that is much cheaper."""
        parameters = state.parameters
        rows = Rows(problem, parameters, self.n_threads, self.exact)
        n, d = problem.design.shape
        p = rows.jacobian.size
        residual, quadratic = (getattr(problem.loss, fact, False) for fact in ("residual", "quadratic"))
        if state.reduced is False or not (residual and quadratic) or not self.reduce or p == 0:
            return rows
        # What prepares it costs some 4 n M^2 operations, a step over all rows n p^2.
        monomials = monomials_of(problem.model, d, int(min(n // 4, 1000, 1.5 * p)))
        if not monomials or 2 * len(monomials) * (len(monomials) + p) > n * p or len(monomials) * p > 2**24:
            return rows
        theta = problem.model.pack(parameters)
        exact = rows.value(theta)
        try:
            prepared, key = {} if self.prepared is None else self.prepared, tuple(monomials)
            if key not in prepared:
                prepared[key] = Reduction.of(problem, monomials)
            reduced = Reduced(problem, parameters, prepared[key], self.exact)
            if not state.reduced:
                state.reduced = abs(reduced.value(theta) - exact) <= 1e-9 * abs(exact)
            return reduced if state.reduced else rows
        except LinAlgError:
            return rows

    def _step(self, problem: Problem, state: State, view: Rows | Reduced) -> tuple[float, bool]:
        """Take one step; the objective, and whether there was a step that lowered it."""
        theta = problem.model.pack(state.parameters)
        local = view.local(theta)
        with np.errstate(over="ignore", invalid="ignore"):
            while state.damping <= MOST_DAMPING:
                try:
                    step = local.step(state.damping)
                except LinAlgError:  # rounding has made H indefinite
                    step = np.full_like(theta, np.nan)
                predicted = 0.5 * float(state.damping * local.diagonal @ np.square(step) - local.gradient @ step)
                trial = (theta + step).astype(state.parameters.coef.dtype).astype(np.float64)
                value = view.value(trial)
                if value < local.value:
                    # Nielsen's rule: smooth in the ratio of the decrease to the predicted one (the gain ratio).
                    ratio = min((local.value - value) / max(predicted, 1e-290), 1.0)
                    state.damping *= max(1 / 3, 1 - (2 * ratio - 1) ** 3)
                    state.damping, state.growth = max(state.damping, LEAST_DAMPING), 2.0
                    state.parameters = problem.model.unpack(trial, state.parameters)
                    return value, True
                state.damping *= state.growth
                state.growth *= 2.0
        state.damping, state.growth = self._first_damping, 2.0
        return local.value, False
