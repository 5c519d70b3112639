"""Logarithm and cosine without branches and calls: compilers make vectors of loops over them, as they do not with those
of the C library. Errors are a few units in the last place."""

import math

import numpy as np
from numba import types
from numba.extending import intrinsic

from polyfm.loops.jit import always_inline, overload

ATANH = tuple(2.0 / (2 * i + 1) for i in reversed(range(11)))  # log((1 + s) / (1 - s)) = s * these, in powers of s^2
COSINE = tuple((-1.0) ** i / math.factorial(2 * i) for i in reversed(range(15)))  # in powers of x^2, for |x| <= pi
ROOT_HALF = np.int64(0x3FE6A09E667F3BCD)  # the bits of sqrt(1/2)
DIGITS = np.int64(52)  # of a number's fraction; before them come the bits of its exponent


def bits_of(x):
    """The bits of a number, as an integer."""
    return np.float64(x).view(np.int64)


def number_of(bits):
    """The number of these bits."""
    return np.int64(bits).view(np.float64)


def _as(kind):
    @intrinsic
    def cast(typing, value):
        def generate(context, builder, signature, arguments):
            return builder.bitcast(arguments[0], context.get_value_type(kind))

        return kind(value), generate

    return cast


_as_integer, _as_number = _as(types.int64), _as(types.float64)


@overload(bits_of)
def _bits_of(x):
    return lambda x: _as_integer(x)


@overload(number_of)
def _number_of(bits):
    return lambda bits: _as_number(bits)


@always_inline
def log(x):
    """Of a positive number in double precision that is not subnormal: x = m 2^e with m about 1."""
    bits = bits_of(x)
    e = (bits - ROOT_HALF) >> DIGITS
    m = number_of(bits - (e << DIGITS))
    s = (m - 1.0) / (m + 1.0)
    series = 0.0
    for c in ATANH:
        series = series * (s * s) + c
    return np.float64(e) * math.log(2.0) + s * series


@always_inline
def cosine(v):
    """cos(2 pi v), for 0 <= v <= 1."""
    x = 2.0 * math.pi * (v - 0.5)
    series = 0.0
    for c in COSINE:
        series = series * (x * x) + c
    return -series
