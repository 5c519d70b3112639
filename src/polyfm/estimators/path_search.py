"""Model selection along a path of betas: what the `...CV` estimators share."""

import math
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import product
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier

from polyfm.estimators._sklearn import Interval
from polyfm.estimators.base import OF_TRAINING, strata_of
from polyfm.estimators.validation import (
    by_feature,
    check_features,
    check_penalties,
    check_size,
    check_some_weight,
    is_auto,
    threads_of,
)
from polyfm.solvers import interrupts
from polyfm.training.automatic import choose_alpha
from polyfm.training.checkpoint import Outcome
from polyfm.training.hooks import Progress, current_watch
from polyfm.training.path import InterruptedPathError, fit_path
from polyfm.training.scales import Rows, linear_models, penalty_scales

DECADES = 3.5  # that a path spans, from the beta at which interactions vanish
EXTENSIONS = 2  # of a path, by a decade each, while its weakest penalty is the best
# Parameters of a single fit that a search has no use for.
OF_ONE_FIT = (
    "beta", "warm_start", "checkpoint", "checkpoint_interval", "early_stopping", "validation_fraction",
    "n_iter_no_change",
)  # fmt: skip


# What an estimator without a search is given in place of the search's own: it sees weights of classes already applied.
AS_FOUND = {"n_jobs": None, "beta": 1.0, "class_weight": None}


class Task(NamedTuple):
    """One path: an estimator without a search, its betas, and one fold."""

    combination: int
    plain: Any
    betas: np.ndarray
    fold: int
    train: np.ndarray
    test: np.ndarray


