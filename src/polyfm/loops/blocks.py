"""Loops of block descent: all unknowns of a feature at once.

The prediction is affine in the parameters of one feature (Theorem 1 of the paper: the objective is convex in a row of
P), so that they are found together from one small linear system. Samples come in tiles: a row of Z holds the
derivatives of a sample's prediction and, last, the slope of its loss, so that the system and its right-hand side are
products of the columns of Z, at matrix-product speed. Nothing is kept for a sample but its prediction: what the other
features of its row say is read anew from T, which is small, instead of from memory that grows with the samples. That
pays where rows are short.

Letters as in `columns` and `rows`; n is the number of unknowns of a feature (its factors, then its linear weight):

    f    (samples,)           predictions, less the response's shift
    Z    (tile, width)        derivatives by the unknowns and, in column n, the slope of the loss
    H    (width, width)       the system, with its right-hand side as column n
    g    (width,)             its solution
"""

import math

import numpy as np

from polyfm.loops.columns import TINY
from polyfm.loops.jit import LANES, at, inline, loop
from polyfm.loops.lanes import lanes
from polyfm.loops.rows import absorb

TILE = 64  # samples whose derivatives stay in the innermost cache until they are multiplied
KEPT = 2**13  # samples of a feature whose derivatives are kept until the step is known, and not computed again

DEPTH = 4  # vectors of sums that stay in registers: more would spill, fewer would wait for each other


@inline
def add_products(left, right, m, out, a, b, scale):
    """out += scale left^T right, over the first m rows of both: a tile of DEPTH rows from a on and LANES columns from
    b on."""
    s0 = s1 = s2 = s3 = 0.0 * out[a, lanes(b)]
    for z in range(m):
        row = right[z, lanes(b)]
        s0 += left[z, a] * row
        s1 += left[z, a + 1] * row
        s2 += left[z, a + 2] * row
        s3 += left[z, a + 3] * row
    out[a, lanes(b)] += scale * s0
    out[a + 1, lanes(b)] += scale * s1
    out[a + 2, lanes(b)] += scale * s2
    out[a + 3, lanes(b)] += scale * s3


@inline
def _approach(by_row, rows, lo, start, stop, spans):
    """Note where the rows of a tile's samples begin and end, and read the first feature of each.

    These reads do not depend on each other, so that the processor waits for many lines of memory at once. The loop that
    follows has branches on what it reads, and would wait for one line after the other.
    """
    indptr, indices, _ = by_row
    for e in range(start, stop):
        i = at(rows, np.uint64(e), np.uint64(e - lo))
        spans[e - start, 0] = indptr[i]
        spans[e - start, 1] = indptr[i + 1]
    read = np.uint64(0)
    for z in range(stop - start):
        read += np.uint64(at(indices, spans[z, 0], 0))
    spans[TILE, 0] = read  # what is never used, a compiler leaves out


@loop(streaming=True)
def _fill(form, by_row, dummies, rows, data, lo, start, stop, j, t, T, lams, bases, A, spans, Z):
    """Z[e - start, u]: the derivative of a prediction by the unknown u of feature j, for its entries start .. stop
    (exclusive); after the factors comes the linear weight."""
    _, indices, values = by_row
    d = T.shape[0] - dummies
    low, high = form.joint(t)
    _approach(by_row, rows, lo, start, stop, spans)
    for e in range(start, stop):
        A[:] = 0.0
        first = spans[e - start, 0]
        for q in range(first, spans[e - start, 1]):
            feature = at(indices, q, q - first)
            if feature != j or form.counts_itself():
                absorb(form, A, T, feature, at(values, q, 1.0))
        for q in range(d, T.shape[0]):
            if q != j or form.counts_itself():
                absorb(form, A, T, q, 1.0)
        x = at(data, np.uint64(e), 1.0)
        u = 0
        for o in range(low, high):
            for s in range(0, A.shape[1], LANES):  # what is written beyond the bases is overwritten by what comes next
                Z[e - start, lanes(u + s)] = x * lams[lanes(s)] * form.cofactor(A, o, j, lanes(s))
            u += bases
        Z[e - start, u] = x


