"""Rules: what a step along a coordinate, or within a block of them, does with the parabola that it finds.

The objective along a coordinate is (majorised by) a parabola with the slope g and the curvature eta. A rule is a
compiled named tuple with

- ``reach``, how far to go: 1 is the lowest point, up to 2 still lowers the objective (over-relaxation),
- ``step(g, eta, s, t, j)``, how far B[t, j] of basis s moves,
- ``of_part(part)``, which Python asks for: the rule for the linear weights (part 0), or for one group of bases,
- ``fill_noise(low, high, bases, j, noise)``, which writes what block steps add to the right-hand side half-way through
  a Cholesky solve, for the factors low .. high of all bases and, last, for the linear weight, which has a number of its
  own in every turn: that of a factor that no basis has. Standard normal numbers there make the step a draw from the
  Gaussian whose mode it would have gone to. The array is zero at first.

A Gibbs sampler is a rule too: ``step`` returns -g / eta + z / sqrt(eta), ``fill_noise`` writes z.
"""

import math
from typing import NamedTuple

from polyfm.loops.jit import LANES, compiled
from polyfm.loops.philox import normal

MOST_FACTORS = 31  # of a basis: random numbers of those beyond are the linear weights'


@compiled
class Descend(NamedTuple):
    """Go to the lowest point, or `reach` times as far."""

    reach: float = 1.0

    def of_part(self, part):
        return self

    def step(self, g, eta, s, t, j):
        return -self.reach * (g / eta)

    def fill_noise(self, low, high, bases, j, noise):
        pass


@compiled
class Gibbs(NamedTuple):
    """A draw from the Gaussian whose mode a descent step would go to, in place of the step.

    The objective is in units of the loss; `temperature` is the variance of the noise, by which it would have to be
    divided to be a negative log-density. A number belongs to its coordinate (`philox`), whoever asks for it and when.
    """

    k0: int  # the seed, in two words
    k1: int
    iteration: int
    temperature: float
    part: int = 0
    reach: float = 1.0

    def of_part(self, part):
        return self._replace(part=part)

    def step(self, g, eta, s, t, j):
        return -g / eta + self.noise(s, t, j) / math.sqrt(eta)

    def noise(self, s, t, j):
        z = normal(self.k0, self.k1, j, s, self.iteration, self.part * 64 + t + 1)
        return math.sqrt(self.temperature) * z

    def fill_noise(self, low, high, bases, j, noise):
        u = 0
        for t in range(low, high):
            for s in range(-(-bases // LANES) * LANES):  # whole vectors; what comes next overwrites the rest
                noise[u + s] = self.noise(s, t, j)
            u += bases
        noise[u] = self.noise(0, MOST_FACTORS + low if low else -1, j)
