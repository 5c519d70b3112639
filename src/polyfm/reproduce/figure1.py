"""Figure 1: is it useful to fit lambda? Section 9.1 of the paper."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

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
from polyfm.solvers import make_solver

KERNELS = {"A^2": ("anova", "cd"), "H^2": ("homogeneous", "lbfgs")}
LAMBDAS = {"fit": r"$\lambda$ fitted", "ones": r"$\lambda = 1$", "signs": r"$\lambda = \pm 1$ at random"}


def cells(grid: Mapping[str, Any]):
    for name, kernel, lambdas, seed in product(grid["set"], grid["kernel"], grid["lambdas"], grid["seed"]):
        yield {"set": name, "kernel": kernel, "lambdas": lambdas, "seed": seed}


def compute(cell: Row, settings: Mapping[str, Any], data: Data) -> list[Row]:
    X, y = data.split.X_train, data.split.y_train
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), y - y.mean()
    kernel, solver = KERNELS[cell["kernel"]]
    k, d = settings["n_bases"], X.shape[1]
    model = Model((Group(form_of(kernel, "direct", settings["degree"]), k),), fit_linear=False, fit_intercept=False)
    problem = Problem.with_target(Design(X), model, Squared(), y, None, 0.0, settings["beta"])
    rng = np.random.RandomState(cell["seed"])
    P = np.sqrt(settings["init_variance"]) * rng.standard_normal((k, 1, d))
    signs = rng.choice([-1.0, 1.0], size=k)
    start = Parameters((P,), (signs if cell["lambdas"] == "signs" else np.ones(k),), np.zeros(d), np.zeros(1))
    return trace(make_solver(solver, fit_lambdas=cell["lambdas"] == "fit"), problem, start, epochs=settings["epochs"])


def finish(rows: list[Row]) -> list[Row]:
    return normalised(rows, of=("kernel",))


def draw(rows: list[Row], settings: Mapping[str, Any], data: Mapping[str, Data]):
    figure, axes = pictures.panels(2, len(settings["kernel"]), sharey="col")
    styles = pictures.styles(LAMBDAS)
    rows = [{**row, "milliseconds": 1000 * row["seconds"]} for row in rows if row["epoch"] > 0]
    for column, kernel in enumerate(settings["kernel"]):
        solver = {"cd": "coordinate descent", "lbfgs": "L-BFGS"}[KERNELS[kernel][1]]
        axes[0, column].set_title(f"{pictures.kernel(kernel)}, {solver}")
        for x, ax, label in zip(
            ("milliseconds", "epoch"), axes[:, column], ("time (milliseconds)", "epoch"), strict=True
        ):
            for lambdas in settings["lambdas"]:
                runs = pictures.runs(rows, kernel=kernel, lambdas=lambdas)
                pictures.band(ax, runs, x, "relative_objective", styles[lambdas])
            if x == "milliseconds":
                pictures.times(ax)
            ax.set_xlabel(label)
            ax.set_ylabel("objective / worst start's")
    return pictures.finished(
        figure,
        f"Is it useful to fit $\\lambda$?  {next(iter(data.values())).label}, m = {settings['degree']}, "
        f"$\\beta$ = {settings['beta']:g}, k = {settings['n_bases']}",
        {LAMBDAS[name]: styles[name] for name in settings["lambdas"]},
        f"Median and range over {len(settings['seed'])} seeds, from the first epoch on. Features standardised, "
        "target centred.",
    )


EXPERIMENT = Experiment(
    name="figure1",
    title="Effect of fitting lambda when using direct optimization",
    fixed={
        "degree": 2,
        "beta": 10.0,
        "n_bases": 4,
        "init_variance": 0.01,
        "epochs": 100,
        "scaling": "features standardised, target centred",
    },
    grid={"set": ["diabetes"], "kernel": ["A^2", "H^2"], "lambdas": ["fit", "ones", "signs"], "seed": range(10)},
    quick={"epochs": 20},
    quick_grid={"seed": range(2)},
    cells=cells,
    compute=compute,
    finish=finish,
    table=thinned,
    draw=draw,
    alone=True,
    notes=("An epoch of L-BFGS is one iteration. Where lambda is fitted, it is visited before the bases.",),
)
