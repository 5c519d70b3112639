"""Loops over rows for second-order steps: the Jacobian of the predictions, non-zero by non-zero.

Row i of the Jacobian J holds the derivatives of f_i by all factors T[j, t, s], in the order of T. One loop makes them
in a slab (1, factors, bases) that one of four users takes them from: products never store J. Everything is in double
precision, whatever X is. Letters as in `rows`; u, h (samples,); V, G like T.
"""

from typing import NamedTuple

import numpy as np

from polyfm.loops import rows
from polyfm.loops.jit import at, compiled, inline, loop, overload


@compiled
class Fill(NamedTuple):
    """Some rows of J itself, from lo on, and some columns, from `start` on."""

    J: np.ndarray
    lo: int
    start: int
    bases: int

    def take(self, i, j, slab):
        for t in range(slab.shape[1]):
            for s in range(self.bases):
                self.J[i - self.lo, self.start + (j * slab.shape[1] + t) * self.bases + s] = slab[0, t, s]


@compiled
class Forward(NamedTuple):
    """u += J V."""

    V: np.ndarray
    u: np.ndarray

    def take(self, i, j, slab):
        total = 0.0
        for t in range(self.V.shape[1]):
            for s in range(self.V.shape[2]):
                total += slab[0, t, s] * self.V[j, t, s]
        self.u[i] += total


@compiled
class Backward(NamedTuple):
    """G += J^T u."""

    G: np.ndarray
    u: np.ndarray

    def take(self, i, j, slab):
        for t in range(self.G.shape[1]):
            for s in range(self.G.shape[2]):
                self.G[j, t, s] += self.u[i] * slab[0, t, s]


@compiled
class Squares(NamedTuple):
    """G += the diagonal of J^T diag(h) J."""

    G: np.ndarray
    h: np.ndarray

    def take(self, i, j, slab):
        for t in range(self.G.shape[1]):
            for s in range(self.G.shape[2]):
                self.G[j, t, s] += self.h[i] * slab[0, t, s] * slab[0, t, s]


def derivatives(bases, by_row, lo, hi, user):
    """user.take(i, j, slab) for all features j of the rows lo .. hi, where slab[0, t, s] is df_i / dT[j, t, s]."""
    _, factors, width = bases.T.shape
    _derivatives(bases, by_row, lo, hi, user, np.empty((bases.slots, width)), np.empty((1, factors, width)))


@loop(streaming=True, allocates=False)
def _derivatives(bases, by_row, lo, hi, user, A, slab):
    form, dummies, _, T, lams = bases
    indptr, indices, data = by_row
    d = T.shape[0] - dummies
    for i in range(lo, hi):
        A[:] = 0.0
        first = indptr[i]
        for e in range(first, indptr[i + 1]):
            rows.absorb(form, A, T, at(indices, e, e - first), np.float64(at(data, e, 1.0)))
        for q in range(dummies):
            rows.absorb(form, A, T, d + q, 1.0)
        for e in range(first, indptr[i + 1]):
            j = np.int64(at(indices, e, e - first))
            slab[:] = 0.0
            rows.emit(form, A, T, slab, 0, lams, j, np.float64(at(data, e, 1.0)))
            user.take(i, j, slab)
        for q in range(dummies):
            slab[:] = 0.0
            rows.emit(form, A, T, slab, 0, lams, d + q, 1.0)
            user.take(i, d + q, slab)


def second_derivative(loss, y, f):
    """l''(y, f): the loss's own, or else from the first by differences, between nothing (convexity) and its bound."""
    if hasattr(loss, "second_derivative"):
        return loss.second_derivative(y, f)
    return _by_differences(loss, y, f)


@inline
def _by_differences(loss, y, f):
    step = 1e-5 * (1.0 + abs(f))
    rise = loss.derivative(y, f + step) - loss.derivative(y, f - step)
    return min(max(rise / (2.0 * step), 0.0), loss.curvature)


@overload(second_derivative)
def _second_derivative(loss, y, f):
    if hasattr(loss.instance_class, "second_derivative"):
        return lambda loss, y, f: loss.second_derivative(y, f)
    return lambda loss, y, f: _by_differences(loss, y, f)


@loop
def slopes_and_curvatures(response, f, lo):
    """w_i l'(y_i, f_i) and w_i l''(y_i, f_i) for the samples from lo on."""
    slopes = np.empty(f.shape[0])
    curvatures = np.empty(f.shape[0])
    for z in range(f.shape[0]):
        i = lo + z
        slopes[z] = response.slope(i, f[z])
        curvatures[z] = response.weight_of(i) * second_derivative(
            response.loss, np.float64(at(response.y, i, 0.0)), f[z]
        )
    return slopes, curvatures
