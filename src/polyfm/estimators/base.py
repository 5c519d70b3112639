"""The scikit-learn face: estimators validate and encode, and leave the numbers to `polyfm.training`."""

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, validate_data

from polyfm.core.design import Design
from polyfm.core.fitted import Fitted
from polyfm.core.model import MOST_DEGREE, Model, build_model
from polyfm.core.parameters import Parameters
from polyfm.core.sparse import checked_sparse
from polyfm.estimators._sklearn import Interval, StrOptions, check_sample_weight
from polyfm.estimators.callbacks import CallbackTask
from polyfm.estimators.fitted_model import FittedModel
from polyfm.estimators.in_memory import InMemory
from polyfm.estimators.validation import (
    LARGEST,
    as_ridge,
    check_automatic_rank,
    check_features,
    check_finite,
    check_lambdas,
    check_penalties,
    check_range,
    check_some_weight,
    is_auto,
    shown,
    threads_of,
)
from polyfm.losses import as_loss
from polyfm.solvers import Result, check_solver, interrupts, solver_class
from polyfm.training.automatic import choose_penalties
from polyfm.training.checkpoint import Checkpoint, Outcome, check_saved, identity_of, package_stamp, read_checkpoint
from polyfm.training.hooks import Progress, Watch, current_watch
from polyfm.training.rank import PLACEHOLDER, Rank, of_one_rank
from polyfm.training.recipe import Recipe
from polyfm.training.session import Session, Start, Validation

NOT_IN_KEY = {
    "max_iter", "tol", "n_samples", "verbose", "warm_start", "n_jobs", "checkpoint", "checkpoint_interval", "client",
}  # fmt: skip
# What a fit leaves beside the model itself. None of it stays behind when another fit has no use for it.
OF_TRAINING = (
    "alpha_", "beta_", "objective_", "history_", "n_iter_", "solver_", "validation_losses_", "n_samples_seen_",
    "n_components_", "duality_gap_",
)  # fmt: skip
PENALTY = [Interval(Real, 0, None, closed="left"), StrOptions({"auto"}), "array-like", dict]


