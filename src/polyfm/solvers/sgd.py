"""Stochastic descent with AdaGrad steps, for data that are large, stream in, or do not fit in memory.

There is no learning rate to choose: a step is a fraction of the size that parameters of this model have on these data,
which the start tells (see `initial`), and a run that diverges goes back to its best point with smaller steps.
"""

import warnings
from dataclasses import dataclass, field

import numpy as np

from polyfm.core.model import Parameters, add_expansion
from polyfm.core.problem import Problem
from polyfm.loops import stochastic as _stochastic
from polyfm.solvers.base import Monitor
from polyfm.training.initial import null_scale

STEP = 0.3  # of a parameter's natural size; see docs/benchmarks.md
MOST_HALVINGS = 60
TILE = 64  # rows


@dataclass
class State:
    parameters: Parameters
    accumulators: list[np.ndarray]  # one for each group, then coef and intercept
    sizes: np.ndarray  # natural sizes: one for each group, then coef and intercept
    step: float = STEP
    epoch: int = 0
    seed: int = 0
    halvings: int = 0
    counts: np.ndarray | None = None  # rows in which each feature has occurred, where they stream in
    n_seen: int = 0
    best: tuple[float, Parameters, list[np.ndarray]] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class SGD:
    seed: int = 0
    window: int = 5  # single epochs may raise the objective
    batch_size: int | str = "auto"

    def init_state(self, problem: Problem, parameters: Parameters, extra: dict[str, np.ndarray] | None = None) -> State:
        d = parameters.coef.size
        shapes = [(P.shape[2], P.shape[1], P.shape[0]) for P in parameters.factors]
        if extra:
            accumulators = [extra[f"accumulator{i}"].copy() for i in range(len(shapes) + 2)]
            numbers = extra["numbers"]
            return State(
                parameters, accumulators, extra["sizes"], float(numbers[0]), int(numbers[1]), int(numbers[2]),
                int(numbers[3]),
            )  # fmt: skip
        dtype = problem.design.dtype
        accumulators = [np.full(shape, 1e-30, dtype=dtype) for shape in (*shapes, (d,), (1,))]
        return State(parameters, accumulators, natural_sizes(problem, parameters), seed=self.seed)

    def extra(self, state: State) -> dict[str, np.ndarray]:
        numbers = np.array([state.step, state.epoch, state.seed, state.halvings], dtype=np.float64)
        arrays = {f"accumulator{i}": a.copy() for i, a in enumerate(state.accumulators)}
        return {**arrays, "sizes": state.sizes.copy(), "numbers": numbers}

    def minimise(self, problem: Problem, state: State, monitor: Monitor) -> None:
        counts = np.maximum(np.diff(problem.design.columns.indptr.astype(np.int64)), 1)
        state.best = (monitor.first, state.parameters.copy(), [a.copy() for a in state.accumulators])
        stop = False
        while not stop:
            order = tiled_permutation(problem.design.shape[0], [state.seed, state.epoch])
            while True:
                self.epoch(problem, state, order, counts, problem.design.shape[0])
                objective = problem.objective(state.parameters)
                if objective <= 1.5 * state.best[0] or state.halvings >= MOST_HALVINGS:
                    break
                self._back_off(state)
            if not np.isfinite(objective):
                self._back_off(state)
                objective = state.best[0]
            if objective < state.best[0]:
                state.best = (objective, state.parameters.copy(), [a.copy() for a in state.accumulators])
            stop = monitor(objective, state)
        if monitor.history[-1] > state.best[0]:
            state.parameters = state.best[1]
            monitor.history[-1] = state.best[0]
        if state.halvings:
            self._warn(state)

    def stream(self, problem: Problem, state: State) -> None:
        """One pass over rows that come once, with the counts of all rows so far. A pass that diverges is undone."""
        n = problem.design.shape[0]
        counts = np.diff(problem.design.columns.indptr.astype(np.int64))
        state.counts = counts if state.counts is None else state.counts + counts
        state.n_seen += n
        state.best = (
            problem.objective(state.parameters),
            state.parameters.copy(),
            [a.copy() for a in state.accumulators],
        )
        order = np.random.RandomState([state.seed, state.epoch]).permutation(n)
        self.epoch(problem, state, order, np.maximum(state.counts, 1), state.n_seen)
        objective = problem.objective(state.parameters)
        if not np.isfinite(objective) or objective > 10 * state.best[0]:
            self._back_off(state)
            self._warn(state)
        state.best = None

    @staticmethod
    def _warn(state: State) -> None:
        warnings.warn(
            f"Steps were too long and were halved {state.halvings} time(s); the best parameters were kept. If the "
            "fit is poor, scale the features or use solver='cd', which needs no steps.",
            UserWarning,
            stacklevel=2,
        )

    def _batch(self, problem: Problem) -> int:
        """Rows a step. Large batches run faster, but rows that share features then share a step as well."""
        if self.batch_size != "auto":
            return int(self.batch_size)
        n, d = problem.design.shape
        per_row = max(int(problem.design.rows.indptr[-1]) / max(n, 1), 1.0)
        return int(np.clip(d / per_row / 4, 1, 64))

    @staticmethod
    def _back_off(state: State) -> None:
        """Return to the best point, with steps half as long."""
        assert state.best is not None
        state.parameters = state.best[1].copy()
        state.accumulators = [a.copy() for a in state.best[2]]
        state.step /= 2
        state.halvings += 1

    def epoch(self, problem: Problem, state: State, order: np.ndarray, counts: np.ndarray, n_total: int) -> None:
        """One pass over the rows of the problem; `counts` and `n_total` say how often penalties are shared out."""
        design, model, parameters = problem.design, problem.model, state.parameters
        dtype, d = design.dtype, design.shape[1]
        batch = self._batch(problem)
        blocks = problem.blocks(parameters, batch, dtype)
        steps = tuple(
            _stochastic.Steps(
                state.accumulators[g],
                group.penalties(problem.beta, lams).astype(dtype),
                float(state.step * state.sizes[g]),
            )
            for g, (group, lams) in enumerate(zip(model.groups, parameters.lambdas, strict=True))
        )
        _stochastic.epoch(
            blocks, steps, problem.loss, *design.rows, problem.target, problem.weight, problem.offset,
            order, batch, counts, n_total, parameters.coef, np.zeros(d, dtype=dtype),
            state.accumulators[-2], float(problem.alpha), float(state.step * state.sizes[-2]) * model.fit_linear,
            parameters.intercept, state.accumulators[-1], float(state.step * state.sizes[-1]) * model.fit_intercept,
            np.empty(d, dtype=np.int64), np.zeros(d, dtype=np.int64),
        )  # fmt: skip
        for P, block in zip(parameters.factors, blocks, strict=True):
            P[:] = block.T.T[: len(P)]
        state.epoch += 1


