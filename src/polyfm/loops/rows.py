"""Loops over the rows of X: kernel expansions and losses.

Letters as in `columns`; what is particular to rows:

    T      (d + dummies, factors, k)   factors with the bases last, so that each non-zero reads one contiguous run,
                                       LANES bases at a time (`core.layout`); k is filled up to whole vectors
    A      (slots, k)                  the form's working space for one row
    by_row (indptr (n + 1), indices (nnz), data (nnz))   `indices` is None where rows are dense
"""

from typing import Any, NamedTuple

import numpy as np

from polyfm.loops.jit import LANES, at, inline, loop
from polyfm.loops.lanes import lanes, total
from polyfm.loops.prefetch import aligned, prefetch


class Bases(NamedTuple):
    """Bases of one form, laid out for loops over rows."""

    form: Any
    dummies: int
    slots: int
    T: np.ndarray  # (features + dummies, factors, bases)
    lams: np.ndarray  # (bases,): lambda, times the form's scale

    def space(self, n_rows: int) -> np.ndarray:
        """For A, made in Python: what a loop makes itself takes long to compile."""
        shape = self.slots, self.T.shape[2]
        return np.empty(shape, self.T.dtype) if n_rows < LANES else aligned(shape, self.T.dtype)


@inline
def absorb(form, A, T, j, x):
    """Add feature j, of value x, to the working space A of all bases."""
    for s in range(0, T.shape[2], LANES):
        form.absorb(A, T, j, x, lanes(s))


@inline
def value(form, A, lams):
    """sum_s lambda_s K(p_s, x), from the working space of x."""
    value = 0.0
    for s in range(0, A.shape[1], LANES):
        value += total(lams[lanes(s)] * form.total(A, lanes(s)))
    return value


@inline
def emit(form, A, T, G, to, c, j, x):
    """G[to] += c_s times the derivatives by the factors of feature j."""
    for s in range(0, A.shape[1], LANES):
        form.emit(A, T, G, to, c, j, x, lanes(s))


@loop(streaming=True, allocates=False)
def expand(bases, by_row, lo, hi, A, out):
    """out[i, s] = K(p_s, x_i) for lo <= i < hi: the form of every basis at every sample."""
    form, dummies, _slots, T, _ = bases
    indptr, indices, data = by_row
    d = T.shape[0] - dummies
    for i in range(lo, hi):
        A[:] = 0.0
        first = indptr[i]
        for e in range(first, indptr[i + 1]):
            absorb(form, A, T, np.uint64(at(indices, e, e - first)), at(data, e, 1.0))
        for q in range(dummies):
            absorb(form, A, T, np.uint64(d + q), 1.0)
        for s in range(out.shape[1]):
            out[i, s] = form.total(A, s)


@loop(streaming=True)
def working_space(bases, by_row, lo, hi, out):
    """out[i - lo] = the form's working space of sample i, for lo <= i < hi: out is (rows, slots, k)."""
    form, dummies, _slots, T, _ = bases
    indptr, indices, data = by_row
    d = T.shape[0] - dummies
    for i in range(lo, hi):
        A = out[i - lo]
        A[:] = 0.0
        first = indptr[i]
        for e in range(first, indptr[i + 1]):
            absorb(form, A, T, np.uint64(at(indices, e, e - first)), at(data, e, 1.0))
        for q in range(dummies):
            absorb(form, A, T, np.uint64(d + q), 1.0)


@loop(streaming=True, allocates=False)
def add_expansion(bases, by_row, coef, lo, hi, A, f):
    """f[i] += <coef, x_i> + sum_s lambda_s K(p_s, x_i) for lo <= i < hi; without linear weights `coef` is empty (None
    would be one more type to compile for)."""
    form, dummies, _slots, T, lams = bases
    indptr, indices, data = by_row
    d = T.shape[0] - dummies
    fit_linear = coef.shape[0] > 0
    for i in range(lo, hi):
        A[:] = 0.0
        linear = 0.0
        first = indptr[i]
        for e in range(first, indptr[i + 1]):
            j = np.uint64(at(indices, e, e - first))
            x = at(data, e, 1.0)
            prefetch(T, indices, e)
            if fit_linear:
                linear += x * coef[j]
            absorb(form, A, T, j, x)
        for q in range(dummies):
            absorb(form, A, T, np.uint64(d + q), 1.0)
        f[i] += linear + value(form, A, lams)


@loop(allocates=False)
def total_loss(response, f):
    """sum_i w_i l(y_i, f_i), in double precision."""
    sum_so_far = 0.0
    for i in range(f.shape[0]):
        sum_so_far += response.value(i, np.float64(f[i]))
    return sum_so_far


@loop
def losses(response, f):
    """w_i l(y_i, f_i), in double precision."""
    out = np.empty(f.shape[0])
    for i in range(f.shape[0]):
        out[i] = response.value(i, np.float64(f[i]))
    return out


@loop(allocates=False)
def _sums(response, f, K):
    """Along f + theta K at theta = 0: the slope of the total loss, and the sums of w_i K_i^2 and of w_i l'(y_i, f_i)^2.
    One loop for all who need some of them: two would take twice as long to compile."""
    slope = 0.0
    weights = 0.0
    squares = 0.0
    for i in range(f.shape[0]):
        k = np.float64(at(K, i, 1.0))
        w = np.float64(response.weight_of(i))
        derivative = response.derivative(i, np.float64(f[i]))
        slope += w * derivative * k
        weights += w * k * k
        squares += w * derivative * derivative
    return slope, weights, squares


def slope_and_curvature(response, f, K):
    """Slope of the total loss along f + theta K at theta = 0, and a bound on its second derivative."""
    slope, weights, _ = _sums(response, f, K)
    return slope, response.loss.curvature * weights


def slopes_at(response, n, constant):
    """The sums of w_i, of w_i l'(y_i, constant), and of w_i l'(y_i, constant)^2, over n samples."""
    f = np.full(n, np.float64(constant)) if response.shift is None else np.float64(constant) - response.shift
    slope, weights, squares = _sums(response, f, None)
    return weights, slope, squares
