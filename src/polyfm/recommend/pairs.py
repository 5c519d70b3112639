"""Implicit feedback: the factors of both sides, who was seen with what, and new ids."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from polyfm.recommend import across
from polyfm.recommend.all_pairs import AllPairs, AllPairsRecipe, Rows, as_parameters, fold_in, penalty
from polyfm.recommend.pairwise import ByPairs, RankingRecipe
from polyfm.recommend.sides import Side

ALONE = 20  # passes of stochastic steps for new ids


@dataclass
class Seen:
    """What was observed: contexts, which are users in situations, and items, with weights."""

    who: np.ndarray  # (contexts,): the position of each one's user
    situations: sp.csr_matrix  # (contexts, features)
    what: np.ndarray  # (items,): positions
    weights: sp.csr_matrix  # (contexts, items)

    def contexts(self, users: Side) -> sp.csr_matrix:
        return contexts_of(users, self.who, self.situations)

    def add(self, who: np.ndarray, situations: sp.csr_matrix, what: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Further observations; the context of each. Weights of what was observed before add up."""
        at = _contexts_among(self.who, self.situations, who, situations)
        fresh = np.unique(at, return_index=True)[1]
        fresh = fresh[at[fresh] >= len(self.who)]
        items = np.full(max(what.max(), self.what.max(initial=-1)) + 1, -1, dtype=np.int64)
        items[self.what] = np.arange(len(self.what))
        new = np.unique(what[items[what] < 0])
        items[new] = len(self.what) + np.arange(len(new))
        self.who = np.concatenate([self.who, who[fresh]])
        self.situations = sp.vstack([self.situations, situations[fresh]], format="csr")
        self.what = np.concatenate([self.what, new])
        self.weights = with_pairs(self.weights, at, items[what], weight, (len(self.who), len(self.what)))
        return at


def _contexts_among(who, situations, asked, their_situations) -> np.ndarray:
    """The position of each context among those that there are; new ones are counted on behind them."""
    if not situations.shape[1]:
        place = np.full(max(asked.max(), who.max(initial=-1)) + 1, -1, dtype=np.int64)
        place[who] = np.arange(len(who))
        new = np.unique(asked[place[asked] < 0])
        place[new] = len(who) + np.arange(len(new))
        return place[asked]
    known = {key: c for c, key in enumerate(_keys(who, situations))}
    return np.array([known.setdefault(key, len(known)) for key in _keys(asked, their_situations)], dtype=np.int64)


def _keys(who: np.ndarray, situations: sp.csr_matrix) -> list[tuple]:
    bounds = situations.indptr
    return [
        (user, situations.indices[lo:hi].tobytes(), situations.data[lo:hi].tobytes())
        for user, lo, hi in zip(who.tolist(), bounds[:-1], bounds[1:], strict=True)
    ]


def with_pairs(matrix: sp.csr_matrix, rows, columns, values, shape: tuple[int, int]) -> sp.csr_matrix:
    """A matrix with more pairs, whose values add up; quickly where all of their rows are new."""
    before = matrix.shape[0]
    if before and rows.min() >= before:
        below = sp.csr_matrix((values, (rows - before, columns)), shape=(shape[0] - before, shape[1]))
        indptr = np.concatenate([matrix.indptr, matrix.indptr[-1] + below.indptr[1:]])
        parts = np.concatenate([matrix.data, below.data]), np.concatenate([matrix.indices, below.indices]), indptr
        return sp.csr_matrix(parts, shape=shape)
    matrix = sp.csr_matrix((matrix.data, matrix.indices, _longer(matrix.indptr, shape[0])), shape=shape)
    return matrix + sp.csr_matrix((values, (rows, columns)), shape=shape)


def _longer(indptr: np.ndarray, n: int) -> np.ndarray:
    return np.concatenate([indptr, np.full(n + 1 - len(indptr), indptr[-1], dtype=indptr.dtype)])


def contexts_of(users: Side, who: np.ndarray, situations: sp.csr_matrix) -> sp.csr_matrix:
    """Features of contexts: those of the user, and behind them those of the situation."""
    return sp.hstack([users.X[who], situations], format="csr") if situations.shape[1] else users.X[who]


class Options(NamedTuple):
    """How implicit feedback is modelled and trained, as `Recommender` is asked for it."""

    loss: str = "all-pairs"
    degree: int = 2
    n_components: int = 32
    omega: float = 0.1
    reg: float = 0.01
    nu: float = 1.0
    learning_rate: float = 0.05


