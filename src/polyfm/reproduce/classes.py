"""Beyond the paper: classification on a9a, logistic and squared hinge loss, beside linear and kernel models."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import LinearSVC

from polyfm.reproduce import pictures
from polyfm.reproduce.data import Data
from polyfm.reproduce.experiment import Experiment, Row
from polyfm.reproduce.search import machine

LOSSES = {"logistic": "logistic loss", "squared_hinge": "squared hinge"}
MODELS: dict[str, dict[str, Any]] = {
    "FM": {"kernel": "A", "method": "direct", "fit_lower": None, "fit_linear": True},
    "PN": {"kernel": "H", "method": "lifted", "fit_lower": "augment", "fit_linear": False},
}
NAMES = {"linear": "linear model", "Nystroem": "Nyström features"}
BASELINES = tuple(NAMES)
MEASURES = {"accuracy": "accuracy", "auc": "area under the ROC curve", "log_loss": "log-loss (lower is better)"}


def cells(grid: Mapping[str, Any]):
    for name, loss, model, seed in product(grid["set"], grid["loss"], grid["model"], grid["seed"]):
        cell = {"set": name, "loss": loss, "model": model}
        if model in MODELS:
            yield from ({**cell, "bases": k, "seed": seed} for k in grid["bases"])
        elif (loss, model) != ("squared_hinge", "Nystroem") and seed == grid["seed"][0]:
            yield {**cell, "bases": 0, "seed": seed}


def compute(cell: Row, settings: Mapping[str, Any], data: Data) -> list[Row]:
    X_train, X_test, y_train, y_test = data.split
    if cell["model"] in MODELS:
        search = machine(
            **MODELS[cell["model"]], settings=settings, bases=cell["bases"], seed=cell["seed"], loss=cell["loss"],
            classify=True, fit_intercept=True, scoring="roc_auc",
        )  # fmt: skip
        search.fit(X_train, y_train)
        beta, score = search.beta_, search.best_score_
    else:
        if cell["model"] == "Nystroem":
            sampled = Nystroem(
                kernel="polynomial", degree=settings["degree"], gamma=1, coef0=1, random_state=cell["seed"],
                n_components=min(settings["landmarks"], X_train.shape[0]),
            )  # fmt: skip
            X_train, X_test = sampled.fit_transform(X_train), sampled.transform(X_test)
        model: Any = LogisticRegression(solver="newton-cholesky", max_iter=1000)
        if cell["loss"] == "squared_hinge":
            model = LinearSVC(loss="squared_hinge", dual=False, max_iter=10_000)
        search = GridSearchCV(
            model,
            {"C": [1 / beta for beta in settings["betas"]]},
            scoring="roc_auc",
            cv=StratifiedKFold(settings["folds"], shuffle=True, random_state=cell["seed"]),
        ).fit(X_train, y_train)
        beta, score = 1 / search.best_params_["C"], search.best_score_
    f = search.decision_function(X_test)
    positive = y_test == search.classes_[1]
    return [
        {
            "beta": float(beta),
            "cv_auc": float(score),
            "accuracy": float(accuracy_score(positive, f > 0)),
            "auc": float(roc_auc_score(positive, f)),
            "log_loss": float(log_loss(positive, expit(f))) if cell["loss"] == "logistic" else None,
        }
    ]


def cost(cell: Row) -> float:
    return cell["bases"] * (2 if cell["model"] == "PN" else 1) if cell["bases"] else 20


def draw(rows: list[Row], settings: Mapping[str, Any], data: Mapping[str, Data]):
    figure, axes = pictures.panels(1, len(MEASURES))
    series = {
        (model, loss): f"{model}, {LOSSES[loss]}" if model in MODELS else f"{NAMES[model]}, {LOSSES[loss]}"
        for model, loss in product(settings["model"], settings["loss"])
        if any((row["model"], row["loss"]) == (model, loss) for row in rows)
    }
    styles = pictures.styles(series, levels=[name for name in series if name[0] in BASELINES])
    for ax, (measure, label) in zip(axes[0], MEASURES.items(), strict=True):
        for (model, loss), style in styles.items():
            runs = [
                [row for row in run if row[measure] is not None] for run in pictures.runs(rows, model=model, loss=loss)
            ]
            if not any(runs):
                continue
            if model in BASELINES:
                pictures.level(ax, runs[0][0][measure], style)
            else:
                pictures.band(ax, runs, "bases", measure, style, markers=True)
        pictures.log_ticks(ax, settings["bases"])
        ax.set_xlabel("number of bases k")
        ax.set_ylabel(label)
    return pictures.finished(
        figure,
        f"Classification: {next(iter(data.values())).label}, m = {settings['degree']}",
        {series[name]: style for name, style in styles.items()},
        f"PN: lifted, r = k/2. $\\beta$ by {settings['folds']}-fold cross-validation of the area under the ROC curve. "
        f"Nyström: {settings['landmarks']:,} rows.",
    )


EXPERIMENT = Experiment(
    name="beyond-classes",
    title="Classification performance as a function of the number of bases",
    fixed={
        "degree": 2,
        "betas": np.logspace(-1, 3, 9).tolist(),
        "alpha": 1.0,
        "folds": 5,
        "tol": 1e-3,
        "max_iter": 100,
        "landmarks": 300,
        "scaling": "none: binary features",
    },
    grid={
        "set": ["a9a"],
        "loss": list(LOSSES),
        "model": [*MODELS, *BASELINES],
        "bases": [2, 4, 8, 16],
        "seed": [0],
    },
    quick={"betas": [0.1, 1.0, 10.0], "folds": 2, "max_iter": 20, "rows": 300, "landmarks": 50},
    quick_grid={"loss": ["logistic"], "bases": [2, 4]},
    cells=cells,
    compute=compute,
    draw=draw,
    cost=cost,
    notes=(
        "FM is direct with lambda = 1 and linear weights; PN is lifted and augmented, with r = k/2.",
        "Baselines: logistic regression and a linear support vector machine, and logistic regression on the Nystroem "
        "features of (1 + <x, z>)^2. The log-loss is that of models with the logistic loss.",
    ),
)
