"""The search for the largest weights of a polynomial: exact branch and bound, without forming d^m entries."""

import math
import warnings

import numpy as np

from polyfm.reading.polynomial import Terms
from polyfm.reading.together import Together

ROWS, COLUMNS = 512, 4096  # a block of weights that stays in the processor's cache
LEADS = 64  # features whose continuations are bounded together
BUDGET = 1e12  # multiply-adds of one search
SINGLE = 1e-10  # thresholds below this part of the largest bound are out of single precision's reach


class _BudgetSpentError(Exception):
    pass


def strongest(
    terms: Terms, top: int, budget: float | None, together: Together | None = None
) -> tuple[np.ndarray, np.ndarray, float | None]:
    """The monomials (rows of features in rising order) of the `top` largest |weight| among those that can occur
    together, largest first, their weights, and, where the budget was too small to be sure, a bound on the |weight| of
    all others."""
    d, bound = len(terms.P), None
    top = min(top, together.most_monomials(terms.degree, terms.repeats) if together else terms.n_monomials)
    if top == 0:
        features = np.empty((0, terms.degree), dtype=int)
    elif terms.degree == 1:
        occurring = np.flatnonzero(together.occurring(np.arange(d))) if together else np.arange(d)
        features = occurring[_largest(terms.P[occurring] @ terms.lam, top)][:, None]
    else:
        search = _Search(terms, top, budget, together)
        features, bound = np.sort(search.run(), axis=1), search.bound
    weights = terms.weights(features)
    order = np.lexsort((*features.T[::-1], -np.abs(weights)))
    return features[order[:top]], weights[order[:top]], bound


def warn_of_missing(degree: int, weights: np.ndarray, bound: float, spent: str, remedy: str) -> None:
    certain = np.count_nonzero(np.abs(weights) >= bound)
    warnings.warn(
        f"The search for interactions of degree {degree} ended after {spent}. What it did not see weighs at most "
        f"{bound:.3g} in magnitude: the first {certain} of the {len(weights)} listed are certainly the strongest, the "
        f"others are the strongest seen. {remedy}",
        stacklevel=3,
    )


def _largest(values: np.ndarray, size: int) -> np.ndarray:
    """Positions of the `size` largest magnitudes, in no order."""
    if len(values) <= size:
        return np.arange(len(values))
    return np.argpartition(-np.abs(values), size - 1)[:size]


