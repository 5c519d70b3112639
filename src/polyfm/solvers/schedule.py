"""Schedule: which columns of X can be updated at the same time, and how threads share them out.

Columns that have no row in common can be updated at the same time with exactly the result of one after the other.
One-hot fields are such groups of columns; others are found by a greedy colouring. All of it depends on X alone: descent
takes columns in this order whatever the number of threads.
"""

import itertools
from functools import cached_property
from typing import NamedTuple

import numpy as np

from polyfm.core import row_order
from polyfm.core.design import Design, frozen
from polyfm.loops import arrange

N_COLOURS = 64
N_SHARES = 16  # that threads draw from: enough for those who are faster to do more, and to keep many threads busy
NONZEROS_WORTH_A_THREAD = 2**15  # fewer take less time than threads need to agree
FEATURES_OF_A_SMALL_FIELD = 10
PART_OF_THE_ROWS = 0.5  # that the columns of a turn have entries for; chosen by measurement
ENTRIES_WORTH_A_TURN = 1000  # threads wait once a turn
NONZEROS_WORTH_TURNS = 2**18
N_BLOCKS_OF_TURNS = 2  # of rows, and so threads at most: a rare column has too little to do in one of more blocks
SAMPLES_OF_A_RARE_FEATURE = 8  # with fewer, sums by feature take as much memory as the samples


class ColumnGroups(NamedTuple):
    """Columns in groups: group g is order[bounds[g]:bounds[g + 1]] (`order` is None where it is 0, 1, 2, ...).

    Columns of one of the first `n_apart` groups have no row in common.
    """

    order: np.ndarray | None  # (features,)
    bounds: np.ndarray  # (groups + 1,)
    n_apart: int


class Fields(NamedTuple):
    """features[g, i] is the feature of group g that sample i has (the number of features where it has none), and
    values[g, i] its value; `values` is None where all are 1."""

    features: np.ndarray  # (groups, samples)
    values: np.ndarray | None


class Turns(NamedTuple):
    """Columns in turns, the frequent ones first, and the entries of X in this order; see `loops/turns.py`."""

    order: np.ndarray  # (features,)
    bounds: np.ndarray  # (turns + 1,)
    own: np.ndarray  # (blocks + 1,)
    cuts: np.ndarray  # (features, blocks + 1)
    crowds: np.ndarray  # (non-zeros,)
    rows: np.ndarray  # (non-zeros,)
    data: np.ndarray | None  # (non-zeros,)

    @property
    def widest(self) -> int:
        return int(np.diff(self.bounds).max(initial=1))


class Plan(NamedTuple):
    """What threads can do at the same time in an epoch of coordinate descent. Piece p of the rows is rows[p] ..
    rows[p + 1], and the features of the first group in the places columns[p] .. columns[p + 1] of the order occur in
    this piece alone; all `columns` are 0 where there are no such pieces. A share c of group g is the columns in the
    places shares[g, c] .. shares[g, c + 1]."""

    rows: np.ndarray
    columns: np.ndarray
    shares: np.ndarray


