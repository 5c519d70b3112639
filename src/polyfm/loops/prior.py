"""Prior: penalties strength/2 (theta - mean)^2 on parameters, by group of features and by basis."""

from typing import NamedTuple

import numpy as np

from polyfm.loops.jit import at, compiled


@compiled
class Prior(NamedTuple):
    """A Gaussian prior on the factors of all bases of one form, or on the linear weights (one basis).

    `strength` is the second derivative of the penalty: a precision, in units of the loss.
    """

    of: np.ndarray | None  # (features + dummies,): the group of a feature; None: all are in group 0
    strength: np.ndarray  # (groups, bases)
    mean: np.ndarray | None  # (groups, bases); None: all are 0

    def strength_of(self, s, j):
        return self.strength[at(self.of, j, 0), s]

    def mean_of(self, s, j):
        return at(self.mean, (at(self.of, j, 0), s), self.strength.dtype.type(0.0))
