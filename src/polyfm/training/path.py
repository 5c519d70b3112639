"""A path of betas, from strong to weak, each fit starting where the one before ended."""

from collections.abc import Callable, Iterable

import numpy as np

from polyfm.core.parameters import Parameters
from polyfm.solvers import Hook, Result, run
from polyfm.training.recipe import Recipe

DEAD = 0.1  # bases smaller than this part of a fresh one have died, and are drawn anew


class InterruptedPathError(Exception):
    """Ctrl-C came while a path was being trained."""


def revived(parameters: Parameters, fresh: Parameters) -> Parameters:
    """Replace bases that a strong penalty has shrunk to nothing: zero is a saddle that no descent leaves."""
    factors = []
    for P, Q in zip(parameters.factors, fresh.factors, strict=True):
        with np.errstate(over="ignore"):  # what is infinite is not dead
            dead = np.linalg.norm(P, axis=(1, 2)) < DEAD * np.linalg.norm(Q, axis=(1, 2))
        factors.append(np.where(dead[:, None, None], Q, P))
    lambdas = tuple(
        np.where(lams == 0, first, lams) for lams, first in zip(parameters.lambdas, fresh.lambdas, strict=True)
    )
    return parameters._replace(factors=tuple(factors), lambdas=lambdas)


def fit_path(
    recipe: Recipe,
    X,
    targets: list[np.ndarray],
    weight: np.ndarray | None,
    betas: Iterable[float],
    seeds: np.ndarray,
    *,
    max_iter: int,
    tol: float,
    hooks: tuple[Hook, ...] = (),
    fitted: Callable[[int], None] = lambda beta: None,
) -> list[list[Result]]:
    """For each beta, the results of all targets; `fitted` is called when one target of one beta is done.

    X is laid out for the loops once. Ctrl-C, which a single fit keeps what it has learned on, ends the whole path: half
    a fit has no place among the others.
    """
    design = recipe.design(X, int(seeds[0]))
    name = recipe.solver_name(design)
    betas = list(betas)
    results: list[list[Result]] = [[] for _ in betas]
    for y, seed in zip(targets, map(int, seeds), strict=True):
        fresh = previous = None
        for i, beta in enumerate(betas):
            step = recipe.with_beta(float(beta))
            problem = step.problem(design, y, weight)
            if fresh is None:
                fresh = step.start(problem, seed)
            start = fresh if previous is None else previous if recipe.rank else revived(previous, fresh)
            result = run(step.make_solver(name, seed), problem, start, max_iter=max_iter, tol=tol, hooks=hooks)
            if result.interrupted:
                raise InterruptedPathError
            previous = result.parameters
            results[i].append(result._replace(resume={}))  # nobody goes on from here
            fitted(i)
    return results
