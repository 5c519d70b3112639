"""Implicit feedback by pairs: what was seen should score higher than what was not, of which some is sampled.

BPR takes one negative for each observation; WARP looks for one that is ranked too high, and learns more the sooner it
finds it. Both are stochastic, on one thread, and the same for the same seed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from polyfm.core.parameters import Parameters
from polyfm.loops import pairwise as loops
from polyfm.recommend.across import arrays_of
from polyfm.recommend.all_pairs import as_parameters
from polyfm.solvers import Resume, Solver

RULES = {"bpr": loops.Bpr(), "warp": loops.Warp()}


class ByPairs:
    """The problem: rows of both sides, and who was seen with what. `free` says which features may move (all: None)."""

    dtype = np.dtype(np.float64)

    def __init__(
        self, rule: str, contexts: sp.csr_matrix, items: sp.csr_matrix, seen: sp.csr_matrix, degree: int,
        n_components: int, rate: float, reg: float, free: tuple[np.ndarray, np.ndarray] | None = None,
    ):  # fmt: skip
        self.rule, self.degree, self.n_components, self.rate, self.reg = RULES[rule], degree, n_components, rate, reg
        self.sides = (arrays_of(contexts), arrays_of(items))
        self.sizes = (contexts.shape[1], items.shape[1])
        seen = seen.tocsr().sorted_indices()
        self.seen = (seen.indptr.astype(np.uint32), seen.indices.astype(np.uint32))
        self.weights = seen.data.astype(np.float64)
        self.contexts = np.repeat(np.arange(seen.shape[0], dtype=np.uint32), np.diff(seen.indptr))
        self.free = tuple(np.ones(size) for size in self.sizes) if free is None else free

    @property
    def design(self) -> "ByPairs":
        return self

    def learn(self, parameters: Parameters, H: tuple[np.ndarray, ...], seed: int, epoch: int, rate: float) -> float:
        """One pass in an order of its own; the mean loss."""
        order = np.random.RandomState((seed + 7919 * epoch) % 2**32).permutation(len(self.weights))
        pairs = (self.contexts[order], self.seen[1][order], self.weights[order])
        total = loops.learn(
            self.rule, *self.sides, *parameters.factors, *H, *self.free, pairs, self.seen, self.degree,
            self.n_components, rate, self.reg, (seed, epoch),
        )  # fmt: skip
        return float(total) / self.weights.sum()

    def objective(self, parameters: Parameters) -> float:
        """The mean loss of one sample of pairs."""
        ones = tuple(np.ones((1, 1)) for _ in parameters.factors)
        return self.learn(parameters, ones, 0, 0, 0.0)


@dataclass
class State:
    parameters: Parameters
    H: tuple[np.ndarray, ...]  # sums of squares of slopes
    epoch: int


@dataclass(frozen=True)
class StochasticRanking(Solver):
    """Steps of AdaGrad, a pair at a time, for `ByPairs`."""

    seed: int = 0

    summary = "stochastic steps over pairs of items, one seen and one not"
    epoch = "one pass over what was observed"
    fits_lambdas = False
    monotone = False
    window = None

    def init_state(self, problem: Any, parameters: Parameters, resume: Resume | None = None) -> State:
        if resume:
            return State(parameters, (resume["h0"], resume["h1"]), int(resume["epoch"][0]))
        return State(parameters, tuple(np.ones_like(T) for T in parameters.factors), 0)

    def resume(self, state: State) -> Resume:
        return {"h0": state.H[0].copy(), "h1": state.H[1].copy(), "epoch": np.array([float(state.epoch)])}

    def resume_shapes(self, problem: Any, parameters: Parameters) -> dict[str, tuple[int | None, ...]]:
        return {"h0": parameters.factors[0].shape, "h1": parameters.factors[1].shape, "epoch": (1,)}

    def update(self, problem: Any, state: State) -> float:
        state.epoch += 1
        return problem.learn(state.parameters, state.H, self.seed, state.epoch, problem.rate)


@dataclass(frozen=True)
class RankingRecipe:
    """How a session trains `ByPairs`."""

    def solver_name(self, design: ByPairs) -> str:
        return "ranking"

    def make_solver(self, name: str, seed: int) -> StochasticRanking:
        return StochasticRanking(seed)

    def problem(self, design: ByPairs, y: Any, weight: Any) -> ByPairs:
        return design

    def start(self, problem: ByPairs, seed: int) -> Parameters:
        rng, k, columns = np.random.RandomState(seed), problem.n_components, problem.n_components * (problem.degree - 1)
        P, Q = (rng.uniform(-0.5 / k, 0.5 / k, (size, columns)) for size in problem.sizes)
        return as_parameters((P, np.column_stack([Q, np.zeros(len(Q))])))
