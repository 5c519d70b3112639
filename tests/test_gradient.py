"""One gradient for everything, against finite differences over the whole product of choices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from problems import FORMS, on_other_data, random_problem


def arrays_of(parameters):
    return [*parameters.factors, *parameters.lambdas, parameters.coef, parameters.intercept]


@pytest.mark.parametrize(
    ("kernel", "method", "degree", "loss"),
    [
        *((*form, degree, "squared") for form in FORMS for degree in (2, 3, 4)),
        *((*form, 2, loss) for form in (FORMS[0], FORMS[3]) for loss in ("squared_hinge", "logistic")),
    ],
)
def test_gradient_is_that_of_the_objective(kernel, method, degree, loss):
    lower = {2: None, 3: "augment", 4: None}[degree]
    problem, parameters = random_problem(kernel, method, degree, loss, lower)
    value, gradient = problem.value_and_gradient(parameters)
    assert_allclose(value, problem.objective(parameters), rtol=1e-12)
    h = 1e-6
    for array, slopes in zip(arrays_of(parameters), arrays_of(gradient), strict=True):
        for index in np.ndindex(array.shape):
            old = array[index]
            array[index] = old + h
            up = problem.objective(parameters)
            array[index] = old - h
            down = problem.objective(parameters)
            array[index] = old
            assert_allclose(slopes[index], (up - down) / (2 * h), rtol=1e-5, atol=1e-6 * abs(value))


@pytest.mark.parametrize(("kernel", "method"), FORMS[:2])
def test_groups_of_several_degrees_share_one_pass(kernel, method):
    problem, parameters = random_problem(kernel, method, 4, lower="explicit")
    value, gradient = problem.value_and_gradient(parameters)
    assert_allclose(value, problem.objective(parameters), rtol=1e-12)
    assert len(gradient.factors) == 3
    step = 1e-6
    for P, G in zip(parameters.factors, gradient.factors, strict=True):
        P[0, 0, 1] += step
        assert_allclose((problem.objective(parameters) - value) / step, G[0, 0, 1], rtol=1e-3, atol=1e-4)
        P[0, 0, 1] -= step


@pytest.mark.parametrize(("kernel", "method"), FORMS)
def test_result_does_not_depend_on_the_number_of_threads(kernel, method):
    problem, parameters = random_problem(kernel, method, 3, n=5000, weighted=False)
    value, gradient = problem.value_and_gradient(parameters, n_threads=1)
    for n_threads in (2, 3):
        other, other_gradient = problem.value_and_gradient(parameters, n_threads=n_threads)
        assert other == value
        for a, b in zip(arrays_of(other_gradient), arrays_of(gradient), strict=True):
            assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("kernel", "method"), [FORMS[0], *(pytest.param(*form, marks=pytest.mark.slow) for form in FORMS[1:])]
)
def test_single_precision_is_close_and_dense_equals_sparse(kernel, method):
    problem, parameters = random_problem(kernel, method, 3)
    single, rounded = random_problem(kernel, method, 3, dtype=np.float32)
    dense = on_other_data(problem, problem.design._X.toarray(), weight=problem.response.weight)
    value, gradient = problem.value_and_gradient(parameters)
    for other, at, tolerance in ((single, rounded, 1e-4), (dense, parameters, 1e-10)):
        other_value, other_gradient = other.value_and_gradient(at)
        assert_allclose(other_value, value, rtol=tolerance)
        for a, b in zip(arrays_of(other_gradient), arrays_of(gradient), strict=True):
            assert_allclose(a, b, rtol=tolerance, atol=tolerance * abs(value))
