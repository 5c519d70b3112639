"""Penalties that the data choose: alpha by the linear model on held-out rows, then beta along a path from beta_max.

Where "auto" stands for stochastic steps, the number of epochs is chosen too: a model is judged after each of them. All
of it follows a change of units in X or y. docs/defaults.md has the rule in words, and what it was measured on.
"""

import copy
import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from polyfm.core.baseline import best_constant
from polyfm.core.design import Design
from polyfm.core.fitted import Fitted
from polyfm.core.linear import Linear, total_loss
from polyfm.core.model import Model
from polyfm.core.parameters import Parameters
from polyfm.core.penalty import Ridge
from polyfm.core.problem import Problem
from polyfm.core.threads import one_thread_of_blas
from polyfm.solvers import interrupts, run, run_in_place, solver_class
from polyfm.training.folds import ranks_by_content, sample_by_content
from polyfm.training.hooks import EarlyStopping
from polyfm.training.path import revived
from polyfm.training.recipe import Recipe
from polyfm.training.scales import Rows, linear_models, mean_curvature, penalty_scales

N_PARTS = 5  # of the rows, one of which is held out at a time
MOST_FOLDS = 15  # three divisions into parts
NONZEROS_OF_FOLDS = 3e5  # in all folds together: where one has more, it tells enough
MOST_NONZEROS = 3e7  # that a search looks at
LARGEST_ALPHA, N_ALPHAS = 10.0, 9  # in units of the mean second derivative; each a quarter of the one before
N_BETAS = {True: 11, False: 13}  # halvings of beta_max, with and without linear weights, which set it high
EPOCHS = 10  # at each beta, at most
TOL = 5e-3  # of an epoch's gain, at which a fit tells enough: what is judged must be like what the last fit will be
TOL_OF_FEW = 1e-5  # the same, of models with many local minima, while data are few
MOST_STEPS = 30  # stochastic epochs, at most
GAIN = 2e-3  # of the loss on held-out rows, below which another stochastic epoch is not worth it
UNTIL_BETTER = 5  # epochs without a gain that are borne as long as models without interactions are better there
PATIENCE = 2  # penalties without a gain
WORSE = 1.02  # a loss this many times the best ends the path
CERTAIN = 3.0  # standard errors above the best, which end it at once
IN_DOUBT = 0.5  # standard errors within which the stronger of two neighbours is taken
STEPS_BETWEEN = 16  # a penalty and its neighbour
N_BLOCKS = 50  # of held-out rows, whose losses tell the standard error
BEYOND = 0.25  # of the range of the targets: farther outside, a held-out prediction counts as if it were there


class Fold(NamedTuple):
    train: Rows
    held_out: Rows  # block by block
    bounds: np.ndarray  # (blocks + 1,)

    @property
    def share(self) -> float:
        """The part of the rows, by weight, that is trained on."""
        return self.train.total / (self.train.total + self.held_out.total)


class Penalties(NamedTuple):
    """What was chosen, parameters of each target to start from (none: anew) and epochs of stochastic steps; None where
    there are none to take."""

    alpha: float | Ridge
    beta: Any  # a number or a Ridge; a tuple with one number for each group of bases where there are several
    starts: list[Parameters]
    epochs: tuple[int, ...] | None = None


def choose_penalties(
    recipe: Recipe,
    design: Design,
    X,
    targets: list[np.ndarray],
    weight: np.ndarray | None,
    strata: np.ndarray | None,
    seeds: np.ndarray,
    say: Callable[[int, int, str], None] = lambda done, total, note: None,
) -> Penalties:
    """Fill in those of the recipe's penalties that are None. Rows of weight zero are as good as none.

    `design` is X as the final fit wants it. `strata` are classes, each of which is spread over all folds. `say` is told
    of every step: its number, how many there are at most, and what was found.
    """
    data = Rows(X.tocsr() if hasattr(X, "tocsr") else X, targets, weight)
    with one_thread_of_blas():  # the same bits on any machine
        search = Search(recipe, data, strata, seeds, say, solver=recipe.solver_of_path(design))
        return search.run(Whole(recipe, design, data, seeds))


