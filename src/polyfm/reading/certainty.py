"""How sure a Bayesian machine is of the weights of its monomials: their standard deviations."""

from typing import Any

import numpy as np

from polyfm.core.posterior import Draws, Gaussians
from polyfm.reading.polynomial import Terms, target_index


class Certainty:
    """Standard deviations of weights, where a fitted estimator has a posterior that says so."""

    def __init__(self, estimator: Any, target: Any):
        posteriors = getattr(estimator, "_posterior", None)
        at = target_index(estimator, target)
        self.posterior = posteriors[at] if posteriors else None
        self.model, self.parameters = estimator._fitted.model, estimator._fitted.targets[at]

    @property
    def is_known(self) -> bool:
        """Dummy features make weights of products of several parameters, some of which all weights share."""
        return self.posterior is not None and not any(group.n_dummies for group in self.model.groups)

    def constant(self) -> float:
        if isinstance(self.posterior, Draws):
            return _spread(self.posterior.intercept[None])[0]
        assert isinstance(self.posterior, Gaussians)
        return float(np.sqrt(self.posterior.intercept[0]))

    def of(self, terms: Terms, features: np.ndarray) -> np.ndarray:
        """Of monomials, given as rows of features."""
        posterior, degree = self.posterior, terms.degree
        if degree == 1:
            j = features[:, 0]
            if isinstance(posterior, Draws):
                return _spread(posterior.coef.T[j])
            assert posterior is not None
            return np.sqrt(posterior.coef[j].astype(np.float64))
        g = next(g for g, group in enumerate(self.model.groups) if group.degree == degree)
        P = self.parameters.factors[g][:, 0]
        factors = [P[:, features[:, t]].T.astype(np.float64) for t in range(degree)]  # (monomials, bases) each
        products = np.prod(factors, axis=0)
        if isinstance(posterior, Draws):
            return _spread(products.reshape(len(features), len(posterior.noise), -1).sum(axis=2))
        assert isinstance(posterior, Gaussians)
        V = posterior.factors[g][:, 0]
        squares = [m**2 + V[:, features[:, t]].T.astype(np.float64) for t, m in enumerate(factors)]
        return np.sqrt(np.maximum(np.prod(squares, axis=0) - products**2, 0.0).sum(axis=1))


def _spread(values: np.ndarray) -> np.ndarray:
    """Over draws, which are the last axis."""
    return np.std(values.astype(np.float64), axis=-1, ddof=min(1, values.shape[-1] - 1))
