"""``polyfm predict`` and ``polyfm evaluate``: use a saved model."""

import sys
from pathlib import Path
from typing import Any

import click
import numpy as np

from polyfm.cli.common import console, data_options, make_source, plainly, show, width
from polyfm.cli.scores import metrics
from polyfm.datafiles import DataFileError
from polyfm.modelfile import load_model


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="A CSV file; by default they are printed.")
@click.option("--proba", is_flag=True, help="Class probabilities in place of labels.")
@data_options
@plainly
def predict(model, data, out, proba, target, format_, text, zero_based):
    """Predict with a saved MODEL for every row of DATA, in bounded memory."""
    from polyfm.files.atomic import writing

    fitted = load_model(model)
    source = make_source(data, target, format_, text, zero_based)
    if proba and not hasattr(fitted, "predict_proba"):
        raise click.UsageError("--proba needs a classifier with the logistic loss.")

    def write(file) -> int:
        rows = 0
        header = [f"p({label})" for label in fitted.classes_] if proba else ["prediction"]
        file.write((",".join(header) + "\n").encode())
        for X, _ in source.chunks(width(fitted), with_target=False):
            values = fitted.predict_proba(X) if proba else fitted.predict(X)[:, None]
            file.write("".join(",".join(map(_shown, row)) + "\n" for row in values.tolist()).encode())
            rows += len(values)
        return rows

    if out is None:
        write(sys.stdout.buffer)
    else:
        with writing(out, DataFileError) as file:
            rows = write(file)
        console.print(f"{rows:,} predictions in {out}")


def _shown(value: Any) -> str:
    if isinstance(value, str) and any(c in value for c in ',"\n'):
        return '"' + value.replace('"', '""') + '"'
    return repr(value) if isinstance(value, float) else str(value)


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
@data_options
@plainly
def evaluate(model, data, as_json, target, format_, text, zero_based):
    """Score a saved MODEL on DATA."""
    fitted = load_model(model)
    source = make_source(data, target, format_, text, zero_based)
    targets, values = [], []
    for X, y in source.chunks(width(fitted), with_target=True):
        targets.append(y)
        values.append(fitted.predict_proba(X) if hasattr(fitted, "predict_proba") else fitted.predict(X))
    y, values_ = np.concatenate(targets), np.concatenate(values)
    classes = getattr(fitted, "classes_", None)
    show("Scores", {"rows": len(y), **metrics(classes is not None, y, values_, classes)}, as_json)
