"""The loop of stochastic descent: AdaGrad steps that touch only the features of a batch's rows.

A coordinate theta with gradient g moves by eta g / sqrt(sum of all its squared gradients so far). Penalties are shared
out over the rows in which a feature occurs, so that one epoch counts each of them exactly once.

What a feature needs lies together: its factors, then what the step rule keeps of them, in one run of memory, and its
linear weight in another. A batch of one row, the usual one, goes to memory once a feature. Letters as in `rows`, and

    W   (d + dummies, kept * factors, k)   factors, then what the rule keeps of each
    L   (d, 4, 1)                          linear weight, what the rule keeps of it, 1 / rows with the feature; unused

Tuples of tables of different types are unrolled when compiled, as in `gradient`.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.core import types

from polyfm.loops import rows
from polyfm.loops.jit import LANES, at, compiled, inline, loop, overload
from polyfm.loops.lanes import lanes, sqrt
from polyfm.loops.prefetch import prefetch
from polyfm.loops.prior import Prior

END = -1
KEPT = 2  # numbers that AdaGrad keeps for each parameter: it and a sum


@compiled
class AdaGrad(NamedTuple):
    """theta -= eta g / sqrt(h), h being the sum of all g^2."""

    eta: float

    def move(self, W, j, t, factors, s, g):
        """Move W[j, t, s], of so many factors, along its gradient g."""
        h = W[j, factors + t, s] + g * g
        W[j, factors + t, s] = h
        W[j, t, s] -= self.eta * g / sqrt(h)

    def merge(self, W, copies, j, t, factors, s):
        """Make W[j, t, s] what its copies, W when they were made, have become by steps of their own: h = h_0 + sum_r
        (h_r - h_0) and theta = theta_0 + sum_r (theta_r - theta_0) h_r / h. Where one copy has moved it is that one."""
        h_0 = W[j, factors + t, s]
        theta_0 = W[j, t, s]
        h = h_0
        moved = theta_0 - theta_0
        for r in range(copies.shape[0]):
            h_r = copies[r, j, factors + t, s]
            h = h + (h_r - h_0)
            moved = moved + (copies[r, j, t, s] - theta_0) * h_r
        W[j, t, s] = theta_0 + moved / h
        W[j, factors + t, s] = h


class Table(NamedTuple):
    """One group of bases."""

    bases: rows.Bases  # its T is W
    prior: Prior
    rule: Any
    A: np.ndarray  # (rows of a batch, slots, bases): the form's working space
    c: np.ndarray  # (rows of a batch, bases): slope * lambda
    G: np.ndarray  # (1, factors, bases): a feature's gradient


class Weights(NamedTuple):
    """The linear weights (W = L), or the intercept (1, kept, 1)."""

    W: np.ndarray
    prior: Prior
    rule: Any
    fitted: bool


class Links(NamedTuple):
    """The entries of a batch by feature: a chain from the first of each feature to the last. All are None where a batch
    is one row, in which a feature occurs once."""

    features: np.ndarray | None  # (entries,): those of the batch
    counts: np.ndarray | None  # (entries,): the entries of each of them
    firsts: np.ndarray | None  # (entries,): the first entry of each of them
    nexts: np.ndarray | None  # (entries,): END after the last
    places: np.ndarray | None  # (entries,): where an entry stands in X
    rows: np.ndarray | None  # (entries,): in which row of the batch
    lasts: np.ndarray | None  # (d,): the last entry of a feature so far; END where there is none


def link(links, by_row, order, start, stop):
    """Link the entries of the rows order[start:stop]; how many features they have."""
    if links.features is None:
        return _count(links, by_row, order, start, stop)
    return _link(links, by_row, order, start, stop)


def _count(links, by_row, order, start, stop):
    return np.int64(by_row[0][order[start] + 1] - by_row[0][order[start]])


def _link(links, by_row, order, start, stop):
    indptr, indices, _ = by_row
    features, counts, firsts, nexts, places, rows_of, lasts = links
    found = 0
    p = 0
    for r in range(start, stop):
        first = indptr[order[r]]
        for e in range(first, indptr[order[r] + 1]):
            j = at(indices, e, e - first)
            nexts[p] = END
            places[p] = e
            rows_of[p] = r - start
            if lasts[j] == END:
                features[found] = j
                firsts[found] = p
                found += 1
            else:
                nexts[lasts[j]] = p
            lasts[j] = p
            p += 1
    for q in range(found):
        lasts[features[q]] = END
        counts[q] = 0
        p = firsts[q]
        while p != END:
            counts[q] += 1
            p = nexts[p]
    return found


def predict(tables, by_row, i, row):
    """The sum of all groups' expansions at row i of X; working spaces are left filled in place `row` of the batch."""
    return sum(_predict(table, by_row, i, row) for table in tables)


def step(tables, by_row, links, found, first, slopes, L, share):
    """Move the factors of the features of a batch, and of the dummy ones."""
    for table in tables:
        _step(table, by_row, links, found, first, slopes, L, share)


def _predict(table, by_row, i, row):
    form, dummies, _, W, lams = table.bases
    indptr, indices, data = by_row
    one = W.dtype.type(1.0)  # a plain 1.0 would turn single precision into double
    d = W.shape[0] - dummies
    A = table.A[row]
    A[:] = 0.0
    first = indptr[i]
    for e in range(first, indptr[i + 1]):
        prefetch(W, indices, e)
        rows.absorb(form, A, W, np.uint64(at(indices, e, e - first)), at(data, e, one))
    for q in range(dummies):
        rows.absorb(form, A, W, np.uint64(d + q), one)
    return rows.value(form, A, lams)


