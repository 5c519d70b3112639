"""L-BFGS on all smooth parameters at once, for every kernel, method and loss.

Nocedal's two-loop recursion, with a line search of its own. The memory is part of the state, so that a run that was
stopped goes on to the same bits.

Features of sparse data occur once or a hundred thousand times, and their parameters bend the objective as unequally. So
the recursion starts there from a metric: (nearly) the diagonal of the Gauss-Newton matrix, J^T diag(l'') J and the
penalty, taken anew after 5, 10, 20, 40 iterations and so on (docs/decisions/0012).
"""

from collections import deque
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg.blas import daxpy

from polyfm.core.parameters import Parameters
from polyfm.core.problem import Objective
from polyfm.core.threads import one_thread_of_blas
from polyfm.solvers.base import Resume, Solver
from polyfm.solvers.directions import descend_all_lambdas

NONE, NOTHING = np.empty((0, 0)), np.empty(0)
PAIRS = 20  # of steps and changes of the gradient that are remembered
ROUND = 20  # iterations between two visits to lambda, where it is fitted
SUFFICIENT_DECREASE, FLATTER = 1e-4, 0.9  # the Wolfe conditions' constants
MOST_TRIALS = 60
RENEWALS = (0, *(5 * 2**k for k in range(40)))  # iterations of a round before which the metric is taken
FLATTEST = 1e-3  # of the loss's bound on its second derivative, and of a feature's mean metric over the bases
POWER = 0.9  # of the diagonal that the metric is: features that agree bend the objective more than each alone says
CAUTIOUS = 0.1  # of the way that the metric alone suggests


@dataclass
class State:
    parameters: Parameters
    pairs: deque[tuple[np.ndarray, np.ndarray]] = field(default_factory=lambda: deque(maxlen=PAIRS))
    in_round: int = 0  # iterations since lambda was visited
    value: float = np.inf
    gradient: np.ndarray | None = None  # at the parameters, where it is known
    metric: np.ndarray | None = None  # like the gradient; None: all parameters are alike


@dataclass(frozen=True)
class LBFGS(Solver):
    """An epoch is one iteration. With `fit_lambdas`, rounds of iterations alternate with the lasso in lambda."""

    fit_lambdas: bool = False
    n_threads: int = 1

    summary = "L-BFGS: every combination"
    epoch = "one iteration"
    resume_kinds = {"in_round": "i"}
    window = 10  # one iteration may do little before a long step

    def running(self) -> AbstractContextManager:
        return one_thread_of_blas()  # its products are of memory: threads would wait for each other

    def init_state(self, problem: Objective, parameters: Parameters, resume: Resume | None = None) -> State:
        state = State(parameters)
        if resume:
            state.pairs.extend(zip(resume["steps"], resume["changes"], strict=True))
            state.in_round = int(resume["in_round"][0])
            metric = resume.get("metric", NOTHING)  # earlier versions had none
            state.metric = metric.copy() if metric.size else None
        return state

    def resume(self, state: State) -> Resume:
        steps, changes = (np.array([pair[i] for pair in state.pairs]) if state.pairs else NONE for i in (0, 1))
        metric = NOTHING if state.metric is None else state.metric
        return {"steps": steps, "changes": changes, "in_round": np.array([state.in_round]), "metric": metric}

    def resume_shapes(self, problem: Objective, parameters: Parameters) -> dict[str, tuple[int | None, ...]]:
        return {"steps": (None, None), "changes": (None, None), "in_round": (1,), "metric": (None,)}

    def check_resume(self, problem: Any, parameters: Parameters, resume: Resume) -> None:
        super().check_resume(problem, parameters, resume)
        steps, changes = resume["steps"].shape, resume["changes"].shape
        size = problem.model.pack(parameters).size
        if steps != changes or (steps[0] and steps[1] != size):
            raise ValueError(f"the checkpoint's steps have shapes {steps} and {changes}, for {size} parameters.")
        metric = resume.get("metric", NOTHING)
        if metric.size not in (0, size):
            raise ValueError(f"the checkpoint's metric has size {metric.size}, for {size} parameters.")
        if not np.all((metric > 0) & np.isfinite(metric)):
            raise ValueError("the checkpoint's metric holds numbers that are not finite, or not above 0.")

    def settle(self, problem: Any, state: State) -> float:
        return state.value if state.gradient is not None else self.value(problem, state.parameters)

    def update(self, problem: Objective, state: State) -> float | None:
        if self.fit_lambdas and state.in_round % ROUND == 0:
            self._visit_lambdas(problem, state)
        moved = self._step(problem, state)
        if not moved and self.fit_lambdas and state.in_round > 0:  # the end of a round that came early
            self._visit_lambdas(problem, state)
            moved = self._step(problem, state)
        state.in_round += 1
        return state.value if moved else None

    @staticmethod
    def _visit_lambdas(problem: Objective, state: State) -> None:
        """Another lambda makes another problem for the factors: nothing of the old one is remembered."""
        descend_all_lambdas(problem, state.parameters)
        state.pairs.clear()
        state.in_round, state.gradient = 0, None

    def _step(self, problem: Objective, state: State) -> bool:
        """One iteration, along the negative gradient where no other direction lowers the objective; whether any did."""
        evaluate = _Evaluations(problem, state.parameters, self.n_threads)
        theta = problem.model.pack(state.parameters)
        if problem.design.is_sparse and state.in_round in RENEWALS:
            state.metric = _metric(problem, state.parameters, theta, self.n_threads)
        if state.gradient is None:
            state.value, state.gradient = evaluate(theta)
        for direction in _directions(state.pairs, state.gradient, state.metric):
            length = _search(evaluate, theta, direction, state.value, state.gradient)
            if length is None:
                state.pairs.clear()
                continue
            trial = evaluate.rounded(theta + length * direction)
            value, gradient = evaluate(trial)
            step, change = trial - theta, gradient - state.gradient
            # So that what the pairs suggest stays positive definite.
            if 0 < 1e-10 * (change @ _by(state.metric, change)) < step @ change < np.inf:
                state.pairs.append((step, change))
            state.gradient = None  # until all belongs together again
            state.parameters, state.value = problem.model.unpack(trial, state.parameters), value
            state.gradient = gradient
            return True
        return False


