"""Loops of block descent: all unknowns of a feature at once.

The prediction is affine in the parameters of one feature (Theorem 1 of the paper: the objective is convex in a row of
P), so that they are found together from one small linear system. Samples come in tiles: Z holds, unknown by unknown,
the derivatives of a tile's predictions, and the system is built from products of its rows at matrix-product speed.
Nothing is kept for a sample but its prediction: what the other features of its row say is read anew from T, which
is small, instead of from memory that grows with the samples. That pays where rows are short.

Letters as in `_columns` and `_rows`; T[j, t, s] holds the factors, H and g the system H delta = -g.
"""

import math

import numpy as np

from polyfm._columns import TINY
from polyfm._jit import LANES, at, loop

TILE = 512  # samples
PAD = 8  # rows of Z a power of two apart would compete for the same lines of the cache
KEPT = 16  # tiles of a feature whose derivatives are kept until the step is known; longer features compute them twice


@loop(streaming=True)
def _fill(form, r_indptr, r_indices, r_data, dummies, rows, data, lo, start, stop, j, t, T, lams, A, Z):
    """Z[1 + u, e - start]: derivatives of the predictions by the unknowns u of feature j, for its entries start .. stop
    (exclusive). Row 0 of Z, the derivative by the linear weight, is the feature's value."""
    d = T.shape[0] - dummies
    bases = lams.shape[0]
    low, high = form.joint(t)
    for block in range(start, stop, LANES):
        m = min(LANES, stop - block)
        for r in range(m):
            i = at(rows, np.uint64(block + r), np.uint64(block + r - lo))
            a = A[r]
            a[:] = 0.0
            first = r_indptr[i]
            for q in range(first, r_indptr[i + 1]):
                feature = at(r_indices, q, q - first)
                if feature != j or form.counts_itself():
                    form.absorb(a, T, feature, at(r_data, q, 1.0))
            for q in range(d, T.shape[0]):
                if q != j or form.counts_itself():
                    form.absorb(a, T, q, 1.0)
        z = block - start
        for r in range(m):
            Z[0, z + r] = at(data, np.uint64(block + r), 1.0)
        u = 1
        for o in range(low, high):
            for s in range(bases):
                for r in range(m):
                    Z[u, z + r] = Z[0, z + r] * lams[s] * form.lead(A[r], o, s)
                u += 1


@loop(streaming=True)
def _add_products(Z, m, v, H):
    """The upper triangle of H += Z diag(v) Z^T over the first m columns of Z, in blocks of 4 x 4 that stay in
    registers."""
    for a in range(0, Z.shape[0], 4):
        for b in range(a, Z.shape[0], 4):
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = 0.0
            s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = 0.0
            for z in range(m):
                w = at(v, z, 1.0)
                a0, a1, a2, a3 = w * Z[a, z], w * Z[a + 1, z], w * Z[a + 2, z], w * Z[a + 3, z]
                b0, b1, b2, b3 = Z[b, z], Z[b + 1, z], Z[b + 2, z], Z[b + 3, z]
                s00 += a0 * b0
                s01 += a0 * b1
                s02 += a0 * b2
                s03 += a0 * b3
                s10 += a1 * b0
                s11 += a1 * b1
                s12 += a1 * b2
                s13 += a1 * b3
                s20 += a2 * b0
                s21 += a2 * b1
                s22 += a2 * b2
                s23 += a2 * b3
                s30 += a3 * b0
                s31 += a3 * b1
                s32 += a3 * b2
                s33 += a3 * b3
            H[a, b] += s00
            H[a, b + 1] += s01
            H[a, b + 2] += s02
            H[a, b + 3] += s03
            H[a + 1, b] += s10
            H[a + 1, b + 1] += s11
            H[a + 1, b + 2] += s12
            H[a + 1, b + 3] += s13
            H[a + 2, b] += s20
            H[a + 2, b + 1] += s21
            H[a + 2, b + 2] += s22
            H[a + 2, b + 3] += s23
            H[a + 3, b] += s30
            H[a + 3, b + 1] += s31
            H[a + 3, b + 2] += s32
            H[a + 3, b + 3] += s33


