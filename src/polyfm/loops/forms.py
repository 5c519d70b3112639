"""Forms: a kernel in one of its parametrisations, as compiled loops need it.

A form is a multilinear (or, for the direct homogeneous kernel, polynomial) function of the factors B of one basis:

==================  ===========  =====================================================  ==================
form                factors B    value                                                  cached for a sample
==================  ===========  =====================================================  ==================
`DirectAnova`       p            A^m(p, x)                                              A^1 .. A^(m-1)
`DirectHomogeneous` p            H^m(p, x) = <p, x>^m                                   (no coordinate form)
`LiftedHomogeneous` u^1 .. u^m   prod_t <u^t, x>                                        <u^1, x> .. <u^m, x>
`LiftedAnova`       u^1 .. u^m   sum over distinct features of prod_t u^t_j x_j         f[S], S a subset
`Linear`            w            <w, x>                                                 nothing
==================  ===========  =====================================================  ==================

Each form speaks twice. Coordinate descent walks down the columns of X with one basis at hand:

- ``include(S, i, B, j, x)`` adds feature j, of value x, to the cache of sample i,
- ``partial(S, i, B, t, j, x)`` is the derivative of the value by B[t, j],
- ``update(S, i, B, t, j, x, delta)`` keeps the cache true to B[t, j] += delta and returns the same derivative.

Row ``S[i]`` holds what sample i needs in one cache line: the prediction in column 0, the cache after it.
Prediction and gradients walk along rows with all bases at hand. A formula is that of one basis s; the loops over rows
ask for it with `_lanes.lanes(s)` in its place, and so for several bases at once:

- ``absorb(A, T, j, x, s)`` adds feature j to the working space A (slots x bases), with the factors T[j, t, s],
- ``total(A, s)`` is then the value of basis s,
- ``emit(A, T, G, c, j, x, s)`` adds c_s times the derivative by T[j, t, s] to G[j, t, s].

Block descent solves for several factors of a feature at once:

- ``joint(t)`` is the range of factors t that the value is jointly affine in,
- ``lead(A, t, s)`` is what multiplies B[t, j] x in the value, where A holds all features or, unless
  ``counts_itself()``, all but j. For `DirectAnova` it is A^(m-1): ask the form of the degree below.

The degree is the length of a tuple, so that numba knows it when it compiles and unrolls the loops over it.
"""

from typing import NamedTuple

from polyfm.loops.jit import compiled, inline


@inline
def _one(array):
    """1 in the precision of `array`: a plain 1.0 would turn single precision into double."""
    return array.dtype.type(1.0)


@compiled
class Linear(NamedTuple):
    """<w, x>."""

    orders: tuple[float, ...] = (0.0,)

    def reset(self, S, i):
        pass

    def include(self, S, i, B, j, x):
        pass

    def partial(self, S, i, B, t, j, x):
        return x

    def update(self, S, i, B, t, j, x, delta):
        return x


@compiled
class DirectAnova(NamedTuple):
    """A^m(p, x), by the recursion of Lemma 2: a_t is A^t(p, x), b_t the same without feature j."""

    orders: tuple[float, ...]

    def reset(self, S, i):
        for o in range(1, len(self.orders)):
            S[i, o] = 0.0

    def include(self, S, i, B, j, x):
        c = B[0, j] * x
        for t in range(len(self.orders) - 1, 1, -1):
            S[i, t] += c * S[i, t - 1]
        S[i, 1] += c

    def partial(self, S, i, B, t, j, x):
        c = B[0, j] * x
        b = _one(S)
        for o in range(1, len(self.orders)):
            b = S[i, o] - c * b
        return x * b

    def update(self, S, i, B, t, j, x, delta):
        c = B[0, j] * x
        d = delta * x
        b = _one(S)
        for o in range(1, len(self.orders)):
            a = S[i, o]
            S[i, o] = a + d * b
            b = a - c * b
        return x * b

    def absorb(self, A, T, j, x, s):
        c = x * T[j, 0, s]
        for t in range(len(self.orders) - 1, 0, -1):
            A[t, s] += c * A[t - 1, s]
        A[0, s] += c

    def total(self, A, s):
        return A[len(self.orders) - 1, s]

    def joint(self, t):
        return 0, 1

    def counts_itself(self):
        return False

    def lead(self, A, t, s):
        return A[len(self.orders) - 1, s]

    def emit(self, A, T, G, c, j, x, s):
        p = x * T[j, 0, s]
        b = A[0, s] - p
        for o in range(1, len(self.orders) - 1):
            b = A[o, s] - p * b
        G[j, 0, s] += c[s] * x * b


@compiled
class DirectHomogeneous(NamedTuple):
    """H^m(p, x) = <p, x>^m; not multilinear in p, so it has no coordinate form."""

    orders: tuple[float, ...]

    def absorb(self, A, T, j, x, s):
        A[0, s] += x * T[j, 0, s]

    def total(self, A, s):
        power = A[0, s]
        for _ in range(len(self.orders) - 1):
            power = power * A[0, s]
        return power

    def emit(self, A, T, G, c, j, x, s):
        power = x * c[s]
        for _ in range(len(self.orders) - 1):
            power = power * A[0, s]
        G[j, 0, s] += len(self.orders) * power