class _Search:
    """Branch and bound over monomials.

    A node is a prefix of features: with v = lam p_i1 .. p_it, there remain r features to choose, whose weight is
    sum_s v_s p_js .. p_ks. By Hoelder's inequality it is at most a_j .. a_k with a_j^r = sum_s |v_s| |p_js|^r. In the
    order of falling a, once one product of the a's is below the weakest of a full list, so are all that follow.
    The last two features are chosen by blocks of a matrix product, first in single precision with a margin for its
    rounding, then, where something may be strong enough, in double precision. Features that cannot occur beside a
    prefix are no continuations of it.
    """

    def __init__(self, terms: Terms, top: int, budget: float | None, together: Together | None = None):
        # Units in which no power overflows.
        unit, weight = np.abs(terms.P).max(initial=0.0) or 1.0, np.abs(terms.lam).max(initial=0.0) or 1.0
        self.degree, self.repeats, self.top, self.together = terms.degree, terms.repeats, top, together
        self.P, self.lam = terms.P / unit, terms.lam / weight
        if self.repeats:
            weight *= math.factorial(self.degree)
        self.unit = unit**self.degree * weight
        self.powers = {r: np.abs(self.P) ** r for r in range(2, self.degree)}
        self.left = math.inf if budget is None else budget
        self.gap = 0 if self.repeats else 1  # the next feature may be the same one, or not
        self.features, self.weights = np.empty((0, self.degree), dtype=int), np.empty(0)
        self.threshold = -1.0  # the weakest |weight| of a full list
        self.frontier = math.inf  # nothing that is still to come weighs more
        self.bound: float | None = None

    def run(self) -> np.ndarray:
        a = (np.abs(self.P) ** self.degree @ np.abs(self.lam)) ** (1 / self.degree)
        order = np.argsort(-a, kind="stable")
        if self.together is not None:
            order = order[self.together.occurring(order)]
        try:
            self.visit(self.lam, order, a[order], (), self.together)
            return self.features
        except _BudgetSpentError:
            self.bound = self.frontier * self.unit
            guesses = [self.guess(order[i : i + LEADS]) for i in range(0, min(len(order), 4 * LEADS), LEADS)]
            found = np.unique(np.sort(np.vstack([self.features, *guesses]), axis=1), axis=0)
            return found if self.together is None else found[self.together.possible(found)]

    def guess(self, leads: np.ndarray) -> np.ndarray:
        """Greedy continuations, where the search must end early: features of the largest bound, the last of the largest
        weight."""
        chosen, V = leads[:, None], self.lam * self.P[leads]
        for r in range(self.degree - 1, 0, -1):
            A = np.abs(V) @ self.powers[r].T if r > 1 else np.abs(V @ self.P.T)
            if not self.repeats:
                np.put_along_axis(A, chosen, -1.0, axis=1)
            if self.together is not None and self.together.fields is not None:
                for t in range(chosen.shape[1]):
                    A[self.together.excluded(chosen[:, t], np.arange(A.shape[1]))] = -1.0
            best = A.argmax(axis=1)
            chosen, V = np.column_stack([chosen, best]), V * self.P[best]
        return chosen

    def spend(self, multiply_adds: int) -> None:
        if multiply_adds > self.left:
            raise _BudgetSpentError
        self.left -= multiply_adds

    def keep(self, prefix: tuple[int, ...], last: np.ndarray, weights: np.ndarray) -> None:
        """Let monomials prefix + last (n, 2) compete for the list."""
        if len(weights) == 0:
            return
        new = np.hstack([np.tile(np.array(prefix, dtype=int), (len(last), 1)), last])
        self.features, self.weights = np.vstack([self.features, new]), np.append(self.weights, weights)
        if len(self.weights) >= self.top:
            best = _largest(self.weights, self.top)
            self.features, self.weights = self.features[best], self.weights[best]
            self.threshold = float(np.abs(self.weights).min())

    def visit(
        self, v: np.ndarray, features: np.ndarray, a: np.ndarray, prefix: tuple[int, ...], together: Together | None
    ) -> None:
        """Search all monomials that continue `prefix` with `features`, which are in the order of falling a."""
        r, n, gap = self.degree - len(prefix), len(features), self.gap
        if r == 2:
            self.visit_pairs(v, features, a, prefix, together)
            return
        i = 0
        while i + gap * (r - 1) < n:
            bound = float(np.prod(a[i : i + r])) if gap else float(a[i] ** r)
            if bound <= self.threshold:
                return
            if not prefix:
                self.frontier = bound
            leads = features[i : i + LEADS]
            reach = int(np.count_nonzero(a * (a[i] * a[min(i + gap, n - 1)] ** (r - 2)) > self.threshold))
            rest = features[i + gap : reach]
            self.spend(len(leads) * len(rest) * len(v))
            V = v * self.P[leads] * self.shares(leads, prefix)[:, None]
            A = np.abs(V) @ self.powers[r - 1][rest].T  # a^(r - 1) for the continuations of each lead
            for j, lead in enumerate(leads):
                powered = A[j, j:]
                least = self.threshold ** (r - 1) if self.threshold > 0 else self.threshold
                near, beside = np.flatnonzero(powered * powered.max(initial=0.0) ** (r - 2) > least), together
                if together is not None and len(near):
                    beside = together.after(int(lead))
                    near = near[beside.allowed(int(lead), rest[j:][near])]
                near = near[np.argsort(-powered[near], kind="stable")]
                if len(near) > gap * (r - 2):
                    self.visit(V[j], rest[j:][near], powered[near] ** (1 / (r - 1)), (*prefix, int(lead)), beside)
            i += LEADS

    def visit_pairs(
        self, v: np.ndarray, features: np.ndarray, a: np.ndarray, prefix: tuple[int, ...], together: Together | None
    ) -> None:
        """Search all pairs that complete `prefix`, block by block."""
        n, gap = len(features), self.gap
        if n <= gap or a[0] * a[gap] <= self.threshold:
            return
        shares = self.shares(features, prefix)
        right = self.P[features] * shares[:, None]
        left = right * v
        # In single precision both sides have rows of norm a / a[0] <= 1, so that rounding is at most `margin`.
        norm, root = max(float(a[0]), 1e-150), np.sqrt(np.abs(v))
        left32 = (right * (np.sign(v) * root / norm)).astype(np.float32)
        right32 = (right * (root / norm)).astype(np.float32)
        margin = (len(v) + 8) * float(np.finfo(np.float32).eps)
        i = 0
        while i + gap < n:
            reach = int(np.count_nonzero(a * a[i] > self.threshold))
            if reach <= i + gap:
                return
            if not prefix:
                self.frontier = float(a[i] * a[i + gap])
            for first in range(i, reach, COLUMNS):
                rows, columns = np.arange(i, min(i + ROWS, reach)), np.arange(first, min(first + COLUMNS, reach))
                self.spend(len(rows) * len(columns) * len(v))
                excluded = None
                if together is not None and together.fields is not None:
                    excluded = together.excluded(features[rows], features[columns])
                if self.threshold > SINGLE * norm**2:
                    W = self.upper(left32, right32, rows, columns, shares, 0.0)
                    if excluded is not None:
                        W[excluded] = 0.0
                    least = self.threshold / norm**2 - margin * a[i] * a[first] / norm**2
                    near = np.maximum(W.max(axis=1), -W.min(axis=1)) > least
                    if not np.any(near):
                        continue
                    rows, excluded = rows[near], None if excluded is None else excluded[near]
                W = self.upper(left, right, rows, columns, shares, np.nan)
                if excluded is not None:
                    W[excluded] = np.nan
                strong = np.abs(W) > self.threshold
                if together is not None and together.seen is not None:
                    at = np.ix_(np.flatnonzero(strong.any(axis=1)), np.flatnonzero(strong.any(axis=0)))
                    strong[at] &= together.pairs(features[rows[at[0].ravel()]], features[columns[at[1].ravel()]])
                hits = np.flatnonzero(strong)
                hits = hits[_largest(W.ravel()[hits], self.top)]
                row, column = np.divmod(hits, len(columns))
                self.keep(prefix, features[np.column_stack([rows[row], columns[column]])], W.ravel()[hits])
            i += ROWS

    def upper(self, left, right, rows: np.ndarray, columns: np.ndarray, shares: np.ndarray, no: float) -> np.ndarray:
        """Weights of pairs of rows and columns; `no` where a pair is out of order or, for ANOVA, a square."""
        W = left[rows] @ right[columns[0] : columns[-1] + 1].T
        if columns[0] <= rows[-1]:
            if self.repeats:  # a square has half as many orders as a product
                on = np.flatnonzero((rows >= columns[0]) & (rows <= columns[-1]))
                W[on, rows[on] - columns[0]] /= 1 + shares[rows[on]]
            W[columns < rows[:, None] + self.gap] = no
        return W

    def shares(self, features: np.ndarray, prefix: tuple[int, ...]) -> np.ndarray:
        """1 / (1 + repetitions in the prefix): together these factors make n! / (repetitions of each feature)!."""
        shares = np.ones(len(features))
        for j in set(prefix) if self.repeats else ():
            shares[features == j] = 1 / (1 + prefix.count(j))
        return shares
