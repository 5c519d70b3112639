import numpy as np
import pytest
import scipy.sparse as sp

collect_ignore = ["typing"]  # for a type checker, not to be run


@pytest.fixture
def rng():
    return np.random.RandomState(0)


@pytest.fixture
def small(rng):
    """A small sparse regression problem with an empty row, an empty column and values of both signs."""
    X = sp.random(30, 7, density=0.5, format="csr", random_state=rng, data_rvs=rng.standard_normal).tolil()
    X[3] = 0
    X[:, 5] = 0
    X = sp.csr_matrix(X)
    return X, rng.standard_normal(30)
