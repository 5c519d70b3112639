"""Stochastic descent with AdaGrad steps, for data that are large, stream in, or do not fit in memory.

There is no learning rate to choose: a step is a fraction of the size that parameters of this model have on these data,
which the start tells (see `training.initial`), and a run that diverges goes back to its best point with smaller steps.
"""

import warnings
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from polyfm.core.baseline import null_scale
from polyfm.core.layout import expansion
from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.loops import stochastic
from polyfm.solvers.base import Resume, Solver

STEP = 0.3  # of a parameter's natural size; see docs/decisions
MOST_HALVINGS = 60
ROWS_A_RUN = 64


class Point(NamedTuple):
    """Where a run can go back to."""

    objective: float
    parameters: Parameters
    accumulators: list[np.ndarray]


@dataclass
class State:
    parameters: Parameters
    accumulators: list[np.ndarray]  # sums of squared gradients: of each group, then of coef and intercept
    sizes: np.ndarray  # natural sizes: of each group, then of coef and intercept
    step: float = STEP
    epoch: int = 0
    seed: int = 0
    halvings: int = 0
    counts: np.ndarray | None = None  # rows in which each feature has occurred
    n_seen: int = 0  # rows so far, where they stream in
    last: float = np.inf  # the objective after the last epoch
    best: Point | None = field(default=None, repr=False)

    def mark(self, objective: float) -> None:
        self.best = Point(objective, self.parameters.copy(), [a.copy() for a in self.accumulators])


@dataclass(frozen=True)
class SGD(Solver):
    seed: int = 0
    batch_size: int | str = "auto"

    summary = "stochastic steps: very large data, streams (`partial_fit`), data larger than memory"
    epoch = "one pass over the rows with AdaGrad steps"
    fits_lambdas = False
    monotone = False
    streams = True
    row_order = "shuffled"
    resume_kinds = {"counts": "i"}
    window = 5  # single epochs may raise the objective

    def init_state(self, problem: Problem, parameters: Parameters, resume: Resume | None = None) -> State:
        if resume:
            return _resumed(parameters, resume)
        d = parameters.coef.size
        shapes = [(P.shape[2], P.shape[1], P.shape[0]) for P in parameters.factors]
        accumulators = [np.full(shape, 1e-30, dtype=problem.design.dtype) for shape in (*shapes, (d,), (1,))]
        return State(parameters, accumulators, natural_sizes(problem, parameters), seed=self.seed)

    def resume(self, state: State) -> Resume:
        numbers = np.array([state.step, state.epoch, state.seed, state.halvings, state.n_seen, state.last])
        arrays = {f"accumulator{i}": a.copy() for i, a in enumerate(state.accumulators)}
        if state.counts is not None:
            arrays["counts"] = state.counts
        if state.best is not None and state.best.objective < state.last:
            arrays |= state.best.parameters.to_arrays("best_")
            arrays |= {f"best_accumulator{i}": a for i, a in enumerate(state.best.accumulators)}
            arrays["best_objective"] = np.array([state.best.objective])
        return {**arrays, "sizes": state.sizes.copy(), "numbers": numbers}

    def resume_shapes(self, problem: Problem, parameters: Parameters) -> dict[str, tuple[int | None, ...]]:
        d, n_groups = parameters.coef.size, len(parameters.factors)
        shapes = [(P.shape[2], P.shape[1], P.shape[0]) for P in parameters.factors]
        accumulators = {f"accumulator{i}": shape for i, shape in enumerate([*shapes, (d,), (1,)])}
        return {
            **accumulators, **{f"best_{name}": shape for name, shape in accumulators.items()},
            **{name: array.shape for name, array in parameters.to_arrays("best_").items()}, "best_objective": (1,),
            "counts": (d,), "sizes": (n_groups + 2,), "numbers": (6,),
        }  # fmt: skip

    def check_resume(self, problem: Problem, parameters: Parameters, resume: Resume) -> None:
        super().check_resume(problem, parameters, resume)
        if not np.all(np.isfinite(resume["numbers"][:-1])):  # the last is an objective
            raise ValueError(f"the checkpoint's 'numbers' are {resume['numbers']}: the first five must be finite.")

    def objective(self, problem: Problem, state: State) -> float:
        state.last = problem.objective(state.parameters)
        if state.best is None:
            state.mark(state.last)
        return state.last

    def update(self, problem: Problem, state: State) -> float:
        n = problem.design.shape[0]
        if state.counts is None:
            state.counts = np.maximum(_occurrences(problem), 1)
        if state.best is None:
            self.objective(problem, state)
        assert state.best is not None
        order = tiled_permutation(n, [state.seed, state.epoch])
        state.last = np.inf  # until the pass is done: who interrupts it gets the best point
        while True:
            self._pass(problem, state, order, state.counts, n)
            state.last = problem.objective(state.parameters)
            if state.last <= 1.5 * state.best.objective or state.halvings >= MOST_HALVINGS:
                break
            self._back_off(state)
        if not np.isfinite(state.last):
            self._back_off(state)
            state.last = state.best.objective
        if state.last < state.best.objective:
            state.mark(state.last)
        return state.last

    def finish(self, problem: Problem, state: State) -> float | None:
        if state.halvings:
            self._warn(state)
        if state.best is None or state.last <= state.best.objective:
            return None
        state.parameters, state.last = state.best.parameters, state.best.objective
        return state.last

    def stream(self, problem: Problem, state: State) -> None:
        """One pass over rows that come once, with the counts of all rows so far. A pass that diverges is undone."""
        n, counts = problem.design.shape[0], _occurrences(problem)
        state.counts = counts if state.counts is None else state.counts + counts
        state.n_seen += n
        state.mark(problem.objective(state.parameters))
        assert state.best is not None
        order = np.random.RandomState([state.seed, state.epoch]).permutation(n)
        self._pass(problem, state, order, np.maximum(state.counts, 1), state.n_seen)
        objective = problem.objective(state.parameters)
        if not np.isfinite(objective) or objective > 10 * state.best.objective:
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
            return min(int(self.batch_size), max(problem.design.shape[0], 1))
        n, d = problem.design.shape
        per_row = max(problem.design.nnz / max(n, 1), 1.0)
        return int(np.clip(d / per_row / 4, 1, 64))

    @staticmethod
    def _back_off(state: State) -> None:
        """Return to the best point, with steps half as long."""
        assert state.best is not None
        state.parameters = state.best.parameters.copy()
        state.accumulators = [a.copy() for a in state.best.accumulators]
        state.step /= 2
        state.halvings += 1

    def _pass(self, problem: Problem, state: State, order: np.ndarray, counts: np.ndarray, n_total: int) -> None:
        """One pass over the rows of the problem; `counts` and `n_total` say how often penalties are shared out."""
        design, model, parameters = problem.design, problem.model, state.parameters
        dtype, d = design.dtype, design.shape[1]
        batch = self._batch(problem)
        tiles = problem.tiles(parameters, batch, dtype)
        steps = tuple(
            stochastic.Steps(
                state.accumulators[g], problem.penalty.prior(g, lams, dtype), float(state.step * state.sizes[g])
            )
            for g, lams in enumerate(parameters.lambdas)
        )
        stochastic.epoch(
            tiles, steps, problem.response, tuple(design.rows), order, batch, counts, n_total,
            parameters.coef, np.zeros(d, dtype=dtype), state.accumulators[-2], problem.penalty.linear_prior(),
            float(state.step * state.sizes[-2]) * model.fit_linear,
            parameters.intercept, state.accumulators[-1], float(state.step * state.sizes[-1]) * model.fit_intercept,
            np.empty(d, dtype=np.int64), np.zeros(d, dtype=np.int64),
        )  # fmt: skip
        for P, tile in zip(parameters.factors, tiles, strict=True):
            P[:] = tile.bases.T.T[: len(P)]
        state.epoch += 1


