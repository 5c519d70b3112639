"""``polyfm``: from a file to a model and back, from a shell."""

import functools
import json
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from sklearn.pipeline import make_pipeline

import polyfm
from polyfm.cli.options import estimator_options, given_parameters
from polyfm.cli.sources import FORMATS, Source, is_classification
from polyfm.datafiles import DataFileError
from polyfm.modelfile import ModelFileError, load_model, model_info, save_model

console = Console(stderr=True, highlight=False)


def plainly(command):
    """Errors for people: one line and an exit code (2: bad input, 1: a fault of ours), no traceback."""

    @functools.wraps(command)
    def wrapped(*args, debug: bool = False, **kwargs):
        try:
            return command(*args, **kwargs)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except (ModelFileError, DataFileError, ValueError, TypeError, ImportError, OSError) as error:
            if debug:
                traceback.print_exc()
            raise _failure(str(error), 2) from None
        except Exception as error:
            if debug:
                traceback.print_exc()
            raise _failure(f"unexpected {type(error).__name__}: {error} (--debug shows where)", 1) from None

    return click.option("--debug", is_flag=True, help="Show the traceback of an error.")(wrapped)


def _failure(message: str, code: int) -> click.ClickException:
    kind = type("Failure", (click.ClickException,), {"exit_code": code})
    return kind(" ".join(message.split()))


def data_options(command):
    for option in (
        click.option("--target", help="The column to predict, in a table."),
        click.option(
            "--format", "format_", type=click.Choice(FORMATS), default="auto", help="By default, by its name."
        ),
        click.option(
            "--text", multiple=True, help="A column of a table to keep as text, such as 007. May be repeated."
        ),
        click.option("--zero-based/--one-based", default=None, help="How a svmlight file counts its features."),
    ):
        command = option(command)
    return command


def _source(data: Path | None, target, format_, text, zero_based) -> Source:
    return Source(data, format_, target, tuple(text), "auto" if zero_based is None else zero_based)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(polyfm.__version__, prog_name="polyfm")
def cli() -> None:
    """Factorization machines and polynomial networks: from a file to a model and back."""


# -- fit --------------------------------------------------------------------------------------------------------------


@cli.command()
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
    source = _source(data, target, format_, text, zero_based)
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
    _show("Training", summary, as_json)
    if interrupted:
        raise click.exceptions.Exit(130)


def _estimator(kind: str, classify: bool, cv: bool, parameters: dict):
    family = {"fm": "FactorizationMachine", "pn": "PolynomialNetwork"}[kind]
    name = family + ("Classifier" if classify else "Regressor") + ("CV" if cv else "")
    if cv:
        single = {
            "beta",
            "early_stopping",
            "validation_fraction",
            "n_iter_no_change",
            "checkpoint",
            "checkpoint_interval",
        }
        refused = sorted(single & set(parameters))
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
    interrupted = _fit_watched(model, estimator, X_train, y_train, cv)
    fitted = model[-1] if hasattr(model, "steps") else model
    summary: dict[str, Any] = {
        "data": "the embedded diabetes set" if source.path is None else str(source.path),
        "rows": int(X.shape[0]),
        "rows held out": 0 if held_out is None else len(held_out[1]),
        "features": int(fitted.n_features_in_),
        **_described(fitted),
        **{f"held-out {name}": value for name, value in (_scores(model, *held_out) if held_out else {}).items()},
    }
    if cv:
        summary |= {"beta chosen": fitted.beta_, "cross-validated score": fitted.best_score_}
    return {**summary, "_model": model, "_interrupted": interrupted}


