"""Chunk: some of the rows, where they are, and what can be asked of them.

All methods depend on their arguments alone. What is derived from the rows, such as the views of X, is kept with them as
long as they live, and is made anew where it is not there.
"""

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import joblib
import numpy as np
import scipy.sparse as sp

from polyfm.core.design import Design, RowOrder, sizes
from polyfm.core.layout import bases_last, weights
from polyfm.core.linear import slopes, squared_columns
from polyfm.core.model import Group, Model
from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.core.sparse import checked_sparse
from polyfm.loops import blocks, rows
from polyfm.losses import as_loss
from polyfm.training.folds import sample_by_content

KINDS = (np.dtype(np.float64), np.dtype(np.float32))


class Facts(NamedTuple):
    """What the driver has to know of a chunk before anything else."""

    n_rows: int
    n_features: int | None  # None: there are no rows to tell
    nnz: int
    is_sparse: bool
    is_single: bool  # whether X is in single precision
    largest: float  # of X, in absolute terms
    targets: tuple  # of regression: the least, the largest; of classes: labels, their numbers, their weights
    weight: float | None  # the sum
    largest_weight: float


@dataclass(frozen=True)
class Layout:
    """How rows become what solvers work on: the same for all chunks."""

    dtype: str
    is_sparse: bool
    n_features: int
    row_order: RowOrder
    classes: np.ndarray | None  # None: targets are numbers
    class_weight: np.ndarray | None
    held_out: float = 0.0  # the share of rows that early stopping is judged by
    seed: int = 0


@dataclass(frozen=True)
class Task:
    """Which problem is asked about: a model, a loss, and one of the targets."""

    model: Model
    loss: Any  # as the user passed it
    target: int
    held_out: bool = False

    @cached_property
    def ready_loss(self) -> Any:
        return as_loss(self.loss)

    def __getstate__(self):  # a loss that is ready knows the loops of its process
        return {name: value for name, value in vars(self).items() if name != "ready_loss"}