@compiled
class LiftedHomogeneous(NamedTuple):
    """prod_t <u^t, x> (Lemma 6): S[i, 1 + t] holds <u^t, x_i>."""

    orders: tuple[float, ...]

    def reset(self, S, i):
        for t in range(len(self.orders)):
            S[i, 1 + t] = 0.0

    def include(self, S, i, B, j, x):
        for t in range(len(self.orders)):
            S[i, 1 + t] += B[t, j] * x

    def partial(self, S, i, B, t, j, x):
        m = len(self.orders)
        xi = x
        for o in range(t + 1, t + m):
            xi *= S[i, 1 + (o if o < m else o - m)]
        return xi

    def update(self, S, i, B, t, j, x, delta):
        m = len(self.orders)
        xi = x
        for o in range(t + 1, t + m):
            xi *= S[i, 1 + (o if o < m else o - m)]
        S[i, 1 + t] += delta * x
        return xi

    def absorb(self, A, T, j, x, s):
        for t in range(len(self.orders)):
            A[t, s] += x * T[j, t, s]

    def total(self, A, s):
        product = A[0, s]
        for t in range(1, len(self.orders)):
            product = product * A[t, s]
        return product

    def joint(self, t):
        return t, t + 1

    def counts_itself(self):
        return True

    def lead(self, A, t, s):
        m = len(self.orders)
        product = A[t + 1 if t + 1 < m else 0, s]
        for o in range(t + 2, t + m):
            product = product * A[o if o < m else o - m, s]
        return product

    def emit(self, A, T, G, c, j, x, s):
        m = len(self.orders)
        for t in range(m):
            xi = x * c[s]
            for o in range(t + 1, t + m):
                xi = xi * A[o if o < m else o - m, s]
            G[j, t, s] += xi


@inline
def _spread(mask, t):
    """The subset `mask` of the other m - 1 factors, written as a subset of all m: factor t is left out."""
    low = mask & ((1 << t) - 1)
    return low | ((mask ^ low) << 1)


@compiled
class LiftedAnova(NamedTuple):
    """The sum over distinct features j_1 .. j_m of prod_t u^t_(j_t) x_(j_t): the permanent of an m x nnz matrix.

    S[i, M] holds the same sum over the factors in the subset M (a bit mask) alone; the full set is not needed.
    With c_t = u^t_j x, adding feature j does f[M] += sum_(t in M) c_t f[M - t], and without it the value is
    g[M] = sum_(T in M) (-1)^|T| |T|! prod_(t in T) c_t f[M - T]. The degree m = 2 gives the formula of appendix D.3.
    """

    orders: tuple[float, ...]

    def reset(self, S, i):
        for mask in range(1, (1 << len(self.orders)) - 1):
            S[i, mask] = 0.0

    def include(self, S, i, B, j, x):
        for mask in range((1 << len(self.orders)) - 2, 0, -1):
            total = _one(S) - _one(S)
            for t in range(len(self.orders)):
                if mask >> t & 1:
                    rest = mask ^ (1 << t)
                    total += B[t, j] * (S[i, rest] if rest else _one(S))
            S[i, mask] += x * total

    def partial(self, S, i, B, t, j, x):
        m = len(self.orders)
        everything = (1 << (m - 1)) - 1
        one = _one(S)
        total = one - one
        for left in range(1 << (m - 1)):  # the factors that feature j is taken out of
            term = one
            size = one - one
            for o in range(m - 1):
                if left >> o & 1:
                    size += one
                    term *= -size * x * B[o if o < t else o + 1, j]
            rest = everything ^ left
            total += term * S[i, _spread(rest, t)] if rest else term
        return x * total

    def update(self, S, i, B, t, j, x, delta):
        m = len(self.orders)
        half = 1 << (m - 1)
        # Take feature j out of the sums without factor t, in place and from small to large ...
        for mask in range(1, half):
            total = _one(S) - _one(S)
            for o in range(m - 1):
                if mask >> o & 1:
                    rest = mask ^ (1 << o)
                    total += B[o if o < t else o + 1, j] * (S[i, _spread(rest, t)] if rest else _one(S))
            S[i, _spread(mask, t)] -= x * total
        dy = x * S[i, _spread(half - 1, t)]
        # ... let the sums with factor t grow by what multiplies it ...
        for mask in range(half - 1):
            S[i, _spread(mask, t) | (1 << t)] += delta * x * (S[i, _spread(mask, t)] if mask else _one(S))
        # ... and put feature j back.
        for mask in range(half - 1, 0, -1):
            total = _one(S) - _one(S)
            for o in range(m - 1):
                if mask >> o & 1:
                    rest = mask ^ (1 << o)
                    total += B[o if o < t else o + 1, j] * (S[i, _spread(rest, t)] if rest else _one(S))
            S[i, _spread(mask, t)] += x * total
        return dy

    def absorb(self, A, T, j, x, s):
        for mask in range((1 << len(self.orders)) - 1, 0, -1):
            for t in range(len(self.orders)):
                if mask >> t & 1:
                    rest = mask ^ (1 << t)
                    if rest:
                        A[mask - 1, s] += x * T[j, t, s] * A[rest - 1, s]
                    else:
                        A[mask - 1, s] += x * T[j, t, s]

    def total(self, A, s):
        return A[(1 << len(self.orders)) - 2, s]

    def joint(self, t):
        return 0, len(self.orders)

    def counts_itself(self):
        return False

    def lead(self, A, t, s):
        return A[(1 << len(self.orders)) - 2 - (1 << t), s]

    def emit(self, A, T, G, c, j, x, s):
        m = len(self.orders)
        everything = (1 << (m - 1)) - 1
        for t in range(m):
            slope = x * c[s] * (_one(A) - _one(A))
            for left in range(1 << (m - 1)):
                rest = _spread(everything ^ left, t)
                term = x * c[s]
                size = _one(A) - _one(A)
                for o in range(m - 1):
                    if left >> o & 1:
                        size += _one(A)
                        term = term * (-size * x * T[j, o if o < t else o + 1, s])
                slope = slope + (term * A[rest - 1, s] if rest else term)
            G[j, t, s] += slope
