"""How good rankings are, over all items: none is sampled, because sampled metrics order models otherwise."""

from typing import Any

import numpy as np
import scipy.sparse as sp

CONTEXTS_AT_ONCE = 512


def ranking_metrics(positions: Any, relevant: Any) -> dict[str, float]:
    """Precision, recall, NDCG and MAP of ranked items, each a mean over the contexts that have relevant items.

    precision = hits / k; recall = hits / number of relevant items; NDCG = sum over hits of 1 / log2(1 + rank), divided
    by what the best order would give; MAP = mean over hits of the precision at their ranks, divided by min(k, number of
    relevant items). Coverage is the fraction of all items that somebody is shown.

    Parameters
    ----------
    positions : array-like of shape (n_contexts, k)
        Of items, the best first, as `top_n` gives them; -1 where there is none.
    relevant : sparse matrix of shape (n_contexts, n_items)
        Its stored entries are what is relevant.

    Returns
    -------
    metrics : dict
        ``precision``, ``recall``, ``ndcg``, ``map``, ``coverage`` and ``n_contexts``, how many were judged.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from polyfm.recommend import ranking_metrics
    >>> relevant = sp.csr_matrix([[1, 0, 1, 0], [0, 0, 0, 0]])
    >>> {name: round(value, 3) for name, value in ranking_metrics([[2, 1], [0, 1]], relevant).items()}
    {'precision': 0.5, 'recall': 0.5, 'ndcg': 0.613, 'map': 0.5, 'coverage': 0.75, 'n_contexts': 1}
    """
    positions = np.asarray(positions)
    relevant = _canonical(relevant)
    if positions.ndim != 2 or positions.shape[0] != relevant.shape[0] or positions.dtype.kind not in "iu":
        raise ValueError(
            f"positions must be integers, a row for each of the {relevant.shape[0]} rows of relevant; got an array of "
            f"shape {positions.shape} and type {positions.dtype}."
        )
    if positions.size and (positions.max() >= relevant.shape[1] or positions.min() < -1):
        raise ValueError(f"positions must be of the {relevant.shape[1]} items, or -1 where there is none.")
    k = positions.shape[1]
    counts = np.diff(relevant.indptr)
    n_items = relevant.shape[1]
    judged = counts > 0
    if not judged.any():
        raise ValueError("Nothing is relevant for anybody: there is nothing to judge.")
    pairs = np.repeat(np.arange(len(counts)), counts) * n_items + relevant.indices
    asked = np.arange(len(counts))[:, None] * n_items + positions
    hits = np.isin(asked, pairs) & (positions >= 0)
    hits, counts = hits[judged], counts[judged]
    gains = 1 / np.log2(np.arange(2, k + 2))
    most = np.minimum(counts, k)
    precisions = np.cumsum(hits, axis=1) / np.arange(1, k + 1)
    shown = positions[judged]
    return {
        "precision": float(np.mean(hits.sum(axis=1) / k)),
        "recall": float(np.mean(hits.sum(axis=1) / counts)),
        "ndcg": float(np.mean((hits @ gains) / np.cumsum(gains)[most - 1])),
        "map": float(np.mean((precisions * hits).sum(axis=1) / most)),
        "coverage": len(np.unique(positions[positions >= 0])) / n_items,
        "n_contexts": len(shown),
    }


def auc_score(contexts: np.ndarray, candidates: np.ndarray, relevant: Any, exclude: Any = None) -> float:
    """The probability that a relevant item is scored above one that is neither relevant nor excluded, a tie counting
    half; a mean over the contexts that have both.

    Parameters
    ----------
    contexts, candidates : ndarray of shape (n_contexts, n_numbers), (n_items, n_numbers)
        As `towers` gives them.
    relevant, exclude : sparse matrix of shape (n_contexts, n_items)
        What is not 0 is relevant, or left out.

    Returns
    -------
    auc : float

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from polyfm.recommend import auc_score
    >>> auc_score(np.array([[1.0]]), np.array([[3.0], [1.0], [2.0]]), sp.csr_matrix([[0, 0, 1]]))
    0.5
    """
    relevant = _canonical(relevant)
    exclude = sp.csr_matrix(relevant.shape) if exclude is None else _canonical(exclude)
    found = []
    for lo in range(0, len(contexts), CONTEXTS_AT_ONCE):
        scores = contexts[lo : lo + CONTEXTS_AT_ONCE] @ candidates.T
        for c, row in enumerate(scores, lo):
            positive = relevant.indices[relevant.indptr[c] : relevant.indptr[c + 1]]
            if not len(positive):
                continue
            others = np.ones(len(row), dtype=bool)
            others[positive] = False
            others[exclude.indices[exclude.indptr[c] : exclude.indptr[c + 1]]] = False
            negative = np.sort(row[others])
            if len(negative):
                below = np.searchsorted(negative, row[positive]), np.searchsorted(negative, row[positive], "right")
                found.append((below[0].mean() + below[1].mean()) / (2 * len(negative)))
    return float(np.mean(found)) if found else float("nan")


def _canonical(pairs: Any) -> sp.csr_matrix:
    pairs = sp.csr_matrix(pairs, copy=True)
    pairs.sum_duplicates()
    pairs.eliminate_zeros()
    return pairs
