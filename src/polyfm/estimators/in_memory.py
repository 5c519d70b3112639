"""The rows of a fit, in memory: what the chain through a fit asks of them."""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from polyfm.core.design import Design
from polyfm.core.parameters import Parameters
from polyfm.estimators.validation import check_features, check_size, check_some_weight, warn_of_sizes
from polyfm.training.recipe import Recipe
from polyfm.training.session import Samples, Validation


class InMemory:
    """X with the targets of one or several models, which share its views."""

    design: Design

    def __init__(self, estimator, X, y, targets: list[np.ndarray], sample_weight, validation: Validation | None):
        self.estimator, self.X, self.y, self.targets, self.validation = estimator, X, y, targets, validation
        self.weight = sample_weight
        self.train: Any = slice(None)  # the rows to train on
        self.X_train = X

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    @property
    def dtype(self) -> np.dtype:
        return self.X.dtype

    @property
    def n_targets(self) -> int:
        return len(self.targets)

    def check(self, recipe: Recipe) -> Recipe:
        """The recipe, without stochastic steps where features are of very different sizes: one length of steps cannot
        suit them all."""
        self.weight = self.estimator._checked_weights(self.X, self.weight)
        check_features(self.X)
        check_size(recipe.model, self.X, self.n_targets)
        return replace(recipe, may_take_steps=False) if warn_of_sizes(self.X) else recipe

    def contents(self) -> list[Any]:
        """All that tells these data from others, to be hashed."""
        X, validation = self.X, self.validation
        # The arrays of a sparse matrix, without the flags that scipy remembers once somebody has asked for them.
        data = [X.format, X.shape, X.data, X.indices, X.indptr] if sp.issparse(X) else X
        judged = None if validation is None else [tuple(validation.design.rows), validation.targets]
        return [data, self.targets, self.weight, judged]

    def divide(self, seed: int) -> None:
        """Hold out rows, where early stopping asks for them and has no others."""
        if self.validation is not None:
            return
        self.train, held_out = self.estimator._split(self.X, self.y, seed)
        if held_out is None:
            return  # even a slice of everything would copy a sparse X
        weight = self.weight
        if weight is not None:
            for part, of in (("train on", self.train), ("hold out for early stopping", held_out)):
                check_some_weight(weight[of], f"the rows to {part}")
        self.X_train = self.X[self.train]
        self.validation = Validation(
            Design(self.X[held_out]), [target[held_out] for target in self.targets],
            None if weight is None else weight[held_out],
        )  # fmt: skip

    def arrange(self, recipe: Recipe, seed: int) -> Design:
        """The rows to train on as the solver wants them."""
        self.design = recipe.design(self.X_train, seed)
        return self.design

    def complete(self, recipe: Recipe, seeds: np.ndarray) -> tuple[Recipe, list[Parameters]]:
        estimator = self.estimator
        return estimator._complete(
            recipe, self.design, self.X_train, self.targets, self.weight, self.train, seeds, keep=estimator.warm_start
        )

    def samples(self) -> Samples:
        return Samples(self.design, self.targets, self.weight, self.train, self.validation)

    def hooks(self) -> list[Any]:
        """What watches training, of the rows' own."""
        return []
