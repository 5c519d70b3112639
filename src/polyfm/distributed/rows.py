"""The rows of a fit, in parts: what the chain through a fit asks of them, as `estimators/in_memory.py` has it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import compute_class_weight

from polyfm.core.parameters import Parameters
from polyfm.core.problem import Objective, Problem
from polyfm.distributed.chunk import Facts, Layout
from polyfm.distributed.engine import Engine, PartitionError, Sent
from polyfm.distributed.penalties import choose_from_parts
from polyfm.distributed.problem import DistributedDesign
from polyfm.distributed.recipe import DistributedRecipe
from polyfm.estimators.base import strata_of, teller
from polyfm.estimators.validation import FEW, LARGEST, check_range, check_size, check_some_weight, warn_of_unequal
from polyfm.solvers import Monitor
from polyfm.training.hooks import current_watch
from polyfm.training.recipe import Recipe
from polyfm.training.session import Validation


class RowsInParts:
    """Rows that an engine knows, each part with its targets and weights."""

    def __init__(self, estimator: Any, engine: Engine, X: Any = None, y: Any = None, n_features: int | None = None):
        self.estimator, self.engine, self.X, self.y = estimator, engine, X, y
        self.validation: Validation | None = None
        facts: list[Facts] = engine.each("facts", is_classifier(estimator), n_features)
        there = [place for place, fact in enumerate(facts) if fact.n_rows]
        if not there:
            raise ValueError(f"There are no rows: all {len(facts)} partition(s) are empty.")
        engine.keep(there)
        self.facts = facts = [facts[place] for place in there]
        widths = {fact.n_features: place for place, fact in zip(there, facts, strict=True)}
        if len(widths) > 1:
            (one, first), (other, second) = list(widths.items())[:2]
            raise PartitionError(
                f"Partition {first} has {one} features, partition {second} has {other}. All need the same columns."
            )
        self.shape = sum(fact.n_rows for fact in facts), int(next(iter(widths)) or 0)
        self.nnz = sum(fact.nnz for fact in facts)
        self.is_sparse = any(fact.is_sparse for fact in facts)
        self.dtype = np.dtype(np.float32 if all(fact.is_single for fact in facts) else np.float64)
        self.classes: np.ndarray | None
        self.class_weight: np.ndarray | None
        self.classes, self.class_weight = self._classes(there) if is_classifier(estimator) else (None, None)
        self.n_targets = 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)
        self.design = self._design(0.0, 0)

    @property
    def target_range(self) -> np.ndarray:
        lows, highs = zip(*(fact.targets for fact in self.facts), strict=True)
        return np.array([min(lows), max(highs)])

    def _classes(self, there: list[int]) -> tuple[np.ndarray, np.ndarray | None]:
        labels = [fact.targets[0] for fact in self.facts]
        are_texts = [isinstance(some[0], str) for some in labels]
        if len(set(are_texts)) > 1:
            raise PartitionError(
                f"Labels are texts in partition {there[are_texts.index(True)]}, and numbers in partition "
                f"{there[are_texts.index(False)]}. All need the same type."
            )
        classes, places = np.unique(np.concatenate(labels), return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"{type(self.estimator).__name__} needs samples of at least 2 classes; the data has one class: "
                f"{str(classes[0])!r}."
            )
        given = self.estimator.class_weight
        if given is None:
            return classes, None
        if given == "balanced":
            of_classes = np.bincount(places, np.concatenate([fact.targets[2] for fact in self.facts]))
            return classes, of_classes.sum() / (len(classes) * of_classes)
        return classes, compute_class_weight(given, classes=classes, y=classes)

    def _design(self, held_out: float, seed: int) -> DistributedDesign:
        layout = Layout(
            self.dtype.name, self.is_sparse, self.shape[1], "sorted", self.classes, self.class_weight, held_out, seed
        )
        return DistributedDesign(self.engine, self.shape, self.nnz, Sent(layout), self.estimator.loss)

    # -- what the chain asks for --------------------------------------------------------------------------------------

    def check(self, recipe: Recipe) -> Recipe:
        limit = LARGEST[self.dtype.name]
        check_range(
            "X", np.array([fact.largest for fact in self.facts], self.dtype), limit,
            "Scale the features first, for instance with sklearn.preprocessing.StandardScaler or MaxAbsScaler.",
        )  # fmt: skip
        if self.classes is None:
            check_range("y", self.target_range, limit, "Scale the targets, for instance to unit variance.")
        weights = [fact.weight for fact in self.facts if fact.weight is not None]
        if weights:
            check_range(
                "sample_weight", np.array([fact.largest_weight for fact in self.facts]), limit,
                "Divide all weights by the largest.",
            )  # fmt: skip
            check_some_weight(np.array(weights), "all rows")
        here: Any = SimpleNamespace(shape=(0, self.shape[1]), dtype=self.dtype)  # the rows are elsewhere
        check_size(recipe.model, here, self.n_targets)
        if self.shape[1] > 1:
            squares, counts = self.engine("sizes_of_features", self.design.layout)
            there = squares > 0
            found, counts = np.sqrt(squares[there] / counts[there]), counts[there]
            if len(found) and self.is_sparse:  # sizes that few values have do not count
                order = np.argsort(found)
                found, below = found[order], np.cumsum(counts[order]) / counts.sum()
                found = found[np.searchsorted(below, [FEW, 1 - FEW]).clip(max=len(found) - 1)]
            if len(found):
                warn_of_unequal(float(found.min()), float(found.max()))
        return recipe

    def contents(self) -> list[Any]:
        return [self.engine.each("digest"), self.classes, self.class_weight]

    def divide(self, seed: int) -> None:
        if self.estimator.early_stopping and self.validation is None:
            self.design = self._design(self.estimator.validation_fraction, seed)
            weights = self.engine("weights", self.design.layout)
            for part, weight in zip(("train on", "hold out for early stopping"), weights, strict=True):
                if not weight:
                    raise ValueError(
                        f"Of {self.shape[0]} rows, no row that has a weight is left to {part}. Change "
                        "validation_fraction, or pass X_val and y_val."
                    )

    def arrange(self, recipe: Recipe, seed: int) -> DistributedDesign:
        return self.design

    def complete(self, recipe: DistributedRecipe, seeds: np.ndarray) -> tuple[Recipe, list[Parameters]]:
        """As `_complete` of the estimators."""
        estimator = self.estimator
        if recipe.is_complete:
            return recipe, []
        if estimator.warm_start and hasattr(estimator, "_fitted") and hasattr(estimator, "beta_"):
            return estimator._as_chosen(recipe), []
        plain = replace(recipe.of_kind(Recipe), solver="auto", may_take_steps=False)
        penalties = choose_from_parts(
            recipe, plain, self.design, self.n_targets, strata_of if is_classifier(estimator) else None, seeds,
            teller(estimator.verbose, current_watch()),
        )  # fmt: skip
        return recipe.with_penalties(penalties.alpha, penalties.beta), penalties.starts

    def samples(self) -> "SamplesInParts":
        judges = self.validation if self.validation is not None else self.estimator.early_stopping
        return SamplesInParts(self.design, self.n_targets, judges)

    def hooks(self) -> list[Any]:
        return [TrafficNote(self.engine)]


class SamplesInParts:
    """As `training.session.Samples`."""

    def __init__(self, design: DistributedDesign, n_targets: int, judges: Validation | bool):
        self.design, self.n_targets, self.judges = design, n_targets, judges

    def problem(self, recipe: Recipe, index: int) -> Objective:
        return self.design.problem(recipe.model, index, recipe.alpha, recipe.beta)

    def judged(self, recipe: Recipe, index: int) -> Objective | None:
        if isinstance(self.judges, Validation):
            rows = self.judges
            return Problem.with_target(
                rows.design, recipe.model, recipe.loss, rows.targets[index], rows.weight, recipe.alpha, recipe.beta
            )
        if not self.judges:
            return None
        return self.design.problem(recipe.model, index, recipe.alpha, recipe.beta, held_out=True)


class TrafficNote:
    """A hook: what an epoch took, for whoever is watching."""

    def __init__(self, engine: Engine):
        self.engine, self.before = engine, replace(engine.traffic)
        self.said = ""

    def __call__(self, monitor: Monitor, state: Any) -> bool:
        now, before = self.engine.traffic, self.before
        note = monitor.note.removesuffix(self.said) if self.said else monitor.note
        rounds, moved = now.rounds - before.rounds, now.sent + now.received - before.sent - before.received
        self.said = (
            f"   {rounds} round{'s' * (rounds != 1)}, {now.seconds - before.seconds:.2f} s, {moved / 1e6:.3g} MB"
        )
        monitor.note = note + self.said
        self.before = replace(now)
        return False
