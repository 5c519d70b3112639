"""Variational inference for factorization machines: the best posterior of independent Gaussians, and of the precisions
and means of each field and basis (`core.hyper`).

    y_i ~ N(f_i, 1 / (tau w_i)),   tau ~ Gamma(a0 / 2, s2 / 2)

The objective is minus the evidence lower bound, which never falls. Nothing has to be tuned: the scale of the prior on
the bases is that at which interactions would be as large as what the linear model leaves over. It is held for some
epochs, so that bases learn something before they are judged by their size.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import psi

from polyfm.core.hyper import A0, Groups, Hyper, entropy, gamma_divergence
from polyfm.core.parameters import Parameters
from polyfm.core.problem import Problem
from polyfm.core.threads import Team
from polyfm.loops import moments
from polyfm.loops.prior import Prior
from polyfm.solvers.base import Resume, Solver
from polyfm.solvers.schedule import N_SHARES, Plan, Schedule

HOLD = 5  # epochs with the prior held
LINEAR = 3  # epochs of the linear weights alone, before the first
REFRESH = 10  # epochs after which residuals are computed anew
TINY = 1e-12  # of the squared targets: less is no noise, but rounding


@dataclass
class Part:
    """Parameters of one kind, (bases, features + dummies): linear weights, or the bases of one degree."""

    form: object
    n_dummies: int
    mean: np.ndarray
    variance: np.ndarray
    hyper: Hyper


@dataclass
class State:
    parameters: Parameters  # the means
    S: np.ndarray  # (samples, 1 + cache): expected residuals, then moments of one basis
    plan: Plan
    parts: list[Part]  # the linear weights first, where there are any
    s2: float  # size of squared residuals
    rate: float  # of the distribution of tau
    squares: float  # E sum w (f - y)^2
    intercept_variance: float
    epoch: int = 0


@dataclass(frozen=True)
class Variational(Solver):
    """`groups` is the group of each feature, counted from 0; None: all are in one."""

    n_threads: int = 1
    seed: int = 0
    groups: np.ndarray | None = None

    summary = "variational inference"
    epoch = "one pass over the means and variances of all parameters"
    needs_multilinear = True
    fits_lambdas = False

    # -- start --------------------------------------------------------------------------------------------------------

    def init_state(self, problem: Problem, parameters: Parameters, resume: Resume | None = None) -> State:
        design, model = problem.design, problem.model
        (n, d), weight = design.shape, problem.response.weight
        if any(group.form.kernel != "anova" or group.form.lifted for group in model.groups):
            raise ValueError("Variational inference is for factorization machines with method='direct'.")
        labels = np.zeros(d, dtype=np.int64) if self.groups is None else np.asarray(self.groups, dtype=np.int64)
        total, y = problem.total_weight, problem.y.astype(np.float64)
        w = np.ones(n) if weight is None else weight.astype(np.float64)
        parts: list[Part] = []
        plan = self._plan(problem)
        S = np.zeros((n, 1 + max(moments.moments_of(group.degree).n_cached for group in model.groups)))
        parameters.coef[:] = 0.0
        parameters.intercept[:] = w @ y / total if model.fit_intercept else 0.0
        S[:, 0] = parameters.intercept[0] - y
        smallest = TINY * max(float(w @ y**2) / total, 1e-200)
        s2 = max(float(w @ S[:, 0] ** 2 / total), smallest)
        state = State(parameters, S, plan, parts, s2, 0.0, total * s2, 0.0)
        self._learn_noise(problem, state)
        of_squares = [self._mean_of_squares(problem, degree) for degree in (1, *(g.degree for g in model.groups))]
        if model.fit_linear:
            precision = (of_squares[0] or s2) / s2
            hyper = Hyper.held(Groups.from_labels(labels), 1, precision, 1 / precision)
            parts.append(Part(moments.moments_of(1), 0, np.zeros((1, d)), np.zeros((1, d)), hyper))
            for _ in range(LINEAR):
                self._sweep(problem, state)
                self._learn_noise(problem, state)
            state.s2 = s2 = max(float(w @ S[:, 0] ** 2 / total), smallest)
        rng = np.random.RandomState(self.seed)
        for group, size in zip(model.groups, of_squares[1:], strict=True):
            # k size / lam^m, the variance of the interactions, is s2 when held; the prior expects a quarter of it.
            scale = (group.n_bases * size / s2) ** (1 / group.degree) or 1.0
            dummies = labels.max() + 1 + np.zeros(group.n_dummies, dtype=np.int64)
            groups = Groups.from_labels(np.concatenate([labels, dummies]))
            prior = scale * 4.0 ** (1 / group.degree)
            shape = group.n_bases, d + group.n_dummies
            part = Part(
                moments.moments_of(group.degree), group.n_dummies, rng.standard_normal(shape) * 0.3 / math.sqrt(scale),
                np.zeros(shape), Hyper.held(groups, group.n_bases, scale, 1 / prior),
            )  # fmt: skip
            parts.append(part)
        self._publish(problem, state)
        self._refresh(problem, state)
        return state

    def _plan(self, problem: Problem) -> Plan:
        (n, d), design = problem.design.shape, problem.design
        if design.is_sparse:
            return design.derived(Schedule).plan()
        return Plan(np.array([0, n]), np.zeros(2, dtype=np.int64), np.array([[0, d]]))

    @staticmethod
    def _mean_of_squares(problem: Problem, degree: int) -> float:
        """The mean over rows of A^m(1, x^2), dummy features aside: the variance of A^m(p, x) at p ~ N(0, 1)."""
        d = problem.design.shape[1]
        sums = np.zeros(problem.design.shape[0])
        ones = np.ones((d, 1))
        moments.add_variances((0.0,) * degree, 0, tuple(problem.design.rows), 0.0 * ones, ones, 0, len(sums), sums)
        weight = problem.response.weight
        return float(np.average(sums, weights=weight))

    # -- epochs -------------------------------------------------------------------------------------------------------

    def objective(self, problem: Problem, state: State) -> float:
        """Of the linear model that training starts from, as a point: its negative log-likelihood."""
        return 0.5 * problem.total_weight * (1 + math.log(2 * math.pi * state.s2))

    def update(self, problem: Problem, state: State) -> float:
        self._sweep(problem, state)
        state.epoch += 1
        if state.epoch > HOLD:
            for part in state.parts:
                part.hyper = part.hyper.given(part.mean, part.variance)
        self._publish(problem, state)
        if state.epoch % REFRESH == 0:
            self._refresh(problem, state)
        self._learn_noise(problem, state)
        return -self.bound(problem, state)

    def tau(self, problem: Problem, state: State) -> float:
        """The expected precision of the noise."""
        return (A0 + problem.total_weight) / (2 * state.rate)

    def bound(self, problem: Problem, state: State) -> float:
        """The evidence lower bound."""
        n, shape = problem.total_weight, (A0 + problem.total_weight) / 2
        value = 0.5 * n * (psi(shape) - math.log(state.rate) - math.log(2 * math.pi))
        value -= 0.5 * shape / state.rate * state.squares + gamma_divergence(shape, state.rate, A0 / 2, state.s2 / 2)
        if problem.model.fit_intercept:
            value += entropy(np.array([state.intercept_variance]))
        return float(value + sum(part.hyper.bound(part.mean, part.variance) for part in state.parts))

    def _learn_noise(self, problem: Problem, state: State) -> None:
        state.rate = (state.s2 + max(state.squares, 0.0)) / 2

    def _sweep(self, problem: Problem, state: State) -> None:
        design, weight, S = problem.design, problem.response.weight, state.S
        tau = self.tau(problem, state)
        if problem.model.fit_intercept:
            total = problem.total_weight
            slope = float(S[:, 0].sum() if weight is None else weight.astype(np.float64) @ S[:, 0])
            delta, variance = -slope / total, 1 / (tau * total)
            state.squares += total * (delta * delta + variance - state.intercept_variance) + 2 * slope * delta
            state.intercept_variance = variance
            S[:, 0] += delta
            state.parameters.intercept[:] += delta
        schedule = design.derived(Schedule)
        data = tuple(design.columns), tuple(design.rows), schedule.order if design.is_sparse else None
        threads = min(self.n_threads, N_SHARES) if design.is_sparse and schedule.groups is not None else 1
        with Team(threads) as team:
            for part in state.parts:
                hyper, changes = part.hyper, np.zeros(part.mean.shape)
                prior = Prior(hyper.groups.of, hyper.precision, hyper.mean)
                step = part.form, weight, prior, tau, *data, tuple(state.plan), design.ones.indptr
                arrays = S, part.mean, part.variance, changes
                team.together(lambda *me, step=step, arrays=arrays: moments.epoch(*step, *me, *arrays))
                state.squares += float(changes.sum())

    def _publish(self, problem: Problem, state: State) -> None:
        """The means, as parameters."""
        parts = list(state.parts)
        if problem.model.fit_linear:
            state.parameters.coef[:] = parts.pop(0).mean[0]
        for P, lams, part in zip(state.parameters.factors, state.parameters.lambdas, parts, strict=False):
            P[:, 0] = part.mean
            lams[:] = 1.0

    def _refresh(self, problem: Problem, state: State) -> None:
        """Residuals, and their expected squares, from the parameters: rounding never accumulates."""
        problem.shifted_predictions(state.parameters, state.S[:, 0])
        r, weight = state.S[:, 0], problem.response.weight
        w = np.ones(len(r)) if weight is None else weight.astype(np.float64)
        state.squares = float(w @ (r * r + self.variances(problem, state)))

    def variances(self, problem: Problem, state: State) -> np.ndarray:
        """Var f of every row."""
        rows, n = tuple(problem.design.rows), problem.design.shape[0]
        out = np.full(n, state.intercept_variance)
        for part in state.parts:
            M, V = np.ascontiguousarray(part.mean.T), np.ascontiguousarray(part.variance.T)
            moments.add_variances(part.form.degree_slots, part.n_dummies, rows, M, V, 0, n, out)  # type: ignore[attr-defined]
        return out
