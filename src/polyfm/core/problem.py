"""Problem: data, model, response and penalties; the objective over the parameters. It knows no solver."""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from polyfm.core.design import Design, frozen, sizes
from polyfm.core.jacobian import Jacobian
from polyfm.core.layout import expand, expansion, layout
from polyfm.core.model import Group, Model
from polyfm.core.parameters import Parameters
from polyfm.core.penalty import Penalty
from polyfm.core.threads import in_order, row_blocks
from polyfm.loops import gradient, rows
from polyfm.loops.derivatives import slopes_and_curvatures
from polyfm.loops.losses import Squared
from polyfm.loops.response import Response

MOST_SPREAD = {"float64": 1e8, "float32": 1e3}  # of the sizes of features, where sums of squares keep their digits


class Objective:
    """What starts, L-BFGS and hooks ask of a problem, wherever its rows are: sums over all rows, which are those over
    parts of them added up."""

    design: Any  # of which `shape`, `dtype` and `is_sparse` are asked for
    model: Model
    penalty: Penalty

    @property
    def loss(self) -> Any:
        raise NotImplementedError

    @property
    def total_weight(self) -> float:
        raise NotImplementedError

    def loss_at(self, parameters: Parameters, n_threads: int = 1) -> float:
        """sum_i w_i l(y_i, f_i), f the predictions."""
        raise NotImplementedError

    def loss_and_gradient(self, parameters: Parameters, n_threads: int = 1) -> tuple[float, Parameters]:
        """The total loss and its gradient, without the penalties."""
        raise NotImplementedError

    def diagonal(self, parameters: Parameters, floor: float, n_threads: int = 1) -> np.ndarray:
        """Of the Gauss-Newton matrix J^T diag(w l'') J, by the packed parameters. Second derivatives of the loss count
        as no less than a part `floor` of their bound."""
        raise NotImplementedError

    def slopes_at(self, constant: float) -> tuple[float, float, float]:
        """The sums of w_i, of w_i l'(y_i, constant), and of w_i l'(y_i, constant)^2."""
        raise NotImplementedError

    def squares_of(self, group: Group, P: np.ndarray, lams: np.ndarray) -> float:
        """sum_i w_i (sum_s lambda_s K(p_s, x_i))^2 / 2."""
        raise NotImplementedError

    def along(self, parameters: Parameters, g: int) -> "Lines":
        """What it takes to move the lambdas of group g one after the other."""
        raise NotImplementedError

    def objective(self, parameters: Parameters, n_threads: int = 1) -> float:
        return self.loss_at(parameters, n_threads) + self.penalty.value(parameters)

    def mean_loss(self, parameters: Parameters) -> float:
        return self.loss_at(parameters) / self.total_weight

    def value_and_gradient(self, parameters: Parameters, n_threads: int = 1) -> tuple[float, Parameters]:
        """The objective and its gradient by all parameters, lambda included, in one pass over the rows."""
        value, slopes = self.loss_and_gradient(parameters, n_threads)
        penalty = self.penalty.gradient(parameters)
        total = Parameters(
            tuple(map(np.add, slopes.factors, penalty.factors)), tuple(map(np.add, slopes.lambdas, penalty.lambdas)),
            slopes.coef + penalty.coef, slopes.intercept,
        )  # fmt: skip
        return value + self.penalty.value(parameters), total

    @property
    def is_delicate(self) -> bool:
        """Whether rounding could add up in predictions that are kept up to date: removing a feature from a product of
        many, or a large one from a sum with small ones, cancels digits. Unequal penalties are as unequal features."""
        if any(group.degree > 2 for group in self.model.groups):
            return True
        smallest, largest = self.design.derived(sizes)
        if any(group.n_dummies for group in self.model.groups):  # features that are 1 everywhere
            smallest, largest = min(smallest, 1.0), max(largest, 1.0)
        ridges = (ridge for ridge in self.penalty.beta if ridge.of is not None)
        unequal = max((ridge.spread for ridge in ridges), default=1.0)
        return largest * unequal > MOST_SPREAD[self.design.dtype.name] * smallest


