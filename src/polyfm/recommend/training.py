"""Training of implicit feedback, by the session that trains everything else: Ctrl-C, progress, checkpoints."""

import copy
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.utils import check_random_state

from polyfm.core.parameters import Parameters
from polyfm.core.threads import one_thread_of_blas
from polyfm.estimators.callbacks import CallbackTask
from polyfm.estimators.validation import threads_of
from polyfm.recommend.all_pairs import as_parameters
from polyfm.recommend.pairs import Pairs
from polyfm.solvers.interrupts import deferred_interrupts
from polyfm.training.checkpoint import Checkpoint, check_saved, package_stamp, read_checkpoint
from polyfm.training.hooks import current_watch
from polyfm.training.session import Samples, Session, Start

NOT_IN_KEY = {"max_iter", "verbose", "n_jobs", "checkpoint", "checkpoint_interval", "estimator"}


class Task(CallbackTask):
    """scikit-learn's callbacks around the training of implicit feedback."""

    def _attributes(self, parameters: Parameters) -> dict[str, Any]:
        engine: Any = copy.copy(self.model)
        engine.factors = tuple(T.copy() for T in parameters.factors)
        known = {name: value for name, value in vars(self.estimator).items() if name.endswith("_")}
        return {**known, "_engine": engine, "_polars": self.estimator._polars}


def train_pairs(rec: Any, engine: Pairs, epochs: int | None = None) -> None:
    """Fit a `Recommender` to what was observed; or go on, for a number of epochs, from the factors that it has."""
    problem = engine.problem(rec.users_, rec.items_)
    recipe = engine.recipe(threads_of(rec.n_jobs))
    seeds = check_random_state(rec.random_state).randint(2**31 - 1, size=1)
    path = None if rec.checkpoint is None or epochs else Path(rec.checkpoint)
    saved = checkpoint = None
    if path is not None:
        key = _key(rec, engine)
        saved = read_checkpoint(path, key)
        if saved is not None:
            check_saved(saved, recipe.start(problem, 0), np.dtype(np.float64), 1)
            seeds = saved.seeds
        checkpoint = Checkpoint(path, rec.checkpoint_interval, key, seeds)
    starts: list[Start] | None = [(as_parameters(engine.factors), None)] if epochs else None
    task = None if epochs else Task(rec, None, None, 1, engine)  # type: ignore[arg-type]
    session = Session(recipe, epochs or rec.max_iter, 0.0, rec.verbose, checkpoint=checkpoint, watch=current_watch())
    if task is not None:
        session.more_hooks = task.hooks
    with deferred_interrupts(), one_thread_of_blas():  # its products are small: threads would wait
        result = session.run(Samples(problem, [np.empty(0)]), seeds, starts=starts, saved=saved)[0].result
    engine.factors = result.parameters.factors
    if task is not None:
        task.end()
    rec._engine, rec.history_, rec.n_iter_ = engine, result.history, result.n_iter
    if result.interrupted:
        warnings.warn(
            f"Training was interrupted after {result.n_iter} epoch(s); the model learned so far was kept.",
            UserWarning, stacklevel=4,
        )  # fmt: skip
    elif path is not None:
        path.unlink(missing_ok=True)


def _key(rec: Any, engine: Pairs) -> str:
    """What tells one problem from another."""
    options = {name: value for name, value in rec.get_params(deep=False).items() if name not in NOT_IN_KEY}
    if not isinstance(rec.random_state, int | np.integer):
        options["random_state"] = "drawn"
    seen = engine.seen
    matrices = [rec.users_.X, rec.items_.X, seen.situations, seen.weights]
    data = [[X.data, X.indices, X.indptr, X.shape] for X in matrices]
    return joblib.hash([data, seen.who, seen.what, sorted(options.items()), package_stamp()])
