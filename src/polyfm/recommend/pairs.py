"""Implicit feedback: the factors of both sides, who was seen with what, and new ids."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from polyfm.recommend.all_pairs import AllPairs, Rows, fold_in, penalty
from polyfm.recommend.sides import Side


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
        known = {key: c for c, key in enumerate(_keys(self.who, self.situations))}
        fresh: list[int] = []
        before, at = len(self.who), np.empty(len(who), dtype=np.int64)
        for row, key in enumerate(_keys(who, situations)):
            if key not in known:
                known[key] = before + len(fresh)
                fresh.append(row)
            at[row] = known[key]
        items = {position: i for i, position in enumerate(self.what.tolist())}
        for position in what.tolist():
            items.setdefault(position, len(items))
        self.who = np.concatenate([self.who, who[fresh]])
        self.situations = sp.vstack([self.situations, situations[fresh]], format="csr")
        self.what = np.fromiter(items, dtype=np.int64, count=len(items))
        shape = (len(self.who), len(self.what))
        old = self.weights.tocoo()
        self.weights = sp.csr_matrix((old.data, (old.row, old.col)), shape=shape) + sp.csr_matrix(
            (weight, (at, [items[position] for position in what.tolist()])), shape=shape
        )
        return at


def _keys(who: np.ndarray, situations: sp.csr_matrix) -> list[tuple]:
    if not situations.shape[1]:
        return [(user,) for user in who.tolist()]
    bounds = situations.indptr
    return [
        (user, situations.indices[lo:hi].tobytes(), situations.data[lo:hi].tobytes())
        for user, lo, hi in zip(who.tolist(), bounds[:-1], bounds[1:], strict=True)
    ]


def contexts_of(users: Side, who: np.ndarray, situations: sp.csr_matrix) -> sp.csr_matrix:
    """Features of contexts: those of the user, and behind them those of the situation."""
    return sp.hstack([users.X[who], situations], format="csr") if situations.shape[1] else users.X[who]


class Pairs:
    """Factors of the features of contexts and of items. A score is <sum of a context's, sum of an item's>."""

    def __init__(self, factors: tuple[np.ndarray, ...], seen: Seen, omega: float, reg: float, nu: float):
        self.factors, self.seen, self.omega, self.reg, self.nu = factors, seen, omega, reg, nu

    def problem(self, users: Side, items: Side) -> AllPairs:
        contexts, what = self.seen.contexts(users), items.X[self.seen.what]
        sides = Rows(contexts, users.n_ids), Rows(what, items.n_ids)
        return AllPairs(*sides, self.seen.weights, self.omega, self.reg, self.nu)

    def vectors(self, which: int, X: sp.csr_matrix) -> np.ndarray:
        """Those of contexts (0) or of items (1)."""
        return X @ self.factors[which]

    def grow(self, which: int, at: int, n: int) -> None:
        """n more features from `at` on, whose factors are 0."""
        self.factors = tuple(
            np.insert(T, [at] * n, 0, axis=0) if side == which else T for side, T in enumerate(self.factors)
        )

    def fold_in(self, which: int, positions: np.ndarray, users: Side, items: Side) -> None:
        """Factors of ids whose own are 0, with everything else fixed, by what `seen` has of them."""
        contexts, what = self.seen.contexts(users), items.X[self.seen.what]
        mine, others = (contexts, what) if which == 0 else (what, contexts)
        weights = self.seen.weights if which == 0 else self.seen.weights.T.tocsr()
        owner, side = (self.seen.who, users) if which == 0 else (self.seen.what, items)
        Z = self.vectors(1 - which, others)
        gram = self.omega * (Z.T @ Z)
        order = np.argsort(owner, kind="stable")
        bounds = np.searchsorted(owner[order], np.stack([positions, positions + 1]))
        T = self.factors[which]
        for position, lo, hi in zip(positions, *bounds, strict=True):
            rows = order[lo:hi]
            if len(rows):
                own = weights[rows]
                one, counts = sp.csr_matrix(np.ones((len(rows), 1))), np.diff(own.indptr)
                strength = penalty(one, counts, len(Z), self.omega, self.reg, self.nu)[0]
                T[id_column(side, position)] = fold_in(own, Z, gram, self.vectors(which, mine[rows]), strength)


def id_column(side: Side, position: int) -> int:
    """The feature of an id."""
    return int(side.X.indices[side.X.indptr[position]])
