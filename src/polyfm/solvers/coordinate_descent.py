"""Coordinate descent (section 7 and appendix D of the paper): no learning rate, the objective never increases."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.core.threads import Team
from polyfm.loops import columns, turns
from polyfm.loops.forms import Linear
from polyfm.loops.prior import Prior
from polyfm.loops.rule import Descend
from polyfm.solvers.base import Resume
from polyfm.solvers.directions import descend_intercept, descend_lambdas
from polyfm.solvers.parabolas import Descending, Descent, caution_of, floor_of, way_of
from polyfm.solvers.schedule import N_BLOCKS_OF_TURNS, N_SHARES, Plan, Schedule, Turns

DESCEND = Descend()
STREAM_BLOCKS = 4  # of samples, each with sums of its own


@dataclass
class State(Descending):
    """`f` is the first column of S."""

    S: np.ndarray  # (samples, 1 + cache): the prediction, less the response's shift, and the form's cache
    plan: Plan | None  # where descent goes down the columns of a sparse X


@dataclass(frozen=True)
class CoordinateDescent(Descent):
    fit_lambdas: bool = False
    n_threads: int = 1
    rule: Any = DESCEND  # what a step does with the parabola that it finds

    summary = "coordinate descent: everything but direct polynomial networks"
    epoch = "one pass over all parameters, one after the other"

    def init_state(self, problem: Problem, parameters: Parameters, resume: Resume | None = None) -> State:
        design = problem.design
        schedule = design.derived(Schedule)
        down_columns = design.is_sparse and schedule.fields is None and self._turns(problem) is None
        plan = schedule.plan() if down_columns else None  # before the state: to arrange X takes memory for a while
        # Sparse columns gather samples: what one needs lies in one cache line. Dense columns stream through all.
        n, width = design.shape[0], 1 + max((group.form.n_cached for group in problem.model.groups), default=0)
        S = np.zeros((n, width) if design.is_sparse else (width, n), dtype=design.dtype)
        S = S if design.is_sparse else S.T
        f = S[:, 0]
        if resume:
            f[:] = resume["f"]
        else:
            problem.shifted_predictions(parameters, f, self.n_threads)
        return State(parameters, f, floor_of(resume), None, S, plan, **way_of(resume))

    def leads_somewhere(self, problem: Problem, parameters: Parameters) -> bool:
        return isinstance(self.rule, Descend) and super().leads_somewhere(problem, parameters)

    def may_rise(self, problem: Problem) -> bool:
        return self._turns(problem) is not None

    def _turns(self, problem: Problem) -> Turns | None:
        """Columns to update at once; a rule that samples needs the exact slope of each."""
        return problem.design.derived(Schedule).turns if isinstance(self.rule, Descend) else None

    def sweep(self, problem: Problem, state: State) -> Iterator[None]:
        parameters, f, penalty = state.parameters, state.f, problem.penalty
        descend_intercept(problem, parameters, f)
        with Team(self._n_threads(problem)) as team:
            if problem.model.fit_linear:
                one = np.ones(1, dtype=f.dtype)
                coef = parameters.coef[None, None, :]
                self._sweep(problem, Linear(), penalty.linear_prior(f.dtype), state, coef, one, team, 0)
                yield
            for g, (group, P, lams) in enumerate(problem.model.each(parameters)):
                if g:
                    yield
                if self.fit_lambdas:
                    descend_lambdas(problem, g, P, lams, f)
                scaled = lams * np.asarray(group.form.scale, dtype=f.dtype)
                self._sweep(problem, group.form, penalty.prior(g, lams, f.dtype), state, P, scaled, team, g + 1)

    def _n_threads(self, problem: Problem) -> int:
        """As many as there is work for at the same time: more would only wait."""
        schedule = problem.design.derived(Schedule)
        if self._turns(problem) is not None:
            return min(self.n_threads, N_BLOCKS_OF_TURNS)
        if schedule.groups is None:
            return 1
        return min(self.n_threads, N_SHARES if schedule.fields is None else STREAM_BLOCKS)

    def _sweep(self, problem: Problem, form, prior: Prior, state: State, P, lams, team: Team, part: int) -> None:
        """All coordinates of P, basis by basis."""
        design, S = problem.design, state.S
        step = form, problem.response, prior, self.rule.of_part(part)
        whole = design.ones.indptr if P.shape[2] > design.shape[1] else None
        if not design.is_sparse:
            columns.epoch_dense(*step, tuple(design.columns), whole, S, P, lams)
            return
        schedule = design.derived(Schedule)
        entries = self._turns(problem)
        if entries is not None:
            room = (
                np.empty((team.n_threads, *P.shape[1:]), P.dtype), np.empty((2, N_BLOCKS_OF_TURNS, entries.widest, 2)),
                np.empty((team.n_threads, entries.widest)),
            )  # fmt: skip
            given = *step, tuple(entries), tuple(design.rows), schedule.row_blocks
            caution = caution_of(state.floor)
            team.together(lambda *me: turns.epoch_in_turns(*given, *me, S, P, lams, caution, room))
            return
        rows, order = tuple(design.rows), schedule.order
        if state.plan is not None:
            by_column, plan = tuple(design.columns), tuple(state.plan)
            team.together(lambda *me: columns.epoch_sparse(*step, by_column, rows, order, plan, whole, *me, S, P, lams))
            return
        fields, groups = schedule.fields, schedule.groups
        assert fields is not None
        assert groups is not None
        (n, d), bounds = design.shape, groups.bounds
        blocks = np.linspace(0, n, STREAM_BLOCKS + 1).astype(np.int64)
        sums = np.zeros(d + 1, dtype=S.dtype), np.zeros((STREAM_BLOCKS, d + 1, 2))
        team.together(
            lambda *me: columns.epoch_along(*step, *fields, rows, order, bounds, blocks, whole, *me, S, P, lams, *sums)
        )
