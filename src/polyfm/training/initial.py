"""Where training starts: the best constant, and random factors at a scale that the data set."""

import math

import numpy as np
from scipy.optimize import brentq

from polyfm.core.model import Parameters, add_expansion
from polyfm.core.problem import Problem
from polyfm.loops import rows as _rows
from polyfm.losses import Squared


def best_constant(problem: Problem) -> float:
    """argmin over c of sum_i w_i l(y_i, c): a convex problem in one number."""

    def slope(c: float) -> float:
        return _rows.slopes_at(problem.loss, problem.y, problem.weight, c)[1]

    weight, at_zero, _ = _rows.slopes_at(problem.loss, problem.y, problem.weight, 0.0)
    bend = weight * problem.loss.curvature
    if at_zero == 0 or bend == 0:
        return 0.0
    step = -at_zero / bend  # exact for the squared loss, too short for the others
    for _ in range(200):
        if slope(step) * at_zero <= 0:
            return float(brentq(slope, 0.0, step, xtol=1e-14 * abs(step), rtol=1e-14))
        step *= 2
    return float(step)


def initial_lambdas(spec, n_bases: int, rng: np.random.RandomState, dtype) -> np.ndarray:
    """The weights of a group's bases: "ones", "random_signs", or the values themselves."""
    signs = rng.choice([-1.0, 1.0], size=n_bases)  # always drawn: the factors that follow must not depend on `spec`
    if isinstance(spec, str):
        return (np.ones(n_bases) if spec == "ones" else signs).astype(dtype)
    return np.asarray(spec, dtype=dtype).copy()


def initial_parameters(problem: Problem, random_state, init_scale: float, init_lambdas="ones") -> Parameters:
    """Start from the best constant, with the expansion's root mean square at `init_scale` times the residual's.

    Kernels are homogeneous (section 3: K(c p, x) = c^m K(p, x)), so that one evaluation tells the scale c. The start
    then follows a change of units in X or y, and a deep or a wide model starts as near to the data as a small one.
    """
    design, model = problem.design, problem.model
    d, dtype = design.shape[1], design.dtype
    rng = np.random.RandomState(random_state) if isinstance(random_state, int) else random_state
    intercept = best_constant(problem) if model.fit_intercept else 0.0
    target = null_scale(problem, intercept)

    factors, lambdas, given = [], [], 0
    for group in model.groups:
        spec = init_lambdas
        if not isinstance(spec, str):
            spec = init_lambdas[given : given + group.n_bases]
            given += group.n_bases
        lams = initial_lambdas(spec, group.n_bases, rng, dtype)
        P = rng.standard_normal(group.shape(d)).astype(dtype)
        P *= _scale(problem, group, P, lams, init_scale * target)
        factors.append(P)
        lambdas.append(lams)
    return Parameters(tuple(factors), tuple(lambdas), np.zeros(d, dtype=dtype), np.array([intercept], dtype=dtype))


def null_scale(problem: Problem, constant: float | None = None) -> float:
    """Root mean square of l'(y, c) / mu at the best constant c: for the squared loss that of the residuals, for others
    that of the steps which they ask for. It is the size of what is left to learn."""
    if constant is None:
        constant = best_constant(problem) if problem.model.fit_intercept else 0.0
    weight, _, squares = _rows.slopes_at(problem.loss, problem.y, problem.weight, constant)
    # A constant that fits all leaves nothing to learn; start near zero rather than on the saddle at zero itself.
    return math.sqrt(squares / weight) / problem.loss.curvature or 1e-6 * max(abs(constant), 1.0)


def _scale(problem: Problem, group, P, lams, target: float) -> float:
    """c such that the expansion with the factors c P has the root mean square `target`."""
    f = np.zeros(problem.design.shape[0], dtype=problem.design.dtype)
    add_expansion(group, P, lams, problem.design, f)
    n_samples = len(f) if problem.weight is None else float(np.sum(problem.weight, dtype=np.float64))
    rms = math.sqrt(2 * _rows.total_loss(Squared(), None, problem.weight, f) / n_samples)
    if not math.isfinite(rms):
        raise ValueError(
            f"Products of {group.degree} features overflow {problem.design.dtype}. Scale the features first, for "
            "instance with sklearn.preprocessing.StandardScaler or MaxAbsScaler."
        )
    if rms == 0:  # no sample has so many non-zeros: bases could only cost
        return 0.0
    return float((target / rms) ** (1 / group.degree))
