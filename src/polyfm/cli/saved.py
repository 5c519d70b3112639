"""A saved model, and data in the form in which it takes them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from polyfm.cli.sources import MOST_NAMED, Source
from polyfm.cli.terminal import note
from polyfm.modelfile import load_model


class Saved:
    def __init__(self, path: Path):
        self.model = load_model(path)
        self.encoder, self.estimator = None, self.model
        if hasattr(self.model, "steps"):
            self.estimator = self.model[-1]
            self.encoder = self.model[:-1] if len(self.model.steps) > 1 else None
        if not hasattr(self.estimator, "predict"):
            raise click.UsageError(f"{path}: holds a {type(self.estimator).__name__}, which predicts nothing.")
        self.columns: list[str] | None = None
        if hasattr(self.model, "feature_names_in_"):
            self.columns = list(self.model.feature_names_in_)

    @property
    def feature_names(self) -> list[str] | None:
        return None if self.encoder is None else [str(name) for name in self.encoder.get_feature_names_out()]

    @property
    def classes(self) -> np.ndarray | None:
        return getattr(self.estimator, "classes_", None)

    @property
    def has_probabilities(self) -> bool:
        return hasattr(self.model, "predict_proba")

    def chunks(self, source: Source, *, with_target: bool) -> Iterator[tuple[Any, Any]]:
        """Features, and targets where they are asked for, some rows at a time."""
        if not source.is_table and self._wants_a_table:
            raise click.UsageError(
                f"The model was trained on a table with the columns {_listed(self.columns or [])}; {source.path} is "
                "read as a svmlight file. --format says otherwise."
            )
        if source.is_table and self.columns is None:
            note("the model knows its features by number alone: the columns of the table are taken in their order.")
        elif not source.is_table and self.columns is not None:
            note("the model knows its features by name: those of the svmlight file are taken in their order.")
        for X, y in source.chunks(int(self.model.n_features_in_), with_target=with_target):
            yield self._arranged(X, source) if source.is_table else X, y

    @property
    def _wants_a_table(self) -> bool:
        return self.encoder is not None and type(self.encoder[0]).__name__ == "TableEncoder"

    def _arranged(self, table, source: Source):
        """The table as the model wants it: its columns by name, in its order, where it knows them."""
        if self.columns is not None:
            table = self._known_columns(table, source)
        if self._wants_a_table:
            return table
        words = [str(name) for name, dtype in table.dtypes.items() if dtype.kind not in "biuf"]
        if words:
            raise click.UsageError(f"{source.path}: the model takes numbers, and {_listed(words)} holds text.")
        return table if self.columns is not None else table.to_numpy(dtype=np.float64, na_value=np.nan)

    def _known_columns(self, table, source: Source):
        assert self.columns is not None
        there = [str(name) for name in table.columns]
        missing = [name for name in self.columns if name not in there]
        unknown = [name for name in there if name not in self.columns]
        if missing:
            has = f" It has {_listed(unknown)}, which the model does not know." if unknown else ""
            raise click.UsageError(f"{source.path}: lacks {_listed(missing)}, which the model was trained on.{has}")
        if unknown:
            hint = " If it is the target, say so with --target." if len(unknown) == 1 and not source.target else ""
            raise click.UsageError(f"{source.path}: has {_listed(unknown)}, which the model does not know.{hint}")
        return table[self.columns]


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:MOST_NAMED])) + (" ..." if len(names) > MOST_NAMED else "")