def choose_alpha(
    recipe: Recipe, X, targets: list[np.ndarray], weight: np.ndarray | None, strata: np.ndarray | None, seed: int
) -> float:
    """The alpha with which the linear model alone is best on held-out rows."""
    data = Rows(X.tocsr() if hasattr(X, "tocsr") else X, targets, weight)
    with one_thread_of_blas():
        search = Search(recipe, data, strata, np.array([seed]), lambda done, total, note: None)
        return search.alpha(mean_curvature(recipe.model, recipe.loss, data))


class Whole:
    """All rows, which the scales of penalties are those of, and where training will start. They may be elsewhere."""

    def __init__(self, recipe: Recipe, design: Design, data: Rows, seeds: np.ndarray):
        self.recipe, self.design, self.data, self.seeds = recipe, design, data, seeds

    def mean_curvature(self) -> float:
        return mean_curvature(self.recipe.model, self.recipe.loss, self.data)

    def linear_models(self, alpha: float | Ridge, near: list[Linear] | None) -> list[Linear]:
        return linear_models(self.recipe.model, self.recipe.loss, self.data, alpha, near, exact=True)

    def penalty_scales(self, linear: list[Linear]) -> tuple[float, ...]:
        return penalty_scales(self.recipe, self.data, linear)

    def path(self, alpha: float | Ridge, linear: list[Linear], scales: tuple[float, ...]) -> "Path":
        solver = self.recipe.solver_of_path(self.design)
        return Path(self.recipe, solver, self.design, self.data, alpha, linear, scales, self.seeds)


