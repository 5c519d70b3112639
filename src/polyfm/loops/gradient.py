"""Loops over rows for gradients: value and gradient of the total loss in one pass.

Rows are taken in tiles, whose working spaces stay in the processor's cache: the expansions of a tile are computed, then
its losses, then its gradients from the same working spaces. A model's groups of bases come as a tuple of `Block`s of
different types; the functions on the tuple call themselves with the rest of it, which numba unrolls when it compiles.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from polyfm.loops import rows as _rows
from polyfm.loops.jit import at, inline, loop

TILE = 64  # rows


class Block(NamedTuple):
    """One group of bases, ready for a tile: factors, weights, working space, and where the gradient goes."""

    form: Any
    dummies: int
    T: np.ndarray  # (features + dummies, factors, bases)
    lams: np.ndarray  # (bases,): lambda, times the form's scale
    A: np.ndarray  # (rows of a tile, slots, bases)
    c: np.ndarray  # (bases,): slope * lambda
    G: np.ndarray  # like T
    g: np.ndarray  # (bases,): the gradient by lambda

    def apart(self) -> "Block":
        """The same parameters, for another thread."""
        G, g = np.zeros(self.G.shape, self.G.dtype), np.zeros(self.g.shape, self.g.dtype)  # cleared when touched
        return self._replace(A=np.empty_like(self.A), c=np.empty_like(self.c), G=G, g=g)


def absorb_tile(blocks, indptr, indices, data, order, lo, hi, f):
    """Add the expansions of all blocks to f, for the rows order[lo:hi]; their working spaces are left filled."""
    for block in blocks:
        _absorb(block, indptr, indices, data, order, lo, hi, f)


def emit_tile(blocks, indptr, indices, data, order, lo, hi, slopes):
    """Add the gradient of sum_i slope_i f_i, from the working spaces that `absorb_tile` left."""
    for block in blocks:
        _emit(block, indptr, indices, data, order, lo, hi, slopes)


def _absorb(block, indptr, indices, data, order, lo, hi, f):
    form, dummies, T, lams = block.form, block.dummies, block.T, block.lams
    one = T.dtype.type(1.0)  # a plain 1.0 would turn single precision into double
    d = T.shape[0] - dummies
    for r in range(lo, hi):
        i = at(order, r, r)
        A = block.A[r - lo]
        A[:] = 0.0
        first = indptr[i]
        for e in range(first, indptr[i + 1]):
            _rows.absorb(form, A, T, at(indices, e, e - first), at(data, e, one))
        for q in range(dummies):
            _rows.absorb(form, A, T, d + q, one)
        f[r - lo] += _rows.value(form, A, lams)


def _emit(block, indptr, indices, data, order, lo, hi, slopes):
    form, dummies, T, lams, c, G, g = block.form, block.dummies, block.T, block.lams, block.c, block.G, block.g
    one = T.dtype.type(1.0)
    d = T.shape[0] - dummies
    for r in range(lo, hi):
        i = at(order, r, r)
        A = block.A[r - lo]
        slope = slopes[r - lo]
        for s in range(lams.shape[0]):
            c[s] = slope * lams[s]
            g[s] += slope * form.total(A, s)
        first = indptr[i]
        for e in range(first, indptr[i + 1]):
            _rows.emit(form, A, T, G, c, at(indices, e, e - first), at(data, e, one))
        for q in range(dummies):
            _rows.emit(form, A, T, G, c, d + q, one)


overload(_absorb)(lambda block, indptr, indices, data, order, lo, hi, f: _absorb)
overload(_emit)(lambda block, indptr, indices, data, order, lo, hi, slopes: _emit)


@overload(absorb_tile)
def _absorb_tile(blocks, indptr, indices, data, order, lo, hi, f):
    if len(blocks) == 0:
        return lambda blocks, indptr, indices, data, order, lo, hi, f: None

    def absorb(blocks, indptr, indices, data, order, lo, hi, f):
        _absorb(blocks[0], indptr, indices, data, order, lo, hi, f)
        absorb_tile(blocks[1:], indptr, indices, data, order, lo, hi, f)

    return absorb


@overload(emit_tile)
def _emit_tile(blocks, indptr, indices, data, order, lo, hi, slopes):
    if len(blocks) == 0:
        return lambda blocks, indptr, indices, data, order, lo, hi, slopes: None

    def emit(blocks, indptr, indices, data, order, lo, hi, slopes):
        _emit(blocks[0], indptr, indices, data, order, lo, hi, slopes)
        emit_tile(blocks[1:], indptr, indices, data, order, lo, hi, slopes)

    return emit


@inline
def predict_tile(blocks, indptr, indices, data, order, lo, hi, offset, coef, intercept, f):
    """f = predictions, less the offset, of the rows order[lo:hi]."""
    for r in range(lo, hi):
        i = at(order, r, r)
        total = intercept - at(offset, i, 0.0)
        first = indptr[i]
        for e in range(first, indptr[i + 1]):
            total += coef[at(indices, e, e - first)] * at(data, e, 1.0)
        f[r - lo] = total
    absorb_tile(blocks, indptr, indices, data, order, lo, hi, f)


@loop(streaming=True)
def value_and_gradient(blocks, loss, indptr, indices, data, y, weight, offset, coef, intercept, lo, hi, gw):
    """The loss of rows lo .. hi; gradients are added to the blocks, to gw (coef), and returned for the intercept."""
    f = np.empty(TILE)
    value = 0.0
    gb = 0.0
    for start in range(lo, hi, TILE):
        stop = min(start + TILE, hi)
        predict_tile(blocks, indptr, indices, data, None, start, stop, offset, coef, intercept, f)
        for i in range(start, stop):
            w = np.float64(at(weight, i, 1.0))
            target = np.float64(at(y, i, 0.0))
            value += w * loss.value(target, f[i - start])
            slope = w * loss.derivative(target, f[i - start])
            f[i - start] = slope
            gb += slope
            first = indptr[i]
            for e in range(first, indptr[i + 1]):
                gw[at(indices, e, e - first)] += slope * at(data, e, 1.0)
        emit_tile(blocks, indptr, indices, data, None, start, stop, f)
    return value, gb
