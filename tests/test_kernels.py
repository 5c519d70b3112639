import numpy as np
import pytest
import reference
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from polyfm.kernels import anova_kernel, homogeneous_kernel, polynomial_kernel

numbers = st.floats(-3, 3, allow_subnormal=False)


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5, 6])
def test_anova_kernel_is_the_sum_over_combinations(rng, degree):
    X, P = rng.standard_normal((4, 8)), rng.standard_normal((3, 8))
    X[0, :5] = 0  # fewer non-zeros than the highest degrees ask for
    expected = [[reference.anova(p, x, degree) for p in P] for x in X]
    assert_allclose(anova_kernel(X, P, degree), expected, atol=1e-12)
    assert_allclose(anova_kernel(sp.csr_matrix(X), P, degree), expected, atol=1e-12)
    assert_allclose(anova_kernel(sp.csc_array(X), sp.csr_array(P), degree), expected, atol=1e-12)


def test_anova_kernel_is_zero_beyond_the_number_of_non_zeros():
    assert anova_kernel([[1.0, 2.0, 0.0, 0.0]], [[1.0, 1.0, 1.0, 1.0]], degree=3) == 0


@pytest.mark.parametrize("degree", [1, 2, 5])
def test_polynomial_kernels_are_powers_of_inner_products(rng, degree):
    X, P = rng.standard_normal((4, 6)), rng.standard_normal((3, 6))
    assert_allclose(homogeneous_kernel(X, P, degree), (X @ P.T) ** degree)
    assert_allclose(polynomial_kernel(sp.csr_matrix(X), P, degree, gamma=0.5), (0.5 + X @ P.T) ** degree)


@given(arrays(float, (2, 5), elements=numbers), arrays(float, (2, 5), elements=numbers), st.integers(2, 4), numbers)
@settings(max_examples=30, deadline=None)
def test_kernels_are_homogeneous_functions(X, P, degree, c):
    for kernel in (homogeneous_kernel, anova_kernel):
        assert_allclose(kernel(X, c * P, degree), c**degree * kernel(X, P, degree), rtol=1e-7, atol=1e-6)


def test_single_precision_stays_single(rng):
    X, P = rng.standard_normal((4, 6)).astype(np.float32), rng.standard_normal((3, 6)).astype(np.float32)
    K = anova_kernel(X, P, 3)
    assert K.dtype == np.float32
    assert_allclose(K, anova_kernel(X.astype(float), P.astype(float), 3), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kernel", [homogeneous_kernel, polynomial_kernel, anova_kernel])
def test_bad_input_is_named(kernel):
    with pytest.raises(ValueError, match="degree must be an integer from 1 to 30, got 0"):
        kernel([[1.0]], [[1.0]], degree=0)
    with pytest.raises(ValueError, match="X has 2 features but P has 1"):
        kernel([[1.0, 2.0]], [[1.0]], degree=2)
    with pytest.raises(ValueError, match="NaN"):
        kernel([[np.nan]], [[1.0]], degree=2)
