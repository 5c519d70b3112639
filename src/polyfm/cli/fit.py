"""``polyfm fit``: train a model on a file."""

import time
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.progress import TextColumn, TimeElapsedColumn, TimeRemainingColumn
from sklearn.pipeline import make_pipeline

import polyfm
from polyfm.cli.common import data_options, make_source, plainly
from polyfm.cli.ending import INTERRUPTED, interrupts_held
from polyfm.cli.options import estimator_options, given_parameters
from polyfm.cli.paths import check_outputs, output_option
from polyfm.cli.scores import Progressive, scores
from polyfm.cli.sources import Source, check_table, is_classification
from polyfm.cli.terminal import note, one_line, overwrite, progress_bar, say, show
from polyfm.estimators.path_search import OF_ONE_FIT
from polyfm.estimators.validation import LARGEST, check_range
from polyfm.modelfile import save_model
from polyfm.training import hooks

HELD_OUT = 0.2
# What a stream, whose rows come once in each pass and are scored before they are learned from, has no use for.
NOT_OF_A_STREAM = (
    "checkpoint", "checkpoint_interval", "early_stopping", "n_iter_no_change", "tol", "validation_fraction",
)  # fmt: skip
WAS_INTERRUPTED = ("Training was interrupted", "The search was interrupted")


