"""``polyfm explain`` and ``polyfm info``: look into a saved model."""

import io
import math
from decimal import Context, Decimal
from functools import reduce
from pathlib import Path

import click

from polyfm.cli.common import data_options, make_source, plainly
from polyfm.cli.paths import check_outputs, output_option, picture_format
from polyfm.cli.saved import Saved, stacked
from polyfm.cli.sources import Source
from polyfm.cli.terminal import need_output, print_json, print_table, say, show
from polyfm.datafiles import DataFileError
from polyfm.files.tables import required
from polyfm.modelfile import model_info

DIGITS = 5  # of the largest number of a sum
MOST_DECIMALS = 20
EXACT = Context(prec=400)  # decimal places enough for any float that is not smaller than these


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--degree", type=click.IntRange(1), help="Of the interactions; by default the model's.")
@click.option("--top", type=click.IntRange(1), default=15, show_default=True)
@click.option("--class", "label", help="The class to speak for, where there are more than two.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="With --row: the file that holds the row. Without: list only what some row of this file has.",
)
@click.option("--row", type=click.IntRange(0), help="Explain the prediction for this row of --data, counted from 0.")
@click.option(
    "--all", "impossible", is_flag=True, help="List what cannot occur, too, such as two values of one column."
)
@output_option("--plot", help="Draw the strongest interactions into this file.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@data_options
@plainly
def explain(model, degree, top, label, data, row, impossible, plot, as_json, **reading):
    """Show the strongest interactions of a saved MODEL, or what makes up one prediction."""
    from polyfm.interpretation import explain as explain_row
    from polyfm.interpretation import interactions

    form = None if plot is None else picture_format(plot)
    if plot is not None:
        required("matplotlib", "plot", "--plot")
    check_outputs({"MODEL": model, "--data": data}, plot=plot)
    need_output()
    if row is not None and data is None:
        raise click.UsageError("--row and --data go together: a row, and the file that holds it.")
    if row is not None and (degree is not None or impossible) and plot is None:
        option = "--all" if degree is None else "--degree"
        raise click.UsageError(f"{option} does not go with --row: a prediction has terms of all degrees.")
    source = make_source(data, **reading)
    saved = Saved(model)
    chosen = _class(saved, label)
    options = {"degree": degree, "top": top, "target": chosen, "impossible": impossible}
    if row is None:
        options["X"] = None if data is None else stacked([X for X, *_ in saved.chunks(source, with_target=False)])
        title = "Strongest interactions"
        table = interactions(saved.model, **options)
    else:
        x = _nth_row(saved, source, row)
        title = f"What makes up the prediction for row {row}" + _outcome(saved, x, chosen)
        table = explain_row(saved.model, x, target=chosen, max_degree_terms=top)
    picture = None
    if plot is not None:
        from polyfm.display import InteractionDisplay

        display = InteractionDisplay.from_estimator(saved.model, **options)
        picture = io.BytesIO()
        display.figure_.savefig(picture, format=form, dpi=150, bbox_inches="tight")
    if as_json:
        print_json(table.to_dict(orient="records"))
    else:
        total = "prediction" if saved.classes is None else "decision function"
        print_table(title, table if row is None else sum_of_terms(table, top, total))
    if picture is not None:
        from polyfm.files.atomic import writing

        with writing(plot, DataFileError) as file:
            file.write(picture.getvalue())
        say(f"Picture in {plot}")


def sum_of_terms(table, top: int, total: str):
    """The intercept, the `top` strongest terms, all others and the total, as texts: the column of contributions adds
    up as it is printed."""
    import pandas

    own = table[table["weight"].notna() & (table["degree"] > 0)]
    listed = own.sort_values("contribution", key=abs, ascending=False, kind="stable")[:top]
    shown = pandas.concat([table[:1], listed])
    whole = float(table["contribution"].sum())
    decimals = _decimals(max(abs(whole), table["contribution"].abs().max()))
    contributions = [_rounded(c, decimals) for c in shown["contribution"]]
    remainder = reduce(EXACT.subtract, contributions, _rounded(whole, decimals))
    last = [(total, _rounded(whole, decimals))]
    if len(shown) < len(table):
        last.insert(0, ("all other terms", remainder))
    elif remainder:
        last.insert(0, ("rounding", remainder))
    texts = {name: list(shown[name]) + [""] * len(last) for name in ("term", "input") if name in shown}
    texts["term"][len(shown) :] = [name for name, _ in last]
    for name in ("value", "weight"):
        texts[name] = _aligned([f"{number:.4g}" for number in shown[name]] + [""] * len(last))
    contributions += [contribution for _, contribution in last]
    texts["contribution"] = _aligned([f"{contribution:.{decimals}f}" for contribution in contributions])
    return pandas.DataFrame(texts)


def _decimals(largest: float) -> int:
    """As many as give the largest number its `DIGITS`."""
    return min(max(0, DIGITS - 1 - math.floor(math.log10(largest or 1.0))), MOST_DECIMALS)


def _rounded(number: float, decimals: int) -> Decimal:
    rounded = EXACT.quantize(Decimal(number), Decimal(1).scaleb(-decimals))
    return EXACT.add(rounded, Decimal(0))  # which makes 0 of -0


def _aligned(texts: list[str]) -> list[str]:
    width = max(map(len, texts))
    return [text.rjust(width) for text in texts]


def _outcome(saved: Saved, x, chosen) -> str:
    """What a classifier makes of the row."""
    if saved.classes is None:
        return ""
    label = saved.classes[1] if chosen is None else chosen
    outcome = f": class {label}"
    if saved.has_probabilities:
        outcome += f", probability {saved.model.predict_proba(x)[0, list(saved.classes).index(label)]:.4g}"
    return outcome


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
    for X, *_ in saved.chunks(source, with_target=False):
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