class PathSearch:
    """Cross-validation over beta (and degree and rank, on request), then a fit on all data. A mixin of estimators."""

    _plain: type  # the estimator without a search
    # What the estimators that this is mixed into have.
    betas: Any
    n_betas: int
    degrees: Any
    ranks: Any
    cv: Any
    scoring: Any
    alpha: Any
    groups: Any
    degree: int
    n_components: Any
    n_jobs: int | None
    verbose: int
    classes_: np.ndarray
    beta_: Any
    get_params: Any
    _checked_weights: Any
    _seeds: Any

    @staticmethod
    def _constraints(kind: type) -> dict:
        """The parameters of the estimator without a search, less those of a single fit, and those of the search."""
        given: dict = vars(kind)["_parameter_constraints"]
        shared = {name: c for name, c in given.items() if name not in OF_ONE_FIT}
        if "clip" in shared:  # "auto" is for penalties that no scorer has chosen
            shared["clip"] = ["boolean"]
        return shared | {
            "betas": ["array-like", None],
            "n_betas": [Interval(Integral, 1, None, closed="left")],
            "degrees": ["array-like", None],
            "ranks": ["array-like", None],
            "cv": ["cv_object"],
            "scoring": [str, callable, None],
        }

    @property
    def partial_fit(self):
        raise AttributeError(f"{type(self).__name__} searches over whole data sets and has no partial_fit.")

    def _plain_estimator(self, **parameters):
        names = self._plain().get_params()
        shared = {name: value for name, value in self.get_params(deep=False).items() if name in names}
        return self._plain(
            **{**shared, **{name: value for name, value in AS_FOUND.items() if name in names}, **parameters}
        )

    def _fit_targets(self, X, y, targets, sample_weight, validation=None) -> None:
        from sklearn.model_selection import check_cv  # here: it takes a tenth of a second to import

        sample_weight = self._checked_weights(X, sample_weight)
        check_features(X)
        folds = list(check_cv(self.cv, y, classifier=is_classifier(self)).split(X, y))
        if sample_weight is not None:
            for fold, (train, _) in enumerate(folds):
                check_some_weight(sample_weight[train], f"the rows that fold {fold + 1} trains on")
        combinations = list(
            product(
                [self.degree] if self.degrees is None else self.degrees,
                [self.n_components] if self.ranks is None else self.ranks,
            )
        )
        alpha = self._alpha(X, targets, sample_weight)
        plains = [
            self._plain_estimator(degree=int(m), n_components=k if is_auto(k) else int(k), alpha=alpha)
            for m, k in combinations
        ]
        for plain in plains:
            if is_classifier(self):
                plain.classes_ = self.classes_
            plain.n_features_in_ = X.shape[1]
            plain._validate_options()
            if plain._recipe(X.shape[1]).takes_steps(X):  # folds compare minima, which descent goes to
                plain.set_params(solver="cd")
            check_size(plain._model(), X, len(targets))
            check_penalties(plain._recipe(X.shape[1]).alpha, None, X.dtype)
        paths = [self._path(plain, X, targets, sample_weight) for plain in plains]
        for betas in paths:
            check_penalties(None, float(betas[0]), X.dtype)
        tasks = [
            Task(c, plain, betas, f, *fold)
            for c, (plain, betas) in enumerate(zip(plains, paths, strict=True))
            for f, fold in enumerate(folds)
        ]
        search = _Search(X, y, targets, sample_weight, self._scorer(plains[0]), tasks, self.verbose)
        interrupted, scores = self._searched(search, plains, paths, folds)
        if interrupted and search.best is not None:
            best, chosen = search.best.combination, search.best.estimator
            i = int(np.flatnonzero(paths[best] == search.best.beta)[0])
        else:
            if all(np.isnan(s.mean(axis=1)).all() for s in scores):
                raise ValueError(
                    "No beta has a score on every fold: a fold is too small for the score (R2 needs two rows). Use "
                    "fewer folds (cv), or another scoring."
                )
            best = _best_path(scores)
            i = _best_of(scores[best])
            if i == len(paths[best]) - 1 > 0:
                warnings.warn(
                    f"The weakest penalty of the path, beta={paths[best][i]:.3g}, has the best score: a smaller one "
                    "may be better still. Pass betas= that reach farther down.",
                    UserWarning,
                    stacklevel=3,
                )
            chosen = clone(plains[best]).set_params(
                beta=float(paths[best][i]), n_jobs=self.n_jobs, verbose=self.verbose
            )
            chosen.fit(X, y, sample_weight=sample_weight)
        self._take(chosen)
        self.betas_, self.cv_scores_ = np.array(paths[best]), scores[best]
        self.beta_, self.best_score_ = float(paths[best][i]), float(np.nanmean(scores[best][i]))
        degree, rank = combinations[best]
        self.degree_, self.n_components_ = int(degree), chosen.n_components_ if is_auto(rank) else int(rank)
        self.search_scores_ = {
            combination: (np.array(betas), scores_)
            for combination, betas, scores_ in zip(combinations, paths, scores, strict=True)
        }
        if interrupted and search.best is not None:
            n = len(tasks[0].train)
            warnings.warn(
                f"The search was interrupted after {search.n_done:.0f} of {search.n_fits} fits. The best model so far "
                f"was kept: beta={self.beta_:.3g}, with the score {search.best.score:.4g}, trained on {n} of "
                f"{X.shape[0]} rows. For a model of all rows, fit without a search and with this beta.",
                UserWarning,
                stacklevel=3,
            )

    def _searched(self, search: "_Search", plains, paths, folds) -> tuple[bool, list[np.ndarray]]:
        """Run the paths, then betas beyond their ends and between those beside the best, which are added to `paths`.

        Returns whether Ctrl-C came, and the scores of each combination.
        """
        n_threads = threads_of(self.n_jobs)
        interrupted = search.run(n_threads) or interrupts.interrupted()
        scores = search.scores(paths)
        own = self.betas is not None
        for added in range(0 if own or self.n_betas == 1 else EXTENSIONS + 1):
            ends = [c for c, s in enumerate(scores) if _best_of(s) == len(paths[c]) - 1] if added < EXTENSIONS else []
            more = {c: _beyond(paths[c], math.ceil(self.n_betas / DECADES)) for c in ends}
            if not ends:
                best = _best_path(scores)
                more = {best: _beside(paths[best], _best_of(scores[best]))}
            if interrupted:
                break
            search.add([Task(c, plains[c], more[c], f, *fold) for c in more for f, fold in enumerate(folds)])
            for c in more:
                paths[c] = np.sort(np.concatenate([paths[c], more[c]]))[::-1]
            interrupted = search.run(n_threads) or interrupts.interrupted()
            scores = search.scores(paths)
            if not ends:
                break
        return interrupted, scores

    def _take(self, fitted) -> None:
        """Be what the chosen estimator is."""
        for name in OF_TRAINING:
            self.__dict__.pop(name, None)
        self.__dict__.update(
            {name: value for name, value in vars(fitted).items() if name.endswith("_") or name == "_fitted"}
        )

    def _alpha(self, X, targets, sample_weight) -> float | np.ndarray:
        """The penalty on the linear weights: given, or where the linear model alone is best on held-out rows."""
        if is_auto(self.alpha):
            recipe = self._plain_estimator()._recipe(X.shape[1])
            strata = strata_of(targets) if is_classifier(self) else None
            return choose_alpha(recipe, X, targets, sample_weight, strata, int(self._seeds(1)[0]))
        named = getattr(self, "feature_names_in_", None)  # which the estimators within, who see an array, do not know
        return by_feature("alpha", self.alpha, self.groups, named, X.shape[1])

    def _scorer(self, plain):
        """The score to choose by: for classes the logarithmic loss, where there are probabilities."""
        from sklearn.metrics import check_scoring, log_loss

        if self.scoring is None and is_classifier(self) and hasattr(plain, "predict_proba"):
            return lambda model, X, y: -log_loss(y, model.predict_proba(X), labels=model.classes_)
        return check_scoring(plain, self.scoring)

    def _path(self, plain, X, targets, sample_weight) -> np.ndarray:
        """The betas to try, from strong to weak."""
        if self.betas is not None:
            betas = np.sort(np.asarray(self.betas, dtype=np.float64))[::-1]
            if betas.ndim != 1 or not len(betas) or not np.all(np.isfinite(betas)) or np.any(betas < 0):
                raise ValueError(f"betas must be finite numbers >= 0, got {self.betas!r}.")
            return betas
        recipe = plain._recipe(X.shape[1])
        data = Rows(X.tocsr() if hasattr(X, "tocsr") else X, targets, sample_weight)
        linear = linear_models(recipe.model, recipe.loss, data, recipe.alpha, exact=True)
        scales = penalty_scales(recipe, data, linear)
        return (scales[-1] or 1.0) * np.logspace(0, -DECADES, self.n_betas)


