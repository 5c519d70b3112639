"""What solvers see of rows that are in parts: a design without data, and a problem whose sums come from an engine."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from polyfm.core.design import sizes
from polyfm.core.model import Group, Model
from polyfm.core.parameters import Parameters
from polyfm.core.penalty import Penalty
from polyfm.core.problem import Objective
from polyfm.distributed.chunk import Layout, Task
from polyfm.distributed.engine import Engine, Sent
from polyfm.losses import as_loss


@dataclass
class DistributedDesign:
    """All rows: their sizes, and who has them."""

    engine: Engine
    shape: tuple[int, int]
    nnz: int
    layout: Sent  # of a `Layout`
    loss: Any  # as the user passed it
    order: None = None
    _derived: dict[Any, Any] = field(default_factory=dict)

    @property
    def _laid_out(self) -> Layout:
        return self.layout.value

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self._laid_out.dtype)

    @property
    def is_sparse(self) -> bool:
        return self._laid_out.is_sparse

    def derived(self, make: Callable) -> Any:
        """Facts about X that solvers ask a design in memory for; `sizes`, or a function of this one."""
        if make not in self._derived:
            self._derived[make] = self._sizes() if make is sizes else make(self)
        return self._derived[make]

    def _sizes(self) -> tuple[float, float]:
        largest, smallest = self.engine("extremes", self.layout, merge="largest")
        return -float(smallest), float(largest)

    def problem(self, model: Model, target: int, alpha: Any, beta: Any, held_out: bool = False) -> "DistributedProblem":
        task = Sent(Task(model, self.loss, target, held_out))
        return DistributedProblem(self, model, Penalty.of(model, self.shape[1], alpha, beta), task)


@dataclass(frozen=True)
class DistributedProblem(Objective):
    """The objective over rows that are in parts: what parts say, added up. `n_threads` is the engine's own business."""

    design: DistributedDesign
    model: Model
    penalty: Penalty
    task: Sent

    @cached_property
    def loss(self) -> Any:  # type: ignore[override]
        return as_loss(self.task.value.loss)

    @cached_property
    def total_weight(self) -> float:  # type: ignore[override]
        return self.ask("total_weight")

    def ask(self, method: str, *arguments: Any) -> Any:
        return self.design.engine(method, self.design.layout, self.task, *arguments)

    def loss_at(self, parameters: Parameters, n_threads: int = 1) -> float:
        return self.ask("loss", parameters)

    def loss_and_gradient(self, parameters: Parameters, n_threads: int = 1) -> tuple[float, Parameters]:
        value, packed, lambdas = self.ask("loss_and_gradient", parameters)
        like = Parameters(parameters.factors, lambdas, np.zeros(len(parameters.coef)), np.zeros(1))
        return value, self.model.unpack(packed, like)

    def diagonal(self, parameters: Parameters, floor: float, n_threads: int = 1) -> np.ndarray:
        return np.array(self.ask("diagonal", parameters, floor))  # which the caller may change

    def slopes_at(self, constant: float) -> tuple[float, float, float]:
        return self.ask("slopes_at", constant)

    def squares_of(self, group: Group, P: np.ndarray, lams: np.ndarray) -> float:
        return self.ask("squares_of", group, P, lams)

    def along(self, parameters: Parameters, g: int) -> Any:
        return _Lines(self, parameters, g)


@dataclass
class _Lines:
    """As `core.problem.Lines`: every look is a round, and starts from the parameters as they are."""

    problem: DistributedProblem
    parameters: Parameters
    g: int

    def slope_and_curvature(self, s: int) -> tuple[float, float]:
        return self.problem.ask("along_lambda", self.parameters, self.g, s)

    def move(self, delta: float) -> None:
        """The lambda that has moved is one of the parameters."""
