"""Searches for beta: the library's own for its models, and ridge regression for those they are compared with."""

from collections.abc import Callable, Mapping, Sequence
from math import comb, factorial, prod
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import r2_score
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import PolynomialFeatures

import polyfm
from polyfm.datasets import Split

FAMILIES = {"A": "FactorizationMachine", "H": "PolynomialNetwork"}
Features = Callable[[np.ndarray], np.ndarray]


def machine(
    *,
    kernel: str,
    method: str,
    settings: Mapping[str, Any],
    bases: int,
    seed: int,
    classify: bool = False,
    fit_intercept: bool = False,
    **parameters,
):
    """A model with a search for beta, and as many parameters as `bases` direct ones: lifted, m matrices share them."""
    kind = getattr(polyfm, FAMILIES[kernel] + ("Classifier" if classify else "Regressor") + "CV")
    degree = parameters.pop("degree", settings.get("degree"))
    splitter = StratifiedKFold if classify else KFold
    return kind(
        degree=degree,
        n_components=bases // degree if method == "lifted" else bases,
        method=method,
        fit_intercept=fit_intercept,
        betas=settings["betas"],
        cv=splitter(settings["folds"], shuffle=True, random_state=seed),
        alpha=settings["alpha"],
        tol=settings["tol"],
        max_iter=settings["max_iter"],
        random_state=seed,
        **parameters,
    )


class Ridge(NamedTuple):
    beta: float
    cv_r2: float
    test_r2: float


def ridge(
    fit: Callable[[np.ndarray, np.ndarray, np.ndarray, Sequence[float]], list[np.ndarray | None]],
    split: Split,
    betas: Sequence[float],
    folds: int,
    seed: int,
) -> Ridge:
    """Choose beta by cross-validation, then fit on all of the training part.

    `fit(X, y, Z, betas)` gives predictions for Z for each beta; None where beta is too small for double precision.
    """
    X, X_test, y, y_test = split
    table = []
    for train, held_out in KFold(folds, shuffle=True, random_state=seed).split(X):
        predictions = fit(X[train], y[train], X[held_out], betas)
        table.append([-np.inf if f is None else r2_score(y[held_out], f) for f in predictions])
    scores = np.mean(table, axis=0)
    best = int(np.argmax(scores))
    (f,) = fit(X, y, X_test, [betas[best]])
    assert f is not None
    return Ridge(float(betas[best]), float(scores[best]), float(r2_score(y_test, f)))


def on_features(make: Callable[[np.ndarray], Features]):
    """Ridge regression on features that `make` finds from the training rows; all betas share them."""

    def fit(X, y, Z, betas):
        features = make(X)
        F = features(X)
        gram, moments, G = F.T @ F, F.T @ y, features(Z)
        return [None if w is None else G @ w for w in _solved(gram, moments, betas)]

    return fit


def on_kernel(degree: int):
    """Kernel ridge regression with (1 + <x, z>)^degree.

    The kernel has as many features as there are monomials. Where these are fewer than rows, the same predictions come
    from a system of that size: 165 instead of 15,480 for cadata at degree 3.
    """

    def fit(X, y, Z, betas):
        if comb(X.shape[1] + degree, degree) < len(X):
            return on_features(lambda X: monomials(X.shape[1], degree))(X, y, Z, betas)
        K, L = kernel(X, X, degree), kernel(Z, X, degree)
        return [None if a is None else L @ a for a in _solved(K, y, betas)]

    return fit


def nystroem(degree: int, bases: int, seed: int):
    def make(X):
        sampled = Nystroem(
            kernel="polynomial", degree=degree, gamma=1, coef0=1, n_components=min(bases, len(X)), random_state=seed
        )
        return sampled.fit(X).transform

    return on_features(make)


def random_selection(degree: int, bases: int, seed: int):
    """The kernel's values at rows drawn at random are the features."""

    def make(X):
        # Not the seed of Nystroem, which would draw the same rows.
        chosen = X[np.random.RandomState([seed, bases]).permutation(len(X))[:bases]]
        return lambda Z: kernel(Z, chosen, degree)

    return on_features(make)


def kernel(X, Z, degree: int) -> np.ndarray:
    return polynomial_kernel(X, Z, degree=degree, gamma=1, coef0=1)


def monomials(n_features: int, degree: int) -> Features:
    """phi with <phi(x), phi(z)> = (1 + <x, z>)^degree: monomials times roots of multinomial coefficients."""
    expansion = PolynomialFeatures(degree).fit(np.zeros((1, n_features)))
    counts = [
        factorial(degree) / (prod(factorial(int(e)) for e in powers) * factorial(degree - int(powers.sum())))
        for powers in expansion.powers_
    ]
    weights = np.sqrt(counts)

    def features(X: np.ndarray) -> np.ndarray:
        F = expansion.transform(X)
        F *= weights
        return F

    return features


def _solved(A: np.ndarray, b: np.ndarray, betas: Sequence[float]) -> list[np.ndarray | None]:
    """(A + beta I)^-1 b for each beta. Ten Cholesky factors cost less than one eigendecomposition."""
    solutions: list[np.ndarray | None] = []
    for beta in betas:
        shifted = A.copy()
        shifted[np.diag_indices_from(shifted)] += beta
        try:
            solutions.append(cho_solve(cho_factor(shifted, lower=True, overwrite_a=True), b))
        except LinAlgError:
            solutions.append(None)
    return solutions
