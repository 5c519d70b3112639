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
from polyfm.loops.lanes import lanes, total
from polyfm.loops.rows import absorb

TILE = 64  # samples whose derivatives stay in the innermost cache until they are multiplied
KEPT = 2**13  # samples of a feature whose derivatives are kept until the step is known, and not computed again


@inline
def add_products(left, right, m, out, a, b, scale):
    """out += scale left^T right, over the first m rows of both: a square of LANES rows from a on and LANES columns from
    b on. That many sums stay in registers, and none of them waits for another."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0 * out[a, lanes(b)]
    for z in range(m):
        row = right[z, lanes(b)]
        s0 += left[z, a] * row
        s1 += left[z, a + 1] * row
        s2 += left[z, a + 2] * row
        s3 += left[z, a + 3] * row
        s4 += left[z, a + 4] * row
        s5 += left[z, a + 5] * row
        s6 += left[z, a + 6] * row
        s7 += left[z, a + 7] * row
    out[a, lanes(b)] += scale * s0
    out[a + 1, lanes(b)] += scale * s1
    out[a + 2, lanes(b)] += scale * s2
    out[a + 3, lanes(b)] += scale * s3
    out[a + 4, lanes(b)] += scale * s4
    out[a + 5, lanes(b)] += scale * s5
    out[a + 6, lanes(b)] += scale * s6
    out[a + 7, lanes(b)] += scale * s7


@inline
def add_wide_products(left, right, m, out, a, b):
    """out += left^T right, over the first m rows of both: half as many rows of `out`, from a on, and twice as many
    columns, from b on. A row of `right` is read once for two vectors' worth of sums, of which there are as many."""
    s0 = s1 = s2 = s3 = t0 = t1 = t2 = t3 = 0.0 * out[a, lanes(b)]
    for z in range(m):
        row = right[z, lanes(b)]
        more = right[z, lanes(b + LANES)]
        s0 += left[z, a] * row
        t0 += left[z, a] * more
        s1 += left[z, a + 1] * row
        t1 += left[z, a + 1] * more
        s2 += left[z, a + 2] * row
        t2 += left[z, a + 2] * more
        s3 += left[z, a + 3] * row
        t3 += left[z, a + 3] * more
    out[a, lanes(b)] += s0
    out[a + 1, lanes(b)] += s1
    out[a + 2, lanes(b)] += s2
    out[a + 3, lanes(b)] += s3
    out[a, lanes(b + LANES)] += t0
    out[a + 1, lanes(b + LANES)] += t1
    out[a + 2, lanes(b + LANES)] += t2
    out[a + 3, lanes(b + LANES)] += t3


