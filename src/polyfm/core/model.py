"""Models: which bases there are, in which form, and what predictions they make.

A model is <w, x> + w0 + sum_g sum_s lambda_gs K_g(B_gs, x): groups g of bases that share a form, and so a degree. One
group is the usual case; ``fit_lower="explicit"`` gives one group for each degree.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from polyfm.core.design import Design
from polyfm.core.layout import add_expansion, layout
from polyfm.core.parameters import Parameters
from polyfm.core.threads import in_order
from polyfm.loops.forms import FORMS, Form
from polyfm.loops.rows import Bases

MOST_DEGREE = 30  # loops are compiled for a degree: this one takes seconds
LARGEST_WORKSPACE = 2**26  # numbers that predicting one row works on; a lifted ANOVA form takes 2^degree a basis
BASES_AT_ONCE = 32  # that training lays out; chosen by measurement
ROWS_AT_ONCE = 2**14  # that it predicts


@dataclass(frozen=True)
class Group:
    """Bases of one form, with a number of dummy features (section 8 of the paper)."""

    form: Any  # a `Form`
    n_bases: int
    n_dummies: int = 0

    @property
    def degree(self) -> int:
        return self.form.degree

    @property
    def is_workable(self) -> bool:
        """Whether its loops compile, and its rows are predicted, in a reasonable time."""
        return self.degree <= MOST_DEGREE and self.form.n_slots * self.n_bases <= LARGEST_WORKSPACE

    def shape(self, n_features: int) -> tuple[int, int, int]:
        return self.n_bases, self.form.n_factors, n_features + self.n_dummies


@dataclass(frozen=True)
class Model:
    groups: tuple[Group, ...]
    fit_linear: bool = True
    fit_intercept: bool = True

    @property
    def is_multilinear(self) -> bool:
        return all(group.form.multilinear for group in self.groups)

    @property
    def is_lifted(self) -> bool:
        return self.groups[0].form.lifted

    def empty(self, n_features: int) -> Parameters:
        """Parameters of the right shapes, whatever they hold; they take no memory."""
        return Parameters(
            tuple(np.broadcast_to(0.0, group.shape(n_features)) for group in self.groups),
            tuple(np.broadcast_to(0.0, group.n_bases) for group in self.groups),
            np.broadcast_to(0.0, n_features),
            np.broadcast_to(0.0, 1),
        )

    def each(self, parameters: Parameters) -> Iterator[tuple[Group, np.ndarray, np.ndarray]]:
        """(group, factors, lambdas) for every group of bases."""
        return zip(self.groups, parameters.factors, parameters.lambdas, strict=True)

    def predict(
        self, parameters: Parameters, design: Design, f: np.ndarray | None = None, n_threads: int = 1
    ) -> np.ndarray:
        """<w, x_i> + w0 + sum of all expansions, for every row; in `f` where it is given, contiguous or not.

        Bases are laid out a few at a time, and rows taken in blocks: while a model is trained, memory is short.
        """
        f = np.empty(design.shape[0], dtype=design.dtype) if f is None else f
        f[:] = parameters.intercept[0]
        coef = parameters.coef if self.fit_linear else None
        for group, P, lams in self.each(parameters):
            for s in range(0, group.n_bases, BASES_AT_ONCE):
                bases = layout(group, P[s : s + BASES_AT_ONCE], lams[s : s + BASES_AT_ONCE], design.dtype)
                in_order(partial(_add, design, bases, coef, f), -(-len(f) // ROWS_AT_ONCE), n_threads)
                coef = None
        return f

    def pack(self, parameters: Parameters) -> np.ndarray:
        """The smooth parameters in one vector: factors with the bases last, as loops over rows want them, linear
        weights, intercept."""
        parts = [P.T.ravel() for P in parameters.factors]
        if self.fit_linear:
            parts.append(parameters.coef)
        if self.fit_intercept:
            parts.append(parameters.intercept)
        return np.concatenate(parts, dtype=np.float64)

    def unpack(self, vector: np.ndarray, like: Parameters) -> Parameters:
        """The parameters of a vector, where not those of `like`; factors are transposed views of one copy."""
        pieces = np.split(vector.astype(like.coef.dtype), np.cumsum([P.size for P in like.factors]))
        factors = tuple(piece.reshape(P.shape[::-1]).T for piece, P in zip(pieces[:-1], like.factors, strict=True))
        rest = pieces[-1]
        coef = rest[: like.coef.size] if self.fit_linear else like.coef
        intercept = rest[-1:] if self.fit_intercept else like.intercept
        return Parameters(factors, like.lambdas, coef.copy(), intercept.copy())


def _add(design: Design, bases: Bases, coef: np.ndarray | None, f: np.ndarray, block: int) -> None:
    """Add these bases' part to the predictions of a block of rows."""
    rows = slice(block * ROWS_AT_ONCE, (block + 1) * ROWS_AT_ONCE)
    part = f[rows].copy()
    add_expansion(design, bases, coef, part, rows.start)
    f[rows] = part


def build_model(
    kernel: str,
    method: str,
    degree: int,
    n_components: int,
    fit_lower: str | None,
    fit_linear: bool,
    fit_intercept: bool,
) -> Model:
    """The groups that the estimators' parameters ask for."""
    if (kernel, method) not in FORMS:
        known = sorted(name for other, name in FORMS if other == kernel)
        raise ValueError(f"method={method!r} is not known for the {kernel} kernel; use one of {known}.")

    def form(degree: int) -> Form:
        return FORMS[kernel, method].of_degree(degree)

    if fit_lower == "augment":
        highest = form(degree)
        if highest.n_augmenting == 0:
            raise ValueError(f"The {kernel} kernel has no dummy features: use fit_lower='explicit' or None.")
        groups: tuple[Group, ...] = (Group(highest, n_components, highest.n_augmenting),)
    else:
        lowest = 2 if fit_lower == "explicit" else degree
        groups = tuple(Group(form(m), n_components) for m in range(degree, lowest - 1, -1))
    return Model(groups, fit_linear, fit_intercept)
