"""Model selection along a path of betas, from strong to weak, each fit starting where the one before ended."""

from itertools import product
from numbers import Integral
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state

from polyfm.core.design import Design
from polyfm.core.model import Parameters
from polyfm.core.problem import Problem
from polyfm.estimators._sklearn import Interval
from polyfm.losses import as_loss
from polyfm.solvers import make_solver, run
from polyfm.training.initial import initial_parameters

REVIVE = 0.1  # bases smaller than this part of a fresh one have died, and are drawn anew


def reference_beta(problem: Problem, unit: Parameters) -> float:
    """The beta at which bases that explain all the data would cost as much as explaining nothing.

    `unit` has the root mean square of the residuals of a constant (``init_scale=1``). The value follows a change of
    units in X or y, so that a path around it suits any data.
    """
    constant = unit._replace(factors=tuple(np.zeros_like(P) for P in unit.factors))
    plain = Problem(problem.design, problem.model, problem.loss, problem.y, problem.weight, 0.0, 1.0)
    cost = plain.penalty(unit)
    return float(plain.total_loss(plain.predict(constant)) / cost) if cost > 0 else 1.0


def revived(parameters: Parameters, fresh: Parameters) -> Parameters:
    """Replace bases that a strong penalty has shrunk to nothing: zero is a saddle that no descent leaves."""
    factors = []
    for P, Q in zip(parameters.factors, fresh.factors, strict=True):
        dead = np.linalg.norm(P, axis=(1, 2)) < REVIVE * np.linalg.norm(Q, axis=(1, 2))
        factors.append(np.where(dead[:, None, None], Q, P))
    lambdas = tuple(
        np.where(lams == 0, first, lams) for lams, first in zip(parameters.lambdas, fresh.lambdas, strict=True)
    )
    return parameters._replace(factors=tuple(factors), lambdas=lambdas)


def fit_path(estimator, X, targets, sample_weight, betas) -> list:
    """Fitted copies of the estimator for each beta; X is laid out for the loops once."""
    loss, model = as_loss(estimator.loss), estimator._model()
    lams = estimator._given_lambdas(model)
    design = Design(X, sort_rows=True)
    name = estimator._solver_name(model, design)
    seeds = check_random_state(estimator.random_state).randint(2**31 - 1, size=len(targets))
    fitted: list[list[Parameters]] = [[] for _ in betas]
    for y, seed in zip(targets, seeds, strict=True):
        parameters = None
        for i, beta in enumerate(betas):
            problem = Problem.with_target(design, model, loss, y, sample_weight, estimator.alpha, float(beta))
            if parameters is None:
                fresh = initial_parameters(problem, np.random.RandomState(seed), estimator.init_scale, lams)
            start = fresh if parameters is None else revived(parameters, fresh)
            solver = make_solver(
                name, fit_lambdas=estimator.fit_lambdas, seed=int(seed), batch_size=estimator.batch_size
            )
            result = run(solver, problem, start, max_iter=estimator.max_iter, tol=estimator.tol)
            parameters = result.parameters
            fitted[i].append(parameters)
    copies = []
    for beta, parameters_of_targets in zip(betas, fitted, strict=True):
        other = clone(estimator).set_params(beta=float(beta))
        other.n_features_in_ = X.shape[1]
        if hasattr(estimator, "classes_"):
            other.classes_ = estimator.classes_
        other._keep_parameters(model, parameters_of_targets)
        copies.append(other)
    return copies


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
    degree: int
    n_components: int
    n_jobs: int | None
    verbose: int
    classes_: np.ndarray
    get_params: Any
    _checked_weights: Any

    @staticmethod
    def constraints(kind: type) -> dict:
        """The parameters of the estimator without a search, less those of a single fit, and those of the search."""
        single = {"beta", "warm_start", "checkpoint", "checkpoint_interval"}
        single |= {"early_stopping", "validation_fraction", "n_iter_no_change"}
        given: dict = vars(kind)["_parameter_constraints"]
        shared = {name: c for name, c in given.items() if name not in single}
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
        return self._plain(**{**shared, "n_jobs": None, "beta": 1.0, **parameters})

    def _fit_targets(self, X, y, targets, sample_weight) -> None:
        sample_weight = self._checked_weights(X, sample_weight)
        cv = check_cv(self.cv, y, classifier=is_classifier(self))
        folds = list(cv.split(X, y))
        combinations = list(
            product(
                [self.degree] if self.degrees is None else self.degrees,
                [self.n_components] if self.ranks is None else self.ranks,
            )
        )
        plains = [self._plain_estimator(degree=int(m), n_components=int(k)) for m, k in combinations]
        for plain in plains:
            if is_classifier(self):
                plain.classes_ = self.classes_
            plain._validate_options()
        paths = [self._path(plain, X, targets, sample_weight) for plain in plains]
        scorer = check_scoring(plains[0], self.scoring)

        def scores(plain, betas, train, test) -> list[float]:
            weight = None if sample_weight is None else sample_weight[train]
            models = fit_path(plain, X[train], [t[train] for t in targets], weight, betas)
            return [float(scorer(model, X[test], y[test])) for model in models]

        tasks = [(plain, betas, *fold) for plain, betas in zip(plains, paths, strict=True) for fold in folds]
        table = Parallel(n_jobs=self.n_jobs, prefer="threads", verbose=max(0, self.verbose - 1))(
            delayed(scores)(*task) for task in tasks
        )
        all_scores = np.array(table).reshape(len(plains), len(folds), -1).transpose(0, 2, 1)
        means = all_scores.mean(axis=2)
        best, i = np.unravel_index(int(np.argmax(means)), means.shape)
        self.betas_, self.cv_scores_ = np.array(paths[best]), all_scores[best]
        self.beta_, self.best_score_ = float(paths[best][i]), float(means[best, i])
        self.degree_, self.n_components_ = (int(v) for v in combinations[best])
        self.search_scores_ = {
            combination: (np.array(betas), scores_)
            for combination, betas, scores_ in zip(combinations, paths, all_scores, strict=True)
        }
        refit = clone(plains[best]).set_params(beta=self.beta_, n_jobs=self.n_jobs, verbose=self.verbose)
        refit.fit(X, y, sample_weight=sample_weight)
        vars(self).update({k: v for k, v in vars(refit).items() if k.endswith("_") or k.startswith("_f")})
        self._parameters, self._predictor = refit._parameters, refit._predictor

    def _path(self, plain, X, targets, sample_weight) -> np.ndarray:
        """The betas to try, from strong to weak."""
        if self.betas is not None:
            betas = np.sort(np.asarray(self.betas, dtype=np.float64))[::-1]
            if betas.ndim != 1 or not len(betas) or not np.all(np.isfinite(betas)) or np.any(betas < 0):
                raise ValueError(f"betas must be finite numbers >= 0, got {self.betas!r}.")
            return betas
        model = plain._model()
        problem = Problem.with_target(
            Design(X, sort_rows=True), model, as_loss(plain.loss), targets[0], sample_weight, 0.0, 1.0
        )
        unit = initial_parameters(problem, np.random.RandomState(0), 1.0, plain._given_lambdas(model))
        return reference_beta(problem, unit) * np.logspace(1, -3, self.n_betas)
