"""Block descent: all bases of a feature are solved for jointly (Theorem 1 of the paper), and steps reach further."""

import itertools
from dataclasses import dataclass

import numpy as np

from polyfm.core.model import Group, Parameters, bases_last, weights
from polyfm.core.problem import Problem
from polyfm.core.threads import Team
from polyfm.loops import blocks as _blocks
from polyfm.solvers.base import Monitor
from polyfm.solvers.coordinate_descent import descend_intercept, descend_lambdas

REACH = 1.7  # of the way to each block's minimum, from the second epoch on; see docs/benchmarks.md


@dataclass
class State:
    parameters: Parameters
    f: np.ndarray  # predictions, less the offset
    epoch: int = 0


@dataclass(frozen=True)
class BlockDescent:
    """The objective never increases, as in coordinate descent. Memory: one number a sample beside X."""

    fit_lambdas: bool = False
    n_threads: int = 1
    window: int = 1

    def init_state(self, problem: Problem, parameters: Parameters, extra: dict[str, np.ndarray] | None = None) -> State:
        if extra:
            return State(parameters, extra["f"].copy(), int(extra["epoch"][0]))
        return State(parameters, problem.predict(parameters).astype(np.float64))

    def extra(self, state: State) -> dict[str, np.ndarray]:
        return {"f": state.f.copy(), "epoch": np.array([state.epoch])}

    def minimise(self, problem: Problem, state: State, monitor: Monitor) -> None:
        while not monitor(self.update(problem, state), state):
            pass

    def update(self, problem: Problem, state: State) -> float:
        parameters, f = state.parameters, state.f
        descend_intercept(problem, parameters, f)
        with Team(self.n_threads) as team:
            for group, P, lams in zip(problem.model.groups, parameters.factors, parameters.lambdas, strict=True):
                if self.fit_lambdas:
                    descend_lambdas(problem, group, P, lams, f)
                self._sweep(problem, group, P, lams, state, team)
        state.epoch += 1
        if problem.design.dtype == np.float32:
            f[:] = problem.predict(parameters)  # what the rounded parameters say
        return problem.total_loss(f) + problem.penalty(parameters)

    def _sweep(self, problem: Problem, group: Group, P: np.ndarray, lams: np.ndarray, state: State, team: Team) -> None:
        design, parameters, below = problem.design, state.parameters, group.below
        d, groups = design.shape[1], design.groups
        T = bases_last(P, np.float64)
        coef = parameters.coef.astype(np.float64)
        lams = lams.astype(np.float64)
        lambdas, penalties = weights(group, lams, np.float64), group.penalties(problem.beta, lams)
        alpha = float(problem.alpha) if problem.model.fit_linear else -1.0
        reach = REACH if state.epoch else 1.0
        rows, data = tuple(design.rows), (problem.target, problem.weight, state.f, T, lambdas, penalties, coef, alpha)
        order = None if groups is None else groups.order
        shares = design.shares(1 if groups is None else self.n_threads)
        whole = design.ones.indptr, None, None

        for t in range(1 if group.kernel == "anova" else group.n_factors):

            def sweep(start: int, stop: int, columns=tuple(design.columns), order=order, first=0, t=t) -> None:
                _blocks.sweep(
                    below.form, problem.loss, columns, rows, below.n_slots, order, start, stop, first, t, *data, reach
                )

            for share in shares:
                team.run(sweep, [(start, stop) for start, stop in itertools.pairwise(share) if start < stop])
            for q in range(group.n_dummies):
                sweep(0, 1, whole, None, d + q)
        P[:] = T.T[: len(P)]
        parameters.coef[:] = coef
