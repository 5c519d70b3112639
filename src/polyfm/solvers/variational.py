"""Variational inference for factorization machines: the best posterior of independent Gaussians, and of the precisions
and means of each field and basis (`core.hyper`).

    z_i ~ N(f_i, 1 / (tau w_i)),   z the targets or, for classes, latent ones (`likelihood`)

The objective is minus the evidence lower bound, which never falls. Nothing has to be tuned: the scale of the prior on
the bases is that at which interactions would be as large as what the linear model leaves over. It is held for some
epochs, so that bases learn something before they are judged by their size.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import xlogy

from polyfm.core.hyper import Groups, Hyper, Tied, entropy
from polyfm.core.model import Group, Model
from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.core.threads import Team
from polyfm.loops import moments
from polyfm.loops.forms import DirectAnova, Linear
from polyfm.solvers.base import Resume, Solver
from polyfm.solvers.likelihood import LIKELIHOODS, weighted_sum
from polyfm.solvers.schedule import N_SHARES, Plan, Schedule

HOLD = 5  # epochs with the prior held
LINEAR = 3  # epochs of the linear weights alone, before the first
REFRESH = 10  # epochs after which residuals are computed anew
SPREAD, CERTAINTY = 0.3, 0.1  # of the bases at the start: of their means, and of each around its mean, in prior units
FEW = 2**16  # samples, to which unit weights are given: a loop less to compile
WEIGHTS = Group(Linear(), 1)  # the linear weights, as a group of bases


@dataclass
class Part:
    """Parameters of one kind: linear weights, or the bases of one degree."""

    form: Any  # the moments that the degree needs
    n_dummies: int
    mean: np.ndarray  # (bases, features + dummies), or (bases, factors, features + dummies) where bases are lifted
    variance: np.ndarray
    hyper: Hyper | Tied

    @property
    def tied_squares(self) -> float:
        return self.hyper.tied_squares(self.mean, self.variance)


@dataclass
class State:
    parameters: Parameters  # the means
    S: np.ndarray  # (samples, 1 + cache): expected residuals, then moments of one basis
    plan: Plan
    weight: np.ndarray | None
    sizes: np.ndarray  # (features,): mean squares
    likelihood: Any
    parts: list[Part] = field(default_factory=list)  # the linear weights first, where there are any
    squares: float = 0.0  # E sum w (f - z)^2
    intercept: float = 0.0
    intercept_variance: float = 0.0
    epoch: int = 0
    trace: list[tuple[float, float, float]] = field(default_factory=list)  # of each epoch: bound, noise, rank


@dataclass(frozen=True)
class Variational(Solver):
    """`groups` is the group of each feature, counted from 0; None: all are in one. `tied`: the precisions of bases are
    in units of the noise's, and are not learned on their own."""

    n_threads: int = 1
    seed: int = 0
    groups: np.ndarray | None = None
    likelihood: str = "gaussian"
    tied: bool = False

    summary = "variational inference"
    epoch = "one pass over the means and variances of all parameters"
    needs_multilinear = True
    fits_lambdas = False
    window = 8  # more than those with the prior held
    resume_kinds = {"epoch": "i"}

    # -- start --------------------------------------------------------------------------------------------------------

    def init_state(self, problem: Problem, parameters: Parameters, resume: Resume | None = None) -> State:
        if not has_moments(problem.model):
            raise ValueError("Variational inference is for factorization machines with method='direct'.")
        state = self.begin(problem, parameters, resume)
        if not resume:
            self._refresh(problem, state)
            self._learn(problem, state)
        return state

    def begin(self, problem: Problem, parameters: Parameters, resume: Resume | None = None) -> State:
        """Linear weights as a linear model has them, and random bases, of any multilinear form."""
        state = self._blank(problem, parameters)
        if resume:
            self._restore(problem, state, resume)
            return state
        model, likelihood, S, n = problem.model, state.likelihood, state.S, problem.total_weight
        state.intercept = likelihood.constant(problem) if model.fit_intercept else 0.0
        S[:, 0] = state.intercept - likelihood.z
        likelihood.begin(problem, S[:, 0])
        state.intercept_variance = 1 / (likelihood.tau * n) if model.fit_intercept else 0.0
        state.squares = weighted_sum(problem, S[:, 0] ** 2) + n * state.intercept_variance
        of_squares = [self._mean_of_squares(problem, group) for group in kinds_of(model)]
        if model.fit_linear:
            precision = of_squares.pop(0) * likelihood.tau or 1.0
            state.parts.append(self._part(problem, WEIGHTS, precision, precision))
            state.squares = weighted_sum(problem, S[:, 0] ** 2 + self.variances(problem, state))
            for _ in range(LINEAR):
                self._sweep(problem, state)
                state.squares = likelihood.learn(problem, S[:, 0], state.squares)
            likelihood.begin(problem, S[:, 0])
        rng = np.random.RandomState(self.seed)
        for group, size in zip(model.groups, of_squares, strict=True):
            # k size / lam^m, the variance of the interactions, is that of the noise when held; the prior expects a
            # quarter of it.
            scale = (group.n_bases * size * likelihood.tau) ** (1 / group.degree) or 1.0
            prior = scale * 4.0 ** (1 / group.degree)
            part = self._part(problem, group, scale, prior, likelihood.tau)
            part.mean[:] = rng.standard_normal(part.mean.shape) * SPREAD / math.sqrt(scale)
            part.mean[..., problem.design.shape[1] :] /= math.sqrt(self._strength_of_dummies(problem, group))
            state.parts.append(part)
        likelihood.tie(sum(part.hyper.n_tied for part in state.parts))
        self._publish(problem, state)
        return state

    def _blank(self, problem: Problem, parameters: Parameters) -> State:
        """A state of the right shapes, without parts."""
        design, (n, _) = problem.design, problem.design.shape
        weight = problem.response.weight
        if weight is not None or n <= FEW:
            weight = np.ones(n) if weight is None else weight.astype(np.float64)
        S = np.zeros((n, 1 + max(_moments_of(group).n_cached for group in problem.model.groups)))
        for lams in parameters.lambdas:
            lams[:] = 1.0
        parameters.coef[:] = 0.0
        likelihood = LIKELIHOODS[self.likelihood](problem)
        return State(parameters, S, self._plan(problem), weight, design.derived(mean_squares), likelihood)

    def _part(self, problem: Problem, group: Group, precision: float, prior: float, tau: float = 1.0) -> Part:
        """Means of 0. The precision is held; what it is expected to be later is `prior`. One that is tied is that from
        the start, in units of the noise's precision tau."""
        d, n_bases, n_dummies, m = problem.design.shape[1], group.n_bases, group.n_dummies, group.form.n_factors
        labels = np.zeros(d, dtype=np.int64) if self.groups is None else np.asarray(self.groups, dtype=np.int64)
        dummies = np.full(n_dummies, labels.max() + 1)
        occurs = np.concatenate([problem.design.derived(mean_squares) > 0, np.ones(n_dummies, dtype=bool)])
        groups = Groups.from_labels(np.concatenate([labels, dummies]), occurs, m)
        strength = np.ones(len(groups.sizes))
        strength[len(groups.sizes) - (n_dummies > 0) :] = self._strength_of_dummies(problem, group)
        hyper: Hyper | Tied = Hyper.held(groups, n_bases, precision * strength, 1 / (prior * strength))
        if self.tied and group is not WEIGHTS:
            hyper = Tied(groups, n_bases, prior / tau)
        shape = (n_bases, m, d + n_dummies) if group.form.lifted else (n_bases, d + n_dummies)
        variance = np.full(shape, CERTAINTY**2 / precision)
        return Part(_moments_of(group), n_dummies, np.zeros(shape), variance, hyper)

    def _strength_of_dummies(self, problem: Problem, group: Group) -> float:
        """Their precision, in units of that of features. Those of lifted bases, which may have no other linear terms,
        are expected to do as much as all features together, in any units of X."""
        if not (group.form.lifted and group.n_dummies):
            return 1.0
        return 1 / (self._mean_of_squares(problem, WEIGHTS) or 1.0)

    def _plan(self, problem: Problem) -> Plan:
        (n, d), design = problem.design.shape, problem.design
        if design.is_sparse:
            return design.derived(Schedule).plan()
        return Plan(np.array([0, n]), np.zeros(2, dtype=np.int64), np.array([[0, d]]))

    @staticmethod
    def _mean_of_squares(problem: Problem, group: Group) -> float:
        """The mean over rows of the variance of a basis at standard normal factors, dummy features aside: A^m(1, x^2),
        A^m(1, x^2) / m! of the lifted form, and |x|^(2m) of products of sums."""
        form, d = group.form, problem.design.shape[1]
        degree = 1 if form.repeats else form.degree
        sums = np.zeros(problem.design.shape[0])
        ones = np.ones((d, 1))
        moments.add_variances((0.0,) * degree, 0, tuple(problem.design.rows), 0.0 * ones, ones, 0, len(sums), sums)
        sums = sums**form.degree if form.repeats else sums
        return weighted_sum(problem, sums) / problem.total_weight * form.scale

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def resume(self, state: State) -> Resume:
        arrays = {
            "residuals": state.S[:, 0].copy(),
            "numbers": np.array([state.squares, state.intercept, state.intercept_variance]),
            "epoch": np.array([state.epoch]),
            "trace": np.array(state.trace).reshape(-1, 3),
        }
        for i, part in enumerate(state.parts):
            arrays |= {f"mean{i}": part.mean.copy(), f"variance{i}": part.variance.copy()}
            arrays |= numbered(i, part.hyper.kept())
        return arrays | state.likelihood.resume()

    def resume_shapes(self, problem: Problem, parameters: Parameters) -> dict[str, tuple[int | None, ...]]:
        n, d = problem.design.shape
        shapes: dict[str, tuple[int | None, ...]] = {
            "residuals": (n,), "numbers": (3,), "epoch": (1,), "trace": (None, 3), **LIKELIHOODS[self.likelihood].shapes
        }  # fmt: skip
        if "latent" in shapes:
            shapes["latent"] = (n,)
        n_groups = 1 if self.groups is None else int(np.max(self.groups)) + 1
        for i, group in enumerate(kinds_of(problem.model)):
            by_group = n_groups + (group.n_dummies > 0), group.n_bases
            shape = group.shape(d) if group.form.lifted else (group.n_bases, d + group.n_dummies)
            shapes |= {f"mean{i}": shape, f"variance{i}": shape}
            shapes |= numbered(i, {"b0": (by_group[0], 1), "rate": by_group, "centre": by_group, "strength": (1,)})
        return shapes

    def _restore(self, problem: Problem, state: State, resume: Resume) -> None:
        state.S[:, 0] = resume["residuals"]
        state.squares, state.intercept, state.intercept_variance = resume["numbers"].tolist()
        state.epoch = int(resume["epoch"][0])
        state.trace = [tuple(row) for row in resume["trace"].tolist()]
        for i, group in enumerate(kinds_of(problem.model)):
            part = self._part(problem, group, 1.0, 1.0)
            part.mean[:], part.variance[:] = resume[f"mean{i}"], resume[f"variance{i}"]
            part.hyper = part.hyper.restored(of_number(i, resume))
            state.parts.append(part)
        state.likelihood.tie(sum(part.hyper.n_tied for part in state.parts))
        state.likelihood.restore(resume)
        self._publish(problem, state)

    # -- epochs -------------------------------------------------------------------------------------------------------

    def unit(self, problem: Problem) -> float:
        """What is gained is judged by row."""
        return problem.total_weight

    def objective(self, problem: Problem, state: State) -> float:
        return -self.bound(problem, state)

    def update(self, problem: Problem, state: State) -> float:
        self._sweep(problem, state)
        state.epoch += 1
        if state.epoch > HOLD:
            for part in state.parts:
                part.hyper = part.hyper.given(part.mean, part.variance)
        self._publish(problem, state)
        if state.epoch % REFRESH == 0:
            self._refresh(problem, state)
        self._learn(problem, state)
        bound = self.bound(problem, state)
        state.trace.append((bound, 1 / math.sqrt(state.likelihood.tau), self._rank(problem, state)))
        return -bound

    @staticmethod
    def _rank(problem: Problem, state: State) -> float:
        means = (part.mean for part in state.parts[problem.model.fit_linear :])
        return effective_rank(problem.model, means, state.sizes)

    def settle(self, problem: Problem, state: State) -> float:
        self._publish(problem, state)
        self._refresh(problem, state)
        self._learn(problem, state)
        return -self.bound(problem, state)

    def learned(self, problem: Problem, state: State) -> Resume:
        """Variances of all parameters, the standard deviation of the noise, and the trace of all epochs."""
        parts, dtype = list(state.parts), problem.design.dtype
        shape = state.parameters.coef.shape
        coef = parts.pop(0).variance[0] if problem.model.fit_linear else np.zeros(shape)
        arrays = {f"variance{g}": part.variance[:, None].astype(dtype) for g, part in enumerate(parts)}
        arrays |= {"coef": coef.astype(dtype), "intercept": np.array([state.intercept_variance], dtype=dtype)}
        arrays |= {"noise": np.array([1 / math.sqrt(state.likelihood.tau)])}
        return arrays | state.likelihood.kept() | {"trace": np.array(state.trace).reshape(-1, 3)}

    def learned_before(self, problem: Problem, parameters: Parameters) -> Resume:
        return self.learned(problem, self.init_state(problem, parameters))

    def bound(self, problem: Problem, state: State) -> float:
        """The evidence lower bound."""
        value = state.likelihood.bound(problem, state.squares, self._tied_squares(state))
        if problem.model.fit_intercept:
            value += entropy(np.array([state.intercept_variance]))
        return float(value + sum(part.hyper.bound(part.mean, part.variance) for part in state.parts))

    def _learn(self, problem: Problem, state: State) -> None:
        """What the likelihood has of its own."""
        state.squares = state.likelihood.learn(problem, state.S[:, 0], state.squares, self._tied_squares(state))

    @staticmethod
    def _tied_squares(state: State) -> float:
        return sum(part.tied_squares for part in state.parts)

    def _sweep(self, problem: Problem, state: State) -> None:
        design, weight, S = problem.design, state.weight, state.S
        tau = state.likelihood.tau
        if problem.model.fit_intercept:
            total = problem.total_weight
            slope = weighted_sum(problem, S[:, 0])
            delta, variance = -slope / total, 1 / (tau * total)
            state.squares += total * (delta * delta + variance - state.intercept_variance) + 2 * slope * delta
            state.intercept_variance = variance
            S[:, 0] += delta
            state.intercept += delta
        schedule = design.derived(Schedule)
        data = tuple(design.columns), tuple(design.rows), schedule.order if design.is_sparse else None
        threads = min(self.n_threads, N_SHARES) if design.is_sparse and schedule.groups is not None else 1
        with Team(threads) as team:
            for part in state.parts:
                changes = np.zeros(part.mean.shape)
                step = part.form, weight, part.hyper.prior(tau), tau, *data, tuple(state.plan), design.ones.indptr
                arrays = S, part.mean, part.variance, changes
                team.together(lambda *me, step=step, arrays=arrays: moments.epoch(*step, *me, *arrays))
                state.squares += float(changes.sum())

    def _publish(self, problem: Problem, state: State) -> None:
        """The means, as parameters."""
        parts = list(state.parts)
        state.parameters.intercept[:] = state.intercept
        if problem.model.fit_linear:
            state.parameters.coef[:] = parts.pop(0).mean[0]
        for P, part in zip(state.parameters.factors, parts, strict=False):
            P[:] = part.mean.reshape(P.shape)

    def _refresh(self, problem: Problem, state: State) -> None:
        """Residuals, and their expected squares, from the parameters: rounding never accumulates."""
        problem.model.predict(state.parameters, problem.design, state.S[:, 0])
        state.S[:, 0] -= state.likelihood.z
        state.squares = weighted_sum(problem, state.S[:, 0] ** 2 + self.variances(problem, state))

    def variances(self, problem: Problem, state: State) -> np.ndarray:
        """Var f of every row."""
        rows, n = tuple(problem.design.rows), problem.design.shape[0]
        out = np.full(n, state.intercept_variance)
        for part in state.parts:
            M, V = np.ascontiguousarray(part.mean.T), np.ascontiguousarray(part.variance.T)
            moments.add_variances(part.form.degree_slots, part.n_dummies, rows, M, V, 0, n, out)
        return out


