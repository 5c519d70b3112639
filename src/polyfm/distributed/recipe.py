"""The recipe of a fit whose rows are in parts."""

from dataclasses import dataclass
from typing import Any

from polyfm.core.problem import Objective
from polyfm.distributed.block import DistributedBlockDescent
from polyfm.distributed.problem import DistributedDesign
from polyfm.solvers import LBFGS, Solver
from polyfm.training.recipe import Recipe

SOLVERS = {"lbfgs": LBFGS, "block": DistributedBlockDescent}


@dataclass(frozen=True)
class DistributedRecipe(Recipe):
    """As `Recipe`; targets are numbers, counted from 0, and the rows know them."""

    def problem(self, design: DistributedDesign, y: Any, weight: Any) -> Objective:  # type: ignore[override]
        return design.problem(self.model, y, self.alpha, self.beta)

    def solver_name(self, design: Any) -> str:
        return "lbfgs" if self.solver == "auto" else self.solver

    def solver_of_path(self, design: Any) -> str:
        return "lbfgs"

    def make_solver(self, name: str, seed: int) -> Solver:
        return SOLVERS[name](fit_lambdas=self.fit_lambdas)  # type: ignore[call-arg]


def check_distributed(estimator: Any) -> None:
    """Refuse what needs all rows in one place."""
    if estimator.solver not in ("auto", *SOLVERS):
        raise ValueError(
            f"solver={estimator.solver!r} needs all rows on one machine. On rows in parts use 'auto', "
            f"{' or '.join(map(repr, SOLVERS))}."
        )
    if isinstance(estimator.n_components, str):
        raise ValueError("n_components='auto' needs all rows on one machine. Give a number.")