@inline
def _add_upper(left, Z, m, n, H):
    """H += left^T Z, on and above the diagonal, squares of LANES at a time or two beside each other."""
    for a in range(0, n, LANES):
        b = a
        if (H.shape[1] - a) // LANES % 2 == 1:
            add_products(left, Z, m, H, a, b, 1.0)
            b += LANES
        while b < H.shape[1]:
            add_wide_products(left, Z, m, H, a, b)
            add_wide_products(left, Z, m, H, a + LANES // 2, b)
            b += 2 * LANES


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


@loop(streaming=True, allocates=False)
def _fill(form, by_row, dummies, rows, data, lo, start, stop, j, t, T, bases, A, spans, Z):
    """Z[e - start, u]: the derivative of a prediction by the unknown u of feature j, for its entries start .. stop
    (exclusive), but for the factor that `_scale` has for u; after the factors comes the linear weight."""
    _, indices, values = by_row
    d = T.shape[0] - dummies
    low, high = form.joint(t)
    alone = A.shape[0] == 1 and high - low == 1  # what the form adds up then becomes the derivatives where it stands
    by_one = alone and d == T.shape[0] and not form.counts_itself()
    _approach(by_row, rows, lo, start, stop, spans)
    for e in range(start, stop):
        x = at(data, np.uint64(e), 1.0)
        first = spans[e - start, 0]
        if by_one and spans[e - start, 1] - first == 2:
            # One feature beside j: from its factors to the derivatives in one pass.
            q = first if at(indices, first, 0) != j else first + np.uint64(1)
            feature, value = np.uint64(at(indices, q, q - first)), at(values, q, 1.0)
            own = Z[e - start : e - start + 1]
            for s in range(0, T.shape[2], LANES):
                own[0, lanes(s)] = 0.0
                form.absorb(own, T, feature, value, lanes(s))
                own[0, lanes(s)] = x * form.cofactor(own, low, j, lanes(s))
            own[0, bases] = x
            continue
        space = Z[e - start : e - start + 1] if alone else A
        for o in range(space.shape[0]):
            for s in range(0, T.shape[2], LANES):
                space[o, lanes(s)] = 0.0
        for q in range(first, spans[e - start, 1]):
            feature = np.uint64(at(indices, q, q - first))
            if feature != j or form.counts_itself():
                absorb(form, space, T, feature, at(values, q, 1.0))
        for q in range(d, T.shape[0]):
            if q != j or form.counts_itself():
                absorb(form, space, T, np.uint64(q), 1.0)
        u = 0
        for o in range(low, high):
            for s in range(0, T.shape[2], LANES):  # what is written beyond the bases is overwritten by what comes next
                Z[e - start, lanes(u + s)] = x * form.cofactor(space, o, j, lanes(s))
            u += bases
        Z[e - start, u] = x


@inline
def _solve(H, n, g, noise, rule, bases, low, j):
    """g = H[:n, :n]^-1 H[:n, n] by Cholesky's method on the upper triangle, LANES rows at a time; the right-hand side
    is one more column, so that it is solved for along the way. Below the diagonal H holds nothing of use. An unknown
    without curvature of its own stays put. The rule's noise comes in between the two substitutions."""
    for block in range(0, n, LANES):
        last = min(block + LANES, n)
        for c in range(block, last):
            g[c] = H[c, c]
        for k in range(block, H.shape[0], LANES):
            add_products(H, H, block, H, block, k, -1.0)
        for c in range(block, last):
            pivot = H[c, c]
            root = 1.0 / math.sqrt(pivot) if pivot > max(TINY, 1e-13 * g[c]) else 0.0  # 0: only rounding is left
            for k in range(block, H.shape[0], LANES):
                H[c, lanes(k)] *= root
            H[c, c] = root
            for q in range(c + 1, last):
                h = H[c, q]
                for k in range(block, H.shape[0], LANES):
                    H[q, lanes(k)] -= h * H[c, lanes(k)]
    _draw_noise(rule, n, bases, low, j, noise)
    g[:] = 0.0
    for c in range(n - 1, -1, -1):
        block = c // LANES * LANES
        sums = 0.0 * g[lanes(block)]
        for k in range(block, H.shape[0], LANES):
            sums += H[c, lanes(k)] * g[lanes(k)]  # 0 for those that are not known yet
        g[c] = (H[c, n] + noise[c] - total(sums)) * H[c, c]


@inline
def _draw_noise(rule, n, bases, low, j, noise):
    """The noise of all unknowns of feature j: factors low .. of all bases, and the linear weight, of factor -1."""
    u = 0
    for o in range(low, low + (n - 1) // bases):
        for s in range(-(-bases // LANES) * LANES):  # whole vectors: as in `_fill`
            noise[u + s] = rule.noise(s, o, j)
        u += bases
    noise[u] = rule.noise(0, -1, j)


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
def _scale(form, t, lams, bases, scale):
    """What the columns of Z are short of: lambda, for the factors."""
    low, high = form.joint(t)
    scale[:] = 0.0
    u = 0
    for _ in range(low, high):
        for s in range(bases):
            scale[u + s] = lams[s]
        u += bases
    scale[u] = 1.0
    scale[u + 1] = 1.0


@inline
def _add_system(
    form, response, by_row, dummies, rows, data, lo, hi, j, t, f, T, bases, n, A, spans, kept, weighted, scale, H
):  # fmt: skip
    """H: the system of feature j and its right-hand side without penalties, from Z^T diag(weight) Z over its samples,
    which are the entries lo .. hi of its column."""
    H[:] = 0.0
    mu = response.loss.curvature
    for begin in range(lo, hi, TILE):
        end = min(begin + TILE, hi)
        m = end - begin
        Z = kept[(begin - lo) % KEPT :]
        _fill(form, by_row, dummies, rows, data, lo, begin, end, j, t, T, bases, A, spans, Z)
        for z in range(m):
            i = at(rows, np.uint64(begin + z), np.uint64(begin + z - lo))
            Z[z, n] = -response.derivative(i, f[i]) / mu
            _weigh(response.weight, i, z, Z, weighted)
        _add_upper(_left(response.weight, Z, weighted), Z, m, n, H)
    for a in range(n):
        for b in range(a // LANES * LANES, H.shape[1], LANES):
            H[a, lanes(b)] *= (mu * scale[a]) * scale[lanes(b)]


@inline
def _add_prior(prior, linear_prior, solve_linear, low, high, bases, j, column, T, coef, H):
    """Add the penalties to the system of a feature."""
    linear = (high - low) * bases
    n = linear + 1
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
    """The step of a feature that never occurs."""
    noise = rule.noise(0, -1, j)
    if solve_linear:
        gap = coef[column] - linear_prior.mean_of(0, j)
        coef[column] += _step_alone(linear_prior.strength_of(0, j), gap, noise)
    for o in range(high - 1, low - 1, -1):
        for s in range(bases - 1, -1, -1):
            gap = T[j, o, s] - prior.mean_of(s, j)
            T[j, o, s] += _step_alone(prior.strength_of(s, j), gap, rule.noise(s, o, j))


@inline
def _room(slots, T, width):
    """Working space. All of one type: each other type, number of axes or way to fill it takes long to compile."""
    A = np.zeros((slots, T.shape[2]))
    kept = np.zeros((KEPT, width))
    weighted = np.zeros((TILE, width))
    H = np.zeros((width, width))
    vectors = np.zeros((4, width))
    return A, kept, weighted, H, vectors, np.empty((TILE + 1, 2), dtype=np.uint64)


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
    A, kept, weighted, H, vectors, spans = _room(slots, T, width)
    scale, g, noise, way = vectors[0], vectors[1], vectors[2], vectors[3]
    _scale(form, t, lams, bases, scale)
    for c in range(start, stop):
        column = at(order, c, c)
        j = first + column
        lo = np.int64(indptr[column])
        hi = np.int64(indptr[column + 1])
        if lo == hi:
            _step_to_prior(prior, linear_prior, solve_linear, rule, low, high, bases, j, column, T, coef)
            continue
        _add_system(
            form, response, by_row, dummies, rows, data, lo, hi, j, t, f, T, bases, n, A, spans, kept, weighted, scale,
            H,
        )  # fmt: skip
        _add_prior(prior, linear_prior, solve_linear, low, high, bases, j, column, T, coef, H)
        _solve(H, n, g, noise, rule, bases, low, j)
        for a in range(n):
            g[a] *= rule.reach
            way[a] = scale[a] * g[a]
        for begin in range(lo, hi, TILE):
            end = min(begin + TILE, hi)
            Z = kept[(begin - lo) % KEPT :]
            if hi - lo > KEPT:
                _fill(form, by_row, dummies, rows, data, lo, begin, end, j, t, T, bases, A, spans, Z)
            for z in range(end - begin):
                change = 0.0
                for a in range(width):
                    change += way[a] * Z[z, a]
                f[at(rows, np.uint64(begin + z), np.uint64(begin + z - lo))] += change
        _take_step(g, low, high, bases, solve_linear, j, column, T, coef)


@loop(streaming=True)
def systems(form, response, by_column, by_row, slots, start, stop, dummies, first, t, f, T, lams, bases, out):
    """What samples say of the unknowns of the features start .. stop, to be added to what others say: out[c - start] is
    the upper triangle of its system row by row, with the right-hand side as the last of each row."""
    indptr, rows, data = by_column
    low, high = form.joint(t)
    n = (high - low) * bases + 1
    width = _width(form, t, T, bases)
    A, kept, weighted, H, vectors, spans = _room(slots, T, width)
    scale = vectors[0]
    _scale(form, t, lams, bases, scale)
    for c in range(start, stop):
        lo = np.int64(indptr[c])
        hi = np.int64(indptr[c + 1])
        if lo == hi:
            continue
        _add_system(
            form, response, by_row, dummies, rows, data, lo, hi, first + c, t, f, T, bases, n, A, spans, kept,
            weighted, scale, H,
        )  # fmt: skip
        at_entry = 0
        for a in range(n):
            for b in range(a, n + 1):
                out[c - start, at_entry] = H[a, b]
                at_entry += 1


@loop(streaming=True)
def solve(
    form, prior, linear_prior, fit_linear, rule, start, stop, first, t, sums, counts, T, bases, coef
):  # fmt: skip
    """Minimise over all unknowns of the features start .. stop, of which no sample has two, by the `sums` of their
    `systems`; counts[c] is how many samples have the feature c."""
    low, high = form.joint(t)
    n = (high - low) * bases + 1
    width = _width(form, t, T, bases)
    solve_linear = fit_linear and first == 0
    H = np.zeros((width, width))
    vectors = np.zeros((2, width))
    g, noise = vectors[0], vectors[1]
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
        _add_prior(prior, linear_prior, solve_linear, low, high, bases, j, c, T, coef, H)
        _solve(H, n, g, noise, rule, bases, low, j)
        for a in range(n):
            g[a] *= rule.reach
        _take_step(g, low, high, bases, solve_linear, j, c, T, coef)
