"""Loops of ordered probit models: a latent z = f + noise of variance 1 lies between two cut points.

    f       (n,)      expected or drawn predictions
    codes   (n,)      the class of each sample, from 0 on
    cuts    (K + 1,)  cut points, from -inf to inf: class c is cuts[c] < z <= cuts[c + 1]
    S0      (n,)      f - z, which the sweeps take for the residual

Two classes with the cut points -inf, 0, inf are the probit model.
"""

import math

import numpy as np

from polyfm.loops.jit import at, inline, loop
from polyfm.loops.philox import philox, uniform_of

ROOT_TWO_PI = math.sqrt(2 * math.pi)
FAR = -25.0  # beyond which the distribution function is read from its asymptotic series
LEAST = 1e-300


@inline
def _scaled(x):
    """Phi(x) exp(x^2 / 2) for x <= 0, which neither vanishes nor overflows."""
    if x > FAR:
        return 0.5 * math.erfc(-x / math.sqrt(2.0)) * math.exp(0.5 * x * x)
    if x == -np.inf:
        return 0.0
    q = 1.0 / (x * x)
    return -(1.0 - q * (1.0 - 3.0 * q * (1.0 - 5.0 * q))) / (x * ROOT_TWO_PI)


@inline
def _ratio(x, hi):
    """exp((hi^2 - x^2) / 2): the density at x in units of that at hi."""
    return 0.0 if math.isinf(x) else math.exp(0.5 * (hi - x) * (hi + x))


@inline
def interval(lo, hi):
    """For a standard normal z: log P(lo < z < hi), and the densities at both ends over that probability."""
    flipped = lo > 0.0
    if flipped:
        lo, hi = -hi, -lo
    if hi > 0.0:
        mass = max(0.5 * (math.erf(hi / math.sqrt(2.0)) - math.erf(lo / math.sqrt(2.0))), LEAST)
        log_mass = math.log(mass)
        at_lo = math.exp(-0.5 * lo * lo) / (ROOT_TWO_PI * mass)
        at_hi = math.exp(-0.5 * hi * hi) / (ROOT_TWO_PI * mass)
    else:
        fall = _ratio(lo, hi)
        mass = max(_scaled(hi) - _scaled(lo) * fall, LEAST)
        log_mass = math.log(mass) - 0.5 * hi * hi
        at_lo = fall / (ROOT_TWO_PI * mass)
        at_hi = 1.0 / (ROOT_TWO_PI * mass)
    if flipped:
        at_lo, at_hi = at_hi, at_lo
    return log_mass, at_lo, at_hi


@loop
def expect(codes, weight, cuts, f, S0):
    """S0 = f - E z; the sums of weight_i log P(class of i) and of weight_i S0_i^2."""
    total = 0.0
    squares = 0.0
    for i in range(f.shape[0]):
        w = at(weight, i, 1.0)
        c = codes[i]
        log_mass, at_lo, at_hi = interval(cuts[c] - f[i], cuts[c + 1] - f[i])
        S0[i] = at_hi - at_lo
        total += w * log_mass
        squares += w * S0[i] * S0[i]
    return total, squares


@inline
def _uniforms(k0, k1, i, iteration, attempt):
    w0, w1, w2, w3 = philox(
        np.uint64(k0), np.uint64(k1), np.uint64(i), np.uint64(attempt), np.uint64(iteration), np.uint64(1 << 20)
    )
    return uniform_of(w0, w1), uniform_of(w2, w3)


@inline
def truncated(lo, hi, k0, k1, i, iteration):
    """A draw of z between lo and hi, by rejection: from the normal, a uniform, or an exponential (Robert, 1995)."""
    flipped = hi < 0.0
    if flipped:
        lo, hi = -hi, -lo
    rate = 0.5 * (lo + math.sqrt(lo * lo + 4.0)) if lo > 0.0 else 0.0
    narrow = hi - lo < (1.5 / rate if lo > 0.0 else 2.5)
    attempt = 0
    while True:
        a, b = _uniforms(k0, k1, i, iteration, attempt)
        attempt += 1
        if narrow:
            z = lo + a * (hi - lo)
            top = lo if lo > 0.0 else 0.0
            good = b <= math.exp(0.5 * (top - z) * (top + z))
        elif lo > 0.0:
            z = lo - math.log(a) / rate
            good = z < hi and b <= math.exp(-0.5 * (z - rate) * (z - rate))
        else:
            z = math.sqrt(-2.0 * math.log(a)) * math.cos(2.0 * math.pi * b)
            good = lo < z < hi
        if good:
            return -z if flipped else z


@loop
def draw(codes, weight, cuts, f, k0, k1, iteration, S0):
    """S0 = f - z with z drawn. A row of weight w stands for w rows: what counts is the mean of their latent numbers,
    which has the same expectation and a variance w times as small."""
    for i in range(f.shape[0]):
        c = codes[i]
        lo = cuts[c] - f[i]
        hi = cuts[c + 1] - f[i]
        z = truncated(lo, hi, k0, k1, i, iteration)
        w = at(weight, i, 1.0)
        if w != 1.0 and w > 0.0:
            _, at_lo, at_hi = interval(lo, hi)
            mean = at_lo - at_hi
            z = mean + (z - mean) / math.sqrt(w)
        S0[i] = -z


@loop
def cut_slopes(codes, weight, cuts, f, slopes, diagonal, beside):
    """The log-likelihood of all cut points, with its slopes (K + 1,), and second derivatives: those of each
    (K + 1,), and of each and the next (K + 1,)."""
    slopes[:] = 0.0
    diagonal[:] = 0.0
    beside[:] = 0.0
    total = 0.0
    for i in range(f.shape[0]):
        w = at(weight, i, 1.0)
        c = codes[i]
        lo = cuts[c] - f[i]
        hi = cuts[c + 1] - f[i]
        log_mass, at_lo, at_hi = interval(lo, hi)
        total += w * log_mass
        slopes[c] -= w * at_lo
        slopes[c + 1] += w * at_hi
        if not math.isinf(lo):
            diagonal[c] += w * (lo * at_lo - at_lo * at_lo)
        if not math.isinf(hi):
            diagonal[c + 1] += w * (-hi * at_hi - at_hi * at_hi)
        beside[c] += w * at_lo * at_hi
    return total
