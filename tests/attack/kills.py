"""Training that is killed (-9) at any moment and started again ends with the bits of training that nobody disturbed."""

import random
import shutil
import signal
import tempfile
import time
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from attack.common import Child, Huber, check, say, temporary
from polyfm import FactorizationMachineClassifier, FactorizationMachineRegressor
from polyfm.solvers import SOLVERS

VARIANTS = (
    "plain", "early stopping", "classes", "own loss", "no seed", "lambdas", "float32", "tol", "weights", "one-hot",
)  # fmt: skip
CASES = [
    case for case in product(VARIANTS, SOLVERS) if case[0] != "lambdas" or SOLVERS[case[1]].fits_lambdas
]  # (variant, solver)
compiled: set = set()
home = Path()


@cache
def prepare() -> None:
    global home
    home = temporary()


def problem(variant: str, solver: str, rng: random.Random):
    """An estimator, and what to fit it to."""
    draw = np.random.RandomState(rng.randrange(2**32))
    X = draw.standard_normal((90, 6))
    y = X[:, 0] * X[:, 1] + X[:, 2] + draw.standard_normal(90)
    weight = None
    given = {"solver": solver, "n_components": 3, "alpha": 0.1, "beta": 0.01, "random_state": 0, "tol": 0.0}
    given |= {"max_iter": rng.randint(5, 60), "checkpoint_interval": rng.randint(1, 3)}
    kind = FactorizationMachineRegressor
    if variant == "early stopping":
        given |= {"early_stopping": True, "n_iter_no_change": 4}
    elif variant == "classes":
        kind, y, given["max_iter"] = FactorizationMachineClassifier, np.digitize(y, [-0.5, 0.5]), rng.randint(3, 20)
    elif variant == "own loss":
        given["loss"] = Huber(0.5)
    elif variant == "no seed":
        given["random_state"] = None
    elif variant == "lambdas":
        given["fit_lambdas"] = True
    elif variant == "float32":
        X = X.astype(np.float32)
    elif variant == "tol":
        given["tol"] = 10.0 ** -rng.randint(2, 6)
    elif variant == "weights":
        weight = draw.uniform(0, 2, 90)
    elif variant == "one-hot":
        codes = draw.randint(8, size=(90, 2))
        X = sp.csr_matrix(np.hstack([np.eye(8)[codes[:, 0]], np.eye(8)[codes[:, 1]]]))
    return kind(**given), X, y, weight


def facts(model) -> dict[str, bytes]:
    names = ("components_", "coef_", "intercept_", "lambdas_", "history_", "n_iter_", "validation_losses_")
    return {name: np.asarray(getattr(model, name)).tobytes() for name in names if hasattr(model, name)}


def training(model, X, y, weight, path=None) -> Child:
    def work(ready):
        np.random.seed(time.time_ns() % 2**32)  # a forked child would draw what its parent would
        return facts(type(model)(**{**model.get_params(), "checkpoint": path}).fit(X, y, sample_weight=weight))

    return Child(work)


def killed(child: Child, seconds: float) -> dict[str, bytes] | None:
    """Kill it so many seconds after its start; what it gave, where it was faster."""
    time.sleep(max(child.began + seconds - time.monotonic(), 0))
    child.send(signal.SIGKILL)
    number, gave = child.end()
    check(number in (0, signal.SIGKILL), f"the process died by signal {number}")
    return gave


def attempt(seed: int) -> list[str]:
    rng = random.Random(seed)
    variant, solver = CASES[seed % len(CASES)]
    model, X, y, weight = problem(variant, solver, rng)
    say(variant, model)
    if (variant, solver) not in compiled:
        type(model)(**{**model.get_params(), "max_iter": 2}).fit(X, y, sample_weight=weight)
        compiled.add((variant, solver))
    _, whole = training(model, X, y, weight).end()
    labels = []
    with tempfile.TemporaryDirectory(dir=home) as directory:
        path, copy = Path(directory) / "run", Path(directory) / "copy"
        began = time.monotonic()
        _, gave = training(model, X, y, weight, path).end()
        seconds = time.monotonic() - began
        check(variant == "no seed" or gave == whole, f"a checkpoint alone changes the result ({variant}, {solver})")
        for _ in range(rng.randint(1, 4)):
            if killed(training(model, X, y, weight, path), rng.uniform(rng.choice([0.0, 0.5]), 1.0) * seconds) is None:
                labels.append("killed with a checkpoint" if path.exists() else "killed without a checkpoint")
        if path.exists():
            shutil.copy(path, copy)
        _, gave = training(model, X, y, weight, path).end()
        check(not path.exists(), f"the checkpoint stays behind ({variant}, {solver})")
        if variant == "no seed":
            if not copy.exists():
                return labels
            _, whole = training(model, X, y, weight, copy).end()
        differ = [name for name in whole if gave.get(name) != whole[name]]
        check(not differ, f"{', '.join(differ)} differ after {labels} ({variant}, {solver})")
    return labels
