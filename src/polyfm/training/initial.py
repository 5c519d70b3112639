"""Where training starts: the best constant, and random factors at a scale that the data set."""

import math

import numpy as np

from polyfm.core.baseline import constant_of, null_scale
from polyfm.core.model import Group
from polyfm.core.parameters import Parameters
from polyfm.core.penalty import Ridge
from polyfm.core.problem import Objective


def initial_lambdas(spec, n_bases: int, rng: np.random.RandomState, dtype) -> np.ndarray:
    """The weights of a group's bases: "ones", "random_signs", or the values themselves."""
    signs = rng.choice([-1.0, 1.0], size=n_bases)  # always drawn: the factors that follow must not depend on `spec`
    if isinstance(spec, str):
        return (np.ones(n_bases) if spec == "ones" else signs).astype(dtype)
    return np.asarray(spec, dtype=dtype).copy()


def initial_parameters(problem: Objective, random_state, init_scale: float, init_lambdas="ones") -> Parameters:
    """Start from the best constant, with the expansion's root mean square at `init_scale` times the residual's.

    Kernels are homogeneous (section 3: K(c p, x) = c^m K(p, x)), so that one evaluation tells the scale c. The start
    then follows a change of units in X or y, and a deep or a wide model starts as near to the data as a small one.
    Features that are penalised more start as much nearer to zero, as if their columns had been scaled instead.
    """
    design, model = problem.design, problem.model
    d, dtype = design.shape[1], design.dtype
    rng = np.random.RandomState(random_state) if isinstance(random_state, int) else random_state
    intercept = constant_of(problem)
    target = null_scale(problem, intercept)

    factors, lambdas, given = [], [], 0
    for group, ridge in zip(model.groups, problem.penalty.beta, strict=True):
        spec = init_lambdas
        if not isinstance(spec, str):
            spec = init_lambdas[given : given + group.n_bases]
            given += group.n_bases
        lams = initial_lambdas(spec, group.n_bases, rng, dtype)
        P = np.empty(group.shape(d), dtype=dtype)
        for basis in P:  # one at a time: double precision takes memory
            basis[:] = rng.standard_normal(basis.shape)
        if ridge.of is not None:
            P *= _spreads(ridge).astype(dtype)
        P *= _scale(problem, group, P, lams, init_scale * target)
        factors.append(P)
        lambdas.append(lams)
    return Parameters(tuple(factors), tuple(lambdas), np.zeros(d, dtype=dtype), np.array([intercept], dtype=dtype))


def nothing(problem: Objective) -> Parameters:
    """No interactions: one basis that is zero, beside the best constant."""
    (group,), d, dtype = problem.model.groups, problem.design.shape[1], problem.design.dtype
    intercept = constant_of(problem)
    factors = np.zeros((1, *group.shape(d)[1:]), dtype=dtype)
    return Parameters((factors,), (np.ones(1, dtype=dtype),), np.zeros(d, dtype=dtype), np.array([intercept], dtype))


def _spreads(ridge: Ridge) -> np.ndarray:
    """(bases, 1, features): 1 / sqrt(strength); features without a penalty are as the most weakly penalised ones."""
    positive = ridge.strength[ridge.strength > 0]
    strength = np.maximum(ridge.strength, positive.min() if len(positive) else 1.0)
    return 1 / np.sqrt(strength[ridge.of].T[:, None, :])


def _scale(problem: Objective, group: Group, P, lams, target: float) -> float:
    """c such that the expansion with the factors c P has the root mean square `target`."""
    rms = math.sqrt(2 * problem.squares_of(group, P, lams) / problem.total_weight)
    if not math.isfinite(rms):
        raise ValueError(
            f"Products of {group.degree} features overflow {problem.design.dtype}. Scale the features first, for "
            "instance with sklearn.preprocessing.StandardScaler or MaxAbsScaler."
        )
    if rms == 0:  # no sample has so many non-zeros: bases could only cost
        return 0.0
    return float((target / rms) ** (1 / group.degree))
