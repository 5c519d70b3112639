"""Low-budget regression: the score against the number of bases, beside kernel methods of the same degree.

What Figure 4 (degree 3) and the experiment beyond it (degrees 4 and 5) share.
"""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from polyfm.reproduce import pictures, search
from polyfm.reproduce.data import Data, scaled
from polyfm.reproduce.experiment import Row

MODELS = ("H^m", "A^m", "Nystroem", "random selection", "kernel ridge")
SIZES = {"abalone": 1.0, "cadata": 5.0, "cpusmall": 3.0}
FIXED = {
    "betas": np.logspace(-4, 4, 10).tolist(),
    "alpha": 1.0,
    "folds": 5,
    "tol": 3e-4,
    "max_iter": 200,
    "anova": "lifted",
    "scaling": "features to [-1, 1], target to mean 0 and variance 1, by the training part; no intercept",
}
QUICK: dict[str, Any] = {"betas": [1e-3, 1e-1, 10.0], "folds": 2, "tol": 1e-3, "max_iter": 20, "rows": 200}
NOTES = ("Kernel ridge regression is solved in the space of the kernel's monomials where it is the smaller one.",)


def cells(grid: Mapping[str, Any]):
    """Numbers of bases are multiples of the degree: `bases` counts these."""
    for name, degree, model, seed in product(grid["set"], grid["degree"], grid["model"], grid["seed"]):
        cell = {"set": name, "degree": degree, "model": model}
        if model != "kernel ridge":
            yield from ({**cell, "bases": degree * r, "seed": seed} for r in grid["rank"])
        elif seed == grid["seed"][0]:
            yield {**cell, "bases": 0, "seed": seed}


def compute(cell: Row, settings: Mapping[str, Any], data: Data) -> list[Row]:
    split = scaled(data.split)
    degree, bases, seed = cell["degree"], cell["bases"], cell["seed"]
    if cell["model"] in ("H^m", "A^m"):
        method = "lifted" if cell["model"] == "H^m" else settings["anova"]
        model = search.machine(
            kernel=cell["model"][0], method=method, fit_lower="augment", fit_linear=False, settings=settings,
            degree=degree, bases=bases, seed=seed, init_lambdas="random_signs" if method == "direct" else "ones",
        )  # fmt: skip
        model.fit(split.X_train, split.y_train)
        r2 = model.score(split.X_test, split.y_test)
        return [{"beta": model.beta_, "cv_r2": model.best_score_, "test_r2": float(r2), "epochs": model.n_iter_}]
    fit = {
        "Nystroem": search.nystroem(degree, bases, seed),
        "random selection": search.random_selection(degree, bases, seed),
        "kernel ridge": search.on_kernel(degree),
    }[cell["model"]]
    return [search.ridge(fit, split, settings["betas"], settings["folds"], seed)._asdict()]


def cost(cell: Row) -> float:
    """In proportion to the time that a cell takes, roughly."""
    size, m = SIZES[cell["set"]], cell["degree"]
    if cell["model"] == "A^m":
        return size * cell["bases"] * (8 if m == 3 else 2 * m)
    if cell["model"] == "H^m":
        return size * cell["bases"] * 3
    return size * (4 ** (m - 1) if cell["model"] == "kernel ridge" else 1)


def draw(rows: list[Row], settings: Mapping[str, Any], data: Mapping[str, Data]):
    degrees = settings["degree"]
    figure, axes = pictures.panels(len(degrees), len(settings["set"]))
    styles = pictures.styles(MODELS, levels=["kernel ridge"])
    for i, degree in enumerate(degrees):
        for ax, name in zip(axes[i], settings["set"], strict=True):
            for model in settings["model"]:
                runs = pictures.runs(rows, set=name, degree=degree, model=model)
                if model == "kernel ridge":
                    pictures.level(ax, runs[0][0]["test_r2"], styles[model])
                else:
                    pictures.band(ax, runs, "bases", "test_r2", styles[model], markers=True)
            ticks = [degree * r for r in settings["rank"]]
            pictures.log_ticks(ax, ticks)
            shown = [row["test_r2"] for row in rows if (row["set"], row["degree"]) == (name, degree)]
            pictures.top_of(ax, shown, depth=0.35)
            ax.set_title(data[name].label + (f", m = {degree}" if len(degrees) > 1 else ""))
            ax.set_xlabel("number of bases k")
            ax.set_ylabel("$R^2$ on the test part")
    m = f"m = {', '.join(map(str, degrees))}"
    names = {
        "H^m": f"{pictures.kernel('H^m')}, lifted",
        "A^m": f"{pictures.kernel('A^m')}, {settings['anova']}",
        "Nystroem": "Nyström, $P^m_1$",
        "random selection": "random selection, $P^m_1$",
        "kernel ridge": "kernel ridge, $P^m_1$",
    }
    seeds = len(settings["seed"])
    return pictures.finished(
        figure,
        f"Regression with few bases, {m} (higher is better)",
        {names[name]: styles[name] for name in settings["model"]},
        (f"Median and range over {seeds} seeds. " if seeds > 1 else "")
        + "Lifted: r = k/m. Features scaled to [-1, 1], target standardised. $\\beta$ by "
        f"{settings['folds']}-fold cross-validation.",
    )
