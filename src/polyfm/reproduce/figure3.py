"""Figure 3: recommender systems, the error on unseen ratings against the rank. Section 9.3 of the paper."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.metrics import root_mean_squared_error

from polyfm.reproduce import pictures
from polyfm.reproduce.data import Data
from polyfm.reproduce.experiment import Experiment, Row
from polyfm.reproduce.search import machine

MODELS: dict[str, dict[str, Any]] = {
    "A^2 (augment)": {"kernel": "A", "method": "direct", "fit_lower": "augment", "fit_linear": False},
    "A^2 (linear combination)": {"kernel": "A", "method": "direct", "fit_lower": None, "fit_linear": True},
    "H^2 (augment)": {"kernel": "H", "method": "lifted", "fit_lower": "augment", "fit_linear": False},
    "H^2 (linear combination)": {"kernel": "H", "method": "lifted", "fit_lower": None, "fit_linear": True},
}


def cells(grid: Mapping[str, Any]):
    for name, model, k, seed in product(grid["set"], grid["model"], grid["bases"], grid["seed"]):
        yield {"set": name, "model": model, "bases": k, "seed": seed}


def compute(cell: Row, settings: Mapping[str, Any], data: Data) -> list[Row]:
    if settings["alpha"] == "beta":
        return _one_for_all(cell, settings, data)
    search = machine(
        **MODELS[cell["model"]], settings=settings, bases=cell["bases"], seed=cell["seed"],
        scoring="neg_root_mean_squared_error",
    )  # fmt: skip
    X_train, X_test, y_train, y_test = data.split
    search.fit(X_train, y_train)
    return [
        {
            "beta": search.beta_,
            "cv_rmse": -search.best_score_,
            "test_rmse": float(root_mean_squared_error(y_test, search.predict(X_test))),
            "epochs": search.n_iter_,
        }
    ]


def _one_for_all(cell: Row, settings: Mapping[str, Any], data: Data) -> list[Row]:
    """One penalty for bases and linear weights: each value is fitted anew on each fold."""
    search = machine(
        **MODELS[cell["model"]], settings={**settings, "alpha": 1.0}, bases=cell["bases"], seed=cell["seed"]
    )
    X, X_test, y, y_test = data.split
    scores = np.zeros(len(settings["betas"]))
    for train, held_out in search.cv.split(X):
        for i, beta in enumerate(settings["betas"]):
            model = search._plain_estimator(alpha=beta, beta=beta).fit(X[train], y[train])
            scores[i] += root_mean_squared_error(y[held_out], model.predict(X[held_out])) / settings["folds"]
    beta = settings["betas"][int(np.argmin(scores))]
    model = search._plain_estimator(alpha=beta, beta=beta).fit(X, y)
    return [
        {
            "beta": beta,
            "cv_rmse": float(scores.min()),
            "test_rmse": float(root_mean_squared_error(y_test, model.predict(X_test))),
            "epochs": model.n_iter_,
        }
    ]


def cost(cell: Row) -> float:
    return cell["bases"] * (3 if cell["set"] == "movielens_1m" else 1) * (2 if cell["model"].startswith("H") else 1)


def draw(rows: list[Row], settings: Mapping[str, Any], data: Mapping[str, Data]):
    figure, axes = pictures.panels(1, len(settings["set"]))
    styles = pictures.styles(MODELS)
    for ax, name in zip(axes[0], settings["set"], strict=True):
        for model in settings["model"]:
            pictures.band(
                ax, pictures.runs(rows, set=name, model=model), "bases", "test_rmse", styles[model], markers=True
            )
        ax.set_title(data[name].label)
        ax.set_xticks(settings["bases"])
        lifted = any(MODELS[model]["method"] == "lifted" for model in settings["model"])
        ax.set_xlabel("number of bases k" + (f" ({pictures.kernel('H^2')}: lifted, r = k/2)" if lifted else ""))
        ax.set_ylabel("RMSE on the test part")
    low, high = np.log10(settings["betas"][0]), np.log10(settings["betas"][-1])
    alpha = r"$\alpha$ = " + (r"$\beta$" if settings["alpha"] == "beta" else f"{settings['alpha']:g}")
    return pictures.finished(
        figure,
        f"Recommender systems: error on unseen ratings (lower is better), {alpha}",
        {pictures.kernel(name): styles[name] for name in settings["model"]},
        f"$\\beta$ from {len(settings['betas'])} values in [$10^{{{low:.0f}}}$, $10^{{{high:.0f}}}$] by "
        f"{settings['folds']}-fold cross-validation on the training part.",
    )


EXPERIMENT = Experiment(
    name="figure3",
    title="Predicted rating error against the rank",
    fixed={
        "degree": 2,
        "betas": np.logspace(-3, 3, 10).tolist(),
        "alpha": 1.0,
        "folds": 5,
        "tol": 1e-3,
        "max_iter": 200,
        "scaling": "none: one-hot features, targets as they are, no intercept",
    },
    grid={"set": ["lastfm", "movielens_1m"], "model": list(MODELS), "bases": [4, 10, 20, 30], "seed": [0]},
    quick={"betas": [0.1, 1.0, 10.0], "folds": 2, "max_iter": 20, "rows": 400},
    quick_grid={"bases": [2, 4]},
    cells=cells,
    compute=compute,
    draw=draw,
    cost=cost,
    notes=(
        "A^2 is learned directly with lambda = 1, as factorization machines are; H^2 is lifted with r = k/2, which "
        "gives as many parameters.",
        "The penalty alpha of the linear weights is fixed: the paper names one hyper-parameter, beta.",
    ),
)
# Where linear weights are penalised by the same number, as the caption of the paper's figure can be read.
ONE_PENALTY = replace(
    EXPERIMENT,
    name="figure3-one-penalty",
    title="Predicted rating error against the rank, with one penalty for everything",
    fixed={**EXPERIMENT.fixed, "alpha": "beta", "betas": np.logspace(-1, 2, 7).tolist(), "folds": 3},
    grid={"set": ["movielens_1m"], "model": list(MODELS)[:2], "bases": [10, 30], "seed": [0]},
    notes=(
        EXPERIMENT.notes[0],
        "alpha = beta. One set, one kernel, seven betas in [0.1, 100] and three folds: the time it takes.",
    ),
)
