"""Loops for implicit feedback: least squares over all pairs of two sides, without going through all of them.

Q (n, k)       vectors of the side at hand: the sums of the factors of each row's features
Z (n', k)      vectors of the other side; G (k, k) = omega sum_i z_i z_i', all pairs in one matrix
seen           (indptr (n + 1), indices, weights): the pairs that were observed, by rows of this side
T (d, k)       factors of features; a row has at most one of those of a field, with the value 1
members        (indptr (d + 1), indices): the rows that have a feature; with values, where these are not all 1

Degrees above 2 (`solve_features`) have parts of rows in place of vectors: see `across`.
"""

import numpy as np

from polyfm.loops.across import clear, cofactors, pull_back, push
from polyfm.loops.jit import inline, loop


@inline
def add_product(seen, Z, c, p, out):
    """out += sum_i a_ci <z_i, p> z_i over the pairs of row c that were observed."""
    indptr, indices, weights = seen
    for e in range(indptr[c], indptr[c + 1]):
        z = Z[indices[e]]
        dot = 0.0
        for s in range(p.shape[0]):
            dot += z[s] * p[s]
        dot *= weights[e]
        for s in range(p.shape[0]):
            out[s] += dot * z[s]


@inline
def add_targets(seen, Z, c, out):
    """out += sum_i a_ci z_i: what the observed pairs, whose target is 1, pull to."""
    indptr, indices, weights = seen
    for e in range(indptr[c], indptr[c + 1]):
        z = Z[indices[e]]
        for s in range(out.shape[0]):
            out[s] += weights[e] * z[s]


@loop(streaming=True)
def products(seen, Z, G, P, lo, hi, out):
    """out_c = (sum_i a_ci z_i z_i' + G) p_c for lo <= c < hi."""
    k = P.shape[1]
    for c in range(lo, hi):
        for s in range(k):
            total = 0.0
            for r in range(k):
                total += G[s, r] * P[c, r]
            out[c, s] = total
        add_product(seen, Z, c, P[c], out[c])


@loop(streaming=True)
def pulls(seen, Z, lo, hi, out):
    """out_c = sum_i a_ci z_i for lo <= c < hi."""
    for c in range(lo, hi):
        out[c] = 0.0
        add_targets(seen, Z, c, out[c])


@loop(streaming=True)
def squares(seen, Q, Z):
    """sum over the observed pairs of a_ci (<q_c, z_i> - 1)^2."""
    indptr, indices, weights = seen
    total = 0.0
    for c in range(Q.shape[0]):
        for e in range(indptr[c], indptr[c + 1]):
            f = 0.0
            for s in range(Q.shape[1]):
                f += Q[c, s] * Z[indices[e], s]
            total += weights[e] * (f - 1.0) * (f - 1.0)
    return total


@inline
def conjugate_step(p, v, r, delta, norm):
    """A step of conjugate gradients along p, whose product with the matrix is v: delta, what is left (r), and the next
    direction are brought up to date. The squared size of what is left; 0 where the matrix bends no way upwards."""
    curvature = 0.0
    for s in range(p.shape[0]):
        curvature += p[s] * v[s]
    if not curvature > 0.0:
        return 0.0
    step = norm / curvature
    after = 0.0
    for s in range(p.shape[0]):
        delta[s] += step * p[s]
        r[s] -= step * v[s]
        after += r[s] * r[s]
    for s in range(p.shape[0]):
        p[s] = r[s] + after / norm * p[s]
    return after


@loop(streaming=True)
def solve_field(seen, Z, G, penalties, members, T, Q, steps, lo, hi):
    """A few steps of conjugate gradients for the factors of each feature from lo to hi, all others fixed. Features of
    one field share no row: they are independent of each other."""
    first, rows = members
    k = Q.shape[1]
    r = np.empty(k)
    p = np.empty(k)
    v = np.empty(k)
    delta = np.empty(k)
    for j in range(lo, hi):
        n_rows = np.float64(first[j + 1]) - np.float64(first[j])
        for s in range(k):
            r[s] = 0.0
            v[s] = penalties[j] * T[j, s]
        for m in range(first[j], first[j + 1]):
            c = rows[m]
            q = Q[c]
            add_targets(seen, Z, c, r)
            add_product(seen, Z, c, q, v)
            for s in range(k):
                total = 0.0
                for o in range(k):
                    total += G[s, o] * q[o]
                v[s] += total
        norm = 0.0
        for s in range(k):
            r[s] -= v[s]
            p[s] = r[s]
            delta[s] = 0.0
            norm += r[s] * r[s]
        floor = 1e-24 * norm
        for _ in range(steps):
            if not norm > floor:
                break
            for s in range(k):
                total = 0.0
                for o in range(k):
                    total += G[s, o] * p[o]
                v[s] = penalties[j] * p[s] + n_rows * total
            for m in range(first[j], first[j + 1]):
                add_product(seen, Z, rows[m], p, v)
            norm = conjugate_step(p, v, r, delta, norm)
        for s in range(k):
            T[j, s] += delta[s]
        for m in range(first[j], first[j + 1]):
            for s in range(k):
                Q[rows[m], s] += delta[s]


@inline
def multiply(seen, Z, G, c, p, out):
    """out = (sum_i a_ci z_i z_i' + G) p"""
    for s in range(p.shape[0]):
        total = 0.0
        for o in range(p.shape[0]):
            total += G[s, o] * p[o]
        out[s] = total
    add_product(seen, Z, c, p, out)


@loop(streaming=True)
def solve_features(seen, Z, G, penalties, members, T, A, m, k, steps, lo, hi):
    """The same at degree m, one feature after the other: A (n, .) are the parts of this side's rows, and Z those of the
    other side, in the order in which they meet."""
    first, rows, values = members
    width = (m - 1) * k
    b = np.empty(A.shape[1])
    lifted = np.empty(A.shape[1])
    w = np.empty(A.shape[1])
    r = np.empty(width)
    p = np.empty(width)
    v = np.empty(width)
    delta = np.empty(width)
    for j in range(lo, hi):
        clear(r)
        for e in range(first[j], first[j + 1]):
            c = rows[e]
            cofactors(T, j, values[e], m, k, A[c], b)
            multiply(seen, Z, G, c, A[c], w)
            for s in range(w.shape[0]):
                w[s] = -w[s]
            add_targets(seen, Z, c, w)
            pull_back(b, m, k, w, r)
        norm = 0.0
        for s in range(width):
            r[s] -= penalties[j] * T[j, s]
            p[s] = r[s]
            delta[s] = 0.0
            norm += r[s] * r[s]
        floor = 1e-24 * norm
        for _ in range(steps):
            if not norm > floor:
                break
            for s in range(width):
                v[s] = penalties[j] * p[s]
            for e in range(first[j], first[j + 1]):
                c = rows[e]
                cofactors(T, j, values[e], m, k, A[c], b)
                push(b, m, k, p, lifted)
                multiply(seen, Z, G, c, lifted, w)
                pull_back(b, m, k, w, v)
            norm = conjugate_step(p, v, r, delta, norm)
        for e in range(first[j], first[j + 1]):
            c = rows[e]
            cofactors(T, j, values[e], m, k, A[c], b)
            push(b, m, k, delta, lifted)
            for s in range(lifted.shape[0]):
                A[c, s] += lifted[s]
        for s in range(width):
            T[j, s] += delta[s]
