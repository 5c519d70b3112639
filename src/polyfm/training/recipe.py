"""Recipe: from data to a problem, a start and a solver. Fits, searches, paths and streams all cook by it."""

from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np

from polyfm.core.design import Design, RowOrder
from polyfm.core.model import Model
from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.solvers import (
    SGD,
    Solver,
    Staircase,
    automatic,
    automatic_local,
    make_solver,
    solver_class,
    takes_steps,
)
from polyfm.training.initial import initial_parameters, nothing
from polyfm.training.rank import Rank

Kind = TypeVar("Kind", bound="Recipe")


@dataclass(frozen=True)
class Recipe:
    """What an estimator asks for, as far as training is concerned."""

    model: Model
    loss: Any
    alpha: Any  # a number or a Ridge; None: the data choose
    beta: Any  # the same, or a tuple with one for each group of bases
    init_scale: float = 0.1
    init_lambdas: Any = "ones"  # or an array over all bases
    solver: str = "auto"
    fit_lambdas: bool = False
    batch_size: int | str = "auto"
    shares: int = 1
    n_threads: int = 1
    more: dict[str, Any] = field(default_factory=dict)  # options of the solver that only it has
    rank: Rank | None = None  # where the data choose the number of bases; the model's own is to choose penalties with
    may_take_steps: bool = False  # whether "auto" may stand for stochastic steps, whose number the data choose
    epochs: tuple[int, ...] | None = None  # that number, of each target

    @property
    def is_complete(self) -> bool:
        """Whether there is no penalty left to choose."""
        return self.alpha is not None and self.beta is not None

    def of_kind(self, kind: type[Kind]) -> Kind:
        """The same, to be cooked as another kind of recipe does."""
        return kind(**{field.name: getattr(self, field.name) for field in fields(self)})

    def with_beta(self, beta: Any) -> "Recipe":
        return replace(self, beta=beta)

    def with_penalties(self, alpha: Any, beta: Any) -> "Recipe":
        return replace(self, alpha=alpha, beta=beta)

    def takes_steps(self, X: Any) -> bool:
        """Whether "auto" stands for stochastic steps on these data, a matrix or its design."""
        able = self.may_take_steps and self.solver == "auto" and self.rank is None and not self.fit_lambdas
        return able and takes_steps(self.model, X)

    def row_order(self, X) -> RowOrder:
        if self.solver == "auto":
            return SGD.row_order if self.takes_steps(X) else "sorted"
        return solver_class(self.solver).row_order

    def design(self, X, seed: int) -> Design:
        """X as the solver wants it."""
        return Design(X, self.row_order(X), seed)

    def problem(self, design: Design, y: np.ndarray, weight: np.ndarray | None) -> Problem:
        return Problem.with_target(design, self.model, self.loss, y, weight, self.alpha, self.beta)

    def start(self, problem: Problem, seed: int) -> Parameters:
        if self.rank is not None:
            return nothing(problem)
        return initial_parameters(problem, np.random.RandomState(seed), self.init_scale, self.init_lambdas)

    def solver_name(self, design: Design) -> str:
        if self.solver != "auto":
            return self.solver
        if self.rank is not None:
            return automatic_local(self.model, design)
        return self.solver_of_path(design)

    def solver_of_path(self, design: Design) -> str:
        """Who goes along the path on which a penalty is chosen."""
        return "sgd" if self.takes_steps(design) else automatic(self.model, design)

    def make_solver(self, name: str, seed: int) -> Solver:
        """The solver of this name, with those of the recipe's options that it has."""
        if self.rank is not None:  # it is a part of another
            return Staircase(self.rank.signs, self.solver, self.rank.gap_tol, self.rank.most, self.n_threads)
        given = {
            "fit_lambdas": self.fit_lambdas,
            "n_threads": self.n_threads,
            "seed": seed,
            "batch_size": self.batch_size,
            "shares": self.shares,
        }
        known = {key: given[key] for key in given.keys() & solver_class(name).options()}
        return make_solver(name, **known, **self.more)