def _occurrences(problem: Problem) -> np.ndarray:
    return np.diff(problem.design.columns.indptr.astype(np.int64))


def _resumed(parameters: Parameters, resume: Resume) -> State:
    def accumulators(prefix: str) -> list[np.ndarray]:
        return [resume[f"{prefix}accumulator{i}"].copy() for i in range(len(parameters.factors) + 2)]

    step, epoch, seed, halvings, n_seen, last = map(float, resume["numbers"])
    counts = resume.get("counts")
    state = State(
        parameters, accumulators(""), resume["sizes"], step, int(epoch), int(seed), int(halvings), counts, int(n_seen),
        last,
    )  # fmt: skip
    if "best_objective" in resume:
        best = Parameters.from_arrays(resume, "best_")
        state.best = Point(float(resume["best_objective"][0]), best, accumulators("best_"))
    elif np.isfinite(last):
        state.mark(last)
    return state


def tiled_permutation(n: int, seed) -> np.ndarray:
    """Rows in short runs, the runs in random order. The design has shuffled the rows already, once and for all; this
    varies the order from epoch to epoch, and memory is still read in runs."""
    starts = np.random.RandomState(seed).permutation(-(-n // ROWS_A_RUN)) * ROWS_A_RUN
    order = (starts[:, None] + np.arange(ROWS_A_RUN)).ravel()
    return order[order < n]


def natural_sizes(problem: Problem, parameters: Parameters) -> np.ndarray:
    """How large parameters are when they explain the residuals of a constant: of each group, of coef, of the intercept.

    A group's start has a known share of that size (`training.initial`), and homogeneity tells the rest.
    """
    scale = null_scale(problem)
    sizes = []
    for group, P, lams in problem.model.each(parameters):
        f = expansion(group, P, lams, problem.design)
        rms, size = float(np.sqrt(np.mean(np.square(f, dtype=np.float64)))), float(np.sqrt(np.mean(np.square(P))))
        sizes.append(size * (scale / rms) ** (1 / group.degree) if rms > 0 else size)
    values = problem.design.rows.data
    if values is None:
        mean_square = float(problem.design.nnz) / max(problem.design.shape[0], 1)
    else:
        mean_square = float(np.sum(np.square(values, dtype=np.float64))) / max(problem.design.shape[0], 1)
    return np.array([*sizes, scale / np.sqrt(mean_square) if mean_square > 0 else 1.0, 0.1 * scale])