@dataclass(frozen=True)
class Problem(Objective):
    """min over the parameters of  sum_i w_i l(y_i, f_i) + penalties, with f the model's predictions.

    The loss is a sum, never a mean: a weight of 2 is the row twice, and problems over parts of the rows add up
    (`loss_and_gradient`). Rows are those of `design`; use `with_target` for targets in the caller's order.
    """

    design: Design
    model: Model
    response: Response
    penalty: Penalty

    @classmethod
    def with_target(cls, design: Design, model: Model, loss: Any, y, weight, alpha, beta) -> "Problem":
        """A problem from targets and weights in the order of the caller's rows. `alpha` and `beta` are numbers or
        `Ridge`s."""
        order = slice(None) if design.order is None else design.order
        y = frozen(y[order], design.dtype)
        weight = None if weight is None else frozen(weight[order], design.dtype)
        response = Response(loss, None, weight, y) if _is_residual(loss) else Response(loss, y, weight, None)
        return cls(design, model, response, Penalty.of(model, design.shape[1], alpha, beta))

    @property
    def loss(self) -> Any:
        return self.response.loss

    @property
    def y(self) -> np.ndarray:
        y = self.response.shift if self.response.y is None else self.response.y
        assert y is not None
        return y

    @property
    def total_weight(self) -> float:
        weight = self.response.weight
        return float(len(self.y) if weight is None else np.sum(weight, dtype=np.float64))

    def shifted_predictions(
        self, parameters: Parameters, f: np.ndarray | None = None, n_threads: int = 1
    ) -> np.ndarray:
        """Predictions less the response's shift (for the squared loss: the residuals); in `f` where it is given."""
        f = self.model.predict(parameters, self.design, f, n_threads)
        if self.response.shift is not None:
            f -= self.response.shift
        return f

    def total_loss(self, f: np.ndarray) -> float:
        """sum_i w_i l(y_i, f_i), for shifted predictions."""
        return float(rows.total_loss(self.response, f))

    def loss_at(self, parameters: Parameters, n_threads: int = 1) -> float:
        return self.total_loss(self.shifted_predictions(parameters, n_threads=n_threads))

    def slopes_at(self, constant: float) -> tuple[float, float, float]:
        return rows.slopes_at(self.response, self.design.shape[0], constant)

    def squares_of(self, group: Group, P: np.ndarray, lams: np.ndarray) -> float:
        # The shift is not read: with it, for the squared loss, the response is of the type of the problem's own.
        response = Response(Squared(), None, self.response.weight, self.response.shift)
        return rows.total_loss(response, expansion(group, P, lams, self.design))

    def diagonal(self, parameters: Parameters, floor: float, n_threads: int = 1) -> np.ndarray:
        response = self.response
        f = np.asarray(self.shifted_predictions(parameters), dtype=np.float64)
        _, h = slopes_and_curvatures(response, f, 0)
        least = floor * response.loss.curvature
        h = np.maximum(h, least if response.weight is None else least * response.weight)
        jacobian = Jacobian(self.model, parameters, self.design.rows, response.shift, n_threads)
        return jacobian.squares(self.model.pack(parameters), h)

    def along(self, parameters: Parameters, g: int, f: np.ndarray | None = None) -> "Lines":
        """`f`, the shifted predictions, is kept up to date."""
        f = self.shifted_predictions(parameters) if f is None else f
        group, P = self.model.groups[g], parameters.factors[g]
        return Lines(self, group, P, f)

    def loss_and_gradient(self, parameters: Parameters, n_threads: int = 1) -> tuple[float, Parameters]:
        """The total loss and its gradient, without the penalties: those of parts of the rows add up to those of all.

        Costs O(degree * bases * nnz). Rows are taken in blocks whose number does not depend on `n_threads`, and
        their sums are added in order, so that neither does the result.
        """
        (n, d), nnz = self.design.shape, int(self.design.rows.indptr[-1])
        bounds = row_blocks(n, sum(P.size for P in parameters.factors), nnz / d)
        # Sums run in double precision whatever the data are: they are where single precision would be lost.
        first = self.tiles(parameters, gradient.TILE, np.float64)
        others = [tuple(tile.apart() for tile in first) for _ in bounds[2:]]
        parts = [(tiles, np.zeros(d)) for tiles in (first, *others)]

        def run(part: int) -> tuple[float, float]:
            tiles, gw = parts[part]
            return gradient.loss_and_gradient(
                tiles, self.response, tuple(self.design.rows), parameters.coef, parameters.intercept[0], bounds[part],
                bounds[part + 1], gw,
            )  # fmt: skip

        sums = in_order(run, len(parts), n_threads)
        shares = np.linspace(0, d, len(parts) + 1).astype(np.int64)  # of the features; the last has the dummies too
        shares[-1] = d + max((group.n_dummies for group in self.model.groups), default=0)

        def add_up(share: int) -> None:
            of = slice(shares[share], shares[share + 1])
            for tiles, _ in parts[1:]:
                for whole, tile in zip(first, tiles, strict=True):
                    whole.G[of] += tile.G[of]

        in_order(add_up, len(parts), n_threads)
        factors, lambdas = [], []
        for g, group in enumerate(self.model.groups):
            k = group.n_bases
            factors.append(first[g].G.T[:k])
            lambdas.append(reduce(np.add, (tiles[g].g for tiles, _ in parts))[:k] * group.form.scale)
        coef = reduce(np.add, (gw for _, gw in parts))
        intercept = np.array([sum(gb for _, gb in sums)])
        return sum(v for v, _ in sums), Parameters(tuple(factors), tuple(lambdas), coef, intercept)

    def tiles(self, parameters: Parameters, n_rows: int, gradient_dtype) -> tuple[gradient.Tile, ...]:
        """The groups of bases with working space for `n_rows` rows at a time, and room for a gradient."""
        dtype = self.design.dtype
        tiles = []
        for group, P, lams in self.model.each(parameters):
            bases = layout(group, P, lams, dtype)
            A = np.empty((n_rows, bases.slots, len(bases.lams)), dtype=dtype)
            G, g = np.zeros(bases.T.shape, dtype=gradient_dtype), np.zeros(bases.lams.shape, dtype=gradient_dtype)
            tiles.append(gradient.Tile(bases, A, np.empty_like(bases.lams), G, g))
        return tuple(tiles)


@dataclass
class Lines:
    """Predictions f along one basis after the other. Each K(p_s, .) is computed when its turn comes, so that memory
    stays O(samples)."""

    problem: Problem
    group: Group
    P: np.ndarray
    f: np.ndarray

    def slope_and_curvature(self, s: int) -> tuple[float, float]:
        """Of the total loss by lambda_s; the latter is a bound."""
        self.K = expand(self.group, self.P[s : s + 1], self.problem.design)[:, 0]
        return rows.slope_and_curvature(self.problem.response, self.f, self.K)

    def move(self, delta: float) -> None:
        """lambda_s, which was looked at last, has changed by so much."""
        self.f += np.asarray(delta, dtype=self.f.dtype) * self.K


def _is_residual(loss: Any) -> bool:
    """Whether the loss depends on f - y alone, so that y itself can stay out of the loops."""
    return bool(getattr(loss, "residual", False))
