"""Stochastic descent with AdaGrad steps, for data that are large, stream in, or do not fit in memory.

There is no learning rate to choose: a step is a fraction of the size that parameters of this model have on these data,
which the start tells (see `training.initial`), and a run that diverges goes back to its best point with smaller steps.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from polyfm.core.baseline import null_scale
from polyfm.core.design import frozen
from polyfm.core.layout import expansion, weights
from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.core.threads import Team
from polyfm.loops.barrier import Barrier
from polyfm.loops.prefetch import aligned
from polyfm.loops.prior import Prior
from polyfm.loops.rows import Bases
from polyfm.loops.stochastic import END, AdaGrad, Links, Table, Weights, meet
from polyfm.loops.stochastic import epoch as run_epoch
from polyfm.solvers.base import Resume, Solver
from polyfm.solvers.copies import Copies, Joins, most_shares
from polyfm.solvers.tables import Tables

STEP = 0.3  # of a parameter's natural size; see docs/decisions
MOST_HALVINGS = 60
ROWS_A_RUN = 64
AT_ONCE = 2**20  # non-zeros to count


class Point(NamedTuple):
    """Where a run can go back to."""

    objective: float
    tables: Tables


@dataclass
class State:
    parameters: Parameters  # what the tables hold, after a pass
    tables: Tables
    sizes: np.ndarray  # natural sizes: of each group, then of coef and intercept
    step: float = STEP
    epoch: int = 0
    seed: int = 0
    halvings: int = 0
    counts: np.ndarray | None = None  # rows in which each feature has occurred
    n_seen: int = 0  # rows so far, where they stream in
    last: float = np.inf  # the objective after the last epoch
    best: Point | None = field(default=None, repr=False)
    copies: Copies | None = field(default=None, repr=False)  # for shares of the rows

    @property
    def accumulators(self) -> list[np.ndarray]:
        """Sums of squared gradients: of each group, then of coef and intercept."""
        return self.tables.sums(self.parameters)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"copies": None}  # working space

    def mark(self, objective: float) -> None:
        if self.best is None:
            self.best = Point(objective, self.tables.copy())
        else:
            self.best.tables.become(self.tables)
            self.best = Point(objective, self.best.tables)

    def go_to(self, point: Point) -> None:
        self.tables.become(point.tables)
        self.tables.write(self.parameters)


@dataclass(frozen=True)
class SGD(Solver):
    seed: int = 0
    batch_size: int | str = "auto"
    shares: int = 1  # of the rows, that take steps of their own at the same time
    n_threads: int = 1  # for the objective, and for shares
    warns: bool = True  # of steps that were too long

    summary = "stochastic steps: very large data, streams (`partial_fit`), data larger than memory"
    epoch = "one pass over the rows with AdaGrad steps"
    fits_lambdas = False
    monotone = False
    streams = True
    row_order = "shuffled"
    resume_kinds = {"counts": "i"}
    window = 5  # single epochs may raise the objective
    factor_rule: ClassVar[type] = AdaGrad  # the steps of factors; benchmarks try others

    def __post_init__(self) -> None:
        if self.shares > 1 and not hasattr(self.factor_rule, "merge"):
            raise ValueError(
                f"{self.factor_rule.__name__} does not say how copies are joined: shares must be 1, got {self.shares}."
            )

    def init_state(self, problem: Problem, parameters: Parameters, resume: Resume | None = None) -> State:
        if resume:
            return _resumed(parameters, resume)
        tables = Tables.of(parameters, None, problem.design.dtype)
        return State(parameters, tables, natural_sizes(problem, parameters), seed=self.seed)

    def resume(self, state: State) -> Resume:
        numbers = np.array([state.step, state.epoch, state.seed, state.halvings, state.n_seen, state.last])
        arrays = {f"accumulator{i}": a for i, a in enumerate(state.accumulators)}
        if state.counts is not None:
            arrays["counts"] = state.counts
        if state.best is not None and state.best.objective < state.last:
            best = state.parameters.copy()
            state.best.tables.write(best)
            arrays |= best.to_arrays("best_")
            arrays |= {f"best_accumulator{i}": a for i, a in enumerate(state.best.tables.sums(best))}
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
        state.last = problem.objective(state.parameters, self.n_threads)
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
            state.last = problem.objective(state.parameters, self.n_threads)
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
        if state.halvings and self.warns:
            self._warn(state)
        if state.best is None or state.last <= state.best.objective:
            return None
        state.go_to(state.best)
        state.last = state.best.objective
        return state.last

    def stream(self, problem: Problem, state: State) -> None:
        """One pass over rows that come once, with the counts of all rows so far. A pass that diverges is undone."""
        n, counts = problem.design.shape[0], _occurrences(problem)
        state.counts = counts if state.counts is None else state.counts + counts
        state.n_seen += n
        state.mark(problem.objective(state.parameters, self.n_threads))
        assert state.best is not None
        order = np.random.RandomState([state.seed, state.epoch]).permutation(n)
        self._pass(problem, state, order, np.maximum(state.counts, 1), state.n_seen)
        objective = problem.objective(state.parameters, self.n_threads)
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

    @staticmethod
    def _back_off(state: State) -> None:
        """Return to the best point, with steps half as long."""
        assert state.best is not None
        state.go_to(state.best)
        state.step /= 2
        state.halvings += 1

    def _pass(self, problem: Problem, state: State, order: np.ndarray, counts: np.ndarray, n_total: int) -> None:
        """One pass over the rows of the problem; `counts` and `n_total` say how often penalties are shared out."""
        state.tables.linear[:, 2, 0] = 1 / counts
        if most_shares(len(order), self.shares) == 1:
            self._steps(problem, state, state.tables, n_total)(order)
        else:
            self._pass_in_shares(problem, state, order, counts / n_total, n_total)
        state.tables.write(state.parameters)
        state.epoch += 1

    def _pass_in_shares(
        self, problem: Problem, state: State, order: np.ndarray, frequencies: np.ndarray, n_total: int
    ) -> None:
        """One pass in which shares of the rows take steps on copies of the tables."""
        n_shares = most_shares(len(order), self.shares)
        if state.copies is None or state.copies.n_shares != n_shares:
            factors = tuple(group.form.n_factors for group in problem.model.groups)
            state.copies = Copies.of(state.tables, n_shares, factors)
        copies, rule = state.copies, self.factor_rule(1.0)
        joins = Joins.of(len(order), n_shares, frequencies)
        shares = [copies.share(r) for r in range(n_shares)]
        steps = [self._steps(problem, state, share, n_total) for share in shares]

        def take_part(me: int, barrier: Barrier) -> None:
            mine = range(me, n_shares, barrier.n_threads)
            for r in mine:
                shares[r].become(state.tables)
            for cuts, due in zip(joins.cuts, joins.due, strict=True):
                for r in mine:
                    steps[r](order[cuts[r] : cuts[r + 1]])
                if not meet(barrier):
                    return
                bounds = due * np.array([me, me + 1]) // barrier.n_threads
                copies.join(rule, joins.features[slice(*bounds)])
                if me == 0:
                    copies.join_common(rule)
                if not meet(barrier):
                    return

        with Team(min(self.n_threads, n_shares)) as team:
            team.together(take_part)

    def _steps(self, problem: Problem, state: State, tables: Tables, n_total: int) -> Callable[[np.ndarray], None]:
        """What takes steps on these tables, for rows in a given order."""
        design, model = problem.design, problem.model
        batch = 1 if self.batch_size == "auto" else min(int(self.batch_size), max(design.shape[0], 1))
        *etas, eta_w, eta_b = (float(state.step * size) for size in state.sizes)
        no_prior = Prior(None, frozen(np.zeros((1, 1)), np.float64), None)
        groups = tuple(
            _table(problem, g, W, lams, batch, self.factor_rule(eta))
            for g, (W, lams, eta) in enumerate(zip(tables.groups, state.parameters.lambdas, etas, strict=True))
        )
        linear = Weights(tables.linear, problem.penalty.linear_prior(), AdaGrad(eta_w), model.fit_linear)
        intercept = Weights(tables.intercept, no_prior, AdaGrad(eta_b), model.fit_intercept)
        rows, slopes, links = tuple(design.rows), np.empty(batch), _links(problem, batch)

        def take(order: np.ndarray) -> None:
            run_epoch(groups, linear, intercept, problem.response, rows, order, slopes, n_total, links)

        return take


def _table(problem: Problem, g: int, W: np.ndarray, lams: np.ndarray, batch: int, rule) -> Table:
    group, dtype, k = problem.model.groups[g], W.dtype, W.shape[2]
    of, strength, mean = problem.penalty.prior(g, lams, dtype)
    whole = ((0, 0), (0, k - len(lams)))  # vectors
    prior = Prior(
        of, frozen(np.pad(strength, whole), dtype), None if mean is None else frozen(np.pad(mean, whole), dtype)
    )
    return Table(
        Bases(group.form, group.n_dummies, group.form.n_slots, W, weights(group, lams, dtype)),
        prior, rule, aligned((batch, group.form.n_slots, k), dtype),
        aligned((batch, k), dtype), aligned((1, group.form.n_factors, k), dtype),
    )  # fmt: skip


def _links(problem: Problem, batch: int) -> Links:
    """Room for the entries of a batch."""
    if batch == 1:
        return Links(None, None, None, None, None, None, None)
    nnz, longest = problem.design.nnz, int(np.diff(problem.design.rows.indptr).max(initial=0))
    dtype = np.int32 if nnz < 2**31 else np.int64
    features, counts, firsts, nexts, places, rows = (np.empty(min(batch * longest, nnz), dtype) for _ in range(6))
    lasts = np.full(problem.design.shape[1], END, dtype)
    return Links(features, counts, firsts, nexts, places, rows, lasts)


def _occurrences(problem: Problem) -> np.ndarray:
    """Rows in which each feature occurs."""
    (n, d), indices = problem.design.shape, problem.design.rows.indices
    if indices is None:
        return np.full(d, n)
    counts = np.zeros(d, dtype=np.int64)
    for start in range(0, len(indices), AT_ONCE):
        counts += np.bincount(indices[start : start + AT_ONCE], minlength=d)
    return counts


def _resumed(parameters: Parameters, resume: Resume) -> State:
    def tables(prefix: str, parameters: Parameters) -> Tables:
        sums = [resume[f"{prefix}accumulator{i}"] for i in range(len(parameters.factors) + 2)]
        return Tables.of(parameters, sums, parameters.coef.dtype)

    step, epoch, seed, halvings, n_seen, last = map(float, resume["numbers"])
    counts = resume.get("counts")
    state = State(
        parameters, tables("", parameters), resume["sizes"], step, int(epoch), int(seed), int(halvings), counts,
        int(n_seen), last,
    )  # fmt: skip
    if "best_objective" in resume:
        best = tables("best_", Parameters.from_arrays(resume, "best_"))
        state.best = Point(float(resume["best_objective"][0]), best)
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
