"""Posteriors: what is known of the parameters of a fitted model beside their means."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from polyfm.core.design import Design
from polyfm.core.fitted import Fitted
from polyfm.core.model import Model
from polyfm.core.parameters import Parameters
from polyfm.core.threads import Team
from polyfm.loops import moments

ROWS_AT_ONCE = 2000
LEAST, EPSILON = 1e-300, 2.0**-53


class Gaussians(NamedTuple):
    """Independent Gaussians around the parameters: their variances."""

    factors: tuple[np.ndarray, ...]  # as those of the parameters
    coef: np.ndarray
    intercept: np.ndarray
    noise: np.ndarray  # (1,): the standard deviation of targets around predictions
    cuts: np.ndarray | None = None  # (classes - 1,): between ordered classes

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

    def scores(self, model: Model, means: Parameters, design: Design, n_threads: int = 1) -> np.ndarray:
        """The number whose normal distribution function is P(z > 0) of a latent z ~ N(f, 1): what is not known of f
        draws it towards 0."""
        f = Fitted(model, [means]).predict(design, n_threads)[0].astype(np.float64)
        return f / np.sqrt(1 + self.variances(model, means, design, n_threads))

    def class_probabilities(self, model: Model, means: Parameters, design: Design, n_threads: int = 1) -> np.ndarray:
        """Of ordered classes: (samples, classes)."""
        assert self.cuts is not None
        f = Fitted(model, [means]).predict(design, n_threads)[0].astype(np.float64)
        scale = np.sqrt(1 + self.variances(model, means, design, n_threads))
        return _between((self.cuts - f[:, None]) / scale[:, None])


class Draws(NamedTuple):
    """Parameters that were drawn. The model that predicts their mean has the bases of all draws one after the other,
    with weights that add up to 1; what is not in it is here."""

    coef: np.ndarray  # (draws, features)
    intercept: np.ndarray  # (draws,)
    noise: np.ndarray  # (draws,)
    cuts: np.ndarray | None = None  # (draws, classes - 1)

    def each(self, model: Model, parameters: Parameters) -> Iterator[tuple[Model, Parameters]]:
        """The draws, one by one."""
        n = len(self.noise)
        groups = tuple(replace(group, n_bases=group.n_bases // n) for group in model.groups)
        one = replace(model, groups=groups)
        for i in range(n):
            factors = tuple(
                P[i * group.n_bases : (i + 1) * group.n_bases]
                for group, P in zip(groups, parameters.factors, strict=True)
            )
            lambdas = tuple(np.ones(group.n_bases) for group in groups)
            coef = self.coef[i].astype(parameters.coef.dtype)
            yield one, Parameters(factors, lambdas, coef, self.intercept[i : i + 1])

    def variances(self, model: Model, means: Parameters, design: Design, n_threads: int = 1) -> np.ndarray:
        """Var f of every row."""
        n, squares, mean = len(self.noise), np.zeros(design.shape[0]), np.zeros(design.shape[0])
        for i, (one, parameters) in enumerate(self.each(model, means)):
            f = Fitted(one, [parameters]).predict(design, n_threads)[0].astype(np.float64)
            gap = f - mean
            mean += gap / (i + 1)
            squares += gap * (f - mean)
        return squares / max(n - 1, 1)

    def scores(self, model: Model, means: Parameters, design: Design, n_threads: int = 1) -> np.ndarray:
        """The number whose normal distribution function is the mean of P(z > 0) over the draws."""
        total = np.zeros(design.shape[0])
        for one, parameters in self.each(model, means):
            total += ndtr(Fitted(one, [parameters]).predict(design, n_threads)[0].astype(np.float64))
        return ndtri(np.clip(total / len(self.noise), LEAST, 1 - EPSILON))

    def class_probabilities(self, model: Model, means: Parameters, design: Design, n_threads: int = 1) -> np.ndarray:
        """Of ordered classes: (samples, classes), the mean over the draws."""
        assert self.cuts is not None
        total = np.zeros((design.shape[0], self.cuts.shape[1] + 1))
        for cuts, (one, parameters) in zip(self.cuts, self.each(model, means), strict=True):
            total += _between(
                cuts - Fitted(one, [parameters]).predict(design, n_threads)[0].astype(np.float64)[:, None]
            )
        return total / len(self.noise)


Posterior = Gaussians | Draws


def _between(bounds: np.ndarray) -> np.ndarray:
    """(samples, classes - 1) -> (samples, classes): P(a standard normal number is between each and the next)."""
    below = np.column_stack([np.zeros(len(bounds)), ndtr(bounds), np.ones(len(bounds))])
    above = np.column_stack([np.ones(len(bounds)), ndtr(-bounds), np.zeros(len(bounds))])
    # From the side on which fewer digits cancel.
    return np.maximum(np.where(below[:, :-1] > 0.5, -np.diff(above, axis=1), np.diff(below, axis=1)), LEAST)


def posterior_of(
    model: Model, parameters: Parameters, learned: dict[str, np.ndarray]
) -> tuple[Model, Parameters, Posterior]:
    """What predicts, and what says how well, from the result of a solver."""
    if "samples/noise" in learned:
        return _of_draws(model, parameters.coef.dtype, learned)
    factors = tuple(learned[f"variance{g}"] for g in range(len(model.groups)))
    return (
        model,
        parameters,
        Gaussians(factors, learned["coef"], learned["intercept"], learned["noise"], learned.get("cuts")),
    )


def _of_draws(model: Model, dtype, learned: dict[str, np.ndarray]) -> tuple[Model, Parameters, Draws]:
    noise, coef, intercept = (learned[f"samples/{name}"] for name in ("noise", "coef", "intercept"))
    n = len(noise)
    factors, lambdas = [], []
    for g, group in enumerate(model.groups):
        drawn = learned[f"samples/factors{g}"]
        factors.append(drawn.reshape(n * group.n_bases, *drawn.shape[2:]))
        lambdas.append(np.full(n * group.n_bases, 1 / n, dtype=dtype))
    groups = tuple(replace(group, n_bases=n * group.n_bases) for group in model.groups)
    mean = coef.mean(axis=0, dtype=np.float64).astype(dtype)
    middle = np.array([intercept.mean(dtype=np.float64)], dtype=dtype)
    parameters = Parameters(tuple(factors), tuple(lambdas), mean, middle)
    return (
        replace(model, groups=groups),
        parameters,
        Draws(coef, intercept[:, 0], noise[:, 0], learned.get("samples/cuts")),
    )


def _by_feature(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values.T, dtype=np.float64)
