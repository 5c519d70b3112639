"""``polyfm fit``: train a model on a file."""

import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from sklearn.pipeline import make_pipeline

from polyfm.cli.columns import Columns, examine
from polyfm.cli.common import data_options, make_source, plainly
from polyfm.cli.ending import INTERRUPTED
from polyfm.cli.models import check_estimator, described, make_estimator
from polyfm.cli.options import Sectioned, estimator_options, given_parameters
from polyfm.cli.paths import check_outputs, output_option
from polyfm.cli.scores import scores
from polyfm.cli.sources import Source, is_classification
from polyfm.cli.stream import check_stream, fit_stream
from polyfm.cli.terminal import inform, say, show
from polyfm.cli.watched import watched
from polyfm.estimators.validation import LARGEST, check_range
from polyfm.modelfile import save_model
from polyfm.tabular import TableEncoder

HELD_OUT = 0.2
MOST_SHOWN = 60  # columns


@click.command(cls=Sectioned)
@click.argument("data", type=click.Path(path_type=Path), required=False)
@output_option("--model", "model_path", help="Where to save the model.")
@click.option(
    "--kind",
    type=click.Choice(["fm", "pn"]),
    default="fm",
    help="A factorization machine, or a polynomial network, for dense numbers. [default: fm]",
)
@click.option(
    "--task",
    type=click.Choice(["auto", "regression", "classification"]),
    default="auto",
    help="Predict numbers or classes. By default, classes where the target is text or has two values.",
)
@click.option(
    "--field", "fields", multiple=True, help="A column of numbers that name things, such as users. May be repeated."
)
@click.option("--drop", multiple=True, help="A column to leave out. May be repeated.")
@click.option(
    "--test-fraction",
    type=click.FloatRange(0, 1, max_open=True),
    help=f"Of the rows, held out for a score. [default: {HELD_OUT}]",
)
@click.option("--cv", is_flag=True, help="Choose beta by cross-validation.")
@click.option("--bayes", is_flag=True, help="Learn penalties too, and say how sure predictions are.")
@click.option(
    "--min-frequency", type=click.IntRange(1), help="Values of a column in fewer rows than this share one feature."
)
@click.option(
    "--buckets", type=click.IntRange(1), help="Columns with more values than this are hashed into so many features."
)
@click.option(
    "--no-stream", is_flag=True, help="With --solver sgd: read a svmlight file into memory, not as a stream of rows."
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@data_options
@estimator_options
@plainly
def fit(
    data, model_path, kind, task, fields, drop, test_fraction, cv, bayes, min_frequency, buckets, no_stream, as_json,
    target, text, format_, sep, decimal, encoding, zero_based, **options,
):  # fmt: skip
    """Train a model on DATA: a CSV, TSV or Parquet table, or a svmlight, libsvm or libFM file.

    Of a table, say which column to predict, and which columns of numbers name things:

      polyfm fit ratings.csv --target rating --field user --field movie --model ratings.polyfm

    Without DATA, the diabetes set that comes with scikit-learn is used.
    """
    parameters = given_parameters(options)
    if bayes and kind != "fm":
        raise click.UsageError("--bayes is for factorization machines: leave out --kind pn.")
    kind = "bayes" if bayes else kind
    check_outputs({"DATA": data}, model=model_path, checkpoint=parameters.get("checkpoint"))
    source = make_source(data, target, format_, text, sep, decimal, encoding, zero_based)
    of_tables = {"--field": fields, "--drop": drop, "--min-frequency": min_frequency, "--buckets": buckets}
    for option, value in of_tables.items():
        if value and source.kind == "svmlight":
            raise click.UsageError(f"{option} is for the columns of a table; this file has none.")
    if data is None:
        say("No DATA given: training on the embedded diabetes set (442 patients, 10 features).")
        parameters = {"random_state": 0, **parameters}
    _check_parameters(kind, task, cv, parameters)
    began = time.perf_counter()
    if source.kind == "svmlight" and parameters.get("solver") == "sgd" and not cv and not no_stream:
        check_stream(parameters, test_fraction)
        model, summary, interrupted = fit_stream(source, kind, task, parameters)
    else:
        held_out = HELD_OUT if test_fraction is None else test_fraction
        encoding_of = Encoding(tuple(fields), tuple(drop), {"min_frequency": min_frequency, "n_buckets": buckets})
        model, summary, interrupted = _fit_whole(source, kind, task, encoding_of, held_out, cv, parameters, as_json)
    summary["seconds"] = round(time.perf_counter() - began, 2)
    if model_path is not None:
        save_model(model, model_path, table=summary.pop("_table", None))
        summary["model file"] = str(model_path)
    elif not as_json:
        say("The model was not saved: name a file with --model.")
    summary.pop("_table", None)
    show("Training", summary, as_json)
    if interrupted:
        raise click.exceptions.Exit(INTERRUPTED)


class Encoding(NamedTuple):
    """What was said about the columns of a table."""

    fields: tuple[str, ...]
    drop: tuple[str, ...]
    options: dict[str, Any]


def _check_parameters(kind: str, task: str, cv: bool, parameters: dict) -> None:
    """Refuse, before any data are read, parameters that neither task takes."""
    problems = []
    for classify in {"auto": (False, True), "regression": (False,), "classification": (True,)}[task]:
        try:
            check_estimator(make_estimator(kind, classify, cv, parameters))
            return
        except (click.UsageError, ValueError, TypeError) as problem:
            problems.append(problem)
    raise problems[0]


def _fit_whole(source, kind, task, encoding, test_fraction, cv, parameters, as_json) -> tuple[Any, dict, bool]:
    if source.is_table:
        _check_names(source, encoding)
    X, y = source.read()
    classify = is_classification(task, y)
    if y.dtype.kind == "f":
        check_range("The target", y, LARGEST["float64"], "Scale it, for instance to unit variance.")
    estimator = make_estimator(kind, classify, cv, parameters)
    check_estimator(estimator)
    rows = np.arange(X.shape[0])
    seed = parameters.get("random_state") or 0
    train, test = _split(rows, y, test_fraction, seed, classify) if test_fraction else (rows, rows[:0])
    if classify and len(np.unique(y)) < 2:
        raise click.UsageError(f"Learning classes needs at least 2 classes; all rows have {str(y[0])!r}.")
    columns = None
    if hasattr(X, "columns"):
        X = X.drop(columns=[name for name in encoding.drop if name in X])
        columns = examine(X, encoding.fields, source.text)
        X = X.drop(columns=columns.dropped)
        if X.shape[1] == 0:
            raise click.UsageError(f"{source.path}: 0 features are left to learn from, beside the target.")
    model, X_train, X_test = estimator, X, None
    if columns is not None:
        encoder = TableEncoder(list(encoding.fields) or None, dates=columns.dates or None, **encoding.options)
        X_train = encoder.fit(X.iloc[train]).transform(X.iloc[train])
        X_test = X.iloc[test]
        model = make_pipeline(encoder, estimator)
        _count_features(columns, encoder)
        if not as_json and source.path is not None:
            _show_columns(columns, source.target, encoding.drop)
    elif len(test):
        X_train, X_test = X[train], X[test]
    interrupted = watched(lambda: estimator.fit(X_train, y[train]))
    summary: dict[str, Any] = {
        "data": "the embedded diabetes set" if source.path is None else str(source.path),
        "rows": len(rows),
        "rows held out": len(test),
        "features": int(estimator.n_features_in_),
        **described(estimator),
        **{f"held-out {name}": value for name, value in (scores(model, X_test, y[test]) if len(test) else {}).items()},
    }
    if cv:
        summary |= {"beta chosen": estimator.beta_, "cross-validated score": estimator.best_score_}
    if columns is not None and as_json:
        summary["columns"] = [vars(column) for column in columns.columns]
    if source.is_table:
        summary["_table"] = {"target": source.target, "text": _read_as_text(X)}
    return model, summary, interrupted


def _check_names(source: Source, encoding: Encoding) -> None:
    """Refuse names of columns that are not there, or have two tasks."""
    options = {"--field": encoding.fields, "--drop": encoding.drop, "--text": source.text}
    source.check_names(*options.items())
    for option, names in options.items():
        if source.target in names and option != "--text":
            raise click.UsageError(f"{option} {source.target!r}: this is the target.")
    for name in encoding.drop:
        for option in ("--field", "--text"):
            if name in options[option]:
                raise click.UsageError(f"--drop {name!r} and {option} {name!r} contradict each other.")


def _read_as_text(table) -> list[str]:
    """The columns that are text here, and are to be read so for predictions, whatever they look like there."""
    return [str(name) for name, dtype in table.dtypes.items() if dtype.kind not in "biufcmM"]


def _count_features(columns: Columns, encoder: TableEncoder) -> None:
    names = list(encoder.feature_names_in_)
    fields = encoder.feature_fields_
    parts = {
        f"{names[j]}.{part}" if part else names[j]: names[j]
        for j, part in zip(encoder.sources_, encoder.parts_, strict=True)
    }
    counts = Counter(parts.get(name, name) for name in fields)
    for column in columns.columns:
        column.features = counts[column.name] if column.kind != "left out" else 0


def _show_columns(columns: Columns, target: str | None, dropped: tuple[str, ...]) -> None:
    rows = [(c.name, c.kind, c.distinct, c.missing, c.features) for c in columns.columns[:MOST_SHOWN]]
    inform(f"Columns that {target!r} is learned from", ["column", "taken for", "distinct", "missing", "features"], rows)
    if len(columns.columns) > MOST_SHOWN:
        say(f"... and {len(columns.columns) - MOST_SHOWN} more.")


def _split(rows, y, test_fraction: float, seed: int, classify: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from, and rows held out."""
    from sklearn.model_selection import train_test_split
    from sklearn.utils.multiclass import check_classification_targets

    if classify:
        check_classification_targets(y)
    stratify = y if classify and len(np.unique(y)) > 1 else None  # one class is an error of its own
    try:
        train, test = train_test_split(rows, test_size=test_fraction, random_state=seed, stratify=stratify)
    except ValueError as problem:
        rare = _rarest(y) if classify else None
        why = problem if rare is None else f"class {str(rare)!r} has one row."
        raise click.UsageError(
            f"Rows cannot be held out for a score: {why} Use --test-fraction 0, or give more rows."
        ) from problem
    return train, test


def _rarest(y):
    labels, counts = np.unique(y, return_counts=True)
    return labels[counts.argmin()] if counts.min() == 1 else None
