"""Parameters and what AdaGrad keeps of them, side by side, as the loop of stochastic descent wants them."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from polyfm.core.parameters import Parameters
from polyfm.loops.jit import LANES
from polyfm.loops.prefetch import aligned
from polyfm.loops.stochastic import KEPT

TINY = {"float32": 1e-30, "float64": 1e-200}  # a sum of squared gradients at the start: never quite 0


class Tables(NamedTuple):
    groups: tuple[np.ndarray, ...]  # (features + dummies, kept * factors, bases), filled up to whole vectors
    linear: np.ndarray  # (features, 4, 1): weight, sum, part of the penalty in a row
    intercept: np.ndarray  # (1, kept, 1)

    @classmethod
    def of(cls, parameters: Parameters, sums: list[np.ndarray] | None, dtype, kept: int = KEPT) -> "Tables":
        """From parameters and their sums of squared gradients: of each group, (features, factors, bases), then of coef
        and intercept. A step rule that keeps more of the factors finds 0 in what is left."""
        groups, tiny = [], TINY[np.dtype(dtype).name]
        for g, P in enumerate(parameters.factors):
            k, factors, d = P.shape
            W = aligned((d, kept * factors, k + -k % LANES), dtype)
            W[:, :factors] = 0.0
            W[:, factors:] = tiny if kept == KEPT else 0.0
            W[:, :factors, :k] = P.T
            if sums is not None:
                W[:, factors:, :k] = sums[g]
            groups.append(W)
        linear, intercept = aligned((len(parameters.coef), 4, 1), dtype), np.empty((1, 2, 1), dtype=dtype)
        linear[:], intercept[:] = 0.0, 0.0
        linear[:, 0, 0], intercept[:, 0, 0] = parameters.coef, parameters.intercept
        linear[:, 1, 0], intercept[:, 1, 0] = (tiny, tiny) if sums is None else sums[-2:]
        return cls(tuple(groups), linear, intercept)

    def sums(self, parameters: Parameters) -> list[np.ndarray]:
        """The sums of squared gradients, as `of` takes them."""
        of_factors = [W[:, P.shape[1] :, : P.shape[0]] for W, P in zip(self.groups, parameters.factors, strict=True)]
        return [a.copy() for a in (*of_factors, self.linear[:, 1, 0], self.intercept[:, 1, 0])]

    def write(self, parameters: Parameters) -> None:
        """Make these the parameters."""
        for W, P in zip(self.groups, parameters.factors, strict=True):
            P[:] = W[:, : P.shape[1], : P.shape[0]].T
        parameters.coef[:], parameters.intercept[:] = self.linear[:, 0, 0], self.intercept[:, 0, 0]

    def copy(self) -> "Tables":
        new = self.map(lambda array: aligned(array.shape, array.dtype))
        new.become(self)
        return new

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> "Tables":
        return Tables(tuple(map(function, self.groups)), function(self.linear), function(self.intercept))

    def become(self, other: "Tables") -> None:
        for mine, theirs in zip(self._arrays(), other._arrays(), strict=True):
            np.copyto(mine, theirs)

    def _arrays(self) -> Iterable[np.ndarray]:
        return (*self.groups, self.linear, self.intercept)
