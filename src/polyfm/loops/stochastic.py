"""The loop of stochastic descent: AdaGrad steps that touch only the features of a batch's rows.

A coordinate theta with gradient g moves by eta g / sqrt(sum of all its squared gradients so far). Penalties are shared
out over the rows in which a feature occurs, so that one epoch counts each of them exactly once. Letters as in
`gradient` and `rows`.
"""

import math
from typing import NamedTuple

import numpy as np
from numba.extending import overload

from polyfm.loops.gradient import emit_tile, predict_tile
from polyfm.loops.jit import at, loop
from polyfm.loops.prior import Prior


class Steps(NamedTuple):
    """What AdaGrad keeps for a group of bases."""

    H: np.ndarray  # (features + dummies, factors, bases): sums of squared gradients, never quite 0
    prior: Prior
    eta: float


def step_tiles(tiles, steps, touched, n_touched, occurrences, counts, share):
    """Move the factors of the touched features, and of the dummy ones, along their gradients, which are cleared."""
    for tile, step in zip(tiles, steps, strict=True):
        _step(tile, step, touched, n_touched, occurrences, counts, share)


def _step(tile, step, touched, n_touched, occurrences, counts, share):
    T, G, H, prior = tile.bases.T, tile.G, step.H, step.prior
    eta = T.dtype.type(step.eta)
    d = T.shape[0] - tile.bases.dummies
    zero = T.dtype.type(0.0)
    for q in range(n_touched + tile.bases.dummies):
        if q < n_touched:
            j = touched[q]
            part = T.dtype.type(occurrences[j] / counts[j])
        else:
            j = d + q - n_touched
            part = T.dtype.type(share)
        group = at(prior.of, j, 0)
        for t in range(T.shape[1]):
            for s in range(H.shape[2]):
                gap = T[j, t, s] - at(prior.mean, (group, s), zero)
                g = G[j, t, s] + part * prior.strength[group, s] * gap
                h = H[j, t, s] + g * g
                H[j, t, s] = h
                T[j, t, s] -= eta * g / math.sqrt(h)
                G[j, t, s] = 0.0


overload(_step)(lambda tile, step, touched, n_touched, occurrences, counts, share: _step)


@overload(step_tiles)
def _step_tiles(tiles, steps, touched, n_touched, occurrences, counts, share):
    if len(tiles) == 0:
        return lambda tiles, steps, touched, n_touched, occurrences, counts, share: None

    def step(tiles, steps, touched, n_touched, occurrences, counts, share):
        _step(tiles[0], steps[0], touched, n_touched, occurrences, counts, share)
        step_tiles(tiles[1:], steps[1:], touched, n_touched, occurrences, counts, share)

    return step


@loop(streaming=True)
def epoch(
    tiles, steps, response, by_row, order, batch, counts, n_total, coef, gw, hw, linear_prior, eta_w, intercept, hb,
    eta_b, touched, occurrences,
):  # fmt: skip
    """One pass over the rows in the given order, `batch` rows a step.

    counts (d,), n_total   rows in which a feature occurs, and rows in all: what penalties are shared out over
    coef, gw, hw (d,)      linear weights, their gradients and sums of squares; eta_w = 0: they are not fitted
    intercept, hb (1,)     the same for the intercept
    touched, occurrences (d,)   room for the features of a batch
    """
    indptr, indices, data = by_row
    n = order.shape[0]
    f = np.empty(batch)
    for start in range(0, n, batch):
        stop = min(start + batch, n)
        n_touched = 0
        gb = 0.0
        predict_tile(tiles, by_row, response, order, start, stop, coef, intercept[0], f)
        for r in range(start, stop):
            i = order[r]
            slope = response.slope(i, f[r - start])
            f[r - start] = slope
            gb += slope
            first = indptr[i]
            for e in range(first, indptr[i + 1]):
                j = at(indices, e, e - first)
                gw[j] += slope * at(data, e, 1.0)
                if occurrences[j] == 0:
                    touched[n_touched] = j
                    n_touched += 1
                occurrences[j] += 1
        emit_tile(tiles, by_row, order, start, stop, f)
        for q in range(n_touched):
            j = touched[q]
            if eta_w > 0.0:
                gap = coef[j] - linear_prior.mean_of(0, j)
                g = gw[j] + occurrences[j] / counts[j] * linear_prior.strength_of(0, j) * gap
                hw[j] += g * g
                coef[j] -= eta_w * g / math.sqrt(hw[j])
            gw[j] = 0.0
        step_tiles(tiles, steps, touched, n_touched, occurrences, counts, (stop - start) / n_total)
        for q in range(n_touched):
            occurrences[touched[q]] = 0
        if eta_b > 0.0:
            hb[0] += gb * gb
            intercept[0] -= eta_b * gb / math.sqrt(hb[0])