@loop(streaming=True)
def _solve(H, n, g, rule, bases, low, j):
    """g = H[:n, :n]^-1 H[:n, n] by Cholesky's method on the upper triangle, a few rows at a time; the right-hand side
    is one more column, so that it is solved for along the way. Below the diagonal H holds nothing of use. An unknown
    without curvature of its own stays put. The rule's noise comes in between the two substitutions; unknown c is
    factor low + c // bases of basis c % bases, and the last is the linear weight, of factor -1."""
    for block in range(0, n, DEPTH):
        last = min(block + DEPTH, n)
        for c in range(block, last):
            g[c] = H[c, c]
        for k in range(block // LANES * LANES, H.shape[0], LANES):
            add_products(H, H, block, H, block, k, -1.0)
        for c in range(block, last):
            diagonal = c // LANES * LANES
            for q in range(block, c):
                h = H[q, c]
                for k in range(diagonal, H.shape[0], LANES):
                    H[c, lanes(k)] -= h * H[q, lanes(k)]
            pivot = H[c, c]
            root = 1.0 / math.sqrt(pivot) if pivot > max(TINY, 1e-13 * g[c]) else 0.0  # 0: only rounding is left
            for k in range(diagonal, H.shape[0], LANES):
                H[c, lanes(k)] *= root
            H[c, c] = root
    for c in range(n - 1, -1, -1):
        total = H[c, n] + (rule.noise(0, -1, j) if c == n - 1 else rule.noise(c % bases, low + c // bases, j))
        for i in range(c + 1, n):
            total -= H[c, i] * g[i]
        g[c] = total * H[c, c]


@inline
def _weigh(weight, i, z, Z, weighted):
    if weight is not None:
        for a in range(Z.shape[1]):
            weighted[z, a] = weight[i] * Z[z, a]


@inline
def _left(weight, Z, weighted):
    """diag(weight) Z, where there are weights."""
    return Z if weight is None else weighted


@inline
def _step_alone(strength, gap, noise):
    """What `_solve` finds for an unknown that no sample has to do with: the way to its prior's mean."""
    root = 1.0 / math.sqrt(strength) if strength > TINY else 0.0
    return (noise - strength * gap * root) * root


@inline
def _width(form, t, T, bases):
    """Of a row of Z, filled up to whole vectors."""
    low, high = form.joint(t)
    return -(-max((high - low) * bases + 2, (high - low - 1) * bases + T.shape[2]) // LANES) * LANES


@inline
def _add_system(
    form, response, by_row, dummies, rows, data, lo, hi, j, t, f, T, lams, bases, n, A, spans, kept, weighted, H
):  # fmt: skip
    """H += Z^T diag(weight) Z over the samples of feature j, which are the entries lo .. hi of its column."""
    for begin in range(lo, hi, TILE):
        end = min(begin + TILE, hi)
        m = end - begin
        Z = kept[(begin - lo) % KEPT :]
        _fill(form, by_row, dummies, rows, data, lo, begin, end, j, t, T, lams, bases, A, spans, Z)
        for z in range(m):
            i = at(rows, np.uint64(begin + z), np.uint64(begin + z - lo))
            Z[z, n] = response.derivative(i, f[i])
            _weigh(response.weight, i, z, Z, weighted)
        left = _left(response.weight, Z, weighted)
        for a in range(0, n, DEPTH):
            for b in range(a // LANES * LANES, H.shape[1], LANES):
                add_products(left, Z, m, H, a, b, 1.0)


@inline
def _add_prior(prior, linear_prior, solve_linear, mu, low, high, bases, j, column, T, coef, H):
    """Make the system of a feature of the products of Z: with the loss's curvature mu, and the penalties."""
    linear = (high - low) * bases
    n = linear + 1
    for a in range(n):
        for b in range(a, n):
            H[a, b] *= mu
        H[a, n] *= -1.0
    u = 0
    for o in range(low, high):
        for s in range(bases):
            strength = prior.strength_of(s, j)
            H[u, u] += strength
            H[u, n] -= strength * (T[j, o, s] - prior.mean_of(s, j))
            u += 1
    if solve_linear:
        strength = linear_prior.strength_of(0, j)
        H[linear, linear] += strength
        H[linear, n] -= strength * (coef[column] - linear_prior.mean_of(0, j))
    else:
        for a in range(n):
            H[a, linear] = 0.0
        H[linear, n] = 0.0


@inline
def _step_to_prior(prior, linear_prior, solve_linear, rule, low, high, bases, j, column, T, coef):
    """The step of a feature that never occurs; noise is drawn in the order in which `_solve` does."""
    noise = rule.noise(0, -1, j)
    if solve_linear:
        gap = coef[column] - linear_prior.mean_of(0, j)
        coef[column] += _step_alone(linear_prior.strength_of(0, j), gap, noise)
    for o in range(high - 1, low - 1, -1):
        for s in range(bases - 1, -1, -1):
            gap = T[j, o, s] - prior.mean_of(s, j)
            T[j, o, s] += _step_alone(prior.strength_of(s, j), gap, rule.noise(s, o, j))


@inline
def _take_step(g, low, high, bases, solve_linear, j, column, T, coef):
    u = 0
    for o in range(low, high):
        for s in range(bases):
            T[j, o, s] += g[u]
            u += 1
    if solve_linear:
        coef[column] += g[u]


@loop(streaming=True)
def sweep(
    form, response, prior, linear_prior, fit_linear, rule, by_column, by_row, slots, order, start, stop, first, t, f, T,
    lams, bases, coef,
):  # fmt: skip
    """Minimise over all unknowns of the features order[start:stop], one feature after the other.

    `form` is the model's `cofactor_form`. The loss is majorised by a parabola, exact for the squared loss. A step of
    `rule.reach` times the way to the parabola's lowest point, with 0 < reach < 2, lowers it too (over-relaxation).
    """
    indptr, rows, data = by_column
    low, high = form.joint(t)
    n = (high - low) * bases + 1
    solve_linear = fit_linear and first == 0  # a dummy feature has no linear weight
    dummies = T.shape[0] - coef.shape[0]
    width = _width(form, t, T, bases)
    A = np.empty((slots, T.shape[2]))
    kept = np.zeros((KEPT, width))
    weighted = np.empty((TILE, width))
    spans = np.zeros((TILE + 1, 2), dtype=np.uint64)
    H = np.empty((width, width))
    g = np.zeros(width)
    for c in range(start, stop):
        column = at(order, c, c)
        j = first + column
        lo = np.int64(indptr[column])
        hi = np.int64(indptr[column + 1])
        if lo == hi:
            _step_to_prior(prior, linear_prior, solve_linear, rule, low, high, bases, j, column, T, coef)
            continue
        H[:] = 0.0
        _add_system(
            form, response, by_row, dummies, rows, data, lo, hi, j, t, f, T, lams, bases, n, A, spans, kept, weighted, H
        )  # fmt: skip
        _add_prior(prior, linear_prior, solve_linear, response.loss.curvature, low, high, bases, j, column, T, coef, H)
        _solve(H, n, g, rule, bases, low, j)
        for a in range(n):
            g[a] *= rule.reach
        for begin in range(lo, hi, TILE):
            end = min(begin + TILE, hi)
            Z = kept[(begin - lo) % KEPT :]
            if hi - lo > KEPT:
                _fill(form, by_row, dummies, rows, data, lo, begin, end, j, t, T, lams, bases, A, spans, Z)
            for z in range(end - begin):
                total = 0.0
                for a in range(width):
                    total += g[a] * Z[z, a]
                f[at(rows, np.uint64(begin + z), np.uint64(begin + z - lo))] += total
        _take_step(g, low, high, bases, solve_linear, j, column, T, coef)


@loop(streaming=True)
def systems(form, response, by_column, by_row, slots, start, stop, dummies, first, t, f, T, lams, bases, out):
    """What samples say of the unknowns of the features start .. stop, to be added to what others say: out[c - start] is
    Z^T diag(weight) Z, its upper triangle row by row, with the right-hand side as the last of each row."""
    indptr, rows, data = by_column
    low, high = form.joint(t)
    n = (high - low) * bases + 1
    width = _width(form, t, T, bases)
    A = np.empty((slots, T.shape[2]))
    kept = np.zeros((KEPT, width))
    weighted = np.empty((TILE, width))
    spans = np.zeros((TILE + 1, 2), dtype=np.uint64)
    H = np.empty((width, width))
    for c in range(start, stop):
        lo = np.int64(indptr[c])
        hi = np.int64(indptr[c + 1])
        if lo == hi:
            continue
        H[:] = 0.0
        _add_system(
            form, response, by_row, dummies, rows, data, lo, hi, first + c, t, f, T, lams, bases, n, A, spans, kept,
            weighted, H,
        )  # fmt: skip
        at_entry = 0
        for a in range(n):
            for b in range(a, n + 1):
                out[c - start, at_entry] = H[a, b]
                at_entry += 1


@loop(streaming=True)
def solve(
    form, prior, linear_prior, fit_linear, rule, mu, start, stop, first, t, sums, counts, T, bases, coef
):  # fmt: skip
    """Minimise over all unknowns of the features start .. stop, of which no sample has two, by the `sums` of their
    `systems`; counts[c] is how many samples have the feature c."""
    low, high = form.joint(t)
    n = (high - low) * bases + 1
    width = _width(form, t, T, bases)
    solve_linear = fit_linear and first == 0
    H = np.zeros((width, width))
    g = np.zeros(width)
    for c in range(start, stop):
        j = first + c
        if counts[c] == 0:
            _step_to_prior(prior, linear_prior, solve_linear, rule, low, high, bases, j, c, T, coef)
            continue
        H[:] = 0.0
        at_entry = 0
        for a in range(n):
            for b in range(a, n + 1):
                H[a, b] = sums[c - start, at_entry]
                at_entry += 1
        _add_prior(prior, linear_prior, solve_linear, mu, low, high, bases, j, c, T, coef, H)
        _solve(H, n, g, rule, bases, low, j)
        for a in range(n):
            g[a] *= rule.reach
        _take_step(g, low, high, bases, solve_linear, j, c, T, coef)