@loop(streaming=True)
def _solve(H, g, n):
    """g = H^-1 g by Cholesky's method on the upper triangle, row by row; eight numbers of a row stay in registers.
    The right-hand side is one more column of H, so that it is solved for along the way. Below the diagonal H holds
    nothing of use. An unknown without curvature of its own stays put."""
    for c in range(n):
        H[c, n] = g[c]
        before = H[c, c]
        for k in range(c // LANES * LANES, H.shape[0], LANES):
            s0, s1, s2, s3 = H[c, k], H[c, k + 1], H[c, k + 2], H[c, k + 3]
            s4, s5, s6, s7 = H[c, k + 4], H[c, k + 5], H[c, k + 6], H[c, k + 7]
            for q in range(c):
                h = H[q, c]
                s0 -= h * H[q, k]
                s1 -= h * H[q, k + 1]
                s2 -= h * H[q, k + 2]
                s3 -= h * H[q, k + 3]
                s4 -= h * H[q, k + 4]
                s5 -= h * H[q, k + 5]
                s6 -= h * H[q, k + 6]
                s7 -= h * H[q, k + 7]
            H[c, k], H[c, k + 1], H[c, k + 2], H[c, k + 3] = s0, s1, s2, s3
            H[c, k + 4], H[c, k + 5], H[c, k + 6], H[c, k + 7] = s4, s5, s6, s7
        pivot = H[c, c]
        root = 1.0 / math.sqrt(pivot) if pivot > max(TINY, 1e-13 * before) else 0.0  # 0: nothing but rounding is left
        for k in range(c, H.shape[0]):
            H[c, k] *= root
        H[c, c] = root
    for c in range(n - 1, -1, -1):
        total = H[c, n]
        for i in range(c + 1, n):
            total -= H[c, i] * g[i]
        g[c] = total * H[c, c]


@loop(streaming=True)
def sweep(
    form, loss, by_column, by_row, slots, order, start, stop, first, t, y, weight, f, T, lams, penalties, coef, alpha,
    reach,
):  # fmt: skip
    """Minimise over all unknowns of the features order[start:stop], one feature after the other.

    The loss is majorised by a parabola, exact for the squared loss. A step of `reach` times the way to the
    parabola's lowest point, with 0 < reach < 2, lowers it too (over-relaxation).
    """
    indptr, rows, data = by_column
    r_indptr, r_indices, r_data = by_row
    mu = loss.curvature
    bases = lams.shape[0]
    low, high = form.joint(t)
    n = 1 + (high - low) * bases
    dummies = T.shape[0] - coef.shape[0]
    padded = -(-(n + 1) // LANES) * LANES
    A = np.empty((LANES, slots, T.shape[2]))
    tiles = np.zeros((KEPT, -(-n // 4) * 4, TILE + PAD))
    H = np.empty((padded, padded))
    g = np.empty(n)
    slopes = np.empty(TILE)
    v = None if weight is None else np.empty(TILE)
    for c in range(start, stop):
        column = at(order, c, c)
        j = first + column
        lo = np.int64(indptr[column])
        hi = np.int64(indptr[column + 1])
        H[:] = 0.0
        g[:] = 0.0
        for begin in range(lo, hi, TILE):
            end = min(begin + TILE, hi)
            m = end - begin
            Z = tiles[(begin - lo) // TILE % KEPT]
            _fill(form, r_indptr, r_indices, r_data, dummies, rows, data, lo, begin, end, j, t, T, lams, A, Z)
            for z in range(m):
                i = at(rows, np.uint64(begin + z), np.uint64(begin + z - lo))
                w = at(weight, i, 1.0)
                slopes[z] = w * loss.derivative(at(y, i, 0.0), f[i])
                if v is not None:
                    v[z] = w
            _add_products(Z, m, v, H)
            for a in range(n):
                total = 0.0
                for z in range(m):
                    total += Z[a, z] * slopes[z]
                g[a] -= total
        linear = first == 0 and alpha >= 0.0
        for a in range(n):
            for b in range(a, n):
                H[a, b] *= mu
        if linear:
            H[0, 0] += alpha
            g[0] -= alpha * coef[column]
        else:
            for b in range(n):
                H[0, b] = 0.0
            g[0] = 0.0
        u = 1
        for o in range(low, high):
            for s in range(bases):
                H[u, u] += penalties[s]
                g[u] -= penalties[s] * T[j, o, s]
                u += 1
        _solve(H, g, n)
        if lo < hi:  # a feature that never occurs has nothing to overshoot for
            for a in range(n):
                g[a] *= reach
        for begin in range(lo, hi, TILE):
            end = min(begin + TILE, hi)
            m = end - begin
            Z = tiles[(begin - lo) // TILE % KEPT]
            if hi - lo > KEPT * TILE:
                _fill(form, r_indptr, r_indices, r_data, dummies, rows, data, lo, begin, end, j, t, T, lams, A, Z)
            for z in range(m):
                slopes[z] = 0.0
            for a in range(n):
                step = g[a]
                for z in range(m):
                    slopes[z] += step * Z[a, z]
            for z in range(m):
                f[at(rows, np.uint64(begin + z), np.uint64(begin + z - lo))] += slopes[z]
        if linear:
            coef[column] += g[0]
        u = 1
        for o in range(low, high):
            for s in range(bases):
                T[j, o, s] += g[u]
                u += 1