@click.command()
@click.argument("data", type=click.Path(path_type=Path), required=False)
@output_option("--model", "model_path", help="Where to save the model.")
@click.option(
    "--kind", type=click.Choice(["fm", "pn"]), default="fm", help="Factorization machine or polynomial network."
)
@click.option("--task", type=click.Choice(["auto", "regression", "classification"]), default="auto")
@click.option(
    "--field", "fields", multiple=True, help="A column of a table that names things, such as user. Repeatable."
)
@click.option(
    "--test-fraction",
    type=click.FloatRange(0, 1, max_open=True),
    help=f"Rows held out for a score. [default: {HELD_OUT}]",
)
@click.option("--cv", is_flag=True, help="Choose beta by cross-validation.")
@click.option(
    "--no-stream", is_flag=True, help="With --solver sgd: read a svmlight file into memory, not as a stream of rows."
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@data_options
@estimator_options
@plainly
def fit(
    data, model_path, kind, task, fields, test_fraction, cv, no_stream, as_json, target, format_, text, zero_based,
    **options,
):  # fmt: skip
    """Train a model on DATA: a svmlight, libsvm or libFM file, or a CSV, TSV or Parquet table.

    Without DATA, the diabetes set that comes with scikit-learn is used.
    """
    parameters = given_parameters(options)
    check_outputs({"DATA": data}, model=model_path, checkpoint=parameters.get("checkpoint"))
    source = make_source(data, target, format_, text, zero_based)
    if fields and source.kind == "svmlight":
        raise click.UsageError("--field names columns of a table; this file has none.")
    if data is None:
        say("No DATA given: training on the embedded diabetes set (442 patients, 10 features).")
        parameters = {"alpha": 50.0, "beta": 1000.0, "n_components": 5, "random_state": 0, **parameters}
    began = time.perf_counter()
    if source.kind == "svmlight" and parameters.get("solver") == "sgd" and not cv and not no_stream:
        _check_stream(parameters, test_fraction)
        summary = _fit_stream(source, kind, task, parameters)
    else:
        held_out = HELD_OUT if test_fraction is None else test_fraction
        summary = _fit_whole(source, kind, task, fields, held_out, cv, parameters)
    model, interrupted = summary.pop("_model"), summary.pop("_interrupted", False)
    summary["seconds"] = round(time.perf_counter() - began, 2)
    if model_path is not None:
        save_model(model, model_path)
        summary["model file"] = str(model_path)
    elif not as_json:
        say("The model was not saved: name a file with --model.")
    show("Training", summary, as_json)
    if interrupted:
        raise click.exceptions.Exit(INTERRUPTED)


def _check_stream(parameters: dict, test_fraction: float | None) -> None:
    refused = [name for name in NOT_OF_A_STREAM if parameters.get(name) not in (None, False)]
    refused += ["test_fraction"] if test_fraction is not None else []
    if refused:
        raise click.UsageError(
            f"--{refused[0].replace('_', '-')} does not go with --solver sgd on a svmlight file, which is learned from "
            "as it is read. --no-stream reads it into memory first."
        )
    if parameters.get("max_iter", 1) < 1:
        raise click.UsageError(f"--max-iter must be at least 1, got {parameters['max_iter']}.")


def _estimator(kind: str, classify: bool, cv: bool, parameters: dict):
    family = {"fm": "FactorizationMachine", "pn": "PolynomialNetwork"}[kind]
    name = family + ("Classifier" if classify else "Regressor") + ("CV" if cv else "")
    if cv:
        refused = sorted(set(OF_ONE_FIT) & set(parameters))
        if refused:
            raise click.UsageError(f"--cv does not go with --{refused[0].replace('_', '-')}.")
    return getattr(polyfm, name)(**parameters)


def _fit_whole(source, kind, task, fields, test_fraction, cv, parameters) -> dict[str, Any]:
    X, y = source.read()
    classify = is_classification(task, y)
    if y.dtype.kind == "f":
        check_range("The target", y, LARGEST["float64"], "Scale it, for instance to unit variance.")
    if source.path is None and cv:
        parameters = {name: value for name, value in parameters.items() if name != "beta"}
    estimator = _estimator(kind, classify, cv, parameters)
    model = estimator
    if hasattr(X, "columns"):
        from polyfm.tabular import TableEncoder

        check_table(X, {*fields, *source.text})
        model = make_pipeline(TableEncoder(fields=list(fields) or None), estimator)
    seed = parameters.get("random_state") or 0
    held_out = None
    X_train, y_train = X, y
    if test_fraction:
        X_train, X_test, y_train, y_test = _split(X, y, test_fraction, seed, classify)
        held_out = (X_test, y_test)
    interrupted = _fit_watched(model, X_train, y_train)
    fitted = model[-1] if hasattr(model, "steps") else model
    summary: dict[str, Any] = {
        "data": "the embedded diabetes set" if source.path is None else str(source.path),
        "rows": int(X.shape[0]),
        "rows held out": 0 if held_out is None else len(held_out[1]),
        "features": int(fitted.n_features_in_),
        **_described(fitted),
        **{f"held-out {name}": value for name, value in (scores(model, *held_out) if held_out else {}).items()},
    }
    if cv:
        summary |= {"beta chosen": fitted.beta_, "cross-validated score": fitted.best_score_}
    return {**summary, "_model": model, "_interrupted": interrupted}


def _split(X, y, test_fraction: float, seed: int, classify: bool):
    from sklearn.model_selection import train_test_split
    from sklearn.utils.multiclass import check_classification_targets

    if classify:
        check_classification_targets(y)
    stratify = y if classify and len(np.unique(y)) > 1 else None  # one class is an error of its own
    try:
        return train_test_split(X, y, test_size=test_fraction, random_state=seed, stratify=stratify)
    except ValueError as problem:
        rare = _rarest(y) if classify else None
        why = problem if rare is None else f"class {str(rare)!r} has one row."
        raise click.UsageError(
            f"Rows cannot be held out for a score: {why} Use --test-fraction 0, or give more rows."
        ) from problem


def _rarest(y):
    labels, counts = np.unique(y, return_counts=True)
    return labels[counts.argmin()] if counts.min() == 1 else None


def _fit_watched(model, X, y) -> bool:
    """Fit with a progress bar; whether it was interrupted."""
    columns = (
        TextColumn("{task.fields[unit]} {task.completed:.0f}/{task.total:.0f}", markup=False),
        TextColumn("{task.fields[note]}", markup=False), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with progress_bar(*columns, transient=True) as progress:
        task = progress.add_task("training", total=1, note="", unit="epoch")

        def watch(seen: hooks.Progress) -> None:
            unit = {"training": "epoch", "searching": "fit"}[seen.stage]
            progress.update(
                task, description=seen.stage, completed=seen.done, total=seen.total, note=one_line(seen.note), unit=unit
            )

        with warnings.catch_warnings(record=True) as caught, hooks.watching(watch):
            warnings.simplefilter("always", UserWarning)
            model.fit(X, y)
    said = [str(w.message) for w in caught if issubclass(w.category, (UserWarning, RuntimeWarning))]
    for message in dict.fromkeys(said):
        note(message)
    return any(message.startswith(WAS_INTERRUPTED) for message in said)


def _fit_stream(source: Source, kind: str, task: str, parameters: dict) -> dict[str, Any]:
    """Train on a file of any size, some rows at a time; each chunk is scored before it is learned from."""
    labels: Any = np.array([])
    if task != "regression":
        for _, y in source.chunks(with_target=True):
            labels = np.union1d(labels, y)
            if task == "auto" and len(labels) > 2:
                break
    classify = task == "classification" or (task == "auto" and len(labels) <= 2)
    if classify and len(labels) < 2:
        raise ValueError(f"Learning classes needs at least two; all rows of {source.path} have {str(labels[0])!r}.")
    passes = parameters.pop("max_iter", 1)
    model = _estimator(kind, classify, False, parameters)
    rows, progress = 0, Progressive(classify)
    interrupted = False
    try:
        for epoch in range(passes):
            for X, y in source.chunks(with_target=True):
                if epoch == 0:
                    if rows:
                        progress.add(y, model.predict(X))
                    rows += len(y)
                with interrupts_held():  # between two states, a model is of no use
                    model.partial_fit(X, y, **({"classes": labels} if classify else {}))
                overwrite(f"pass {epoch + 1} of {passes}: {model.n_samples_seen_:,} rows")
    except KeyboardInterrupt:
        interrupted = True
        if not hasattr(model, "components_"):
            raise
        say("Training was interrupted; the model learned so far was kept.")
    summary: dict[str, Any] = {
        "data": str(source.path),
        "rows": rows,
        "features": model.n_features_in_,
        **_described(model),
    }
    summary |= {f"progressive {name}": value for name, value in progress.scores().items()}
    return {**summary, "_model": model, "_interrupted": interrupted}


def _described(model) -> dict[str, Any]:
    described = {
        "model": type(model).__name__,
        "degree": int(np.max(model.degrees_)),
        "bases": len(model.degrees_),
        "beta": getattr(model, "beta", getattr(model, "beta_", None)),
        "solver": model.solver_,
        "epochs": int(model.n_iter_),
    }
    if hasattr(model, "objective_"):
        described["objective"] = model.objective_
    return described
