"""Minima along the directions that several solvers visit between their steps: the intercept, and lambda."""

import numpy as np

from polyfm.core.parameters import Parameters
from polyfm.core.problem import Lines, Objective, Problem
from polyfm.loops import rows
from polyfm.loops.columns import TINY

LAMBDA_CYCLES = 10  # at most, an epoch; after the first epoch one or two suffice


def descend_intercept(problem: Problem, parameters: Parameters, f: np.ndarray) -> None:
    """Minimise over the intercept, where there is one to fit: exactly for the squared loss, by its majorant else."""
    if problem.model.fit_intercept:
        slope, curvature = rows.slope_and_curvature(problem.response, f, None)
        if curvature > 0:
            f -= slope / curvature
            parameters.intercept[:] -= slope / curvature


def descend_all_lambdas(problem: Objective, parameters: Parameters) -> None:
    """Minimise over the lambdas of one group of bases after the other."""
    for g in range(len(problem.model.groups)):
        descend_lambdas_of(problem, parameters, g)


def descend_lambdas_of(problem: Objective, parameters: Parameters, g: int) -> None:
    """Minimise over the lambdas of group g, wherever the rows are."""
    norms = problem.penalty.squared_norms(g, parameters.factors[g])
    _descend(norms, parameters.lambdas[g], problem.along(parameters, g))


def descend_lambdas(problem: Problem, g: int, P: np.ndarray, lams: np.ndarray, f: np.ndarray) -> None:
    """Minimise over the lambdas of group g with P fixed. `lams` and `f` are changed."""
    _descend(problem.penalty.squared_norms(g, P), lams, Lines(problem, problem.model.groups[g], P, f))


def _descend(norms: np.ndarray, lams: np.ndarray, lines: Lines) -> None:
    """A lasso in theta_s = lambda_s |p_s|^2 (section 7), by soft-thresholding."""
    first_decrease = 0.0
    for _ in range(LAMBDA_CYCLES):
        decrease = 0.0
        for s in range(len(lams)):
            slope, curvature = lines.slope_and_curvature(s)
            if curvature <= TINY:
                continue
            old, threshold = float(lams[s]), norms[s] / curvature
            new = old - slope / curvature
            lams[s] = np.sign(new) * max(abs(new) - threshold, 0.0)
            delta = float(lams[s]) - old
            decrease += 0.5 * curvature * delta * delta  # at least: the majorant is strongly convex
            lines.move(delta)
        first_decrease = first_decrease or decrease
        if decrease <= 1e-3 * first_decrease:
            break
