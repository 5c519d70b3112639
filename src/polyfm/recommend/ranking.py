"""Exact top-N by inner products, in blocks of bounded memory.

Scores of a tile come from one matrix product in single precision, whose rounding error has a bound. It leaves a few
finalists more than are asked for; these are scored in double precision, always in the same order of addition. Where the
bound cannot rule out that somebody else should be among the best, all candidates of that context are. So the result is
that of scoring every pair in double precision, whatever the blocks and the number of threads.
"""

import itertools
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array

from polyfm.core.sparse import checked_sparse
from polyfm.core.threads import Team, one_thread_of_blas
from polyfm.estimators.validation import threads_of
from polyfm.loops import select

CONTEXTS_AT_ONCE = 256
CANDIDATES_AT_ONCE = 4096
SPARE = 8  # finalists beside those that are asked for
LARGEST = 1e15  # vectors that single precision multiplies without overflow


def top_n(
    contexts: Any, candidates: Any, n: int = 10, *, exclude: Any = None, n_jobs: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The n candidates with the largest inner products for each context: exact, and in bounded memory.

    Parameters
    ----------
    contexts, candidates : array-like of shape (n_contexts, n_numbers), (n_candidates, n_numbers)
        As `towers` gives them.
    n : int, default=10
        At most the number of candidates counts.
    exclude : sparse matrix of shape (n_contexts, n_candidates), default=None
        Pairs that are stored in it are left out, such as items that a user knows.
    n_jobs : int, default=None
        Threads; the result does not depend on it.

    Returns
    -------
    positions : ndarray of shape (n_contexts, n)
        Of the candidates, the best first; of equal ones, the first. -1 where nothing is left.
    scores : ndarray of shape (n_contexts, n)
        Their inner products in float64; -inf where nothing is left.

    Examples
    --------
    >>> import numpy as np
    >>> from polyfm.recommend import top_n
    >>> positions, scores = top_n([[1.0, 0.0], [0.0, 1.0]], [[1.0, 5.0], [2.0, 4.0], [3.0, 4.0]], n=2)
    >>> positions
    array([[2, 1],
           [0, 1]])
    >>> scores
    array([[3., 2.],
           [5., 4.]])
    """
    U = check_array(contexts, dtype=np.float64, order="C", input_name="contexts")
    V = check_array(candidates, dtype=np.float64, order="C", input_name="candidates")
    if U.shape[1] != V.shape[1]:
        raise ValueError(f"contexts have {U.shape[1]} numbers and candidates {V.shape[1]}; they need as many.")
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ValueError(f"n={n!r} is not a number of candidates: give an integer of at least 1.")
    n = min(int(n), len(V))
    left_out = _left_out(exclude, (len(U), len(V)))
    items = np.empty((len(U), n), dtype=np.int64)
    scores = np.empty((len(U), n))
    ranking = Ranking(U, V, n, left_out, items, scores)
    n_threads = min(threads_of(n_jobs), max(1, len(U) // CONTEXTS_AT_ONCE))
    bounds = [len(U) * part // n_threads for part in range(n_threads + 1)]
    with one_thread_of_blas(), Team(n_threads) as team:  # threads of ours, not of each product
        team.run(ranking.rank, list(itertools.pairwise(bounds)))
    return items, scores


class Ranking:
    """What the blocks of one call share."""

    def __init__(self, U, V, n: int, left_out: tuple[np.ndarray, np.ndarray], items, scores):
        self.U, self.V, self.n, self.left_out, self.items, self.scores = U, V, n, left_out, items, scores
        with np.errstate(over="ignore"):
            self.small = V.astype(np.float32)
        self.room = min(len(V), n + max(SPARE, n // 2))
        self.slack = _slack(U, V)

    def rank(self, lo: int, hi: int) -> None:
        step = CONTEXTS_AT_ONCE
        width = min(CANDIDATES_AT_ONCE, len(self.V))
        tile = np.empty(min(step, max(hi - lo, 1)) * width, dtype=np.float32)
        best_scores = np.empty((step, self.room), dtype=np.float32)
        best = np.empty((step, self.room), dtype=np.int64)
        for start in range(lo, hi, step):
            end = min(hi, start + step)
            U = self.U[start:end]
            with np.errstate(over="ignore", invalid="ignore"):  # such contexts have no slack, and are scored exactly
                small = U.astype(np.float32)
                size = np.zeros(end - start, dtype=np.int64)
                for first in range(0, len(self.V), width):
                    part = self.small[first : first + width]
                    scores = tile[: len(U) * len(part)].reshape(len(U), len(part))
                    np.dot(small, part.T, out=scores)
                    select.screen(scores, first, self.left_out, start, best_scores, best, size)
            select.settle(
                U, self.V, self.n, self.slack[start:end], self.left_out, start, best_scores, best, size,
                self.items[start:end], self.scores[start:end],
            )  # fmt: skip


def _slack(U: np.ndarray, V: np.ndarray) -> np.ndarray:
    """A bound on what rounding to single precision, of the vectors and of a product, does to a context's scores, twice
    over: K u / (1 - K u) times the product of the norms (Higham, section 3.1)."""
    with np.errstate(over="ignore"):
        norms = np.sqrt(np.einsum("ck,ck->c", U, U))
        largest = np.sqrt(np.einsum("ik,ik->i", V, V)).max(initial=0.0)
        unit = (U.shape[1] + 3) * np.finfo(np.float32).eps
        slack = 2 * unit * norms * largest + 1e-30
    too_large = (norms > LARGEST) | (largest > LARGEST) | (unit > 0.01)
    return np.where(too_large, np.inf, slack)


def _left_out(exclude: Any, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    if exclude is None:
        return np.zeros(shape[0] + 1, dtype=np.int64), np.empty(0, dtype=np.int32)
    if not sp.issparse(exclude):
        raise TypeError(f"exclude must be a sparse matrix of pairs to leave out, got {type(exclude).__name__}.")
    exclude = checked_sparse(exclude, "exclude").tocsr()
    if exclude.shape != shape:
        raise ValueError(f"exclude has shape {exclude.shape}, where {shape} pairs of contexts and candidates are.")
    if not exclude.has_canonical_format:
        exclude = exclude.copy()
        exclude.sum_duplicates()
    return exclude.indptr.astype(np.int64), exclude.indices.astype(np.int32)
