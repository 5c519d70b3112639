"""Solvers by name. A new solver is one file and one line here."""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from polyfm.core.design import NONZEROS_OF_A_SHORT_ROW, Design
from polyfm.core.model import Model
from polyfm.loops.forms import form_of
from polyfm.loops.jit import LANES
from polyfm.solvers.base import Solver
from polyfm.solvers.block_descent import BlockDescent
from polyfm.solvers.coordinate_descent import CoordinateDescent
from polyfm.solvers.gauss_newton import GaussNewton
from polyfm.solvers.gibbs import GibbsSampling
from polyfm.solvers.lbfgs import LBFGS
from polyfm.solvers.schedule import Schedule
from polyfm.solvers.sgd import SGD
from polyfm.solvers.variational import Variational

SOLVERS: dict[str, type[Solver]] = {
    "cd": CoordinateDescent,
    "block": BlockDescent,
    "newton": GaussNewton,
    "lbfgs": LBFGS,
    "sgd": SGD,
}
INFERENCE: dict[str, type[Solver]] = {"variational": Variational, "gibbs": GibbsSampling}  # of Bayesian machines
FEW_PARAMETERS = 1000
MANY_BASES = 64  # a block's system takes their square a sample
FEW_DENSE = 64  # features, for which Gauss-Newton steps are the fastest way to the end
MANY_NONZEROS = 750_000  # of which a few stochastic epochs learn what there is, and a fifth tells when
NONZEROS_OF_A_LONG_ROW = 64
UNEVEN = 0.5  # standard deviation of the lengths of rows, in mean lengths: rows of a table are of one length


def takes_steps(model: Model, X: Any) -> bool:
    """Whether "auto" stands for stochastic steps, whose number has to be chosen: on large tables of several one-hot
    fields. X is a matrix, or its design."""
    X, n = X.given if isinstance(X, Design) else X, X.shape[0]
    if not sp.issparse(X) or not model.is_multilinear or X.nnz < MANY_NONZEROS:
        return False
    if not NONZEROS_OF_A_SHORT_ROW * n < X.nnz <= NONZEROS_OF_A_LONG_ROW * n:
        return False
    lengths = np.diff(X.indptr) if X.format == "csr" else np.bincount(X.indices, minlength=n)
    return bool(lengths.std() <= UNEVEN * lengths.mean())


def automatic(model: Model, design: Design) -> str:
    """The descent that "auto" stands for; docs/decisions has the measurements behind it.

    Gauss-Newton steps are the fastest way to the minimum of any small problem. Where coordinate descent works it is
    preferred all the same: its slower approach, stopped by `tol`, often generalises better at a penalty not yet tuned.
    """
    d = design.shape[1]
    if not model.is_multilinear:
        n_parameters = sum(math.prod(group.shape(d)) for group in model.groups)
        return "newton" if n_parameters <= FEW_PARAMETERS and not design.is_sparse else "lbfgs"
    # To solve for a feature's unknowns together pays where they are several and depend on few other features: what the
    # features of a long row have to agree on among themselves takes as many epochs either way.
    unknowns = min(group.n_bases * group.form.n_factors for group in model.groups)
    worthwhile = design.has_short_rows and unknowns >= LANES and model.groups[0].degree == 2
    return "block" if worthwhile and design.derived(Schedule).groups is not None else "cd"


def automatic_local(model: Model, design: Design, first: bool = False, rank: int = 1) -> str:
    """The solver that takes direct bases of degree 2 to the end: Newton steps on few dense features, blocks of few
    bases on one-hot fields, else L-BFGS, which does not mind how linear weights and interactions of long rows depend on
    each other, nor how many bases there are; but `first`, when all is new, a few epochs of coordinate descent go
    farther. `rank` bases are there already."""
    multilinear = form_of(model.groups[0].form.kernel, "direct", 2).multilinear
    if not design.is_sparse and design.shape[1] <= FEW_DENSE:
        return "newton"
    if multilinear and design.has_short_rows and rank < MANY_BASES:
        return "block"
    return "cd" if multilinear and first else "lbfgs"


def names_of(fact: str, value: object = True) -> list[str]:
    """The solvers that state a fact."""
    return [name for name, cls in SOLVERS.items() if getattr(cls, fact) == value]


def make_solver(name: str, **options) -> Solver:
    """A solver with these options, all of which it must have."""
    cls = solver_class(name)
    unknown = sorted(set(options) - cls.options())
    if unknown:
        raise TypeError(f"solver={name!r} has no option {unknown[0]!r}; it has {sorted(cls.options())}.")
    return cls(**options)


def solver_class(name: str) -> type[Solver]:
    if name not in SOLVERS and name not in INFERENCE:
        raise ValueError(f"solver={name!r} is not known; use 'auto' or one of {sorted(SOLVERS)}.")
    return SOLVERS[name] if name in SOLVERS else INFERENCE[name]


def check_solver(name: str, model: Model, fit_lambdas: bool, who: str) -> None:
    """Refuse a solver that cannot train this model, before any work is done."""
    if name == "auto":
        return
    if name in INFERENCE:
        raise ValueError(
            f"solver={name!r} is Bayesian inference: use BayesianFactorizationMachineRegressor(inference={name!r})."
        )
    cls = solver_class(name)
    if cls.needs_multilinear and not model.is_multilinear:
        others = _listed(names_of("needs_multilinear", False))
        raise ValueError(
            f"{who} cannot be trained by solver={name!r}: coordinate descent needs a form that is multilinear in its "
            f"bases, which the direct homogeneous kernel is not. Use solver={others}, or method='lifted'."
        )
    if fit_lambdas and not cls.fits_lambdas:
        raise ValueError(f"fit_lambdas=True needs solver={_listed(names_of('fits_lambdas'))}, got {name!r}.")


def _listed(names: list[str]) -> str:
    *most, last = map(repr, names)
    return f"{', '.join(most)} or {last}" if most else last