class Search:
    """The choice of penalties on held-out rows of `data`, which are `growth` times as many in all. Folds are trained by
    the solver of the whole path, where it is known: one that needs many rows might else have too few in a fold."""

    def __init__(
        self, recipe: Recipe, data: Rows, strata, seeds: np.ndarray, say: Callable[[int, int, str], None],
        growth: float = 1.0, solver: str | None = None,
    ):  # fmt: skip
        self.recipe, self.seeds, self.solver = recipe, seeds, solver
        self.model, self.loss, self.seed = recipe.model, recipe.loss, int(seeds[0])
        self.n_betas = N_BETAS[self.model.fit_linear]
        self.steps = recipe.takes_steps(data.X)
        self.said, self.tell = 0, say
        sample, self.growth = data, growth
        if data.weight is not None and not data.weight.all():
            kept = np.flatnonzero(data.weight)
            sample, strata = sample.take(kept), None if strata is None else strata[kept]
        if sample.nnz > MOST_NONZEROS:
            rows = sample_by_content(sample.X, MOST_NONZEROS / sample.nnz, self.seed)
            self.growth *= sample.X.shape[0] / len(rows)
            sample, strata = sample.take(rows), None if strata is None else strata[rows]
        self.folds = _folds(sample, strata, self.seed, self.steps)
        self.n_held_out = sum(fold.held_out.total for fold in self.folds)
        self.near: list[list[Linear]] = [[] for _ in self.folds]  # linear models of the folds, at about the best alpha

    def run(self, whole: Whole | Any) -> Penalties:
        recipe = self.recipe
        if recipe.is_complete:
            return Penalties(recipe.alpha, recipe.beta, [], self._epochs())
        alpha = recipe.alpha
        if alpha is None:
            alpha = self.alpha(whole.mean_curvature() if self.model.fit_linear else 0.0)
        linear = whole.linear_models(alpha, self.near[0] if self.near else None)
        if recipe.beta is not None:
            epochs = self._epochs(alpha) if self.steps else None
            return Penalties(alpha, recipe.beta, whole.path(alpha, linear, ()).fresh, epochs)
        scales, part, epochs = whole.penalty_scales(linear), 1.0, None
        if all(scales):
            part, epochs = self._part(alpha, scales)
        else:  # nothing is left to learn: any penalty leads there
            unit = whole.mean_curvature()
            scales = tuple(scale or unit for scale in scales)
        path = whole.path(alpha, linear, scales)
        if self.steps or not _has_many_minima(self.model):
            return Penalties(alpha, path.betas(part), path.fresh, epochs)
        # Of many local minima, that which the path leads to: the one which held-out rows have judged.
        for j in range(1, math.ceil(-math.log2(part)) if part > 0 else 1):
            path.step(2.0**-j)
        starts = [revived(p, fresh) for p, fresh in zip(path.parameters, path.fresh, strict=True)]
        return Penalties(alpha, path.betas(part), starts)

    def _say(self, name: str, value: float, losses: np.ndarray, epochs: tuple[int, ...] = ()) -> None:
        note = f"{name} {value:.3g}   held-out loss {losses.sum() / self.n_held_out:.6g}"
        self._tell(note + (f"   {_in_words(epochs)}" if epochs else ""))

    def _tell(self, note: str) -> None:
        self.said += 1
        self.tell(self.said, N_ALPHAS + self.n_betas + 1, note)

    def alpha(self, unit: float) -> float:
        """Where the linear model alone is best on held-out rows; in proportion to the rows that it is trained on.
        `unit` is the mean curvature of all rows."""
        if not self.model.fit_linear:
            return 0.0
        if unit == 0 or not self.folds:
            return unit or 1.0
        parts = LARGEST_ALPHA * 4.0 ** -np.arange(N_ALPHAS)
        losses: list[np.ndarray] = []
        fits: list[list[Linear]] = [[] for _ in self.folds]
        for part in parts:
            found = []
            for k, fold in enumerate(self.folds):
                strength = part * unit * fold.share / self.growth
                fits[k] = linear_models(self.model, self.loss, fold.train, strength, fits[k])
                found.append(_losses(fold, self.loss, [fit.predict(fold.held_out.X) for fit in fits[k]]))
            losses.append(np.concatenate(found))
            if _best(losses) == len(losses) - 1:
                self.near = list(fits)
            self._say("alpha", part * unit / self.growth, losses[-1])
            if self._is_past(losses, 1.0) or interrupts.interrupted():
                break
        at = _choose(losses, len(self.folds))
        return float(LARGEST_ALPHA * 4.0**-at * unit / self.growth)

    def _path(self, fold: Fold, alpha: float | Ridge, linear: list[Linear], scales: tuple[float, ...]) -> "Path":
        design = Design(fold.train.X, "given" if self.steps else "sorted")
        solver = "sgd" if self.steps else self.solver or self.recipe.solver_of_path(design)
        judges = Judges(fold.held_out, self._plain_losses(fold, alpha, linear)) if self.steps else None
        return Path(self.recipe, solver, design, fold.train, alpha, linear, scales, self.seeds, judges)

    def _plain_losses(self, fold: Fold, alpha: float | Ridge, linear: list[Linear]) -> list[float]:
        """The mean losses of linear models on held-out rows, or of constants where these are better; of each target."""
        linear = linear or linear_models(self.model, self.loss, fold.train, alpha)
        constants = [best_constant(response) for response in fold.train.responses(self.loss)]
        rows, found = fold.held_out, []
        for response, fit, constant in zip(rows.responses(self.loss), linear, constants, strict=True):
            of_both = fit.predict(rows.X), np.full(rows.X.shape[0], constant)
            found.append(min(total_loss(response, f) for f in of_both) / rows.total)
        return found

    def _epochs(self, alpha: float | Ridge | None = None) -> tuple[int, ...] | None:
        """As many as are best on held-out rows, with the recipe's own penalties; of each target. None where models
        without interactions are better there than all of them, or where one beta does not tell."""
        if not self.folds or _learns_late(self.model):
            return None
        found, gained = [], 0.0
        for fold, near in zip(self.folds, self.near, strict=True):
            path = self._path(fold, self.recipe.alpha if alpha is None else alpha, near, ())
            gained += path.step(None)
            found.append(path.epochs)
        if not gained > 0:
            return None
        epochs = _mean_of_epochs(found)
        self._tell(_in_words(epochs))
        return epochs

    def _part(self, alpha: float | Ridge, scales: tuple[float, ...]) -> tuple[float, tuple[int, ...] | None]:
        """The part of beta_max that is best on held-out rows, and the epochs of stochastic steps."""
        if not self.folds:
            return 0.5, None
        paths = []
        for fold, near in zip(self.folds, self.near, strict=True):
            own = alpha * fold.share if isinstance(alpha, float) and self.recipe.alpha is None else alpha
            linear = linear_models(self.model, self.loss, fold.train, own, near)
            share = fold.share / math.sqrt(self.growth)  # what noise can reach grows with the root of the rows
            paths.append(self._path(fold, own, linear, tuple(share * s for s in scales)))
        designs = [Design(fold.held_out.X) for fold in self.folds]
        losses: list[np.ndarray] = []
        epochs: list[tuple[int, ...]] = []

        def judged(j: int) -> tuple[np.ndarray, tuple[int, ...]] | None:
            along = [path.apart() for path in paths] if self.steps else paths
            try:
                if j:
                    for path in along:
                        path.step(2.0**-j)
                found = [
                    _losses(fold, self.loss, path.predict(design))
                    for fold, path, design in zip(self.folds, along, designs, strict=True)
                ]
            except FloatingPointError:  # so weak a penalty lets values overflow
                return None
            return np.concatenate(found), _mean_of_epochs([path.epochs for path in along])

        for j, found in self._in_turn(judged):
            if found is None:
                break
            losses.append(found[0])
            epochs.append(found[1])
            self._say("beta", scales[-1] * 2.0**-j, losses[-1], found[1] if self.steps else ())
            # The linear model is at its minimum. That first steps are worse says nothing of those at weaker penalties.
            alike = losses[1:] if self.steps and j else losses
            if self._is_past(alike, WORSE) or interrupts.interrupted():
                break
        at = _choose(losses, len(self.folds))
        return 2.0**-at, epochs[round(at)] if self.steps and round(at) > 0 else None  # the first is the linear model

    def _in_turn(self, judged: Callable[[int], Any]) -> Iterator[tuple[int, Any]]:
        """What is found at each step down from beta_max. Steps that begin anew are taken by several threads at once."""
        n, at_once = self.n_betas + 1, self.recipe.n_threads if self.steps else 1
        if at_once == 1:
            yield from ((j, judged(j)) for j in range(n))
            return
        yield 0, judged(0)
        with ThreadPoolExecutor(at_once) as pool:
            for first in range(1, n, at_once):
                some = range(first, min(first + at_once, n))
                yield from zip(some, list(pool.map(judged, some)), strict=True)

    def _is_past(self, losses: list[np.ndarray], worse: float) -> bool:
        """Whether the best is behind: the last is worse beyond doubt, or this many times worse and not the first."""
        best, last = _best(losses), len(losses) - 1
        if best == last:
            return False
        difference, error = _difference(losses[last], losses[best], len(self.folds))
        enough = last - best >= PATIENCE and losses[last].sum() > worse * losses[best].sum()
        return enough or difference > CERTAIN * error


