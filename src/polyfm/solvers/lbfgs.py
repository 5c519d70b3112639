"""L-BFGS on all smooth parameters at once (scipy's), for every kernel, method and loss."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from polyfm.model import Parameters
from polyfm.problem import Problem
from polyfm.solvers.base import Monitor
from polyfm.solvers.coordinate_descent import descend_lambdas

ROUND = 20  # iterations between two visits to lambda, where it is fitted


@dataclass
class State:
    parameters: Parameters


@dataclass(frozen=True)
class LBFGS:
    """An epoch is one iteration. With `fit_lambdas`, rounds of iterations alternate with the lasso in lambda."""

    fit_lambdas: bool = False
    n_threads: int = 1
    window: int = 10  # one iteration may do little before a long step

    def init_state(self, problem: Problem, parameters: Parameters, extra: dict[str, np.ndarray] | None = None) -> State:
        return State(parameters.copy())

    def extra(self, state: State) -> dict[str, np.ndarray]:
        return {}

    def minimise(self, problem: Problem, state: State, monitor: Monitor) -> None:
        rounds = monitor.max_iter if self.fit_lambdas else 1
        for _ in range(rounds):
            if self.fit_lambdas:
                f = problem.predict(state.parameters)
                for group, P, lams in zip(
                    problem.model.groups, state.parameters.factors, state.parameters.lambdas, strict=True
                ):
                    descend_lambdas(problem, group, P, lams, f)
            done = len(monitor.history)
            if self._descend(problem, state, monitor, ROUND if self.fit_lambdas else monitor.max_iter):
                return
            if len(monitor.history) == done:
                break
        if not monitor.history:
            monitor(problem.objective(state.parameters), state)
        monitor.converged = True  # no direction lowers the objective any more

    def _descend(self, problem: Problem, state: State, monitor: Monitor, max_iter: int) -> bool:
        """Run scipy's loop; whether the monitor stopped it."""
        stopped = False

        def value_and_gradient(vector: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = problem.value_and_gradient(_unpacked(vector, state.parameters, problem), self.n_threads)
            return value, _packed(gradient, problem)

        def after(intermediate_result) -> None:
            nonlocal stopped
            state.parameters = _unpacked(intermediate_result.x, state.parameters, problem)
            stopped = monitor(float(intermediate_result.fun), state)
            if stopped:
                raise StopIteration

        minimize(
            value_and_gradient,
            _packed(state.parameters, problem),
            jac=True,
            method="L-BFGS-B",
            callback=after,
            options={"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": 0.0, "gtol": 0.0, "maxcor": 20},
        )
        return stopped


def _packed(parameters: Parameters, problem: Problem) -> np.ndarray:
    """The smooth parameters in one vector: factors, linear weights, intercept."""
    parts = [P.ravel() for P in parameters.factors]
    if problem.model.fit_linear:
        parts.append(parameters.coef)
    if problem.model.fit_intercept:
        parts.append(parameters.intercept)
    return np.concatenate(parts).astype(np.float64)


def _unpacked(vector: np.ndarray, like: Parameters, problem: Problem) -> Parameters:
    dtype = like.coef.dtype
    sizes = [P.size for P in like.factors]
    pieces = np.split(vector.astype(dtype), np.cumsum(sizes))
    factors = tuple(piece.reshape(P.shape) for piece, P in zip(pieces[:-1], like.factors, strict=True))
    rest, d = pieces[-1], like.coef.size
    coef = rest[:d] if problem.model.fit_linear else like.coef
    intercept = rest[-1:] if problem.model.fit_intercept else like.intercept
    return Parameters(factors, like.lambdas, coef.copy(), intercept.copy())
