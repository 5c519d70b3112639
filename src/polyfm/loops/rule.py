"""Rules: what a step along a coordinate, or within a block of them, does with the parabola that it finds.

The objective along a coordinate is (majorised by) a parabola with the slope g and the curvature eta. A rule is a
compiled named tuple with

- ``reach``, how far to go: 1 is the lowest point, up to 2 still lowers the objective (over-relaxation),
- ``step(g, eta, s, t, j)``, how far B[t, j] of basis s moves,
- ``noise(s, t, j)``, what block steps add to the right-hand side half-way through a Cholesky solve: a standard normal
  number there makes the step a draw from the Gaussian whose mode it would have gone to.

A Gibbs sampler is a rule too: ``step`` returns -g / eta + z / sqrt(eta), ``noise`` returns z.
"""

from typing import NamedTuple

from polyfm.loops.jit import compiled


@compiled
class Descend(NamedTuple):
    """Go to the lowest point, or `reach` times as far."""

    reach: float = 1.0

    def step(self, g, eta, s, t, j):
        return -self.reach * (g / eta)

    def noise(self, s, t, j):
        return 0.0
