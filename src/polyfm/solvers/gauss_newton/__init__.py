"""Damped Gauss-Newton (Levenberg-Marquardt) on all smooth parameters, for problems with few of them.

Letters: theta all parameters in one vector, J the Jacobian of the predictions, H = J^T diag(w l'') J + penalties the
Gauss-Newton matrix, g the gradient. A step solves (H + mu diag(H)) s = -g; mu falls where the quadratic model foretells
the decrease well and rises where it does not. Only steps that lower the objective are taken.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError
from threadpoolctl import threadpool_limits

from polyfm.core.model import Parameters
from polyfm.core.problem import Problem
from polyfm.losses import Squared
from polyfm.solvers.base import Monitor
from polyfm.solvers.coordinate_descent import descend_lambdas
from polyfm.solvers.gauss_newton.objectives import Reduced, Rows, monomials_of

FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 0.1, 1e-10, 1e12


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
        return State(parameters, *(map(float, extra["damping"]) if extra else ()))

    def extra(self, state: State) -> dict[str, np.ndarray]:
        return {"damping": np.array([state.damping, state.growth])}

    def minimise(self, problem: Problem, state: State, monitor: Monitor) -> None:
        # The matrices are small: threads that were not asked for would cost more than they bring.
        with threadpool_limits(self.n_threads, user_api="blas"):
            self._minimise(problem, state, monitor)

    def _minimise(self, problem: Problem, state: State, monitor: Monitor) -> None:
        view = self._view(problem, state.parameters)
        before = np.inf
        while True:
            if self.fit_lambdas:
                f = problem.predict(state.parameters)
                for group, P, lams in zip(
                    problem.model.groups, state.parameters.factors, state.parameters.lambdas, strict=True
                ):
                    descend_lambdas(problem, group, P, lams, f)
                view = Rows(problem, state.parameters, self.n_threads)
            value, moved = self._update(problem, state, view)
            if not moved and (not self.fit_lambdas or value >= before):
                break
            if monitor(value, state):
                return
            before = value
        if not monitor.history:
            monitor(value, state)
        monitor.converged = True  # no step lowers the objective any more

    def _view(self, problem: Problem, parameters: Parameters) -> Rows | Reduced:
        """The objective over all rows, or over the few that tell all others where that is much cheaper."""
        rows = Rows(problem, parameters, self.n_threads)
        n, d = problem.design.shape
        p = rows.jacobian.size
        if not isinstance(problem.loss, Squared) or self.fit_lambdas or not self.reduce or p == 0:
            return rows
        # What prepares it costs some 4 n M^2 operations, a step over all rows n p^2.
        monomials = monomials_of(problem.model, d, int(min(n // 4, 1000, 1.5 * p)))
        if not monomials or 2 * len(monomials) * (len(monomials) + p) > n * p or len(monomials) * p > 2**24:
            return rows
        theta = problem.model.pack(parameters)
        exact = rows.value(theta)
        try:
            reduced = Reduced(problem, parameters, monomials)
            return reduced if abs(reduced.value(theta) - exact) <= 1e-9 * abs(exact) else rows
        except LinAlgError:
            return rows

    def _update(self, problem: Problem, state: State, view: Rows | Reduced) -> tuple[float, bool]:
        """Take one step; the objective, and whether there was a step that lowered it."""
        theta = problem.model.pack(state.parameters)
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
                    state.parameters = problem.model.unpack(trial, state.parameters)
                    return value, True
                state.damping *= state.growth
                state.growth *= 2.0
        state.damping, state.growth = FIRST_DAMPING, 2.0
        return local.value, False
