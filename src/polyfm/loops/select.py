"""Loops that select the largest scores: a screening in single precision, and finalists scored exactly.

    scores (b, w)  of b contexts and w candidates from `first` on, in single precision
    U (b, K), V (n, K)   vectors of contexts and of candidates, in double precision
    best_scores, best (b, m)   finalists of each context so far: a heap, the worst first; size (b,) how many
    left_out       (indptr (b + 1), indices): candidates that a context is not offered, ascending

One score precedes another if it is larger or, of two that are equal, if its candidate comes first.
"""

import numpy as np

from polyfm.loops.jit import inline, loop

CHUNK = 64  # scores that are compared with the worst finalist at once


@inline
def worse(score, item, other_score, other_item):
    """Whether the first comes after the second."""
    return score < other_score or (score == other_score and item > other_item)


@inline
def sift_down(scores, items, n, score, item):
    """Put a finalist in the place of the worst of n."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and worse(scores[child + 1], items[child + 1], scores[child], items[child]):
            child += 1
        if not worse(scores[child], items[child], score, item):
            break
        scores[at] = scores[child]
        items[at] = items[child]
        at = child
    scores[at] = score
    items[at] = item


@inline
def push(scores, items, n, score, item):
    """One more finalist beside n others."""
    at = n
    while at > 0:
        parent = (at - 1) >> 1
        if not worse(score, item, scores[parent], items[parent]):
            break
        scores[at] = scores[parent]
        items[at] = items[parent]
        at = parent
    scores[at] = score
    items[at] = item


@inline
def sort_heap(scores, items, n):
    """The best first."""
    for last in range(n - 1, 0, -1):
        score, item = scores[last], items[last]
        scores[last], items[last] = scores[0], items[0]
        sift_down(scores, items, last, score, item)


@inline
def exact(U, V, c, i):
    """<u_c, v_i>, added up from left to right, so that it does not depend on blocks or threads."""
    score = 0.0
    for k in range(U.shape[1]):
        score += U[c, k] * V[i, k]
    return score


@loop
def screen(scores, first, left_out, start, best_scores, best, size):
    """Let the candidates of one tile of scores, which are changed, compete with the finalists so far."""
    indptr, indices = left_out
    width = scores.shape[1]
    room = best.shape[1]
    for c in range(scores.shape[0]):
        for e in range(indptr[start + c], indptr[start + c + 1]):
            i = np.int64(indices[e]) - first
            if 0 <= i < width:
                scores[c, i] = -np.inf
        n = size[c]
        heap_scores, heap = best_scores[c], best[c]
        i = 0
        while i < width and n < room:
            if scores[c, i] > -np.inf:
                push(heap_scores, heap, n, scores[c, i], first + i)
                n += 1
            i += 1
        size[c] = n
        if n < room:
            continue
        while i < width:
            end = min(i + CHUNK, width)
            bar = heap_scores[0]
            above = 0
            for e in range(i, end):
                above += scores[c, e] > bar
            if above:
                for e in range(i, end):
                    if scores[c, e] > heap_scores[0]:  # candidates come in order: equal ones come after
                        sift_down(heap_scores, heap, n, scores[c, e], first + e)
            i = end


@loop
def settle(U, V, n, slack, left_out, start, best_scores, best, size, items, scores):
    """The n best of the finalists by exact scores; of all candidates, where rounding leaves a doubt. Returns how many
    contexts were in doubt."""
    indptr, indices = left_out
    doubts = 0
    n_candidates = V.shape[0]
    room = best.shape[1]
    exact_scores = np.empty(max(n, room), dtype=np.float64)
    found = np.empty(max(n, room), dtype=np.int64)
    for c in range(U.shape[0]):
        m = np.int64(size[c])
        bar = best_scores[c, 0] if m else 0.0
        for e in range(m):
            push(exact_scores, found, e, exact(U, V, c, best[c, e]), best[c, e])
        sort_heap(exact_scores, found, m)
        n_allowed = n_candidates - np.int64(indptr[start + c + 1] - indptr[start + c])
        if m < n_allowed and (m < room or not exact_scores[n - 1] > bar + slack[c]):
            doubts += 1
            m = 0
            e = indptr[start + c]
            for i in range(n_candidates):
                if e < indptr[start + c + 1] and indices[e] == i:
                    e += 1
                    continue
                score = exact(U, V, c, i)
                if m < n:
                    push(exact_scores, found, m, score, i)
                    m += 1
                elif score > exact_scores[0]:
                    sift_down(exact_scores, found, m, score, i)
            sort_heap(exact_scores, found, m)
        for e in range(min(n, m)):
            items[c, e] = found[e]
            scores[c, e] = exact_scores[e]
        for e in range(min(n, m), n):
            items[c, e] = -1
            scores[c, e] = -np.inf
    return doubts
