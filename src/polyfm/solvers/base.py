"""What all solvers share: the protocol, and the one loop that runs them."""

import time
from typing import Any, NamedTuple, Protocol

import numpy as np

from polyfm.model import Parameters
from polyfm.problem import Problem

NEGLIGIBLE = 1e-12  # an objective this small a part of the first is zero for all purposes


class Result(NamedTuple):
    parameters: Parameters
    history: np.ndarray  # the objective after each epoch
    converged: bool

    @property
    def n_iter(self) -> int:
        return len(self.history)


class Solver(Protocol):
    """A solver owns its state; `update` improves it by one epoch and returns the objective."""

    def init_state(self, problem: Problem, parameters: Parameters) -> Any: ...

    def update(self, problem: Problem, state: Any) -> float: ...

    def parameters(self, state: Any) -> Parameters: ...


def run(solver: Solver, problem: Problem, start: Parameters, *, max_iter: int, tol: float, verbose: int) -> Result:
    """Run epochs until one lowers the objective by less than the fraction `tol` of it, or `max_iter` have passed.

    The criterion is relative, so that it means the same in any units of X and y.
    """
    before = problem.objective(start)
    if not np.isfinite(before):
        raise ValueError(
            "The objective is not finite at the start: the targets or features are too large for "
            f"{problem.design.dtype}. Scale them first, for instance with sklearn.preprocessing.StandardScaler."
        )
    first = before
    state = solver.init_state(problem, start)
    history: list[float] = []
    began = time.perf_counter()
    converged = False
    while len(history) < max_iter and not converged:
        objective = solver.update(problem, state)
        if not np.isfinite(objective):
            raise FloatingPointError(
                f"The objective became {objective} in epoch {len(history) + 1}: values overflow "
                f"{problem.design.dtype}. Scale the features, or raise beta and alpha."
            )
        history.append(objective)
        converged = before - objective <= tol * abs(before) or objective <= NEGLIGIBLE * first
        if verbose:
            change = (objective - before) / abs(before) if before else 0.0
            print(
                f"epoch {len(history):4d}   objective {objective:.8g}   change {change:+.2e}   "
                f"{time.perf_counter() - began:.2f} s",
                flush=True,
            )
        before = objective
    return Result(solver.parameters(state), np.array(history), converged)
