"""Loops of coordinate descent, over the columns of X.

Letters, as in the paper; n samples, d features, k bases, m factors of a basis:

    S         (n, 1 + cache)   state of the samples: column 0 the prediction f_i less the response's shift, then the
                               form's cache, which lives as long as one basis is at hand
    P, B      (k, m, d + dummies), (m, d + dummies)   factors of all bases, and of one
    lams      (k,)             weights of the bases, times the form's scale
    mu        the loss's curvature: a bound on its second derivative
    eta       a bound on the second derivative of the objective along a coordinate
    by_column (indptr (d + 1), rows (nnz), data (nnz))   X by columns; `rows` is None where they are contiguous (dense
                               data, dummy features): then entry e is sample e - indptr[j]; `data` is None: all ones
    by_row    (indptr (n + 1), indices (nnz), data (nnz))   the same by rows
    order     (d,)             the columns in the order of their updates, or None where that is their own
    whole     (2,)             the indptr of a dummy feature: one contiguous column of ones; None where there is none
"""

import numpy as np

from polyfm.loops.jit import at, inline, loop

TINY = 1e-290  # no curvature: a step along such a coordinate changes nothing but could overflow


@inline
def _step(rule, prior, B, s, t, j, slope, curvature, mu, lam):
    """How far the rule moves B[t, j], as stored in the precision of B."""
    old = B[t, j]
    strength = prior.strength_of(s, j)
    eta = mu * lam * lam * curvature + strength
    if eta <= TINY:
        return old - old
    B[t, j] = old + rule.step(lam * slope + strength * (old - prior.mean_of(s, j)), eta, s, t, j)
    delta = B[t, j] - old
    B[t, j] = old
    return delta


@inline
def _sweep(form, response, prior, rule, indptr, rows, data, order, start, stop, S, B, s, t, first, lam):
    """Move B[t, first + column], one column after the other (the updates of the paper's section 7)."""
    for c in range(start, stop):
        column = at(order, c, c)
        j = first + column
        lo = indptr[column]
        hi = indptr[column + 1]
        slope = 0.0
        curvature = 0.0
        for e in range(lo, hi):
            i = at(rows, e, e - lo)
            dy = form.partial(S, i, B, t, j, at(data, e, 1.0))
            slope += response.slope(i, S[i, 0]) * dy
            curvature += response.weight_of(i) * dy * dy
        delta = _step(rule, prior, B, s, t, j, slope, curvature, response.loss.curvature, lam)
        if delta != 0.0:
            for e in range(lo, hi):
                i = at(rows, e, e - lo)
                dy = form.update(S, i, B, t, j, at(data, e, 1.0), delta)
                S[i, 0] += lam * delta * dy
            B[t, j] += delta


@inline
def _refresh(form, by_row, dummies, start, stop, S, B):
    """Recompute the form's cache of samples, row by row: sequential writes, and rounding never accumulates."""
    indptr, indices, data = by_row
    n_features = B.shape[1] - dummies
    for i in range(start, stop):
        form.reset(S, i)
        for e in range(indptr[i], indptr[i + 1]):
            form.include(S, i, B, np.uint64(indices[e]), at(data, e, 1.0))
        for q in range(dummies):
            form.include(S, i, B, np.uint64(n_features + q), 1.0)


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
def epoch_sparse(form, response, prior, rule, by_column, by_row, order, plan, whole, me, barrier, S, P, lams):
    """One thread's part of a pass over all coordinates of P, basis by basis. Threads draw pieces of the rows and
    shares of the columns until there are none left; then they wait for each other.

    The cache is computed anew for one piece of the rows after the other; where the features of the first group occur
    in one piece each, they are updated while it is still near the processor.
    """
    indptr, rows, data = by_column
    d = indptr.shape[0] - 1
    pieces, columns, shares = plan
    # Tickets handed out in earlier turns. In a turn every thread draws until it gets one past the end, so that a turn
    # uses up n_shares + n_threads of them; with any other number, threads would wait for each other for ever.
    drawn = 0
    for s in range(P.shape[0]):
        p = barrier.draw() - drawn
        while p < len(pieces) - 1:
            _refresh(form, by_row, P.shape[2] - d, pieces[p], pieces[p + 1], S, P[s])
            _sweep(
                form, response, prior, rule, indptr, rows, data, order, columns[p], columns[p + 1], S, P[s], s, 0, 0,
                lams[s],
            )  # fmt: skip
            p = barrier.draw() - drawn
        drawn += len(pieces) - 1 + barrier.n_threads
        for t in range(P.shape[1]):
            done = 1 if t == 0 and columns[-1] > 0 else 0
            for g in range(done, shares.shape[0]):
                if not barrier.wait():
                    return
                c = barrier.draw() - drawn
                while c < shares.shape[1] - 1:
                    _sweep(
                        form, response, prior, rule, indptr, rows, data, order, shares[g, c], shares[g, c + 1], S, P[s],
                        s, t, 0, lams[s],
                    )  # fmt: skip
                    c = barrier.draw() - drawn
                drawn += shares.shape[1] - 1 + barrier.n_threads
            if not barrier.wait():
                return
            if whole is not None and me == 0:
                _sweep_dummies(form, response, prior, rule, whole, d, S, P[s], s, t, lams[s])
        if whole is not None and not barrier.wait():
            return


