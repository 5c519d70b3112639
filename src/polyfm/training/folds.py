"""Folds by content: which rows are held out depends on what they hold, not on where they stand.

Copies of a row are held out together, so that a weight of 2 is the row twice for a search too, and the order of the
rows does not matter. Where rows have many copies, as in small tables of categories, that would hold out every
combination of them at once; copies are then told apart by their number.
"""

import itertools
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

STEPS = 2.0**24  # between zero and the largest value of a feature that are told apart
MOST_COPIES = 10  # of a row, on average, that are held out together
NONZEROS_AT_ONCE = 2**18
_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)


def _mixed(values: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64, a bijection in which every bit depends on all others."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * _MULTIPLIERS[1]
        values = (values ^ (values >> np.uint64(27))) * _MULTIPLIERS[2]
    return values ^ (values >> np.uint64(31))


def row_hashes(X, seed: int) -> np.ndarray:
    """A number for each row that depends on its non-zeros alone, in units of each feature's largest: neither units nor
    zeros that are stored matter."""
    with np.errstate(over="ignore"):
        columns = _mixed((np.arange(X.shape[1], dtype=np.uint64) + np.uint64(seed)) * _MULTIPLIERS[0])
        if sp.issparse(X):
            X = X.tocsr()
            hashes, largest = np.empty(X.shape[0], dtype=np.uint64), _largest(X)
            for start, stop in _pieces(X.indptr):
                lo, hi = X.indptr[start], X.indptr[stop]
                here = X.indices[lo:hi]
                terms = _terms(X.data[lo:hi], largest[here], columns[here])
                sums = np.concatenate([[np.uint64(0)], np.cumsum(terms, dtype=np.uint64)])
                hashes[start:stop] = np.diff(sums[X.indptr[start : stop + 1] - lo])
        else:
            hashes = np.zeros(X.shape[0], dtype=np.uint64)
            for j, largest in enumerate(np.abs(X).max(axis=0)):
                hashes += _terms(X[:, j], largest, columns[j])
        return _mixed(hashes + np.uint64(seed))


def _pieces(indptr: np.ndarray) -> Iterator[tuple[int, int]]:
    """Bounds of pieces of the rows, of about as many non-zeros each: what is computed for each takes memory."""
    wanted = np.arange(0, indptr[-1] + NONZEROS_AT_ONCE, NONZEROS_AT_ONCE)
    bounds = np.unique(np.append(np.searchsorted(indptr, wanted), len(indptr) - 1).clip(max=len(indptr) - 1))
    return itertools.pairwise(np.union1d(bounds, [0]).tolist())


def _largest(X) -> np.ndarray:
    largest = np.zeros(X.shape[1], dtype=X.dtype)
    for lo in range(0, X.nnz, NONZEROS_AT_ONCE):
        hi = min(lo + NONZEROS_AT_ONCE, X.nnz)
        np.maximum.at(largest, X.indices[lo:hi], np.abs(X.data[lo:hi]))
    return largest


def _terms(x: np.ndarray, largest, column) -> np.ndarray:
    """What non-zeros add to the hashes of their rows. They are rounded, since units cost a value its last digits."""
    steps = np.rint(x / np.where(largest > 0, largest, 1) * STEPS).astype(np.int64).view(np.uint64)
    return np.where(steps == 0, np.uint64(0), _mixed(steps ^ column))


def ranks_by_content(X, strata: np.ndarray | None, seed: int) -> np.ndarray:
    """A random order of the distinct rows, in each stratum: equal rows have equal ranks, 0 and up."""
    hashes = row_hashes(X, seed)
    ordered = np.sort(hashes)
    n_distinct = 1 + np.count_nonzero(ordered[1:] != ordered[:-1])
    del ordered
    if len(hashes) > MOST_COPIES * n_distinct:
        with np.errstate(over="ignore"):
            hashes = _mixed(hashes + _number_among_equals(hashes) * _MULTIPLIERS[0])
    ranks = np.empty(len(hashes), dtype=np.int64)
    everywhere: list[slice | np.ndarray] = [slice(None)]
    for here in everywhere if strata is None else [strata == label for label in np.unique(strata)]:
        ranks[here] = _ranks(hashes[here])
    return ranks


def _ranks(values: np.ndarray) -> np.ndarray:
    """The place of each among the distinct values; as numpy's `unique` has it, in half the memory."""
    order = np.argsort(values)
    ordered = values[order]
    rises = np.concatenate([[False], ordered[1:] != ordered[:-1]])
    del ordered
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.cumsum(rises)
    return ranks


def sample_by_content(X, share: float, seed: int) -> np.ndarray:
    """About this share of the rows, in their order."""
    return np.flatnonzero(row_hashes(X, seed) < np.uint64(share * 2.0**64))


def _number_among_equals(values: np.ndarray) -> np.ndarray:
    """0 for the first of equal values, 1 for the second, and so on."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    sizes = np.diff(np.append(first, len(values)))
    numbers = np.empty(len(values), dtype=np.uint64)
    numbers[order] = np.arange(len(values)) - np.repeat(first, sizes)
    return numbers
