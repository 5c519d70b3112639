"""The Jacobian of the predictions for second-order steps: whole, by tiles of rows, or through its products.

Row i of the Jacobian J holds the derivatives of f_i by all factors T[j, t, s], in the order of T. One loop makes them,
non-zero by non-zero, in a slab that one of four users takes them from: products never store J. Everything is in double
precision, whatever X is. Letters as in `_rows`; `lams` are lambda times the form's scale.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from polyfm.core.design import Compressed
from polyfm.core.model import Group, Model, Parameters, bases_last, weights
from polyfm.core.threads import in_order, row_blocks
from polyfm.loops import rows as _rows
from polyfm.loops.jit import at, compiled, loop


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


@loop(streaming=True)
def derivatives(form, indptr, indices, data, dummies, T, lams, slots, lo, hi, user):
    """user.take(i, j, slab) for all features j of the rows lo .. hi, where slab[0, t, s] is df_i / dT[j, t, s]."""
    d = T.shape[0] - dummies
    A = np.empty((slots, T.shape[2]))
    slab = np.empty((1, T.shape[1], T.shape[2]))
    for i in range(lo, hi):
        A[:] = 0.0
        first = indptr[i]
        for e in range(first, indptr[i + 1]):
            _rows.absorb(form, A, T, at(indices, e, e - first), np.float64(at(data, e, 1.0)))
        for q in range(dummies):
            _rows.absorb(form, A, T, d + q, 1.0)
        for e in range(first, indptr[i + 1]):
            j = np.int64(at(indices, e, e - first))
            slab[:] = 0.0
            _rows.emit(form, A, T[j : j + 1], slab, lams, 0, np.float64(at(data, e, 1.0)))
            user.take(i, j, slab)
        for q in range(dummies):
            slab[:] = 0.0
            _rows.emit(form, A, T[d + q : d + q + 1], slab, lams, 0, 1.0)
            user.take(i, d + q, slab)


@loop
def slopes_and_bends(loss, y, weight, f):
    """w_i l'(y_i, f_i) and w_i l''(y_i, f_i). A loss gives no second derivative: it is taken from the first by
    differences, between nothing (convexity) and the loss's curvature."""
    slopes = np.empty(f.shape[0])
    bends = np.empty(f.shape[0])
    for i in range(f.shape[0]):
        w = np.float64(at(weight, i, 1.0))
        target = np.float64(at(y, i, 0.0))
        step = 1e-5 * (1.0 + abs(f[i]))
        rise = loss.derivative(target, f[i] + step) - loss.derivative(target, f[i] - step)
        slopes[i] = w * loss.derivative(target, f[i])
        bends[i] = w * min(max(rise / (2.0 * step), 0.0), loss.curvature)
    return slopes, bends


class Piece(NamedTuple):
    """One group of bases, and where its factors T lie in the vector of all parameters."""

    group: Group
    rows: Compressed
    lams: np.ndarray
    shape: tuple[int, int, int]  # of T
    start: int

    def cut(self, vector: np.ndarray) -> np.ndarray:
        return vector[self.start : self.start + self.shape[0] * self.shape[1] * self.shape[2]].reshape(self.shape)

    def arguments(self, vector: np.ndarray) -> tuple[Any, ...]:
        """What every loop over rows begins with."""
        T = bases_last(self.cut(vector).T, np.float64)
        return self.group.form, *self.rows, self.group.n_dummies, T, self.lams, self.group.n_slots


class Jacobian:
    """Predictions, less `offset`, and their derivatives, as functions of one vector: all factors with the bases last,
    linear weights, intercept. The latter two are a group too: H^1, with the intercept as a dummy feature."""

    def __init__(self, model: Model, parameters: Parameters, rows: Compressed, offset=None, n_threads: int = 1):
        n, d = len(rows.indptr) - 1, len(parameters.coef)
        self.pieces: list[Piece] = []
        self.n_rows, self.size, self.n_threads = n, 0, n_threads
        self.entries = 0.0  # non-zeros of a row of J, on average
        for group, lams in zip(model.groups, parameters.lambdas, strict=True):
            self._append(group, rows, lams, d)
        if model.fit_linear or model.fit_intercept:
            nothing = np.zeros(n + 1, dtype=np.uint64)
            nothing.flags.writeable = False
            used, width = (rows, d) if model.fit_linear else (Compressed(nothing, None, None), 0)
            self._append(Group("homogeneous", "direct", 1, 1, int(model.fit_intercept)), used, np.ones(1), width)
        self.base = np.zeros(n) if offset is None else -offset.astype(np.float64)
        if not model.fit_intercept:
            self.base += parameters.intercept[0]
        self._tile, self._predictions = np.empty((0, self.size)), np.empty(n)

    def _append(self, group: Group, rows: Compressed, lams: np.ndarray, d: int) -> None:
        bases, factors, features = group.shape(d)
        self.pieces.append(Piece(group, rows, weights(group, lams, np.float64), (features, factors, bases), self.size))
        self.size += bases * factors * features
        self.entries += bases * factors * (float(rows.indptr[-1]) / max(self.n_rows, 1) + group.n_dummies)

    def predict(self, vector: np.ndarray) -> np.ndarray:
        f = self.base.copy()
        self._over_rows(vector, lambda piece, rows, _, *bounds: _rows.add_expansion(*rows, None, *bounds, f))
        return f

    def tile(self, vector: np.ndarray, lo: int, hi: int) -> tuple[np.ndarray, np.ndarray]:
        """Predictions and Jacobian of the rows lo .. hi, in memory that the next call uses again."""
        if len(self._tile) < hi - lo:
            self._tile = np.empty((hi - lo, self.size))
        f, J = self._predictions, self._tile[: hi - lo]
        f[lo:hi] = self.base[lo:hi]
        J[:] = 0.0
        for piece in self.pieces:
            arguments = piece.arguments(vector)
            _rows.add_expansion(*arguments, None, lo, hi, f)
            derivatives(*arguments, lo, hi, Fill(J, lo, piece.start, piece.shape[2]))
        return f[lo:hi], J

    def forward(self, vector: np.ndarray, v: np.ndarray) -> np.ndarray:
        """J v."""
        u = np.zeros(self.n_rows)
        self._over_rows(vector, lambda piece, rows, _, *bounds: derivatives(*rows, *bounds, Forward(piece.cut(v), u)))
        return u

    def backward(self, vector: np.ndarray, u: np.ndarray) -> np.ndarray:
        """J^T u."""
        return self._over_rows(
            vector, lambda piece, rows, out, *bounds: derivatives(*rows, *bounds, Backward(piece.cut(out), u))
        )

    def squares(self, vector: np.ndarray, h: np.ndarray) -> np.ndarray:
        """The diagonal of J^T diag(h) J."""
        return self._over_rows(
            vector, lambda piece, rows, out, *bounds: derivatives(*rows, *bounds, Squares(piece.cut(out), h))
        )

    def _over_rows(self, vector: np.ndarray, visit: Callable[..., None]) -> np.ndarray:
        """Visit all rows, in blocks whose number does not depend on the threads, and add up the blocks' results."""
        bounds = row_blocks(self.n_rows, self.size, self.entries * self.n_rows / max(self.size, 1))
        laid_out = [piece.arguments(vector) for piece in self.pieces]

        def run(part: int) -> np.ndarray:
            out = np.zeros(self.size)
            for piece, arguments in zip(self.pieces, laid_out, strict=True):
                visit(piece, arguments, out, bounds[part], bounds[part + 1])
            return out

        return sum(in_order(run, len(bounds) - 1, self.n_threads), np.zeros(self.size))