class Chunk:
    """Rows X with targets y and weights, as the user has them, and their number among all chunks."""

    def __init__(self, index: int, X: Any, y: Any = None, weight: Any = None):
        self.index, self.X, self.y, self.weight = index, X, y, weight
        self._lock = threading.RLock()
        self._kept: dict[str, tuple[Any, Any]] = {}  # by name: what it was made of, and it

    def __reduce__(self):
        return Chunk, (self.index, self.X, self.y, self.weight)

    def __sizeof__(self) -> int:
        of_X = self.X.nnz * (self.X.dtype.itemsize + 4) if sp.issparse(self.X) else getattr(self.X, "nbytes", 0)
        return 200 + of_X + sum(getattr(array, "nbytes", 0) for array in (self.y, self.weight))

    def _keep(self, name: str, of: Any, make: Any) -> Any:
        """make(), unless the last one of this name was made of the same."""
        with self._lock:
            if name not in self._kept or self._kept[name][0] != of:
                self._kept[name] = of, make()
            return self._kept[name][1]

    # -- before all chunks are known ----------------------------------------------------------------------------------

    def facts(self, classify: bool, n_features: int | None = None) -> Facts:
        """Look at all values; what cannot be trained on is refused, with the row that has it."""
        X, y, weight = _checked_X(self.X), _checked_y(self.y, classify), _checked_weight(self.weight)
        n = X.shape[0]
        for name, array in (("y", y), ("sample_weight", weight)):
            if array is not None and len(array) != n:
                raise ValueError(f"X has {n} rows, but {name} has {len(array)}. Cut both in the same places.")
        if n_features is not None and n and X.shape[1] != n_features:
            raise ValueError(f"X has {X.shape[1]} features, but {n_features} were expected.")
        values = X.data if sp.issparse(X) else X
        largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
        targets: tuple = ()
        if n and classify:
            labels, codes = _unique(y)
            counts = np.bincount(codes, minlength=len(labels))
            of_weight = counts.astype(float) if weight is None else np.bincount(codes, weight, len(labels))
            targets = labels, counts, of_weight
        elif n and y is not None:
            targets = float(y.min()), float(y.max())
        return Facts(
            n, X.shape[1] if n else None, int(X.nnz if sp.issparse(X) else X.size), sp.issparse(X),
            X.dtype == np.float32, largest, targets, None if weight is None else float(weight.sum()),
            0.0 if weight is None or not n else float(weight.max()),
        )  # fmt: skip

    def digest(self) -> str:
        """What tells these rows from others."""
        X = checked_sparse(self.X).tocsr() if sp.issparse(self.X) else self.X
        data = [X.format, X.shape, X.data, X.indices, X.indptr] if sp.issparse(X) else np.asarray(X)
        return joblib.hash([data, None if self.y is None else np.asarray(self.y), self.weight])

    # -- once they are ------------------------------------------------------------------------------------------------

    def part(self, layout: Any) -> "Part":
        return self._keep("part", layout, lambda: Part(self, layout.value))

    def problem(self, layout: Any, task: Any) -> Problem:
        part = self.part(layout)
        of = task.value
        return self._keep(f"problem {of.held_out}", task, lambda: part.problem(of))

    def weights(self, layout: Any) -> np.ndarray:
        """Of the rows to train on, and of those held out."""
        part = self.part(layout)
        return np.array([part.weight_of(held_out) for held_out in (False, True)])

    def sizes_of_features(self, layout: Any) -> tuple[np.ndarray, np.ndarray]:
        """For each feature the sum of its squares, and how often it is not zero."""
        X = self.part(layout).X
        ones = np.ones(X.shape[0])
        if sp.issparse(X):
            d = X.shape[1]
            return np.bincount(X.indices, np.square(X.data, dtype=np.float64), d), np.bincount(X.indices, minlength=d)
        return np.square(X, dtype=np.float64).T @ ones, np.count_nonzero(X, axis=0)

    def extremes(self, layout: Any) -> np.ndarray:
        """The largest value, and minus the least of the features' largest values."""
        train = self.part(layout).train
        smallest, largest = sizes(train) if train.shape[0] else (np.inf, 0.0)
        return np.array([largest, -smallest])

    def sample(self, layout: Any, share: float, seed: int) -> tuple:
        """About this share of the rows to train on, with all targets and weights."""
        part = self.part(layout)
        X, targets, weight = part.of_rows(held_out=False)
        if share < 1:
            chosen = sample_by_content(X, share, seed)
            X, targets = X[chosen], [y[chosen] for y in targets]
            weight = None if weight is None else weight[chosen]
        return X, targets, weight

    # -- sums of a problem --------------------------------------------------------------------------------------------

    def loss(self, layout: Any, task: Any, parameters: Parameters) -> float:
        return self.problem(layout, task).loss_at(parameters)

    def total_weight(self, layout: Any, task: Any) -> float:
        return self.problem(layout, task).total_weight

    def loss_and_gradient(self, layout: Any, task: Any, parameters: Parameters) -> tuple:
        problem = self.problem(layout, task)
        value, slopes = problem.loss_and_gradient(parameters)
        return value, problem.model.pack(slopes), slopes.lambdas

    def diagonal(self, layout: Any, task: Any, parameters: Parameters, floor: float) -> np.ndarray:
        return self.problem(layout, task).diagonal(parameters, floor)

    def slopes_at(self, layout: Any, task: Any, constant: float) -> tuple[float, float, float]:
        return self.problem(layout, task).slopes_at(constant)

    def squares_of(self, layout: Any, task: Any, group: Group, P: np.ndarray, lams: np.ndarray) -> float:
        return self.problem(layout, task).squares_of(group, P, lams)

    def along_lambda(self, layout: Any, task: Any, parameters: Parameters, g: int, s: int) -> tuple[float, float]:
        return self.problem(layout, task).along(parameters, g).slope_and_curvature(s)

    def along_intercept(self, layout: Any, task: Any, parameters: Parameters) -> tuple[float, float, float]:
        """The loss, its slope by the intercept, and a bound on its second derivative."""
        problem = self.problem(layout, task)
        f = problem.shifted_predictions(parameters).astype(np.float64)
        return problem.total_loss(f), *rows.slope_and_curvature(problem.response, f, None)

    # -- block descent ------------------------------------------------------------------------------------------------

    def followers(self, layout: Any) -> np.ndarray:
        """For each feature the first one after it that occurs in a row with it."""
        X = sp.csr_matrix(self.part(layout).X)
        X = X if X.has_sorted_indices else X.sorted_indices()
        d = X.shape[1]
        found = np.full(d, d, dtype=np.int64)
        if X.nnz:
            follows = np.ones(X.nnz, dtype=bool)  # an entry that is not the first of its row
            starts = X.indptr[:-1][np.diff(X.indptr) > 0]
            follows[starts] = False
            at = np.flatnonzero(follows)
            np.minimum.at(found, X.indices[at - 1], X.indices[at])
        return found

    def counts(self, layout: Any) -> np.ndarray:
        """How many rows to train on have each feature."""
        return np.diff(self.part(layout).train.columns.indptr.astype(np.int64))

    def systems(
        self, layout: Any, task: Any, parameters: Parameters, g: int, t: int, start: int, stop: int
    ) -> np.ndarray:
        """Of the features start .. stop, the dummy features being the last: see `loops.blocks.systems`."""
        problem = self.problem(layout, task)
        design, group = problem.design, problem.model.groups[g]
        P, lams = parameters.factors[g], parameters.lambdas[g].astype(np.float64)
        form, d = group.form.cofactor_form, design.shape[1]
        f = problem.shifted_predictions(parameters).astype(np.float64)
        low, high = form.joint(t)
        n = (high - low) * len(P) + 1
        out = np.zeros((stop - start, n * (n + 3) // 2))
        columns, first = (design.columns, 0) if start < d else (design.ones, start)
        T = bases_last(P, np.float64)
        room = blocks.room_for(form, low, high, T, weights(group, lams, np.float64), len(P))
        blocks.systems(
            form, problem.response, tuple(columns), tuple(design.rows), start - first,
            stop - first, group.n_dummies, first, low, high, f, T, len(P), room, out,
        )  # fmt: skip
        return out

    # -- the choice of penalties --------------------------------------------------------------------------------------

    def curvature(self, layout: Any, task: Any, parameters: Parameters) -> tuple:
        """With g_i = w_i l'(y_i, f_i): the sums of g_i, g_i x_i, g_i x_i^2, |g_i| x_i^2, g_i^2 / w_i, and |g_i|."""
        X, g, weight = self._slopes(layout, task, parameters)
        with np.errstate(divide="ignore", invalid="ignore"):
            squares = np.square(g) if weight is None else np.where(weight > 0, np.square(g) / weight, 0.0)
        return (
            float(g.sum()), np.ravel(X.T @ g), np.ravel(squared_columns(X, g)),
            np.ravel(squared_columns(X, np.abs(g))), float(squares.sum()), float(np.abs(g).sum()),
        )  # fmt: skip

    def product(self, layout: Any, task: Any, parameters: Parameters, v: np.ndarray) -> np.ndarray:
        """X^T diag(g) X v."""
        X, g, _ = self._slopes(layout, task, parameters)
        return np.ravel(X.T @ (g * (X @ v)))

    def _slopes(self, layout: Any, task: Any, parameters: Parameters) -> tuple[Any, np.ndarray, np.ndarray | None]:
        def make() -> tuple:
            X, targets, weight = self.part(layout).of_rows(held_out=False)
            problem = Problem.with_target(
                Design(X), task.value.model, task.value.ready_loss, targets[task.value.target], weight, 0.0, 0.0
            )
            f = np.asarray(problem.shifted_predictions(parameters), dtype=np.float64)
            if problem.response.shift is not None:
                f += problem.response.shift
            return X, slopes(problem.response, f)[0], weight

        return self._keep("slopes", (task, parameters.factors[0].tobytes(), float(parameters.intercept[0])), make)


class Part:
    """A chunk as solvers want it."""

    def __init__(self, chunk: Chunk, layout: Layout):
        self.layout = layout
        X = _checked_X(chunk.X)
        X = sp.csr_matrix(X) if layout.is_sparse and not sp.issparse(X) else X
        self.X: Any = X.astype(layout.dtype, copy=False)
        self.y = _checked_y(chunk.y, layout.classes is not None)
        weight = _checked_weight(chunk.weight)
        if layout.classes is not None:
            self.codes = np.searchsorted(layout.classes, self.y)
            if layout.class_weight is not None:
                of_classes = layout.class_weight[self.codes]
                weight = of_classes if weight is None else weight * of_classes
        self.weight = None if weight is None else weight.astype(layout.dtype)
        self.is_held_out: np.ndarray | None = None
        if layout.held_out:
            draws = np.random.RandomState((layout.seed + chunk.index) % 2**32).uniform(size=self.X.shape[0])
            self.is_held_out = draws < layout.held_out

    def targets(self) -> list[np.ndarray]:
        """One for each model: the numbers, or 1 and -1 for one class against the rest."""
        classes, dtype = self.layout.classes, self.layout.dtype
        if classes is None:
            return [self.y.astype(dtype, copy=False)]
        positive = [1] if len(classes) == 2 else range(len(classes))
        return [np.where(self.codes == c, 1.0, -1.0).astype(dtype) for c in positive]

    def of_rows(self, held_out: bool) -> tuple[Any, list[np.ndarray], np.ndarray | None]:
        """X, targets and weights of the rows to train on, or of those held out."""
        if self.is_held_out is None:
            return self.X, self.targets(), self.weight
        rows = np.flatnonzero(self.is_held_out == held_out)
        weight = None if self.weight is None else self.weight[rows]
        return self.X[rows], [y[rows] for y in self.targets()], weight

    def weight_of(self, held_out: bool) -> float:
        X, _, weight = self.of_rows(held_out)
        return float(X.shape[0] if weight is None else weight.sum(dtype=np.float64))

    @cached_property
    def train(self) -> Design:
        return Design(self.of_rows(held_out=False)[0], self.layout.row_order)

    @cached_property
    def validation(self) -> Design:
        return Design(self.of_rows(held_out=True)[0])

    def problem(self, task: Task) -> Problem:
        _, targets, weight = self.of_rows(task.held_out)
        design = self.validation if task.held_out else self.train
        return Problem.with_target(design, task.model, task.ready_loss, targets[task.target], weight, 0.0, 0.0)


def _checked_X(X: Any) -> Any:
    """X as an array or a CSR matrix of finite numbers."""
    if sp.issparse(X):
        X = checked_sparse(X).tocsr()
        X = X if X.dtype in KINDS else X.astype(np.float64)
        finite = np.isfinite(X.data)
        if not finite.all():
            row = int(np.searchsorted(X.indptr, np.argmin(finite), side="right")) - 1
            raise ValueError(f"row {row}: X has a value that is not finite.")
        return X
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} axes, where 2 are needed: rows and features.")
    if X.dtype not in KINDS:
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError) as problem:
            raise ValueError(f"X has values that are no numbers ({problem}). Encode them first.") from problem
    finite = np.isfinite(X).all(axis=1)
    if not finite.all():
        raise ValueError(f"row {int(np.argmin(finite))}: X has a value that is not finite.")
    return X


