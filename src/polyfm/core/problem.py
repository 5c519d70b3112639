"""Problem: data, loss, model and penalties; the objective over the parameters. It knows no solver."""

from dataclasses import dataclass
from functools import reduce

import numpy as np

from polyfm.core.design import Design, frozen
from polyfm.core.model import Model, Parameters, bases_last, weights
from polyfm.core.threads import in_order, row_blocks
from polyfm.loops import gradient as _gradient
from polyfm.loops import rows as _rows
from polyfm.losses import Loss, Squared


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
        y = frozen(y[order], design.dtype)
        weight = None if weight is None else frozen(weight[order], design.dtype)
        return cls(design, model, loss, y, weight, alpha, beta)

    @property
    def offset(self) -> np.ndarray | None:
        """What solvers subtract from predictions: the squared loss needs the residual alone, so that y itself can
        stay out of the loops (`target` is then None) and a sample's state is a number smaller."""
        return self.y if isinstance(self.loss, Squared) else None

    @property
    def target(self) -> np.ndarray | None:
        return None if isinstance(self.loss, Squared) else self.y

    def predict(self, parameters: Parameters, f: np.ndarray | None = None) -> np.ndarray:
        """Predictions, less the offset; in `f` where it is given."""
        f = self.model.predict(parameters, self.design, f)
        if self.offset is not None:
            f -= self.offset
        return f

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

    def value_and_gradient(self, parameters: Parameters, n_threads: int = 1) -> tuple[float, Parameters]:
        """The objective and its gradient by all parameters, lambda included, in one pass over the rows.

        Costs O(degree * bases * nnz). Rows are taken in blocks whose number does not depend on `n_threads`, and
        their sums are added in order, so that neither does the result.
        """
        (n, d), nnz = self.design.shape, int(self.design.rows.indptr[-1])
        bounds = row_blocks(n, sum(P.size for P in parameters.factors), nnz / d)
        # Sums run in double precision whatever the data are: they are where single precision would be lost.
        first = self.blocks(parameters, _gradient.TILE, np.float64)
        others = [tuple(block.apart() for block in first) for _ in bounds[2:]]
        parts = [(blocks, np.zeros(d)) for blocks in (first, *others)]

        def run(part: int) -> tuple[float, float]:
            blocks, gw = parts[part]
            return _gradient.value_and_gradient(
                blocks, self.loss, *self.design.rows, self.target, self.weight, self.offset, parameters.coef,
                parameters.intercept[0], bounds[part], bounds[part + 1], gw,
            )  # fmt: skip

        sums = in_order(run, len(parts), n_threads)
        value = sum(v for v, _ in sums) + self.penalty(parameters)
        factors, lambdas = [], []
        for g, (group, P, lams) in enumerate(
            zip(self.model.groups, parameters.factors, parameters.lambdas, strict=True)
        ):
            k = group.n_bases
            G = reduce(np.add, (blocks[g].G for blocks, _ in parts)).T[:k]
            norms = np.sum(np.square(P, dtype=np.float64), axis=(1, 2))
            factors.append(G + group.penalties(self.beta, lams)[:, None, None] * P)
            slopes = reduce(np.add, (blocks[g].g for blocks, _ in parts))[:k] * group.scale
            lambdas.append(slopes + self.beta * np.sign(lams) * norms if group.method == "direct" else slopes)
        coef = reduce(np.add, (gw for _, gw in parts)) + self.alpha * parameters.coef
        intercept = np.array([sum(gb for _, gb in sums)])
        return value, Parameters(tuple(factors), tuple(lambdas), coef, intercept)

    def blocks(self, parameters: Parameters, tile: int, gradient_dtype) -> tuple[_gradient.Block, ...]:
        """The groups of bases as loops over rows want them, with room for a gradient."""
        dtype = self.design.dtype
        blocks = []
        for group, P, lams in zip(self.model.groups, parameters.factors, parameters.lambdas, strict=True):
            T, lams = bases_last(P, dtype), weights(group, lams, dtype)
            A = np.empty((tile, group.n_slots, len(lams)), dtype=dtype)
            G, g = np.zeros(T.shape, dtype=gradient_dtype), np.zeros(lams.shape, dtype=gradient_dtype)
            blocks.append(_gradient.Block(group.form, group.n_dummies, T, lams, A, np.empty_like(lams), G, g))
        return tuple(blocks)
