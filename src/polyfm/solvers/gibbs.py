"""Gibbs sampling: draws from the posterior of all parameters, their priors and the noise, given the data.

An iteration draws, each given all others: the precision of the noise (or latent targets), the intercept, the precision
and mean of each field and basis (`core.hyper`), and all parameters, by the coordinate or block steps of descent with
another rule (`loops.rule.Gibbs`). Random numbers belong to what is drawn and to the iteration: threads change no bit.

The chain starts from the best posterior of independent Gaussians (`variational`), so that it is soon where it should
be. There is none of lifted forms: their chain starts where variational inference would have, with precisions held as
there, and is given as many iterations to find its way. Draws are kept in single precision.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from polyfm.core.hyper import Hyper, Tied
from polyfm.core.parameters import Parameters
from polyfm.core.penalty import Penalty
from polyfm.core.problem import Problem
from polyfm.loops.rule import Gibbs
from polyfm.solvers import variational
from polyfm.solvers.base import Resume, Solver
from polyfm.solvers.block_descent import BlockDescent
from polyfm.solvers.coordinate_descent import CoordinateDescent
from polyfm.solvers.likelihood import generator, key_of, weighted_sum
from polyfm.solvers.monitor import Monitor
from polyfm.solvers.variational import HOLD, Variational, has_moments, numbered, of_number

REFRESH = 30  # iterations after which residuals are computed anew
BURN_IN = 10  # iterations before the first that may be kept, from a start that is good
EXACT = "intercept", "noise", "cuts"  # what is kept of a draw in double precision
SINGLE = 1e-30, 1e30  # sizes that single precision holds with room to spare
OF_HYPERS = "b0", "rate", "centre", "strength"  # what checkpoints have of them
HYPER, INTERCEPT = 1, 2  # what random numbers are for; the likelihood's own are 0


@dataclass
class Chain:
    """Where the chain is, beside the parameters and the likelihood."""

    steps: Any  # the state of the solver that draws parameters
    hypers: list[Hyper | Tied]  # the linear weights first, where there are any

    @property
    def residuals(self) -> np.ndarray:
        return self.steps.f


class Samples:
    """Draws that are kept, in arrays with room for all: memory is touched once."""

    def __init__(self, room: int):
        self.room, self.n, self._arrays = room, 0, dict[str, np.ndarray]()

    def __len__(self) -> int:
        return self.n

    def append(self, sample: dict[str, np.ndarray]) -> None:
        for name, array in sample.items():
            if name not in self._arrays:
                low, high = SINGLE
                size = float(np.abs(array).max(initial=0.0))
                single = name not in EXACT and (size == 0 or low < size < high)
                self._arrays[name] = np.empty((self.room, *array.shape), np.float32 if single else np.float64)
            self._arrays[name][self.n] = array
        self.n += 1

    @property
    def arrays(self) -> Resume:
        """(draws, ...)."""
        return {name: array[: self.n] for name, array in self._arrays.items()}


@dataclass
class State:
    start: variational.State
    monitor: Monitor  # of the variational start
    chain: Chain | None = None  # None: the start is still being looked for
    iteration: int = 0
    samples: "Samples" = field(default_factory=lambda: Samples(0))
    trace: list[tuple[float, float, float]] = field(default_factory=list)  # log-likelihood, noise, rank

    @property
    def parameters(self) -> Parameters:
        return self.start.parameters if self.chain is None else self.chain.steps.parameters


@dataclass(frozen=True)
class GibbsSampling(Solver):
    """`warm_up` epochs of variational inference at most, ended earlier by `tol`, or so many iterations where there is
    none; then as many as it takes to keep `n_samples` draws, one in `thinning`."""

    n_threads: int = 1
    seed: int = 0
    groups: np.ndarray | None = None
    likelihood: str = "gaussian"
    tied: bool = False
    n_samples: int = 50
    thinning: int = 2
    warm_up: int = 200
    tol: float = 1e-3
    steps: str = "cd"  # or "block"

    summary = "Gibbs sampling"
    epoch = "one pass over all parameters"
    needs_multilinear = True
    fits_lambdas = False
    monotone = False
    window = None
    resume_kinds = {"start/epoch": "i", "iteration": "i"}

    @property
    def start(self) -> Variational:
        return Variational(self.n_threads, self.seed, self.groups, self.likelihood, self.tied)

    # -- start --------------------------------------------------------------------------------------------------------

    def init_state(self, problem: Problem, parameters: Parameters, resume: Resume | None = None) -> State:
        start = self.start
        of_start = _below("start/", resume) if resume else None
        if has_moments(problem.model):
            begun = start.init_state(problem, parameters, of_start)
            history = [-row[0] for row in begun.trace]
            first = float(resume["first"][0]) if resume else start.objective(problem, begun)
            monitor = Monitor(first, self.warm_up, self.tol, start.window, history=history, unit=start.unit(problem))
        else:
            begun, monitor = start.begin(problem, parameters, of_start), Monitor(0.0, 0, self.tol)
        state = State(begun, monitor, samples=Samples(self.n_samples))
        if resume:
            self._restore(problem, state, resume)
        elif not has_moments(problem.model):
            self._begin(problem, state)
        return state

    def _begin(self, problem: Problem, state: State) -> None:
        """The chain, at the means that variational inference has found."""
        begun = state.start
        parameters = begun.parameters.copy(problem.design.dtype)
        steps = self._steps(None).init_state(problem, parameters)
        state.chain = Chain(steps, [part.hyper for part in begun.parts])
        self._refresh(problem, state)

    def _steps(self, rule: Any) -> Any:
        cls = BlockDescent if self.steps == "block" else CoordinateDescent
        return cls(n_threads=self.n_threads, rule=rule)

    # -- iterations ---------------------------------------------------------------------------------------------------

    def update(self, problem: Problem, state: State) -> float | None:
        if state.chain is None:
            objective = self.start.update(problem, state.start)
            state.monitor(objective, state.start)
            if state.monitor.done:
                self._begin(problem, state)
            return objective
        if len(state.samples) >= self.n_samples:
            return None
        alone = not has_moments(problem.model)
        self.draw(problem, state, hold=alone and state.iteration < HOLD)
        likelihood, chain = state.start.likelihood, state.chain
        log_likelihood = likelihood.log_likelihood(problem, chain.residuals)
        state.trace.append((log_likelihood, 1 / math.sqrt(likelihood.tau), self._rank(problem, state)))
        kept = state.iteration - (self.warm_up if alone else BURN_IN)
        if kept > 0 and kept % self.thinning == 0:
            state.samples.append(self._sample(problem, state))
        return -log_likelihood

    def draw(self, problem: Problem, state: State, hold: bool = False) -> None:
        """One iteration of the chain, with the priors held or drawn."""
        chain, likelihood = state.chain, state.start.likelihood
        assert chain is not None
        state.iteration += 1
        if state.iteration % REFRESH == 0:
            self._refresh(problem, state)
        parameters, residuals = chain.steps.parameters, chain.residuals
        thetas = ([parameters.coef[None]] if problem.model.fit_linear else []) + [*parameters.factors]
        pairs = [(hyper, theta.astype(np.float64)) for hyper, theta in zip(chain.hypers, thetas, strict=True)]
        tied = sum(hyper.tied_squares(theta, None) for hyper, theta in pairs)
        likelihood.draw(problem, residuals, self.seed, state.iteration, tied)
        tau = likelihood.tau
        if problem.model.fit_intercept:
            n = problem.total_weight
            noise = generator(self.seed, state.iteration, INTERCEPT).standard_normal() / math.sqrt(tau * n)
            delta = np.asarray(noise - weighted_sum(problem, residuals) / n, dtype=parameters.intercept.dtype)
            before = parameters.intercept[0]
            parameters.intercept[:] += delta
            residuals += parameters.intercept[0] - before  # by what it has changed indeed, rounded
        rng = generator(self.seed, state.iteration, HYPER)
        if not hold:
            chain.hypers = [hyper.given(theta, None).draw(rng) for hyper, theta in pairs]
        rule = Gibbs(*key_of(self.seed), state.iteration, 1 / tau)
        self._steps(rule).descend(self._conditional(problem, chain.hypers, tau), chain.steps)

    def _conditional(self, problem: Problem, hypers: list[Hyper | Tied], tau: float) -> Problem:
        """The problem whose penalties are the priors. The intercept has been drawn."""
        model, hypers = problem.model, list(hypers)
        linear = hypers.pop(0).ridge(tau) if model.fit_linear else problem.penalty.alpha
        # A penalty is beta |p|^2 of direct bases, without a half, and beta/2 sum_t |u^t|^2 of lifted ones.
        halves = (1.0 if group.form.lifted else 0.5 for group in model.groups)
        bases = tuple(hyper.ridge(tau).times(half) for hyper, half in zip(hypers, halves, strict=True))
        penalty = Penalty(model, problem.design.shape[1], linear, bases)
        return replace(problem, model=replace(model, fit_intercept=False), penalty=penalty)

    def _refresh(self, problem: Problem, state: State) -> None:
        chain = state.chain
        assert chain is not None
        problem.model.predict(chain.steps.parameters, problem.design, chain.residuals)
        chain.residuals[:] -= state.start.likelihood.z

    def _rank(self, problem: Problem, state: State) -> float:
        factors = (P.astype(np.float64) for P in state.parameters.factors)
        return variational.effective_rank(problem.model, factors, state.start.sizes)

    # -- what is kept -------------------------------------------------------------------------------------------------

    def _sample(self, problem: Problem, state: State) -> dict[str, np.ndarray]:
        arrays = state.parameters.to_arrays()
        arrays = {name: array for name, array in arrays.items() if not name.startswith("lambdas")}
        likelihood = state.start.likelihood
        return arrays | likelihood.kept() | {"noise": np.array([1 / math.sqrt(likelihood.tau)])}

    def settle(self, problem: Problem, state: State) -> float:
        if state.chain is None:
            return self.start.settle(problem, state.start)
        self._refresh(problem, state)
        return -state.start.likelihood.log_likelihood(problem, state.chain.residuals)

    def learned(self, problem: Problem, state: State) -> Resume:
        """The draws; before there are any, what variational inference has found, or where a chain without it is."""
        found = self.start.learned(problem, state.start)
        if not len(state.samples) and not has_moments(problem.model):
            state.samples.append(self._sample(problem, state))
        found |= {"trace": np.array(state.start.trace).reshape(-1, 3), "sampling": np.array(state.trace).reshape(-1, 3)}
        return found | _under("samples/", state.samples.arrays)

    def learned_before(self, problem: Problem, parameters: Parameters) -> Resume:
        return self.learned(problem, self.init_state(problem, parameters))

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def resume(self, state: State) -> Resume:
        arrays = _under("start/", self.start.resume(state.start)) | {"first": np.array([state.monitor.first])}
        if state.chain is None:
            return arrays
        arrays |= {"iteration": np.array([state.iteration]), "sampling": np.array(state.trace).reshape(-1, 3)}
        arrays |= {"residuals": state.chain.residuals.copy()}
        for i, hyper in enumerate(state.chain.hypers):
            arrays |= numbered(i, hyper.kept())
        arrays |= _under("chain/", state.parameters.to_arrays())
        return arrays | _under("samples/", state.samples.arrays)

    def resume_shapes(self, problem: Problem, parameters: Parameters) -> dict[str, tuple[int | None, ...]]:
        of_start = self.start.resume_shapes(problem, parameters)
        shapes = _under("start/", of_start) | {"first": (1,), "iteration": (1,), "sampling": (None, 3)}
        shapes |= {name: shape for name, shape in of_start.items() if name.startswith(OF_HYPERS)}
        of_chain = {name: array.shape for name, array in parameters.to_arrays().items()}
        shapes |= _under("chain/", of_chain) | {"residuals": (problem.design.shape[0],), "samples/noise": (None, 1)}
        shapes["samples/cuts"] = (None, None)
        return shapes | _under("samples/", {name: (None, *shape) for name, shape in of_chain.items()})

    def _restore(self, problem: Problem, state: State, resume: Resume) -> None:
        if "iteration" not in resume:
            return
        state.iteration = int(resume["iteration"][0])
        state.trace = [tuple(row) for row in resume["sampling"].tolist()]
        parameters = Parameters.from_arrays(_below("chain/", resume)).copy(problem.design.dtype)
        chain = Chain(self._steps(None).init_state(problem, parameters), [part.hyper for part in state.start.parts])
        chain.residuals[:] = resume["residuals"]
        for i, hyper in enumerate(chain.hypers):
            chain.hypers[i] = hyper.restored(of_number(i, resume))
        state.chain = chain
        samples = _below("samples/", resume)
        n = min(len(samples.get("noise", ())), self.n_samples)
        state.samples = Samples(self.n_samples)
        for i in range(n):
            state.samples.append({name: array[i] for name, array in samples.items()})


def n_iterations(n_samples: int, thinning: int, burn_in: int = BURN_IN) -> int:
    """That it takes to keep so many draws."""
    return burn_in + n_samples * thinning


def _under(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {prefix + name: array for name, array in arrays.items()}


def _below(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
