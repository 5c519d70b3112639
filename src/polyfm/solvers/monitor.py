"""The monitor: it watches the objective, prints, says when to stop, and keeps the history."""

import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

BAR = 30  # characters
NEGLIGIBLE = 1e-12  # an objective this small a part of the first is zero for all purposes


@dataclass
class Monitor:
    """Called after each epoch with the objective and the solver's state.

    Training has converged when `window` epochs lower the best objective by less than the fraction `tol` of it. The
    criterion is relative, so that it means the same in any units of X and y. An objective whose zero means nothing,
    such as a log-likelihood, has a `unit` instead, of which `tol` is a fraction. Without a window there is nothing to
    judge, and training goes on until `max_iter` or until a hook is content. Where it is known how many epochs are
    `enough`, the objective is not asked.
    """

    first: float  # the objective at the start
    max_iter: int
    tol: float
    window: int | None = 1
    verbose: int = 0
    hooks: tuple[Callable[["Monitor", Any], bool], ...] = ()
    history: list[float] = field(default_factory=list)
    converged: bool = False
    note: str = ""  # what a hook wants printed, such as a validation score
    began: float = field(default_factory=time.perf_counter)
    unit: float | None = None
    enough: int | None = None

    def __post_init__(self) -> None:
        self._lowest = list(itertools.accumulate([self.first, *self.history], min))  # so far, after each epoch
        if self.history:  # of a run that goes on: it may have been stopped just when it was done
            self._judge()
            self.converged |= any(getattr(hook, "content", False) for hook in self.hooks)

    @property
    def last(self) -> float:
        return self.history[-1] if self.history else self.first

    @property
    def done(self) -> bool:
        return self.converged or len(self.history) >= self.max_iter

    def __call__(self, objective: float, state: Any) -> bool:
        if not np.isfinite(objective):
            raise FloatingPointError(
                f"The objective became {objective} in epoch {len(self.history) + 1}: values overflow. Scale the "
                "features, or raise beta and alpha."
            )
        before = self.last
        self.history.append(float(objective))
        self._lowest.append(min(self._lowest[-1], float(objective)))
        self._judge()
        for hook in self.hooks:
            self.converged |= bool(hook(self, state))  # somebody is content with what there is
        if self.verbose:
            self._show(objective, (objective - before) / abs(before) if before else 0.0)
        return self.done

    def _judge(self) -> None:
        if self.enough is not None:
            self.converged = len(self.history) >= self.enough
            return
        if self.window is None:
            return
        self.converged = self.unit is None and bool(self.history[-1] <= NEGLIGIBLE * self.first)
        if len(self.history) >= self.window:
            earlier, latest = self._lowest[-1 - self.window], min(self.history[-self.window :])
            self.converged |= bool(earlier - latest <= self.tol * (abs(earlier) if self.unit is None else self.unit))

    def nothing_left(self, objective: Callable[[Any], float], state: Any) -> None:
        """Nothing lowers the objective any more: training has converged, with at least one epoch in its history."""
        if not self.history:
            self(objective(state.parameters), state)
        self.converged = True

    def _show(self, objective: float, change: float) -> None:
        """A line an epoch and, where there is a terminal, a bar below it that the next line takes the place of."""
        seconds, epoch = time.perf_counter() - self.began, len(self.history)
        line = f"epoch {epoch:4d}   objective {objective:.8g}   change {change:+.2e}   {seconds:.2f} s{self.note}"
        if not sys.stdout.isatty():
            print(line, flush=True)
            return
        part = epoch / self.max_iter
        ahead = seconds * (1 / part - 1)
        bar = f"{'█' * round(BAR * part):░<{BAR}} {part:4.0%} of {self.max_iter} epochs, at most {ahead:.0f} s more"
        print(f"\r\033[K{line}", end="\n" if self.done else f"\n{bar}", flush=True)
