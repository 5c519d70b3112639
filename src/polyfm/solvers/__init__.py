"""Solvers by name. A new solver is one file and one line here."""

from dataclasses import fields

from polyfm.solvers.base import Hook, Monitor, Result, Solver, run
from polyfm.solvers.coordinate_descent import CoordinateDescent
from polyfm.solvers.lbfgs import LBFGS
from polyfm.solvers.sgd import SGD

SOLVERS = {"cd": CoordinateDescent, "lbfgs": LBFGS, "sgd": SGD}


def make_solver(name: str, **options) -> Solver:
    """A solver with those of the options that it has."""
    cls = SOLVERS[name]
    return cls(**{f.name: options[f.name] for f in fields(cls) if f.name in options})


__all__ = ["LBFGS", "SGD", "SOLVERS", "CoordinateDescent", "Hook", "Monitor", "Result", "Solver", "make_solver", "run"]
