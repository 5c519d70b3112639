"""What can be said of a trained model of any degree: is it at a minimum, and do other starts end elsewhere?

For products of three and more features, nobody can tell how far a model is from the best one: docs/certificate.md says
why. What is here does not claim to.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polyfm.certificate import FEW_FEATURES, Certificate, certificate_of, prepared, signs_of, summed
from polyfm.core.duality import Convex, assess
from polyfm.core.lanczos import lanczos
from polyfm.core.model import Model
from polyfm.core.parameters import Parameters
from polyfm.core.penalty import Penalty
from polyfm.core.problem import Problem
from polyfm.core.threads import one_thread_of_blas
from polyfm.solvers import run
from polyfm.training.recipe import Recipe

FLAT = 1e-3  # of the largest curvature: what is not below minus this counts as no way down
SMALL = 1e-2  # a relative gradient below this counts as none
STEP = 1e-4  # of the parameters' size, over which gradients are compared


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found. With several classes, each number is that of the worst.

    Attributes
    ----------
    objective : float
        Of the model, as the estimator states it: the losses and the penalties. Classes add up.
    gradient : float
        The length of the objective's gradient in units of that of the penalties alone: 0 where training has converged.
    curvature : float
        The smallest second derivative in any direction, in units of the largest: negative where some direction leads
        down. Lanczos's method finds it to a tolerance.
    restarts : ndarray
        Objectives that training reached from other random starts. Small differences say that the start does not matter;
        they do not say that there is nothing better.
    conditional : Certificate or None
        Where the model has interactions of degree 2 of their own: how much could be gained by these and the linear
        weights *while all others stay as they are*. For degree 2 that is the whole model.
    """

    objective: float
    gradient: float
    curvature: float
    restarts: np.ndarray
    conditional: Certificate | None

    @property
    def is_minimum(self) -> bool:
        """Whether the gradient is small, and no direction leads down."""
        return self.gradient <= SMALL and self.curvature >= -FLAT

    def __str__(self) -> str:
        lines = [
            f"The objective is {self.objective:.6g}, its gradient {self.gradient:.2g} of the penalties', its smallest "
            f"curvature {self.curvature:.2g} of the largest:"
            + (" a local minimum, as far as one can tell." if self.is_minimum else " training could go on.")
        ]
        if len(self.restarts):
            low, high = self.restarts.min(), self.restarts.max()
            lines.append(f"{len(self.restarts)} other starts ended between {low:.6g} and {high:.6g}.")
        if self.conditional is not None:
            gap = 100 * self.conditional.gap / (abs(self.objective) or 1.0)
            lines.append(f"Its interactions of degree 2 could lower it by at most {gap:.3g}%, the others being fixed.")
        lines.append("How far it is from the best model, nobody can tell.")
        return " ".join(lines)


def diagnose(
    estimator: Any, X: Any, y: Any, sample_weight: Any = None, *, n_restarts: int = 3, random_state: Any = 0
) -> Diagnosis:
    """What can be said about the optimality of a fitted model of any degree.

    Parameters
    ----------
    estimator : object
        A fitted estimator of polyfm, or a fitted `Pipeline` that ends in one.
    X, y, sample_weight : as in `fit`
        The rows that the model was trained on.
    n_restarts : int, default=3
        Trainings from other random starts, each of which takes as long as `fit` with given penalties.
    random_state : int, default=0
        Of the first restart; the others count on from it.

    Returns
    -------
    diagnosis : Diagnosis
        It prints as a paragraph. `polyfm.display.DiagnosisDisplay` draws it.

    Examples
    --------
    >>> import polyfm
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_diabetes(return_X_y=True)
    >>> X, y = scale(X), scale(y)
    >>> options = {"degree": 3, "n_components": 2, "alpha": 10.0, "beta": 10.0, "tol": 1e-8, "max_iter": 1000}
    >>> fm = polyfm.FactorizationMachineRegressor(**options, random_state=0).fit(X, y)
    >>> polyfm.diagnose(fm, X, y, n_restarts=0).is_minimum
    True
    """
    if n_restarts != int(n_restarts) or n_restarts < 0:
        raise ValueError(f"n_restarts must be a number >= 0, got {n_restarts!r}.")
    given = prepared(estimator, X, y, sample_weight)
    model = given.model
    recipe = model._recipe(model.n_features_in_).with_penalties(given.alpha, given.beta)
    recipe = replace(recipe, model=model._fitted.model, rank=None, may_take_steps=False)  # restarts compare minima
    solved = list(given.problems(recipe.model))
    gradients, curvatures, conditionals = [], [], []
    with one_thread_of_blas():
        for problem, parameters in solved:
            gradients.append(relative_gradient(problem, parameters))
            curvatures.append(smallest_curvature(problem, parameters))
            conditionals.append(conditional(model, problem, parameters))
        restarts = [
            sum(_restarted(model, recipe, problem, random_state + k) for problem, _ in solved)
            for k in range(int(n_restarts))
        ]
    known = [c for c in conditionals if c is not None]
    return Diagnosis(
        sum(problem.objective(parameters) for problem, parameters in solved), max(gradients), min(curvatures),
        np.array(restarts), summed(known) if known else None,
    )  # fmt: skip


