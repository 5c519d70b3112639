"""``polyfm fit``: train a model on a file."""

import time
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from sklearn.pipeline import make_pipeline

import polyfm
from polyfm.cli.common import console, data_options, make_source, plainly, show
from polyfm.cli.options import estimator_options, given_parameters
from polyfm.cli.scores import Progressive, scores
from polyfm.cli.sources import Source, is_classification
from polyfm.estimators.path_search import OF_ONE_FIT
from polyfm.modelfile import save_model
from polyfm.training import hooks


@click.command()
@click.argument("data", type=click.Path(path_type=Path), required=False)
@click.option("--model", "model_path", type=click.Path(path_type=Path), help="Where to save the model.")
@click.option(
    "--kind", type=click.Choice(["fm", "pn"]), default="fm", help="Factorization machine or polynomial network."
)
@click.option("--task", type=click.Choice(["auto", "regression", "classification"]), default="auto")
@click.option(
    "--field", "fields", multiple=True, help="A column of a table that names things, such as user. Repeatable."
)
@click.option(
    "--test-fraction", type=click.FloatRange(0, 1, max_open=True), default=0.2, help="Rows held out for a score."
)
@click.option("--cv", is_flag=True, help="Choose beta by cross-validation.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@data_options
@estimator_options
@plainly
def fit(data, model_path, kind, task, fields, test_fraction, cv, as_json, target, format_, text, zero_based, **options):
    """Train a model on DATA: a svmlight, libsvm or libFM file, or a CSV, TSV or Parquet table.

    Without DATA, the diabetes set that comes with scikit-learn is used.
    """
    source = make_source(data, target, format_, text, zero_based)
    parameters = given_parameters(options)
    if data is None:
        console.print("No DATA given: training on the embedded diabetes set (442 patients, 10 features).")
        parameters = {"alpha": 50.0, "beta": 1000.0, "n_components": 5, "random_state": 0, **parameters}
    began = time.perf_counter()
    if source.kind == "svmlight" and parameters.get("solver") == "sgd" and not cv:
        summary = _fit_stream(source, kind, task, parameters)
    else:
        summary = _fit_whole(source, kind, task, fields, test_fraction, cv, parameters)
    model, interrupted = summary.pop("_model"), summary.pop("_interrupted", False)
    summary["seconds"] = round(time.perf_counter() - began, 2)
    if model_path is not None:
        save_model(model, model_path)
        summary["model file"] = str(model_path)
    elif not as_json:
        console.print("The model was not saved: name a file with --model.")
    show("Training", summary, as_json)
    if interrupted:
        raise click.exceptions.Exit(130)


def _estimator(kind: str, classify: bool, cv: bool, parameters: dict):
    family = {"fm": "FactorizationMachine", "pn": "PolynomialNetwork"}[kind]
    name = family + ("Classifier" if classify else "Regressor") + ("CV" if cv else "")
    if cv:
        refused = sorted(set(OF_ONE_FIT) & set(parameters))
        if refused:
            raise click.UsageError(f"--cv does not go with --{refused[0].replace('_', '-')}.")
    return getattr(polyfm, name)(**parameters)


def _fit_whole(source, kind, task, fields, test_fraction, cv, parameters) -> dict[str, Any]:
    from sklearn.model_selection import train_test_split

    X, y = source.read()
    classify = is_classification(task, y)
    if source.path is None and cv:
        parameters = {name: value for name, value in parameters.items() if name != "beta"}
    estimator = _estimator(kind, classify, cv, parameters)
    model = estimator
    if hasattr(X, "columns"):
        from polyfm.tabular import TableEncoder

        model = make_pipeline(TableEncoder(fields=list(fields) or None), estimator)
    elif fields:
        raise click.UsageError("--field names columns of a table; this file has none.")
    seed = parameters.get("random_state") or 0
    held_out = None
    X_train, y_train = X, y
    if test_fraction:
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, test_size=test_fraction, random_state=seed, stratify=y if classify else None
        )
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


def _fit_watched(model, X, y) -> bool:
    """Fit with a progress bar; whether it was interrupted."""
    columns = (
        TextColumn("{task.description}"), BarColumn(),
        TextColumn("{task.fields[unit]} {task.completed:.0f}/{task.total:.0f}"), TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("training", total=1, note="", unit="epoch")

        def watch(seen: hooks.Progress) -> None:
            unit = {"training": "epoch", "searching": "fit"}[seen.stage]
            progress.update(
                task, description=seen.stage, completed=seen.done, total=seen.total, note=seen.note, unit=unit
            )

        with warnings.catch_warnings(record=True) as caught, hooks.watching(watch):
            warnings.simplefilter("always")
            model.fit(X, y)
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            console.print(f"Note: {warning.message}", style="yellow", soft_wrap=True)
    return any("interrupted" in str(warning.message) for warning in caught)


def _fit_stream(source: Source, kind: str, task: str, parameters: dict) -> dict[str, Any]:
    """Train on a file of any size, some rows at a time; each chunk is scored before it is learned from."""
    labels: Any = np.array([])
    for _, y in source.chunks(with_target=True):
        labels = np.unique(np.r_[labels, np.unique(y)])
        if len(labels) > 1000:
            break
    classify = task == "classification" or (task == "auto" and len(labels) <= 2)
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
                model.partial_fit(X, y, **({"classes": labels} if classify else {}))
                console.print(f"pass {epoch + 1} of {passes}: {model.n_samples_seen_:,} rows", end="\r")
    except KeyboardInterrupt:
        interrupted = True
        if not hasattr(model, "components_"):
            raise
        console.print("Interrupted; the model learned so far was kept.")
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
