"""Loops over the rows of X: kernel expansions and losses.

Letters as in `_columns`; T holds the factors with the bases last (features x factors x bases), so that each non-zero
reads one contiguous run, LANES bases at a time (`model.bases_last`). `indices` is None where rows are dense.
"""

import numpy as np

from polyfm.loops.jit import LANES, at, inline, loop
from polyfm.loops.lanes import lanes, total


@inline
def absorb(form, A, T, j, x):
    """Add feature j, of value x, to the working space A of all bases."""
    for s in range(0, A.shape[1], LANES):
        form.absorb(A, T, j, x, lanes(s))


@inline
def value(form, A, lams):
    """sum_s lambda_s K(p_s, x), from the working space of x."""
    value = 0.0
    for s in range(0, A.shape[1], LANES):
        value += total(lams[lanes(s)] * form.total(A, lanes(s)))
    return value


@inline
def emit(form, A, T, G, c, j, x):
    """G[j] += c_s times the derivatives by the factors of feature j."""
    for s in range(0, A.shape[1], LANES):
        form.emit(A, T, G, c, j, x, lanes(s))


@loop(streaming=True)
def expand(form, indptr, indices, data, dummies, T, slots, lo, hi, out):
    """out[i, s] = K(p_s, x_i) for lo <= i < hi: the form of every basis at every sample."""
    d = T.shape[0] - dummies
    A = np.empty((slots, T.shape[2]), dtype=T.dtype)
    for i in range(lo, hi):
        A[:] = 0.0
        first = indptr[i]
        for e in range(first, indptr[i + 1]):
            absorb(form, A, T, at(indices, e, e - first), at(data, e, 1.0))
        for q in range(dummies):
            absorb(form, A, T, d + q, 1.0)
        for s in range(out.shape[1]):
            out[i, s] = form.total(A, s)


@loop(streaming=True)
def add_expansion(form, indptr, indices, data, dummies, T, lams, slots, coef, lo, hi, f):
    """f[i] += <coef, x_i> + sum_s lambda_s K(p_s, x_i) for lo <= i < hi; `coef` may be None."""
    d = T.shape[0] - dummies
    A = np.empty((slots, T.shape[2]), dtype=T.dtype)
    for i in range(lo, hi):
        A[:] = 0.0
        linear = 0.0
        first = indptr[i]
        for e in range(first, indptr[i + 1]):
            j = at(indices, e, e - first)
            x = at(data, e, 1.0)
            linear += x * at(coef, j, 0.0)
            absorb(form, A, T, j, x)
        for q in range(dummies):
            absorb(form, A, T, d + q, 1.0)
        f[i] += linear + value(form, A, lams)


@loop
def total_loss(loss, y, weight, f):
    """sum_i w_i l(y_i, f_i), in double precision."""
    sum_so_far = 0.0
    for i in range(f.shape[0]):
        sum_so_far += at(weight, i, 1.0) * loss.value(np.float64(at(y, i, 0.0)), np.float64(f[i]))
    return sum_so_far


@loop
def slope_and_bend(loss, y, weight, f, K):
    """Slope of the total loss along f + theta K at theta = 0, and a bound on its second derivative."""
    slope = 0.0
    bend = 0.0
    for i in range(f.shape[0]):
        w = at(weight, i, 1.0)
        k = np.float64(at(K, i, 1.0))
        slope += w * loss.derivative(np.float64(at(y, i, 0.0)), np.float64(f[i])) * k
        bend += w * k * k
    return slope, loss.curvature * bend


@loop
def slopes_at(loss, y, weight, constant):
    """The sums of w_i, of w_i l'(y_i, constant), and of w_i l'(y_i, constant)^2."""
    total = 0.0
    slope = 0.0
    squares = 0.0
    for i in range(y.shape[0]):
        w = np.float64(at(weight, i, 1.0))
        derivative = loss.derivative(np.float64(y[i]), constant)
        total += w
        slope += w * derivative
        squares += w * derivative * derivative
    return total, slope, squares
