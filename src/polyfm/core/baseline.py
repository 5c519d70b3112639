"""What a model has to beat: the best constant, and the size of what it leaves to learn."""

import math

from scipy.optimize import brentq

from polyfm.core.problem import Problem
from polyfm.loops import rows
from polyfm.loops.response import Response


def best_constant(response: Response) -> float:
    """argmin over c of sum_i w_i l(y_i, c): a convex problem in one number."""
    y = response.y if response.shift is None else response.shift
    assert y is not None
    n = len(y)

    def slope(c: float) -> float:
        return rows.slopes_at(response, n, c)[1]

    weight, at_zero, _ = rows.slopes_at(response, n, 0.0)
    curvature = weight * response.loss.curvature
    if at_zero == 0 or curvature == 0:
        return 0.0
    step = -at_zero / curvature  # exact for the squared loss, too short for the others
    for _ in range(200):
        if slope(step) == 0 or (slope(step) > 0) != (at_zero > 0):  # a product of the two could underflow
            return float(brentq(slope, 0.0, step, xtol=1e-14 * abs(step), rtol=1e-14))
        step *= 2
    return float(step)


def null_scale(problem: Problem, constant: float | None = None) -> float:
    """Root mean square of l'(y, c) / mu at the best constant c: for the squared loss that of the residuals, for others
    that of the steps which they ask for. It is the size of what is left to learn."""
    if constant is None:
        constant = best_constant(problem.response) if problem.model.fit_intercept else 0.0
    weight, _, squares = rows.slopes_at(problem.response, problem.design.shape[0], constant)
    # A constant that fits all leaves nothing to learn; start near zero rather than on the saddle at zero itself.
    return math.sqrt(squares / weight) / problem.loss.curvature or 1e-6 * max(abs(constant), 1.0)
