"""Loops over the columns of X: coordinate descent.

Letters, as in the paper: S state of the samples (column 0: prediction f_i; the rest: the form's cache), B factors of
one basis (factors x features), lam its weight, mu the loss's curvature, eta a bound on the second derivative.
`rows` is None where column j is contiguous (dense data, dummy features): then entry e is sample e - indptr[j].
"""

from polyfm._jit import at, inline, loop

TINY = 1e-290  # no curvature: a step along such a coordinate changes nothing but could overflow


@inline
def _sweep(form, loss, indptr, rows, data, y, weight, S, B, t, first, lam, penalty):
    """Minimise over B[t, first:first + d] one coordinate after the other (the updates of the paper's section 7)."""
    mu = loss.curvature
    for column in range(indptr.shape[0] - 1):
        j = first + column
        lo = indptr[column]
        hi = indptr[column + 1]
        slope = 0.0
        bend = 0.0
        for e in range(lo, hi):
            i = at(rows, e, e - lo)
            dy = form.partial(S, i, B, t, j, at(data, e, 1.0))
            w = at(weight, i, 1.0)
            slope += w * loss.derivative(at(y, i, 0.0), S[i, 0]) * dy
            bend += w * dy * dy
        old = B[t, j]
        eta = mu * lam * lam * bend + penalty
        if eta <= TINY:
            continue
        B[t, j] = old - (lam * slope + penalty * old) / eta
        delta = B[t, j] - old  # what was really stored, in the precision of B
        B[t, j] = old
        if delta != 0.0:
            for e in range(lo, hi):
                i = at(rows, e, e - lo)
                dy = form.update(S, i, B, t, j, at(data, e, 1.0), delta)
                S[i, 0] += lam * delta * dy
            B[t, j] = old + delta


@inline
def _refresh(form, indptr, indices, data, dummies, S, B):
    """Recompute the form's cache of every sample, row by row: sequential writes, and rounding never accumulates."""
    n_features = B.shape[1] - dummies
    for i in range(S.shape[0]):
        form.reset(S, i)
        for e in range(indptr[i], indptr[i + 1]):
            form.include(S, i, B, indices[e], at(data, e, 1.0))
        for q in range(dummies):
            form.include(S, i, B, n_features + q, 1.0)


@inline
def _refresh_dense(form, columns, dummies, S, B):
    """The same, down contiguous columns."""
    n = S.shape[0]
    n_features = B.shape[1] - dummies
    for i in range(n):
        form.reset(S, i)
    for j in range(n_features):
        for i in range(n):
            form.include(S, i, B, j, columns[j * n + i])
    for q in range(dummies):
        for i in range(n):
            form.include(S, i, B, n_features + q, 1.0)


@loop
def epoch_sparse(form, loss, by_column, by_row, whole, y, weight, S, P, lams, penalties):
    """One pass over all coordinates of P (bases x factors x features), basis by basis."""
    c_indptr, c_rows, c_data = by_column
    r_indptr, r_indices, r_data = by_row
    d = c_indptr.shape[0] - 1
    dummies = P.shape[2] - d
    for s in range(P.shape[0]):
        B = P[s]
        _refresh(form, r_indptr, r_indices, r_data, dummies, S, B)
        for t in range(P.shape[1]):
            _sweep(form, loss, c_indptr, c_rows, c_data, y, weight, S, B, t, 0, lams[s], penalties[s])
            for q in range(dummies):
                _sweep(form, loss, whole, None, None, y, weight, S, B, t, d + q, lams[s], penalties[s])


@loop(streaming=True)
def epoch_dense(form, loss, by_column, by_row, whole, y, weight, S, P, lams, penalties):
    """The same for dense X, whose columns are contiguous and S in Fortran order: every inner loop vectorises."""
    c_indptr, c_rows, c_data = by_column
    d = c_indptr.shape[0] - 1
    dummies = P.shape[2] - d
    for s in range(P.shape[0]):
        B = P[s]
        _refresh_dense(form, c_data, dummies, S, B)
        for t in range(P.shape[1]):
            _sweep(form, loss, c_indptr, c_rows, c_data, y, weight, S, B, t, 0, lams[s], penalties[s])
            for q in range(dummies):
                _sweep(form, loss, whole, None, None, y, weight, S, B, t, d + q, lams[s], penalties[s])
