"""Loops over rows for gradients: value and gradient of the total loss in one pass.

Rows are taken in tiles, whose working spaces stay in the processor's cache: the expansions of a tile are computed, then
its losses, then its gradients from the same working spaces. A model's groups of bases come as a tuple of `Tile`s of
different types; the functions on the tuple call themselves with the rest of it, which numba unrolls when it compiles.

Letters as in `rows`; `rows_of_tile` is how many rows a tile has room for; `order` (n,) lists rows, or is None.
"""

from typing import NamedTuple

import numpy as np

from polyfm.loops import rows
from polyfm.loops.jit import at, inline, loop, overload
from polyfm.loops.prefetch import prefetch

TILE = 64  # rows
NEAR = 2**15  # numbers of a table that stays near the processor by itself


class Tile(NamedTuple):
    """One group of bases, with working space for a tile of rows, and where its gradient goes."""

    bases: rows.Bases
    A: np.ndarray  # (rows of a tile, slots, bases)
    c: np.ndarray  # (bases,): slope * lambda
    G: np.ndarray  # (features + dummies, factors, bases): the gradient by the factors
    g: np.ndarray  # (bases,): the gradient by lambda

    def apart(self) -> "Tile":
        """The same parameters, for another thread."""
        G, g = np.zeros(self.G.shape, self.G.dtype), np.zeros(self.g.shape, self.g.dtype)  # cleared when touched
        return self._replace(A=np.empty_like(self.A), c=np.empty_like(self.c), G=G, g=g)


def absorb_tile(tiles, by_row, order, lo, hi, f):
    """Add the expansions of all bases to f, for the rows order[lo:hi]; their working spaces are left filled."""
    for tile in tiles:
        _absorb(tile, by_row, order, lo, hi, f)


def emit_tile(tiles, by_row, order, lo, hi, slopes):
    """Add the gradient of sum_i slope_i f_i, from the working spaces that `absorb_tile` left."""
    for tile in tiles:
        _emit(tile, by_row, order, lo, hi, slopes)


def _absorb(tile, by_row, order, lo, hi, f):
    form, dummies, _, T, lams = tile.bases
    indptr, indices, data = by_row
    one = T.dtype.type(1.0)  # a plain 1.0 would turn single precision into double
    d = T.shape[0] - dummies
    far = T.size > NEAR
    for r in range(lo, hi):
        i = at(order, r, r)
        A = tile.A[r - lo]
        A[:] = 0.0
        first = indptr[i]
        for e in range(first, indptr[i + 1]):
            if far:
                prefetch(T, indices, e)
                prefetch(tile.G, indices, e)
            rows.absorb(form, A, T, at(indices, e, e - first), at(data, e, one))
        for q in range(dummies):
            rows.absorb(form, A, T, d + q, one)
        f[r - lo] += rows.value(form, A, lams)


def _emit(tile, by_row, order, lo, hi, slopes):
    form, dummies, _, T, lams = tile.bases
    indptr, indices, data = by_row
    c, G, g = tile.c, tile.G, tile.g
    one = T.dtype.type(1.0)
    d = T.shape[0] - dummies
    for r in range(lo, hi):
        i = at(order, r, r)
        A = tile.A[r - lo]
        slope = slopes[r - lo]
        for s in range(lams.shape[0]):
            c[s] = slope * lams[s]
            g[s] += slope * form.total(A, s)
        first = indptr[i]
        for e in range(first, indptr[i + 1]):
            j = at(indices, e, e - first)
            rows.emit(form, A, T, G, j, c, j, at(data, e, one))
        for q in range(dummies):
            rows.emit(form, A, T, G, d + q, c, d + q, one)


overload(_absorb)(lambda tile, by_row, order, lo, hi, f: _absorb)
overload(_emit)(lambda tile, by_row, order, lo, hi, slopes: _emit)


@overload(absorb_tile)
def _absorb_tile(tiles, by_row, order, lo, hi, f):
    if len(tiles) == 0:
        return lambda tiles, by_row, order, lo, hi, f: None

    def absorb(tiles, by_row, order, lo, hi, f):
        _absorb(tiles[0], by_row, order, lo, hi, f)
        absorb_tile(tiles[1:], by_row, order, lo, hi, f)

    return absorb


@overload(emit_tile)
def _emit_tile(tiles, by_row, order, lo, hi, slopes):
    if len(tiles) == 0:
        return lambda tiles, by_row, order, lo, hi, slopes: None

    def emit(tiles, by_row, order, lo, hi, slopes):
        _emit(tiles[0], by_row, order, lo, hi, slopes)
        emit_tile(tiles[1:], by_row, order, lo, hi, slopes)

    return emit


@inline
def predict_tile(tiles, by_row, response, order, lo, hi, coef, intercept, f):
    """f = predictions, less the response's shift, of the rows order[lo:hi]."""
    indptr, indices, data = by_row
    for r in range(lo, hi):
        i = at(order, r, r)
        total = intercept - response.shift_of(i)
        first = indptr[i]
        for e in range(first, indptr[i + 1]):
            total += coef[at(indices, e, e - first)] * at(data, e, 1.0)
        f[r - lo] = total
    absorb_tile(tiles, by_row, order, lo, hi, f)


@loop(streaming=True)
def loss_and_gradient(tiles, response, by_row, coef, intercept, lo, hi, gw):
    """The loss of rows lo .. hi; gradients are added to the tiles, to gw (coef), and returned for the intercept."""
    indptr, indices, data = by_row
    f = np.empty(TILE)
    value = 0.0
    gb = 0.0
    for start in range(lo, hi, TILE):
        stop = min(start + TILE, hi)
        predict_tile(tiles, by_row, response, None, start, stop, coef, intercept, f)
        for i in range(start, stop):
            value += response.value(i, f[i - start])
            slope = response.slope(i, f[i - start])
            f[i - start] = slope
            gb += slope
            first = indptr[i]
            for e in range(first, indptr[i + 1]):
                gw[at(indices, e, e - first)] += slope * at(data, e, 1.0)
        emit_tile(tiles, by_row, None, start, stop, f)
    return value, gb