def _restarted(model, recipe: Recipe, problem: Problem, seed: int) -> float:
    solver = recipe.make_solver(recipe.solver_name(problem.design), seed)
    found = run(solver, problem, recipe.start(problem, seed), max_iter=model.max_iter, tol=model.tol)
    if found.interrupted:
        raise KeyboardInterrupt
    return float(found.history[-1])


def relative_gradient(problem: Problem, parameters: Parameters) -> float:
    """|gradient| over all smooth parameters / |gradient of the penalties|."""
    pack = problem.model.pack
    total = float(np.linalg.norm(pack(problem.value_and_gradient(parameters)[1])))
    scale = float(np.linalg.norm(pack(problem.penalty.gradient(parameters))))
    return total / scale if scale > 0 else (0.0 if total == 0 else np.inf)


def smallest_curvature(problem: Problem, parameters: Parameters, tol: float = 1e-3, seed: int = 0) -> float:
    """The smallest eigenvalue of the Hessian by the smooth parameters, in units of the largest in size."""
    model = problem.model
    theta = model.pack(parameters)
    size = STEP * max(float(np.sqrt(np.mean(np.square(theta)))), 1e-8) * np.sqrt(len(theta))

    def product(v: np.ndarray) -> np.ndarray:
        step = size / max(float(np.linalg.norm(v)), 1e-300)
        ahead, behind = (
            model.pack(problem.value_and_gradient(model.unpack(theta + sign * step * v, parameters))[1])
            for sign in (1, -1)
        )
        return (ahead - behind) / (2 * step)

    found = lanczos(product, len(theta), (1, -1), tol=tol, seed=seed)
    return found.lowest / found.size if found.size > 0 else 0.0


def conditional(model, problem: Problem, parameters: Parameters) -> Certificate | None:
    """The certificate of the interactions of degree 2 and the linear part, where all others stay as they are."""
    groups, penalty = problem.model.groups, problem.penalty
    *higher, last = range(len(groups))
    possible = groups[last].degree == 2 and groups[last].form.repeats is not None
    positive = np.all(penalty.beta[last].strength > 0) and (
        not problem.model.fit_linear or np.all(penalty.alpha.strength > 0)
    )
    if not possible or not positive:
        return None
    lowest = Model((groups[last],), problem.model.fit_linear, problem.model.fit_intercept)
    own = parameters._replace(factors=(parameters.factors[last],), lambdas=(parameters.lambdas[last],))
    beside = None
    if higher:
        others = Model(tuple(groups[:last]), False, False)
        rest = Parameters(
            parameters.factors[:last], parameters.lambdas[:last], np.zeros_like(parameters.coef), np.zeros(1)
        )
        beside = others.predict(rest, problem.design).astype(np.float64)
    alone = replace(
        problem,
        model=lowest,
        penalty=Penalty(lowest, penalty.n_features, penalty.alpha, (penalty.beta[last],)),
    )
    signs = signs_of(model, own.lambdas[0])
    found = assess(Convex(alone, signs, beside), own, few=FEW_FEATURES, tol=1e-3)
    return certificate_of(found, alone, signs, 1e-3)
