"""What all solvers share: the protocol, and the monitor that watches, prints, stops and keeps the history."""

import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from polyfm.core.model import Parameters
from polyfm.core.problem import Problem

BAR = 30  # characters
NEGLIGIBLE = 1e-12  # an objective this small a part of the first is zero for all purposes


class Result(NamedTuple):
    parameters: Parameters
    history: np.ndarray  # the objective after each epoch
    converged: bool
    interrupted: bool
    extra: dict[str, np.ndarray]  # what the solver needs beside the parameters to go on as if it had never stopped

    @property
    def n_iter(self) -> int:
        return len(self.history)


class Solver(Protocol):
    """A solver improves a state, which has `parameters`, and calls the monitor after each epoch until it says stop."""

    window: int  # epochs over which progress is judged: 1 where every epoch is a full pass over the parameters

    def init_state(self, problem: Problem, parameters: Parameters, extra: dict[str, np.ndarray] | None = None) -> Any:
        """A state that starts from the parameters, which it makes its own, or goes on exactly where `extra` was
        taken."""
        ...

    def minimise(self, problem: Problem, state: Any, monitor: "Monitor") -> None: ...

    def extra(self, state: Any) -> dict[str, np.ndarray]: ...


Hook = Callable[["Monitor", Any], bool]  # called after each epoch with the state; True asks to stop


@dataclass
class Monitor:
    """Called by a solver after each epoch with the objective and its state; says whether to stop.

    Training has converged when `window` epochs lower the best objective by less than the fraction `tol` of it. The
    criterion is relative, so that it means the same in any units of X and y.
    """

    first: float  # the objective at the start
    max_iter: int
    tol: float
    window: int = 1
    verbose: int = 0
    hooks: tuple[Hook, ...] = ()
    history: list[float] = field(default_factory=list)
    converged: bool = False
    note: str = ""  # what a hook wants printed, such as a validation score
    began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self._lowest = list(itertools.accumulate([self.first, *self.history], min))  # so far, after each epoch

    def __call__(self, objective: float, state: Any) -> bool:
        if not np.isfinite(objective):
            raise FloatingPointError(
                f"The objective became {objective} in epoch {len(self.history) + 1}: values overflow. Scale the "
                "features, or raise beta and alpha."
            )
        before = self.history[-1] if self.history else self.first
        self.history.append(float(objective))
        stop = [hook(self, state) for hook in self.hooks]
        self._lowest.append(min(self._lowest[-1], float(objective)))
        if len(self.history) >= self.window:
            earlier, latest = self._lowest[-1 - self.window], min(self.history[-self.window :])
            self.converged = bool(earlier - latest <= self.tol * abs(earlier))
        self.converged |= bool(objective <= NEGLIGIBLE * self.first)
        if any(stop):
            self.converged = True  # somebody is content with what there is
        done = self.converged or len(self.history) >= self.max_iter
        if self.verbose:
            self._show(objective, (objective - before) / abs(before) if before else 0.0, done)
        return done

    def _show(self, objective: float, change: float, done: bool) -> None:
        """A line an epoch and, where there is a terminal, a bar below it that the next line takes the place of."""
        seconds, epoch = time.perf_counter() - self.began, len(self.history)
        line = f"epoch {epoch:4d}   objective {objective:.8g}   change {change:+.2e}   {seconds:.2f} s{self.note}"
        if not sys.stdout.isatty():
            print(line, flush=True)
            return
        part = epoch / self.max_iter
        bar = (
            f"{'█' * round(BAR * part):░<{BAR}} {part:4.0%} of max_iter, at most {seconds * (1 / part - 1):.0f} s more"
        )
        print(f"\r\033[K{line}", end="\n" if done else f"\n{bar}", flush=True)


def run(solver: Solver, problem: Problem, start: Parameters, **options) -> Result:
    """Train from `start`, which stays as it is; for the options see `run_in_place`."""
    return run_in_place(solver, problem, start.copy(), **options)


def run_in_place(
    solver: Solver,
    problem: Problem,
    start: Parameters,
    *,
    max_iter: int,
    tol: float,
    verbose: int = 0,
    hooks: tuple[Hook, ...] = (),
    extra: dict[str, np.ndarray] | None = None,
    history: list[float] | None = None,
) -> Result:
    """Train from `start`, whose arrays are changed; Ctrl-C ends it with what has been learned so far."""
    first = problem.objective(start)
    if not np.isfinite(first):
        raise ValueError(
            "The objective is not finite at the start: the targets or features are too large for "
            f"{problem.design.dtype}. Scale them first, for instance with sklearn.preprocessing.StandardScaler."
        )
    monitor = Monitor(first, max_iter, tol, solver.window, verbose, hooks, list(history or []))
    state = solver.init_state(problem, start, extra)
    interrupted = False
    try:
        if len(monitor.history) < max_iter:
            solver.minimise(problem, state, monitor)
    except KeyboardInterrupt:
        interrupted = True
        if verbose and sys.stdout.isatty():
            print()  # leave the bar
        if not monitor.history:
            monitor.history.append(problem.objective(state.parameters))
    parameters = state.parameters._replace(factors=tuple(map(np.ascontiguousarray, state.parameters.factors)))
    return Result(parameters, np.array(monitor.history), monitor.converged, interrupted, solver.extra(state))
