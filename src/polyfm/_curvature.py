"""The Jacobian of the predictions for second-order steps: whole, by tiles of rows, or through its products.

Row i of the Jacobian J holds the derivatives of f_i by all factors T[j, t, s], in the order of T. Products never store
it: with the working space of a row filled, the derivatives of each non-zero are made, used and forgotten. Everything
is in double precision, whatever X is. Letters as in `_rows`; `lams` are lambda times the form's scale.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from polyfm import _rows
from polyfm._jit import at, inline, loop
from polyfm.design import Compressed
from polyfm.model import Group, Model, Parameters
from polyfm.threads import in_order, row_blocks


@inline
def _absorb_row(form, indptr, indices, data, dummies, T, A, i):
    """Fill the working space A of row i."""
    A[:] = 0.0
    first = indptr[i]
    for e in range(first, indptr[i + 1]):
        form.absorb(A, T, at(indices, e, e - first), np.float64(at(data, e, 1.0)))
    for q in range(dummies):
        form.absorb(A, T, T.shape[0] - dummies + q, 1.0)


@inline
def _emit_row(form, indptr, indices, data, dummies, T, A, G, c, i):
    """G += the derivatives of row i, times c, from the working space A that `_absorb_row` filled."""
    first = indptr[i]
    for e in range(first, indptr[i + 1]):
        form.emit(A, T, G, c, at(indices, e, e - first), np.float64(at(data, e, 1.0)))
    for q in range(dummies):
        form.emit(A, T, G, c, T.shape[0] - dummies + q, 1.0)


@loop(streaming=True)
def add_jacobian(form, indptr, indices, data, dummies, T, lams, A, lo, hi, f, J, start):
    """f += values, J[:, start:start + T.size] += derivatives of the rows lo .. hi."""
    for i in range(lo, hi):
        _absorb_row(form, indptr, indices, data, dummies, T, A, i)
        total = 0.0
        for s in range(lams.shape[0]):
            total += lams[s] * form.total(A, s)
        f[i - lo] += total
        G = J[i - lo, start : start + T.size].reshape(T.shape)
        _emit_row(form, indptr, indices, data, dummies, T, A, G, lams, i)


@inline
def _dot(form, A, T, lams, V, slab, j, x):
    """<derivatives by T[j], V[j]>; `slab` is zero before and after."""
    form.emit(A, T[j : j + 1], slab, lams, 0, x)
    total = 0.0
    for t in range(slab.shape[1]):
        for s in range(slab.shape[2]):
            total += slab[0, t, s] * V[j, t, s]
            slab[0, t, s] = 0.0
    return total


@loop(streaming=True)
def add_forward(form, indptr, indices, data, dummies, T, lams, A, V, lo, hi, u):
    """u[i] += <row i of J, V> for lo <= i < hi."""
    d = T.shape[0] - dummies
    slab = np.zeros((1, T.shape[1], T.shape[2]))
    for i in range(lo, hi):
        _absorb_row(form, indptr, indices, data, dummies, T, A, i)
        total = 0.0
        first = indptr[i]
        for e in range(first, indptr[i + 1]):
            j = np.int64(at(indices, e, e - first))
            total += _dot(form, A, T, lams, V, slab, j, np.float64(at(data, e, 1.0)))
        for q in range(dummies):
            total += _dot(form, A, T, lams, V, slab, d + q, 1.0)
        u[i] += total


@loop(streaming=True)
def add_backward(form, indptr, indices, data, dummies, T, lams, A, u, lo, hi, G):
    """G += sum_i u_i (row i of J) over lo <= i < hi."""
    c = np.empty(lams.shape[0])
    for i in range(lo, hi):
        _absorb_row(form, indptr, indices, data, dummies, T, A, i)
        for s in range(lams.shape[0]):
            c[s] = u[i] * lams[s]
        _emit_row(form, indptr, indices, data, dummies, T, A, G, c, i)


@inline
def _square(form, A, T, lams, G, slab, j, x, h):
    """G[j] += h times the squared derivatives by T[j]."""
    form.emit(A, T[j : j + 1], slab, lams, 0, x)
    for t in range(slab.shape[1]):
        for s in range(slab.shape[2]):
            G[j, t, s] += h * slab[0, t, s] * slab[0, t, s]
            slab[0, t, s] = 0.0


@loop(streaming=True)
def add_squares(form, indptr, indices, data, dummies, T, lams, A, h, lo, hi, G):
    """G += sum_i h_i (row i of J)^2, element by element, over lo <= i < hi."""
    d = T.shape[0] - dummies
    slab = np.zeros((1, T.shape[1], T.shape[2]))
    for i in range(lo, hi):
        _absorb_row(form, indptr, indices, data, dummies, T, A, i)
        first = indptr[i]
        for e in range(first, indptr[i + 1]):
            j = np.int64(at(indices, e, e - first))
            _square(form, A, T, lams, G, slab, j, np.float64(at(data, e, 1.0)), h[i])
        for q in range(dummies):
            _square(form, A, T, lams, G, slab, d + q, 1.0, h[i])


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
        A = np.empty((self.group.n_slots, self.shape[2]))
        return self.group.form, *self.rows, self.group.n_dummies, self.cut(vector), self.lams, A


class Jacobian:
    """Predictions, less `offset`, and their derivatives, as functions of one vector: all factors with the bases last,
    linear weights, intercept. The latter two are a group too: H^1, with the intercept as a dummy feature."""

    def __init__(self, model: Model, parameters: Parameters, rows: Compressed, offset=None, n_threads: int = 1):
        n, d = len(rows.indptr) - 1, len(parameters.coef)
        self.pieces: list[Piece] = []
        self.n_rows, self.size, self.n_threads = n, 0, n_threads
        self.entries = 0.0  # non-zeros of a row of J, on average
        for group, lams in zip(model.groups, parameters.lambdas, strict=True):
            self._append(group, rows, lams * float(group.scale), d)
        if model.fit_linear or model.fit_intercept:
            nothing = np.zeros(n + 1, dtype=np.uint64)
            nothing.flags.writeable = False
            used, width = (rows, d) if model.fit_linear else (Compressed(nothing, None, None), 0)
            self._append(Group("homogeneous", "direct", 1, 1, int(model.fit_intercept)), used, np.ones(1), width)
        self.base = np.zeros(n) if offset is None else -offset.astype(np.float64)
        if not model.fit_intercept:
            self.base += parameters.intercept[0]
        self._tile = np.empty((0, self.size))

    def _append(self, group: Group, rows: Compressed, lams: np.ndarray, d: int) -> None:
        bases, factors, features = group.shape(d)
        self.pieces.append(Piece(group, rows, lams.astype(np.float64), (features, factors, bases), self.size))
        self.size += bases * factors * features
        self.entries += bases * factors * (float(rows.indptr[-1]) / max(self.n_rows, 1) + group.n_dummies)

    def predict(self, vector: np.ndarray) -> np.ndarray:
        f = self.base.copy()

        def add(piece: Piece, lo: int, hi: int, _: np.ndarray) -> None:
            *arguments, A = piece.arguments(vector)
            _rows.add_expansion(*arguments, len(A), None, lo, hi, f)

        self._over_rows(add)
        return f

    def tile(self, vector: np.ndarray, lo: int, hi: int) -> tuple[np.ndarray, np.ndarray]:
        """Predictions and Jacobian of the rows lo .. hi; the latter lies in memory that the next call uses again."""
        if len(self._tile) < hi - lo:
            self._tile = np.empty((hi - lo, self.size))
        f, J = self.base[lo:hi].copy(), self._tile[: hi - lo]
        J[:] = 0.0
        for piece in self.pieces:
            add_jacobian(*piece.arguments(vector), lo, hi, f, J, piece.start)
        return f, J

    def forward(self, vector: np.ndarray, v: np.ndarray) -> np.ndarray:
        """J v."""
        u = np.zeros(self.n_rows)
        self._over_rows(lambda piece, lo, hi, _: add_forward(*piece.arguments(vector), piece.cut(v), lo, hi, u))
        return u

    def backward(self, vector: np.ndarray, u: np.ndarray) -> np.ndarray:
        """J^T u."""
        return self._over_rows(
            lambda piece, lo, hi, out: add_backward(*piece.arguments(vector), u, lo, hi, piece.cut(out))
        )

    def squares(self, vector: np.ndarray, h: np.ndarray) -> np.ndarray:
        """The diagonal of J^T diag(h) J."""
        return self._over_rows(
            lambda piece, lo, hi, out: add_squares(*piece.arguments(vector), h, lo, hi, piece.cut(out))
        )

    def _over_rows(self, visit: Callable[[Piece, int, int, np.ndarray], None]) -> np.ndarray:
        """Visit all rows, in blocks whose number does not depend on the threads, and add up the blocks' results."""
        bounds = row_blocks(self.n_rows, self.size, self.entries * self.n_rows / max(self.size, 1))

        def run(part: int) -> np.ndarray:
            out = np.zeros(self.size)
            for piece in self.pieces:
                visit(piece, bounds[part], bounds[part + 1], out)
            return out

        return sum(in_order(run, len(bounds) - 1, self.n_threads), np.zeros(self.size))