class PolynomialModel(FittedModel):
    """What the four estimators share. Subclasses set the kernel and encode their targets."""

    _kernel: str
    _remedies = "raise tol to stop earlier in silence, or raise beta"
    _encoded: Callable[..., list[np.ndarray]]  # targets as they are trained on
    _weighted: Callable[..., Any]  # the weights of samples, with those of classes

    _parameter_constraints: dict = {
        "degree": [Interval(Integral, 2, MOST_DEGREE, closed="both")],
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "alpha": PENALTY,
        "beta": PENALTY,
        "groups": ["array-like", None],
        "method": [str],
        "fit_lower": [StrOptions({"explicit", "augment"}), None],
        "fit_linear": ["boolean"],
        "fit_intercept": ["boolean"],
        "init_lambdas": [StrOptions({"ones", "random_signs"}), "array-like"],
        "fit_lambdas": ["boolean"],
        "init_scale": [Interval(Real, 0, None, closed="neither")],
        "solver": [str],
        "batch_size": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "shares": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "gap_tol": [Interval(Real, 0, 1, closed="neither")],
        "max_components": [Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "checkpoint": [str, os.PathLike, None],
        "checkpoint_interval": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # -- what to train ------------------------------------------------------------------------------------------------

    def _validate_options(self) -> None:
        """Combinations of parameters that make no sense, before any work is done."""
        who = f"{type(self).__name__} with method={self.method!r}"
        model = self._model()
        check_solver(self.solver, model, self.fit_lambdas, who)
        if model.is_lifted:
            if self.fit_lambdas:
                raise ValueError("fit_lambdas=True needs method='direct': a lifted model has no lambdas to fit.")
            if not isinstance(self.init_lambdas, str) or self.init_lambdas != "ones":
                raise ValueError("init_lambdas needs method='direct': a lifted model has no lambdas.")
        for name in ("alpha", "beta", "init_scale", "tol"):
            check_finite(name, getattr(self, name, 0.0))
        if self._has_automatic_rank:
            check_automatic_rank(self)

    @property
    def _has_automatic_rank(self) -> bool:
        return is_auto(self.n_components)

    def _model(self) -> Model:
        n_bases = min(PLACEHOLDER, self.max_components) if self._has_automatic_rank else self.n_components
        return build_model(
            self._kernel, self.method, self.degree, n_bases, self.fit_lower, self.fit_linear, self.fit_intercept
        )

    def _rank(self, model: Model) -> Rank | None:
        if not self._has_automatic_rank:
            return None
        one = self.init_lambdas == "ones" and not self.fit_lambdas and not model.is_lifted
        return Rank(self.gap_tol, self.max_components, (1,) if one else (1, -1))

    def _recipe(self, n_features: int) -> Recipe:
        """How to train, once the number of features is known."""
        model = self._model()
        named = getattr(self, "feature_names_in_", None)
        dummies = model.groups[0].n_dummies
        return Recipe(
            model,
            as_loss(self.loss),
            None if is_auto(self.alpha) else as_ridge("alpha", self.alpha, self.groups, named, n_features),
            None if is_auto(self.beta) else as_ridge("beta", self.beta, self.groups, named, n_features, dummies),
            self.init_scale,
            check_lambdas(self.init_lambdas, model),
            self.solver,
            self.fit_lambdas,
            self.batch_size,
            self.shares,
            threads_of(self.n_jobs),
            rank=self._rank(model),
            may_take_steps=True,
        )

    @property
    def _most_epochs(self) -> int:
        return self.max_iter

    def _seeds(self, n_targets: int) -> np.ndarray:
        if self._has_automatic_rank:  # whose results depend on no seed
            return np.zeros(n_targets, dtype=np.int64)
        return check_random_state(self.random_state).randint(2**31 - 1, size=n_targets)

    def _checked_weights(self, X, sample_weight):
        if sample_weight is None:
            return None
        sample_weight = check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        check_range("sample_weight", sample_weight, LARGEST[X.dtype.name], "Divide all weights by the largest.")
        sample_weight = sample_weight.astype(X.dtype, copy=False)
        check_some_weight(sample_weight, "all rows")
        return sample_weight

    # -- fitting ------------------------------------------------------------------------------------------------------

    def _validation(self, X, X_val, y_val) -> Validation | None:
        """Rows to judge early stopping by, checked as X and y are."""
        if X_val is None and y_val is None:
            return None
        if X_val is None or y_val is None:
            raise ValueError("X_val and y_val go together: pass both, or neither.")
        if not self.early_stopping:
            raise ValueError("X_val and y_val are there to judge early stopping by: set early_stopping=True.")
        X_val = validate_data(self, checked_sparse(X_val), accept_sparse="csr", dtype=X.dtype, reset=False)
        targets = self._encoded(X_val, y_val)
        check_consistent_length(X_val, targets[0])
        check_features(X_val)
        return Validation(Design(X_val), targets)

    def _fit_targets(
        self, X, y, targets: list[np.ndarray], sample_weight, validation: Validation | None = None
    ) -> None:
        """Fit one set of parameters for each target."""
        self._train(InMemory(self, X, y, targets, sample_weight, validation))

    def _train(self, data: InMemory | Any) -> None:
        """The chain through a fit, wherever the rows are."""
        recipe, n_features, n_targets = self._recipe(data.shape[1]), data.shape[1], data.n_targets
        recipe = data.check(recipe)
        check_penalties(recipe.alpha, recipe.beta, data.dtype)
        callbacks = CallbackTask(self, data.X, data.y, n_targets, recipe.model)
        key = self._key(data) if self.warm_start or self.checkpoint else ""
        path = Path(self.checkpoint) if self.checkpoint else None
        saved = read_checkpoint(path, key) if path else None
        if saved is not None:
            check_saved(saved, recipe.model.empty(n_features), data.dtype, n_targets)
        seeds = self._seeds(n_targets) if saved is None else saved.seeds
        data.divide(int(seeds[0]))
        checkpoint = Checkpoint(path, self.checkpoint_interval, key, seeds) if path else None
        if checkpoint:
            checkpoint.check_place(recipe.model.empty(n_features))
        design = data.arrange(recipe, int(seeds[0]))
        starts = self._warm_starts(recipe.model, design, n_targets, key)
        recipe, chosen = data.complete(recipe, seeds)
        if chosen and starts[0][0] is None and recipe.rank is None:
            starts = [(start, None) for start in chosen]
        session = Session(
            recipe, self._most_epochs, self.tol, self.verbose,
            patience=self.n_iter_no_change if self.early_stopping else None, enough=recipe.epochs,
            checkpoint=checkpoint, watch=current_watch(), more_hooks=lambda i: [*data.hooks(), *callbacks.hooks(i)],
        )  # fmt: skip
        outcomes = session.run(data.samples(), seeds, starts=starts, saved=saved)
        self._keep(recipe, outcomes, recipe.solver_name(design))
        self._stream: Any = None
        self._resume = (key, [outcome.result.resume for outcome in outcomes]) if self.warm_start else None
        callbacks.end()
        interrupted = outcomes[-1].result.interrupted
        if path and not interrupted:
            path.unlink(missing_ok=True)
        self._warn([outcome.result for outcome in outcomes])

    def _complete(
        self, recipe: Recipe, design: Design, X, targets, sample_weight, rows, seeds: np.ndarray, *, keep: bool
    ) -> tuple[Recipe, list[Parameters]]:
        """The recipe with the penalties that the data choose, with the epochs of stochastic steps, and parameters to
        start from where they have just been chosen. With `keep`, for a warm start or one more batch of a stream, what
        was chosen first stays."""
        kept = keep and hasattr(self, "_fitted") and hasattr(self, "beta_") and not self.__dict__.get("_is_cut_short")
        if kept:
            recipe = self._as_chosen(recipe)
        steps = recipe.takes_steps(design)
        counts = steps and not self.early_stopping
        if kept and counts:
            recipe = replace(recipe, epochs=getattr(self, "_epochs", None))
        if recipe.is_complete and (recipe.epochs is not None or not counts):
            return recipe, []
        targets = [y[rows] for y in targets]
        strata = strata_of(targets) if is_classifier(self) else None
        penalties = choose_penalties(
            replace(recipe, rank=None, may_take_steps=steps), design, X, targets,
            None if sample_weight is None else sample_weight[rows], strata, seeds,
            teller(self.verbose, current_watch()),
        )  # fmt: skip
        self._is_cut_short = interrupts.interrupted()  # then the next warm start chooses anew
        recipe = recipe.with_penalties(penalties.alpha, penalties.beta)
        epochs = None if self.early_stopping else penalties.epochs
        return replace(recipe, epochs=epochs, may_take_steps=penalties.epochs is not None), penalties.starts

    def _as_chosen(self, recipe: Recipe) -> Recipe:
        """The recipe with the penalties that an earlier fit chose, where it has none of its own. Who descended goes on
        to descend."""
        alpha, beta = recipe.alpha, recipe.beta
        if beta is None:
            beta = tuple(self.beta_.tolist()) if isinstance(self.beta_, np.ndarray) else self.beta_
        takes_steps = recipe.may_take_steps and getattr(self, "solver_", "sgd") == "sgd"
        recipe = replace(recipe, may_take_steps=takes_steps)
        return recipe.with_penalties(self.alpha_ if alpha is None else alpha, beta)

    def _set_penalties(self, recipe: Recipe) -> None:
        self.alpha_: Any = shown(recipe.alpha)
        self.beta_: Any = shown(recipe.beta)

    def _key(self, data: InMemory | Any) -> str:
        """What tells one problem from another: training goes on exactly only where all of this is the same."""
        options = {name: value for name, value in self.get_params(deep=False).items() if name not in NOT_IN_KEY}
        options["loss"] = self._identity_of_loss()
        if not isinstance(self.random_state, Integral):
            options["random_state"] = "drawn"  # the seeds that were drawn are in the checkpoint
        return joblib.hash([*data.contents(), sorted(options.items()), package_stamp()])

    def _identity_of_loss(self) -> Any:
        return identity_of(as_loss(self.loss))

    def _split(self, X, y, seed: int) -> tuple[Any, Any]:
        """Rows to train on and, with early stopping, rows to hold out."""
        if not self.early_stopping:
            return slice(None), None
        from sklearn.model_selection import train_test_split  # here: it takes a tenth of a second to import

        stratify = y if is_classifier(self) else None
        rows = np.arange(X.shape[0])
        train, held_out = train_test_split(
            rows, test_size=self.validation_fraction, random_state=seed, stratify=stratify
        )
        return np.sort(train), np.sort(held_out)

    def _warm_starts(self, model: Model, design: Design, n_targets: int, key: str) -> list[Start]:
        """For each target the parameters to start from and, on the same problem, what lets the solver go on exactly."""
        fitted: Fitted | None = getattr(self, "_fitted", None)
        if not self.warm_start or fitted is None:
            return [(None, None)] * n_targets
        some = int(self._has_automatic_rank)  # any number of bases will do
        shapes = [group.shape(design.shape[1])[some:] for group in model.groups]
        previous = fitted.targets
        same = len(previous) == n_targets and [P.shape[some:] for P in previous[0].factors] == shapes
        if not same:
            raise ValueError(
                "warm_start=True, but the fitted parameters have other shapes than this model and data ask for. Keep "
                "degree, n_components, fit_lower, the features and the classes, or set warm_start=False."
            )
        resume = getattr(self, "_resume", None)
        resumes = resume[1] if resume and resume[0] == key else [None] * n_targets
        return [(p.copy(design.dtype), r) for p, r in zip(previous, resumes, strict=True)]

    def __getstate__(self):
        return {name: value for name, value in super().__getstate__().items() if name != "_resume"}

    def _warn(self, results: list[Result]) -> None:
        if results[-1].interrupted or interrupts.interrupted():
            warnings.warn(
                f"Training was interrupted after {results[-1].n_iter} epoch(s); the model learned so far was kept.",
                UserWarning,
                stacklevel=6,
            )
        elif self._has_automatic_rank:
            if self.duality_gap_ > self.gap_tol:
                warnings.warn(
                    f"The duality gap is {self.duality_gap_:.2g} with {self.n_components_} bases, more than gap_tol="
                    f"{self.gap_tol:g}. Raise max_components={self.max_components}, max_iter={self.max_iter}, beta or "
                    "gap_tol.",
                    ConvergenceWarning,
                    stacklevel=6,
                )
        elif not all(result.converged for result in results):
            history = max((r.history for r in results if not r.converged), key=len)
            warnings.warn(
                f"Not converged after max_iter={self.max_iter} epochs{self._rate(history)}. Raise max_iter for a lower "
                f"objective, {self._remedies}; features of very different scales also slow training down (try "
                "sklearn.preprocessing.StandardScaler).",
                ConvergenceWarning,
                stacklevel=6,
            )

    def _rate(self, h: np.ndarray) -> str:
        """How fast the objective was still falling."""
        n = solver_class(self.solver_).window or 1
        if len(h) <= n or not h[-1 - n]:
            return ""
        last = "the last" if n == 1 else f"the last {n}"
        fall = (h[-1 - n] - h[-1]) / abs(h[-1 - n])
        return f"; {last} lowered the objective by {fall:.1e} of it, more than tol={self.tol:g}"

    # -- fitted attributes --------------------------------------------------------------------------------------------

    def _keep(self, recipe: Recipe, outcomes: list[Outcome], solver: str) -> None:
        """Turn outcomes into fitted attributes. Objectives of several targets add up: one-vs-rest is one sum."""
        self._forget_training()
        results = [outcome.result for outcome in outcomes]
        if recipe.rank is not None:
            self.duality_gap_ = float(sum(map(_gap, results)) / (abs(sum(r.history[-1] for r in results)) or 1.0))
        self._set_fitted(self._as_fitted(recipe, results))
        if recipe.rank is not None:
            self.n_components_ = self._fitted.model.groups[0].n_bases
        self._set_penalties(recipe)
        self._epochs = recipe.epochs
        self.solver_ = solver
        self.n_iter_ = max(result.n_iter for result in results)
        self.history_: Any = sum_of_histories([result.history for result in results])
        self.objective_ = float(self.history_[-1])
        losses = [o.validation_losses for o in outcomes if o.validation_losses is not None]
        if losses:
            self.validation_losses_ = sum_of_histories(losses)

    def _as_fitted(self, recipe: Recipe, results: list[Result]) -> Fitted:
        targets = [result.parameters for result in results]
        return Fitted(*(recipe.model, targets) if recipe.rank is None else of_one_rank(recipe.model, targets))

    def _forget_training(self) -> None:
        for name in OF_TRAINING:
            self.__dict__.pop(name, None)


def _gap(result: Result) -> float:
    """Where nothing is known, as for a class whose turn had not come when Ctrl-C did, all may be lost."""
    return float(result.learned["gap"][0]) if "gap" in result.learned else float(abs(result.history[-1]))


def strata_of(targets: list[np.ndarray]) -> np.ndarray:
    """A number for the class of each row, from targets of 1 and -1, one for each class or for the second of two."""
    return np.stack([-targets[0], *targets]).argmax(axis=0).astype(np.int32)


def teller(verbose: int, watch: Watch | None) -> Callable[[int, int, str], None]:
    """What tells whoever listens how far the choice of penalties is."""

    def tell(done: int, total: int, note: str) -> None:
        if verbose:
            print(f"choosing penalties   {note}", flush=True)
        if watch is not None:
            watch(Progress("searching", done, total, note))

    return tell


def sum_of_histories(histories: list[np.ndarray]) -> np.ndarray:
    """The sum of one-vs-rest histories; one that ended earlier stays at its last value."""
    longest = max(map(len, histories))
    return np.sum([np.pad(history, (0, longest - len(history)), mode="edge") for history in histories], axis=0)
