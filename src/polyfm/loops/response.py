"""Response: what the samples ask of their predictions, as one value that loops take in place of four arrays."""

from typing import Any, NamedTuple

import numpy as np

from polyfm.loops.jit import at, compiled


@compiled
class Response(NamedTuple):
    """The terms weight_i l(y_i, f_i) of the objective.

    Where the loss depends on the residual f - y alone, `shift` is y and `y` is None: solvers then keep f - y in place
    of f, y stays out of the loops, and a sample's state is a number smaller. Elsewhere `shift` is None. Loops never
    know the difference: the f that they hand over is the prediction less the shift.
    """

    loss: Any
    y: np.ndarray | None  # (samples,)
    weight: np.ndarray | None  # (samples,); None: all are 1
    shift: np.ndarray | None  # (samples,)

    def weight_of(self, i):
        return at(self.weight, i, 1.0)

    def shift_of(self, i):
        return at(self.shift, i, 0.0)

    def value(self, i, f):
        """weight_i l(y_i, f)."""
        return at(self.weight, i, 1.0) * self.loss.value(at(self.y, i, 0.0), f)

    def derivative(self, i, f):
        """l'(y_i, f)."""
        return self.loss.derivative(at(self.y, i, 0.0), f)

    def slope(self, i, f):
        """weight_i l'(y_i, f)."""
        return at(self.weight, i, 1.0) * self.loss.derivative(at(self.y, i, 0.0), f)
