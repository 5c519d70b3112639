"""Products of distinct features: factorization machines, lifted."""

import math
from typing import NamedTuple

import numpy as np

from polyfm.loops.forms.base import form, one
from polyfm.loops.jit import inline


@inline
def _spread(mask, t):
    """The subset `mask` of the other m - 1 factors, written as a subset of all m: factor t is left out."""
    low = mask & ((1 << t) - 1)
    return low | ((mask ^ low) << 1)


@form
class LiftedAnova(NamedTuple):
    """The sum over distinct features j_1 .. j_m of prod_t u^t_(j_t) x_(j_t): the permanent of an m x nnz matrix.

    S[i, M] holds the same sum over the factors in the subset M (a bit mask) alone; the full set is not needed.
    With c_t = u^t_j x, adding feature j does f[M] += sum_(t in M) c_t f[M - t], and without it the value is
    g[M] = sum_(T in M) (-1)^|T| |T|! prod_(t in T) c_t f[M - T]. The degree m = 2 gives the formula of appendix D.3.
    Loops over rows keep the same sums, the full set included, in A[M - 1]: there is no prediction before them.
    """

    degree_slots: tuple[float, ...]

    kernel, method = "anova", "lifted"
    lifted = True
    repeats = False
    n_slots = property(lambda self: 2**self.degree - 1)
    n_cached = property(lambda self: 2**self.degree - 2)
    n_augmenting = property(lambda self: self.degree - 1)
    scale = property(lambda self: 1 / math.factorial(self.degree))

    def parts(self, A):
        """f[M] for each subset M: the factors outside M fall to the other features."""
        return [np.ones_like(A[0]), *A]

    def reset(self, S, i):
        for mask in range(1, (1 << len(self.degree_slots)) - 1):
            S[i, mask] = 0.0

    def include(self, S, i, B, j, x):
        for mask in range((1 << len(self.degree_slots)) - 2, 0, -1):
            total = one(S) - one(S)
            for t in range(len(self.degree_slots)):
                if mask >> t & 1:
                    rest = mask ^ (1 << t)
                    total += B[t, j] * (S[i, rest] if rest else one(S))
            S[i, mask] += x * total

    def partial(self, S, i, B, t, j, x):
        m = len(self.degree_slots)
        everything = (1 << (m - 1)) - 1
        unit = one(S)
        total = unit - unit
        for left in range(1 << (m - 1)):  # the factors that feature j is taken out of
            term = unit
            size = unit - unit
            for o in range(m - 1):
                if left >> o & 1:
                    size += unit
                    term *= -size * x * B[o if o < t else o + 1, j]
            rest = everything ^ left
            total += term * S[i, _spread(rest, t)] if rest else term
        return x * total

    def update(self, S, i, B, t, j, x, delta):
        m = len(self.degree_slots)
        half = 1 << (m - 1)
        # Take feature j out of the sums without factor t, in place and from small to large ...
        for mask in range(1, half):
            total = one(S) - one(S)
            for o in range(m - 1):
                if mask >> o & 1:
                    rest = mask ^ (1 << o)
                    total += B[o if o < t else o + 1, j] * (S[i, _spread(rest, t)] if rest else one(S))
            S[i, _spread(mask, t)] -= x * total
        dy = x * S[i, _spread(half - 1, t)]
        # ... let the sums with factor t grow by what multiplies it ...
        for mask in range(half - 1):
            S[i, _spread(mask, t) | (1 << t)] += delta * x * (S[i, _spread(mask, t)] if mask else one(S))
        # ... and put feature j back.
        for mask in range(half - 1, 0, -1):
            total = one(S) - one(S)
            for o in range(m - 1):
                if mask >> o & 1:
                    rest = mask ^ (1 << o)
                    total += B[o if o < t else o + 1, j] * (S[i, _spread(rest, t)] if rest else one(S))
            S[i, _spread(mask, t)] += x * total
        return dy

    def absorb(self, A, T, j, x, s):
        for mask in range((1 << len(self.degree_slots)) - 1, 0, -1):
            for t in range(len(self.degree_slots)):
                if mask >> t & 1:
                    rest = mask ^ (1 << t)
                    if rest:
                        A[mask - 1, s] += x * T[j, t, s] * A[rest - 1, s]
                    else:
                        A[mask - 1, s] += x * T[j, t, s]

    def total(self, A, s):
        return A[(1 << len(self.degree_slots)) - 2, s]

    def joint(self, t):
        return 0, len(self.degree_slots)

    def counts_itself(self):
        return False

    def cofactor(self, A, t, j, s):
        return A[(1 << len(self.degree_slots)) - 2 - (1 << t), s]

    def emit(self, A, T, G, to, c, j, x, s):
        m = len(self.degree_slots)
        everything = (1 << (m - 1)) - 1
        for t in range(m):
            slope = x * c[s] * (one(A) - one(A))
            for left in range(1 << (m - 1)):
                rest = _spread(everything ^ left, t)
                term = x * c[s]
                size = one(A) - one(A)
                for o in range(m - 1):
                    if left >> o & 1:
                        size += one(A)
                        term = term * (-size * x * T[j, o if o < t else o + 1, s])
                slope = slope + (term * A[rest - 1, s] if rest else term)
            G[to, t, s] += slope
