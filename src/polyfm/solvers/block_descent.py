"""Block descent: all bases of a feature are solved for jointly (Theorem 1 of the paper), and steps reach further."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyfm.core.design import sizes
from polyfm.core.layout import bases_last, weights
from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.core.threads import Team
from polyfm.loops import blocks
from polyfm.loops.rule import Descend
from polyfm.solvers.base import Resume, Solver
from polyfm.solvers.directions import descend_intercept, descend_lambdas
from polyfm.solvers.schedule import Schedule

REACH = 1.7  # of the way to each block's minimum, from the second epoch on; see docs/decisions


@dataclass
class State:
    parameters: Parameters
    f: np.ndarray  # predictions, less the response's shift
    epoch: int = 0


@dataclass(frozen=True)
class BlockDescent(Solver):
    """The objective never increases, as in coordinate descent. Memory: one number a sample beside X."""

    fit_lambdas: bool = False
    n_threads: int = 1
    rule: Any = None  # what a step does with the parabola that it finds; None: descend, and reach further

    summary = "block descent: the same, where rows have few features, such as one-hot fields"
    epoch = "one pass over the features, all parameters of one at once"
    needs_multilinear = True
    keeps_predictions = True
    resume_kinds = {"epoch": "i"}

    def init_state(self, problem: Problem, parameters: Parameters, resume: Resume | None = None) -> State:
        if resume:
            return State(parameters, resume["f"].copy(), int(resume["epoch"][0]))
        return State(parameters, problem.shifted_predictions(parameters).astype(np.float64, copy=False))

    def resume(self, state: State) -> Resume:
        return {"f": state.f, "epoch": np.array([state.epoch])}

    def resume_shapes(self, problem: Problem, parameters: Parameters) -> dict[str, tuple[int | None, ...]]:
        return {"f": (problem.design.shape[0],), "epoch": (1,)}

    def objective(self, problem: Problem, state: State) -> float:
        return problem.total_loss(state.f) + problem.penalty.value(state.parameters)

    def update(self, problem: Problem, state: State) -> float:
        self.descend(problem, state)
        if problem.design.dtype == np.float32:  # what the rounded parameters say
            return self.refresh(problem, state)
        return self.objective(problem, state)

    def is_delicate(self, problem: Problem) -> bool:
        """Without a penalty, what a feature has may have any sizes that cancel each other."""
        if super().is_delicate(problem) or any(np.min(ridge.strength) == 0 for ridge in problem.penalty.beta):
            return True
        design, alpha = problem.design, problem.penalty.alpha
        largest = float(design.derived(sizes)[1])
        curvature = problem.loss.curvature * largest * largest
        return problem.model.fit_linear and bool(np.min(alpha.strength) <= np.finfo(design.dtype).eps * curvature)

    def descend(self, problem: Problem, state: State) -> None:
        parameters, f = state.parameters, state.f
        descend_intercept(problem, parameters, f)
        with Team(self.n_threads) as team:
            for g, (_, P, lams) in enumerate(problem.model.each(parameters)):
                if self.fit_lambdas:
                    descend_lambdas(problem, g, P, lams, f)
                self._sweep(problem, g, P, lams, state, team)
        state.epoch += 1

    def refresh(self, problem: Problem, state: State) -> float:
        state.f[:] = problem.shifted_predictions(state.parameters)
        return self.objective(problem, state)

    def _sweep(self, problem: Problem, g: int, P: np.ndarray, lams: np.ndarray, state: State, team: Team) -> None:
        design, parameters, group = problem.design, state.parameters, problem.model.groups[g]
        schedule, d = design.derived(Schedule), design.shape[1]
        shares = schedule.shares(1 if schedule.groups is None else self.n_threads)
        T = bases_last(P, np.float64)
        coef = parameters.coef.astype(np.float64)
        lams = lams.astype(np.float64)
        form = group.form.cofactor_form
        rule = (self.rule or Descend(REACH if state.epoch else 1.0)).of_part(g + 1)
        step = (
            form, problem.response, problem.penalty.prior(g, lams), problem.penalty.linear_prior(),
            problem.model.fit_linear, rule,
        )  # fmt: skip
        rows, scaled = tuple(design.rows), weights(group, lams, np.float64)
        whole = design.ones.indptr, None, None

        for t in range(group.form.n_turns):
            turn = form.joint(t)

            def sweep(start: int, stop: int, columns=tuple(design.columns), order=schedule.order, first=0, turn=turn):
                low, high = turn
                room = blocks.room_for(form, low, high, T, scaled, len(P))
                blocks.sweep(*step, columns, rows, order, start, stop, first, *turn, state.f, T, len(P), coef, room)

            for share in shares:
                team.run(sweep, [(start, stop) for start, stop in itertools.pairwise(share) if start < stop])
            for q in range(group.n_dummies):
                sweep(0, 1, whole, None, d + q)
        P[:] = T.T[: len(P)]
        parameters.coef[:] = coef
