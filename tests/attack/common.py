"""What attacks share: judged errors, forked children, a loss of one's own, and the objective from scratch."""

import atexit
import linecache
import os
import pickle
import re
import select
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_array

from polyfm.core.design import Design
from polyfm.core.parameters import Parameters
from polyfm.files.fitted import chosen

SHORTEST_MESSAGE = 20  # characters that can say what was given, what is allowed and what to do
OURS = ("builtins", "polyfm", "sklearn", "click")  # whose kinds of errors are raised on purpose
speaking = False  # `--repeat` says what it does


class Failed(AssertionError):  # noqa: N818
    """An attack went through."""


def check(held: Any, what: str) -> None:
    if not held:
        raise Failed(what)


def say(*words: Any) -> None:
    if speaking:
        print(*words, flush=True)


def told(error: BaseException) -> str:
    """What went wrong, in a line, and where; all of it on request."""
    say(traceback.format_exc())
    where = traceback.extract_tb(error.__traceback__)[-1]
    words = str(error).partition("\n")[0][:200]
    if isinstance(error, Failed):
        return words
    return f"{type(error).__name__}: {words} ({where.name}, {os.path.basename(where.filename)}:{where.lineno})"


def refused(error: Exception, kinds: tuple[type, ...] = (ValueError, TypeError, FloatingPointError)) -> str:
    """A label for an error that a user can act on; others, such as numba's and numpy's own, are raised again."""
    if not isinstance(error, kinds) or type(error).__module__.partition(".")[0] not in OURS:
        raise error
    say(f"refused: {type(error).__name__}: {error}")
    check(len(str(error)) >= SHORTEST_MESSAGE, f"says too little: {type(error).__name__}: {error}")
    frame = traceback.extract_tb(error.__traceback__)[-1]
    meant = linecache.getline(frame.filename, frame.lineno or 0).strip().startswith("raise")
    meant = meant and any(name in frame.filename for name in OURS)
    words = re.sub(r"/\S*/|'[^']*'|\"[^\"]*\"|[-+]?[\d.]+(e[-+]?\d+)?", "_", str(error))
    return f"{'refused' if meant else 'refused by chance'}: {words[:100]}"


def temporary() -> Path:
    """A directory for as long as this process, and not its children, lives; in memory, where there is such a place."""
    home = Path(tempfile.mkdtemp(prefix="attack-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


class Huber:
    """A user's own loss, in a module of its own."""

    curvature = 1.0
    residual = True

    def __init__(self, delta=1.0):
        self.delta = delta

    def value(self, y, f):
        r = abs(f - y)
        return 0.5 * r * r if r <= self.delta else self.delta * (r - 0.5 * self.delta)

    def derivative(self, y, f):
        return max(-self.delta, min(self.delta, f - y))


class Child:
    """A forked process that calls work(ready). What that gives or raises comes back through a pipe, after the byte that
    ready() sends. The calling process must not have other threads."""

    def __init__(self, work: Callable[[Callable[[], None]], Any]):
        self._pipe, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._pipe)
            try:
                answer = True, work(lambda: os.write(write, b"r"))
            except BaseException as error:
                answer = False, told(error)
            with os.fdopen(write, "wb") as pipe:
                pickle.dump(answer, pipe)
            os._exit(0)
        os.close(write)
        self._data = b""
        self.began = time.monotonic()

    def wait_until_ready(self, seconds: float = 60.0) -> None:
        check(select.select([self._pipe], [], [], seconds)[0], "the child has not begun")
        os.read(self._pipe, 1)

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def end(self, seconds: float = 60.0) -> tuple[int, Any]:
        """The signal that it died by, or 0, and what its work gave; a Failed where that raised or takes too long."""
        deadline, status = time.monotonic() + seconds, None
        try:
            while select.select([self._pipe], [], [], max(deadline - time.monotonic(), 0))[0]:
                part = os.read(self._pipe, 2**16)
                self._data += part
                if not part:
                    status = os.waitpid(self.pid, 0)[1]
                    break
            check(status is not None, f"is not done after {seconds:.0f} s")
        finally:
            os.close(self._pipe)
            if status is None:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
        assert status is not None
        if os.WIFSIGNALED(status):
            return os.WTERMSIG(status), None
        good, answer = pickle.loads(self._data.lstrip(b"r"))
        check(good, answer)
        return 0, answer


def as_trained(X, y, weight, model) -> tuple[Any, list[np.ndarray], Any]:
    """X, the targets and the weights, as `fit` makes them for training."""
    X = check_array(X, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32])
    if hasattr(model, "classes_"):
        codes, classes = np.searchsorted(model.classes_, y), range(len(model.classes_))
        targets = [np.where(codes == c, 1.0, -1.0) for c in ([1] if len(classes) == 2 else classes)]
    else:
        targets = [np.asarray(y, dtype=np.float64)]
    return X, [t.astype(X.dtype) for t in targets], None if weight is None else np.asarray(weight, dtype=X.dtype)


def recomputed(model, X, y, weight=None, dtype=None) -> tuple[float, float]:
    """The objective of the parameters that a fitted model has, from scratch; and that of all parameters 0. A `dtype`
    stands in for that of the training."""
    X, targets, weight = as_trained(X, y, weight, model)
    if dtype is not None:
        X, targets = X.astype(dtype), [t.astype(dtype) for t in targets]
        weight = None if weight is None else weight.astype(dtype)
    plain = chosen(model)
    recipe = plain._as_chosen(plain._recipe(X.shape[1]))
    rows, held_out = plain._split(X, y, int(plain._seeds(len(targets))[0]))
    design = Design(X if held_out is None else X[rows])
    total = nothing = 0.0
    for y_of_target, p in zip(targets, model._fitted.targets, strict=True):
        problem = recipe.problem(design, y_of_target[rows], None if weight is None else weight[rows])
        if dtype is not None:
            p = Parameters(*(tuple(a.astype(dtype) for a in v) for v in p[:2]), *(a.astype(dtype) for a in p[2:]))
        total += problem.objective(p)
        zeros = Parameters(*(tuple(np.zeros_like(a) for a in v) for v in p[:2]), *map(np.zeros_like, p[2:]))
        nothing += problem.objective(zeros)
    return total, nothing


def raw(model, X) -> np.ndarray:
    return model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
