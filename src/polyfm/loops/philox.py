"""Random numbers without a state: Philox4x32-10 of Salmon, Moraes, Dror and Shaw (SC 2011).

A number is a function of a key and a counter. Whoever asks for the number of a coordinate gets the same one, in
whatever order and by however many threads coordinates are visited. There are no branches and no calls, so that a loop
that asks for many becomes vectors.

    key       (k0, k1)          the seed
    counter   (c0, c1, c2, c3)  what the number is for
"""

import math

import numpy as np

from polyfm.loops.elementary import cosine, log
from polyfm.loops.jit import always_inline, loop

WORD = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
WEYL = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)


@always_inline
def philox(k0, k1, c0, c1, c2, c3):
    """Four words of 32 bits, as integers of 64 bits; so are the arguments."""
    first, second = MULTIPLIERS
    step0, step1 = WEYL
    for _ in range(10):
        p0 = first * c0
        p1 = second * c2
        c0 = (p1 >> HALF) ^ c1 ^ k0
        c1 = p1 & WORD
        c2 = (p0 >> HALF) ^ c3 ^ k1
        c3 = p0 & WORD
        k0 = (k0 + step0) & WORD
        k1 = (k1 + step1) & WORD
    return c0, c1, c2, c3


@always_inline
def uniform_of(high, low):
    """A number in (0, 1), neither end included, from two words."""
    return (np.float64((high << np.uint64(20)) | (low >> np.uint64(12))) + 0.5) * 2.0**-52


@always_inline
def uniform(k0, k1, c0, c1, c2, c3):
    w0, w1, _, _ = philox(
        np.uint64(k0), np.uint64(k1), np.uint64(c0), np.uint64(c1), np.uint64(c2), np.uint64(c3)
    )  # fmt: skip
    return uniform_of(w0, w1)


@always_inline
def normal(k0, k1, c0, c1, c2, c3):
    """A standard normal number, by the formula of Box and Muller."""
    w0, w1, w2, w3 = philox(
        np.uint64(k0), np.uint64(k1), np.uint64(c0), np.uint64(c1), np.uint64(c2), np.uint64(c3)
    )  # fmt: skip
    return math.sqrt(-2.0 * log(uniform_of(w0, w1))) * cosine(uniform_of(w2, w3))


@loop
def normals(k0, k1, first, out):
    """out[i] is the number of the counter (first + i, 0, 0, 0)."""
    for i in range(out.shape[0]):
        out[i] = normal(k0, k1, first + i, 0, 0, 0)


@loop
def words(key, counter, out):
    """The four words of one key and counter."""
    w0, w1, w2, w3 = philox(key[0], key[1], counter[0], counter[1], counter[2], counter[3])
    out[0] = w0
    out[1] = w1
    out[2] = w2
    out[3] = w3
