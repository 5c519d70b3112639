"""The loop that reads ``label index:value ...`` lines, and decimal numbers, rounded as Python's `float` rounds them.

A number is m 10^e with m its first 19 digits. Small m and e are exact in one operation. Otherwise m and 10^e are sums
of two floats each, their product is known to about 2^-100, and it is rounded; where the last bits could tip the
rounding (or the exponent is extreme), the number is left to Python: it is *hard*, and rarely met.
"""

from fractions import Fraction

import numpy as np

from polyfm.loops.jit import inline, loop

OK, BAD_LABEL, BAD_ENTRY, BAD_VALUE, TOO_LOW, TOO_HIGH = range(6)
LARGEST_INDEX = 2**31 - 2  # so that the number of features, too, fits 32 bits

ONE = np.uint64(1)  # positions are unsigned: numba then reads without a test for negative ones
SPACE, TAB, NEWLINE, RETURN, HASH, COLON, PLUS, MINUS, POINT = (ord(c) for c in " \t\n\r#:+-.")
ZERO, NINE, EXPONENT, LARGE_EXPONENT = (ord(c) for c in "09eE")
QID = tuple(b"qid:")

EXACT = 22  # 10^22 is the largest power of ten that a float holds exactly
EXTREME = 280  # beyond 10^280 either way, parts of products could overflow or lose digits
MOST_DIGITS = 19  # 64 bits hold every number of 19 digits
SPLIT = 134217729.0  # 2^27 + 1, Veltkamp's constant
DOUBT = 2.0**-95  # a generous bound on the relative error of the product of two sums of two floats


def _powers() -> np.ndarray:
    """10^e as a float, and the float nearest to what that leaves out, for -EXTREME <= e <= EXTREME."""
    powers = [Fraction(10) ** e for e in range(-EXTREME, EXTREME + 1)]
    return np.array([[float(p), float(p - Fraction(float(p)))] for p in powers])


POWERS = _powers()


@inline
def _is_blank(c):
    return c in (SPACE, TAB, RETURN)


@inline
def _ends(c):
    return c in (SPACE, NEWLINE, TAB, RETURN, HASH)


@inline
def _scaled(m, e, cut, powers):
    """m 10^e rounded to nearest, and whether that is certain; `cut` says that digits after m were left out."""
    if m == 0:
        return 0.0, True
    mh = np.float64(m)
    if not cut and m <= np.uint64(2**53):
        if 0 <= e <= EXACT:
            return mh * powers[e + EXTREME, 0], True
        if -EXACT <= e < 0:
            return mh / powers[EXTREME - e, 0], True
    if e < -EXTREME or e > EXTREME - MOST_DIGITS:
        return 0.0, False
    ml = np.float64(np.int64(m - np.uint64(mh)))
    ph, pl = powers[e + EXTREME, 0], powers[e + EXTREME, 1]
    # Dekker's product: mh ph = high + low, exactly.
    high = mh * ph
    t = SPLIT * mh
    a = t - (t - mh)
    b = mh - a
    t = SPLIT * ph
    c = t - (t - ph)
    d = ph - c
    low = ((a * c - high) + a * d + b * c) + b * d
    low += mh * pl + ml * ph
    doubt = high * DOUBT
    value = high + (low - doubt)
    return value, value == high + (low + doubt + (ph if cut else 0.0))


