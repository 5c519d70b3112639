"""Bayesian machines: no penalties to choose, and predictions that say how sure they are."""

import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted, validate_data

from polyfm.core.design import Design
from polyfm.core.fitted import Fitted
from polyfm.core.parameters import Parameters
from polyfm.core.posterior import Posterior, posterior_of
from polyfm.core.sparse import checked_sparse
from polyfm.estimators._sklearn import Interval, StrOptions, fit_context, with_callbacks
from polyfm.estimators.base import OF_TRAINING, PolynomialModel, sum_of_histories
from polyfm.estimators.bayes_docstrings import documented_bayes
from polyfm.estimators.targets import Regressor
from polyfm.estimators.validation import RandomState, threads_of
from polyfm.files.atomic import Path
from polyfm.losses import as_loss
from polyfm.solvers import Result, Resume, automatic
from polyfm.solvers.gibbs import n_iterations
from polyfm.solvers.registry import INFERENCE
from polyfm.solvers.schedule import one_hot_fields
from polyfm.solvers.variational import has_moments
from polyfm.training.checkpoint import Outcome
from polyfm.training.recipe import Recipe
from polyfm.training.session import Start

KEPT = (
    "degree", "n_components", "method", "fit_lower", "fit_linear", "fit_intercept", "max_iter", "tol", "checkpoint",
    "checkpoint_interval", "warm_start", "n_jobs", "random_state", "verbose",
)  # fmt: skip


FAR = 20.0  # standard deviations beyond the mean: no Gaussian gets there
DISTANT = 3.0  # standard deviations from 0, where the mean of a dense feature is in the way