def numbered(i: int, arrays: dict[str, Any]) -> dict[str, Any]:
    """Names in a checkpoint of what belongs to part i."""
    return {f"{name}{i}": array for name, array in arrays.items()}


def of_number(i: int, arrays: dict[str, Any]) -> dict[str, Any]:
    return {name.removesuffix(str(i)): array for name, array in arrays.items() if name.endswith(str(i))}


def has_moments(model: Model) -> bool:
    """Whether there is variational inference for it."""
    return all(isinstance(group.form, DirectAnova) for group in model.groups)


def _moments_of(group: Group) -> Any:
    """What variational inference needs of a basis. Other forms begin here, and do not go on."""
    return moments.moments_of(group.degree if isinstance(group.form, DirectAnova) else 1)


def kinds_of(model: Model) -> list[Group]:
    """What there is a part for: the linear weights, where there are any, then the bases."""
    return [WEIGHTS] * model.fit_linear + [*model.groups]


def effective_rank(model: Model, factors: Iterable[np.ndarray], sizes: np.ndarray) -> float:
    """exp of the entropy of the bases' shares in the squared size of the interactions: how many of equal size they are
    worth (Roy and Vetterli, 2007). A basis has about the squared size prod_t sum_j E x_j^2 (u^t_j)^2, of m factors that
    are one where it is direct."""
    shares = []
    for group, P in zip(model.groups, factors, strict=True):
        of_features = np.concatenate([sizes, np.ones(group.n_dummies)])
        squares = P.reshape(-1, len(of_features)) ** 2 @ of_features
        by_factor = squares.reshape(group.n_bases, group.form.n_factors)
        shares.append(np.prod(by_factor, axis=1) ** (group.degree // group.form.n_factors))
    parts = np.concatenate(shares)
    parts /= max(parts.sum(), 1e-300)
    return float(np.exp(-xlogy(parts, parts).sum())) if parts.any() else 0.0


def mean_squares(design) -> np.ndarray:
    """(features,): the mean square of each."""
    indptr, _, data = design.columns
    counts = np.diff(indptr.astype(np.int64)).astype(np.float64)
    if data is not None:
        ends = np.concatenate([[0.0], np.cumsum(data.astype(np.float64) ** 2)])
        counts = np.diff(ends[indptr.astype(np.int64)])
    return counts / design.shape[0]
