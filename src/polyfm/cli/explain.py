"""``polyfm explain`` and ``polyfm info``: look into a saved model."""

from pathlib import Path

import click

from polyfm.cli.common import console, data_options, make_source, plainly, print_table, show, width
from polyfm.cli.sources import Source
from polyfm.modelfile import load_model, model_info


@click.command()
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
        X = _nth_row(make_source(data, target, format_, text, zero_based), row, width(fitted))
        if hasattr(fitted, "steps"):
            X = fitted[:-1].transform(X)
        table = explain_row(estimator, X, feature_names=names)
        title = f"What makes up the prediction for row {row}"
    if as_json:
        click.echo(table.to_json(orient="records"))
    else:
        print_table(title, table.head(top + 2) if row is not None else table)
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


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@plainly
def info(model, as_json):
    """Show what is inside a MODEL file, without loading it."""
    show(str(model), model_info(model), as_json)
