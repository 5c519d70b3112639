"""Loops of coordinate descent, over the columns of X.

Letters, as in the paper: S state of the samples (column 0: prediction f_i; the rest: the form's cache), B factors of
one basis (factors x features), lam its weight, mu the loss's curvature, eta a bound on the second derivative.
`rows` is None where column j is contiguous (dense data, dummy features): then entry e is sample e - indptr[j].
`order` lists the columns in the order of their updates, or is None where that is their own.
"""

from polyfm.loops.jit import at, inline, loop

TINY = 1e-290  # no curvature: a step along such a coordinate changes nothing but could overflow


@inline
def _step(B, t, j, slope, bend, mu, lam, penalty):
    """How far B[t, j] goes to the lowest point of its parabola, as stored in the precision of B."""
    old = B[t, j]
    eta = mu * lam * lam * bend + penalty
    if eta <= TINY:
        return old - old
    B[t, j] = old - (lam * slope + penalty * old) / eta
    delta = B[t, j] - old
    B[t, j] = old
    return delta


@inline
def _sweep(form, loss, indptr, rows, data, order, start, stop, y, weight, S, B, t, first, lam, penalty):
    """Minimise over B[t, first + column], one column after the other (the updates of the paper's section 7)."""
    mu = loss.curvature
    for c in range(start, stop):
        column = at(order, c, c)
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
        delta = _step(B, t, j, slope, bend, mu, lam, penalty)
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
def epoch_sparse(form, loss, by_column, by_row, order, plan, whole, me, meeting, y, weight, S, P, lams, penalties):
    """One thread's part of a pass over all coordinates of P (bases x factors x features), basis by basis. Threads draw
    pieces of the rows and shares of the columns until there are none left; then they wait for each other.

    The cache is computed anew for one piece of the rows after the other; where the features of the first group occur
    in one piece each, they are updated while it is still near the processor.
    """
    indptr, rows, data = by_column
    d = indptr.shape[0] - 1
    pieces, columns, shares = plan
    drawn = 0  # by all threads before the current turn: in each they draw all its numbers, and one more each
    for s in range(P.shape[0]):
        p = meeting.draw() - drawn
        while p < len(pieces) - 1:
            _refresh(form, by_row, P.shape[2] - d, pieces[p], pieces[p + 1], S, P[s])
            _sweep(
                form, loss, indptr, rows, data, order, columns[p], columns[p + 1], y, weight, S, P[s], 0, 0, lams[s],
                penalties[s],
            )  # fmt: skip
            p = meeting.draw() - drawn
        drawn += len(pieces) - 1 + meeting.n_threads
        for t in range(P.shape[1]):
            done = 1 if t == 0 and columns[-1] > 0 else 0
            for g in range(done, shares.shape[0]):
                if not meeting.attend():
                    return
                c = meeting.draw() - drawn
                while c < shares.shape[1] - 1:
                    _sweep(
                        form, loss, indptr, rows, data, order, shares[g, c], shares[g, c + 1], y, weight, S, P[s], t, 0,
                        lams[s], penalties[s],
                    )  # fmt: skip
                    c = meeting.draw() - drawn
                drawn += shares.shape[1] - 1 + meeting.n_threads
            if not meeting.attend():
                return
            if me == 0:
                _sweep_dummies(form, loss, whole, d, y, weight, S, P[s], t, lams[s], penalties[s])
        if P.shape[2] > d and not meeting.attend():
            return


@inline
def _sweep_dummies(form, loss, whole, d, y, weight, S, B, t, lam, penalty):
    for j in range(d, B.shape[1]):
        _sweep(form, loss, whole, None, None, None, 0, 1, y, weight, S, B, t, j, lam, penalty)


@loop(streaming=True)
def epoch_dense(form, loss, by_column, whole, y, weight, S, P, lams, penalties):
    """The same for dense X, whose columns are contiguous and S in Fortran order: every inner loop vectorises."""
    indptr, rows, data = by_column
    d = indptr.shape[0] - 1
    for s in range(P.shape[0]):
        _refresh_dense(form, data, P.shape[2] - d, S, P[s])
        for t in range(P.shape[1]):
            _sweep(form, loss, indptr, rows, data, None, 0, d, y, weight, S, P[s], t, 0, lams[s], penalties[s])
            _sweep_dummies(form, loss, whole, d, y, weight, S, P[s], t, lams[s], penalties[s])


@loop
def epoch_along(
    form, loss, fields, values, by_row, order, bounds, blocks, whole, me, meeting, y, weight, S, P, lams, penalties,
    steps, sums
):  # fmt: skip
    """The same where X consists of one-hot fields: not down the columns but along the samples.

    No two features of a field have a sample in common, so that their updates are those of `epoch_sparse`; but samples
    come in the order of memory, and what is looked up out of order is as small as the field. The blocks of samples
    have sums of their own: the results do not depend on which thread takes which.
    """
    d = steps.shape[0] - 1
    n_fields = fields.shape[0]
    for s in range(P.shape[0]):
        lam, penalty = lams[s], penalties[s]
        for t in range(P.shape[1]):
            for g in range(n_fields + 1):
                for b in range(me, blocks.shape[0] - 1, meeting.n_threads):
                    if g == 0 and t == 0:
                        _refresh(form, by_row, P.shape[2] - d, blocks[b], blocks[b + 1], S, P[s])
                    _stream(
                        form, loss, fields, values, g, blocks[b], blocks[b + 1], y, weight, S, P[s], t, lam, steps,
                        sums[b],
                    )  # fmt: skip
                if not meeting.attend():
                    return
                if g > 0:
                    start, stop = _share(bounds, g - 1, me, meeting.n_threads)
                    _take(order, start, stop, P[s], t, steps)
                if g < n_fields:
                    start, stop = _share(bounds, g, me, meeting.n_threads)
                    _find_steps(loss, order, start, stop, P[s], t, lam, penalty, steps, sums)
                if not meeting.attend():
                    return
            if me == 0:
                _sweep_dummies(form, loss, whole, d, y, weight, S, P[s], t, lam, penalty)
            if P.shape[2] > d and not meeting.attend():
                return


@inline
def _share(bounds, g, me, n_threads):
    """One thread's part of the columns of group g."""
    size = bounds[g + 1] - bounds[g]
    return bounds[g] + size * me // n_threads, bounds[g] + size * (me + 1) // n_threads


@inline
def _stream(form, loss, fields, values, g, start, stop, y, weight, S, B, t, lam, steps, sums):
    """Walk along samples: take the steps of the field before g, sum up slopes and bends of field g."""
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
                w = at(weight, i, 1.0)
                sums[j, 0] += w * loss.derivative(at(y, i, 0.0), S[i, 0]) * dy
                sums[j, 1] += w * dy * dy


@inline
def _find_steps(loss, order, start, stop, B, t, lam, penalty, steps, sums):
    """The steps of the columns order[start:stop] from the sums of all blocks, which are left empty."""
    for c in range(start, stop):
        j = at(order, c, c)
        slope = 0.0
        bend = 0.0
        for b in range(sums.shape[0]):
            slope += sums[b, j, 0]
            bend += sums[b, j, 1]
            sums[b, j, 0] = 0.0
            sums[b, j, 1] = 0.0
        steps[j] = _step(B, t, j, slope, bend, loss.curvature, lam, penalty)


@inline
def _take(order, start, stop, B, t, steps):
    """B[t] + steps, at the columns order[start:stop]."""
    for c in range(start, stop):
        j = at(order, c, c)
        B[t, j] += steps[j]
