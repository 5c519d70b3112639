"""Loops of block descent: all unknowns of a feature at once.

The prediction is affine in the parameters of one feature (Theorem 1 of the paper: the objective is convex in a row of
P), so that they are found together from one small linear system. Samples come in tiles: a row of Z holds the
derivatives of a sample's prediction and, last, the slope of its loss, so that the system and its right-hand side are
products of the columns of Z, at matrix-product speed. Nothing is kept for a sample but its prediction: what the other
features of its row say is read anew from T, which is small, instead of from memory that grows with the samples. That
pays where rows are short.

Letters as in `columns` and `rows`; n is the number of unknowns of a feature (its factors, then its linear weight):

    low, high                 the factors of a feature that are solved for (`joint` of the form)
    f    (samples,)           predictions, less the response's shift
    Z    (tile, width)        derivatives by the unknowns and, in column n, the slope of the loss
    H    (width, width)       the system, with its right-hand side as column n
    g    (width,)             its solution
"""

import math
from typing import Any, NamedTuple

import numpy as np

from polyfm.loops.columns import TINY
from polyfm.loops.jit import LANES, at, inline, loop
from polyfm.loops.lanes import lanes, total
from polyfm.loops.prefetch import aligned
from polyfm.loops.rows import absorb

TILE = 64  # samples whose derivatives stay in the innermost cache until they are multiplied
KEPT = 2**13  # samples of a feature whose derivatives are kept until the step is known, and not computed again


class Room(NamedTuple):
    """Working space for the features of one turn."""

    A: np.ndarray  # (slots, bases in whole vectors)
    kept: np.ndarray  # (KEPT, width): tiles of Z
    weighted: np.ndarray  # (TILE, width)
    H: np.ndarray
    scale: np.ndarray  # (width,): what the columns of Z are short of: lambda, for the factors
    g: np.ndarray
    shakes: np.ndarray  # (width,): the noise of a rule that samples
    way: np.ndarray  # (width,): the step, in units of Z
    spans: np.ndarray  # (TILE + 1, 2): where the rows of a tile's samples begin and end


