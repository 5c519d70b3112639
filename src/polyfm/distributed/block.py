"""Block descent over one-hot fields, one round a field.

Features of which no row has two can be solved for at the same time. Parts say what they know of them (`systems` in
`loops/blocks.py`), the driver adds it up and solves. Nothing is kept between rounds but the parameters.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyfm.core.layout import bases_last
from polyfm.core.parameters import Parameters
from polyfm.distributed.problem import DistributedDesign, DistributedProblem
from polyfm.loops import blocks
from polyfm.loops.rule import Descend
from polyfm.solvers.base import Resume, Solver
from polyfm.solvers.block_descent import REACH, BlockDescent
from polyfm.solvers.directions import descend_lambdas_of

MOST_FIELDS = 200  # rounds an epoch; where there would be more, another solver is there sooner
BYTES_AT_ONCE = 2**26  # of sums that a part hands over


@dataclass
class State:
    parameters: Parameters
    epoch: int = 0
    along_intercept: tuple[float, float, float] | None = None  # the loss, its slope and curvature, where known
    whole: tuple[Parameters, float] | None = None  # after the last epoch, with the objective


def fields_of(design: DistributedDesign) -> list[tuple[int, int]]:
    """Ranges of features of which no row has two, as few as there can be: one-hot fields stand side by side."""
    followers = design.engine("followers", design.layout, merge="least")
    first_follower = np.minimum.accumulate(followers[::-1])[::-1]  # of a feature and all after it
    bounds, d = [0], design.shape[1]
    while bounds[-1] < d:
        if len(bounds) > MOST_FIELDS:
            raise ValueError(
                f"solver='block' needs one-hot fields that stand side by side; these rows have more than "
                f"{MOST_FIELDS}, and each would take a round in every epoch. Use solver='lbfgs'."
            )
        bounds.append(int(first_follower[bounds[-1]]))
    return list(itertools.pairwise(bounds))


def counts_of(design: DistributedDesign) -> np.ndarray:
    return design.engine("counts", design.layout)


@dataclass(frozen=True)
class DistributedBlockDescent(Solver):
    """As `BlockDescent` on rows in memory, to rounding."""

    fit_lambdas: bool = False

    summary = BlockDescent.summary
    epoch = "one pass over the features, a field at once"
    needs_multilinear = True
    resume_kinds = {"epoch": "i"}

    def init_state(self, problem: Any, parameters: Parameters, resume: Resume | None = None) -> State:
        return State(parameters, int(resume["epoch"][0]) if resume else 0)

    def resume(self, state: State) -> Resume:
        return {"epoch": np.array([state.epoch])}

    def resume_shapes(self, problem: Any, parameters: Parameters) -> dict[str, tuple[int | None, ...]]:
        return {"epoch": (1,)}

    def objective(self, problem: Any, state: State) -> float:
        """The round that tells the objective is the first of the next epoch, too."""
        state.along_intercept = problem.ask("along_intercept", state.parameters)
        objective = state.along_intercept[0] + problem.penalty.value(state.parameters)
        state.whole = state.parameters.copy(), objective
        return objective

    def settle(self, problem: Any, state: State) -> float:
        """Back to the last whole epoch: workers may be gone."""
        if state.whole is None:
            return self.value(problem, state.parameters)
        state.parameters, objective = state.whole
        return objective

    def update(self, problem: Any, state: State) -> float:
        parameters = state.parameters
        _, slope, curvature = state.along_intercept or problem.ask("along_intercept", parameters)
        if problem.model.fit_intercept and curvature > 0:
            parameters.intercept[:] -= slope / curvature
        for g in range(len(problem.model.groups)):
            if self.fit_lambdas:
                descend_lambdas_of(problem, parameters, g)
            self._sweep(problem, g, state)
        state.epoch += 1
        return self.objective(problem, state)

    def _sweep(self, problem: DistributedProblem, g: int, state: State) -> None:
        design, parameters, group = problem.design, state.parameters, problem.model.groups[g]
        d, form = design.shape[1], group.form.cofactor_form
        rule = Descend(REACH if state.epoch else 1.0)
        lams = parameters.lambdas[g].astype(np.float64)
        prior, linear_prior = problem.penalty.prior(g, lams), problem.penalty.linear_prior()
        T, coef = bases_last(parameters.factors[g], np.float64), parameters.coef.astype(np.float64)
        counts = design.derived(counts_of)
        everywhere = np.ones(1, dtype=np.int64)

        def visit(t: int, start: int, stop: int) -> None:
            sums = problem.ask("systems", parameters, g, t, start, stop)
            first = 0 if start < d else start
            low, high = form.joint(t)
            blocks.solve(
                prior, linear_prior, problem.model.fit_linear, rule, start - first, stop - first, first, low, high,
                np.ascontiguousarray(sums), everywhere if first else counts, T, group.n_bases, coef,
                blocks.room_for(form, low, high, T, lams, group.n_bases),
            )  # fmt: skip
            parameters.factors[g][:] = T.T[: group.n_bases]
            parameters.coef[:] = coef

        for t in range(group.form.n_turns):
            low, high = form.joint(t)
            n = (high - low) * group.n_bases + 1
            at_once = max(1, BYTES_AT_ONCE // (8 * (n * (n + 3) // 2)))
            for start, stop in design.derived(fields_of):
                for lo in range(start, stop, at_once):
                    visit(t, lo, min(lo + at_once, stop))
            for q in range(group.n_dummies):
                visit(t, d + q, d + q + 1)

    def is_delicate(self, problem: Any) -> bool:
        return False  # predictions are made anew for every field
