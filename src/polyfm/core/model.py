"""Models: which bases there are, in which form, and how parameters become predictions.

A model is <w, x> + w0 + sum_g sum_s lambda_gs K_g(B_gs, x): groups g of bases that share a degree, each in a direct
or a lifted parametrisation. One group is the usual case; ``fit_lower="explicit"`` gives one group for each degree.
"""

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from polyfm.core.design import Design
from polyfm.core.threads import Team
from polyfm.loops import rows as _rows
from polyfm.loops.forms import DirectAnova, DirectHomogeneous, LiftedAnova, LiftedHomogeneous
from polyfm.loops.jit import LANES

ROWS_WORTH_A_THREAD = 2000
AT_ONCE = 32  # bases that training lays out at once; chosen by measurement
ROWS_AT_ONCE = 2**14  # rows that it predicts at once

FORMS = {
    ("anova", "direct"): DirectAnova,
    ("anova", "lifted"): LiftedAnova,
    ("homogeneous", "direct"): DirectHomogeneous,
    ("homogeneous", "lifted"): LiftedHomogeneous,
}


@dataclass(frozen=True)
class Group:
    """Bases of one kernel, method and degree, with a number of dummy features (section 8 of the paper)."""

    kernel: str
    method: str
    degree: int
    n_bases: int
    n_dummies: int = 0

    @cached_property
    def form(self):
        return FORMS[self.kernel, self.method]((0.0,) * self.degree)

    @property
    def below(self) -> "Group":
        """What gives the derivatives by the parameters of one feature, from the others: for A^m in direct form that
        is A^(m-1) (Lemma 2 of the paper: the kernel is affine in each of them)."""
        return replace(self, degree=self.degree - 1) if (self.kernel, self.method) == ("anova", "direct") else self

    @property
    def n_factors(self) -> int:
        """Factors of one basis: p alone, or u^1 .. u^m."""
        return self.degree if self.method == "lifted" else 1

    @property
    def n_slots(self) -> int:
        """Numbers that a row of working space holds for each basis."""
        special = {("anova", "lifted"): 2**self.degree - 1, ("homogeneous", "direct"): 1}
        return special.get((self.kernel, self.method), self.degree)

    @property
    def n_cached(self) -> int:
        """Numbers that coordinate descent keeps for each sample beside its prediction."""
        return self.n_slots - 1 if self.kernel == "anova" else self.n_slots

    @property
    def scale(self) -> float:
        """What multiplies the form: the lifted ANOVA form counts each set of m features m! times."""
        return 1 / math.factorial(self.degree) if (self.kernel, self.method) == ("anova", "lifted") else 1.0

    def shape(self, n_features: int) -> tuple[int, int, int]:
        return self.n_bases, self.n_factors, n_features + self.n_dummies

    def penalties(self, beta: float, lams: np.ndarray) -> np.ndarray:
        """The second derivative of the penalty by any one factor of each basis: the penalty is half this, times
        the squared norm. Direct: beta |lambda_s| |p_s|^2; lifted: beta/2 |u_s^t|^2 (section 6 of the paper)."""
        return 2 * beta * np.abs(lams) if self.method == "direct" else np.full(lams.shape, float(beta))


class Parameters(NamedTuple):
    """Everything that training changes. `factors` and `lambdas` have one array a group."""

    factors: tuple[np.ndarray, ...]  # (bases, factors, features + dummies)
    lambdas: tuple[np.ndarray, ...]  # (bases,)
    coef: np.ndarray  # (features,)
    intercept: np.ndarray  # (1,)

    def copy(self, dtype=None) -> "Parameters":
        return Parameters(
            tuple(P.astype(dtype or P.dtype, order="C") for P in self.factors),
            tuple(lams.astype(dtype or lams.dtype) for lams in self.lambdas),
            self.coef.astype(dtype or self.coef.dtype),
            self.intercept.astype(dtype or self.intercept.dtype),
        )


@dataclass(frozen=True)
class Model:
    groups: tuple[Group, ...]
    fit_linear: bool = True
    fit_intercept: bool = True

    def predict(self, parameters: Parameters, design: Design, f: np.ndarray | None = None) -> np.ndarray:
        """<w, x_i> + w0 + sum of all expansions, for every row; in `f` where it is given, contiguous or not.

        Bases are laid out a few at a time, and rows taken in blocks: while a model is trained, memory is short.
        """
        f = np.empty(design.shape[0], dtype=design.dtype) if f is None else f
        f[:] = parameters.intercept[0]
        coef = parameters.coef if self.fit_linear else None
        for group, P, lams in zip(self.groups, parameters.factors, parameters.lambdas, strict=True):
            for s in range(0, group.n_bases, AT_ONCE):
                bases = layout(group, P[s : s + AT_ONCE], lams[s : s + AT_ONCE], design.dtype)
                for lo in range(0, len(f), ROWS_AT_ONCE):
                    block = f[lo : lo + ROWS_AT_ONCE].copy()
                    _add(design, bases, coef, block, lo)
                    f[lo : lo + ROWS_AT_ONCE] = block
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


