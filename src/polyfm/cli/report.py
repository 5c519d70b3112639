"""``polyfm report``: one HTML file about a saved model."""

from pathlib import Path

import click
import numpy as np

from polyfm.cli.common import data_options, make_source, plainly
from polyfm.cli.paths import REPORTS, check_outputs, output_option
from polyfm.cli.saved import Saved, stacked, table_of
from polyfm.cli.terminal import say
from polyfm.files.tables import required


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path), required=False)
@output_option("--out", help="The file to write, such as report.html.")
@click.option("--title", help="By default the name of the model file.")
@click.option("--top", type=click.IntRange(1), default=15, show_default=True, help="How many interactions to list.")
@data_options
@plainly
def report(model, data, out, title, top, **reading):
    """Write a report on a saved MODEL as one HTML file, to be opened anywhere, sent or printed.

    With DATA, best rows that the model was not trained on, it says how well they are predicted, and explains the worst
    predictions. The column that the model predicts is remembered; --target names another.
    """
    from polyfm.reporting import report as make_report

    required("pandas", "table", "report")
    if out is None:
        raise click.UsageError("Say where to write it: --out report.html")
    if out.suffix.lower() not in REPORTS:
        raise click.UsageError(f"--out {out}: a report is HTML. Choose a name that ends in .html.")
    check_outputs({"MODEL": model, "DATA": data}, out=out)
    source = make_source(data, **reading)
    saved = Saved(model)
    X = y = None
    if data is not None:
        chunks = [(X, y) for X, y, _ in saved.chunks(source, with_target=True)]
        X = stacked([X for X, _ in chunks])
        y = _named(np.concatenate([y for _, y in chunks]), source.target or table_of(model).get("target"))
    make_report(saved.model, X, y, out, title=title or model.stem, top=top)
    say(f"Report in {out}")


def _named(y: np.ndarray, name: str | None):
    import pandas

    return pandas.Series(y, name=name)
