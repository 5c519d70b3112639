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


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@output_option("--out", help="A CSV file; by default they are printed.")
@click.option("--proba", is_flag=True, help="Class probabilities in place of labels.")
@data_options
@plainly
def predict(model, data, out, proba, target, format_, text, zero_based):
    """Predict with a saved MODEL for every row of DATA, in bounded memory."""
    from polyfm.files.atomic import writing

    check_csv_name(out)
    check_outputs({"MODEL": model, "DATA": data}, out=out)
    source = make_source(data, target, format_, text, zero_based)
    if out is None:
        need_output()
    saved = Saved(model)
    if proba and not saved.has_probabilities:
        raise click.UsageError("--proba needs a classifier with the logistic loss.")
    if out is None:
        _write(write_output, saved, source, proba, plain if sys.stdout.isatty() else str)
    else:
        with writing(out, DataFileError) as file:
            rows = _write(file.write, saved, source, proba, str)
        say(f"{rows:,} predictions in {out}")


def _write(write: Callable[[bytes], Any], saved: Saved, source: Source, proba: bool, as_text: Callable) -> int:
    """Write predictions as CSV, each chunk once it is complete; how many there were."""
    header = [as_text(f"p({label})") for label in saved.classes] if proba else ["prediction"]  # type: ignore[union-attr]
    labels = {} if proba or saved.classes is None else {label: as_text(label) for label in saved.classes.tolist()}
    # Python 3.11 does not quote a carriage return where it must.
    quoting: Any = csv.QUOTE_NONNUMERIC if "\r" in "".join([*header, *labels.values()]) else csv.QUOTE_MINIMAL
    n_rows = 0
    for X, _ in saved.chunks(source, with_target=False):
        values = saved.model.predict_proba(X) if proba else saved.model.predict(X)
        if values.dtype.kind == "f" and not np.all(np.isfinite(values)):
            row = n_rows + int(np.argmin(np.isfinite(values).reshape(len(values), -1).all(axis=1)))
            raise ValueError(
                f"{source.path}: the prediction for row {row}, counted from 0, is not a finite number. The features "
                "are too large for the model."
            )
        rows = values.tolist() if proba else [[labels.get(value, value)] for value in values.tolist()]
        text = io.StringIO(newline="")
        table = csv.writer(text, lineterminator="\n", quoting=quoting)
        if n_rows == 0:
            table.writerow(header)
        table.writerows(rows)
        write(text.getvalue().encode("utf-8", "backslashreplace"))
        n_rows += len(values)
    return n_rows


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
@data_options
@plainly
def evaluate(model, data, as_json, target, format_, text, zero_based):
    """Score a saved MODEL on DATA."""
    check_outputs({"MODEL": model, "DATA": data})
    need_output()
    source = make_source(data, target, format_, text, zero_based)
    saved = Saved(model)
    targets, values = [], []
    for X, y in saved.chunks(source, with_target=True):
        targets.append(y)
        values.append(saved.model.predict_proba(X) if saved.has_probabilities else saved.model.predict(X))
    y = np.concatenate(targets)
    show("Scores", {"rows": len(y), **metrics(y, np.concatenate(values), saved.classes)}, as_json)
