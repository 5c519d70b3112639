"""Coordinate descent on text, whose rows are long and whose columns nearly all share rows with each other.

Columns are updated in turns of several at once. Each of them takes its slope and curvature as they are when the turn
begins; where columns of a turn meet in a row, the curvature counts that row once for each of them, since (a + b)^2 <=
2 a^2 + 2 b^2. So the steps, taken together, lower a loss that is convex in them; in a product of two of them it may not
be, and who asks for an epoch has to look (`caution` makes steps shorter).

There are two blocks of rows. A thread has one or both to itself, and their state stays in its cache. It adds up its
part of a turn's slopes, waits for the other's and then makes all steps, in a copy of the basis of its own: both find
the same numbers. Columns all of whose rows are in one block are left to whoever has the block, one after the other.
Letters as in `columns`, and

    turns     (n_turns + 1,)   turn g updates the columns order[turns[g]:turns[g + 1]]
    own       (3,)             block b has the columns order[own[b]:own[b + 1]] to itself
    cuts      (d, 3)           column order[c] has its entries of block b in cuts[c, b] .. cuts[c, b + 1]
    rows, data, crowds (nnz,)  an entry's row, its value, and how many columns of its turn have its row
    blocks    (3,)             bounds of the blocks of rows
    copies    (n_threads, m, d + dummies), steps (n_threads, widest turn)    room for each thread
    sums      (2, 2, widest turn, 2)    slopes and curvatures by block, of this turn and of the one before
"""

from polyfm.loops.columns import _refresh, _step
from polyfm.loops.jit import at, inline, loop

SHORT = 32  # entries


@loop(allocates=False)
def epoch_in_turns(form, response, prior, rule, entries, by_row, blocks, me, barrier, S, P, lams, caution, room):
    """One thread's part of a pass over all coordinates of P, basis by basis."""
    order, turns, own, cuts, crowds, rows, data = entries
    copies, sums, steps = room
    d = order.shape[0]
    mine = 2 * me // barrier.n_threads
    others = 2 * (me + 1) // barrier.n_threads
    B = copies[me]
    mu = response.loss.curvature
    odd = 0  # sums of one turn are read by the slower thread while the faster one writes those of the next
    for s in range(P.shape[0]):
        lam = lams[s]
        for t in range(P.shape[1]):
            for j in range(P.shape[2]):
                B[t, j] = P[s, t, j]
        _refresh(form, by_row, P.shape[2] - d, blocks[mine], blocks[others], S, B)
        for t in range(P.shape[1]):
            for g in range(turns.shape[0] - 1):
                odd = 1 - odd
                for c in range(turns[g], turns[g + 1]):
                    q = c - turns[g]
                    if barrier.n_threads == 1 and cuts[c, 2] - cuts[c, 0] < SHORT:
                        _add_up_halves(form, response, crowds, rows, data, cuts, c, S, B, t, order[c], sums, odd, q)
                        continue
                    for b in range(mine, others):
                        sums[odd, b, q, 0], sums[odd, b, q, 1] = _added_up(
                            form, response, crowds, rows, data, cuts[c, b], cuts[c, b + 1], S, B, t, order[c]
                        )
                if not barrier.wait():
                    return
                for c in range(turns[g], turns[g + 1]):
                    q = c - turns[g]
                    slope = sums[odd, 0, q, 0] + sums[odd, 1, q, 0]
                    curvature = caution * (sums[odd, 0, q, 1] + sums[odd, 1, q, 1])
                    steps[me, q] = _step(rule, prior, B, s, t, order[c], slope, curvature, mu, lam)
                for c in range(turns[g], turns[g + 1]):
                    delta = steps[me, c - turns[g]]
                    _take(form, rows, data, cuts[c, mine], cuts[c, others], S, B, t, order[c], lam, delta)
            for c in range(own[mine], own[others]):
                j = order[c]
                start = cuts[c, 0]
                stop = cuts[c, 2]
                slope, curvature = _added_up(form, response, None, rows, data, start, stop, S, B, t, j)
                delta = _step(rule, prior, B, s, t, j, slope, curvature, mu, lam)
                _take(form, rows, data, start, stop, S, B, t, j, lam, delta)
            for j in range(d, P.shape[2]):  # dummy features, which all rows have
                odd = 1 - odd
                for b in range(mine, others):
                    sums[odd, b, 0, 0], sums[odd, b, 0, 1] = _added_up(
                        form, response, None, None, None, blocks[b], blocks[b + 1], S, B, t, j
                    )
                if not barrier.wait():
                    return
                slope = sums[odd, 0, 0, 0] + sums[odd, 1, 0, 0]
                curvature = sums[odd, 0, 0, 1] + sums[odd, 1, 0, 1]
                delta = _step(rule, prior, B, s, t, j, slope, curvature, mu, lam)
                _take(form, None, None, blocks[mine], blocks[others], S, B, t, j, lam, delta)
        for t in range(P.shape[1]):
            for c in range(own[mine], own[others]):
                P[s, t, order[c]] = B[t, order[c]]
            if me == 0:
                for c in range(own[0]):
                    P[s, t, order[c]] = B[t, order[c]]
                for j in range(d, P.shape[2]):
                    P[s, t, j] = B[t, j]


@inline
def _added_up(form, response, crowds, rows, data, start, stop, S, B, t, j):
    """The slope and the curvature along B[t, j], of some entries."""
    slope = 0.0
    curvature = 0.0
    for e in range(start, stop):
        i = at(rows, e, e)
        dy = form.partial(S, i, B, t, j, at(data, e, 1.0))
        slope += response.slope(i, S[i, 0]) * dy
        curvature += at(crowds, e, 1) * response.weight_of(i) * dy * dy
    return slope, curvature


@inline
def _add_up_halves(form, response, crowds, rows, data, cuts, c, S, B, t, j, sums, odd, q):
    """The same of two blocks, of a column so short that the end of a loop takes longer than the loop."""
    slope = 0.0
    slope_of_second = 0.0
    curvature = 0.0
    curvature_of_second = 0.0
    for e in range(cuts[c, 0], cuts[c, 2]):
        i = rows[e]
        dy = form.partial(S, i, B, t, j, at(data, e, 1.0))
        g = response.slope(i, S[i, 0]) * dy
        h = crowds[e] * response.weight_of(i) * dy * dy
        second = e >= cuts[c, 1]
        slope += 0.0 if second else g
        curvature += 0.0 if second else h
        slope_of_second += g if second else 0.0
        curvature_of_second += h if second else 0.0
    sums[odd, 0, q, 0] = slope
    sums[odd, 0, q, 1] = curvature
    sums[odd, 1, q, 0] = slope_of_second
    sums[odd, 1, q, 1] = curvature_of_second


@inline
def _take(form, rows, data, start, stop, S, B, t, j, lam, delta):
    if delta != 0.0:
        for e in range(start, stop):
            i = at(rows, e, e)
            dy = form.update(S, i, B, t, j, at(data, e, 1.0), delta)
            S[i, 0] += lam * delta * dy
        B[t, j] += delta