class Layout(NamedTuple):
    """A group of bases as `_rows.add_expansion` reads them."""

    form: Any
    n_dummies: int
    T: np.ndarray
    lams: np.ndarray
    n_slots: int


class Predictor:
    """Predictions of one or several sets of parameters, which are laid out once for as many calls as come."""

    def __init__(self, model: Model, targets: list[Parameters]):
        self.model, self.targets = model, targets
        self._layouts: dict[np.dtype, list[list[Layout]]] = {}

    def __getstate__(self):
        return {**vars(self), "_layouts": {}}

    def __call__(self, design: Design, n_threads: int = 1) -> np.ndarray:
        """An array (targets, samples)."""
        if design.dtype not in self._layouts:
            self._layouts[design.dtype] = [
                [layout(*group, design.dtype) for group in zip(self.model.groups, p.factors, p.lambdas, strict=True)]
                for p in self.targets
            ]
        n = design.shape[0]
        out = np.empty((len(self.targets), n), dtype=design.dtype)
        n_parts = n_threads if n >= ROWS_WORTH_A_THREAD else 1
        bounds = [n * part // n_parts for part in range(n_parts + 1)]
        with Team(n_parts) as team:
            for f, p, layouts in zip(out, self.targets, self._layouts[design.dtype], strict=True):
                f[:] = p.intercept[0]
                coef = p.coef if self.model.fit_linear else None
                for group in layouts:
                    parts = [(f[lo:hi], lo) for lo, hi in itertools.pairwise(bounds)]
                    team.run(partial(_add, design, group, coef), parts)
                    coef = None
        return out


def _add(design: Design, group: Layout, coef: np.ndarray | None, f: np.ndarray, first: int = 0) -> None:
    """Add <coef, x_i> and an expansion to the predictions `f` of as many rows, from `first` on."""
    form, n_dummies, T, lams, n_slots = group
    indptr, indices, data = design.rows
    indptr = indptr[first : first + len(f) + 1]
    _rows.add_expansion(form, indptr, indices, data, n_dummies, T, lams, n_slots, coef, 0, len(f), f)


def bases_last(P: np.ndarray, dtype) -> np.ndarray:
    """The factors as loops over rows want them, and as many bases as whole vectors have: zeros do no harm."""
    T = np.zeros((P.shape[2], P.shape[1], P.shape[0] + -P.shape[0] % LANES), dtype=dtype)
    T[:, :, : P.shape[0]] = P.T
    return T


def weights(group: Group, lams: np.ndarray, dtype) -> np.ndarray:
    """lambda, times the form's scale, and zeros up to whole vectors."""
    return np.pad(lams * group.scale, (0, -len(lams) % LANES)).astype(dtype)


def layout(group: Group, P: np.ndarray, lams: np.ndarray, dtype) -> Layout:
    return Layout(group.form, group.n_dummies, bases_last(P, dtype), weights(group, lams, dtype), group.n_slots)


def add_expansion(group: Group, P: np.ndarray, lams: np.ndarray, design: Design, f: np.ndarray) -> None:
    """f += sum_s lambda_s K(p_s, x_i)."""
    _add(design, layout(group, P, lams, design.dtype), None, f)


def expand(group: Group, P: np.ndarray, design: Design) -> np.ndarray:
    """K(p_s, x_i) as an array (samples, bases)."""
    T = bases_last(P, design.dtype)
    out = np.empty((design.shape[0], P.shape[0]), dtype=design.dtype)
    _rows.expand(group.form, *design.rows, group.n_dummies, T, group.n_slots, 0, design.shape[0], out)
    return out if group.scale == 1 else out * np.asarray(group.scale, dtype=design.dtype)


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
    if fit_lower == "augment":
        # Section 8: one dummy feature turns H^m into the inhomogeneous kernel, m - 1 add A^(m-1) .. A^1 to A^m.
        n_dummies = 1 if kernel == "homogeneous" else degree - 1
        groups: tuple[Group, ...] = (Group(kernel, method, degree, n_components, n_dummies),)
    else:
        lowest = 2 if fit_lower == "explicit" else degree
        groups = tuple(Group(kernel, method, m, n_components) for m in range(degree, lowest - 1, -1))
    return Model(groups, fit_linear, fit_intercept)
