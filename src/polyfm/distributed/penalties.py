"""Penalties that the data choose, where rows are in parts.

What takes many fits, on folds of the rows, is done on a sample of them (`training/automatic.py`, which takes a sample
of large data, too). What gives the scales, the linear model and the largest beta that matters, comes from sums over all
rows.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp

from polyfm.core.baseline import constant_of
from polyfm.core.design import Design
from polyfm.core.linear import FLOOR, Linear
from polyfm.core.model import Group, Model
from polyfm.core.parameters import Parameters
from polyfm.core.penalty import Ridge
from polyfm.core.spectrum import Curvature, lowest_beta
from polyfm.core.threads import one_thread_of_blas
from polyfm.distributed.problem import DistributedDesign, DistributedProblem
from polyfm.distributed.recipe import DistributedRecipe
from polyfm.loops.forms import DirectHomogeneous
from polyfm.solvers import LBFGS, run
from polyfm.training.automatic import Path, Penalties, Search, choose_penalties
from polyfm.training.recipe import Recipe
from polyfm.training.scales import Rows

NONZEROS_OF_A_SAMPLE = 3_000_000  # that the driver gathers to choose by: some tens of MB
ITERATIONS, TOL = 100, 1e-7  # of the linear model


def choose_from_parts(
    recipe: DistributedRecipe, plain: Recipe, design: DistributedDesign, n_targets: int, strata_of: Callable | None,
    seeds: np.ndarray, say: Callable[[int, int, str], None],
) -> Penalties:  # fmt: skip
    """Fill in those of the recipe's penalties that are None; `plain` is the same recipe for rows in memory. Few rows
    are all gathered, and the choice is then that of the ordinary estimators."""
    share = min(1.0, NONZEROS_OF_A_SAMPLE / max(design.nnz, 1))
    parts = design.engine.each("sample", design.layout, share, int(seeds[0]))
    X = [part[0] for part in parts]
    stacked = sp.csr_matrix(sp.vstack(X, format="csr")) if design.is_sparse else np.concatenate(X)
    targets = [np.concatenate([part[1][t] for part in parts]) for t in range(n_targets)]
    weight = None if parts[0][2] is None else np.concatenate([part[2] for part in parts])
    strata = None if strata_of is None else strata_of(targets)
    if share == 1:
        return choose_penalties(plain, Design(stacked, "sorted"), stacked, targets, weight, strata, seeds, say)
    with one_thread_of_blas():
        search = Search(
            plain, Rows(stacked, targets, weight), strata, seeds, say, growth=design.shape[0] / max(len(targets[0]), 1)
        )
        return search.run(WholeInParts(recipe, design, n_targets, seeds))


class WholeInParts:
    """As `training.automatic.Whole`, from sums over parts."""

    def __init__(self, recipe: DistributedRecipe, design: DistributedDesign, n_targets: int, seeds: np.ndarray):
        self.recipe, self.design, self.n_targets, self.seeds = recipe, design, n_targets, seeds

    def _linear_problem(self, target: int, alpha: float | Ridge) -> DistributedProblem:
        """The linear model as a basis of degree 1, whose penalty is beta |p|^2."""
        model = Model((Group(DirectHomogeneous.of_degree(1), 1),), False, self.recipe.model.fit_intercept)
        half = alpha.times(0.5) if isinstance(alpha, Ridge) else 0.5 * alpha
        return self.design.problem(model, target, 0.0, half)

    def _parameters(self, linear: Linear) -> Parameters:
        dtype = self.design.dtype
        factors = linear.coef.astype(dtype).reshape(1, 1, -1)
        return Parameters(
            (factors,), (np.ones(1, dtype),), np.zeros(factors.size, dtype), np.array([linear.intercept], dtype)
        )

    def mean_curvature(self) -> float:
        d, total = self.design.shape[1], 0.0
        for target in range(self.n_targets):
            problem = self._linear_problem(target, 0.0)
            at = self._parameters(Linear(np.zeros(d), constant_of(problem)))
            total += float(np.mean(problem.diagonal(at, FLOOR)[:d]))
        return total / self.n_targets

    def linear_models(self, alpha: float | Ridge, near: list[Linear] | None) -> list[Linear]:
        d, found = self.design.shape[1], []
        for target in range(self.n_targets):
            problem = self._linear_problem(target, alpha)
            start = near[target] if near else Linear(np.zeros(d), constant_of(problem))
            if self.recipe.model.fit_linear:
                p = run(LBFGS(), problem, self._parameters(start), max_iter=ITERATIONS, tol=TOL).parameters  # type: ignore[arg-type]
                start = Linear(p.factors[0].ravel().astype(np.float64), float(p.intercept[0]))
            found.append(start)
        return found

    def penalty_scales(self, linear: list[Linear]) -> tuple[float, ...]:
        """As `training.scales.penalty_scales`."""
        recipe, largest, size = self.recipe, 0.0, 0.0
        lowest = recipe.model.groups[-1]
        ones = isinstance(recipe.init_lambdas, str) and recipe.init_lambdas == "ones"
        for target, fit in enumerate(linear):
            problem, at = self._linear_problem(target, 0.0), self._parameters(fit)
            A = _CurvatureInParts(
                problem, at, repeats=lowest.form.kernel == "homogeneous", n_dummies=min(lowest.n_dummies, 1)
            )
            size = max(size, math.sqrt(A.squares / problem.total_weight) / recipe.loss.curvature)
            largest = max(largest, lowest_beta(A, signed=lowest.form.lifted or recipe.fit_lambdas or not ones))
        return tuple(largest * size ** (1 - 2 / group.degree) if size else 0.0 for group in recipe.model.groups)

    def path(self, alpha: float | Ridge, linear: list[Linear], scales: tuple[float, ...]) -> Path:
        data: Any = SimpleNamespace(targets=range(self.n_targets), weight=None, nnz=self.design.nnz)
        solver = self.recipe.solver_of_path(self.design)
        return Path(self.recipe, solver, self.design, data, alpha, linear, scales, self.seeds)  # type: ignore[arg-type]


class _CurvatureInParts(Curvature):
    """The matrix A, of which a product is a round."""

    def __init__(self, problem: DistributedProblem, parameters: Parameters, *, repeats: bool, n_dummies: int):
        self.problem, self.parameters, self.n_dummies, self.root = problem, parameters, n_dummies, None
        self.X, self.pairs = problem.design, None  # its shape is what is asked for
        self.total, sums, columns, self._sizes, self.squares, self._size = problem.ask("curvature", parameters)
        self.size = len(sums) + n_dummies
        self.sums = sums if n_dummies else None
        self.half = 1.0 if repeats else 0.5
        self.diagonal = np.zeros(self.size)
        if not repeats:
            self.diagonal[: len(sums)] = -columns
            self.diagonal[len(sums) :] = -self.total

    def _product(self, v: np.ndarray) -> np.ndarray:
        return self.problem.ask("product", self.parameters, v)

    def dense(self) -> np.ndarray:
        return np.column_stack([self(unit) for unit in np.eye(self.size)])

    def bound(self) -> float:
        return self.half * float(self._sizes.sum() + self.n_dummies * self._size)
