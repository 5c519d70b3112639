"""What all solvers share: their facts and protocol, and the one loop that runs them."""

import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from polyfm.core.design import RowOrder
from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.solvers import interrupts
from polyfm.solvers.monitor import Monitor

Hook: TypeAlias = Callable[[Monitor, Any], bool]  # called after each epoch with the state; True asks to stop
Resume: TypeAlias = dict[
    str, np.ndarray
]  # what a solver needs beside the parameters to go on as if it had never stopped


KINDS = tuple(map(np.dtype, ("f8", "f4", "i8", "?")))  # of numbers that checkpoints hold
SLACK = {"float64": 1e-11, "float32": 1e-5}  # of the objective: rounding, where nothing is left to gain


class Result(NamedTuple):
    parameters: Parameters
    history: np.ndarray  # the objective after each epoch
    converged: bool
    interrupted: bool
    resume: Resume
    learned: Resume = {}  # what was learned beside the parameters, such as their variances

    @property
    def n_iter(self) -> int:
        return len(self.history)


class Solver:
    """Improves a state, which has `parameters`, epoch by epoch. A subclass is a frozen dataclass whose fields are its
    options; `fit_lambdas`, `n_threads`, `seed`, `batch_size` and `shares` are given to those that have them.

    The class attributes are facts from which validation, the command line, the documentation and the tests derive.
    """

    summary: ClassVar[str] = ""  # for a list of solvers: what it does and when to take it
    epoch: ClassVar[str] = "one pass over all parameters"  # what an epoch is
    needs_multilinear: ClassVar[bool] = False  # whether every form must be affine in each single parameter
    fits_lambdas: ClassVar[bool] = True
    monotone: ClassVar[bool] = True  # whether the objective never increases
    streams: ClassVar[bool] = False  # whether it can learn from rows that come once (`partial_fit`)
    row_order: ClassVar[RowOrder] = "sorted"  # of the design that it wants
    keeps_predictions: ClassVar[bool] = False  # up to date from epoch to epoch: rounding could add up in them
    resume_kinds: ClassVar[dict[str, str]] = {}  # numpy's letters for what `resume` gives beside floating-point numbers
    window: ClassVar[int | None] = 1  # epochs over which progress is judged; None: there is nothing to judge

    def init_state(self, problem: Problem, parameters: Parameters, resume: Resume | None = None) -> Any:
        """A state that starts from the parameters, which it makes its own, or goes on exactly where `resume` was
        taken."""
        raise NotImplementedError

    def objective(self, problem: Problem, state: Any) -> float:
        """The objective at the state's parameters, before the first epoch."""
        return problem.objective(state.parameters)

    def unit(self, problem: Problem) -> float | None:
        """What `tol` is a fraction of; None: of the objective itself."""
        return None

    def value(self, problem: Problem, parameters: Parameters) -> float:
        """The objective at any parameters that it has found."""
        return problem.objective(parameters)

    def update(self, problem: Problem, state: Any) -> float | None:
        """One epoch: the objective after it, or None where nothing lowers it any more."""
        raise NotImplementedError

    def descend(self, problem: Problem, state: Any) -> None:
        """One epoch, without the objective; asked of solvers that keep predictions, as is `refresh`."""
        raise NotImplementedError

    def refresh(self, problem: Problem, state: Any) -> float:
        """Compute anew what the state keeps beside the parameters; the objective at them."""
        raise NotImplementedError

    def resume(self, state: Any) -> Resume:
        """What, beside the parameters, `init_state` needs to go on exactly."""
        return {}

    def resume_shapes(self, problem: Problem, parameters: Parameters) -> dict[str, tuple[int | None, ...]]:
        """The shapes of what `resume` gives; None stands for any length."""
        return {}

    def check_resume(self, problem: Problem, parameters: Parameters, resume: Resume) -> None:
        """Refuse arrays that are not what `resume` can have given: loops would follow them all the same."""
        shapes = self.resume_shapes(problem, parameters)
        for name, array in resume.items():
            shape = shapes.get(name)
            fits = shape is not None and len(shape) == array.ndim
            if not fits or any(n not in (None, m) for n, m in zip(shape or (), array.shape, strict=True)):
                raise ValueError(f"the checkpoint's {name!r} has shape {array.shape}, where {shape} was expected.")
            kind = self.resume_kinds.get(name, "f")
            if array.dtype not in KINDS or array.dtype.kind != kind or np.isnan(array).any():
                raise ValueError(f"the checkpoint's {name!r} holds what is no number, or one of another kind.")

    def finish(self, problem: Problem, state: Any) -> float | None:
        """Called once after the last epoch; the objective, where the parameters have changed once more."""
        return None

    def settle(self, problem: Problem, state: Any) -> float:
        """The objective at parameters that are whole, whatever an interruption has made of the rest of the state."""
        return self.value(problem, state.parameters)

    def learned(self, problem: Problem, state: Any) -> Resume:
        """What was learned beside the parameters."""
        return {}

    def learned_before(self, problem: Problem, parameters: Parameters) -> Resume:
        """The same before the first epoch, where there is none."""
        return {}

    def running(self) -> AbstractContextManager:
        """What surrounds all epochs."""
        return nullcontext()

    def is_delicate(self, problem: Problem) -> bool:
        """Whether rounding could spoil an epoch."""
        return self.keeps_predictions and problem.is_delicate

    def update_in_place(self, problem: Problem, state: Any, before: float) -> tuple[Any, float | None]:
        return state, self.update(problem, state)

    def update_safely(self, problem: Problem, state: Any, before: float) -> tuple[Any, float | None]:
        """One epoch where rounding might spoil it: the objective is that of the parameters, and never increases. An
        epoch that raised it is taken back and tried once more from a fresh state; then training ends."""
        start = state.parameters.copy()
        allowed = before + SLACK[problem.design.dtype.name] * abs(before)
        for _ in range(2):
            self.descend(problem, state)
            objective = self.refresh(problem, state)
            if objective <= allowed:
                return state, objective
            state = self.init_state(problem, start.copy())
        warnings.warn(
            f"Rounding errors keep the objective from falling below {before:.6g}: features, or products of "
            f"{max(group.degree for group in problem.model.groups)} of them, differ too much in size. Training ended "
            "with the best parameters so far. Scale the features, for instance with "
            "sklearn.preprocessing.StandardScaler or MaxAbsScaler.",
            stacklevel=2,
        )
        return state, None

    @classmethod
    def options(cls) -> set[str]:
        return {field.name for field in fields(cls)}  # type: ignore[arg-type]  # subclasses are dataclasses


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether it is Ctrl-C, or what became of it: numba, handing a result over, turns it into a SystemError."""
    return error is not None and (isinstance(error, KeyboardInterrupt) or _is_interrupt(error.__cause__))


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
    resume: Resume | None = None,
    first: float | None = None,
    history: list[float] | None = None,
    resumable: bool = True,
    enough: int | None = None,
) -> Result:
    """Train from `start`, whose arrays are changed; Ctrl-C ends it with what has been learned so far.

    What it takes to go on may be much to copy: a run that is not `resumable` leaves it out.

    A run of which it is known how many epochs are `enough` converges then, whatever `tol` says.

    A run that goes on where another was stopped takes that one's `resume`, first objective and history.
    """
    if resume:
        solver.check_resume(problem, start, resume)
    state = solver.init_state(problem, start, resume)
    if first is None:
        first = solver.objective(problem, state)
    if not np.isfinite(first):
        raise ValueError(
            "The objective is not finite at the start: the targets or features are too large for "
            f"{problem.design.dtype}. Scale them first, for instance with sklearn.preprocessing.StandardScaler."
        )
    monitor = Monitor(
        first, max_iter, tol, solver.window, verbose, hooks, list(history or []), unit=solver.unit(problem),
        enough=enough,
    )  # fmt: skip
    epoch = solver.update_safely if solver.is_delicate(problem) else solver.update_in_place
    interrupted = False
    try:
        with solver.running(), np.errstate(over="ignore", invalid="ignore"):  # the monitor minds what is not finite
            while not monitor.done:
                state, objective = epoch(problem, state, monitor.last)
                monitor.note = getattr(state, "note", monitor.note)
                if objective is None:
                    monitor.nothing_left(partial(solver.value, problem), state)
                else:
                    monitor(objective, state)
                if interrupts.interrupted() and not monitor.converged:
                    interrupted = True
                    break
    except (KeyboardInterrupt, SystemError) as error:
        if not _is_interrupt(error):
            raise
        interrupted = True
        if verbose and sys.stdout.isatty():
            print()  # leave the bar
    last = solver.finish(problem, state)
    if interrupted:
        # It may have come in the middle of an epoch: the parameters are whole, what a state keeps beside them may not
        # belong to them.
        last = solver.settle(problem, state)
    if last is not None:
        monitor.history[-1:] = [last]
    parameters = state.parameters._replace(factors=tuple(map(np.ascontiguousarray, state.parameters.factors)))
    resume = solver.resume(state) if resumable and not interrupted else {}
    learned = solver.learned(problem, state)
    return Result(parameters, np.array(monitor.history), monitor.converged, interrupted, resume, learned)
