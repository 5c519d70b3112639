"""Descent on losses that are no parabola, by working responses.

A sweep minimises over one parameter after the other, exactly where the loss is quadratic. Any other loss is replaced
for an epoch by a parabola for each sample, with the loss's slope and second derivative at the prediction of the moment
(as in newGLMNET). Sweeps are then those of a weighted squared loss. Where parabolas were too flat, and the objective
rose, the epoch is taken back and done again with steeper ones; the steepest lie above the loss, so that the objective
never increases. Block descent does without: it takes the slopes anew for each feature, and its steps reach beyond what
the loss's bound on the second derivative allows them (docs/decisions/0010).

Every few epochs their course is extrapolated, and gone where the objective is lower (docs/decisions/0017).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.loops import working
from polyfm.loops.losses import Squared
from polyfm.loops.response import Response
from polyfm.solvers.base import Resume, Solver
from polyfm.solvers.extrapolation import FIRST, STEPS, extrapolated

FLOOR = 1e-3  # of the loss's bound on its curvature: the second derivative that a parabola has at least
STEEPER = 10.0  # times, after an epoch that raised the objective


@dataclass
class Descending:
    """The state of a descent: what follows the parameters, and how steep parabolas have to be."""

    parameters: Parameters
    f: np.ndarray  # (samples,): predictions, less the response's shift
    floor: float  # of the parabolas' second derivatives, as a part of the loss's bound
    value: float | None  # the objective, where it is known
    epochs: int = field(default=0, kw_only=True)  # so far
    course: list[np.ndarray] = field(default_factory=list, kw_only=True)  # what `_flat` gives after the last epochs


def caution_of(floor: float) -> float:
    """How much shorter to make the steps of columns that are updated at once, where an epoch has raised the
    objective."""
    return float((floor / FLOOR) ** 0.5)


def way_of(resume: Resume | None) -> dict[str, Any]:
    """How far a run has come that goes on, and its last epochs; one stopped by an earlier version has to begin anew."""
    if not resume or not {"epochs", "course"} <= resume.keys():
        return {}
    return {"epochs": int(resume["epochs"][0]), "course": list(resume["course"].copy())}


def floor_of(resume: Resume | None) -> float:
    """How steep parabolas have to be, of a run that goes on; one stopped by an earlier version does not know."""
    return float(np.clip(resume["floor"][0], FLOOR, 1.0)) if resume and "floor" in resume else FLOOR


class Descent(Solver):
    """A solver whose `sweep` knows quadratic losses, for any loss."""

    n_threads: int
    needs_multilinear = True
    keeps_predictions = True
    resume_kinds = {"epochs": "i"}

    def sweep(self, problem: Problem, state: Any) -> Iterator[None]:
        """One pass over all parameters, exact for a quadratic loss; it stops on its way where parabolas can be renewed.

        `state.f` holds what the response of the problem asks for.
        """
        raise NotImplementedError

    def resume(self, state: Any) -> Resume:
        course = np.array(state.course) if state.course else np.empty((0, 0))
        return {
            "f": state.f.copy(), "floor": np.array([state.floor]), "course": course, "epochs": np.array([state.epochs]),
        }  # fmt: skip

    def resume_shapes(self, problem: Problem, parameters: Parameters) -> dict[str, tuple[int | None, ...]]:
        return {"f": (problem.design.shape[0],), "floor": (1,), "course": (None, None), "epochs": (1,)}

    def check_resume(self, problem: Problem, parameters: Parameters, resume: Resume) -> None:
        super().check_resume(problem, parameters, resume)
        course = resume.get("course", np.empty((0, 0)))
        size = sum(array.size for array in _smooth(parameters))
        if len(course) and course.shape[1] != size:
            raise ValueError(f"the checkpoint's 'course' has {course.shape[1]} parameters, where {size} were expected.")

    def objective(self, problem: Problem, state: Any) -> float:
        if state.value is None:
            state.value = problem.total_loss(state.f) + problem.penalty.value(state.parameters)
        return state.value

    def update(self, problem: Problem, state: Any) -> float | None:
        self.descend(problem, state)
        state.epochs += 1
        if state.epochs >= FIRST and self.leads_somewhere(problem, state.parameters):
            state.course.append(_flat(state.parameters))
            if len(state.course) > STEPS:
                self.extrapolate(problem, state)
                state.course = [_flat(state.parameters)]
        return self.objective(problem, state)

    def extrapolate(self, problem: Problem, state: Any) -> None:
        """Go where the last epochs lead to, if the objective is lower there."""
        f, before, start, lower = state.f, self.objective(problem, state), state.parameters.copy(), False
        predictions = f.copy()
        try:
            for point in extrapolated(state.course, _strength(problem, start)):
                _unflatten(point, state.parameters)
                lower = self.refresh(problem, state) < before
                if lower:
                    break
        finally:
            if not lower:
                _restore(state.parameters, start)
                f[:] = predictions
                state.value = before

    def refresh(self, problem: Problem, state: Any) -> float:
        problem.shifted_predictions(state.parameters, state.f, self.n_threads)
        state.value = None
        return self.objective(problem, state)

    def leads_somewhere(self, problem: Problem, parameters: Parameters) -> bool:
        """Whether to extrapolate. Copies of the parameters shall not take more memory than X, nor more time. X is
        counted with its weights: one of 2 is the row twice."""
        weight, lengths = problem.response.weight, np.diff(problem.design.rows.indptr)
        nnz = np.sum(lengths) if weight is None else weight @ lengths
        return bool(sum(array.size for array in _smooth(parameters)) <= nnz)

    def may_rise(self, problem: Problem) -> bool:
        """Whether a sweep can raise the objective though the loss is quadratic."""
        return False

    def descend(self, problem: Problem, state: Any) -> None:
        quadratic = getattr(problem.loss, "quadratic", False)
        sweep = self._sweep_whole if quadratic else self._sweep_parabolas
        if quadratic and not self.may_rise(problem):
            state.value = None
            sweep(problem, state)
            return
        f, before = state.f, self.objective(problem, state)
        start, predictions = state.parameters.copy(), f.copy()
        taken = False
        try:
            while not taken:
                sweep(problem, state)
                state.value = None
                taken = self.objective(problem, state) <= before
                if taken:
                    state.floor = max(state.floor / STEEPER, FLOOR)
                elif state.floor == 1.0:  # only rounding is left
                    break
                else:
                    state.floor = min(state.floor * STEEPER, 1.0)
                    _restore(state.parameters, start)
                    f[:] = predictions
        finally:
            if not taken:  # or Ctrl-C came: half an epoch may have raised the objective
                _restore(state.parameters, start)
                f[:] = predictions
                state.value = before

    def _sweep_whole(self, problem: Problem, state: Any) -> None:
        for _ in self.sweep(problem, state):
            pass

    def _sweep_parabolas(self, problem: Problem, state: Any) -> None:
        f = state.f
        h, rest = np.empty(f.shape, problem.design.dtype), np.empty(f.shape, f.dtype)
        weight = h.view()
        weight.flags.writeable = False
        parabolas = replace(problem, response=Response(Squared(), None, weight, None))
        working.to_residuals(problem.response, state.floor, f, h, rest)
        for _ in self.sweep(parabolas, state):
            f += rest
            working.to_residuals(problem.response, state.floor, f, h, rest)
        f += rest


def _smooth(parameters: Parameters) -> tuple[np.ndarray, ...]:
    return *parameters.factors, parameters.coef, parameters.intercept


def _flat(parameters: Parameters) -> np.ndarray:
    return np.concatenate([array.ravel() for array in _smooth(parameters)], dtype=np.float64)


def _strength(problem: Problem, parameters: Parameters) -> np.ndarray:
    """Of the penalty, for every number that `_flat` gives: the intercept has none."""
    zero = parameters._replace(factors=tuple(map(np.zeros_like, parameters.factors)), coef=0 * parameters.coef)
    one = zero._replace(factors=tuple(map(np.ones_like, parameters.factors)), coef=np.ones_like(parameters.coef))
    of_zero, of_one = problem.penalty.gradient(zero), problem.penalty.gradient(one)
    factors = tuple(map(np.subtract, of_one.factors, of_zero.factors))
    return _flat(zero._replace(factors=factors, coef=of_one.coef - of_zero.coef, intercept=np.zeros(1)))


def _unflatten(point: np.ndarray, parameters: Parameters) -> None:
    for array in _smooth(parameters):
        part, point = np.split(point, [array.size])
        array[:] = part.reshape(array.shape)


def _restore(parameters: Parameters, to: Parameters) -> None:
    pairs = zip((*parameters.factors, *parameters.lambdas), (*to.factors, *to.lambdas), strict=True)
    for array, value in (*pairs, (parameters.coef, to.coef), (parameters.intercept, to.intercept)):
        array[:] = value
