"""Solvers: each improves the parameters of a problem, epoch by epoch. They know no scikit-learn."""

from polyfm.solvers.base import Hook, Result, Resume, Solver, run, run_in_place
from polyfm.solvers.block_descent import BlockDescent
from polyfm.solvers.coordinate_descent import CoordinateDescent
from polyfm.solvers.gauss_newton import GaussNewton
from polyfm.solvers.lbfgs import LBFGS
from polyfm.solvers.monitor import Monitor
from polyfm.solvers.registry import (
    SOLVERS,
    automatic,
    automatic_local,
    check_solver,
    make_solver,
    names_of,
    solver_class,
    takes_steps,
)
from polyfm.solvers.sgd import SGD
from polyfm.solvers.staircase import PACES, Staircase

__all__ = [
    "LBFGS",
    "PACES",
    "SGD",
    "SOLVERS",
    "BlockDescent",
    "CoordinateDescent",
    "GaussNewton",
    "Hook",
    "Monitor",
    "Result",
    "Resume",
    "Solver",
    "Staircase",
    "automatic",
    "automatic_local",
    "check_solver",
    "make_solver",
    "names_of",
    "run",
    "run_in_place",
    "solver_class",
    "takes_steps",
]