class Judges(NamedTuple):
    """Rows to judge stochastic epochs by."""

    rows: Rows
    plain: list[float]  # mean losses of models without interactions, of each target


class Path:
    """All targets of some rows, from the linear model on, at ever smaller parts of the scales of beta. Where there are
    rows to judge by, each step begins anew, and ends with the epoch that is best on them."""

    def __init__(
        self, recipe: Recipe, solver: str, design: Design, data: Rows, alpha: float | Ridge, linear: list[Linear],
        scales: tuple[float, ...], seeds: np.ndarray, judges: Judges | None = None,
    ):  # fmt: skip
        self.recipe, self.solver, self.design, self.data = replace(recipe, alpha=alpha), solver, design, data
        self.scales, self.seeds = scales, seeds
        first = self.recipe.with_beta(1.0 if recipe.beta is None else recipe.beta)
        self.fresh = [
            first.start(first.problem(self.design, y, data.weight), int(seed))
            for y, seed in zip(data.targets, seeds, strict=True)
        ]
        if linear:
            self.fresh = [_beside(start, fit) for start, fit in zip(self.fresh, linear, strict=True)]
        self.parameters = [_without_bases(p) for p in self.fresh]
        self.judges: list[tuple[Problem, float]] | None = None
        if judges is not None:
            rows, held_out = judges.rows, Design(judges.rows.X)
            problems = [first.problem(held_out, y, rows.weight) for y in rows.targets]
            self.judges = list(zip(problems, judges.plain, strict=True))
        self.epochs = [1] * len(self.fresh)  # of the last step

    def apart(self) -> "Path":
        """The same, to go its own way."""
        other = copy.copy(self)
        other.parameters, other.epochs = list(self.parameters), list(self.epochs)
        return other

    def betas(self, part: float) -> Any:
        found = tuple(part * scale for scale in self.scales)
        return found[0] if len(found) == 1 else found

    def step(self, part: float | None) -> float:
        """A few epochs from where the step before ended; with the recipe's own beta where no part is named. By how much
        judges like them better than models without interactions, in all."""
        gained = 0.0
        recipe = self.recipe if part is None else self.recipe.with_beta(self.betas(part))
        few = self.data.nnz < NONZEROS_OF_FOLDS and _has_many_minima(self.recipe.model)
        most = EPOCHS if self.judges is None else MOST_STEPS
        tol, epochs = TOL_OF_FEW if few else TOL, max(most, solver_class(self.solver).window or 0)
        for t, (y, seed) in enumerate(zip(self.data.targets, map(int, self.seeds), strict=True)):
            problem = recipe.problem(self.design, y, self.data.weight)
            solver: Any = recipe.make_solver(self.solver, seed)
            stopping = None
            if self.judges is not None:
                judge, plain = self.judges[t]
                goal = -np.inf if _learns_late(recipe.model) else (1 - GAIN) * plain
                stopping = EarlyStopping(judge, 1, GAIN, goal, longer=UNTIL_BETTER)
                solver = replace(solver, warns=False)  # of a try, that held-out rows judge
            start = self.fresh[t] if stopping else revived(self.parameters[t], self.fresh[t])
            train = run_in_place if part is None else run  # its own beta is tried once, and may use up the start
            result = train(
                solver, problem, start, max_iter=epochs, tol=0 if stopping else tol,
                hooks=(stopping,) if stopping else (), resumable=False,
            )  # fmt: skip
            if result.interrupted and not interrupts.interrupted():
                raise KeyboardInterrupt  # which nobody defers, and nothing has been learned yet
            self.parameters[t] = result.parameters
            if stopping and stopping.best_parameters is not None:
                self.parameters[t] = stopping.best_parameters
                self.epochs[t] = 1 + int(np.argmin(stopping.losses))
                gained += plain - stopping.best
        return gained

    def predict(self, design: Design) -> np.ndarray:
        return Fitted(self.recipe.model, self.parameters).predict(design)


