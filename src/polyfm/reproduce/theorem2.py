"""Theorem 2 of the paper, seen: the nuclear norm, lifted and direct objectives have one minimum, whatever beta is."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

import polyfm
from polyfm.reproduce import pictures
from polyfm.reproduce.data import Data
from polyfm.reproduce.experiment import Experiment, Row
from polyfm.reproduce.search import FAMILIES
from polyfm.training.scales import Rows, linear_models, penalty_scales

OBJECTIVES = {
    "nuclear norm": "nuclear norm, certified (rank found by the gap)",
    "lifted": "lifted, r = d",
    "direct": r"direct, $\lambda = \pm 1$, k = 2d",
}


def cells(grid: Mapping[str, Any]):
    for name, kernel, objective, part, seed in product(
        grid["set"], grid["kernel"], grid["objective"], grid["part"], grid["seed"]
    ):
        yield {"set": name, "kernel": kernel, "objective": objective, "part": part, "seed": seed}


def compute(cell: Row, settings: Mapping[str, Any], data: Data) -> list[Row]:
    X, y = (np.asarray(a, dtype=np.float64) for a in (data.split.X_train, data.split.y_train))
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    d = X.shape[1]
    kind = getattr(polyfm, FAMILIES[cell["kernel"][0]] + "Regressor")
    given = {"fit_lower": None, "fit_linear": False, "fit_intercept": False, "random_state": cell["seed"]}
    recipe = kind(method="lifted", alpha=1.0, beta=1.0, **given)._recipe(d)
    rows = Rows(X, [y], None)
    (largest,) = penalty_scales(recipe, rows, linear_models(recipe.model, recipe.loss, rows, 1.0))
    given |= {"alpha": 1.0, "beta": cell["part"] * largest, "max_iter": settings["max_iter"]}
    to_the_end = {"solver": "newton", "tol": settings["tol"]}
    own = {
        "nuclear norm": {
            "n_components": "auto", "method": "direct", "init_lambdas": "random_signs", "gap_tol": settings["gap_tol"],
        },
        "lifted": {"n_components": d, "method": "lifted", **to_the_end},
        "direct": {
            "n_components": 2 * d, "method": "direct", "init_lambdas": np.resize([1.0, -1.0], 2 * d), **to_the_end,
        },
    }[cell["objective"]]  # fmt: skip
    model = kind(**given, **own).fit(X, y)
    found = polyfm.certify(model, X, y)
    return [
        {
            "beta": given["beta"],
            "minimum": float(model.objective_),
            "lower_bound": found.lower_bound,
            "relative_gap": found.relative_gap,
            "rank": found.rank,
            "null": float(0.5 * (y @ y)),
        }
    ]


def finish(rows: list[Row]) -> list[Row]:
    """How far each minimum is above the best bound from below that any of the three proves."""
    bounds: dict[tuple, float] = {}
    for row in rows:
        place = row["set"], row["kernel"], row["part"]
        bounds[place] = max(bounds.get(place, -np.inf), row["lower_bound"])
    return [
        {**row, "above_bound": (row["minimum"] - bounds[row["set"], row["kernel"], row["part"]]) / row["minimum"]}
        for row in rows
    ]


def draw(rows: list[Row], settings: Mapping[str, Any], data: Mapping[str, Data]):
    columns = list(product(settings["set"], settings["kernel"]))
    figure, axes = pictures.panels(2, len(columns))
    styles = pictures.styles(OBJECTIVES)
    rows = [{**row, "relative": row["minimum"] / row["null"], "above": max(row["above_bound"], 1e-12)} for row in rows]
    for column, (name, kernel) in enumerate(columns):
        for objective in settings["objective"]:
            runs = pictures.runs(rows, set=name, kernel=kernel, objective=objective)
            for ax, y in zip(axes[:, column], ("relative", "above"), strict=True):
                pictures.band(ax, runs, "part", y, styles[objective], markers=True)
                ax.set_xscale("log")
                ax.set_xlabel(r"$\beta / \beta_{max}$")
        axes[0, column].set_title(f"{data[name].label}, {pictures.kernel(kernel)}")
        axes[0, column].set_ylabel("minimum / that of no model")
        axes[1, column].set_yscale("log")
        axes[1, column].set_ylabel("above the certified bound")
    return pictures.finished(
        figure,
        "Theorem 2: three objectives, one minimum",
        {OBJECTIVES[name]: styles[name] for name in settings["objective"]},
        "Above: the minima that training reaches. Below: how far they are, at most, from the smallest possible value.",
    )


EXPERIMENT = Experiment(
    name="theorem2",
    title="The minima of the nuclear norm, lifted and direct objectives",
    fixed={
        "tol": 1e-12,
        "max_iter": 2000,
        "gap_tol": 1e-6,
        "scaling": "features and target standardised; no linear weights, no intercept",
    },
    grid={
        "set": ["diabetes", "cadata"],
        "kernel": ["A^2", "H^2"],
        "objective": list(OBJECTIVES),
        "part": [1.1, 0.7, 0.4, 0.2, 0.1, 0.05, 0.02, 0.01],
        "seed": [0, 1, 2],
    },
    quick={"rows": 150, "gap_tol": 1e-4, "max_iter": 300},
    quick_grid={"part": [1.1, 0.3], "seed": [0]},
    cells=cells,
    compute=compute,
    finish=finish,
    draw=draw,
    notes=(
        "beta_max is the beta from which on the best model is zero. Each lifted and direct model starts from random "
        "factors; the certified one depends on no seed.",
        "The bound is the best that any of the models at this beta proves.",
    ),
)
