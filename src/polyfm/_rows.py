"""Loops over the rows of X: kernel expansions and losses.

Letters as in `_columns`; T holds the factors with the bases last (features x factors x bases), so that each non-zero
reads one contiguous run and the loops over the bases s vectorise. `indices` is None where rows are dense.
"""

import numpy as np

from polyfm._jit import at, loop


@loop(streaming=True)
def expand(form, indptr, indices, data, dummies, T, A, lo, hi, out):
    """out[i, s] = K(p_s, x_i) for lo <= i < hi: the form of every basis at every sample."""
    d = T.shape[0] - dummies
    for i in range(lo, hi):
        A[:] = 0.0
        first = indptr[i]
        for e in range(first, indptr[i + 1]):
            form.absorb(A, T, at(indices, e, e - first), at(data, e, 1.0))
        for q in range(dummies):
            form.absorb(A, T, d + q, 1.0)
        for s in range(A.shape[1]):
            out[i, s] = form.total(A, s)


@loop(streaming=True)
def add_expansion(form, indptr, indices, data, dummies, T, lams, slots, coef, lo, hi, f):
    """f[i] += <coef, x_i> + sum_s lambda_s K(p_s, x_i) for lo <= i < hi; `coef` may be None."""
    d = T.shape[0] - dummies
    A = np.empty((slots, T.shape[2]), dtype=T.dtype)
    for i in range(lo, hi):
        A[:] = 0.0
        total = 0.0
        first = indptr[i]
        for e in range(first, indptr[i + 1]):
            j = at(indices, e, e - first)
            x = at(data, e, 1.0)
            total += x * at(coef, j, 0.0)
            form.absorb(A, T, j, x)
        for q in range(dummies):
            form.absorb(A, T, d + q, 1.0)
        for s in range(T.shape[2]):
            total += lams[s] * form.total(A, s)
        f[i] += total


@loop
def total_loss(loss, y, weight, f):
    """sum_i w_i l(y_i, f_i), in double precision."""
    total = 0.0
    for i in range(f.shape[0]):
        total += at(weight, i, 1.0) * loss.value(np.float64(at(y, i, 0.0)), np.float64(f[i]))
    return total


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
def slopes(loss, y, f):
    """l'(y_i, f_i)."""
    out = np.empty(f.shape[0])
    for i in range(f.shape[0]):
        out[i] = loss.derivative(np.float64(at(y, i, 0.0)), f[i])
    return out
