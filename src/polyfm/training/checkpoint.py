"""Checkpoints: all that training needs to go on as if it had never stopped, in a file that is whole or not there."""

import shutil
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polyfm.core.parameters import Parameters
from polyfm.files import container
from polyfm.files.atomic import ModelFileError, check_writable
from polyfm.loops.cache import hash_of_sources
from polyfm.solvers import Monitor, Result, Resume, Solver

CODE = ("value", "derivative")  # of a loss
COPIES = 6  # of the parameters, in size: themselves, those best on held-out rows, what a solver goes on from
FORMAT = container.Format("polyfm-checkpoint", 2, "checkpoint", "Delete it to start anew, or name another file.")


class Outcome(NamedTuple):
    """One target, trained."""

    result: Result
    validation_losses: np.ndarray | None = None


class Running(NamedTuple):
    """One target, in the middle of its training."""

    parameters: Parameters
    first: float  # the objective at the start
    history: list[float]
    resume: Resume  # of the solver
    hooks: dict[str, Resume]  # by the name of the class


class Saved(NamedTuple):
    """What a checkpoint holds."""

    seeds: np.ndarray
    finished: list[Outcome]
    running: Running | None


class Checkpoint:
    """A hook that writes the state of training every `interval` epochs. Let it be the last of the hooks."""

    def __init__(self, path: Path, interval: int, key: str, seeds: np.ndarray):
        self.path, self.interval, self.key, self.seeds = path, interval, key, seeds
        self.solver: Solver | None = None
        self.finished: list[Outcome] = []
        self.hooks: list[Any] = []
        self.failed = False  # to write one, and said so

    def begin_target(self, solver: Solver, finished: list[Outcome], hooks: list[Any], start: Parameters) -> None:
        self.solver, self.finished = solver, list(finished)
        self.hooks = [hook for hook in hooks if hasattr(hook, "resume")]
        self.check_place(start, len(finished))

    def check_place(self, parameters: Parameters, n_finished: int = 0) -> None:
        """Say before training that a checkpoint could not be written."""
        size = sum(array.nbytes for array in parameters.to_arrays().values()) * (n_finished + COPIES)
        check_writable(self.path, ModelFileError)
        free = shutil.disk_usage(self.path.resolve().parent).free
        if free < size:
            raise ValueError(
                f"{self.path}: a checkpoint takes about {size / 1e6:.3g} MB, and its disk has {free / 1e6:.3g} MB "
                "left. Make room, or name another file."
            )

    def __call__(self, monitor: Monitor, state: Any) -> bool:
        if len(monitor.history) % self.interval == 0:
            assert self.solver is not None
            hooks = {type(hook).__name__: hook.resume() for hook in self.hooks}
            running = Running(state.parameters, monitor.first, monitor.history, self.solver.resume(state), hooks)
            try:
                write_checkpoint(self.path, self.key, Saved(self.seeds, self.finished, running))
            except (ModelFileError, OSError) as problem:  # a full disk is no reason to lose what is being learned
                if not self.failed:
                    warnings.warn(f"No checkpoint was written, and training goes on: {problem}", stacklevel=2)
                self.failed = True
        return False


def write_checkpoint(path: Path, key: str, saved: Saved) -> None:
    arrays: dict[str, np.ndarray] = {"seeds": saved.seeds}
    targets: list[dict[str, Any]] = []
    for i, outcome in enumerate(saved.finished):
        result = outcome.result
        arrays |= result.parameters.to_arrays(f"{i}/") | {f"{i}/history": result.history}
        if outcome.validation_losses is not None:
            arrays[f"{i}/validation_losses"] = outcome.validation_losses
        arrays |= _under(f"{i}/resume/", result.resume) | _under(f"{i}/learned/", result.learned)
        targets.append({"converged": bool(result.converged)})
    if saved.running is not None:
        i, running = len(saved.finished), saved.running
        arrays |= running.parameters.to_arrays(f"{i}/") | {f"{i}/history": np.array([running.first, *running.history])}
        arrays |= _under(f"{i}/resume/", running.resume)
        for name, resume in running.hooks.items():
            arrays |= _under(f"{i}/hooks/{name}/", resume)
        targets.append({"converged": None})
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    container.write(path, {"key": key, "targets": targets}, arrays, FORMAT)


