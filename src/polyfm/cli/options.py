"""Options of the command line, made from the estimators' own parameters, and how help shows them."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import click

from polyfm.cli.paths import output_option
from polyfm.estimators import (
    BayesianFactorizationMachineRegressor,
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkRegressor,
)
from polyfm.loops.forms import FORMS
from polyfm.losses import LOSSES
from polyfm.solvers import SOLVERS
from polyfm.solvers.registry import INFERENCE

CHOICES = {
    "loss": list(LOSSES),
    "method": sorted({method for _, method in FORMS}),
    "fit_lower": ["explicit", "augment", "none"],
    "init_lambdas": ["ones", "random_signs"],
    "solver": ["auto", *SOLVERS],
    "inference": list(INFERENCE),
    "class_weight": ["balanced"],
}
ELSEWHERE = {"warm_start", "verbose", "groups"}  # they make no sense for a command that runs once, or are no numbers


class NumberOrAuto(click.ParamType):
    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "auto":
            return value
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor 'auto'.", param, ctx)


class CountOrAuto(click.ParamType):
    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "auto" or isinstance(value, int):
            return value
        try:
            return int(value)
        except ValueError:
            self.fail(f"{value!r} is neither a whole number nor 'auto'.", param, ctx)


TYPES: dict[str, Any] = {
    "n_jobs": int, "random_state": int, "batch_size": str, "alpha": NumberOrAuto(), "beta": NumberOrAuto(),
    "n_components": CountOrAuto(),
}  # fmt: skip
# What an option is for, where the docstring speaks to somebody who writes Python.
WORDS = {
    "inference": "With --bayes: a compact posterior, or draws from it, which are often more accurate.",
    "n_samples": "Draws to keep, with --inference gibbs.",
    "thinning": "Iterations for each draw that is kept.",
    "degree": "How many features may act together, at most.",
    "n_components": "Rank: how much room there is for interactions. More can learn more, and takes longer. 'auto' "
    "finds out.",
    "loss": "What a wrong prediction costs.",
    "alpha": "Penalty on the weights of single features. Larger means simpler.",
    "beta": "Penalty on the interactions. Larger means simpler.",
    "solver": "How to train. 'auto' chooses; 'sgd' is for files that are larger than memory.",
    "max_iter": "Most passes over the parameters (with sgd, over the rows).",
    "tol": "Stop when a pass lowers the objective by less than this fraction of it.",
    "batch_size": "Rows in a step of --solver sgd.",
    "shares": "Shares of the rows that take steps at the same time with --solver sgd, if there are as many threads.",
    "gap_tol": "With --n-components auto: how far from the best possible objective to stop, as a fraction.",
    "max_components": "With --n-components auto: most components.",
    "early_stopping": "Hold rows out, and stop when predictions for them get no better.",
    "validation_fraction": "Of the rows, held out for --early-stopping.",
    "n_iter_no_change": "Passes without improvement after which --early-stopping stops.",
    "checkpoint": "A file that keeps the state of training. The same command goes on from it after an interruption.",
    "checkpoint_interval": "Passes between two writings of --checkpoint.",
    "n_jobs": "Threads; -1 is all processors. Results do not depend on it.",
    "random_state": "Seed: the same number gives the same model.",
    "method": "Learn the bases themselves, or the matrices of which the interactions are the product.",
    "fit_lower": "Interactions of fewer features than --degree: of their own, from the same bases, or none.",
    "fit_linear": "Whether single features have weights.",
    "fit_intercept": "Whether there is a constant.",
    "init_lambdas": "The weights of the bases, at the start.",
    "fit_lambdas": "Learn these weights, too.",
    "init_scale": "Size of the random interactions at the start.",
    "clip": "Keep predictions within the range of the targets.",
    "class_weight": "'balanced' lets rare classes count as much as common ones.",
}


def _help(name: str) -> str:
    """The description of a parameter in the estimators' docstring: its first sentence."""
    text = inspect.getdoc(FactorizationMachineRegressor) or ""
    found = re.search(rf"^{name} : [^\n]*\n((?:    [^\n]*\n)+)", text, flags=re.MULTILINE)
    return " ".join(found.group(1).split()).split(". ")[0].removesuffix(".") + "." if found else ""


