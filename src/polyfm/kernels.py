"""The kernels K(p, x) between samples and bases (section 3 of the paper)."""

from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array
from sklearn.utils.extmath import safe_sparse_dot

from polyfm.core.design import Design
from polyfm.core.layout import expand
from polyfm.core.model import MOST_DEGREE, Group
from polyfm.core.sparse import checked_sparse
from polyfm.loops.forms import form_of

__all__ = ["anova_kernel", "homogeneous_kernel", "polynomial_kernel"]


def _checked(X, P, degree):
    if not isinstance(degree, Integral) or isinstance(degree, bool) or not 1 <= degree <= MOST_DEGREE:
        raise ValueError(f"degree must be an integer from 1 to {MOST_DEGREE}, got {degree!r}.")
    X = check_array(checked_sparse(X), accept_sparse="csr", dtype=[np.float64, np.float32])
    P = check_array(checked_sparse(P, "P"), accept_sparse="csr", dtype=[np.float64, np.float32])
    if X.shape[1] != P.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} features but P has {P.shape[1]}: pass X as (n_samples, n_features) and P as "
            "(n_bases, n_features)."
        )
    return X, P


def homogeneous_kernel(X: Any, P: Any, degree: int = 2) -> np.ndarray:
    """H^m(p, x) = <p, x>^m, between all samples and all bases.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The samples.
    P : {array-like, sparse matrix} of shape (n_bases, n_features)
        The bases.
    degree : int, default=2
        The degree m.

    Returns
    -------
    K : ndarray of shape (n_samples, n_bases)

    Examples
    --------
    >>> from polyfm.kernels import homogeneous_kernel
    >>> homogeneous_kernel([[1.0, 2.0]], [[1.0, 1.0]], degree=3)
    array([[27.]])
    """
    return polynomial_kernel(X, P, degree=degree, gamma=0.0)


def polynomial_kernel(X: Any, P: Any, degree: int = 2, gamma: Any = 1.0) -> np.ndarray:
    """P^m_gamma(p, x) = (gamma + <p, x>)^m, between all samples and all bases.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The samples.
    P : {array-like, sparse matrix} of shape (n_bases, n_features)
        The bases.
    degree : int, default=2
        The degree m.
    gamma : float, default=1.0
        The paper's gamma: the constant inside the power (scikit-learn calls it `coef0`).

    Returns
    -------
    K : ndarray of shape (n_samples, n_bases)

    Examples
    --------
    >>> from polyfm.kernels import polynomial_kernel
    >>> polynomial_kernel([[1.0, 2.0]], [[1.0, 1.0]], degree=2, gamma=1.0)
    array([[16.]])
    """
    X, P = _checked(X, P, degree)
    return (gamma + safe_sparse_dot(X, P.T, dense_output=True)) ** degree


def anova_kernel(X: Any, P: Any, degree: int = 2) -> np.ndarray:
    """A^m(p, x) = sum over j_1 < ... < j_m of prod_t p_(j_t) x_(j_t), between all samples and all bases.

    Only products of *distinct* features count. Costs O(degree * nnz(X) * n_bases).

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The samples.
    P : {array-like, sparse matrix} of shape (n_bases, n_features)
        The bases.
    degree : int, default=2
        The degree m. Where it exceeds the number of non-zeros of a sample, the kernel is 0.

    Returns
    -------
    K : ndarray of shape (n_samples, n_bases)

    Examples
    --------
    >>> from polyfm.kernels import anova_kernel
    >>> anova_kernel([[1.0, 2.0, 3.0]], [[1.0, 1.0, 1.0]], degree=2)
    array([[11.]])
    """
    X, P = _checked(X, P, degree)
    if sp.issparse(P):
        P = P.toarray()
    dtype = np.result_type(X.dtype, P.dtype)
    group = Group(form_of("anova", "direct", int(degree)), P.shape[0])
    return expand(group, np.asarray(P, dtype=dtype)[:, None, :], Design(X.astype(dtype, copy=False)))
