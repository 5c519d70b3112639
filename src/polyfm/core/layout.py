"""Bases as loops over rows want them: laid out with the bases last, filled up to whole vectors."""

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from polyfm.core.design import Design
from polyfm.loops import rows
from polyfm.loops.jit import LANES
from polyfm.loops.rows import Bases

if TYPE_CHECKING:
    from polyfm.core.model import Group


def bases_last(P: np.ndarray, dtype) -> np.ndarray:
    """(bases, factors, features) -> (features, factors, bases), with zeros up to whole vectors, which do no harm."""
    T = np.zeros((P.shape[2], P.shape[1], P.shape[0] + -P.shape[0] % LANES), dtype=dtype)
    T[:, :, : P.shape[0]] = P.T
    return T


def weights(group: "Group", lams: np.ndarray, dtype) -> np.ndarray:
    """lambda, times the form's scale, and zeros up to whole vectors."""
    return np.pad(lams * group.form.scale, (0, -len(lams) % LANES)).astype(dtype)


def layout(group: "Group", P: np.ndarray, lams: np.ndarray, dtype) -> Bases:
    form = group.form
    return Bases(form, group.n_dummies, form.n_slots, bases_last(P, dtype), weights(group, lams, dtype))


@cache
def no_weights(dtype) -> np.ndarray:
    """What loops take for the linear weights where there are none."""
    return np.empty(0, dtype=dtype)


def add_expansion(design: Design, bases: Bases, coef: np.ndarray | None, f: np.ndarray, first: int = 0) -> None:
    """f_i += <coef, x_i> + sum_s lambda_s K(p_s, x_i), for as many rows as f has, from `first` on."""
    indptr, indices, data = design.rows
    coef = no_weights(f.dtype) if coef is None else coef
    rows.add_expansion(
        bases, (indptr[first : first + len(f) + 1], indices, data), coef, 0, len(f), bases.space(len(f)), f
    )


def expansion(group: "Group", P: np.ndarray, lams: np.ndarray, design: Design) -> np.ndarray:
    """sum_s lambda_s K(p_s, x_i) for every row."""
    f = np.zeros(design.shape[0], dtype=design.dtype)
    add_expansion(design, layout(group, P, lams, design.dtype), None, f)
    return f


def expand(group: "Group", P: np.ndarray, design: Design) -> np.ndarray:
    """K(p_s, x_i) as an array (samples, bases)."""
    bases = layout(group, P, np.ones(len(P)), design.dtype)
    out = np.empty((design.shape[0], P.shape[0]), dtype=design.dtype)
    rows.expand(bases, tuple(design.rows), 0, design.shape[0], bases.space(len(out)), out)
    return out if group.form.scale == 1 else out * np.asarray(group.form.scale, dtype=design.dtype)
