"""``polyfm explain`` and ``polyfm info``: look into a saved model."""

import io
from pathlib import Path

import click

from polyfm.cli.common import data_options, make_source, plainly
from polyfm.cli.paths import check_outputs, output_option, picture_format
from polyfm.cli.saved import Saved
from polyfm.cli.sources import Source
from polyfm.cli.terminal import need_output, print_json, print_table, say, show
from polyfm.datafiles import DataFileError
from polyfm.modelfile import model_info


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--degree", type=click.IntRange(1), help="Of the interactions; by default the model's.")
@click.option("--top", type=click.IntRange(1), default=15, show_default=True)
@click.option("--class", "label", help="The class to speak for, where there are more than two.")
@click.option("--data", type=click.Path(path_type=Path), help="With --row: the file that holds the row.")
@click.option("--row", type=click.IntRange(0), help="Explain the prediction for this row of --data, counted from 0.")
@output_option("--plot", help="Draw the strongest interactions into this file.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@data_options
@plainly
def explain(model, degree, top, label, data, row, plot, as_json, target, format_, text, zero_based):
    """Show the strongest interactions of a saved MODEL, or what makes up one prediction."""
    from polyfm.interpretation import explain as explain_row
    from polyfm.interpretation import interactions

    form = None if plot is None else picture_format(plot)
    check_outputs({"MODEL": model, "--data": data}, plot=plot)
    need_output()
    if (row is None) != (data is None):
        raise click.UsageError("--row and --data go together: a row, and the file that holds it.")
    if row is not None and degree is not None and plot is None:
        raise click.UsageError("--degree does not go with --row: a prediction has terms of all degrees.")
    source = make_source(data, target, format_, text, zero_based)
    saved = Saved(model)
    names, chosen = saved.feature_names, _class(saved, label)
    if row is None:
        title = "Strongest interactions"
        table = interactions(saved.estimator, degree=degree, top=top, feature_names=names, target=chosen)
    else:
        title = f"What makes up the prediction for row {row}"
        X = _nth_row(saved, source, row)
        X = X if saved.encoder is None else saved.encoder.transform(X)
        table = explain_row(saved.estimator, X, feature_names=names, target=chosen)
    picture = None
    if plot is not None:
        from polyfm.display import InteractionDisplay

        display = InteractionDisplay.from_estimator(
            saved.estimator, degree=degree, top=top, feature_names=names, target=chosen
        )
        picture = io.BytesIO()
        display.figure_.savefig(picture, format=form, dpi=150, bbox_inches="tight")
    if as_json:
        print_json(table.to_dict(orient="records"))
    else:
        print_table(title, table.head(top + 2) if row is not None else table)
    if picture is not None:
        from polyfm.files.atomic import writing

        with writing(plot, DataFileError) as file:
            file.write(picture.getvalue())
        say(f"Picture in {plot}")


def _class(saved: Saved, label: str | None):
    """The class that a word on the command line means."""
    if saved.classes is None:
        if label is not None:
            raise click.UsageError("--class needs a classifier; the model predicts numbers.")
        return None
    labels = {str(known): known for known in saved.classes.tolist()}
    several = len(labels) > 2
    if (label is None and several) or (label is not None and label not in labels):
        raise click.UsageError(f"Name a class with --class: one of {', '.join(map(repr, labels))}.")
    if label is not None and not several and labels[label] != saved.classes[1]:
        raise click.UsageError(f"Of two classes, the model speaks for {str(saved.classes[1])!r}: leave out --class.")
    return labels[label] if label is not None else None


def _nth_row(saved: Saved, source: Source, row: int):
    seen = 0
    for X, _ in saved.chunks(source, with_target=False):
        if row < seen + X.shape[0]:
            at = row - seen
            return X.iloc[at : at + 1] if hasattr(X, "iloc") else X[at : at + 1]
        seen += X.shape[0]
    raise click.UsageError(f"There is no row {row}; the file has {seen}, counted from 0.")


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@plainly
def info(model, as_json):
    """Show what is inside a MODEL file, without loading it."""
    check_outputs({"MODEL": model})
    need_output()
    show(str(model), model_info(model), as_json)
