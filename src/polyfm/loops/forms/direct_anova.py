"""A^m(p, x): factorization machines."""

from typing import NamedTuple

import numpy as np

from polyfm.loops.forms.base import form, one


@form
class DirectAnova(NamedTuple):
    """A^m(p, x), by the recursion of Lemma 2: a_t is A^t(p, x), b_t the same without feature j."""

    degree_slots: tuple[float, ...]

    kernel, method = "anova", "direct"
    repeats = False
    n_cached = property(lambda self: self.degree - 1)
    n_augmenting = property(lambda self: self.degree - 1)
    # The kernel is affine in p_j, with A^(m-1) of the other features as the slope (Lemma 2).
    cofactor_form = property(lambda self: DirectAnova(self.degree_slots[1:]))

    def parts(self, A):
        """A^0 .. A^m, of which A^m(p, u + v) = sum_t A^t(p, u) A^(m - t)(p, v)."""
        return [np.ones_like(A[0]), *A]

    def reset(self, S, i):
        for o in range(1, len(self.degree_slots)):
            S[i, o] = 0.0

    def include(self, S, i, B, j, x):
        c = B[0, j] * x
        for t in range(len(self.degree_slots) - 1, 1, -1):
            S[i, t] += c * S[i, t - 1]
        S[i, 1] += c

    def partial(self, S, i, B, t, j, x):
        c = B[0, j] * x
        b = one(S)
        for o in range(1, len(self.degree_slots)):
            b = S[i, o] - c * b
        return x * b

    def update(self, S, i, B, t, j, x, delta):
        c = B[0, j] * x
        d = delta * x
        b = one(S)
        for o in range(1, len(self.degree_slots)):
            a = S[i, o]
            S[i, o] = a + d * b
            b = a - c * b
        return x * b

    def absorb(self, A, T, j, x, s):
        c = x * T[j, 0, s]
        for t in range(len(self.degree_slots) - 1, 0, -1):
            A[t, s] += c * A[t - 1, s]
        A[0, s] += c

    def total(self, A, s):
        return A[len(self.degree_slots) - 1, s]

    def joint(self, t):
        return 0, 1

    def counts_itself(self):
        return False

    def cofactor(self, A, t, j, s):
        return A[len(self.degree_slots) - 1, s]

    def emit(self, A, T, G, to, c, j, x, s):
        p = x * T[j, 0, s]
        b = A[0, s] - p
        for o in range(1, len(self.degree_slots) - 1):
            b = A[o, s] - p * b
        G[to, 0, s] += c[s] * x * b