class _Evaluations:
    """Value and gradient at a vector; the last two are remembered: the end of a line search asks for one of them."""

    def __init__(self, problem: Objective, like: Parameters, n_threads: int):
        self.problem, self.like, self.n_threads = problem, like, n_threads
        self.known: deque[tuple[np.ndarray, float, np.ndarray]] = deque(maxlen=2)

    def rounded(self, vector: np.ndarray) -> np.ndarray:
        """As stored in the precision of the parameters."""
        return vector.astype(self.like.coef.dtype).astype(np.float64)

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        vector = self.rounded(vector)
        for known, value, slopes in self.known:
            if np.array_equal(known, vector):
                return value, slopes
        model = self.problem.model
        value, gradient = self.problem.value_and_gradient(model.unpack(vector, self.like), self.n_threads)
        slopes = model.pack(gradient)
        self.known.append((vector, value, slopes))
        return value, slopes


def _metric(problem: Objective, parameters: Parameters, theta: np.ndarray, n_threads: int) -> np.ndarray:
    """A power of the diagonal of the Gauss-Newton matrix, kept above what a basis that is nearly zero, or a loss that
    is nearly flat, would say; 1 where nothing depends on a parameter."""
    diagonal = problem.diagonal(parameters, FLATTEST, n_threads)
    start = 0
    for P in parameters.factors:
        of_group = diagonal[start : start + P.size].reshape(P.shape[::-1])
        np.maximum(of_group, FLATTEST * of_group.mean(axis=2, keepdims=True), out=of_group)
        start += P.size
    diagonal += problem.penalty.diagonal(parameters)[0]
    return np.where((diagonal > 0) & np.isfinite(diagonal), diagonal, 1.0) ** POWER


def _by(metric: np.ndarray | None, vector: np.ndarray) -> np.ndarray:
    return vector if metric is None else vector / metric


def _directions(pairs, gradient: np.ndarray, metric: np.ndarray | None = None):
    """-H g with H the inverse Hessian that the pairs suggest; then along the metric alone; then -g itself, of length
    1."""
    if pairs:
        yield -_two_loops(pairs, gradient, metric)
    if metric is not None:
        yield -CAUTIOUS * (gradient / metric)
    if not 0 < gradient @ gradient < np.inf:  # the squares are beyond what a number can hold
        largest = np.abs(gradient).max(initial=0.0)
        gradient = gradient / largest if largest > 0 else gradient
    norm = float(np.sqrt(gradient @ gradient))
    if norm > 0:
        yield -gradient / norm


def _two_loops(pairs, gradient: np.ndarray, metric: np.ndarray | None = None) -> np.ndarray:
    # The vectors are long: all is a matter of reading them as few times as possible.
    q, weights, curvatures = gradient.copy(), [], [step @ change for step, change in pairs]
    for (step, change), curvature in zip(reversed(pairs), reversed(curvatures), strict=True):
        weights.append((step @ q) / curvature)
        daxpy(change, q, a=-weights[-1])
    change = pairs[-1][1]
    q = _by(metric, q)
    q *= curvatures[-1] / (change @ _by(metric, change))
    for (step, change), weight, curvature in zip(pairs, reversed(weights), curvatures, strict=True):
        daxpy(step, q, a=weight - (change @ q) / curvature)
    return q


def _search(evaluate: _Evaluations, theta, direction, value: float, gradient: np.ndarray) -> float | None:
    """How far to go along the direction, or None where nothing lowers the objective: the Wolfe conditions (a sufficient
    decrease, and a slope that is flatter than at the start), by doubling and bisection (Lewis and Overton 2013)."""
    slope = float(gradient @ direction)
    if not slope < 0:
        return None
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(MOST_TRIALS):
        reached, there = evaluate(theta + length * direction)
        if not reached < value + SUFFICIENT_DECREASE * length * slope:
            high = length
            # Where the parabola through what is known is lowest, but well within what is left.
            bend = reached - value - slope * length
            lowest = -slope * length**2 / (2 * bend) if np.isfinite(bend) and bend else 0.0
            length = float(np.clip(lowest, low + 0.1 * (high - low), low + 0.5 * (high - low)))
        elif there @ direction < FLATTER * slope:
            low = length
            length = 2 * low if high == np.inf else 0.5 * (low + high)
        else:
            return length
    return low or None  # a sufficient decrease will do
