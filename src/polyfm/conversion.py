"""The bridge between the lifted and the direct form of one symmetric tensor (sections 5 and 9.2 of the paper).

Both forms describe W = sum_s lambda_s p_s (x) ... (x) p_s = S(sum_s u^1_s (x) ... (x) u^m_s), and predictions for both
kernels depend on W alone (Lemma 5), so that one conversion serves both.
"""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from polyfm.core.model import Group, Model
from polyfm.core.parameters import Parameters
from polyfm.loops.forms import form_of

SAME_DIRECTION = 12  # decimals to which two unit vectors must agree to be one basis
NEGLIGIBLE = 1e-14  # a weight this small a part of the largest is rounding


def lifted_to_direct(U: Any) -> tuple[np.ndarray, np.ndarray]:
    """Bases and weights of the kernel expansion that a lifted model is equal to.

    Degree 2 goes through the eigendecomposition of (U V^T + V U^T)/2, of rank at most 2r, by way of a 2r x 2r matrix.
    Higher degrees go through the polarization identity, which gives at most 2^(m-1) r bases, ::

        prod_t <u_t, x> = 1/(2^(m-1) m!) sum_(e in {-1, 1}^(m-1)) (prod_t e_t) <u_1 + sum_t e_t u_t, x>^m,

    of which those that point the same way are merged.

    Parameters
    ----------
    U : array-like of shape (degree, rank, n_features)
        The factors of a lifted model, `components_`.

    Returns
    -------
    lambdas : ndarray of shape (n_bases,)
        Largest magnitude first.
    P : ndarray of shape (n_bases, n_features)
        Of unit norm.

    Examples
    --------
    >>> import numpy as np
    >>> from polyfm import lifted_to_direct
    >>> from polyfm.kernels import homogeneous_kernel
    >>> U = np.array([[[1.0, 2.0]], [[3.0, -1.0]], [[0.5, 1.0]]])
    >>> lambdas, P = lifted_to_direct(U)
    >>> x = np.array([[2.0, 1.0]])
    >>> np.allclose(homogeneous_kernel(x, P, 3) @ lambdas, np.prod(U[:, 0] @ x[0]))
    True
    """
    U = np.asarray(U, dtype=np.float64)
    if U.ndim != 3 or U.shape[0] < 2:
        raise ValueError(f"U must have the shape (degree >= 2, rank, n_features), got {U.shape}.")
    lams, P = _by_eigenvectors(*U) if len(U) == 2 else _by_polarization(U)
    lams, P = _merged(lams, P, len(U))
    order = np.argsort(-np.abs(lams), kind="stable")
    return lams[order], P[order]


def direct_to_lifted(lambdas: Any, P: Any, degree: Any) -> np.ndarray:
    """Lifted factors of a kernel expansion: u^t = |lambda|^(1/m) p, with the sign of lambda on u^1.

    Parameters
    ----------
    lambdas : array-like of shape (n_bases,)
        The weights of the bases.
    P : array-like of shape (n_bases, n_features)
        The bases.
    degree : int
        The degree m.

    Returns
    -------
    U : ndarray of shape (degree, n_bases, n_features)

    Examples
    --------
    >>> from polyfm import direct_to_lifted
    >>> direct_to_lifted([-4.0], [[1.0, 2.0]], degree=2)
    array([[[-2., -4.]],
    <BLANKLINE>
           [[ 2.,  4.]]])
    """
    lams, P = np.asarray(lambdas, dtype=np.float64), np.asarray(P, dtype=np.float64)
    U = np.repeat((np.abs(lams) ** (1 / degree))[None, :, None] * P[None], degree, axis=0)
    U[0] *= np.where(lams < 0, -1.0, 1.0)[:, None]
    return U


def _by_eigenvectors(U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W = (U^T V + V^T U)/2 = Q C Q^T, with Q R = [U^T V^T] and C small."""
    rank = len(U)
    Q, R = np.linalg.qr(np.vstack([U, V]).T)
    C = R[:, :rank] @ R[:, rank:].T
    lams, Z = np.linalg.eigh((C + C.T) / 2)
    return lams, (Q @ Z).T


def _by_polarization(U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    m = len(U)
    lams, bases = [], []
    for signs in product([1.0, -1.0], repeat=m - 1):
        bases.append(U[0] + np.tensordot(signs, U[1:], axes=1))
        lams.append(np.full(U.shape[1], math.prod(signs) / (2 ** (m - 1) * math.factorial(m))))
    return np.concatenate(lams), np.concatenate(bases)


def _merged(lams: np.ndarray, P: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit bases, one for each direction, without those whose weights cancel."""
    norms = np.linalg.norm(P, axis=1)
    keep = norms > 0
    lams, P = lams[keep] * norms[keep] ** degree, P[keep] / norms[keep, None]
    # p and -p are one basis: let the largest entry be positive.
    largest = np.argmax(np.abs(P) > np.abs(P).max(axis=1, keepdims=True) * (1 - 1e-9), axis=1) if len(P) else []
    flip = np.where(P[np.arange(len(P)), largest] < 0, -1.0, 1.0)
    lams, P = lams * flip**degree, P * flip[:, None]
    _, first, which = np.unique(P.round(SAME_DIRECTION) + 0.0, axis=0, return_index=True, return_inverse=True)
    lams, P = np.bincount(which.ravel(), weights=lams, minlength=len(first)), P[first]
    keep = np.abs(lams) > NEGLIGIBLE * np.abs(lams).max(initial=0.0)
    return lams[keep], P[keep]


def converted(model: Model, targets: list[Parameters], method: str) -> tuple[Model, list[Parameters]]:
    """The same predictions in the other form. Targets (classes) share a number of bases, filled up with zeros."""
    other = {"direct": "lifted", "lifted": "direct"}[method]
    groups, factors, lambdas = [], [], []
    for g, group in enumerate(model.groups):
        if group.form.method != other:
            raise ValueError(f"A model of method={group.form.method!r} has no {method} form; one of {other!r} has.")
        if method == "direct":
            pairs = [lifted_to_direct(p.factors[g].transpose(1, 0, 2)) for p in targets]
            new = [(lams, P[:, None, :]) for lams, P in pairs]
        else:
            lifted = [direct_to_lifted(p.lambdas[g], p.factors[g][:, 0], group.degree) for p in targets]
            new = [(np.ones(U.shape[1]), U.transpose(1, 0, 2)) for U in lifted]
        n_bases = max(1, *(len(lams) for lams, _ in new))
        form = form_of(group.form.kernel, method, group.degree)
        groups.append(Group(form, n_bases, group.n_dummies))
        lambdas.append([np.pad(lams, (0, n_bases - len(lams))) for lams, _ in new])
        factors.append([np.pad(P, ((0, n_bases - len(P)), (0, 0), (0, 0))) for _, P in new])
    dtype = targets[0].coef.dtype
    parameters = [
        Parameters(tuple(f[i] for f in factors), tuple(lams[i] for lams in lambdas), p.coef, p.intercept).copy(dtype)
        for i, p in enumerate(targets)
    ]
    return replace(model, groups=tuple(groups)), parameters
