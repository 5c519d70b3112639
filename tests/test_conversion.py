import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone

from polyfm import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkClassifier,
    PolynomialNetworkRegressor,
    direct_to_lifted,
    lifted_to_direct,
)
from polyfm.kernels import homogeneous_kernel

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
OPTIONS = {"n_components": 2, "max_iter": 10, "tol": 0, "random_state": 0, "beta": 0.1}


@pytest.mark.parametrize("kind", [FactorizationMachineRegressor, PolynomialNetworkRegressor])
@pytest.mark.parametrize("degree", [2, 3, 4, 5])
@pytest.mark.parametrize("lower", [None, "augment"])
def test_direct_and_lifted_forms_predict_the_same(rng, kind, degree, lower):
    X = rng.standard_normal((50, 6))
    y = X[:, 0] * X[:, 1] + rng.standard_normal(50)
    lifted = kind(degree=degree, method="lifted", fit_lower=lower, **OPTIONS).fit(X, y)
    direct = lifted.to_direct()
    scale = np.abs(lifted.predict(X)).max()
    assert type(direct) is kind
    assert direct.method == "direct"
    assert_allclose(direct.predict(X), lifted.predict(X), rtol=0, atol=1e-10 * scale)
    assert len(direct.lambdas_) <= 2 * (2 if degree == 2 else 2 ** (degree - 1))
    assert not hasattr(direct, "objective_")
    assert lifted.method == "lifted"  # the original is left alone
    again = direct.to_lifted()
    assert_allclose(again.predict(X), lifted.predict(X), rtol=0, atol=1e-10 * scale)
    assert again.components_.shape == (degree, len(direct.lambdas_), lifted.components_.shape[2])


@pytest.mark.parametrize("kind", [FactorizationMachineClassifier, PolynomialNetworkClassifier])
def test_classes_and_lower_degrees_are_converted_too(rng, kind):
    X = rng.standard_normal((60, 5))
    y = np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])
    lifted = kind(degree=3, method="lifted", fit_lower="explicit", **OPTIONS).fit(X, y)
    direct = lifted.to_direct()
    assert_allclose(direct.predict_proba(X), lifted.predict_proba(X), atol=1e-10)
    assert direct.components_.ndim == 3
    assert set(direct.degrees_) == {2, 3}


def test_eigenvectors_need_no_square_matrix():
    rng = np.random.RandomState(0)
    U = rng.standard_normal((2, 3, 200_000))  # a d x d matrix would take 320 GB
    lambdas, P = lifted_to_direct(U)
    assert lambdas.shape == (6,)
    x = rng.standard_normal((1, 200_000))
    assert_allclose(homogeneous_kernel(x, P, 2) @ lambdas, np.sum(np.prod(U @ x[0], axis=0)), rtol=1e-9)
    assert_allclose(np.linalg.norm(P, axis=1), 1)


def test_equal_directions_are_merged():
    u = np.array([1.0, -2.0, 3.0])
    for degree in (2, 3, 4, 5):
        U = np.stack([t * u for t in range(1, degree + 1)])[:, None]
        lambdas, P = lifted_to_direct(np.concatenate([U, -U], axis=1))
        if degree % 2:
            assert len(lambdas) == 0  # the two bases cancel
        else:
            assert len(lambdas) == 1
            x = np.array([[0.3, 0.7, -0.2]])
            assert_allclose(homogeneous_kernel(x, P, degree) @ lambdas, 2 * np.prod(U[:, 0] @ x[0]))


def test_zero_model_converts_to_nothing():
    lambdas, P = lifted_to_direct(np.zeros((3, 2, 4)))
    assert lambdas.shape == (0,)
    assert P.shape == (0, 4)
    with pytest.raises(ValueError, match="U must have the shape"):
        lifted_to_direct(np.zeros((3, 2)))


def test_factors_share_the_size_of_lambda():
    U = direct_to_lifted([-8.0, 0.0], [[1.0, 2.0], [3.0, 4.0]], degree=3)
    assert_allclose(U[:, 0], [[-2, -4], [2, 4], [2, 4]])
    assert_allclose(U[:, 1], 0)


def test_training_goes_on_in_the_other_form_from_the_same_start(small):
    """Section 9.2: both forms start from one matrix, so from one loss."""
    X, y = small
    lifted = FactorizationMachineRegressor(method="lifted", fit_lower=None, **OPTIONS).fit(X, y)
    for start in (lifted.to_direct(), lifted.to_direct().to_lifted()):
        before = np.sum((start.predict(X) - y) ** 2)
        start.set_params(warm_start=True, beta=0.0, alpha=0.0).fit(X, y)
        assert np.sum((start.predict(X) - y) ** 2) < before
        assert start.history_[0] <= before / 2
        assert np.all(np.diff(start.history_) <= 1e-12)


def test_conversion_to_the_same_form_is_a_copy(small):
    X, y = small
    model = FactorizationMachineRegressor(**OPTIONS).fit(sp.csr_matrix(X), y)
    same = model.to_direct()
    assert same is not model
    assert_allclose(same.predict(X), model.predict(X))
    assert_allclose(clone(same).set_params(max_iter=3).fit(X, y).n_iter_, 3)
