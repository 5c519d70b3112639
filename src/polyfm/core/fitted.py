"""Fitted: a model with the parameters of all its targets, ready to predict."""

import itertools
from functools import partial

import numpy as np

from polyfm.core.design import Design
from polyfm.core.layout import add_expansion, layout
from polyfm.core.model import Model
from polyfm.core.parameters import Parameters
from polyfm.core.threads import Team
from polyfm.loops.rows import Bases

ROWS_WORTH_A_THREAD = 2000


class Fitted:
    """A model and the parameters of one or several targets, which are laid out once for as many predictions as come."""

    def __init__(self, model: Model, targets: list[Parameters]):
        self.model, self.targets = model, targets
        self._layouts: dict[np.dtype, list[list[Bases]]] = {}

    def __getstate__(self):
        return {**vars(self), "_layouts": {}}

    def predict(self, design: Design, n_threads: int = 1) -> np.ndarray:
        """An array (targets, samples)."""
        if design.dtype not in self._layouts:
            self._layouts[design.dtype] = [
                [layout(*group, design.dtype) for group in self.model.each(p)] for p in self.targets
            ]
        n = design.shape[0]
        out = np.empty((len(self.targets), n), dtype=design.dtype)
        if n_threads == 1 or n < ROWS_WORTH_A_THREAD:  # a single row is predicted in some microseconds
            self._predict(design, out, 0)
            return out
        bounds = [n * part // n_threads for part in range(n_threads + 1)]
        with Team(n_threads) as team:
            team.run(partial(self._predict, design), [(out[:, lo:hi], lo) for lo, hi in itertools.pairwise(bounds)])
        return out

    def _predict(self, design: Design, out: np.ndarray, first: int) -> None:
        """The rows from `first` on, as many as `out` (targets, rows) has room for."""
        for f, p, layouts in zip(out, self.targets, self._layouts[design.dtype], strict=True):
            f[:] = p.intercept[0]
            coef = p.coef if self.model.fit_linear else None
            for bases in layouts:
                add_expansion(design, bases, coef, f, first)
                coef = None