@inline
def _number(buffer, i, powers):
    """The decimal number at i: its value, where it ends, whether it is one, and whether the value is certain."""
    negative = buffer[i] == MINUS
    if negative or buffer[i] == PLUS:
        i += ONE
    m = np.uint64(0)
    digits = 0  # significant ones, in m
    e = 0
    cut = False
    seen = False
    while ZERO <= buffer[i] <= NINE:
        seen = True
        if digits < MOST_DIGITS:
            m = m * np.uint64(10) + np.uint64(buffer[i] - ZERO)
            digits += m > 0
        else:
            cut = True
            e += 1
        i += ONE
    if buffer[i] == POINT:
        i += ONE
        while ZERO <= buffer[i] <= NINE:
            seen = True
            if digits < MOST_DIGITS:
                m = m * np.uint64(10) + np.uint64(buffer[i] - ZERO)
                digits += m > 0
                e -= 1
            else:
                cut = True
            i += ONE
    if seen and (buffer[i] == EXPONENT or buffer[i] == LARGE_EXPONENT):
        i += ONE
        below = buffer[i] == MINUS
        if below or buffer[i] == PLUS:
            i += ONE
        power = 0
        seen = False
        while ZERO <= buffer[i] <= NINE:
            seen = True
            power = min(power * 10 + np.int64(buffer[i] - ZERO), 10**12)
            i += ONE
        e += -power if below else power
    value, certain = _scaled(m, e, cut, powers)
    return -value if negative else value, i, seen and _ends(buffer[i]), certain


@loop
def parse(buffer, powers, lowest, highest, labels, indptr, indices, values, hard):
    """Rows of a buffer that ends with a newline.

    Indices must lie in lowest .. highest. Hard numbers get a line of `hard`: the entry's number (or -1 - row for a
    label) and where its text begins. Gives (problem, line, where that line begins, rows, entries, hard numbers,
    smallest index, largest index, whether the indices of every row increase).
    """
    i = np.uint64(0)
    begin = i
    stop = np.uint64(buffer.shape[0])
    line = 0
    rows = 0
    n = 0
    n_hard = 0
    smallest = np.int64(2**62)
    largest = np.int64(-1)
    ordered = True
    problem = OK
    indptr[0] = 0
    while i < stop:
        if buffer[i] == NEWLINE:
            i += ONE
            line += 1
            begin = i
            continue
        if _is_blank(buffer[i]):
            i += ONE
            continue
        if buffer[i] == HASH:
            while buffer[i] != NEWLINE:
                i += ONE
            continue
        start = i
        value, i, good, certain = _number(buffer, i, powers)
        if not good:
            problem = BAD_LABEL
            break
        labels[rows] = value
        if not certain:
            hard[n_hard, 0] = -1 - rows
            hard[n_hard, 1] = start
            n_hard += 1
        previous = np.int64(-1)
        while True:
            c = buffer[i]
            if _is_blank(c):
                i += ONE
                continue
            if c in (NEWLINE, HASH):
                break
            start = i
            index = np.int64(0)
            while ZERO <= buffer[i] <= NINE:
                index = min(index * 10 + np.int64(buffer[i] - ZERO), np.int64(2**40))
                i += ONE
            if i == start or buffer[i] != COLON:
                k = 0
                while k < 4 and buffer[i] == QID[k]:
                    i += ONE
                    k += 1
                if k == 4 and i - start == 4:  # qid:... groups rows for ranking; it is no feature
                    while not _ends(buffer[i]):
                        i += ONE
                    continue
                problem = BAD_ENTRY
                break
            if index < lowest:
                problem = TOO_LOW
                break
            if index > highest:
                problem = TOO_HIGH
                break
            i += ONE
            start = i
            if ZERO <= buffer[i] <= NINE and _ends(buffer[i + ONE]):  # mostly 1, in one-hot data
                value = np.float64(buffer[i] - ZERO)
                i += ONE
            else:
                value, i, good, certain = _number(buffer, i, powers)
                if not good:
                    problem = BAD_VALUE
                    break
                if not certain:
                    hard[n_hard, 0] = n
                    hard[n_hard, 1] = start
                    n_hard += 1
            indices[n] = index
            values[n] = value
            n += 1
            ordered = ordered and index > previous
            previous = index
            smallest = min(smallest, index)
            largest = max(largest, index)
        if problem != OK:
            break
        while buffer[i] != NEWLINE:
            i += ONE
        rows += 1
        indptr[rows] = n
    return problem, line, begin, rows, n, n_hard, smallest, largest, ordered