class Bayesian(PolynomialModel):
    """What Bayesian machines share. What other estimators have as parameters is settled here."""

    _kernel = "anova"
    _likelihood: str
    _remedies = "or raise tol to stop earlier in silence"
    loss: Any = "squared"
    method, init_lambdas, fit_lambdas, init_scale, batch_size, shares = "direct", "ones", False, 0.1, "auto", 1
    alpha: Any = 0.0  # the posterior has priors of its own
    beta: Any = 0.0
    early_stopping = False

    _parameter_constraints = {name: PolynomialModel._parameter_constraints[name] for name in KEPT} | {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "inference": [StrOptions(set(INFERENCE))],
        "groups": [StrOptions({"auto"}), "array-like", None],
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "thinning": [Interval(Integral, 1, None, closed="left")],
    }

    @property
    def solver(self) -> str:
        return self.inference

    # -- what to train ------------------------------------------------------------------------------------------------

    def _validate_options(self) -> None:
        if self.inference == "variational" and not has_moments(self._model()):
            raise ValueError(
                f"inference='variational' is for method='direct', got method={self.method!r}. Pass inference='gibbs', "
                "which draws from the posterior of lifted models too."
            )
        self._model()

    def _recipe(self, n_features: int) -> Recipe:
        if self.groups is not None and not isinstance(self.groups, str):
            shape = np.shape(self.groups)
            if shape != (n_features,):
                raise ValueError(
                    f"groups has shape {shape}; pass the field of each of the {n_features} features, one label each, "
                    "or 'auto'."
                )
        more: dict[str, Any] = {"likelihood": self._likelihood}
        if self.inference == "gibbs":
            more |= {"n_samples": self.n_samples, "thinning": self.thinning, "warm_up": self.max_iter, "tol": self.tol}
        return Recipe(
            self._model(), as_loss(self.loss), 0.0, 0.0, solver=self.inference, n_threads=threads_of(self.n_jobs),
            more=more,
        )  # fmt: skip

    @property
    def _most_epochs(self) -> int:
        if self.inference == "variational":
            return self.max_iter
        if has_moments(self._model()):
            return self.max_iter + n_iterations(self.n_samples, self.thinning) + 1
        return n_iterations(self.n_samples, self.thinning, burn_in=self.max_iter) + 1

    def _complete(
        self, recipe: Recipe, design: Design, X, targets, sample_weight, rows, seeds: np.ndarray, *, keep: bool
    ) -> tuple[Recipe, list[Parameters]]:
        """The recipe with the group of each feature, as given or as found in the rows that count, and with the steps
        that suit the data."""
        train = design
        n_features = X.shape[1]
        _warn_of_means(X)
        if self.groups is None:
            labels, codes = np.zeros(n_features, dtype=np.int64), np.zeros(n_features, dtype=np.int64)
        elif isinstance(self.groups, str):
            if sample_weight is not None and not sample_weight.all():
                design = Design(X[np.flatnonzero(sample_weight)])
            labels = codes = one_hot_fields(design)
        else:
            labels = np.asarray(self.groups)
            codes = _numbers_of(labels)
        self.groups_: np.ndarray = labels
        more = recipe.more | {"groups": codes.astype(np.int64)}
        if self.inference == "gibbs":
            more["steps"] = automatic(recipe.model, train)
        return replace(recipe, more=more), []

    def _warm_starts(self, model, design: Design, n_targets: int, key: str) -> list[Start]:
        """Where the last fit ended, if it was of the same data and parameters; anew else."""
        resume = getattr(self, "_resume", None)
        if not self.warm_start or resume is None or resume[0] != key or not all(resume[1]):
            return [(None, None)] * n_targets
        return [(p.copy(design.dtype), r) for p, r in zip(self._means, resume[1], strict=True)]

    def __getstate__(self):
        return {name: value for name, value in super().__getstate__().items() if name != "_means"}

    # -- fitted attributes --------------------------------------------------------------------------------------------

    def _keep(self, recipe: Recipe, outcomes: list[Outcome], solver: str) -> None:
        super()._keep(recipe, outcomes, solver)
        traces = [outcome.result.learned["trace"] for outcome in outcomes]
        drawn = [outcome.result.learned["sampling"] for outcome in outcomes if "sampling" in outcome.result.learned]
        every = [np.concatenate(pair) for pair in zip(traces, drawn, strict=True)] if drawn else traces
        self.history_ = {"elbo": _sum_of_begun(traces)} if has_moments(recipe.model) else {}
        begun = [trace for trace in every if len(trace)] or every[:1]  # after Ctrl-C, some may not have
        self.history_ |= {
            "noise": sum_of_histories([trace[:, 1] for trace in begun]) / len(begun),
            "effective_rank": sum_of_histories([trace[:, 2] for trace in begun]) / len(begun),
        }
        if drawn:
            self.history_["log_likelihood"] = _sum_of_begun(drawn)
        self.effective_rank_ = float(self.history_["effective_rank"][-1]) if len(begun[0]) else 0.0

    def _as_fitted(self, recipe: Recipe, results: list[Result]) -> Fitted:
        if self.warm_start:
            self._means = [result.parameters for result in results]
        learned = _as_many_draws([result.learned for result in results])
        found = [posterior_of(recipe.model, r.parameters, of_one) for r, of_one in zip(results, learned, strict=True)]
        self._posterior: list[Posterior] = [posterior for _, _, posterior in found]
        return Fitted(found[0][0], [parameters for _, parameters, _ in found])

    def _set_penalties(self, recipe: Recipe) -> None:
        """There are none."""

    def _forget_training(self) -> None:
        for name in (*OF_TRAINING, "effective_rank_"):
            self.__dict__.pop(name, None)

    def _rate(self, h: np.ndarray) -> str:
        n = INFERENCE[self.solver_].window or 1
        return "" if len(h) <= n else f"; the last {n} raised the bound by {h[-1 - n] - h[-1]:.2g} in all"

    def _converted(self, method: str):
        if method == self.method:
            return super()._converted(method)
        raise ValueError(f"{type(self).__name__} has no {method} form: a posterior is over the bases themselves.")

    # -- prediction ---------------------------------------------------------------------------------------------------

    def _of_posterior(self, method: str, X) -> np.ndarray:
        """What a method of the posteriors says of the rows: (targets, samples)."""
        check_is_fitted(self)
        X = validate_data(self, checked_sparse(X), accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        design, threads = Design(X), threads_of(self.n_jobs)
        pairs = zip(self._posterior, self._fitted.targets, strict=True)
        return np.stack([getattr(posterior, method)(self._fitted.model, p, design, threads) for posterior, p in pairs])


class BayesianRegressor(Bayesian, Regressor):
    """What Bayesian regressors share."""

    _likelihood = "gaussian"
    _parameter_constraints = Bayesian._parameter_constraints | {"clip": ["boolean"]}

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # type: ignore[override]
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The samples.
        y : array-like of shape (n_samples,)
            The targets.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 is the row twice.

        Returns
        -------
        self : object
        """
        return self._fit(X, y, sample_weight)

    def _complete(
        self, recipe: Recipe, design: Design, X, targets, sample_weight, *args, **options
    ) -> tuple[Recipe, list[Parameters]]:
        if has_heavy_tail(targets[0], sample_weight):
            recipe = replace(recipe, more=recipe.more | {"tied": True})
            warnings.warn(
                "The targets are never negative, and the largest is far beyond all that is normal: counts or amounts, "
                "whose errors are not Gaussian. Priors follow the noise, so that predictions are not led astray; but "
                "intervals are too wide for most rows, and squared errors see little but the largest. Where small "
                "targets matter as much, fit logarithms: sklearn.compose.TransformedTargetRegressor("
                "model, func=np.log1p, inverse_func=np.expm1).",
                stacklevel=2,
            )
        return super()._complete(recipe, design, X, targets, sample_weight, *args, **options)

    @property
    def noise_(self) -> float:
        """The standard deviation of targets around what the model would predict if its parameters were known."""
        check_is_fitted(self)
        return float(np.sqrt(np.mean(np.square(self._posterior[0].noise))))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The samples.
        return_std : bool, default=False
            Whether to return standard deviations, too.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            The means.
        std : ndarray of shape (n_samples,)
            With ``return_std=True``: the standard deviations of new targets. Their squares are the variance of the
            prediction, which is large where little is known, and that of the noise.
        """
        y = super().predict(X)
        if not return_std:
            return y
        return y, np.sqrt(self._of_posterior("variances", X)[0] + self.noise_**2).astype(y.dtype)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Intervals that new targets are within, with the probability `coverage`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The samples.
        coverage : float, default=0.9
            More than 0 and less than 1.

        Returns
        -------
        low, high : ndarrays of shape (n_samples,)
        """
        if not isinstance(coverage, Real) or isinstance(coverage, bool) or not 0 < coverage < 1:
            raise ValueError(f"coverage must be a number between 0 and 1, such as 0.9, got {coverage!r}.")
        y, std = self.predict(X, return_std=True)
        half = std * np.asarray(-ndtri((1 - float(coverage)) / 2), dtype=std.dtype)
        low, high = y - half, y + half
        bounds = self._bounds
        if bounds is not None:
            low, high = (np.clip(bound, *np.asarray(bounds, y.dtype)) for bound in (low, high))
        return low, high


@documented_bayes
class BayesianFactorizationMachineRegressor(BayesianRegressor):
    def __init__(
        self,
        *,
        degree: int = 2,
        n_components: int = 10,
        inference: str = "variational",
        groups: Any = "auto",
        n_samples: int = 50,
        thinning: int = 2,
        clip: bool = False,
        method: str = "direct",
        fit_lower: str | None = "explicit",
        fit_linear: bool = True,
        fit_intercept: bool = True,
        max_iter: int = 200,
        tol: float = 1e-3,
        checkpoint: Path | None = None,
        checkpoint_interval: int = 10,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.degree = degree
        self.n_components = n_components
        self.inference = inference
        self.groups = groups
        self.n_samples = n_samples
        self.thinning = thinning
        self.clip = clip
        self.method = method
        self.fit_lower = fit_lower
        self.fit_linear = fit_linear
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.checkpoint = checkpoint
        self.checkpoint_interval = checkpoint_interval
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


def _as_many_draws(learned: list[Resume]) -> list[Resume]:
    """What was learned of each class, after Ctrl-C too: where some have fewer draws the last stands for the rest, and
    where one has none, the variational solution is taken of all."""
    counts = [len(found.get("samples/noise", ())) for found in learned]
    if min(counts) == 0:
        return [{name: a for name, a in found.items() if not name.startswith("samples/")} for found in learned]
    more = [max(counts) - n for n in counts]
    return [
        {name: np.pad(a, [(0, n)] + [(0, 0)] * (a.ndim - 1), "edge") if n and "samples/" in name else a
         for name, a in found.items()}
        for found, n in zip(learned, more, strict=True)
    ]  # fmt: skip


def _sum_of_begun(traces: list[np.ndarray]) -> np.ndarray:
    """The history of what traces have first, over the targets whose turn has come."""
    return sum_of_histories([trace[:, 0] for trace in traces if len(trace)] or [np.empty(0)])


def _warn_of_means(X: Any) -> None:
    """Say that parameters of dense features far from 0 are hard to tell from each other and from the intercept."""
    if hasattr(X, "indptr") or not len(X):
        return
    means, stds = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    varied = (stds > 0) & np.any((X != 0) & (X != 1), axis=0)
    away = float(np.max(np.abs(means[varied]) / stds[varied], initial=0.0))
    if away > DISTANT:
        warnings.warn(
            f"Features are up to {away:.2g} standard deviations away from 0. Their parameters are then hard to tell "
            "from each other, and are learned slowly and with too little certainty. Put "
            "sklearn.preprocessing.StandardScaler before the model.",
            stacklevel=2,
        )


def _numbers_of(labels: np.ndarray) -> np.ndarray:
    """Numbers of the groups, from 0 on, in the order of the labels; where these have none, in that of the features."""
    try:
        return np.unique(labels, return_inverse=True)[1]
    except TypeError:  # such as names and None
        numbers: dict[Any, int] = {}
        return np.array([numbers.setdefault(label, len(numbers)) for label in labels.tolist()])


def has_heavy_tail(y: np.ndarray, weight: np.ndarray | None) -> bool:
    """Whether y >= 0 has values that a Gaussian would never reach, and log(1 + y) has much less of a tail, with y in
    units of what is usual for it. A weight of 2 is the value twice."""
    w = np.ones(len(y)) if weight is None else weight.astype(np.float64)
    y, w = y[w > 0].astype(np.float64), w[w > 0]
    if y.min() < 0 or _reach(y, w) <= FAR:
        return False
    return _reach(np.log1p(y / _usual(y[y > 0], w[y > 0])), w) < _reach(y, w) / 2


def _usual(y: np.ndarray, weight: np.ndarray) -> float:
    """The weighted median."""
    order = np.argsort(y)
    so_far = np.cumsum(weight[order])
    return float(y[order[np.searchsorted(so_far, so_far[-1] / 2)]])


def _reach(y: np.ndarray, weight: np.ndarray) -> float:
    """How many standard deviations the largest is above the mean."""
    mean = np.average(y, weights=weight)
    std = float(np.sqrt(np.average((y - mean) ** 2, weights=weight)))
    return float(y.max() - mean) / std if std > 0 else 0.0
