"""Coordinate descent (section 7 and appendix D of the paper): no learning rate, the objective never increases."""

from dataclasses import dataclass

import numpy as np

from polyfm.core.design import SHARES, Plan
from polyfm.core.model import Group, Parameters, expand
from polyfm.core.problem import Problem
from polyfm.core.threads import Team
from polyfm.loops import columns as _columns
from polyfm.loops import rows as _rows
from polyfm.loops.forms import Linear
from polyfm.solvers.base import Monitor

STREAM_BLOCKS = 4  # of samples, each with sums of its own
LAMBDA_CYCLES = 10  # at most, an epoch; after the first epoch one or two suffice


@dataclass
class State:
    parameters: Parameters
    S: np.ndarray  # (samples, 1 + cache): the prediction, less the offset, and the form's cache
    plan: Plan | None  # where descent goes down the columns of a sparse X


@dataclass(frozen=True)
class CoordinateDescent:
    fit_lambdas: bool = False
    n_threads: int = 1
    window: int = 1

    def init_state(self, problem: Problem, parameters: Parameters, extra: dict[str, np.ndarray] | None = None) -> State:
        design = problem.design
        down_columns = design.is_sparse and design.fields is None
        plan = design.plan() if down_columns else None  # before the state: to arrange X takes memory for a while
        # Sparse columns gather samples: what one needs lies in one cache line. Dense columns stream through all.
        n, width = design.shape[0], 1 + max((group.n_cached for group in problem.model.groups), default=0)
        S = np.zeros((n, width) if design.is_sparse else (width, n), dtype=design.dtype)
        S = S if design.is_sparse else S.T
        if extra:
            S[:, 0] = extra["f"]
        else:
            problem.predict(parameters, S[:, 0])
        return State(parameters, S, plan)

    def _n_threads(self, problem: Problem) -> int:
        """As many as there is work for at the same time: more would only wait."""
        design = problem.design
        if design.groups is None:
            return 1
        return min(self.n_threads, SHARES if design.fields is None else STREAM_BLOCKS)

    def extra(self, state: State) -> dict[str, np.ndarray]:
        return {"f": state.S[:, 0].copy()}

    def minimise(self, problem: Problem, state: State, monitor: Monitor) -> None:
        while not monitor(self.update(problem, state), state):
            pass

    def update(self, problem: Problem, state: State) -> float:
        parameters, f = state.parameters, state.S[:, 0]
        descend_intercept(problem, parameters, f)
        with Team(self._n_threads(problem)) as team:
            if problem.model.fit_linear:
                one = np.ones(1, dtype=f.dtype)
                self._sweep(problem, Linear(), state, parameters.coef[None, None, :], one, one * problem.alpha, team)
            for group, P, lams in zip(problem.model.groups, parameters.factors, parameters.lambdas, strict=True):
                if self.fit_lambdas:
                    descend_lambdas(problem, group, P, lams, f)
                penalties = group.penalties(problem.beta, lams).astype(f.dtype)
                scaled = lams * np.asarray(group.scale, dtype=f.dtype)
                self._sweep(problem, group.form, state, P, scaled, penalties, team)
        if self._drifts(problem):
            problem.predict(parameters, f)
        return problem.total_loss(f) + problem.penalty(parameters)

    @staticmethod
    def _drifts(problem: Problem) -> bool:
        """Whether rounding could accumulate in the predictions: removing a feature from a product of many cancels
        digits. Then they are computed anew after every epoch."""
        return any(group.degree > 2 for group in problem.model.groups)

    def _sweep(self, problem: Problem, form, state: State, P, lams, penalties, team: Team) -> None:
        """All coordinates of P, basis by basis."""
        design, S = problem.design, state.S
        data = problem.target, problem.weight, S, P, lams, penalties
        whole = design.ones.indptr
        if not design.is_sparse:
            _columns.epoch_dense(form, problem.loss, tuple(design.columns), whole, *data)
            return
        rows, order = tuple(design.rows), None if design.groups is None else design.groups.order
        if state.plan is not None:
            columns, plan = tuple(design.columns), tuple(state.plan)
            team.meet(
                lambda *me: _columns.epoch_sparse(form, problem.loss, columns, rows, order, plan, whole, *me, *data)
            )
            return
        fields, groups = design.fields, design.groups
        assert fields is not None
        assert groups is not None
        (n, d), bounds = design.shape, groups.bounds
        blocks = np.linspace(0, n, STREAM_BLOCKS + 1).astype(np.int64)
        sums = np.zeros(d + 1, dtype=S.dtype), np.zeros((STREAM_BLOCKS, d + 1, 2))
        team.meet(
            lambda *me: _columns.epoch_along(
                form, problem.loss, *fields, rows, order, bounds, blocks, whole, *me, *data, *sums
            )
        )


def descend_intercept(problem: Problem, parameters: Parameters, f: np.ndarray) -> None:
    """Minimise over the intercept, where there is one to fit: exactly for the squared loss, by its majorant else."""
    if problem.model.fit_intercept:
        slope, bend = _rows.slope_and_bend(problem.loss, problem.target, problem.weight, f, None)
        if bend > 0:
            f -= slope / bend
            parameters.intercept[:] -= slope / bend


def descend_lambdas(problem: Problem, group: Group, P: np.ndarray, lams: np.ndarray, f: np.ndarray) -> None:
    """Minimise over lambda with P fixed: a lasso in theta_s = lambda_s |p_s|^2 (section 7), by soft-thresholding.

    Each K(p_s, .) is computed when its turn comes, so that memory stays O(samples).
    """
    norms = np.sum(np.square(P, dtype=np.float64), axis=(1, 2))
    first_decrease = 0.0
    for _ in range(LAMBDA_CYCLES):
        decrease = 0.0
        for s in range(group.n_bases):
            K = expand(group, P[s : s + 1], problem.design)[:, 0]
            slope, bend = _rows.slope_and_bend(problem.loss, problem.target, problem.weight, f, K)
            if bend <= _columns.TINY:
                continue
            old, threshold = float(lams[s]), problem.beta * norms[s] / bend
            new = old - slope / bend
            lams[s] = np.sign(new) * max(abs(new) - threshold, 0.0)
            delta = float(lams[s]) - old
            decrease += 0.5 * bend * delta * delta  # at least: the majorant is strongly convex
            f += np.asarray(delta, dtype=f.dtype) * K
        first_decrease = first_decrease or decrease
        if decrease <= 1e-3 * first_decrease:
            break
