"""prod_t <u^t, x>: polynomial networks, lifted."""

from typing import NamedTuple

import numpy as np

from polyfm.loops.forms.base import form


@form
class LiftedHomogeneous(NamedTuple):
    """prod_t <u^t, x> (Lemma 6): S[i, 1 + t] holds <u^t, x_i>."""

    degree_slots: tuple[float, ...]

    kernel, method = "homogeneous", "lifted"
    lifted = True
    repeats = True
    n_augmenting = 1
    n_turns = property(lambda self: self.degree)

    def parts(self, A):
        """prod_(t in M) <u^t, x> for each subset M: prod_t (a_t + b_t) multiplied out."""
        found = [np.ones_like(A[0])]
        for a in A:
            found += [part * a for part in found]
        return found

    def reset(self, S, i):
        for t in range(len(self.degree_slots)):
            S[i, 1 + t] = 0.0

    def include(self, S, i, B, j, x):
        for t in range(len(self.degree_slots)):
            S[i, 1 + t] += B[t, j] * x

    def partial(self, S, i, B, t, j, x):
        m = len(self.degree_slots)
        xi = x
        for o in range(t + 1, t + m):
            xi *= S[i, 1 + (o if o < m else o - m)]
        return xi

    def update(self, S, i, B, t, j, x, delta):
        m = len(self.degree_slots)
        xi = x
        for o in range(t + 1, t + m):
            xi *= S[i, 1 + (o if o < m else o - m)]
        S[i, 1 + t] += delta * x
        return xi

    def absorb(self, A, T, j, x, s):
        for t in range(len(self.degree_slots)):
            A[t, s] += x * T[j, t, s]

    def total(self, A, s):
        product = A[0, s]
        for t in range(1, len(self.degree_slots)):
            product = product * A[t, s]
        return product

    def joint(self, t):
        return t, t + 1

    def counts_itself(self):
        return True

    def cofactor(self, A, t, j, s):
        m = len(self.degree_slots)
        product = A[t + 1 if t + 1 < m else 0, s]
        for o in range(t + 2, t + m):
            product = product * A[o if o < m else o - m, s]
        return product

    def emit(self, A, T, G, to, c, j, x, s):
        m = len(self.degree_slots)
        for t in range(m):
            xi = x * c[s]
            for o in range(t + 1, t + m):
                xi = xi * A[o if o < m else o - m, s]
            G[to, t, s] += xi