@inline
def _sweep_dummies(form, response, prior, rule, whole, d, S, B, s, t, lam):
    for j in range(d, B.shape[1]):
        _sweep(form, response, prior, rule, whole, None, None, None, 0, 1, S, B, s, t, j, lam)


@loop(streaming=True)
def epoch_dense(form, response, prior, rule, by_column, whole, S, P, lams):
    """The same for dense X, whose columns are contiguous and S in Fortran order: every inner loop vectorises."""
    indptr, rows, data = by_column
    d = indptr.shape[0] - 1
    for s in range(P.shape[0]):
        _refresh_dense(form, data, P.shape[2] - d, S, P[s])
        for t in range(P.shape[1]):
            _sweep(form, response, prior, rule, indptr, rows, data, None, 0, d, S, P[s], s, t, 0, lams[s])
            if whole is not None:
                _sweep_dummies(form, response, prior, rule, whole, d, S, P[s], s, t, lams[s])


@loop
def epoch_along(
    form, response, prior, rule, fields, values, by_row, order, bounds, blocks, whole, me, barrier, S, P, lams, steps,
    sums,
):  # fmt: skip
    """The same where X consists of one-hot fields: not down the columns but along the samples.

    fields, values (n_fields, n)   the feature that sample i has of a field (d: none), and its value
    bounds (n_fields + 1,)         the columns of field g are order[bounds[g]:bounds[g + 1]]
    blocks (n_blocks + 1,)         bounds of blocks of samples, each with sums of its own
    steps (d + 1,), sums (n_blocks, d + 1, 2)   room for the steps, and for slopes and curvatures

    No two features of a field have a sample in common, so that their updates are those of `epoch_sparse`; but samples
    come in the order of memory, and what is looked up out of order is as small as the field. The blocks of samples
    have sums of their own: the results do not depend on which thread takes which.
    """
    d = steps.shape[0] - 1
    n_fields = fields.shape[0]
    for s in range(P.shape[0]):
        lam = lams[s]
        for t in range(P.shape[1]):
            for g in range(n_fields + 1):
                for b in range(me, blocks.shape[0] - 1, barrier.n_threads):
                    if g == 0 and t == 0:
                        _refresh(form, by_row, P.shape[2] - d, blocks[b], blocks[b + 1], S, P[s])
                    _stream(
                        form, response, fields, values, g, blocks[b], blocks[b + 1], S, P[s], t, lam, steps, sums[b]
                    )
                if not barrier.wait():
                    return
                if g > 0:
                    start, stop = _share(bounds, g - 1, me, barrier.n_threads)
                    _take(order, start, stop, P[s], t, steps)
                if g < n_fields:
                    start, stop = _share(bounds, g, me, barrier.n_threads)
                    _find_steps(response, prior, rule, order, start, stop, P[s], s, t, lam, steps, sums)
                if not barrier.wait():
                    return
            if whole is not None and me == 0:
                _sweep_dummies(form, response, prior, rule, whole, d, S, P[s], s, t, lam)
            if whole is not None and not barrier.wait():
                return


@inline
def _share(bounds, g, me, n_threads):
    """One thread's part of the columns of group g."""
    size = bounds[g + 1] - bounds[g]
    return bounds[g] + size * me // n_threads, bounds[g] + size * (me + 1) // n_threads


@inline
def _stream(form, response, fields, values, g, start, stop, S, B, t, lam, steps, sums):
    """Walk along samples: take the steps of the field before g, sum up slopes and curvatures of field g."""
    d = steps.shape[0] - 1  # the number that stands for "none of this field"
    for i in range(start, stop):
        if g > 0:
            j = fields[g - 1, i]
            delta = steps[j]
            if delta != 0.0:
                x = 1.0 if values is None else values[g - 1, i]
                dy = form.update(S, i, B, t, j, x, delta)
                S[i, 0] += lam * delta * dy
        if g < fields.shape[0]:
            j = fields[g, i]
            if j != d:
                x = 1.0 if values is None else values[g, i]
                dy = form.partial(S, i, B, t, j, x)
                sums[j, 0] += response.slope(i, S[i, 0]) * dy
                sums[j, 1] += response.weight_of(i) * dy * dy


@inline
def _find_steps(response, prior, rule, order, start, stop, B, s, t, lam, steps, sums):
    """The steps of the columns order[start:stop] from the sums of all blocks, which are left empty."""
    for c in range(start, stop):
        j = at(order, c, c)
        slope = 0.0
        curvature = 0.0
        for b in range(sums.shape[0]):
            slope += sums[b, j, 0]
            curvature += sums[b, j, 1]
            sums[b, j, 0] = 0.0
            sums[b, j, 1] = 0.0
        steps[j] = _step(rule, prior, B, s, t, j, slope, curvature, response.loss.curvature, lam)


@inline
def _take(order, start, stop, B, t, steps):
    """B[t] + steps, at the columns order[start:stop]."""
    for c in range(start, stop):
        j = at(order, c, c)
        B[t, j] += steps[j]
