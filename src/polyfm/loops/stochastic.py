"""The loop of stochastic descent: AdaGrad steps that touch only the features of a batch's rows.

A coordinate theta with gradient g moves by eta g / sqrt(sum of all its squared gradients so far). Penalties are shared
out over the rows in which a feature occurs, so that one epoch counts each of them exactly once.
"""

import math
from typing import NamedTuple

import numpy as np
from numba.extending import overload

from polyfm.loops.gradient import emit_tile, predict_tile
from polyfm.loops.jit import at, loop


class Steps(NamedTuple):
    """What AdaGrad keeps for a block of bases."""

    H: np.ndarray  # (features + dummies, factors, bases): sums of squared gradients, never quite 0
    penalties: np.ndarray  # (bases,)
    eta: float


def step_blocks(blocks, steps, touched, n_touched, occurrences, counts, share):
    """Move the factors of the touched features, and of the dummy ones, along their gradients, which are cleared."""
    for block, step in zip(blocks, steps, strict=True):
        _step(block, step, touched, n_touched, occurrences, counts, share)


def _step(block, step, touched, n_touched, occurrences, counts, share):
    T, G, H, penalties = block.T, block.G, step.H, step.penalties
    eta = T.dtype.type(step.eta)
    d = T.shape[0] - block.dummies
    for q in range(n_touched + block.dummies):
        if q < n_touched:
            j = touched[q]
            part = T.dtype.type(occurrences[j] / counts[j])
        else:
            j = d + q - n_touched
            part = T.dtype.type(share)
        for t in range(T.shape[1]):
            for s in range(H.shape[2]):
                g = G[j, t, s] + part * penalties[s] * T[j, t, s]
                h = H[j, t, s] + g * g
                H[j, t, s] = h
                T[j, t, s] -= eta * g / math.sqrt(h)
                G[j, t, s] = 0.0


overload(_step)(lambda block, step, touched, n_touched, occurrences, counts, share: _step)


@overload(step_blocks)
def _step_blocks(blocks, steps, touched, n_touched, occurrences, counts, share):
    if len(blocks) == 0:
        return lambda blocks, steps, touched, n_touched, occurrences, counts, share: None

    def step(blocks, steps, touched, n_touched, occurrences, counts, share):
        _step(blocks[0], steps[0], touched, n_touched, occurrences, counts, share)
        step_blocks(blocks[1:], steps[1:], touched, n_touched, occurrences, counts, share)

    return step


@loop(streaming=True)
def epoch(
    blocks, steps, loss, indptr, indices, data, y, weight, offset, order, batch, counts, n_total,
    coef, gw, hw, alpha, eta_w, intercept, hb, eta_b, touched, occurrences,
):  # fmt: skip
    """One pass over the rows in the given order, `batch` rows a step."""
    n = order.shape[0]
    f = np.empty(batch)
    for start in range(0, n, batch):
        stop = min(start + batch, n)
        n_touched = 0
        gb = 0.0
        predict_tile(blocks, indptr, indices, data, order, start, stop, offset, coef, intercept[0], f)
        for r in range(start, stop):
            i = order[r]
            slope = at(weight, i, 1.0) * loss.derivative(np.float64(at(y, i, 0.0)), f[r - start])
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
        emit_tile(blocks, indptr, indices, data, order, start, stop, f)
        for q in range(n_touched):
            j = touched[q]
            if eta_w > 0.0:
                g = gw[j] + occurrences[j] / counts[j] * alpha * coef[j]
                hw[j] += g * g
                coef[j] -= eta_w * g / math.sqrt(hw[j])
            gw[j] = 0.0
        step_blocks(blocks, steps, touched, n_touched, occurrences, counts, (stop - start) / n_total)
        for q in range(n_touched):
            occurrences[touched[q]] = 0
        if eta_b > 0.0:
            hb[0] += gb * gb
            intercept[0] -= eta_b * gb / math.sqrt(hb[0])