class Schedule:
    """The order of updates of one design; ask for it by ``design.derived(Schedule)``."""

    def __init__(self, design: Design):
        self.design = design

    @cached_property
    def groups(self) -> ColumnGroups | None:
        """Columns that can be updated at the same time, or None where there are too few (text, dense data)."""
        indptr, rows, _ = self.design.columns
        if rows is None or len(rows) < NONZEROS_WORTH_A_THREAD:
            return None
        colours = colours_of(self.design)
        sizes = np.diff(indptr.astype(np.int64))
        n_apart = int(colours.max()) + 1 if colours.max() < N_COLOURS else N_COLOURS
        nonzeros = np.bincount(colours, weights=sizes, minlength=N_COLOURS + 1)
        largest = np.zeros(N_COLOURS + 1)
        np.maximum.at(largest, colours, sizes)
        apart = (nonzeros >= NONZEROS_WORTH_A_THREAD) & (largest <= nonzeros / 2)
        if nonzeros[:N_COLOURS][apart[:N_COLOURS]].sum() < 0.75 * len(rows):
            return None
        bounds = np.concatenate(([0], np.cumsum(np.bincount(colours)))).astype(np.int64)
        in_order = bool(np.all(colours[1:] >= colours[:-1]))
        order = None if in_order else frozen(np.argsort(colours, kind="stable"), np.uint32)
        return ColumnGroups(order, bounds, n_apart)

    @property
    def order(self) -> np.ndarray | None:
        return None if self.groups is None else self.groups.order

    @cached_property
    def fields(self) -> Fields | None:
        """One-hot fields by sample, or None where columns are as well walked down one after the other: where the
        samples' state fits into the cache, where two fields have put them in an order that suits both, where groups
        have gaps, or where features are rare. They take the place of the view by columns, which is let go."""
        n, d = self.design.shape
        if n < row_order.SAMPLES_BEYOND_CACHE or d * SAMPLES_OF_A_RARE_FEATURE > n or self.groups is None:
            return None
        order, bounds, n_apart = self.groups
        n_groups = len(bounds) - 1
        indptr, rows, data = self.design.columns
        if n_groups < 3 or n_apart < n_groups or indptr[-1] < n_groups * n / 2:
            return None
        features = np.full((n_groups, n), d, dtype=np.uint32)
        values = None if data is None else np.zeros((n_groups, n), dtype=self.design.dtype)
        arrange.fields_of(indptr, rows, data, order, bounds, features, values)
        self.design.release_columns()
        return Fields(features, values)

    @property
    def row_blocks(self) -> np.ndarray:
        """Bounds of the blocks of rows that cut the columns of turns."""
        return np.linspace(0, self.design.shape[0], N_BLOCKS_OF_TURNS + 1).astype(np.int64)

    @cached_property
    def turns(self) -> Turns | None:
        """Columns to be updated at once though they share rows, or None where they need not be: in one-hot data, which
        have groups, in dense data and in few. They take the place of the view by columns, which is let go."""
        n, d = self.design.shape
        if not self.design.is_sparse or self.design.nnz < NONZEROS_WORTH_TURNS or self.groups is not None:
            return None
        if n * PART_OF_THE_ROWS < ENTRIES_WORTH_A_TURN:
            return None
        indptr, rows, data = self.design.columns
        start, stop = indptr[:-1].astype(np.int64), indptr[1:].astype(np.int64)
        assert rows is not None
        first, last = rows[np.minimum(start, len(rows) - 1)], rows[np.maximum(stop, 1) - 1]
        owner = np.searchsorted(self.row_blocks, first, side="right")  # the block of all its rows, counted from 1
        owner[last >= self.row_blocks[owner]] = 0  # or both
        owner[start == stop] = 1
        order = np.lexsort((start - stop, owner))
        own = np.searchsorted(owner[order], np.arange(1, N_BLOCKS_OF_TURNS + 2))
        bounds = _filled(np.cumsum((stop - start)[order[: own[0]]]), n * PART_OF_THE_ROWS)
        cuts, crowds = np.empty((d, N_BLOCKS_OF_TURNS + 1), indptr.dtype), np.empty(len(rows), np.uint8)
        new_rows, new_data = np.empty_like(rows), None if data is None else np.empty_like(data)
        order = frozen(order, np.uint32)
        arrange.in_turns(indptr, rows, data, order, bounds, self.row_blocks, cuts, crowds, new_rows, new_data)
        self.design.release_columns()
        new_data = None if new_data is None else frozen(new_data, new_data.dtype)
        return Turns(order, bounds, own, cuts, crowds, frozen(new_rows, np.uint32), new_data)

    def shares(self, n: int) -> np.ndarray:
        """shares[g, c] .. shares[g, c + 1]: a part of the columns of group g, about equal to the others in non-zeros;
        groups that are not apart, or not worth it, are one part and empty ones."""
        order, bounds, n_apart = self.groups or ColumnGroups(None, np.array([0, self.design.shape[1]]), 0)
        before = self.design.columns.indptr  # non-zeros of the columns before each
        if order is not None:
            before = np.concatenate(([0], np.cumsum(np.diff(before.astype(np.int64))[order])))
        shares = np.repeat(bounds[1:, None], n + 1, axis=1)
        shares[:, 0] = bounds[:-1]
        for g, (lo, hi) in enumerate(itertools.pairwise(bounds)):
            first, last = int(before[lo]), int(before[hi])
            if g < n_apart and last - first >= NONZEROS_WORTH_A_THREAD:
                inner = np.searchsorted(before, np.ceil(np.linspace(first, last, n + 1)[1:-1]).astype(before.dtype))
                shares[g, 1:-1] = np.clip(inner, lo, hi)
        return shares

    def plan(self) -> Plan:
        rows, columns = self._pieces()
        if len(rows) <= row_order.BLOCKS_AT_ONCE:  # fewer pieces than that
            rows = np.linspace(0, self.design.shape[0], N_SHARES + 1).astype(np.int64)
            columns = np.zeros(N_SHARES + 1, np.int64)
        return Plan(rows, columns, self.shares(N_SHARES))

    def _pieces(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of pieces of rows, and of the first group's features that occur in a piece and in no other."""
        n, (order, bounds, _) = self.design.shape[0], self.groups or ColumnGroups(None, np.zeros(2, dtype=np.int64), 0)
        indptr, rows = self.design.columns.indptr.astype(np.int64), self.design.columns.indices
        assert rows is not None
        features = np.arange(bounds[1]) if order is None else order[: bounds[1]]
        start, stop = indptr[features], indptr[features + 1]
        occurs = start < stop
        first, last = np.full(len(features), n), np.full(len(features), -1)
        first[occurs], last[occurs] = rows[start[occurs]], rows[stop[occurs] - 1]
        behind, ahead = np.maximum.accumulate(last), np.minimum.accumulate(first[::-1])[::-1]
        cuts = np.flatnonzero(behind[:-1] < ahead[1:]) + 1
        _, chosen = np.unique(ahead[cuts] * (2 * row_order.n_row_blocks(n)) // n, return_index=True)
        cuts = cuts[chosen]
        return np.concatenate(([0], ahead[cuts], [n])), np.concatenate(([0], cuts, [bounds[1]]))


def _filled(ends: np.ndarray, size: float) -> np.ndarray:
    """Bounds of runs of items that end at `ends`: as many as fit into `size`, or one that is larger."""
    bounds = [0]
    while bounds[-1] < len(ends):
        before = ends[bounds[-1] - 1] if bounds[-1] else 0
        bounds.append(max(int(np.searchsorted(ends, before + size, side="right")), bounds[-1] + 1))
    return np.array(bounds)


def colours_of(design: Design) -> np.ndarray:
    """Columns of one colour have no row in common. Fields that stand side by side, one feature of each in every row,
    are seen at once; the greedy colouring would find the same."""
    (n, d), indptr, indices = design.shape, *design.rows[:2]
    assert indices is not None
    k = len(indices) // n
    if 0 < k <= N_COLOURS and np.all(np.diff(indptr) == k):
        fields = [indices[q::k] for q in range(k)]
        first, last = (np.array([end(field) for field in fields]) for end in (np.min, np.max))
        if np.all(last[:-1] < first[1:]):
            return np.maximum(np.searchsorted(first, np.arange(d), side="right") - 1, 0).astype(np.uint8)
    return arrange.colour(*design.columns[:2], n)


def one_hot_fields(design: Design) -> np.ndarray:
    """The field of each feature, counted from 0: features of a field have no row in common. Small fields are one, and
    so are all features of data that are not made of fields."""
    indptr, rows, _ = design.columns
    d, field = design.shape[1], np.zeros(design.shape[1], dtype=np.int64)
    if rows is None or not len(rows):
        return field
    colours = colours_of(design)
    within = colours < N_COLOURS
    if np.diff(indptr.astype(np.int64))[within].sum() < 0.75 * len(rows):
        return field
    small = np.bincount(colours, minlength=N_COLOURS + 1)[colours] < FEATURES_OF_A_SMALL_FIELD
    return np.unique(np.where(small, N_COLOURS, colours), return_inverse=True)[1].reshape(d)
