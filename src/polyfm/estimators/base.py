"""The scikit-learn face: estimators validate and encode, and leave the numbers to `Problem` and its solvers."""

import copy
import os
import warnings
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from polyfm.conversion import converted
from polyfm.core.design import Design
from polyfm.core.model import Model, Parameters, Predictor, build_model
from polyfm.core.problem import Problem
from polyfm.estimators._sklearn import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    check_sample_weight,
)
from polyfm.loops.jit import source_stamp
from polyfm.losses import as_loss
from polyfm.solvers import SGD, SOLVERS, Hook, Result, automatic, is_multilinear, make_solver, run_in_place
from polyfm.training.hooks import CallbackTask, Checkpoint, EarlyStopping, read_checkpoint
from polyfm.training.initial import initial_parameters

LARGEST = {"float64": 1e100, "float32": 1e15}  # beyond these, squares of derivatives overflow
NOT_IN_KEY = {"max_iter", "tol", "verbose", "warm_start", "n_jobs", "checkpoint", "checkpoint_interval"}


class PolynomialModel(CallbackSupportMixin, BaseEstimator):
    """What the four estimators share. Subclasses set the kernel and encode their targets."""

    _kernel: str

    _parameter_constraints: dict = {
        "degree": [Interval(Integral, 2, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "beta": [Interval(Real, 0, None, closed="left")],
        "method": [StrOptions({"direct", "lifted"})],
        "fit_lower": [StrOptions({"explicit", "augment"}), None],
        "fit_linear": ["boolean"],
        "fit_intercept": ["boolean"],
        "init_lambdas": [StrOptions({"ones", "random_signs"}), "array-like"],
        "fit_lambdas": ["boolean"],
        "init_scale": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"auto", *SOLVERS})],
        "batch_size": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
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

    # -- fitting ------------------------------------------------------------------------------------------------------

    def _validate_options(self) -> None:
        """Combinations of parameters that make no sense, before any work is done."""
        if self.solver in ("cd", "block") and not is_multilinear(self._model()):
            raise ValueError(
                f"{type(self).__name__} with method={self.method!r} cannot be trained by coordinate descent: the "
                "homogeneous kernel is not multilinear in its bases. Use solver='newton', 'lbfgs' or 'sgd', or "
                "method='lifted'."
            )
        if self.solver == "sgd" and self.fit_lambdas:
            raise ValueError("fit_lambdas=True needs solver='cd', 'block', 'newton' or 'lbfgs', got 'sgd'.")
        if self.method == "lifted":
            if self.fit_lambdas:
                raise ValueError("fit_lambdas=True needs method='direct': a lifted model has no lambdas to fit.")
            if not isinstance(self.init_lambdas, str) or self.init_lambdas != "ones":
                raise ValueError("init_lambdas needs method='direct': a lifted model has no lambdas.")
        for name in ("alpha", "beta", "init_scale"):
            if not np.isfinite(getattr(self, name, 0.0)):
                raise ValueError(f"{name} must be finite, got {getattr(self, name)}.")

    def _model(self) -> Model:
        return build_model(
            self._kernel, self.method, self.degree, self.n_components, self.fit_lower, self.fit_linear,
            self.fit_intercept,
        )  # fmt: skip

    def _given_lambdas(self, model: Model):
        """`init_lambdas` as a word or as a checked array over all bases."""
        if isinstance(self.init_lambdas, str):
            return self.init_lambdas
        lams = np.asarray(self.init_lambdas, dtype=np.float64)
        n_bases = sum(group.n_bases for group in model.groups)
        if lams.shape != (n_bases,):
            raise ValueError(
                f"init_lambdas has shape {lams.shape}, but the model has {n_bases} bases (n_components="
                f"{self.n_components} for each of {len(model.groups)} degree(s)): pass ({n_bases},) values."
            )
        if not np.all(np.isfinite(lams)):
            raise ValueError("init_lambdas must be finite numbers.")
        return lams

    def _fit_targets(self, X, y, targets: list[np.ndarray], sample_weight) -> None:
        """Fit one set of parameters for each target; they share the views of X."""
        loss, model = as_loss(self.loss), self._model()
        lams = self._given_lambdas(model)
        sample_weight = self._checked_weights(X, sample_weight)
        check_features(X)
        callbacks = CallbackTask(self, X, y, len(targets))
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=len(targets))
        key = self._key(X, targets, sample_weight) if self.warm_start or self.checkpoint else ""
        train, held_out = self._split(X, y, int(seeds[0]))
        arranged = {"shuffle_rows": int(seeds[0])} if self.solver == "sgd" else {"sort_rows": True}
        # Even a slice of everything would copy a sparse X.
        design = Design(X if held_out is None else X[train], **arranged)
        unseen = None if held_out is None else Design(X[held_out])
        self.solver_ = self._solver_name(model, design)
        starts = self._warm_starts(model, design, len(targets), key)
        finished, current = read_checkpoint(Path(self.checkpoint), key) if self.checkpoint else ([], None)

        def problem(design: Design, rows, target: np.ndarray) -> Problem:
            weight = None if sample_weight is None else sample_weight[rows]
            return Problem.with_target(design, model, loss, target[rows], weight, self.alpha, self.beta)

        results = list(finished)
        for index in range(len(finished), len(targets)):
            solver = make_solver(
                self.solver_, fit_lambdas=self.fit_lambdas, n_threads=effective_n_jobs(self.n_jobs),
                seed=int(seeds[index]), batch_size=self.batch_size,
            )  # fmt: skip
            task = problem(design, train, targets[index])
            start, extra, history = *starts[index], None
            if current is not None and index == len(finished):
                start, extra, history = current.parameters, current.extra, list(current.history)
            if start is None:
                start = initial_parameters(task, np.random.RandomState(seeds[index]), self.init_scale, lams)
            hooks: list[Hook] = []
            stopping = None
            if unseen is not None:
                stopping = EarlyStopping(problem(unseen, held_out, targets[index]), self.n_iter_no_change)
                hooks.append(stopping)
            if self.checkpoint:
                hooks.append(Checkpoint(self.checkpoint, self.checkpoint_interval, key, solver, list(results)))
            hooks += [*callbacks.hooks(model, index), *getattr(self, "_watchers", ())]
            if results and results[-1].interrupted:
                result = Result(start, np.array([task.objective(start)]), False, True, {})
            else:
                result = run_in_place(
                    solver, task, start, max_iter=self.max_iter, tol=self.tol, verbose=self.verbose,
                    hooks=tuple(hooks), extra=extra, history=history,
                )  # fmt: skip
            if stopping is not None and stopping.best_parameters is not None:
                result = result._replace(parameters=stopping.best_parameters, extra={})  # it was the last epoch's
                result.history[-1] = task.objective(result.parameters)
                self.validation_losses_ = np.array(stopping.losses)
            results.append(result)
            callbacks.end_target()
        self._keep(model, results)
        self._stream: Any = None
        self._resume = (key, [result.extra for result in results]) if self.warm_start else None
        callbacks.end()
        if self.checkpoint and not results[-1].interrupted:
            Path(self.checkpoint).unlink(missing_ok=True)
        self._warn(results)

    def _solver_name(self, model: Model, design: Design) -> str:
        return automatic(model, design) if self.solver == "auto" else self.solver

    def _checked_weights(self, X, sample_weight):
        if sample_weight is None:
            return None
        sample_weight = check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
        if not np.any(sample_weight):
            raise ValueError("All sample weights are zero: there is nothing to fit.")
        return sample_weight

    def _key(self, X, targets: list[np.ndarray], sample_weight) -> str:
        """What tells one problem from another: training goes on exactly only where all of this is the same."""
        options = {name: value for name, value in self.get_params().items() if name not in NOT_IN_KEY}
        return joblib.hash([X, targets, sample_weight, repr(sorted(options.items(), key=str)), source_stamp()])

    def _split(self, X, y, seed: int) -> tuple[Any, Any]:
        """Rows to train on and, with early stopping, rows to hold out."""
        if not self.early_stopping:
            return slice(None), None
        stratify = y if is_classifier(self) else None
        rows = np.arange(X.shape[0])
        train, held_out = train_test_split(
            rows, test_size=self.validation_fraction, random_state=seed, stratify=stratify
        )
        return np.sort(train), np.sort(held_out)

    def _warm_starts(self, model: Model, design: Design, n_targets: int, key: str) -> list[tuple]:
        """For each target the parameters to start from and, on the same problem, what lets the solver go on exactly."""
        previous = getattr(self, "_parameters", None)
        if not self.warm_start or previous is None:
            return [(None, None)] * n_targets
        shapes = [group.shape(design.shape[1]) for group in model.groups]
        same = len(previous) == n_targets and [P.shape for P in previous[0].factors] == shapes
        if not same:
            raise ValueError(
                "warm_start=True, but the fitted parameters have other shapes than this model and data ask for. Keep "
                "degree, n_components, fit_lower, the features and the classes, or set warm_start=False."
            )
        resume = getattr(self, "_resume", None)
        extras = resume[1] if resume and resume[0] == key else [None] * n_targets
        return [(p.copy(design.dtype), extra) for p, extra in zip(previous, extras, strict=True)]

    def __getstate__(self):
        return {name: value for name, value in super().__getstate__().items() if name != "_resume"}

    def _keep(self, model: Model, results: list[Result]) -> None:
        """Turn results into fitted attributes. Objectives of several targets add up: one-vs-rest is one sum."""
        self._keep_parameters(model, [result.parameters for result in results])
        self.n_iter_ = max(result.n_iter for result in results)
        padded = [np.pad(r.history, (0, self.n_iter_ - r.n_iter), mode="edge") for r in results]
        self.history_ = np.sum(padded, axis=0)
        self.objective_ = float(self.history_[-1])

    def _warn(self, results: list[Result]) -> None:
        if results[-1].interrupted:
            warnings.warn(
                f"Training was interrupted after {results[-1].n_iter} epoch(s); the model learned so far was kept.",
                UserWarning,
                stacklevel=4,
            )
        elif not all(result.converged for result in results):
            h = max((r.history for r in results if not r.converged), key=len)
            rate = f"; the last lowered the objective by {(h[-2] - h[-1]) / abs(h[-2]):.1e} of it" if len(h) > 1 else ""
            warnings.warn(
                f"Not converged after max_iter={self.max_iter} epochs{rate}, more than tol={self.tol:g}. Raise "
                "max_iter for a lower objective, raise tol to stop earlier in silence, or raise beta; features of very "
                "different scales also slow training down (try sklearn.preprocessing.StandardScaler).",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _partial_fit_targets(self, X, targets: list[np.ndarray], sample_weight) -> None:
        """One stochastic pass over a batch of rows; the first batch sets the start and the sizes of steps."""
        loss, model = as_loss(self.loss), self._model()
        sample_weight = self._checked_weights(X, sample_weight)
        check_features(X)
        design = Design(X)
        states = getattr(self, "_stream", None)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=len(targets))
        solvers = [SGD(seed=int(seed), batch_size=self.batch_size) for seed in seeds]
        problems = [Problem.with_target(design, model, loss, y, sample_weight, self.alpha, self.beta) for y in targets]
        if states is None:
            lams = self._given_lambdas(model)
            starts = getattr(self, "_parameters", None) or [
                initial_parameters(p, np.random.RandomState(seed), self.init_scale, lams)
                for p, seed in zip(problems, seeds, strict=True)
            ]
            states = [
                solver.init_state(p, start.copy(design.dtype))
                for solver, p, start in zip(solvers, problems, starts, strict=True)
            ]
        for solver, problem, state in zip(solvers, problems, states, strict=True):
            solver.stream(problem, state)
        self._stream, self.solver_ = states, "sgd"
        self._keep_parameters(model, [state.parameters.copy() for state in states])  # the next batch changes them
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1
        self.n_samples_seen_ = getattr(self, "n_samples_seen_", 0) + X.shape[0]

    def _keep_parameters(self, model: Model, parameters: list[Parameters]) -> None:
        self._fitted_model = model
        self._parameters = parameters
        self._predictor = Predictor(model, parameters)
        self.degrees_ = np.concatenate([np.full(g.n_bases, g.degree) for g in model.groups])
        components = [_stacked_components(model, p) for p in parameters]
        lambdas = [np.concatenate(p.lambdas) for p in parameters]
        self._set_attributes(components, lambdas, [p.coef for p in parameters], [p.intercept[0] for p in parameters])

    # -- the other form -----------------------------------------------------------------------------------------------

    def to_direct(self):
        """The same fitted model as a kernel expansion sum_s lambda_s K(p_s, x), with identical predictions.

        Degree 2 gives at most twice as many bases as the lifted model has, higher degrees at most 2^(degree - 1)
        times as many; see `lifted_to_direct`. `objective_` and `history_` belong to the lifted objective and are not
        carried over. With ``warm_start=True`` the result can be trained on.

        Returns
        -------
        estimator : object
            Of the same class, with ``method="direct"``.
        """
        return self._converted("direct")

    def to_lifted(self):
        """The same fitted model in lifted form, with identical predictions and as many bases.

        With ``warm_start=True`` the result can be trained on, from the same start as the direct model (the paper's
        section 9.2).

        Returns
        -------
        estimator : object
            Of the same class, with ``method="lifted"``.
        """
        return self._converted("lifted")

    def _converted(self, method: str):
        check_is_fitted(self)
        other = copy.deepcopy(self)
        if self.method == method:
            return other
        model, parameters = converted(self._fitted_model, self._parameters, method)
        other.set_params(method=method, n_components=model.groups[0].n_bases, init_lambdas="ones", fit_lambdas=False)
        for name in ("objective_", "history_"):
            if hasattr(other, name):
                delattr(other, name)
        other._keep_parameters(model, parameters)
        return other

    # -- prediction ---------------------------------------------------------------------------------------------------

    def _raw_predict(self, X) -> np.ndarray:
        """Predictions of shape (targets, samples)."""
        if not hasattr(self, "_predictor"):
            check_is_fitted(self)
        if not self._is_plain(X):
            X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        n_threads = 1 if self.n_jobs in (None, 1) else effective_n_jobs(self.n_jobs)
        return self._predictor(Design(X), n_threads)

    def _is_plain(self, X) -> bool:
        """Whether X is an array that scikit-learn's checks would let pass as it is. They take longer than a row."""
        if hasattr(self, "feature_names_in_") or not (type(X) is np.ndarray or sp.issparse(X)):
            return False
        if (
            X.ndim != 2
            or X.shape[0] == 0
            or X.shape[1] != self.n_features_in_
            or X.dtype not in (np.float64, np.float32)
        ):
            return False
        if type(X) is np.ndarray:
            return bool(np.isfinite(X.sum()))
        return X.format == "csr" and X.indices.dtype == np.int32 and bool(np.isfinite(X.data.sum()))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def check_features(X) -> None:
    check_range(
        "X", X.data if hasattr(X, "indptr") else X, LARGEST[X.dtype.name],
        "Scale the features first, for instance with sklearn.preprocessing.StandardScaler or MaxAbsScaler.",
    )  # fmt: skip


def check_range(name: str, values: np.ndarray, limit: float, remedy: str) -> None:
    largest = max(abs(float(values.max())), abs(float(values.min()))) if values.size else 0.0
    if largest > limit:
        raise ValueError(
            f"{name} has a value of magnitude {largest:.3g}, too large for products and squares in {values.dtype}. "
            f"{remedy}"
        )


def _stacked_components(model: Model, parameters: Parameters) -> np.ndarray:
    """All bases in one array: (bases, features) when direct, (degree, bases, features) when lifted, where bases of a
    lower degree have zeros for the factors that they lack."""
    if model.groups[0].method == "direct":
        return _joined([P[:, 0] for P in parameters.factors])
    degree = model.groups[0].degree
    padded = [np.pad(P, ((0, 0), (0, degree - P.shape[1]), (0, 0))) for P in parameters.factors[1:]]
    return _joined([parameters.factors[0], *padded]).transpose(1, 0, 2)


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    """The arrays one after the other; one alone is not copied, and so must not be written to."""
    joined = np.concatenate(arrays) if len(arrays) > 1 else arrays[0].view()
    joined.flags.writeable = False
    return joined
