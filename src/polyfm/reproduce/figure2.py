"""Figure 2: direct against lifted optimisation, from the same start. Section 9.2 of the paper."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from polyfm.conversion import converted
from polyfm.core.design import Design
from polyfm.core.model import Group, Model
from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.loops.forms import form_of
from polyfm.losses import Squared
from polyfm.reproduce import pictures
from polyfm.reproduce.data import Data
from polyfm.reproduce.experiment import Experiment, Row
from polyfm.reproduce.traces import normalised, thinned, trace
from polyfm.solvers import make_solver, solver_class

KERNELS = {"A^2": "anova", "H^2": "homogeneous"}
METHODS = {
    "lifted cd": "lifted, coordinate descent",
    "direct cd": "direct, coordinate descent",
    "direct lbfgs": "direct, L-BFGS",
    "direct sgd": "direct, stochastic (AdaGrad)",
}


def cells(grid: Mapping[str, Any]):
    for name, kernel, method, seed in product(grid["set"], grid["kernel"], grid["method"], grid["seed"]):
        if (kernel, method) != ("H^2", "direct cd"):  # not convex in a coordinate
            yield {"set": name, "kernel": kernel, "method": method, "seed": seed}


def starts(kernel: str, settings: Mapping[str, Any], n_features: int, seed: int) -> dict[str, tuple[Model, Parameters]]:
    """One random model in both forms: U and V, and the eigenvectors of (U V^T + V U^T)/2 with lambda = +-1."""
    r = settings["rank"]
    group = Group(form_of(KERNELS[kernel], "lifted", settings["degree"]), r, settings["n_dummies"])
    lifted = Model((group,), fit_linear=False, fit_intercept=False)
    rng = np.random.RandomState(seed)
    U = np.sqrt(settings["init_variance"]) * rng.standard_normal(group.shape(n_features))
    start = Parameters((U,), (np.ones(r),), np.zeros(n_features), np.zeros(1))
    direct, (other,) = converted(lifted, [start], "direct")
    P, lams = other.factors[0], other.lambdas[0]
    other = other._replace(factors=(np.sqrt(np.abs(lams))[:, None, None] * P,), lambdas=(np.sign(lams),))
    return {"lifted": (lifted, start), "direct": (direct, other)}


def compute(cell: Row, settings: Mapping[str, Any], data: Data) -> list[Row]:
    X, y = data.split.X_train, data.split.y_train
    form, solver = cell["method"].split()
    model, start = starts(cell["kernel"], settings, X.shape[1], cell["seed"])[form]
    design = Design(X, solver_class(solver).row_order, cell["seed"])
    problem = Problem.with_target(design, model, Squared(), y, None, 0.0, settings["beta"])
    return trace(
        make_solver(solver, **({"seed": cell["seed"]} if solver == "sgd" else {})),
        problem,
        start,
        seconds=settings["seconds"],
    )


def finish(rows: list[Row]) -> list[Row]:
    return normalised(rows, of=("kernel", "method", "seed"))


def draw(rows: list[Row], settings: Mapping[str, Any], data: Mapping[str, Data]):
    figure, axes = pictures.panels(1, len(settings["kernel"]))
    styles = pictures.styles(METHODS)
    for ax, kernel in zip(axes[0], settings["kernel"], strict=True):
        for method in settings["method"]:
            for run in pictures.runs(rows, kernel=kernel, method=method):
                pictures.curve(ax, run[1:], "seconds", "relative_objective", styles[method])
        ax.set_title(pictures.kernel(kernel))
        ax.set_yscale("log")
        pictures.times(ax)
        ax.set_xlabel("time (seconds)")
        ax.set_ylabel("objective / start's")
    source = next(iter(data.values()))
    return pictures.finished(
        figure,
        f"Direct against lifted: m = {settings['degree']}, $\\beta$ = {settings['beta']:g}, "
        f"r = k/2 = {settings['rank']}\n{source.label}",
        {METHODS[name]: styles[name] for name in settings["method"]},
        "One thread; from the first epoch on. All start from the same model, with one dummy feature.",
    )


EXPERIMENT = Experiment(
    name="figure2",
    title="Comparison of the direct and lifted optimization approaches",
    fixed={"degree": 2, "beta": 100.0, "rank": 10, "n_dummies": 1, "init_variance": 0.01, "seconds": 75.0},
    grid={"set": ["e2006"], "kernel": ["A^2", "H^2"], "method": list(METHODS), "seed": [0]},
    quick={"rank": 2, "seconds": 0.2, "rows": 200},
    quick_grid={},
    cells=cells,
    compute=compute,
    finish=finish,
    table=thinned,
    draw=draw,
    otherwise={"e2006": "imdb"},
    alone=True,
    notes=(
        "Direct starts are the eigenvectors of the lifted start's symmetric matrix, with the size of lambda in the "
        "bases and its sign, kept fixed, in lambda.",
        "A time includes the evaluation of the objective after each epoch.",
    ),
)
