"""Solvers by name. A new solver is one file and one line here."""

import math
from dataclasses import fields

from polyfm.core.design import SHORT, Design
from polyfm.core.model import Model
from polyfm.loops.jit import LANES
from polyfm.solvers.base import Hook, Monitor, Result, Solver, run, run_in_place
from polyfm.solvers.block_descent import BlockDescent
from polyfm.solvers.coordinate_descent import CoordinateDescent
from polyfm.solvers.gauss_newton import GaussNewton
from polyfm.solvers.lbfgs import LBFGS
from polyfm.solvers.sgd import SGD

SOLVERS: dict[str, type] = {
    "cd": CoordinateDescent,
    "block": BlockDescent,
    "newton": GaussNewton,
    "lbfgs": LBFGS,
    "sgd": SGD,
}


FEW = 1000  # parameters
MULTILINEAR = {("anova", "direct"), ("anova", "lifted"), ("homogeneous", "lifted")}  # what descent by blocks needs


def is_multilinear(model: Model) -> bool:
    return all((group.kernel, group.method) in MULTILINEAR for group in model.groups)


def automatic(model: Model, design: Design) -> str:
    """The solver that "auto" stands for; docs/benchmarks.md has the measurements behind it.

    Gauss-Newton steps are the fastest way to the minimum of any small problem. Where coordinate descent works it is
    preferred all the same: its slower approach, stopped by `tol`, often generalises better at a penalty not yet tuned.
    """
    n, d = design.shape
    if not is_multilinear(model):
        n_parameters = sum(math.prod(group.shape(d)) for group in model.groups)
        return "newton" if n_parameters <= FEW and not design.is_sparse else "lbfgs"
    # To solve for a feature's unknowns together pays where they are several and depend on few other features: what the
    # features of a long row have to agree on among themselves takes as many epochs either way.
    unknowns = min(group.n_bases * group.n_factors for group in model.groups)
    short_rows = design.is_sparse and int(design.rows.indptr[-1]) <= SHORT * n
    if short_rows and unknowns >= LANES and model.groups[0].degree == 2 and design.groups is not None:
        return "block"
    return "cd"


def make_solver(name: str, **options) -> Solver:
    """A solver with those of the options that it has."""
    cls = SOLVERS[name]
    return cls(**{f.name: options[f.name] for f in fields(cls) if f.name in options})


__all__ = [
    "LBFGS",
    "SGD",
    "SOLVERS",
    "BlockDescent",
    "CoordinateDescent",
    "GaussNewton",
    "Hook",
    "Monitor",
    "Result",
    "Solver",
    "automatic",
    "is_multilinear",
    "make_solver",
    "run",
    "run_in_place",
]
