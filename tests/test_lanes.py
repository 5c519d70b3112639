"""Vectors in loops give what the same formulas give in numpy, and what they cannot do is refused when compiling."""

import numpy as np
import pytest
from numba.core.errors import TypingError
from numpy.testing import assert_allclose

from polyfm.loops.blocks import add_products
from polyfm.loops.jit import LANES, loop
from polyfm.loops.lanes import lanes, sqrt, total
from polyfm.loops.prefetch import AHEAD, prefetch


@loop
def formula(A, T, w, j, x, s):
    c = x * T[j, 0, lanes(s)]
    A[1, lanes(s)] += c * A[0, lanes(s)]
    A[0, lanes(s)] = (w[lanes(s)] - c) - 2
    A[2, lanes(s)] = 7.5 * c / sqrt(c * c + 1.0)
    return total(c * 3)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-14), (np.float32, 1e-6)])
def test_a_formula_in_vectors_is_numpy_s(dtype, rtol):
    rng = np.random.RandomState(0)
    A, T, w = (rng.standard_normal(shape).astype(dtype) for shape in [(3, 24), (5, 1, 24), 24])
    expected, x = A.copy(), dtype(1.5)
    value = formula.py_func(expected, T, w, 2, x, LANES)
    for j in (2, np.uint32(2)):
        found = A.copy()
        assert_allclose(formula(found, T, w, j, x, LANES), value, rtol=10 * rtol)
        assert_allclose(found, expected, rtol=rtol, atol=rtol)
        assert found.dtype == dtype


@loop
def rows_in_advance(W, indices):
    total = 0.0
    for e in range(len(indices)):
        prefetch(W, indices, e)
        total += W[indices[e], 0, 0]
    return total


def test_memory_that_is_asked_for_early_is_neither_changed_nor_left():
    W = np.random.RandomState(0).standard_normal((50, 2, 8))
    indices, before = np.arange(50, dtype=np.uint32)[::-1].copy(), W.copy()
    for n in (0, 1, AHEAD, 50):
        assert_allclose(rows_in_advance(W, indices[:n]), W[indices[:n], 0, 0].sum())
    assert np.array_equal(W, before)


@loop
def last_of(a):
    return total(a[lanes(a.shape[0] - LANES)])


@loop
def add_to(out, a, b):
    out[lanes(0)] += a[lanes(0)] * b[lanes(0)]


def test_precision_is_that_of_the_better_vector_and_of_the_array_assigned_to():
    single, double = np.full(LANES, 1 / 3, dtype=np.float32), np.full(LANES, 1 / 3)
    out = np.zeros(LANES)
    add_to(out, single, double)
    assert_allclose(out, np.float64(single) / 3, rtol=1e-15)
    out = np.zeros(LANES, dtype=np.float32)
    add_to(out, double, double)
    assert_allclose(out, 1 / 9, rtol=1e-7)


def test_numbers_that_are_not_neighbours_are_refused():
    assert last_of(np.arange(12.0)) == sum(range(4, 12))
    with pytest.raises(TypingError):
        last_of(np.arange(24.0)[::2])


@loop
def tile_of_a_product(left, right, m, out, a, b, scale):
    add_products(left, right, m, out, a, b, scale)


@pytest.mark.parametrize("m", [0, 1, 7, 20])
def test_a_tile_of_a_matrix_product(m):
    rng = np.random.RandomState(m)
    left, right, out = rng.standard_normal((20, 12)), rng.standard_normal((20, 24)), rng.standard_normal((16, 32))
    rows, columns, expected = slice(4, 4 + LANES), slice(LANES, 2 * LANES), out.copy()
    expected[rows, columns] -= 0.5 * left[:m, rows].T @ right[:m, columns]
    tile_of_a_product(left, right, m, out, 4, LANES, -0.5)
    assert_allclose(out, expected, rtol=1e-13, atol=1e-13)
