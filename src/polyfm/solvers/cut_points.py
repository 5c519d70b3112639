"""Descent for classes in an order: after each epoch, the cut points between them are moved as well.

The objective is convex in the cut points, and so small a part of it that one Newton step is all it takes.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solveh_banded
from scipy.special import expit, logit

from polyfm.core.design import frozen
from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.loops.losses import CumulativeLogit
from polyfm.solvers.base import Resume, Solver

HALVINGS = 30  # of a step that does not lower the objective


def marginal_cuts(codes: np.ndarray, weight: np.ndarray | None, n_classes: int) -> np.ndarray:
    """The best cut points of a model that predicts 0 for all. Half a sample more in each class keeps them apart where
    some class has no weight."""
    counts = np.bincount(codes.astype(np.int64), weight, n_classes) + 0.5
    return logit(np.cumsum(counts)[:-1] / counts.sum())


def improved_cuts(cuts: np.ndarray, codes: np.ndarray, weight: np.ndarray | None, f: np.ndarray) -> np.ndarray:
    """Cut points with a smaller loss, by one Newton step that is halved until it is; the same where there are none."""
    w = np.ones(len(f)) if weight is None else weight.astype(np.float64)
    by_class = [np.flatnonzero(codes == c) for c in range(len(cuts) + 1)]
    inner = np.array([w[rows].sum() for rows in by_class[1:-1]])

    def loss(cuts: np.ndarray) -> float:
        total = -float(inner @ np.log(-np.expm1(-np.diff(cuts)))) if len(inner) else 0.0
        for c, cut in enumerate(cuts):
            below, above = by_class[c], by_class[c + 1]
            total += float(w[below] @ np.logaddexp(0, f[below] - cut) + w[above] @ np.logaddexp(0, cut - f[above]))
        return total

    slopes, diagonal, beside = np.zeros(len(cuts)), np.zeros(len(cuts)), np.zeros(len(cuts))
    for c, cut in enumerate(cuts):
        for rows, sign in ((by_class[c], -1.0), (by_class[c + 1], 1.0)):
            p = expit(sign * (cut - f[rows]))
            slopes[c] += sign * float(w[rows] @ p)
            diagonal[c] += float(w[rows] @ (p * (1 - p)))
    if len(inner):
        gap = np.diff(cuts)
        slope = inner / np.expm1(gap)  # minus that of -log(1 - exp(-gap)) by the gap
        bend = slope * (1 + 1 / np.expm1(gap))
        slopes[:-1] += slope
        slopes[1:] -= slope
        diagonal[:-1] += bend
        diagonal[1:] += bend
        beside[1:] = -bend
    if not np.all(diagonal > 0):
        return cuts
    bands = [beside, diagonal * (1 + 1e-12)] if len(inner) else [diagonal]
    step = solveh_banded(np.stack(bands), slopes)
    before = loss(cuts)
    for _ in range(HALVINGS):
        trial = cuts - step
        if np.all(np.diff(trial) > 0) and loss(trial) < before:
            return trial
        step /= 2
    return cuts


@dataclass
class State:
    inner: Any
    cuts: np.ndarray

    @property
    def parameters(self) -> Parameters:
        return self.inner.parameters


@dataclass(frozen=True)
class WithCutPoints(Solver):
    """Another solver's epochs, each followed by a step of the cut points. It has to keep predictions."""

    inner: Any

    def init_state(self, problem: Problem, parameters: Parameters, resume: Resume | None = None) -> State:
        cuts = np.asarray(resume["cuts"] if resume else problem.loss.cuts, dtype=np.float64)
        rest = {name: array for name, array in resume.items() if name != "cuts"} if resume else None
        return State(self.inner.init_state(_with(problem, cuts), parameters, rest), cuts)

    def objective(self, problem: Problem, state: State) -> float:
        return self.inner.objective(_with(problem, state.cuts), state.inner)

    def is_delicate(self, problem: Problem) -> bool:
        return self.inner.is_delicate(problem)

    def update_in_place(self, problem: Problem, state: State, before: float) -> tuple[State, float]:
        return self._cut(problem, state, before, self.inner.update_in_place)

    def update_safely(self, problem: Problem, state: State, before: float) -> tuple[State, float]:
        return self._cut(problem, state, before, self.inner.update_safely)

    def _cut(self, problem: Problem, state: State, before: float, epoch: Any) -> tuple[State, float]:
        state.inner, objective = epoch(_with(problem, state.cuts), state.inner, before)
        if objective is None:  # nothing is left to gain
            return state, before
        cuts = improved_cuts(state.cuts, problem.y, problem.response.weight, state.inner.f.astype(np.float64))
        if cuts is state.cuts:
            return state, objective
        state.cuts = cuts
        return state, self.inner.refresh(_with(problem, cuts), state.inner)

    def resume(self, state: State) -> Resume:
        return self.inner.resume(state.inner) | {"cuts": state.cuts.copy()}

    def resume_shapes(self, problem: Problem, parameters: Parameters) -> dict[str, tuple[int | None, ...]]:
        return self.inner.resume_shapes(problem, parameters) | {"cuts": problem.loss.cuts.shape}

    @property
    def resume_kinds(self) -> dict[str, str]:  # type: ignore[override]
        return self.inner.resume_kinds

    def check_resume(self, problem: Problem, parameters: Parameters, resume: Resume) -> None:
        super().check_resume(problem, parameters, resume)
        if not np.all(np.isfinite(resume["cuts"])) or np.any(np.diff(resume["cuts"]) <= 0):
            raise ValueError("the checkpoint's 'cuts' do not rise.")

    def settle(self, problem: Problem, state: State) -> float:
        return self.inner.settle(_with(problem, state.cuts), state.inner)

    def learned(self, problem: Problem, state: State) -> Resume:
        return {"cuts": state.cuts.copy()}

    def running(self) -> AbstractContextManager:
        return self.inner.running()


def _with(problem: Problem, cuts: np.ndarray) -> Problem:
    loss = CumulativeLogit(frozen(cuts, np.float64))
    return replace(problem, response=problem.response._replace(loss=loss))
