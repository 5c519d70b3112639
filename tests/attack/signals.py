"""Ctrl-C at any moment of a fit leaves a sound model that can be trained on, or nothing if nothing was learned."""

import random
import signal
import time
import traceback
import warnings
from itertools import product

import numpy as np

import polyfm
from attack.common import Child, check, raw, recomputed, say
from polyfm.solvers import SOLVERS
from polyfm.solvers.registry import solver_class
from polyfm.training.hooks import watching

VARIANTS = (
    "plain", "classes", "threads", "search", "search classes", "search threads", "early stopping", "two signals",
)  # fmt: skip
CASES = list(product(VARIANTS, SOLVERS))
FOREVER = 10**6
N_BETAS = 3
compiled: set = set()


def problem(variant: str, solver: str, rng: random.Random):
    draw = np.random.RandomState(rng.randrange(2**32))
    X = draw.standard_normal((1500, 15))
    y = X[:, 0] * X[:, 1] + X[:, 2] + draw.standard_normal(1500)
    given = {"solver": solver, "n_components": 8, "alpha": 0.1, "random_state": 0, "tol": 0.0}
    given["n_jobs"] = 2 if "threads" in variant else None
    name = "FactorizationMachineRegressor"
    if "classes" in variant:
        name, y = "FactorizationMachineClassifier", np.digitize(y, [-0.5, 0.5])
    if "search" in variant:
        name += "CV"
        given |= {"n_betas": N_BETAS, "cv": 3, "max_iter": rng.randint(3, 30)}
    else:
        given |= {"beta": 0.01, "warm_start": True, "max_iter": rng.choice([5, 50, FOREVER])}
        if variant == "classes":
            given["max_iter"] = rng.choice([5, 50])
        if variant == "early stopping":
            given |= {"early_stopping": True, "n_iter_no_change": 1000}
    return getattr(polyfm, name)(**given), X, y


class Interrupts:
    """Ctrl-C is raised while a fit runs, and only then."""

    def __init__(self) -> None:
        self.came, self.open = 0, True
        signal.default_int_handler = self  # what polyfm takes for Python's own: it steps in between
        signal.signal(signal.SIGINT, self)

    def __call__(self, number, frame) -> None:
        self.came += 1
        if self.open:
            raise KeyboardInterrupt


def interrupted(model, X, y, ready) -> tuple[str, float, list[str]]:
    """How the fit ended, how far it was, and what it warned of."""
    interrupts, seen, place = Interrupts(), [0.0], ""

    def watch(progress):
        seen.append(progress.done)
        if len(seen) == 2:
            ready()  # for those who want to interrupt training, and not what comes before it

    with warnings.catch_warnings(record=True) as caught, watching(watch):
        warnings.simplefilter("always")
        try:
            ready()
            model.fit(X, y)
            interrupts.open = False
        except KeyboardInterrupt as error:
            interrupts.open = False
            say(*traceback.format_tb(error.__traceback__))
            ours = [f for f in traceback.extract_tb(error.__traceback__) if "polyfm" in f.filename]
            place = f"{ours[-1].name} in {ours[-1].filename.rpartition('polyfm/')[2]}" if ours else ""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return place, max(seen), [str(warning.message) for warning in caught]


def judged(variant: str, model, X, y, ready) -> list[str]:
    """In a child: fit until interrupted, then look at what there is."""
    place, done, said = interrupted(model, X, y, ready)
    one_fit, who = "search" not in variant, f"({variant}, {model.solver})"
    if place:
        anything = done >= (1 if one_fit else (N_BETAS + 1) * (model.n_jobs or 1))
        check(
            not anything or variant == "two signals", f"Ctrl-C after {done} epochs or fits escapes from {place} {who}"
        )
        model.set_params(max_iter=2).fit(X, y)
        return ["nothing learned yet"]
    if not hasattr(model, "_fitted"):
        return ["not begun"]
    told = any("interrupted" in text for text in said)
    check(np.all(np.isfinite(raw(model, X))), f"predictions are not finite {who}")
    if one_fit or not (np.any(np.isnan(model.cv_scores_)) or any("search was" in text for text in said)):
        objective, nothing = recomputed(model, X, y)
        gap = abs(objective - model.objective_)
        check(gap <= 1e-6 * abs(objective) + 1e-11 * nothing, f"objective_ is {gap} off that of the parameters {who}")
    else:
        check(told, f"a search that was interrupted says nothing {who}")
    if one_fit:
        before = model.objective_
        model.set_params(max_iter=3).fit(X, y)
        if solver_class(model.solver).monotone:
            above = (model.history_[0] - before) / before
            check(above <= 1e-9, f"training on starts at {above} above objective_ {who}")
    return ["interrupted" if told else "too late"]


def attempt(seed: int) -> list[str]:
    rng = random.Random(seed)
    variant, solver = CASES[seed % len(CASES)]
    model, X, y = problem(variant, solver, rng)
    say(variant, model)
    if (variant, solver) not in compiled:
        type(model)(**{**model.get_params(), "max_iter": 2}).fit(X, y)
        compiled.add((variant, solver))
    child = Child(lambda ready: judged(variant, model, X, y, ready))
    for _ in range(1 + rng.randint(0, 1)):
        child.wait_until_ready()
    time.sleep(rng.choice([0.01, 0.1, 0.4]) * rng.random())
    child.send(signal.SIGINT)
    if variant == "two signals":
        time.sleep(0.01 * rng.random())
        child.send(signal.SIGINT)
    number, labels = child.end()
    check(not number, f"the process died by signal {number} ({variant}, {solver})")
    return labels