class Pairs:
    """Factors of the features of contexts and of items. A score is the inner product of vectors made of them."""

    def __init__(self, factors: tuple[np.ndarray, ...], seen: Seen, options: Options):
        self.factors, self.seen, self.options = factors, seen, options

    @property
    def is_biased(self) -> bool:
        """Whether items have biases, behind their factors: rankings by pairs need them."""
        return self.options.loss != "all-pairs"

    def shapes(self, sizes: tuple[int, int]) -> list[tuple[int, int]]:
        columns = self.options.n_components * (self.options.degree - 1)
        return [(sizes[0], columns), (sizes[1], columns + self.is_biased)]

    def problem(self, users: Side, items: Side, free: tuple[np.ndarray, np.ndarray] | None = None) -> Any:
        """What a session trains; `free` says which features may move, where it is by pairs."""
        contexts, what, o = self.seen.contexts(users), items.X[self.seen.what], self.options
        if self.is_biased:
            shape = (o.degree, o.n_components, o.learning_rate, o.reg)
            return ByPairs(o.loss, contexts, what, self.seen.weights, *shape, free)
        sides = Rows(contexts, users.n_ids), Rows(what, items.n_ids)
        return AllPairs(*sides, self.seen.weights, o.omega, o.reg, o.nu, o.degree, o.n_components)

    def recipe(self, n_threads: int) -> Any:
        return RankingRecipe() if self.is_biased else AllPairsRecipe(n_threads)

    def vectors(self, which: int, X: sp.csr_matrix) -> np.ndarray:
        """Those of contexts (0) or of items (1)."""
        o = self.options
        return across.vectors(which, X, self.factors[which], o.degree, o.n_components, self.is_biased)

    def grow(self, which: int, at: int, n: int) -> None:
        """n more features from `at` on, whose factors are 0."""
        self.factors = tuple(
            np.insert(T, [at] * n, 0, axis=0) if side == which else T for side, T in enumerate(self.factors)
        )

    def fold_in(self, which: int, positions: np.ndarray, users: Side, items: Side) -> None:
        """Factors of ids whose own are 0, with everything else fixed, by what `seen` has of them."""
        side = (users, items)[which]
        columns = np.array([id_column(side, position) for position in positions])
        if self.is_biased:
            self._learn_alone(which, columns, users, items)
        else:
            self._solve(which, positions, columns, users, items)

    def _learn_alone(self, which: int, columns: np.ndarray, users: Side, items: Side) -> None:
        """Some passes of stochastic steps in which nothing else moves."""
        free = tuple(np.zeros(len(T)) for T in self.factors)
        free[which][columns] = 1.0
        problem = self.problem(users, items, (free[0], free[1]))
        start = as_parameters(self.factors)
        rng = np.random.RandomState(0)
        start.factors[which][columns] = rng.uniform(-0.5, 0.5, (len(columns), 1)) / self.options.n_components
        H = tuple(np.ones_like(T) for T in self.factors)
        for epoch in range(ALONE):
            problem.learn(start, H, 0, epoch, self.options.learning_rate)

    def _solve(self, which: int, positions: np.ndarray, columns: np.ndarray, users: Side, items: Side) -> None:
        o = self.options
        contexts, what = self.seen.contexts(users), items.X[self.seen.what]
        mine, others = (contexts, what) if which == 0 else (what, contexts)
        weights = self.seen.weights if which == 0 else self.seen.weights.T.tocsr()
        owner = self.seen.who if which == 0 else self.seen.what
        Z = across.turned(
            across.parts(others, self.factors[1 - which], o.degree, o.n_components), o.degree, o.n_components
        )
        gram = o.omega * (Z.T @ Z)
        order = np.argsort(owner, kind="stable")
        bounds = np.searchsorted(owner[order], np.stack([positions, positions + 1]))
        T = self.factors[which]
        for column, lo, hi in zip(columns, *bounds, strict=True):
            rows = order[lo:hi]
            if len(rows):
                own = weights[rows]
                one, counts = sp.csr_matrix(np.ones((len(rows), 1))), np.diff(own.indptr)
                strength = penalty(one, counts, len(Z), o.omega, o.reg, o.nu)[0]
                parts = across.parts(mine[rows], T, o.degree, o.n_components)
                T[column] = fold_in(own, Z, gram, parts, strength, o.degree, o.n_components)


def id_column(side: Side, position: int) -> int:
    """The feature of an id."""
    return int(side.X.indices[side.X.indptr[position]])