def _without_bases(parameters: Parameters) -> Parameters:
    """Linear weights alone. Zeros that nobody reads take no memory."""
    return parameters._replace(factors=tuple(np.zeros(P.shape, P.dtype) for P in parameters.factors))


def _mean_of_epochs(of_folds: list[list[int]]) -> tuple[int, ...]:
    """For each target."""
    return tuple(int(n) for n in np.rint(np.mean(of_folds, axis=0)))


def _in_words(epochs: tuple[int, ...]) -> str:
    return f"{' '.join(map(str, epochs))} epoch(s)"


def _learns_late(model: Model) -> bool:
    """Whether stochastic epochs may gain nothing for long, and then much: products of more than two features are seen
    when others are."""
    return model.groups[0].degree > 2


def _has_many_minima(model: Model) -> bool:
    """Whether it matters where training starts: for all but linear weights beside interactions of degree 2."""
    return not model.fit_linear or any(group.degree > 2 for group in model.groups)


def _folds(data: Rows, strata: np.ndarray | None, seed: int, shuffled: bool = False) -> list[Fold]:
    """Rows to train on are `shuffled` where they are for stochastic steps, which then need no copy of their own."""
    folds: list[Fold] = []
    count = MOST_FOLDS
    while len(folds) < count:
        ranks = ranks_by_content(data.X, strata, seed + len(folds))
        if not folds:
            distinct = (1 + ranks.max()) / len(ranks) if strata is None else _share_of_distinct(ranks, strata)
            count = int(np.clip(math.ceil(NONZEROS_OF_FOLDS / max(distinct * data.nnz, 1)), 1, MOST_FOLDS))
        for part in range(min(N_PARTS, count - len(folds))):
            held_out = np.flatnonzero(ranks % N_PARTS == part)
            if not 0 < len(held_out) < len(ranks):
                return []
            blocks = ranks[held_out] // N_PARTS % N_BLOCKS
            order = np.argsort(blocks, kind="stable")
            bounds = np.searchsorted(blocks[order], np.arange(blocks.max() + 2))
            train = np.flatnonzero(ranks % N_PARTS != part)
            if shuffled:
                np.random.RandomState(seed).shuffle(train)
            folds.append(Fold(data.take(train), data.take(held_out[order]), np.unique(bounds)))
    return folds


