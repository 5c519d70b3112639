"""Minima along the directions that several solvers visit between their steps: the intercept, and lambda."""

import numpy as np

from polyfm.core.layout import expand
from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
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


def descend_all_lambdas(problem: Problem, parameters: Parameters) -> None:
    """Minimise over the lambdas of one group of bases after the other."""
    f = problem.shifted_predictions(parameters)
    for g, (_, P, lams) in enumerate(problem.model.each(parameters)):
        descend_lambdas(problem, g, P, lams, f)


def descend_lambdas(problem: Problem, g: int, P: np.ndarray, lams: np.ndarray, f: np.ndarray) -> None:
    """Minimise over the lambdas of group g with P fixed: a lasso in theta_s = lambda_s |p_s|^2 (section 7), by
    soft-thresholding. `lams` and `f` are changed.

    Each K(p_s, .) is computed when its turn comes, so that memory stays O(samples).
    """
    group, norms = problem.model.groups[g], problem.penalty.squared_norms(g, P)
    first_decrease = 0.0
    for _ in range(LAMBDA_CYCLES):
        decrease = 0.0
        for s in range(group.n_bases):
            K = expand(group, P[s : s + 1], problem.design)[:, 0]
            slope, curvature = rows.slope_and_curvature(problem.response, f, K)
            if curvature <= TINY:
                continue
            old, threshold = float(lams[s]), norms[s] / curvature
            new = old - slope / curvature
            lams[s] = np.sign(new) * max(abs(new) - threshold, 0.0)
            delta = float(lams[s]) - old
            decrease += 0.5 * curvature * delta * delta  # at least: the majorant is strongly convex
            f += np.asarray(delta, dtype=f.dtype) * K
        first_decrease = first_decrease or decrease
        if decrease <= 1e-3 * first_decrease:
            break
