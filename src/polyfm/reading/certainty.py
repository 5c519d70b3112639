"""How sure a Bayesian machine is of the weights of its monomials: their standard deviations."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from polyfm.core.posterior import Draws, Gaussians
from polyfm.reading.polynomial import Polynomial, Terms, target_index


class Certainty:
    """Standard deviations of weights, where a fitted estimator has a posterior that says so."""

    def __init__(self, estimator: Any, target: Any):
        posteriors = getattr(estimator, "_posterior", None)
        at = target_index(estimator, target)
        self.posterior = posteriors[at] if posteriors else None
        self.model, self.parameters = estimator._fitted.model, estimator._fitted.targets[at]

    @property
    def is_known(self) -> bool:
        """Of any draws. Of Gaussians, dummy features make weights of products of several parameters, some of which all
        weights share."""
        no_dummies = not any(group.n_dummies for group in self.model.groups)
        return isinstance(self.posterior, Draws) or (self.posterior is not None and no_dummies)

    def _draws(self) -> Iterator[Polynomial]:
        assert isinstance(self.posterior, Draws)
        for model, parameters in self.posterior.each(self.model, self.parameters):
            yield Polynomial.of_parameters(model, parameters)

    def constant(self) -> float:
        if isinstance(self.posterior, Draws):
            return float(_spread(np.array([p.constant() for p in self._draws()])))
        assert isinstance(self.posterior, Gaussians)
        return float(np.sqrt(self.posterior.intercept[0]))

    def of(self, terms: Terms, features: np.ndarray) -> np.ndarray:
        """Of monomials, given as rows of features."""
        posterior, degree = self.posterior, terms.degree
        if isinstance(posterior, Draws):
            columns, at = np.unique(features, return_inverse=True)
            at = at.reshape(features.shape)
            return _spread(np.stack([p.terms(degree, columns=columns).weights(at) for p in self._draws()], axis=1))
        assert isinstance(posterior, Gaussians)
        if degree == 1:
            return np.sqrt(posterior.coef[features[:, 0]].astype(np.float64))
        g = next(g for g, group in enumerate(self.model.groups) if group.degree == degree)
        P = self.parameters.factors[g][:, 0]
        factors = [P[:, features[:, t]].T.astype(np.float64) for t in range(degree)]  # (monomials, bases) each
        products = np.prod(factors, axis=0)
        V = posterior.factors[g][:, 0]
        squares = [m**2 + V[:, features[:, t]].T.astype(np.float64) for t, m in enumerate(factors)]
        return np.sqrt(np.maximum(np.prod(squares, axis=0) - products**2, 0.0).sum(axis=1))


def _spread(values: np.ndarray) -> np.ndarray:
    """Over draws, which are the last axis."""
    return np.std(values.astype(np.float64), axis=-1, ddof=min(1, values.shape[-1] - 1))