def _checked_y(y: Any, classify: bool) -> Any:
    if y is None:
        raise ValueError("there are no targets. Pass y.")
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"y has {y.ndim} axes, where 1 is needed.")
    if classify:
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise ValueError(f"row {int(np.argmin(np.isfinite(y)))}: y is not finite.")
        if y.dtype.kind == "O" and (missing := np.fromiter(map(_is_missing, y), bool, len(y))).any():
            raise ValueError(f"row {int(np.argmax(missing))}: y is missing.")
        if y.dtype.kind == "f" and np.any(y != np.round(y)):
            raise ValueError(f"row {int(np.argmax(y != np.round(y)))}: y is {y[y != np.round(y)][0]}, and no class.")
        return y
    try:
        y = y.astype(np.float64)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"y has values that are no numbers ({problem}).") from problem
    if not np.isfinite(y).all():
        raise ValueError(f"row {int(np.argmin(np.isfinite(y)))}: y is not finite.")
    return y


def _is_missing(label: Any) -> bool:
    """None, NaN, and what pandas has for them."""
    return label is None or type(label).__name__ in ("NAType", "NaTType") or bool(label != label)


def _unique(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    try:
        found, codes = np.unique(labels, return_inverse=True)
    except TypeError as problem:
        kinds = sorted({type(label).__name__ for label in labels})
        raise ValueError(f"y has labels of several types: {', '.join(kinds)}. All need the same.") from problem
    return found, codes


def _checked_weight(weight: Any) -> np.ndarray | None:
    if weight is None:
        return None
    weight = np.asarray(weight)
    if weight.ndim == 2 and weight.shape[1] == 1:
        weight = weight[:, 0]
    if weight.ndim != 1:
        raise ValueError(f"sample_weight has {weight.ndim} axes, where 1 is needed.")
    weight = weight.astype(np.float64)
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"row {row}: the weight is {weight[row]}; weights are finite and not negative.")
    return weight
