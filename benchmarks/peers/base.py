"""What adapters share: the data set, the training clock with its points, and runs with growing budgets."""

import importlib.metadata
import importlib.util
import re
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

SPACING = 1.12  # between the seconds of two points: a trace has a few dozen of them, however short an iteration is
ITERATIONS = tuple(m * 10**e for e in range(6) for m in (1, 2, 5))
ENTRIES = 150_000_000  # of a dense matrix that a peer may make: 1.2 GB


@dataclass(frozen=True)
class Dataset:
    """One problem: the same rows, split, rank and degree for everybody. Targets of classification are -1 and 1."""

    name: str
    title: str
    task: str  # "regression" or "classification"
    X_train: Any
    X_test: Any
    y_train: np.ndarray
    y_test: np.ndarray
    rank: int = 10
    degree: int = 2
    share: float = 1.0  # of the seconds that a run may take
    fields: tuple[int, ...] = ()  # widths of the blocks of columns, where each is one one-hot field

    @property
    def classifies(self) -> bool:
        return self.task == "classification"

    @property
    def is_sparse(self) -> bool:
        return sp.issparse(self.X_train)

    @property
    def metric(self) -> str:
        return "1 - AUC" if self.classifies else "RMSE"

    @property
    def clipping(self) -> tuple[float, float]:
        """The range of the training targets, to which predictions are clipped."""
        return float(self.y_train.min()), float(self.y_train.max())

    def score(self, predictions: np.ndarray) -> float:
        """The error on the test set: lower is better."""
        predictions = np.asarray(predictions, dtype=float).ravel()
        if not np.all(np.isfinite(predictions)):
            return float("nan")
        if self.classifies:
            return 1.0 - float(roc_auc_score(self.y_test > 0, predictions))
        return float(np.sqrt(np.mean((np.clip(predictions, *self.clipping) - self.y_test) ** 2)))

    def validation(self) -> "Dataset":
        """The same problem with a fifth of the training rows in place of the test set."""
        X, X_test, y, y_test = train_test_split(self.X_train, self.y_train, test_size=0.2, random_state=1)
        return replace(self, X_train=X, X_test=X_test, y_train=y, y_test=y_test)


class Point(NamedTuple):
    seconds: float  # of training alone
    iteration: int
    score: float
    objective: float | None = None


@dataclass
class Trace:
    """The training clock of one run and the points on its way. Predicting for the test set stops the clock."""

    dataset: Dataset
    seconds: float
    sink: Callable[[Point], None] = lambda point: None
    points: list[Point] = field(default_factory=list)

    def start(self) -> None:
        """Set the clock to zero."""
        self._spent, self._due = 0.0, 0.0
        self._began = time.perf_counter()

    @contextmanager
    def paused(self) -> Iterator[float]:
        """The clock stands still inside; gives the seconds so far."""
        self._spent += time.perf_counter() - self._began
        try:
            yield self._spent
        finally:
            self._began = time.perf_counter()

    def point(
        self,
        iteration: int,
        predict: Callable[[], np.ndarray],
        objective: float | None = None,
        always: bool = False,
    ) -> bool:
        """Note where training stands, unless the last point is too near; whether the time is up."""
        with self.paused() as seconds:
            up = seconds >= self.seconds
            if up or always or seconds >= self._due:
                self._due = SPACING * seconds
                self.points.append(Point(seconds, iteration, self.dataset.score(predict()), objective))
                self.sink(self.points[-1])
        return up

    def in_budgets(
        self, fit: Callable[[int], Callable[[], np.ndarray]], budgets: tuple[int, ...] = ITERATIONS, growth: float = 1.0
    ) -> None:
        """For peers that cannot report on the way: train anew with each budget, as long as the time allows.

        `fit` trains and gives a function that predicts. Time is expected to grow as budget ** growth; where the next
        budget would take too long, one last run fills the time.
        """
        for i, budget in enumerate(budgets):
            self.start()
            if self.point(budget, fit(budget), always=True) or i + 1 == len(budgets):
                return
            ratio = (self.seconds / self.points[-1].seconds) ** (1 / growth)
            if budgets[i + 1] > ratio * budget:
                if (last := int(ratio * budget)) > 1.2 * budget:
                    self.start()
                    self.point(last, fit(last), always=True)
                return


class Adapter:
    """A contestant. Subclasses say what it is called, what it was given, and how it is trained."""

    name: str
    label: str
    module: str = "sklearn"
    package: str = "scikit-learn"
    settings: str  # all that was set, for the page
    needs: str = ""  # what `suits` asks of a data set, in words
    threaded: bool = False  # whether training can use several threads
    ours: bool = False
    grid: tuple[dict[str, Any], ...] = ({},)  # to choose from by validation; the default comes first
    peak_mb: float | None = None  # where training happens in another process, its peak memory

    @property
    def tuned_as(self) -> str:
        """Contestants with the same answer share one choice from the grid."""
        return self.name

    def available(self) -> str | None:
        """None, or why it cannot run here."""
        if importlib.util.find_spec(self.module) is None:
            return f"{self.package} is not installed"
        return None

    def version(self) -> str:
        return importlib.metadata.version(self.package)

    def suits(self, dataset: Dataset) -> bool:
        return True

    def trace(
        self, dataset: Dataset, seconds: float, threads: int, setting: dict[str, Any] | None = None, **options
    ) -> list[Point]:
        """Train for about so many seconds and give the points on the way."""
        trace = Trace(dataset, seconds, **options)
        self.run(trace, dataset, threads, {**self.grid[0], **(setting or {})})
        return trace.points

    def run(self, trace: Trace, dataset: Dataset, threads: int, setting: dict[str, Any]) -> None:
        raise NotImplementedError


def penalties(name: str, *values: float) -> tuple[dict[str, float], ...]:
    return tuple({name: value} for value in values)


def as_csr(X) -> sp.csr_matrix:
    return sp.csr_matrix(X, dtype=np.float64)


def peak_mb(pid: int | str = "self") -> float:
    """Peak memory of a running process, 0 where it cannot be told. (`getrusage` would count the parent's as well.)"""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if pid == "self" else 0.0
    found = re.search(r"VmHWM:\s*(\d+) kB", status)
    return int(found.group(1)) / 1024 if found else 0.0