FLAGS = ("clip",)  # yes, no, or as the estimator has it
OF_BAYES = ("inference", "n_samples", "thinning")


def _parameters() -> dict[str, inspect.Parameter]:
    """Those of regressors, and those that classifiers have beside them."""
    return {
        **inspect.signature(FactorizationMachineRegressor).parameters,
        **inspect.signature(FactorizationMachineClassifier).parameters,
        **inspect.signature(FactorizationMachineRegressor).parameters,
        **{name: inspect.signature(BayesianFactorizationMachineRegressor).parameters[name] for name in OF_BAYES},
    }


def estimator_options(command: Callable) -> Callable:
    """Add every parameter of the estimators as an option; those that are not given keep the estimator's default."""
    for name, parameter in reversed(list(_parameters().items())):
        default = parameter.default
        if name in ELSEWHERE or (default is None and name not in {*TYPES, *CHOICES, "checkpoint"}):
            continue
        flag = "--" + name.replace("_", "-")
        text = f"{WORDS.get(name) or _help(name)} {_default_text(name, default)}".strip()
        if isinstance(default, bool) or name in FLAGS:
            command = click.option(f"{flag}/--no-{flag[2:]}", name, default=None, help=text)(command)
        elif name == "checkpoint":
            command = output_option(flag, name, help=text)(command)
        else:
            kind = click.Choice(CHOICES[name]) if name in CHOICES else TYPES.get(name, type(default))
            command = click.option(flag, name, type=kind, default=None, help=text)(command)
    return command


def _default_text(name: str, default) -> str:
    """The default, where the four estimators agree on it."""
    for kind, case in ((FactorizationMachineClassifier, "for classes"), (PolynomialNetworkRegressor, "with --kind pn")):
        known = inspect.signature(kind).parameters
        other = known[name].default if name in known else default
        if other != default:
            return f"[default: {_shown(default)}, or {_shown(other)} {case}]"
    return "" if default is None else f"[default: {_shown(default)}]"


def _shown(default: Any) -> str:
    return {True: "yes", False: "no"}[default] if isinstance(default, bool) else str(default).lower()


def given_parameters(options: dict) -> dict:
    """The estimator's parameters among the options, as the estimators want them."""
    names = _parameters()
    given = {name: value for name, value in options.items() if name in names and value is not None}
    if given.get("fit_lower") == "none":
        given["fit_lower"] = None
    if "batch_size" in given and given["batch_size"] != "auto":
        if not (given["batch_size"].isascii() and given["batch_size"].isdigit()):
            raise click.UsageError(f"--batch-size must be a number of rows or 'auto', got {given['batch_size']!r}.")
        given["batch_size"] = int(given["batch_size"])
    return given


# -- help -------------------------------------------------------------------------------------------------------------

SECTIONS = {
    "What to predict, from which columns": ["target", "task", "fields", "drop", "text"],
    "What comes out": ["model_path", "test_fraction", "as_json"],
    "The model": [
        "kind", "bayes", "inference", "degree", "n_components", "cv", "beta", "alpha", "loss", "class_weight", "clip",
    ],
    "How the file is written": ["format_", "sep", "decimal", "encoding", "zero_based"],
    "Training": [
        "random_state", "n_jobs", "solver", "max_iter", "tol", "gap_tol", "max_components", "early_stopping",
        "validation_fraction", "n_iter_no_change", "checkpoint", "checkpoint_interval", "batch_size", "shares",
        "no_stream",
    ],
    "Fine points": ["min_frequency", "buckets"],
}  # fmt: skip


class Sectioned(click.Command):
    """A command whose help has its options in sections: first what everybody needs, last what hardly anybody does."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)]
        names = ["help" if "--help" in option.opts else str(option.name) for option in options]
        records = dict(zip(names, (option.get_help_record(ctx) for option in options), strict=True))
        placed = {name for section in SECTIONS.values() for name in section} | {"debug", "help"}
        others = [name for name in names if name not in placed]
        sections = SECTIONS | {"Fine points": [*SECTIONS["Fine points"], *others], "Help": ["debug", "help"]}
        for title, section in sections.items():
            shown = [record for name in section if (record := records.get(name)) is not None]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)