def read_checkpoint(path: Path, key: str) -> Saved | None:
    """What the checkpoint holds, or None where there is no file."""
    if not path.exists():
        return None
    try:
        header, arrays = container.read(path, FORMAT)
        same, saved = header["key"] == key, _saved(header["targets"], arrays)
    except (ModelFileError, OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is not a checkpoint that polyfm can read ({error}). Delete it to start anew, or name another file."
        ) from error
    if not same:
        raise ValueError(
            f"{path} is a checkpoint of other data, other parameters or another version of polyfm. Delete it to start "
            "anew, or name another file."
        )
    return saved


def check_saved(saved: Saved, like: Parameters, dtype: Any, n_targets: int) -> None:
    """Refuse a checkpoint, sound as a file, that does not hold what this model and these data would have written:
    parameters of the shapes of `like`."""
    shapes = {name: array.shape for name, array in like.to_arrays().items()}
    running = [] if saved.running is None else [saved.running.parameters]
    for hook in {} if saved.running is None else saved.running.hooks.values():
        if "best_coef" in hook:
            running.append(Parameters.from_arrays(hook, "best_"))
    histories = [outcome.result.history for outcome in saved.finished]
    if saved.running is not None:
        histories.append(np.array([saved.running.first, *saved.running.history]))
    sound = (
        saved.seeds.shape == (n_targets,) and saved.seeds.dtype == np.int64 and len(histories) <= n_targets
        and bool(np.all((saved.seeds >= 0) & (saved.seeds < 2**32)))
        and all(history.ndim == 1 and len(history) and np.isfinite(history).all() for history in histories)
    )  # fmt: skip
    for hook in {} if saved.running is None else saved.running.hooks.values():
        epochs = len(histories[-1]) - 1
        sound &= {name: array.shape for name, array in hook.items() if not name.startswith("best_")} == {
            "losses": (epochs,),
            "numbers": (2,),
        }
        sound &= not any(np.isnan(array).any() for array in hook.values())
    for parameters in [*(outcome.result.parameters for outcome in saved.finished), *running]:
        arrays = parameters.to_arrays()
        sound &= {name: array.shape for name, array in arrays.items()} == shapes
        sound &= all(array.dtype == dtype and bool(np.isfinite(array).all()) for array in arrays.values())
    if not sound:
        raise ValueError(
            "The checkpoint has the right key, but holds other arrays than this model and these data have. Delete it "
            "to start anew, or name another file."
        )


def _saved(targets: list[dict[str, Any]], arrays: dict[str, np.ndarray]) -> Saved:
    finished: list[Outcome] = []
    running = None
    for i, target in enumerate(targets):
        own = _below(f"{i}/", arrays)
        parameters, resume = Parameters.from_arrays(own), _below("resume/", own)
        if target["converged"] is None:
            first, *history = own["history"].tolist()
            names = {name.split("/")[1] for name in own if name.startswith("hooks/")}
            hooks = {name: _below(f"hooks/{name}/", own) for name in names}
            running = Running(parameters, first, history, resume, hooks)
        else:
            learned = _below("learned/", own)
            result = Result(parameters, own["history"], bool(target["converged"]), False, resume, learned)
            finished.append(Outcome(result, own.get("validation_losses")))
    return Saved(arrays["seeds"], finished, running)


def _under(prefix: str, arrays: Resume) -> Resume:
    return {prefix + name: array for name, array in arrays.items()}


def _below(prefix: str, arrays: Resume) -> Resume:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


# -- keys -------------------------------------------------------------------------------------------------------------


@cache
def package_stamp() -> str:
    """A hash of all of polyfm's sources: another version would go on in another way."""
    return hash_of_sources(Path(__file__).parent.parent)


def identity_of(loss: Any) -> tuple:
    """What tells one loss from another, in any process: its class, its numbers and its code."""
    cls = type(loss)
    code = []
    for name in CODE:
        compiled = getattr(cls, name).__code__
        # Constants that are objects of their own would bring the address of this process with them.
        code.append((compiled.co_code, [c for c in compiled.co_consts if isinstance(c, int | float | str | None)]))
    return cls.__module__, cls.__qualname__, tuple(loss), code
