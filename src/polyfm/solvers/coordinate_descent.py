"""Coordinate descent (section 7 and appendix D of the paper): no learning rate, the objective never increases."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from polyfm import _columns, _rows
from polyfm.forms import Linear
from polyfm.model import Group, Parameters, expand
from polyfm.problem import Problem
from polyfm.solvers.base import Monitor
from polyfm.threads import Team

STREAM_BLOCKS = 4  # of samples, each with sums of its own
Sweep = Callable[..., None]  # of B (factors x features), t, lam and penalty
LAMBDA_CYCLES = 10  # at most, an epoch; after the first epoch one or two suffice


@dataclass
class State:
    parameters: Parameters
    S: np.ndarray  # (samples, 1 + cache): the prediction, less the offset, and the form's cache


@dataclass(frozen=True)
class CoordinateDescent:
    fit_lambdas: bool = False
    n_threads: int = 1
    window: int = 1

    def init_state(self, problem: Problem, parameters: Parameters, extra: dict[str, np.ndarray] | None = None) -> State:
        width = 1 + max((group.n_cached for group in problem.model.groups), default=0)
        # Sparse columns gather samples: what one needs lies in one cache line. Dense columns stream through all.
        n = problem.design.shape[0]
        shape = (n, width) if problem.design.is_sparse else (width, n)
        S = np.zeros(shape, dtype=problem.design.dtype)
        S = S if problem.design.is_sparse else S.T
        S[:, 0] = extra["f"] if extra else problem.predict(parameters)
        return State(parameters.copy(), S)

    def extra(self, state: State) -> dict[str, np.ndarray]:
        return {"f": state.S[:, 0].copy()}

    def minimise(self, problem: Problem, state: State, monitor: Monitor) -> None:
        while not monitor(self.update(problem, state), state):
            pass

    def update(self, problem: Problem, state: State) -> float:
        parameters, S = state.parameters, state.S
        f = S[:, 0]
        descend_intercept(problem, parameters, f)
        if problem.model.fit_linear:
            one = np.ones(1, dtype=f.dtype)
            self._sweep(problem, Linear(), S, parameters.coef[None, None, :], one, one * problem.alpha)
        for group, P, lams in zip(problem.model.groups, parameters.factors, parameters.lambdas, strict=True):
            if self.fit_lambdas:
                descend_lambdas(problem, group, P, lams, f)
            penalties = group.penalties(problem.beta, lams).astype(f.dtype)
            self._sweep(problem, group.form, S, P, lams * np.asarray(group.scale, dtype=f.dtype), penalties)
        if self._drifts(problem):
            f[:] = problem.predict(parameters)
        return problem.total_loss(f) + problem.penalty(parameters)

    @staticmethod
    def _drifts(problem: Problem) -> bool:
        """Whether rounding could accumulate in the predictions: removing a feature from a product of many cancels
        digits. Then they are computed anew after every epoch."""
        return any(group.degree > 2 for group in problem.model.groups)

    def _sweep(self, problem: Problem, form, S, P, lams, penalties) -> None:
        """All coordinates of P, basis by basis."""
        design = problem.design
        data = problem.target, problem.weight, S
        fields = design.fields if design.is_sparse else None
        if fields is None and (self.n_threads == 1 or design.groups is None):
            epoch = _columns.epoch_sparse if design.is_sparse else _columns.epoch_dense
            rows = tuple(design.rows if design.is_sparse else design.ones)
            order = None if design.groups is None else design.groups.order
            columns = tuple(design.columns)
            epoch(form, problem.loss, columns, rows, order, design.ones.indptr, *data, P, lams, penalties)
            return
        (n, d), rows = design.shape, tuple(design.rows)
        whole, dummies = (design.ones.indptr, None, None), P.shape[2] - d
        blocks = list(itertools.pairwise(np.linspace(0, n, self.n_threads + 1).astype(np.int64)))
        with Team(self.n_threads) as team:
            sweep = (
                self._down_columns(problem, form, S, team)
                if fields is None
                else self._along_samples(problem, form, S, team)
            )
            for B, lam, penalty in zip(P, lams, penalties, strict=True):
                if form != Linear():
                    team.run(lambda a, b, B=B: _columns.refresh(form, rows, dummies, a, b, S, B), blocks)
                for t in range(P.shape[1]):
                    sweep(B, t, lam, penalty)
                    for j in range(d, d + dummies):
                        _columns.sweep(form, problem.loss, whole, None, 0, 1, *data, B, t, j, lam, penalty)

    def _down_columns(self, problem: Problem, form, S, team: Team) -> Sweep:
        """A sweep over all features of one factor: threads share out the columns of a group."""
        design = problem.design
        assert design.groups is not None
        columns, order, shares = tuple(design.columns), design.groups.order, design.shares(self.n_threads)
        data = problem.target, problem.weight, S

        def sweep(B, t, lam, penalty) -> None:
            def run(start: int, stop: int) -> None:
                _columns.sweep(form, problem.loss, columns, order, start, stop, *data, B, t, 0, lam, penalty)

            for share in shares:
                team.run(run, share)

        return sweep

    def _along_samples(self, problem: Problem, form, S, team: Team) -> Sweep:
        """The same where X consists of one-hot fields: threads share out the samples."""
        fields, groups = problem.design.fields, problem.design.groups
        assert fields is not None
        assert groups is not None
        (features, values), (order, bounds, _) = fields, groups
        n, d = problem.design.shape
        blocks = np.linspace(0, n, STREAM_BLOCKS + 1).astype(np.int64)
        data = problem.target, problem.weight, S
        steps, sums = np.zeros(d + 1, dtype=S.dtype), np.zeros((STREAM_BLOCKS, d + 1, 2))

        def sweep(B, t, lam, penalty) -> None:
            for g in range(len(features) + 1):

                def run(first: int, g=g) -> None:
                    share = blocks, first, self.n_threads
                    _columns.stream(form, problem.loss, features, values, g, *share, *data, B, t, lam, steps, sums)

                team.run(run, [(first,) for first in range(self.n_threads)])
                if g > 0:
                    _columns.take(order, bounds[g - 1], bounds[g], B, t, steps)
                if g < len(features):
                    _columns.step(problem.loss, order, bounds[g], bounds[g + 1], B, t, lam, penalty, steps, sums)

        return sweep


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
