"""``polyfm predict`` and ``polyfm evaluate``: use a saved model."""

import csv
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from polyfm.cli.common import data_options, make_source, plainly
from polyfm.cli.paths import check_csv_name, check_outputs, output_option
from polyfm.cli.saved import Saved
from polyfm.cli.scores import metrics
from polyfm.cli.sources import Source
from polyfm.cli.terminal import need_output, plain, say, show, write_output
from polyfm.datafiles import DataFileError

PREDICTION, STD = "prediction", "std"


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@output_option("--out", help="A CSV file; by default they are printed.")
@click.option("--keep", multiple=True, help="A column of DATA to write beside them, such as an id. May be repeated.")
@click.option(
    "--proba/--no-proba",
    default=None,
    help="Probabilities of classes alone, or labels alone. By default both, where there are any.",
)
@data_options
@plainly
def predict(model, data, out, keep, proba, **reading):
    """Predict with a saved MODEL for every row of DATA, in bounded memory.

    The columns of a table are found by their names, in any order. Those that the model does not use are ignored.
    Numbers that a Bayesian machine predicts come with their standard deviations.
    """
    from polyfm.files.atomic import writing

    check_csv_name(out)
    check_outputs({"MODEL": model, "DATA": data}, out=out)
    source = make_source(data, **reading)
    if out is None:
        need_output()
    saved = Saved(model)
    for name in (PREDICTION, *([STD] if saved.has_std else [])):
        if name in keep:
            raise click.UsageError(f"--keep {name}: predictions have that name. Rename the column.")
    if proba and not saved.has_probabilities:
        raise click.UsageError("--proba needs a classifier with the logistic loss.")
    output = Output(saved, keep, proba)
    if out is None:
        output.write(write_output, source, plain if sys.stdout.isatty() else str)
    else:
        with writing(out, DataFileError) as file:
            rows = output.write(file.write, source, str)
        say(f"{rows:,} predictions in {out}")


class Output:
    """Predictions as CSV: columns that are kept, labels or numbers, and probabilities."""

    def __init__(self, saved: Saved, keep: tuple[str, ...], proba: bool | None):
        self.saved, self.keep = saved, tuple(dict.fromkeys(keep))
        self.with_values = not proba
        self.with_std = saved.has_std and self.with_values
        self.with_probabilities = saved.has_probabilities and proba is not False

    def write(self, write: Callable[[bytes], Any], source: Source, as_text: Callable[[Any], str]) -> int:
        """Write each chunk once it is complete; how many rows there were."""
        classes = [] if self.saved.classes is None else self.saved.classes.tolist()
        header = [as_text(name) for name in self.keep] + ([PREDICTION] if self.with_values else [])
        header += [STD] if self.with_std else []
        header += [as_text(f"p({label})") for label in classes] if self.with_probabilities else []
        labels = {label: as_text(label) for label in classes}
        n_rows = 0
        for X, _, kept in self.saved.chunks(source, with_target=False, keep=self.keep):
            parts = [] if kept is None else [_texts(kept[name], as_text) for name in self.keep]
            parts += [values.tolist() for values in self._predicted(X, source, n_rows)]
            if self.with_values:
                at = len(self.keep)
                parts[at] = [labels.get(value, value) for value in parts[at]]
            text = io.StringIO(newline="")
            # Python 3.11 does not quote a carriage return where it must.
            odd = any("\r" in cell for part in (header, *parts) for cell in part if isinstance(cell, str))
            table = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC if odd else csv.QUOTE_MINIMAL)
            if n_rows == 0:
                table.writerow(header)
            table.writerows(zip(*parts, strict=True))
            write(text.getvalue().encode("utf-8", "backslashreplace"))
            n_rows += X.shape[0]
        return n_rows

    def _predicted(self, X, source: Source, n_rows: int) -> list[np.ndarray]:
        """The columns of the output that are predicted."""
        model, columns = self.saved.model, []
        if self.with_std:
            columns.extend(model.predict(X, return_std=True))
        elif self.with_values:
            columns.append(model.predict(X))
        if self.with_probabilities:
            columns.extend(model.predict_proba(X).T)
        for values in columns:
            if values.dtype.kind == "f" and not np.all(np.isfinite(values)):
                row = n_rows + int(np.argmin(np.isfinite(values)))
                raise ValueError(
                    f"{source.path}: the prediction for row {row}, counted from 0, is not a finite number. The "
                    "features are too large for the model."
                )
        return columns


def _texts(column, as_text: Callable[[Any], str]) -> list:
    """A column as it is to be written: gaps are empty, and numbers have all their digits."""
    there = column.notna().tolist()
    values = [value if ok else "" for value, ok in zip(column.tolist(), there, strict=True)]
    return [as_text(value) if isinstance(value, str) else value for value in values]


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
@data_options
@plainly
def evaluate(model, data, as_json, **reading):
    """Score a saved MODEL on DATA. The column that it predicts is remembered; --target names another."""
    check_outputs({"MODEL": model, "DATA": data})
    need_output()
    source = make_source(data, **reading)
    saved = Saved(model)
    targets, values = [], []
    for X, y, _ in saved.chunks(source, with_target=True):
        targets.append(y)
        values.append(saved.model.predict_proba(X) if saved.has_probabilities else saved.model.predict(X))
    y = np.concatenate(targets)
    show("Scores", {"rows": len(y), **metrics(y, np.concatenate(values), saved.classes)}, as_json)
