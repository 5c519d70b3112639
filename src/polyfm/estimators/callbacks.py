"""scikit-learn's callbacks (from 1.9 on): each epoch is reported to them, and they may stop a fit."""

import copy
from typing import Any

from polyfm.core.fitted import Fitted
from polyfm.core.model import Model
from polyfm.core.parameters import Parameters
from polyfm.solvers import Hook, Monitor
from polyfm.training.rank import of_one_rank


class Callbacks:
    """A hook that reports each epoch."""

    def __init__(self, context, estimator, X, y, attributes):
        self.context, self.estimator, self.X, self.y, self.attributes = context, estimator, X, y, attributes

    def __call__(self, monitor: Monitor, state: Any) -> bool:
        epoch = self.context.subcontext(task_name="epoch")
        epoch.call_on_fit_task_begin(estimator=self.estimator, X=self.X, y=self.y)
        return epoch.call_on_fit_task_end(
            estimator=self.estimator,
            X=self.X,
            y=self.y,
            reconstruction_attributes=lambda: self.attributes(state.parameters),
        )


class CallbackTask:
    """The callbacks around a fit, where this scikit-learn has them."""

    def __init__(self, estimator, X, y, n_targets: int, model: Model):
        self.estimator, self.X, self.y, self.n_targets, self.model = estimator, X, y, n_targets, model
        self.context: Any = None
        self.open: list[Any] = []  # of the targets that have been begun
        if hasattr(estimator, "_skl_callbacks"):
            n_subtasks = estimator._most_epochs if n_targets == 1 else n_targets
            self.context = estimator._init_callback_context(max_subtasks=n_subtasks)
            self.context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)

    def hooks(self, index: int) -> list[Hook]:
        """The hooks of a target, whose training begins; that of the one before has ended."""
        if self.context is None:
            return []
        context = self.context
        self._end_target()
        if self.n_targets > 1:
            context = context.subcontext(task_name="class against the rest", max_subtasks=self.estimator._most_epochs)
            context.call_on_fit_task_begin(estimator=self.estimator, X=self.X, y=self.y)
            self.open.append(context)
        return [Callbacks(context, self.estimator, self.X, self.y, self._attributes)]

    def _attributes(self, parameters: Parameters) -> dict[str, Any] | None:
        """What makes a fitted estimator of the current epoch, once all targets have parameters."""
        if self.n_targets > 1:
            return None
        fitted = copy.copy(self.estimator)
        model, targets = self.model, [parameters.copy()]
        if self.estimator.n_components == "auto":
            model, targets = of_one_rank(model, targets)
        fitted._set_fitted(Fitted(model, targets))
        return {name: value for name, value in vars(fitted).items() if name.endswith("_") or name == "_fitted"}

    def _end_target(self) -> None:
        while self.open:
            self.open.pop().call_on_fit_task_end(estimator=self.estimator, X=self.X, y=self.y)

    def end(self) -> None:
        self._end_target()
        if self.context is not None:
            self.context.call_on_fit_task_end(estimator=self.estimator, X=self.X, y=self.y)
