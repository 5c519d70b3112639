"""Which features can be non-zero in one row: those of different fields and, where there are data, those that were."""

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp


class Together(NamedTuple):
    """The monomials that can occur, given some features of them already chosen: the rows are those that have these.

    A power of a feature occurs wherever the feature does.
    """

    fields: np.ndarray | None  # (d,): features of the same number exclude each other; those of no field have their own
    seen: sp.csr_array | None  # (n, d), True where not 0

    @classmethod
    def of(cls, fields: np.ndarray | None, X) -> "Together | None":
        """None where nothing is ruled out."""
        if fields is not None and len(np.unique(fields)) == len(fields):
            fields = None
        seen = None
        if X is not None:
            seen = sp.csr_array(X, copy=False)
            seen = sp.csr_array((seen.data != 0, seen.indices, seen.indptr), shape=seen.shape)
            seen.eliminate_zeros()
            seen.sum_duplicates()
            if np.diff(seen.indptr).max(initial=0) == seen.shape[1]:
                seen = None  # all features occur together
        return None if fields is None and seen is None else cls(fields, seen)

    def most_monomials(self, degree: int, repeats: bool) -> int:
        """A bound on their number, which is exact where fields alone rule some out."""
        bounds = []
        if self.fields is not None:
            bounds.append(_one_of_each(np.unique(self.fields, return_counts=True)[1], degree, repeats))
        if self.seen is not None:
            sizes, n_rows = np.unique(np.diff(self.seen.indptr), return_counts=True)
            more = degree - 1 if repeats else 0
            bounds.append(
                sum(int(n) * math.comb(int(size) + more, degree) for size, n in zip(sizes, n_rows, strict=True))
            )
        return min(bounds)

    def occurring(self, features: np.ndarray) -> np.ndarray:
        """Which of the features any row has."""
        if self.seen is None:
            return np.ones(len(features), dtype=bool)
        return np.bincount(self.seen.indices, minlength=self.seen.shape[1])[features] > 0

    def after(self, feature: int) -> "Together":
        """What can occur beside the feature."""
        if self.seen is None:
            return self
        places = np.flatnonzero(self.seen.indices == feature)
        return self._replace(seen=self.seen[np.searchsorted(self.seen.indptr, places, side="right") - 1])

    def allowed(self, feature: int, features: np.ndarray) -> np.ndarray:
        """Which of the features can occur beside the feature, of which these are the rows."""
        allowed = self.occurring(features)
        if self.fields is not None:
            allowed &= (self.fields[features] != self.fields[feature]) | (features == feature)
        return allowed

    def excluded(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Which pairs (left, right) of features are of one field."""
        assert self.fields is not None
        return (self.fields[left][:, None] == self.fields[right]) & (left[:, None] != right)

    def pairs(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Which pairs (left, right) of features some row has."""
        assert self.seen is not None
        return (self.seen[:, left].T @ self.seen[:, right]).toarray()

    def possible(self, monomials: np.ndarray) -> np.ndarray:
        """Which of the monomials (n, degree) can occur."""
        possible = np.ones(len(monomials), dtype=bool)
        for i, monomial in enumerate(monomials):
            rest = self
            for j in monomial:
                possible[i] &= bool(rest.occurring(np.array([j]))[0])
                rest = rest.after(int(j))
            if self.fields is not None:
                chosen = np.unique(monomial)
                possible[i] &= len(np.unique(self.fields[chosen])) == len(chosen)
        return possible


def _one_of_each(sizes: np.ndarray, degree: int, repeats: bool) -> int:
    """Monomials of one feature at most, or powers of it, of each of some fields."""
    ways = [1] + [0] * degree  # of each degree, with the fields so far
    for size, n_fields in zip(*np.unique(sizes, return_counts=True), strict=True):
        more = [0] * (degree + 1)
        for i in range(min(degree, int(n_fields)) + 1):  # features of i of these fields, which share out the degree
            chosen = math.comb(int(n_fields), i) * int(size) ** i
            for m in range(i, degree + 1 if repeats and i else i + 1):
                more[m] += chosen * (math.comb(m - 1, i - 1) if i else 1)
        ways = [sum(ways[t] * more[m - t] for t in range(m + 1)) for m in range(degree + 1)]
    return ways[degree]