def _step(table, by_row, links, found, first, slopes, L, share):
    form, dummies, _, W, lams = table.bases
    _, indices, data = by_row
    A, c, G = table.A, table.c, table.G
    of, strength, mean = table.prior
    one = W.dtype.type(1.0)
    d = W.shape[0] - dummies
    for row in range(slopes.shape[0]):
        for s in range(0, lams.shape[0], LANES):
            c[row, lanes(s)] = lams[lanes(s)] * slopes[row]
    for q in range(found):
        j = np.uint64(at(links.features, q, at(indices, first + q, q)))
        pull(strength, mean, W, G, j, at(of, j, 0), at(links.counts, q, 1) * L[j, 2, 0])
        p = at(links.firsts, q, q)
        while p != END:
            row = at(links.rows, p, 0)
            rows.emit(form, A[row], W, G, 0, c[row], j, at(data, at(links.places, p, first + p), one))
            p = at(links.nexts, p, END)
        move(table.rule, W, G, j)
    for q in range(d, d + dummies):
        j = np.uint64(q)
        pull(strength, mean, W, G, j, at(of, j, 0), W.dtype.type(share))
        for row in range(slopes.shape[0]):
            rows.emit(form, A[row], W, G, 0, c[row], j, one)
        move(table.rule, W, G, j)


@inline
def pull(strength, mean, W, G, j, group, part):
    """G = a part of the penalty's gradient by the factors of feature j."""
    zero = W.dtype.type(0.0)
    for t in range(G.shape[1]):
        for s in range(0, G.shape[2], LANES):
            gap = W[j, t, lanes(s)] - at(mean, (group, lanes(s)), zero)
            G[0, t, lanes(s)] = part * strength[group, lanes(s)] * gap


@inline
def move(rule, W, G, j):
    """Move the factors of feature j along their gradient."""
    for t in range(G.shape[1]):
        for s in range(0, G.shape[2], LANES):
            rule.move(W, j, t, G.shape[1], lanes(s), G[0, t, lanes(s)])


@loop(streaming=True, allocates=False)
def join(rule, W, copies, factors, features):
    """Make one of all copies (shares, ...) of what tables hold of some features, and give it to them. W is what they
    were made of, and any of the tables."""
    whole = W.shape[2] - W.shape[2] % LANES  # weights stand alone
    for p in range(features.shape[0]):
        j = np.uint64(features[p])
        for t in range(factors):
            for s in range(0, whole, LANES):
                rule.merge(W, copies, j, t, factors, lanes(s))
            for s in range(whole, W.shape[2]):
                rule.merge(W, copies, j, t, factors, s)
        for r in range(copies.shape[0]):
            for t in range(W.shape[1]):
                for s in range(0, whole, LANES):
                    copies[r, j, t, lanes(s)] = W[j, t, lanes(s)]
                for s in range(whole, W.shape[2]):
                    copies[r, j, t, s] = W[j, t, s]


@loop
def meet(barrier):
    """Wait for all threads; False says to return."""
    return barrier.wait()


@overload(link)
def _link_if_many(links, by_row, order, start, stop):
    return _count if isinstance(links.types[0], types.NoneType) else _link


overload(_predict)(lambda table, by_row, i, row: _predict)
overload(_step)(lambda table, by_row, links, found, first, slopes, L, share: _step)


@overload(predict)
def _predict_all(tables, by_row, i, row):
    if len(tables) == 0:
        return lambda tables, by_row, i, row: 0.0
    return lambda tables, by_row, i, row: _predict(tables[0], by_row, i, row) + predict(tables[1:], by_row, i, row)


@overload(step)
def _step_all(tables, by_row, links, found, first, slopes, L, share):
    if len(tables) == 0:
        return lambda tables, by_row, links, found, first, slopes, L, share: None

    def all_of_them(tables, by_row, links, found, first, slopes, L, share):
        _step(tables[0], by_row, links, found, first, slopes, L, share)
        step(tables[1:], by_row, links, found, first, slopes, L, share)

    return all_of_them


@loop(streaming=True, allocates=False)
def epoch(tables, linear, intercept, response, by_row, order, slopes, n_total, links):
    """One pass over the rows in the given order, `batch` rows a step; penalties are shared out over `n_total` rows."""
    indptr, indices, data = by_row
    L, b = linear.W, intercept.W
    n = order.shape[0]
    batch = slopes.shape[0]
    for start in range(0, n, batch):
        stop = min(start + batch, n)
        gb = 0.0
        for r in range(start, stop):
            i = order[r]
            f = np.float64(b[0, 0, 0]) - response.shift_of(i)
            first = indptr[i]
            for e in range(first, indptr[i + 1]):
                prefetch(L, indices, e)
                f += L[at(indices, e, e - first), 0, 0] * at(data, e, 1.0)
            f += predict(tables, by_row, i, r - start)
            slopes[r - start] = response.slope(i, f)
            gb += slopes[r - start]
        found = link(links, by_row, order, start, stop)
        first = np.int64(indptr[order[start]])
        step(tables, by_row, links, found, first, slopes[: stop - start], L, (stop - start) / n_total)
        if linear.fitted:
            for q in range(found):
                j = at(links.features, q, at(indices, first + q, q))
                gap = L[j, 0, 0] - linear.prior.mean_of(0, j)
                g = at(links.counts, q, 1) * L[j, 2, 0] * linear.prior.strength_of(0, j) * gap
                p = at(links.firsts, q, q)
                while p != END:
                    g += slopes[at(links.rows, p, 0)] * at(data, at(links.places, p, first + p), 1.0)
                    p = at(links.nexts, p, END)
                linear.rule.move(L, j, 0, 1, 0, g)
        if intercept.fitted:
            intercept.rule.move(b, 0, 0, 1, 0, gb)