def _beyond(betas: np.ndarray, n: int) -> np.ndarray:
    """Weaker penalties, as far from each other as those of the path: the best may lie beyond its end."""
    return betas[-1] * (betas[-1] / betas[-2]) ** np.arange(1, 1 + n)


def _beside(betas: np.ndarray, i: int) -> np.ndarray:
    """The middles between a beta and its neighbours, from strong to weak: the best may lie between two of a path."""
    near = betas[max(i - 1, 0) : i + 2]
    return np.sqrt(near[:-1]) * np.sqrt(near[1:])  # the product of the two may overflow


def _best_path(scores: list[np.ndarray]) -> int:
    """The combination whose best beta has the best score."""
    return int(np.argmax([np.nan_to_num(s.mean(axis=1), nan=-np.inf).max() for s in scores]))


def _best_of(scores: np.ndarray) -> int:
    """The place on a path with the best mean score over the folds, the stronger penalty of equal ones."""
    return int(np.argmax(np.nan_to_num(scores.mean(axis=1), nan=-np.inf)))


class Best(NamedTuple):
    """The fit with the best score on its own fold: what is kept of a search that is interrupted."""

    score: float
    combination: int
    beta: float
    estimator: Any


class _Search:
    """The paths of a search, one after the other or some at the same time, and their scores."""

    def __init__(self, X, y, targets, sample_weight, scorer, tasks: list[Task], verbose: int):
        self.X, self.y, self.targets, self.sample_weight = X, y, targets, sample_weight
        self.scorer, self.tasks, self.verbose = scorer, tasks, verbose
        self.n_folds = 1 + max(task.fold for task in tasks)
        self.found: dict[tuple[int, float, int], float] = {}  # scores by combination, beta and fold
        self.best: Best | None = None
        self.n_fits, self.n_done = sum(len(task.betas) for task in tasks), 0.0
        self.watch = current_watch()
        self.stop, self.lock = threading.Event(), threading.Lock()

    def add(self, tasks: list[Task]) -> None:
        """Paths to run next, in place of those that have been run."""
        self.tasks = tasks
        self.n_fits += sum(len(task.betas) for task in tasks)

    def run(self, n_threads: int) -> bool:
        """Run all paths; whether Ctrl-C came. If it comes before there is anything to keep, it is raised."""
        try:
            for _ in self._in_turn(n_threads):
                pass
        except (KeyboardInterrupt, InterruptedPathError):
            if self.best is None:
                raise KeyboardInterrupt from None
            return True
        return False

    def _in_turn(self, n_threads: int) -> Iterator[None]:
        if n_threads == 1:
            for task in self.tasks:
                self._run(task)
                yield
            return
        with ThreadPoolExecutor(n_threads) as pool:
            waiting: set[Future] = {pool.submit(self._run, task) for task in self.tasks}
            try:
                while waiting:  # with a pause now and then: some systems deliver Ctrl-C only between two waits
                    done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
                    if interrupts.interrupted():
                        raise KeyboardInterrupt
                    for future in done:
                        future.result()
                        yield
            except BaseException:
                self.stop.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _run(self, task: Task) -> None:
        weight = None if self.sample_weight is None else self.sample_weight[task.train]
        plain, X = task.plain, self.X[task.train]
        recipe = plain._recipe(X.shape[1])
        fits_of_target = len(self.targets)

        def check(monitor, state) -> bool:
            if self.stop.is_set():
                raise InterruptedPathError
            return False

        def fitted(i: int) -> None:
            with self.lock:
                self.n_done += 1 / fits_of_target
                self._report(f"beta {task.betas[i]:.3g}")

        results = fit_path(
            recipe, X, [t[task.train] for t in self.targets], weight, task.betas, plain._seeds(len(self.targets)),
            max_iter=plain.max_iter, tol=plain.tol, hooks=(check,), fitted=fitted,
        )  # fmt: skip
        for i, beta in enumerate(task.betas):
            model = clone(plain).set_params(beta=float(beta))
            model.n_features_in_ = plain.n_features_in_
            if is_classifier(plain):
                model.classes_ = plain.classes_
            model._keep(recipe.with_beta(float(beta)), [Outcome(result) for result in results[i]], recipe.solver)
            score = self._score(model, self.X[task.test], self.y[task.test])
            with self.lock:
                self.found[task.combination, float(beta), task.fold] = score
                if self.best is None or score > self.best.score:
                    self.best = Best(score, task.combination, float(beta), model)
        if self.verbose > 1:
            print(f"degree {plain.degree}, rank {plain.n_components}, fold {task.fold + 1}: path of betas done")

    def _score(self, model, X, y) -> float:
        """The score, as low as can be where predictions are beyond all bounds."""
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                return float(self.scorer(model, X, y))
            except ValueError:
                if np.all(np.isfinite(model.decision_function(X) if is_classifier(model) else model.predict(X))):
                    raise
                return -np.inf

    def _report(self, note: str) -> None:
        if self.watch is not None:
            if self.best is not None:
                note += f", best score so far {self.best.score:.4g}"
            self.watch(Progress("searching", self.n_done, self.n_fits, note))

    def scores(self, paths: list[np.ndarray]) -> list[np.ndarray]:
        """For each combination an array (betas, folds); not a number where a search did not get to."""
        return [
            np.array([[self.found.get((c, float(beta), f), np.nan) for f in range(self.n_folds)] for beta in path])
            for c, path in enumerate(paths)
        ]
