"""What watches a solver while it trains. A hook is called after every epoch; one that asks to stop returns True.

A hook whose memory matters to the result has ``resume()`` and ``restore(arrays)``, so that a checkpoint can hold it,
and ``content``, whether it would ask to stop.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from polyfm.core.parameters import Parameters
from polyfm.core.problem import Objective
from polyfm.solvers import Monitor, Resume


class EarlyStopping:
    """Stop when the loss on held-out rows has not fallen for `patience` epochs, by this part of it (`gain`); remember
    the best parameters. As long as it has not been below `goal`, patience is `longer`."""

    def __init__(
        self, problem: Objective, patience: int, gain: float = 0.0, goal: float = np.inf, longer: int | None = None
    ):
        self.problem, self.patience, self.gain = problem, patience, gain
        self.goal, self.longer = goal, patience if longer is None else longer
        self.best: float = np.inf
        self.best_parameters: Parameters | None = None
        self.waited = 0
        self.losses: list[float] = []

    @property
    def content(self) -> bool:
        return self.waited >= (self.patience if self.best < self.goal else self.longer)

    def __call__(self, monitor: Monitor, state: Any) -> bool:
        loss = self.problem.mean_loss(state.parameters)
        self.losses.append(loss)
        monitor.note = f"   validation loss {loss:.6g}"
        self.waited = 0 if loss < (1 - self.gain) * self.best else self.waited + 1
        if loss < self.best:
            self.best, self.best_parameters = loss, state.parameters.copy()
        return self.content

    def resume(self) -> Resume:
        arrays = {} if self.best_parameters is None else self.best_parameters.to_arrays("best_")
        return {**arrays, "losses": np.array(self.losses), "numbers": np.array([self.best, self.waited])}

    def restore(self, arrays: Resume) -> None:
        self.losses = arrays["losses"].tolist()
        self.best, self.waited = float(arrays["numbers"][0]), int(arrays["numbers"][1])
        if "best_coef" in arrays:
            self.best_parameters = Parameters.from_arrays(arrays, "best_")


# -- progress ---------------------------------------------------------------------------------------------------------


class Progress(NamedTuple):
    """How far a fit is, for whoever is watching."""

    stage: str  # "training" or "searching"
    done: float
    total: float  # of epochs in training, where `tol` may end it earlier; of fits in a search
    note: str
    objective: float | None = None  # after the epoch
    parameters: Parameters | None = None  # of the target in training; the next epoch changes them


Watch = Callable[[Progress], bool | None]  # True asks to stop training
_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Have `watch` called with the `Progress` of every fit and search within, however deep in a pipeline it is."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def current_watch() -> Watch | None:
    """Who is watching. Other threads cannot see it: ask before they start."""
    return _watch.get()


class Report:
    """Tell the watcher of every epoch."""

    def __init__(self, watch: Watch, epochs_before: int, total: int):
        self.watch, self.epochs_before, self.total = watch, epochs_before, total

    def __call__(self, monitor: Monitor, state: Any) -> bool:
        done = self.epochs_before + len(monitor.history)
        objective = monitor.history[-1]
        note = f"objective {objective:.6g}{monitor.note}"
        return bool(self.watch(Progress("training", done, self.total, note, objective, state.parameters)))