def room_for(form: Any, low: int, high: int, T: np.ndarray, lams: np.ndarray, bases: int) -> Room:
    """In Python: what a loop makes itself takes long to compile."""
    linear = (high - low) * bases
    width = -(-max(linear + 2, linear - bases + T.shape[2]) // LANES) * LANES  # of a row of Z, in whole vectors
    scale, g, shakes, way = aligned((4, width), np.float64)
    scale[:linear] = np.tile(lams[:bases], high - low)
    scale[linear : linear + 2] = 1.0
    return Room(
        aligned((form.n_slots, T.shape[2]), np.float64), aligned((KEPT, width), np.float64),
        aligned((TILE, width), np.float64), aligned((width, width), np.float64), scale, g, shakes, way,
        np.empty((TILE + 1, 2), dtype=np.uint64),
    )  # fmt: skip


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


@loop(streaming=True, allocates=False)
def _fill(form, by_row, dummies, rows, data, lo, start, stop, j, low, high, T, bases, A, spans, Z):
    """Z[e - start, u]: the derivative of a prediction by the unknown u of feature j, for its entries start .. stop
    (exclusive), but for the factor that `Room.scale` has for u; after the factors comes the linear weight."""
    indptr, indices, values = by_row
    d = T.shape[0] - dummies
    alone = A.shape[0] == 1 and high - low == 1  # what the form adds up then becomes the derivatives where it stands
    by_one = alone and d == T.shape[0] and not form.counts_itself()
    # Note where the rows of the samples begin and end, and read the first feature of each. These reads do not depend on
    # each other, so that the processor waits for many lines of memory at once. The loop that follows has branches on
    # what it reads, and would wait for one line after the other.
    for e in range(start, stop):
        i = at(rows, np.uint64(e), np.uint64(e - lo))
        spans[e - start, 0] = indptr[i]
        spans[e - start, 1] = indptr[i + 1]
    read = np.uint64(0)
    for z in range(stop - start):
        read += np.uint64(at(indices, spans[z, 0], 0))
    spans[TILE, 0] = read  # what is never used, a compiler leaves out
    for e in range(start, stop):
        x = at(data, np.uint64(e), 1.0)
        own = Z[e - start : e - start + 1]
        first = spans[e - start, 0]
        if by_one and spans[e - start, 1] - first == 2:
            # One feature beside j: from its factors to the derivatives in one pass.
            q = first if at(indices, first, 0) != j else first + np.uint64(1)
            feature, value = np.uint64(at(indices, q, q - first)), at(values, q, 1.0)
            for s in range(0, T.shape[2], LANES):
                own[0, lanes(s)] = 0.0
                form.absorb(own, T, feature, value, lanes(s))
                own[0, lanes(s)] = x * form.cofactor(own, low, j, lanes(s))
            own[0, bases] = x
            continue
        space = own if alone else A
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
                own[0, lanes(u + s)] = x * form.cofactor(space, o, j, lanes(s))
            u += bases
        own[0, u] = x


@inline
def _walk(
    taking, form, response, weight, by_row, dummies, rows, data, lo, hi, j, low, high, f, T, bases, room
):  # fmt: skip
    """Walk over the samples of feature j, which are the entries lo .. hi of its column: add Z^T diag(weight) Z to H,
    or, `taking` the step, add it to their predictions. Both in one, since there is much to compile in it. `weight` is
    the response's: where an argument is None, nothing is compiled for it."""
    n = (high - low) * bases + 1
    kept, weighted, way = room.kept, room.weighted, room.way
    mu = response.loss.curvature
    for begin in range(lo, hi, TILE):
        end = begin + TILE if begin + TILE < hi else hi
        Z = kept[(begin - lo) % KEPT :]
        if not taking or hi - lo > KEPT:
            _fill(form, by_row, dummies, rows, data, lo, begin, end, j, low, high, T, bases, room.A, room.spans, Z)
        if taking:
            for z in range(end - begin):
                change = 0.0
                for a in range(way.shape[0]):
                    change += way[a] * Z[z, a]
                f[at(rows, np.uint64(begin + z), np.uint64(begin + z - lo))] += change
            continue
        for z in range(end - begin):
            i = at(rows, np.uint64(begin + z), np.uint64(begin + z - lo))
            Z[z, n] = -response.derivative(i, f[i]) / mu
            if weight is not None:
                for a in range(way.shape[0]):
                    weighted[z, a] = weight[i] * Z[z, a]
        _add_upper(Z if weight is None else weighted, Z, end - begin, n, room.H)


@inline
def _complete(mu, scale, n, H):
    """What products of the columns of Z are short of."""
    for a in range(n):
        for b in range(a // LANES * LANES, H.shape[1], LANES):
            H[a, lanes(b)] *= (mu * scale[a]) * scale[lanes(b)]


@inline
def _add_prior(prior, linear_prior, solve_linear, low, high, bases, j, column, T, coef, H):
    """Add the penalties to the system of a feature."""
    n = (high - low) * bases + 1
    u = 0
    for o in range(low, high):
        for s in range(bases):
            strength = prior.strength_of(s, j)
            H[u, u] += strength
            H[u, n] -= strength * (T[j, o, s] - prior.mean_of(s, j))
            u += 1
    if solve_linear:
        strength = linear_prior.strength_of(0, j)
        H[u, u] += strength
        H[u, n] -= strength * (coef[column] - linear_prior.mean_of(0, j))
    else:
        for a in range(n):
            H[a, u] = 0.0
        H[u, n] = 0.0


@inline
def _solve(H, n, g, noise):
    """g = H[:n, :n]^-1 H[:n, n] by Cholesky's method on the upper triangle, LANES rows at a time; the right-hand side
    is one more column, so that it is solved for along the way. Below the diagonal H holds nothing of use. An unknown
    without curvature of its own stays put. The rule's noise comes in between the two substitutions."""
    for block in range(0, n, LANES):
        last = block + LANES if block + LANES < n else n
        for c in range(block, last):
            g[c] = H[c, c]
        for k in range(block, H.shape[0], LANES):
            add_products(H, H, block, H, block, k, -1.0)
        for c in range(block, last):
            pivot = H[c, c]
            only_rounding = not (pivot > TINY and pivot > 1e-13 * g[c])
            root = 0.0 if only_rounding else 1.0 / math.sqrt(pivot)
            for k in range(block, H.shape[0], LANES):
                H[c, lanes(k)] *= root
            H[c, c] = root
            for q in range(c + 1, last):
                h = H[c, q]
                for k in range(block, H.shape[0], LANES):
                    H[q, lanes(k)] -= h * H[c, lanes(k)]
    g[:] = 0.0
    for c in range(n - 1, -1, -1):
        block = c // LANES * LANES
        sums = 0.0 * g[lanes(block)]
        for k in range(block, H.shape[0], LANES):
            sums += H[c, lanes(k)] * g[lanes(k)]  # 0 for those that are not known yet
        g[c] = (H[c, n] + noise[c] - total(sums)) * H[c, c]


@inline
def _solve_alone(H, n, g, noise):
    """What `_solve` finds where no sample has the feature, and H is a diagonal: the way to the prior's means."""
    for c in range(n):
        root = 1.0 / math.sqrt(H[c, c]) if H[c, c] > TINY else 0.0
        g[c] = (H[c, n] * root + noise[c]) * root


@inline
def _take_step(g, low, high, bases, solve_linear, j, column, T, coef):
    u = 0
    for o in range(low, high):
        for s in range(bases):
            T[j, o, s] += g[u]
            u += 1
    if solve_linear:
        coef[column] += g[u]


@loop(streaming=True, allocates=False)
def sweep(
    form, response, prior, linear_prior, fit_linear, rule, by_column, by_row, order, start, stop, first, low, high, f,
    T, bases, coef, room,
):  # fmt: skip
    """Minimise over the unknowns `low` .. `high` of the features order[start:stop], one feature after the other.

    `form` is the model's `cofactor_form`. The loss is majorised by a parabola, exact for the squared loss. A step of
    `rule.reach` times the way to the parabola's lowest point, with 0 < reach < 2, lowers it too (over-relaxation).
    """
    indptr, rows, data = by_column
    n = (high - low) * bases + 1
    solve_linear = fit_linear and first == 0  # a dummy feature has no linear weight
    dummies = T.shape[0] - coef.shape[0]
    H, g = room.H, room.g
    for c in range(start, stop):
        column = at(order, c, c)
        j = first + column
        lo = np.int64(indptr[column])
        hi = np.int64(indptr[column + 1])
        H[:] = 0.0
        for taking in range(2):
            _walk(
                taking == 1, form, response, response.weight, by_row, dummies, rows, data, lo, hi, j, low, high, f, T,
                bases, room,
            )  # fmt: skip
            if taking == 1:
                continue
            _complete(response.loss.curvature, room.scale, n, H)
            _add_prior(prior, linear_prior, solve_linear, low, high, bases, j, column, T, coef, H)
            rule.fill_noise(low, high, bases, j, room.shakes)
            if lo == hi:
                _solve_alone(H, n, g, room.shakes)
                continue
            _solve(H, n, g, room.shakes)
            for a in range(n):
                g[a] *= rule.reach
                room.way[a] = room.scale[a] * g[a]
        _take_step(g, low, high, bases, solve_linear, j, column, T, coef)


@loop(streaming=True, allocates=False)
def systems(
    form, response, by_column, by_row, start, stop, dummies, first, low, high, f, T, bases, room, out
):  # fmt: skip
    """What samples say of the unknowns of the features start .. stop, to be added to what others say: out[c - start] is
    the upper triangle of its system row by row, with the right-hand side as the last of each row."""
    indptr, rows, data = by_column
    n = (high - low) * bases + 1
    H = room.H
    for c in range(start, stop):
        lo = np.int64(indptr[c])
        hi = np.int64(indptr[c + 1])
        H[:] = 0.0
        _walk(
            False, form, response, response.weight, by_row, dummies, rows, data, lo, hi, first + c, low, high, f, T,
            bases, room,
        )  # fmt: skip
        _complete(response.loss.curvature, room.scale, n, H)
        at_entry = 0
        for a in range(n):
            for b in range(a, n + 1):
                out[c - start, at_entry] = H[a, b]
                at_entry += 1


@loop(streaming=True, allocates=False)
def solve(
    prior, linear_prior, fit_linear, rule, start, stop, first, low, high, sums, counts, T, bases, coef, room
):  # fmt: skip
    """Minimise over all unknowns of the features start .. stop, of which no sample has two, by the `sums` of their
    `systems`; counts[c] is how many samples have the feature c."""
    n = (high - low) * bases + 1
    solve_linear = fit_linear and first == 0
    H, g = room.H, room.g
    for c in range(start, stop):
        j = first + c
        H[:] = 0.0
        at_entry = 0
        for a in range(n):
            for b in range(a, n + 1):
                H[a, b] = sums[c - start, at_entry]
                at_entry += 1
        _add_prior(prior, linear_prior, solve_linear, low, high, bases, j, c, T, coef, H)
        rule.fill_noise(low, high, bases, j, room.shakes)
        if counts[c] == 0:
            _solve_alone(H, n, g, room.shakes)
        else:
            _solve(H, n, g, room.shakes)
            for a in range(n):
                g[a] *= rule.reach
        _take_step(g, low, high, bases, solve_linear, j, c, T, coef)
