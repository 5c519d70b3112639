"""Estimators as the options of a command ask for them."""

import inspect
import re
from typing import Any

import click
import numpy as np

import polyfm
from polyfm.cli.options import OF_BAYES
from polyfm.estimators.path_search import OF_ONE_FIT
from polyfm.estimators.validation import threads_of


def make_estimator(kind: str, classify: bool, cv: bool, parameters: dict):
    family = {"fm": "FactorizationMachine", "pn": "PolynomialNetwork", "bayes": "BayesianFactorizationMachine"}[kind]
    if kind == "bayes" and cv:
        raise click.UsageError("--cv does not go with --bayes: there is no penalty to choose.")
    if kind == "bayes" and parameters.get("inference") != "gibbs":
        for parameter in ("n_samples", "thinning"):
            if parameter in parameters:
                raise click.UsageError(f"--{parameter.replace('_', '-')} is for --inference gibbs.")
    name = family + ("Classifier" if classify else "Regressor") + ("CV" if cv else "")
    if cv:
        refused = sorted(set(OF_ONE_FIT) & set(parameters))
        if refused:
            raise click.UsageError(f"--cv does not go with --{refused[0].replace('_', '-')}.")
    cls = getattr(polyfm, name)
    for parameter in parameters.keys() - inspect.signature(cls).parameters.keys():
        flag = f"--{parameter.replace('_', '-')}"
        if kind == "bayes" and parameter not in ("clip", "class_weight"):
            raise click.UsageError(f"{flag} does not go with --bayes.")
        if parameter in OF_BAYES:
            raise click.UsageError(f"{flag} is for --bayes.")
        task = "numbers" if classify else "classes"
        raise click.UsageError(f"{flag} is for targets that are {task}: it has no use here.")
    return cls(**parameters)


def check_estimator(estimator) -> None:
    """What `fit` of an estimator refuses whatever the data are."""
    try:
        estimator._validate_params()
    except ValueError as problem:  # in the words of a command
        raise click.UsageError(re.sub(r"The '(\w+)' parameter of \w+ ", _as_option, str(problem))) from problem
    threads_of(estimator.n_jobs)
    if hasattr(estimator, "_validate_options") and not hasattr(type(estimator), "_plain"):
        estimator._validate_options()


def _as_option(found: re.Match) -> str:
    return f"--{found[1].replace('_', '-')} "


def described(model) -> dict[str, Any]:
    described = {
        "model": type(model).__name__,
        "degree": int(np.max(model.degrees_)),
        "bases": len(model.degrees_),
        "alpha": getattr(model, "alpha_", getattr(model, "alpha", None)),
        "beta": getattr(model, "beta_", getattr(model, "beta", None)),
        "solver": model.solver_,
        "epochs": int(model.n_iter_),
    }
    if hasattr(model, "effective_rank_"):
        described = {name: value for name, value in described.items() if name not in ("alpha", "beta")}
        described["effective rank"] = model.effective_rank_
    if hasattr(model, "noise_"):
        described["noise"] = model.noise_
    if hasattr(model, "objective_"):
        described["objective"] = model.objective_
    return described
