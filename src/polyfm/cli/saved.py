"""A saved model, and data in the form in which it takes them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import scipy.sparse as sp

from polyfm.cli.sources import Source, listed
from polyfm.cli.terminal import note
from polyfm.files.transformers import SCALERS, WITHOUT_COLUMNS
from polyfm.modelfile import load_model, model_info


class Saved:
    def __init__(self, path: Path):
        self.path = path
        self.model = load_model(path)
        if type(self.model).__name__ == "Recommender":
            raise click.UsageError(f"{path}: holds a Recommender. 'polyfm recommend --help' says what to do with it.")
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

    @property
    def has_std(self) -> bool:
        return hasattr(self.estimator, "predict_interval")

    # -- data ---------------------------------------------------------------------------------------------------------

    def chunks(
        self, source: Source, *, with_target: bool, keep: tuple[str, ...] = ()
    ) -> Iterator[tuple[Any, Any, Any]]:
        """Features, targets where they are asked for, and columns to keep, some rows at a time."""
        if source.is_table:
            source = self._as_in_training(source, with_target, keep)
            self._check_columns(source, with_target, keep)
        else:
            self._check_numbered(source, keep)
        n_features = getattr(self.model, "n_features_in_", None)
        for X, y in source.chunks(None if n_features is None else int(n_features), with_target=with_target):
            if source.is_table:
                yield self._arranged(X, source, keep), y, X[list(keep)] if keep else None
            else:
                yield X, y, None

    def _as_in_training(self, source: Source, with_target: bool, keep: tuple[str, ...]) -> Source:
        """The source, read as the table that the model was trained on was read."""
        known = table_of(self.path)
        if with_target and source.target is None:
            source = replace(source, target=known.get("target"))
        if source.kind == "parquet":
            return source
        verbatim = [name for name in keep if name not in (self.columns or [])]
        text = [name for name in (*known.get("text", []), *verbatim) if name in source.names and name != source.target]
        return replace(source, text=tuple(dict.fromkeys((*source.text, *text))))

    def _check_columns(self, source: Source, with_target: bool, keep: tuple[str, ...]) -> None:
        """Refuse a table that lacks columns; say which ones are not used."""
        source.check_names(("--keep", keep), ("--text", source.text))
        if not with_target and source.target is not None:
            source.check_names(("--target", (source.target,)))
        if self._takes_texts:
            raise click.UsageError(f"{self.path}: takes texts, not the columns of a table. Use it from Python.")
        if self.columns is None:
            note("the model knows its features by number alone: the columns of the table are taken in their order.")
            return
        missing = [name for name in self.columns if name not in source.names]
        if missing:
            raise click.UsageError(
                f"{source.path}: lacks {listed(missing)}, which the model was trained on. {source.hint(*missing)}"
            )
        known = {*self.columns, *keep, source.target}
        extra = [name for name in source.names if name not in known]
        if extra:
            note(f"{source.path} has {listed(extra)}, which the model does not use: ignored.")

    def _check_numbered(self, source: Source, keep: tuple[str, ...]) -> None:
        if keep:
            raise click.UsageError("--keep names columns of a table; this file has none.")
        if self._wants_a_table or self._takes_texts:
            raise click.UsageError(
                f"The model was trained on a table with the columns {listed(self.columns or [])}; {source.path} is "
                "read as a svmlight file. --format says otherwise."
            )
        if self.columns is not None:
            note("the model knows its features by name: those of the svmlight file are taken in their order.")

    @property
    def _first(self) -> str:
        return "" if self.encoder is None else type(self.encoder[0]).__name__

    @property
    def _wants_a_table(self) -> bool:
        """Whether columns may hold text: what comes first is neither an estimator nor a scaler."""
        return self.encoder is not None and self._first not in SCALERS

    @property
    def _takes_texts(self) -> bool:
        return self._first in WITHOUT_COLUMNS

    def _arranged(self, table, source: Source, keep: tuple[str, ...]):
        """The table as the model wants it: its columns by name, in its order, where it knows them."""
        if self.columns is not None:
            table = table[self.columns]
        else:
            table = table.drop(columns=[name for name in (*keep, source.target) if name in table])
        words = [str(name) for name, dtype in table.dtypes.items() if dtype.kind not in "biuf"]
        if self._wants_a_table:
            self._check_kinds(table, words, source)
            return table
        if words:
            raise click.UsageError(f"{source.path}: the model takes numbers, and {listed(words)} holds text.")
        return table if self.columns is not None else table.to_numpy(dtype=np.float64, na_value=np.nan)

    def _check_kinds(self, table, words: list[str], source: Source) -> None:
        import pandas

        assert self.encoder is not None
        kinds = getattr(self.encoder[0], "kinds_", None)
        for name, kind in zip(table.columns, kinds if kinds is not None else [], strict=False):
            if kind == "number" and str(name) in words:
                wrong = table[name][pandas.to_numeric(table[name], errors="coerce").isna() & table[name].notna()]
                if len(wrong):
                    raise click.UsageError(
                        f"{source.path}: column {name!r} was numbers when the model was trained, and now holds "
                        f"{str(wrong.iloc[0])[:100]!r} in row {wrong.index[0]}, counted from 0. Correct it."
                    )


def stacked(chunks: list[Any]) -> Any:
    """Rows that came in chunks, in one."""
    if hasattr(chunks[0], "iloc"):
        import pandas

        return pandas.concat(chunks)
    return sp.vstack(chunks, format="csr") if sp.issparse(chunks[0]) else np.vstack(chunks)


def table_of(path: Path) -> dict[str, Any]:
    """What the model file knows of the table that was learned from."""
    return model_info(path)["table"] or {}