def tiled_permutation(n: int, seed) -> np.ndarray:
    """Rows in runs of TILE, the runs in random order. The design has shuffled the rows already, once and for all;
    this varies the order from epoch to epoch, and memory is still read in runs."""
    starts = np.random.RandomState(seed).permutation(-(-n // TILE)) * TILE
    order = (starts[:, None] + np.arange(TILE)).ravel()
    return order[order < n]


def natural_sizes(problem: Problem, parameters: Parameters) -> np.ndarray:
    """How large parameters are when they explain the residuals of a constant: of each group, of coef, of the intercept.

    A group's start has a known share of that size (`initial_parameters`), and homogeneity tells the rest.
    """
    scale = null_scale(problem)
    sizes = []
    for group, P, lams in zip(problem.model.groups, parameters.factors, parameters.lambdas, strict=True):
        f = np.zeros(problem.design.shape[0], dtype=problem.design.dtype)
        add_expansion(group, P, lams, problem.design, f)
        rms, size = float(np.sqrt(np.mean(np.square(f, dtype=np.float64)))), float(np.sqrt(np.mean(np.square(P))))
        sizes.append(size * (scale / rms) ** (1 / group.degree) if rms > 0 else size)
    values = problem.design.rows.data
    if values is None:
        mean_square = float(problem.design.rows.indptr[-1]) / max(problem.design.shape[0], 1)
    else:
        mean_square = float(np.sum(np.square(values, dtype=np.float64))) / max(problem.design.shape[0], 1)
    return np.array([*sizes, scale / np.sqrt(mean_square) if mean_square > 0 else 1.0, 0.1 * scale])