def _fit_watched(model, estimator, X, y, cv: bool) -> bool:
    """Fit with a progress bar; whether it was interrupted."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("epoch {task.completed}/{task.total}"),
        TextColumn("{task.fields[note]}"), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("searching" if cv else "training", total=estimator.max_iter, note="")

        def watch(monitor, state) -> bool:
            progress.update(
                task, completed=len(monitor.history), note=f"objective {monitor.history[-1]:.6g}{monitor.note}"
            )
            return False

        estimator._watchers = (watch,)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model.fit(X, y)
            finally:
                del estimator._watchers
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
    rows, progress = 0, _Progressive(classify)
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


class _Progressive:
    """Scores of predictions that come in chunks, from sums alone: memory does not grow with the rows."""

    def __init__(self, classify: bool):
        self.classify = classify
        self.n, self.correct, self.mean, self.spread, self.squares, self.sizes = 0, 0, 0.0, 0.0, 0.0, 0.0

    def add(self, y: np.ndarray, predictions: np.ndarray) -> None:
        n = self.n + len(y)
        if self.classify:
            self.correct += int(np.sum(y == predictions))
        else:
            # The sum of squares around the mean of all rows so far, by the parallel form of Welford's update.
            mean, shift = float(np.mean(y)), float(np.mean(y)) - self.mean
            self.spread += float(np.sum((y - mean) ** 2)) + shift**2 * self.n * len(y) / n
            self.mean += shift * len(y) / n
            self.squares += float(np.sum((y - predictions) ** 2))
            self.sizes += float(np.sum(np.abs(y - predictions)))
        self.n = n

    def scores(self) -> dict[str, float]:
        if self.n == 0:
            return {}
        if self.classify:
            return {"accuracy": self.correct / self.n}
        r2 = {"R2": 1 - self.squares / self.spread} if self.spread > 0 else {}
        return {**r2, "RMSE": float(np.sqrt(self.squares / self.n)), "MAE": self.sizes / self.n}


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


# -- predict and evaluate ---------------------------------------------------------------------------------------------


@cli.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="A CSV file; by default they are printed.")
@click.option("--proba", is_flag=True, help="Class probabilities in place of labels.")
@data_options
@plainly
def predict(model, data, out, proba, target, format_, text, zero_based):
    """Predict with a saved MODEL for every row of DATA, in bounded memory."""
    from polyfm.io.files import writing

    fitted = load_model(model)
    source = _source(data, target, format_, text, zero_based)
    if proba and not hasattr(fitted, "predict_proba"):
        raise click.UsageError("--proba needs a classifier with the logistic loss.")

    def write(file) -> int:
        rows = 0
        header = [f"p({label})" for label in fitted.classes_] if proba else ["prediction"]
        file.write((",".join(header) + "\n").encode())
        for X, _ in source.chunks(_width(fitted), with_target=False):
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


def _width(model) -> int | None:
    return None if hasattr(model, "steps") else int(model.n_features_in_)


@cli.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
@data_options
@plainly
def evaluate(model, data, as_json, target, format_, text, zero_based):
    """Score a saved MODEL on DATA."""
    fitted = load_model(model)
    source = _source(data, target, format_, text, zero_based)
    targets, values = [], []
    for X, y in source.chunks(_width(fitted), with_target=True):
        targets.append(y)
        values.append(fitted.predict_proba(X) if hasattr(fitted, "predict_proba") else fitted.predict(X))
    y, values_ = np.concatenate(targets), np.concatenate(values)
    classes = getattr(fitted, "classes_", None)
    _show("Scores", {"rows": len(y), **_metrics(classes is not None, y, values_, classes)}, as_json)


def _scores(model, X, y) -> dict[str, float]:
    if hasattr(model, "predict_proba"):
        return _metrics(True, y, model.predict_proba(X), model.classes_)
    return _metrics(hasattr(model, "classes_"), y, model.predict(X))


def _metrics(classify: bool, y, values, classes=None) -> dict[str, float]:
    from sklearn import metrics

    if not classify:
        return {
            "R2": float(metrics.r2_score(y, values)),
            "RMSE": float(metrics.root_mean_squared_error(y, values)),
            "MAE": float(metrics.mean_absolute_error(y, values)),
        }
    if values.ndim == 1:
        return {"accuracy": float(metrics.accuracy_score(y, values))}
    scores = {
        "accuracy": float(metrics.accuracy_score(y, classes[values.argmax(axis=1)])),
        "log loss": float(metrics.log_loss(y, values, labels=classes)),
    }
    if len(classes) == 2 and len(np.unique(y)) == 2:
        scores["ROC AUC"] = float(metrics.roc_auc_score(y == classes[1], values[:, 1]))
    return scores


# -- explain and info -------------------------------------------------------------------------------------------------


@cli.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--degree", type=click.IntRange(1), help="Of the interactions; by default the model's.")
@click.option("--top", type=click.IntRange(1), default=15, show_default=True)
@click.option("--data", type=click.Path(path_type=Path), help="With --row: the file that holds the row.")
@click.option("--row", type=click.IntRange(0), help="Explain the prediction for this row of --data, counted from 0.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the strongest interactions into this file.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@data_options
@plainly
def explain(model, degree, top, data, row, plot, as_json, target, format_, text, zero_based):
    """Show the strongest interactions of a saved MODEL, or what makes up one prediction."""
    from polyfm.interpretation import explain as explain_row
    from polyfm.interpretation import interactions

    fitted = load_model(model)
    estimator = fitted[-1] if hasattr(fitted, "steps") else fitted
    names = [str(name) for name in fitted[:-1].get_feature_names_out()] if hasattr(fitted, "steps") else None
    if row is None:
        table = interactions(estimator, degree=degree, top=top, feature_names=names)
        title = "Strongest interactions"
    else:
        if data is None:
            raise click.UsageError("--row needs --data, the file that holds the row.")
        X = _nth_row(_source(data, target, format_, text, zero_based), row, _width(fitted))
        if hasattr(fitted, "steps"):
            X = fitted[:-1].transform(X)
        table = explain_row(estimator, X, feature_names=names)
        title = f"What makes up the prediction for row {row}"
    if as_json:
        click.echo(table.to_json(orient="records"))
    else:
        _print_table(title, table.head(top + 2) if row is not None else table)
    if plot is not None:
        from polyfm.display import InteractionDisplay

        display = InteractionDisplay.from_estimator(estimator, degree=degree, top=top, feature_names=names)
        display.figure_.savefig(plot, dpi=150, bbox_inches="tight")
        console.print(f"Picture in {plot}")


def _nth_row(source: Source, row: int, n_features: int | None):
    seen = 0
    for X, _ in source.chunks(n_features, with_target=False):
        if row < seen + X.shape[0]:
            at = row - seen
            return X.iloc[at : at + 1] if hasattr(X, "iloc") else X[at]
        seen += X.shape[0]
    raise click.UsageError(f"There is no row {row}; the file has {seen}, counted from 0.")


@cli.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@plainly
def info(model, as_json):
    """Show what is inside a MODEL file, without loading it."""
    _show(str(model), model_info(model), as_json)


# -- reproduce --------------------------------------------------------------------------------------------------------


@cli.command()
@click.argument("experiment", type=click.Choice(["figure1", "figure2", "figure3", "figure4", "beyond", "all"]))
@click.option("--data-home", type=click.Path(path_type=Path), help="The directory of the publishers' data files.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("reproduced"), show_default=True)
@click.option(
    "--quick", is_flag=True, help="A few rows and settings, in seconds; made-up data where files are missing."
)
@click.option(
    "--jobs", type=click.IntRange(1), default=2, show_default=True, help="Cells at a time, where none is timed."
)
@plainly
def reproduce(experiment, data_home, out, quick, jobs):
    """Run the experiments of the paper's section 9, or those beyond it: a table, a picture and the settings of each.

    What is finished is kept in OUT. The same command goes on from there.
    """
    from polyfm.cli.reproduce import reproduce as run

    run(experiment, data_home, out, quick, jobs, console)


# -- output -----------------------------------------------------------------------------------------------------------


def _show(title: str, summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({name.replace(" ", "_"): value for name, value in summary.items()}, default=str))
        return
    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in summary.items():
        table.add_row(name, f"{value:.6g}" if isinstance(value, float) else str(value))
    Console(highlight=False).print(table)


def _print_table(title: str, frame) -> None:
    table = Table(title=title, title_justify="left")
    for name in frame.columns:
        table.add_column(str(name), justify="right" if frame[name].dtype.kind == "f" else "left")
    for row in frame.itertuples(index=False):
        table.add_row(*(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row))
    Console(highlight=False).print(table)


def main() -> None:
    cli(prog_name="polyfm")


if __name__ == "__main__":
    main()
