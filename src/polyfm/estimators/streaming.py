"""Learning from rows that come in batches: `partial_fit`."""

from typing import Any

import numpy as np

from polyfm.core.design import Design
from polyfm.core.fitted import Fitted
from polyfm.estimators.base import PolynomialModel
from polyfm.estimators.validation import check_features, check_penalties, check_size
from polyfm.solvers import names_of


class StreamingModel(PolynomialModel):
    """An estimator that solvers for streams can train batch by batch."""

    def _partial_fit_targets(self, X, targets: list[np.ndarray], sample_weight) -> None:
        """One stochastic pass over a batch of rows; the first batch sets the start and the sizes of steps."""
        recipe = self._recipe(X.shape[1])
        sample_weight = self._checked_weights(X, sample_weight)
        check_features(X)
        check_size(recipe.model, X, len(targets))
        check_penalties(recipe.alpha, recipe.beta, X.dtype)
        design = Design(X)
        seeds = self._seeds(len(targets))
        recipe, _ = self._complete(recipe, design, X, targets, sample_weight, slice(None), seeds, keep=True)
        solvers: list[Any] = [recipe.make_solver(self.solver, int(seed)) for seed in seeds]
        problems = [recipe.problem(design, y, sample_weight) for y in targets]
        states = getattr(self, "_stream", None)
        seen = {"n_iter_": 0, "n_samples_seen_": 0}
        if states is None:
            fitted: Fitted | None = getattr(self, "_fitted", None)
            starts = (
                fitted.targets if fitted else [recipe.start(p, int(s)) for p, s in zip(problems, seeds, strict=True)]
            )
            states = [
                solver.init_state(p, start.copy(design.dtype))
                for solver, p, start in zip(solvers, problems, starts, strict=True)
            ]
        else:
            seen = {name: getattr(self, name, 0) for name in seen}
        try:
            for solver, problem, state in zip(solvers, problems, states, strict=True):
                solver.stream(problem, state)
        except BaseException:  # some targets have seen the batch, others not: the next one goes on from the model
            self._stream = None
            raise
        self._forget_training()
        self._stream, self.solver_ = states, self.solver
        parameters = [state.parameters.copy() for state in states]  # the next batch changes them
        self._set_fitted(Fitted(recipe.model, parameters))
        self._set_penalties(recipe)
        self.n_iter_, self.n_samples_seen_ = seen["n_iter_"] + 1, seen["n_samples_seen_"] + X.shape[0]


def streams(estimator) -> bool:
    """Whether `partial_fit` is there."""
    able = names_of("streams")
    if estimator.solver not in able:
        raise AttributeError(
            f"partial_fit needs solver={' or '.join(map(repr, able))}, got solver={estimator.solver!r}."
        )
    return True
