"""Posteriors: what is known of the parameters of a fitted model beside their means."""

import itertools
from typing import NamedTuple

import numpy as np

from polyfm.core.design import Design
from polyfm.core.model import Model
from polyfm.core.parameters import Parameters
from polyfm.core.threads import Team
from polyfm.loops import moments

ROWS_AT_ONCE = 2000


class Gaussians(NamedTuple):
    """Independent Gaussians around the parameters: their variances."""

    factors: tuple[np.ndarray, ...]  # as those of the parameters
    coef: np.ndarray
    intercept: np.ndarray
    noise: np.ndarray  # (1,): the standard deviation of targets around predictions

    def variances(self, model: Model, means: Parameters, design: Design, n_threads: int = 1) -> np.ndarray:
        """Var f of every row."""
        n = design.shape[0]
        out = np.full(n, float(self.intercept[0]))
        slots, parts = (0.0,), [(means.coef[None], self.coef[None], 0)] if model.fit_linear else []
        parts += [
            (P[:, 0], V[:, 0], group.n_dummies)
            for group, P, V in zip(model.groups, means.factors, self.factors, strict=True)
        ]
        degrees = [1] * model.fit_linear + [group.degree for group in model.groups]
        arrays = [
            (slots * m, dummies, tuple(design.rows), _by_feature(M), _by_feature(V))
            for m, (M, V, dummies) in zip(degrees, parts, strict=True)
        ]

        def share(lo: int, hi: int) -> None:
            for part in arrays:
                moments.add_variances(*part, lo, hi, out[lo:hi])

        with Team(min(n_threads, 1 + n // ROWS_AT_ONCE)) as team:
            bounds = np.linspace(0, n, team.n_threads + 1).astype(np.int64).tolist()
            team.run(share, itertools.pairwise(bounds))
        return out


def posterior_of(
    model: Model, parameters: Parameters, learned: dict[str, np.ndarray]
) -> tuple[Model, Parameters, Gaussians]:
    """What predicts, and what says how well, from the result of a solver."""
    factors = tuple(learned[f"variance{g}"] for g in range(len(model.groups)))
    return model, parameters, Gaussians(factors, learned["coef"], learned["intercept"], learned["noise"])


def _by_feature(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values.T, dtype=np.float64)
