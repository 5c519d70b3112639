"""H^m(p, x) = <p, x>^m: polynomial networks."""

import math
from typing import NamedTuple

from polyfm.loops.forms.base import form


@form
class DirectHomogeneous(NamedTuple):
    """H^m(p, x) = <p, x>^m; not multilinear in p, so it has no coordinate form."""

    degree_slots: tuple[float, ...]

    kernel, method = "homogeneous", "direct"
    multilinear = False
    repeats = True
    n_slots = 1
    n_augmenting = 1

    # (a + b)^m = sum_t C(m, t) a^t b^(m - t)
    part_weights = property(lambda self: tuple(math.comb(self.degree, t) for t in range(self.degree + 1)))

    def parts(self, A):
        return [A[0] ** t for t in range(self.degree + 1)]

    def absorb(self, A, T, j, x, s):
        A[0, s] += x * T[j, 0, s]

    def total(self, A, s):
        power = A[0, s]
        for _ in range(len(self.degree_slots) - 1):
            power = power * A[0, s]
        return power

    def emit(self, A, T, G, to, c, j, x, s):
        power = x * c[s]
        for _ in range(len(self.degree_slots) - 1):
            power = power * A[0, s]
        G[to, 0, s] += len(self.degree_slots) * power
