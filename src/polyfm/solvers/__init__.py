"""Solvers by name. A new solver is one file and one line here."""

from polyfm.solvers.base import Result, Solver, run
from polyfm.solvers.coordinate_descent import CoordinateDescent

SOLVERS = {"cd": CoordinateDescent}

__all__ = ["SOLVERS", "CoordinateDescent", "Result", "Solver", "run"]
