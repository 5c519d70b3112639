"""Problem: data, loss, model and penalties; the objective over the parameters. It knows no solver."""

from dataclasses import dataclass

import numpy as np

from polyfm import _rows
from polyfm.design import Design
from polyfm.losses import Loss, Squared
from polyfm.model import Model, Parameters


@dataclass(frozen=True)
class Problem:
    """min over the parameters of  sum_i w_i l(y_i, f_i) + penalties, with f the model's predictions:

        direct   beta sum_s |lambda_s| |p_s|^2      lifted   beta/2 sum_t |U^t|^2      linear   alpha/2 |w|^2

    The loss is a sum, never a mean: a weight of 2 is the row twice. The intercept is not penalised.
    Rows are those of `design`; use `with_target` for targets in the caller's order.
    """

    design: Design
    model: Model
    loss: Loss
    y: np.ndarray
    weight: np.ndarray | None = None
    alpha: float = 1.0
    beta: float = 1.0

    @classmethod
    def with_target(cls, design: Design, model: Model, loss: Loss, y, weight, alpha: float, beta: float) -> "Problem":
        """A problem from targets and weights in the order of the caller's rows."""
        order = slice(None) if design.order is None else design.order
        y = np.ascontiguousarray(y[order], dtype=design.dtype)
        weight = None if weight is None else np.ascontiguousarray(weight[order], dtype=design.dtype)
        return cls(design, model, loss, y, weight, alpha, beta)

    @property
    def offset(self) -> np.ndarray | None:
        """What solvers subtract from predictions: the squared loss needs the residual alone, so that y itself can
        stay out of the loops (`target` is then None) and a sample's state is a number smaller."""
        return self.y if isinstance(self.loss, Squared) else None

    @property
    def target(self) -> np.ndarray | None:
        return None if isinstance(self.loss, Squared) else self.y

    def predict(self, parameters: Parameters) -> np.ndarray:
        """Predictions f, less the offset."""
        f = self.model.predict(parameters, self.design)
        return f if self.offset is None else f - self.offset

    def total_loss(self, f: np.ndarray) -> float:
        """sum_i w_i l(y_i, f_i), for predictions less the offset."""
        return float(_rows.total_loss(self.loss, self.target, self.weight, f))

    def penalty(self, parameters: Parameters) -> float:
        total = 0.5 * self.alpha * float(np.sum(np.square(parameters.coef, dtype=np.float64)))
        for group, P, lams in zip(self.model.groups, parameters.factors, parameters.lambdas, strict=True):
            norms = np.sum(np.square(P, dtype=np.float64), axis=(1, 2))
            total += 0.5 * float(group.penalties(self.beta, lams.astype(np.float64)) @ norms)
        return total

    def objective(self, parameters: Parameters) -> float:
        return self.total_loss(self.predict(parameters)) + self.penalty(parameters)
