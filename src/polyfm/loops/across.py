"""Products across two sides, of any degree: what lies between the two ends of A^d(p, u + v), for d = 2 .. m.

    f(u, v) = sum_(d = 2..m) sum_s sum_(t = 1..d-1) A^t(p_ds, u) A^(d-t)(p_ds, v)

m            the degree; k bases for each d
T (d, (m-1) k)        factors of one side's features: block d - 2 has those of degree d
a (m (m-1) k / 2)     of a row, A^1 .. A^(d-1) for each d, k numbers each, d = 2 first: the row's *parts*
X            (indptr, indices, data): rows of one side
"""

from polyfm.loops.jit import inline, loop


@inline
def clear(a):
    for s in range(a.shape[0]):
        a[s] = 0.0


@inline
def absorb(T, j, x, m, k, a):
    """Add a feature to the parts of a row: a_t += x p a_(t-1), from the highest t down."""
    first = 0
    for d in range(2, m + 1):
        own = (d - 2) * k
        for t in range(d - 1, 1, -1):
            to = first + (t - 1) * k
            for s in range(k):
                a[to + s] += x * T[j, own + s] * a[to - k + s]
        for s in range(k):
            a[first + s] += x * T[j, own + s]
        first += (d - 1) * k


@inline
def parts(X, c, T, m, k, a):
    """The parts of row c."""
    indptr, indices, data = X
    clear(a)
    for e in range(indptr[c], indptr[c + 1]):
        absorb(T, indices[e], data[e], m, k, a)


@inline
def cofactors(T, j, x, m, k, a, b):
    """b_(t-1) x for each part a_t: what multiplies the factor of feature j, which the row has, in it."""
    first = 0
    for d in range(2, m + 1):
        own = (d - 2) * k
        for s in range(k):
            b[first + s] = x
        for t in range(2, d):
            to = first + (t - 1) * k
            for s in range(k):
                b[to + s] = x * (a[to - k + s] - T[j, own + s] * b[to - k + s])
        first += (d - 1) * k


@inline
def pull_back(b, m, k, g, out):
    """out += the derivative by the factors of a feature, given that by the parts."""
    first = 0
    for d in range(2, m + 1):
        own = (d - 2) * k
        for t in range(1, d):
            to = first + (t - 1) * k
            for s in range(k):
                out[own + s] += b[to + s] * g[to + s]
        first += (d - 1) * k


@inline
def push(b, m, k, theta, out):
    """The change of a row's parts when the factors of a feature change by theta."""
    first = 0
    for d in range(2, m + 1):
        own = (d - 2) * k
        for t in range(1, d):
            to = first + (t - 1) * k
            for s in range(k):
                out[to + s] = b[to + s] * theta[own + s]
        first += (d - 1) * k


@loop(streaming=True)
def all_parts(X, T, m, k, A):
    """The parts of all rows."""
    for c in range(A.shape[0]):
        parts(X, c, T, m, k, A[c])
