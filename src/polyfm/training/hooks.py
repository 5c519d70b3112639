"""What surrounds a solver while it trains: early stopping, checkpoints, scikit-learn's callbacks.

Each is a hook that the monitor calls after every epoch; one that asks to stop returns True.
"""

import copy
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from polyfm.core.model import Model, Parameters
from polyfm.core.problem import Problem
from polyfm.solvers.base import Hook, Monitor, Result

FORMAT = 1
FITTED = ("_fitted_model", "_parameters", "_predictor")  # what predictions need beside the public attributes


class EarlyStopping:
    """Stop when the loss on held-out rows has not fallen for `patience` epochs; remember the best parameters."""

    def __init__(self, problem: Problem, patience: int):
        self.problem, self.patience = problem, patience
        self.best, self.best_parameters, self.waited = np.inf, None, 0
        self.total_weight = float(len(problem.y) if problem.weight is None else problem.weight.sum())
        self.losses: list[float] = []

    def __call__(self, monitor: Monitor, state: Any) -> bool:
        loss = self.problem.total_loss(self.problem.predict(state.parameters)) / self.total_weight
        self.losses.append(loss)
        monitor.note = f"   validation loss {loss:.6g}"
        if loss < self.best:
            self.best, self.best_parameters, self.waited = loss, state.parameters.copy(), 0
        else:
            self.waited += 1
        return self.waited >= self.patience


class Checkpoint:
    """Write the state of training to a file every `interval` epochs: beside it first, then renamed."""

    def __init__(self, path, interval: int, key: str, solver, finished: list[Result]):
        self.path, self.interval, self.key = Path(path), interval, key
        self.solver, self.finished = solver, finished

    def __call__(self, monitor: Monitor, state: Any) -> bool:
        if len(monitor.history) % self.interval == 0:
            current = Result(state.parameters, np.array(monitor.history), False, False, self.solver.extra(state))
            write_checkpoint(self.path, self.key, [*self.finished, current], done=len(self.finished))
        return False


class Callbacks:
    """Report each epoch to scikit-learn's callbacks."""

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
    """scikit-learn's callbacks around a fit, where this scikit-learn has them."""

    def __init__(self, estimator, X, y, n_targets: int):
        self.estimator, self.X, self.y, self.n_targets = estimator, X, y, n_targets
        self.context: Any = None
        self.open: list[Any] = []  # of the targets that have been begun
        if hasattr(estimator, "_skl_callbacks"):
            n_subtasks = estimator.max_iter if n_targets == 1 else n_targets
            self.context = estimator._init_callback_context(max_subtasks=n_subtasks)
            self.context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)

    def hooks(self, model: Model, index: int) -> list[Hook]:
        if self.context is None:
            return []
        context = self.context
        if self.n_targets > 1:
            context = context.subcontext(task_name="class against the rest", max_subtasks=self.estimator.max_iter)
            context.call_on_fit_task_begin(estimator=self.estimator, X=self.X, y=self.y)
            self.open.append(context)

        def attributes(parameters: Parameters) -> dict[str, Any] | None:
            """What makes a fitted estimator of the current epoch, once all targets have parameters."""
            if self.n_targets > 1:
                return None
            fitted = copy.copy(self.estimator)
            fitted._keep_parameters(model, [parameters.copy()])
            return {name: value for name, value in vars(fitted).items() if name.endswith("_") or name in FITTED}

        return [Callbacks(context, self.estimator, self.X, self.y, attributes)]

    def end_target(self) -> None:
        while self.open:
            self.open.pop().call_on_fit_task_end(estimator=self.estimator, X=self.X, y=self.y)

    def end(self) -> None:
        if self.context is not None:
            self.context.call_on_fit_task_end(estimator=self.estimator, X=self.X, y=self.y)


def write_checkpoint(path: Path, key: str, results: list[Result], done: int) -> None:
    """Results of finished targets, and of the one that is being trained, as a zip of plain arrays."""
    arrays: dict[str, np.ndarray] = {}
    targets: list[dict] = []
    meta = {"format": FORMAT, "key": key, "done": done, "targets": targets}
    for i, result in enumerate(results):
        p = result.parameters
        named = {
            **{f"factors{g}": P for g, P in enumerate(p.factors)},
            **{f"lambdas{g}": lams for g, lams in enumerate(p.lambdas)},
            "coef": p.coef,
            "intercept": p.intercept,
            "history": result.history,
            **{f"extra_{name}": array for name, array in result.extra.items()},
        }
        arrays |= {f"{i}/{name}": array for name, array in named.items()}
        targets.append({"groups": len(p.factors), "converged": result.converged, "extra": list(result.extra)})
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_checkpoint(path: Path, key: str) -> tuple[list[Result], Result | None]:
    """The results of finished targets, and that of the one to go on with. Nothing where there is no file."""
    if not path.exists():
        return [], None
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays["meta"].tobytes().decode())
        results = [_result(arrays, i, target) for i, target in enumerate(meta["targets"])]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is not a checkpoint that polyfm can read ({error}). Delete it to start anew, or name another file."
        ) from error
    if meta.get("format") != FORMAT or meta.get("key") != key:
        raise ValueError(
            f"{path} is a checkpoint of other data, other parameters or another version of polyfm. Delete it to start "
            "anew, or name another file."
        )
    return results[: meta["done"]], results[meta["done"]] if len(results) > meta["done"] else None


def _result(arrays: dict[str, np.ndarray], i: int, target: dict) -> Result:
    parameters = Parameters(
        tuple(arrays[f"{i}/factors{g}"] for g in range(target["groups"])),
        tuple(arrays[f"{i}/lambdas{g}"] for g in range(target["groups"])),
        arrays[f"{i}/coef"],
        arrays[f"{i}/intercept"],
    )
    extra = {name: arrays[f"{i}/extra_{name}"] for name in target["extra"]}
    return Result(parameters, arrays[f"{i}/history"], target["converged"], False, extra)
