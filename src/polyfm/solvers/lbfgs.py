"""L-BFGS on all smooth parameters at once (scipy's), for every kernel, method and loss."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from polyfm.core.model import Parameters
from polyfm.core.problem import Problem
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
        return State(parameters)

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
        model, stopped = problem.model, False

        def value_and_gradient(vector: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = problem.value_and_gradient(model.unpack(vector, state.parameters), self.n_threads)
            return value, model.pack(gradient)

        def after(intermediate_result) -> None:
            nonlocal stopped
            state.parameters = model.unpack(intermediate_result.x, state.parameters)
            stopped = monitor(float(intermediate_result.fun), state)
            if stopped:
                raise StopIteration

        minimize(
            value_and_gradient,
            model.pack(state.parameters),
            jac=True,
            method="L-BFGS-B",
            callback=after,
            options={"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": 0.0, "gtol": 0.0, "maxcor": 20},
        )
        return stopped
