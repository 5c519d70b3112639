"""Small problems that the tests of forms, loops and solvers share."""

import numpy as np
import scipy.sparse as sp

from polyfm.core.design import Design
from polyfm.core.model import build_model
from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.losses import as_loss
from polyfm.training.initial import initial_parameters

FORMS = [("anova", "direct"), ("anova", "lifted"), ("homogeneous", "direct"), ("homogeneous", "lifted")]
MULTILINEAR = [form for form in FORMS if form != ("homogeneous", "direct")]


def make_problem(
    X, y, kernel, method, degree, lower=None, *, k=3, loss="squared", weight=None, alpha=0.5, beta=0.3, linear=True,
    intercept=True, order="sorted", init_scale=0.5, seed=0, init_lambdas="ones",
):  # fmt: skip
    """A problem on the data, and where training would start."""
    model = build_model(kernel, method, degree, k, lower, linear, intercept)
    problem = Problem.with_target(Design(X, order), model, as_loss(loss), y, weight, alpha, beta)
    return problem, initial_parameters(problem, np.random.RandomState(seed), init_scale, init_lambdas)


def random_problem(
    kernel, method, degree, loss="squared", lower=None, *, n=12, d=5, k=2, dtype=np.float64, dense=False, linear=True,
    intercept=True, weighted=True,
):  # fmt: skip
    """A problem on random sparse data, and random parameters that are nowhere special."""
    rng = np.random.RandomState(0)
    X = sp.random(n, d, density=0.7, format="csr", random_state=rng, data_rvs=rng.standard_normal).astype(dtype)
    y = np.sign(rng.standard_normal(n))
    weight = rng.uniform(0.5, 2, n) if weighted else None
    problem, _ = make_problem(
        X.toarray() if dense else X, y, kernel, method, degree, lower, k=k, loss=loss, weight=weight, alpha=0.3,
        beta=0.7, linear=linear, intercept=intercept, order="given",
    )  # fmt: skip
    parameters = Parameters(
        tuple(0.5 * rng.standard_normal(group.shape(d)) for group in problem.model.groups),
        tuple(rng.uniform(0.5, 1, k) * np.resize([1, -1], k) for _ in problem.model.groups),
        rng.standard_normal(d) * linear,
        rng.standard_normal(1) * intercept,
    ).copy(dtype)
    return problem, parameters


def on_other_data(problem, X, y=None, weight=None, alpha=0.3, beta=0.7):
    """The same model and loss on other data."""
    y = problem.y if y is None else y
    return Problem.with_target(Design(X), problem.model, problem.loss, y, weight, alpha, beta)
