"""The Jacobian of the predictions, as a function of all parameters: by tiles of rows, or through its products."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from polyfm.core.design import Compressed
from polyfm.core.layout import bases_last, no_weights, weights
from polyfm.core.model import Group, Model
from polyfm.core.parameters import Parameters
from polyfm.core.threads import in_order, row_blocks
from polyfm.loops.derivatives import Backward, Fill, Forward, Squares, derivatives
from polyfm.loops.forms import DirectHomogeneous
from polyfm.loops.rows import Bases, add_expansion

NO_WEIGHTS = no_weights(np.float64)  # the linear ones are a group of bases here


class Piece(NamedTuple):
    """One group of bases, and where its factors T lie in the vector of all parameters."""

    group: Group
    by_row: Compressed
    lams: np.ndarray
    shape: tuple[int, int, int]  # of T
    start: int

    def cut(self, vector: np.ndarray) -> np.ndarray:
        return vector[self.start : self.start + self.shape[0] * self.shape[1] * self.shape[2]].reshape(self.shape)

    def arguments(self, vector: np.ndarray) -> tuple[Bases, tuple[Any, ...]]:
        """What every loop over rows begins with."""
        form, T = self.group.form, bases_last(self.cut(vector).T, np.float64)
        return Bases(form, self.group.n_dummies, form.n_slots, T, self.lams), tuple(self.by_row)


class Jacobian:
    """Predictions, less `shift`, and their derivatives, as functions of one vector: all factors with the bases last,
    linear weights, intercept. The latter two are a group too: H^1, with the intercept as a dummy feature."""

    def __init__(self, model: Model, parameters: Parameters, rows: Compressed, shift=None, n_threads: int = 1):
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
            self._append(Group(DirectHomogeneous.of_degree(1), 1, int(model.fit_intercept)), used, np.ones(1), width)
        self.base = np.zeros(n) if shift is None else -shift.astype(np.float64)
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

        def add(piece: Piece, bases: Bases, rows: Any, _: Any, lo: int, hi: int) -> None:
            add_expansion(bases, rows, NO_WEIGHTS, lo, hi, bases.space(hi - lo), f)

        self._over_rows(vector, add)
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
            add_expansion(*arguments, NO_WEIGHTS, lo, hi, arguments[0].space(hi - lo), f)
            derivatives(*arguments, lo, hi, Fill(J, lo, piece.start, piece.shape[2]))
        return f[lo:hi], J

    def forward(self, vector: np.ndarray, v: np.ndarray) -> np.ndarray:
        """J v."""
        u = np.zeros(self.n_rows)
        self._over_rows(
            vector, lambda piece, bases, rows, _, lo, hi: derivatives(bases, rows, lo, hi, Forward(piece.cut(v), u))
        )
        return u

    def backward(self, vector: np.ndarray, u: np.ndarray) -> np.ndarray:
        """J^T u."""
        return self._over_rows(
            vector,
            lambda piece, bases, rows, out, lo, hi: derivatives(bases, rows, lo, hi, Backward(piece.cut(out), u)),
        )

    def squares(self, vector: np.ndarray, h: np.ndarray) -> np.ndarray:
        """The diagonal of J^T diag(h) J."""
        return self._over_rows(
            vector, lambda piece, bases, rows, out, lo, hi: derivatives(bases, rows, lo, hi, Squares(piece.cut(out), h))
        )

    def _over_rows(self, vector: np.ndarray, visit: Callable[..., None]) -> np.ndarray:
        """Visit all rows, in blocks whose number does not depend on the threads, and add up the blocks' results."""
        bounds = row_blocks(self.n_rows, self.size, self.entries * self.n_rows / max(self.size, 1))
        laid_out = [piece.arguments(vector) for piece in self.pieces]

        def run(part: int) -> np.ndarray:
            out = np.zeros(self.size)
            for piece, arguments in zip(self.pieces, laid_out, strict=True):
                visit(piece, *arguments, out, bounds[part], bounds[part + 1])
            return out

        return sum(in_order(run, len(bounds) - 1, self.n_threads), np.zeros(self.size))
