"""Slow, obvious references: straight from the definitions, nothing shared with the package."""

from itertools import combinations, permutations

import numpy as np


def anova(p, x, degree):
    """Equation (3): the sum over increasing j_1 < ... < j_m."""
    return sum(np.prod([p[j] * x[j] for j in js]) for js in combinations(range(len(x)), degree))


def homogeneous(p, x, degree):
    return float(np.dot(p, x)) ** degree


def lifted_anova(U, x):
    """The symmetrised tensor of U (degree, features), against products of distinct features: the sum over all ordered
    choices of distinct features, each set counted m! times, divided by m!."""
    m = len(U)
    total = sum(np.prod([U[t][js[t]] * x[js[t]] for t in range(m)]) for js in permutations(range(len(x)), m))
    return total / np.prod(np.arange(1, m + 1))


def lifted_homogeneous(U, x):
    return float(np.prod([np.dot(u, x) for u in U]))


def augmented(X, n_dummies):
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    return np.hstack([X, np.ones((len(X), n_dummies))])


LOSSES = {
    "squared": lambda y, f: 0.5 * (y - f) ** 2,
    "squared_hinge": lambda y, f: np.maximum(1 - y * f, 0) ** 2,
    "logistic": lambda y, f: np.logaddexp(0, -y * f),
}


def predict_one(estimator, x, components, lambdas, coef, intercept):
    """One prediction of a fitted estimator, from its public attributes."""
    kernel = {"FactorizationMachine": "anova", "PolynomialNetwork": "homogeneous"}[
        type(estimator).__name__.removesuffix("Regressor").removesuffix("Classifier")
    ]
    total = intercept + np.dot(coef, x)
    x = np.concatenate([x, np.ones(components.shape[-1] - len(x))])
    for s, (degree, lam) in enumerate(zip(estimator.degrees_, lambdas, strict=True)):
        if estimator.method == "direct":
            value = {"anova": anova, "homogeneous": homogeneous}[kernel](components[s], x, degree)
        else:
            value = {"anova": lifted_anova, "homogeneous": lifted_homogeneous}[kernel](components[:degree, s], x)
        total += lam * value
    return total


def predict(estimator, X):
    """Predictions of a fitted regressor, from its public attributes."""
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X, dtype=float)
    parts = estimator.components_, estimator.lambdas_, estimator.coef_, estimator.intercept_
    return np.array([predict_one(estimator, x, *parts) for x in X])


def penalty(estimator, components, lambdas, coef):
    if estimator.method == "direct":
        bases = estimator.beta * np.sum(np.abs(lambdas) * np.sum(components**2, axis=-1))
    else:
        bases = estimator.beta / 2 * np.sum(components**2)
    return bases + estimator.alpha / 2 * np.sum(coef**2)


def objective(estimator, X, y, sample_weight=None, loss="squared"):
    """The objective of a fitted regressor, from its definition."""
    weight = np.ones(len(y)) if sample_weight is None else sample_weight
    losses = LOSSES[loss](y, predict(estimator, X))
    return np.sum(weight * losses) + penalty(estimator, estimator.components_, estimator.lambdas_, estimator.coef_)
