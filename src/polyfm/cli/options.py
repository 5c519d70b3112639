"""Options of the command line, made from the estimators' own parameters and docstrings."""

import inspect
import re
from collections.abc import Callable

import click

from polyfm.cli.paths import output_option
from polyfm.estimators import FactorizationMachineClassifier, FactorizationMachineRegressor, PolynomialNetworkRegressor
from polyfm.loops.forms import FORMS
from polyfm.losses import LOSSES
from polyfm.solvers import SOLVERS

CHOICES = {
    "loss": list(LOSSES),
    "method": sorted({method for _, method in FORMS}),
    "fit_lower": ["explicit", "augment", "none"],
    "init_lambdas": ["ones", "random_signs"],
    "solver": ["auto", *SOLVERS],
}
TYPES = {"n_jobs": int, "random_state": int, "batch_size": str}
ELSEWHERE = {"warm_start", "verbose", "groups"}  # they make no sense for a command that runs once, or are no numbers


def _help(name: str) -> str:
    """The description of a parameter in the estimators' docstring."""
    text = inspect.getdoc(FactorizationMachineRegressor) or ""
    found = re.search(rf"^{name} : [^\n]*\n((?:    [^\n]*\n)+)", text, flags=re.MULTILINE)
    return " ".join(found.group(1).split()) if found else ""


def estimator_options(command: Callable) -> Callable:
    """Add every parameter of the estimators as an option; those that are not given keep the estimator's default."""
    for name, parameter in reversed(list(inspect.signature(FactorizationMachineRegressor).parameters.items())):
        if name in ELSEWHERE:
            continue
        flag = "--" + name.replace("_", "-")
        default = parameter.default
        shown = _default_text(name, default)
        text = f"{_help(name)} {shown}".strip()
        if isinstance(default, bool):
            command = click.option(f"{flag}/--no-{flag[2:]}", name, default=None, help=text)(command)
        elif name == "checkpoint":
            command = output_option(flag, name, help=text)(command)
        else:
            kind = click.Choice(CHOICES[name]) if name in CHOICES else TYPES.get(name, type(default))
            command = click.option(flag, name, type=kind, default=None, help=text)(command)
    return command


def _default_text(name: str, default) -> str:
    """The default, where the four estimators agree on it."""
    for kind in (FactorizationMachineClassifier, PolynomialNetworkRegressor):
        other = inspect.signature(kind).parameters[name].default
        if other != default:
            return f"[default: {default}, or {other} with {kind.__name__}]"
    return "" if default is None else f"[default: {default}]"


def given_parameters(options: dict) -> dict:
    """The estimator's parameters among the options, as the estimators want them."""
    names = inspect.signature(FactorizationMachineRegressor).parameters
    given = {name: value for name, value in options.items() if name in names and value is not None}
    if given.get("fit_lower") == "none":
        given["fit_lower"] = None
    if "batch_size" in given and given["batch_size"] != "auto":
        if not (given["batch_size"].isascii() and given["batch_size"].isdigit()):
            raise click.UsageError(f"--batch-size must be a number of rows or 'auto', got {given['batch_size']!r}.")
        given["batch_size"] = int(given["batch_size"])
    return given
