"""Loops for ranking by pairs: of an item that was seen and one that was not, the first should have the higher score.

rule         a `Bpr` or `Warp`: which pairs to learn from, and how much
U, V         rows of features of contexts and of items, (indptr, indices, data)
P, Q         factors of their features, ((m-1) k) each, in Q with a bias behind them; HP, HQ their sums of squares
              (AdaGrad); RP, RQ (features,) how far each may move: 0 keeps it
pairs        (contexts, items, weights) of what was observed, in the order of learning
seen         (indptr, indices): the items of each context, sorted
key          (seed, epoch): a pair's negatives depend on these and its place alone
"""

import math
from typing import NamedTuple

import numpy as np

from polyfm.loops.across import clear, cofactors, parts, pull_back
from polyfm.loops.jit import compiled, inline, loop
from polyfm.loops.philox import uniform


@compiled
class Bpr(NamedTuple):
    """log(1 + exp(-margin)) of one negative (Rendle et al. 2009)."""

    most_trials: int = 1

    def is_wrong(self, margin):
        return True

    def pair_slope(self, margin, n_items, trials):
        return 1.0 / (1.0 + math.exp(min(margin, 500.0)))

    def pair_loss(self, margin, n_items, trials):
        return math.log1p(math.exp(-margin)) if margin > -30.0 else -margin


@compiled
class Warp(NamedTuple):
    """The hinge of the first negative that is not a margin of 1 behind, times the logarithm of the rank that the number
    of trials speaks for (Weston et al. 2011)."""

    most_trials: int = 10

    def is_wrong(self, margin):
        return margin < 1.0

    def pair_slope(self, margin, n_items, trials):
        return math.log(max(1.0, (n_items - 1) // trials))

    def pair_loss(self, margin, n_items, trials):
        return (1.0 - margin) * math.log(max(1.0, (n_items - 1) // trials))


@inline
def is_seen(seen, c, i):
    indptr, indices = seen
    lo = np.int64(indptr[c])
    hi = np.int64(indptr[c + 1])
    while lo < hi:
        mid = (lo + hi) // 2
        if indices[mid] < i:
            lo = mid + 1
        else:
            hi = mid
    return lo < np.int64(indptr[c + 1]) and indices[lo] == i


@inline
def bias(V, i, Q, at):
    indptr, indices, data = V
    total = 0.0
    for e in range(indptr[i], indptr[i + 1]):
        total += data[e] * Q[indices[e], at]
    return total


@inline
def score(a, z, m, k):
    """The inner product of the parts of a context and of an item: A^t of the one beside A^(d-t) of the other."""
    total = 0.0
    first = 0
    for d in range(2, m + 1):
        for t in range(1, d):
            mine = first + (t - 1) * k
            other = first + (d - 1 - t) * k
            for s in range(k):
                total += a[mine + s] * z[other + s]
        first += (d - 1) * k
    return total


@inline
def turn(z, m, k, c, out):
    """out += c z with the parts in the other side's order."""
    first = 0
    for d in range(2, m + 1):
        for t in range(1, d):
            for s in range(k):
                out[first + (t - 1) * k + s] += c * z[first + (d - 1 - t) * k + s]
        first += (d - 1) * k


@inline
def step(X, c, T, H, R, m, k, a, b, g, g_bias, h, rate, reg):
    """A step of AdaGrad for the features of row c; g is the derivative by its parts, g_bias that by its bias."""
    indptr, indices, data = X
    width = (m - 1) * k
    for e in range(indptr[c], indptr[c + 1]):
        j = indices[e]
        if R[j] == 0.0:
            continue
        cofactors(T, j, data[e], m, k, a, b)
        for s in range(width):
            h[s] = reg * T[j, s]
        pull_back(b, m, k, g, h)
        for s in range(width):
            T[j, s] -= rate * R[j] * h[s] / math.sqrt(H[j, s])
            H[j, s] += h[s] * h[s]
        if T.shape[1] > width:
            slope = data[e] * g_bias + reg * T[j, width]
            T[j, width] -= rate * R[j] * slope / math.sqrt(H[j, width])
            H[j, width] += slope * slope


@loop
def learn(rule, U, V, P, Q, HP, HQ, RP, RQ, pairs, seen, m, k, rate, reg, key):
    """One pass over the pairs; the sum of their losses. A rate of 0 changes nothing. Features that both items of a pair
    have are stepped twice."""
    contexts, items, weights = pairs
    n_items = V[0].shape[0] - 1
    width = k * m * (m - 1) // 2
    a = np.empty(width)
    z = np.empty(width)
    y = np.empty(width)
    b = np.empty(width)
    g = np.empty(width)
    h = np.empty((m - 1) * k)
    at = (m - 1) * k
    total = 0.0
    for n in range(contexts.shape[0]):
        c = contexts[n]
        i = items[n]
        if weights[n] == 0.0:
            continue
        parts(U, c, P, m, k, a)
        parts(V, i, Q, m, k, z)
        f = score(a, z, m, k) + bias(V, i, Q, at)
        for trial in range(1, rule.most_trials + 1):
            o = np.uint32(uniform(key[0], key[1], n, trial, 0, 0) * n_items)
            if is_seen(seen, c, o):
                continue
            parts(V, o, Q, m, k, y)
            margin = f - score(a, y, m, k) - bias(V, o, Q, at)
            if not rule.is_wrong(margin):
                continue
            total += weights[n] * rule.pair_loss(margin, n_items, trial)
            if rate > 0.0:
                slope = weights[n] * rule.pair_slope(margin, n_items, trial)
                # The item that was not seen first, while z and y are those of before.
                clear(g)
                turn(a, m, k, slope, g)
                step(V, o, Q, HQ, RQ, m, k, y, b, g, slope, h, rate, reg)
                clear(g)
                turn(y, m, k, slope, g)
                turn(z, m, k, -slope, g)
                save = 0.0
                step(U, c, P, HP, RP, m, k, a, b, g, save, h, rate, reg)
                clear(g)
                turn(a, m, k, -slope, g)
                step(V, i, Q, HQ, RQ, m, k, z, b, g, -slope, h, rate, reg)
            break
    return total
