"""What a model has to beat: the best constant, and the size of what it leaves to learn."""

import math
from collections.abc import Callable

from scipy.optimize import brentq

from polyfm.core.problem import Objective
from polyfm.loops import rows
from polyfm.loops.response import Response


def best_constant(response: Response) -> float:
    """argmin over c of sum_i w_i l(y_i, c): a convex problem in one number."""
    y = response.y if response.shift is None else response.shift
    assert y is not None
    n = len(y)
    return _lowest(lambda c: rows.slopes_at(response, n, c), response.loss.curvature)


def constant_of(problem: Objective) -> float:
    """The best constant that the model can have."""
    return _lowest(problem.slopes_at, problem.loss.curvature) if problem.model.fit_intercept else 0.0


def _lowest(slopes_at: Callable[[float], tuple[float, float, float]], bound: float) -> float:
    known: dict[float, float] = {}  # a sum over all rows takes time

    def slope(c: float) -> float:
        if c not in known:
            known[c] = slopes_at(c)[1]
        return known[c]

    weight, at_zero, _ = slopes_at(0.0)
    known[0.0] = at_zero
    curvature = weight * bound
    if at_zero == 0 or curvature == 0:
        return 0.0
    step = -at_zero / curvature  # exact for the squared loss, too short for the others
    for _ in range(200):
        if slope(step) == 0 or (slope(step) > 0) != (at_zero > 0):  # a product of the two could underflow
            root = float(brentq(slope, 0.0, step, xtol=1e-14 * abs(step), rtol=1e-14))
            del slopes_at  # scipy puts `slope` into a circle, which would keep all rows until somebody looks for it
            return root
        step *= 2
    return float(step)


def null_scale(problem: Objective, constant: float | None = None) -> float:
    """Root mean square of l'(y, c) / mu at the best constant c: for the squared loss that of the residuals, for others
    that of the steps which they ask for. It is the size of what is left to learn."""
    constant = constant_of(problem) if constant is None else constant
    weight, _, squares = problem.slopes_at(constant)
    # A constant that fits all leaves nothing to learn; start near zero rather than on the saddle at zero itself.
    return math.sqrt(squares / weight) / problem.loss.curvature or 1e-6 * max(abs(constant), 1.0)
