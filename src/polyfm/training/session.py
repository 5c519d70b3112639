"""Session: the targets of a fit, each from its start to its outcome: hooks, checkpoint, interruption."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from polyfm.core.design import Design
from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.solvers import Hook, Result, Resume, interrupts, run_in_place
from polyfm.training.checkpoint import Checkpoint, Outcome, Running, Saved
from polyfm.training.hooks import EarlyStopping, Report, Watch
from polyfm.training.recipe import Recipe

Start = tuple[Parameters | None, Resume | None]  # None: a fresh start; what lets a solver go on exactly


class Validation(NamedTuple):
    """Rows that are not trained on, to judge early stopping by."""

    design: Design
    targets: list[np.ndarray]
    weight: np.ndarray | None = None


class Samples(NamedTuple):
    """What a session trains on, in memory: rows with the targets of one or several models."""

    design: Design | Any  # or what trains another kind of problem
    targets: list[np.ndarray]
    weight: np.ndarray | None = None
    rows: Any = slice(None)  # of the targets and weights, that the design holds
    validation: Validation | None = None

    @property
    def n_targets(self) -> int:
        return len(self.targets)

    def problem(self, recipe: Recipe, index: int) -> Problem:
        weight = None if self.weight is None else self.weight[self.rows]
        return recipe.problem(self.design, self.targets[index][self.rows], weight)

    def judged(self, recipe: Recipe, index: int) -> Problem | None:
        """What early stopping judges a target by."""
        if self.validation is None:
            return None
        return recipe.problem(self.validation.design, self.validation.targets[index], self.validation.weight)


@dataclass
class Session:
    """Trains all targets of a fit, one after the other, by one recipe and on one design."""

    recipe: Recipe | Any  # or what trains another kind of problem, with the same methods
    max_iter: int
    tol: float
    verbose: int = 0
    patience: int | None = None  # epochs; None: no early stopping
    checkpoint: Checkpoint | None = None
    watch: Watch | None = None
    more_hooks: Callable[[int], list[Hook]] = field(default=lambda target: [])
    enough: tuple[int, ...] | None = None  # epochs of each target, where held-out rows have told

    def run(
        self,
        samples: Samples | Any,  # or rows that are elsewhere, with the same members
        seeds: np.ndarray,
        *,
        starts: list[Start] | None = None,
        saved: Saved | None = None,
    ) -> list[Outcome]:
        """Outcomes of all targets. After Ctrl-C, those that had not begun are where they would have started."""
        recipe, name = self.recipe, self.recipe.solver_name(samples.design)
        outcomes = list(saved.finished) if saved else []
        for index in range(len(outcomes), samples.n_targets):
            seed = int(seeds[index])
            task, solver = samples.problem(recipe, index), recipe.make_solver(name, seed)
            parameters, resume = starts[index] if starts else (None, None)
            running = saved.running if saved and index == len(saved.finished) else None
            if running is not None:
                parameters, resume = running.parameters, running.resume
            if parameters is None:
                parameters = recipe.start(task, seed)
            if outcomes and (outcomes[-1].result.interrupted or interrupts.interrupted()):
                learned = solver.learned_before(task, parameters)
                history = np.array([solver.value(task, parameters)])
                outcomes.append(Outcome(Result(parameters, history, False, True, {}, learned)))
                continue
            judged = samples.judged(recipe, index)
            stopping = None
            if judged is not None and self.patience is not None:
                stopping = EarlyStopping(judged, self.patience)
            hooks = self._hooks(index, samples.n_targets, stopping, running)
            if self.checkpoint:
                self.checkpoint.begin_target(solver, outcomes, hooks, parameters)
            result = run_in_place(
                solver, task, parameters, max_iter=self._most(index), tol=self.tol, verbose=self.verbose,
                hooks=(*hooks, *([self.checkpoint] if self.checkpoint else [])), resume=resume,
                first=running.first if running else None, history=running.history if running else None,
                enough=self.enough[index] if self.enough else None,
            )  # fmt: skip
            outcomes.append(_outcome(task, result, stopping))
        return outcomes

    def _hooks(self, index: int, n_targets: int, stopping: EarlyStopping | None, running: Running | None) -> list[Any]:
        hooks: list[Any] = [] if stopping is None else [stopping]
        hooks += self.more_hooks(index)
        if self.watch is not None:
            epochs = [self._most(target) for target in range(n_targets)]
            hooks.append(Report(self.watch, sum(epochs[:index]), sum(epochs)))
        for hook in hooks:
            if running is not None and type(hook).__name__ in running.hooks:
                hook.restore(running.hooks[type(hook).__name__])
        return hooks

    def _most(self, index: int) -> int:
        """Epochs of a target, where `tol` may end it earlier."""
        return min(self.max_iter, self.enough[index]) if self.enough else self.max_iter


def _outcome(problem: Problem, result: Result, stopping: EarlyStopping | None) -> Outcome:
    """The result, or with early stopping that of the epoch which was best on the held-out rows."""
    if stopping is None or stopping.best_parameters is None:
        return Outcome(result)
    # What the solver would go on from belongs to the last epoch.
    result = result._replace(parameters=stopping.best_parameters, resume={})
    result.history[-1] = problem.objective(result.parameters)
    return Outcome(result, np.array(stopping.losses))
