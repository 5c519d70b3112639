"""Copies of the tables of stochastic descent: shares of the rows take steps on tables of their own at the same time.

From time to time the copies are joined, and every share goes on from what all have learned. The more rows a feature
occurs in, the more often it is joined: frequent ones often, at little cost, since they are few; rare ones, which hardly
any row has changed, seldom. When depends on the data and the number of shares alone, and so does the result: threads
change no bit.
"""

from typing import NamedTuple

import numpy as np

from polyfm.loops.prefetch import aligned
from polyfm.loops.stochastic import AdaGrad, join
from polyfm.solvers.tables import Tables

JOINS = 32  # in a pass, at most; docs/decisions has the measurements
TOUCHES = 16  # rows with a feature, in all shares, from one of its joins to the next
FEWEST_ROWS = 64  # of a share between two joins
FEWEST_JOINS = 4  # in a pass: with more shares than that allows, each learns too little from the others


def most_shares(n: int, shares: int) -> int:
    """So many of n rows, or fewer where rows are few."""
    return max(1, min(shares, n // (FEWEST_JOINS * FEWEST_ROWS)))


class Joins(NamedTuple):
    """When shares of a pass meet, and what is joined then."""

    cuts: np.ndarray  # (joins, shares + 1): where in the order of the rows the shares of a segment begin
    features: np.ndarray  # (d,): those that are joined most often first
    due: np.ndarray  # (joins,): how many of them it is the turn of

    @classmethod
    def of(cls, n: int, shares: int, frequencies: np.ndarray) -> "Joins":
        """For n rows and the part of all rows in which each feature occurs. A feature takes part in every 2^m-th join,
        with the least m that gives it enough rows; all do in the last."""
        n_joins = int(np.clip(n // (shares * FEWEST_ROWS), 1, JOINS))
        least = np.frexp(frequencies * (n / n_joins / TOUCHES))[1] - 1  # its power of two: at most the quotient
        m = np.clip(-least, 0, JOINS.bit_length()).astype(np.int8)
        features = np.argsort(m, kind="stable")
        at_most = np.searchsorted(m[features], np.arange(JOINS.bit_length() + 1), side="right")
        turns = np.arange(1, n_joins + 1)
        due = at_most[np.frexp((turns & -turns).astype(float))[1] - 1]  # the power of two that divides a turn
        due[-1] = len(features)
        starts = np.linspace(0, n, n_joins * shares + 1).astype(np.int64)
        cuts = np.column_stack([starts[r : r + n_joins * shares : shares] for r in range(shares + 1)])
        return cls(cuts, features, due)


class Copies(NamedTuple):
    tables: Tables
    stacks: Tables  # the same arrays with one more axis, the first: shares
    factors: tuple[int, ...]  # of a feature, in each group

    @classmethod
    def of(cls, tables: Tables, shares: int, factors: tuple[int, ...]) -> "Copies":
        return cls(tables, tables.map(lambda array: aligned((shares, *array.shape), array.dtype)), factors)

    @property
    def n_shares(self) -> int:
        return len(self.stacks.linear)

    def share(self, r: int) -> Tables:
        return self.stacks.map(lambda stack: stack[r])

    def join(self, rule, features: np.ndarray) -> None:
        """Join these features, the steps of their factors being those of the rule."""
        for W, stack, factors in zip(self.tables.groups, self.stacks.groups, self.factors, strict=True):
            join(rule, W, stack, factors, features)
        join(AdaGrad(1.0), self.tables.linear, self.stacks.linear, 1, features)

    def join_common(self, rule) -> None:
        """Join what every row changes: dummy features and the intercept."""
        d = len(self.tables.linear)
        for W, stack, factors in zip(self.tables.groups, self.stacks.groups, self.factors, strict=True):
            join(rule, W, stack, factors, np.arange(d, len(W)))
        join(AdaGrad(1.0), self.tables.intercept, self.stacks.intercept, 1, np.arange(1))