def _share_of_distinct(ranks: np.ndarray, strata: np.ndarray) -> float:
    return len(np.unique(np.column_stack([ranks, strata]), axis=0)) / len(ranks)


def _losses(fold: Fold, loss, predictions) -> np.ndarray:
    """The losses of blocks of held-out rows. One prediction far outside must not decide for all others."""
    found = []
    for response, f in zip(fold.held_out.responses(loss), predictions, strict=True):
        if response.shift is not None:
            low, high = float(response.shift.min()), float(response.shift.max())
            f = np.clip(f, low - BEYOND * (high - low), high + BEYOND * (high - low))
        arrays = {"y": response.y, "weight": response.weight, "shift": response.shift}
        for lo, hi in itertools.pairwise(fold.bounds):
            block = {name: None if array is None else array[lo:hi] for name, array in arrays.items()}
            found.append(total_loss(response._replace(**block), f[lo:hi]))
    return np.array(found)


def _best(losses: list[np.ndarray]) -> int:
    """Which has the smallest sum; one that is no number never has."""
    return int(np.argmin(np.nan_to_num([block.sum() for block in losses], nan=np.inf)))


def _difference(losses: np.ndarray, others: np.ndarray, n_folds: int) -> tuple[float, float]:
    """Of two sums over the same blocks of rows, with its standard error."""
    repeated = max(1.0, n_folds / N_PARTS)  # times that the same rows were held out
    difference = losses - others
    size = float(np.max(np.abs(difference))) or 1.0  # whose square may overflow
    return float(difference.sum()), size * float(np.std(difference / size)) * math.sqrt(len(difference) * repeated)


def _choose(losses: list[np.ndarray], n_folds: int) -> float:
    """Which of the losses, from strong to weak penalties, to take: the one before the best, if that is not worse beyond
    doubt, or else the minimum of the parabola through the best and its neighbours."""
    best = _best(losses)
    if best > 0:
        difference, error = _difference(losses[best - 1], losses[best], n_folds)
        if difference <= IN_DOUBT * error:
            return float(best - 1)
    if best in (0, len(losses) - 1):
        return float(best)
    before, least, after = (losses[i].sum() for i in (best - 1, best, best + 1))
    fall, rise = before - least, after - least
    if not 0 < fall + rise < np.inf:
        return float(best)
    # In steps that rounding errors of the fits do not tell.
    return best + round(STEPS_BETWEEN * 0.5 * (fall - rise) / (fall + rise)) / STEPS_BETWEEN


def _beside(parameters: Parameters, linear: Linear) -> Parameters:
    """The same factors beside a linear model that is fitted already. A weight that single precision does not hold is
    left at zero."""
    with np.errstate(over="ignore"):
        coef, intercept = (np.asarray(v).astype(parameters.coef.dtype) for v in (linear.coef, [linear.intercept]))
    coef[~np.isfinite(coef)], intercept[~np.isfinite(intercept)] = 0, 0
    return parameters._replace(coef=coef, intercept=intercept)
