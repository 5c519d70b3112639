"""``polyfm recommend``: from a table of who did what to the best items for everyone."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from polyfm.cli.common import make_source, plainly, table_options
from polyfm.cli.ending import INTERRUPTED
from polyfm.cli.models import check_estimator
from polyfm.cli.paths import check_csv_name, check_outputs, output_option
from polyfm.cli.sources import Source
from polyfm.cli.terminal import need_output, plain, print_json, print_table, say, show, write_output
from polyfm.cli.watched import watched
from polyfm.datafiles import DataFileError
from polyfm.modelfile import load_model, save_model
from polyfm.recommend import Recommender, random_split

AT_ONCE = 10_000  # users
A_FILE = click.Path(path_type=Path)


@click.group()
def recommend() -> None:
    """Recommend items to users, from ratings or from what they did."""


@recommend.command()
@click.argument("data", type=A_FILE)
@click.option("--user", default="user", show_default=True, help="The column of users.")
@click.option("--item", default="item", show_default=True, help="The column of items.")
@click.option("--implicit", is_flag=True, help="Rows are what users did, such as clicks or plays, and no ratings.")
@click.option("--target", help="The column of ratings; without --implicit.")
@click.option("--weight", help="A column that says how much each row counts, such as a number of plays.")
@click.option("--context", multiple=True, help="A further column to learn from, such as the hour. May be repeated.")
@click.option("--users", type=A_FILE, help="A table of users' features, with the column --user.")
@click.option("--items", type=A_FILE, help="A table of items' features, with the column --item.")
@click.option(
    "--field", "fields", multiple=True, help="A column of numbers, of any table, that name things. May be repeated."
)
@output_option("--model", "model_path", help="Where to save the model.")
@click.option(
    "--test-fraction",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    help="Of each user's rows, held out for a score. [default: 0]",
)
@click.option("--n-components", type=int, help="Numbers in the vector of a user or an item. [default: 32]")
@click.option(
    "--loss",
    type=click.Choice(["all-pairs", "bpr", "warp"]),
    help="With --implicit: least squares over all pairs, or rankings by sampled pairs. [default: all-pairs]",
)
@click.option("--degree", type=int, help="With --implicit, how many features may act together. [default: 2]")
@click.option(
    "--omega", type=float, help="With --implicit, the weight of a pair that was not observed. Tune this first."
)
@click.option("--reg", type=float, help="With --implicit, the penalty.")
@click.option("--nu", type=float, help="With --implicit, how the penalty grows with how often an id occurs.")
@click.option("--max-iter", type=int, help="With --implicit, passes over all users and items.")
@click.option("--n-jobs", type=int, help="Threads; -1 is all processors. Results do not depend on it.")
@click.option("--random-state", type=int, help="Seed: the same number gives the same model.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@table_options
@plainly
def fit(
    data, user, item, implicit, target, weight, context, users, items, fields, model_path, test_fraction, as_json,
    text, format_, sep, decimal, encoding, **options,
):  # fmt: skip
    """Learn from DATA, a CSV, TSV or Parquet table with a row for each rating or interaction.

    polyfm recommend fit plays.csv --user user --item artist --implicit --model plays.polyfm
    """
    check_outputs({"DATA": data, "--users": users, "--items": items}, model=model_path)
    parameters = {name: value for name, value in options.items() if value is not None}
    of_implicit = {"loss", "degree", "omega", "reg", "nu", "max_iter"} & set(parameters)
    if not implicit and of_implicit:
        raise click.UsageError(f"--{min(of_implicit).replace('_', '-')} is for --implicit feedback.")
    if implicit and target is not None:
        raise click.UsageError("--implicit feedback has no --target: say --weight, or leave out --implicit.")
    if not implicit and target is None:
        raise click.UsageError("Name the column of ratings with --target; or say --implicit, where there are none.")
    rec = Recommender(
        user, item, feedback="implicit" if implicit else "explicit", fields=list(fields) or None, **parameters
    )
    check_estimator(rec)
    source = make_source(data, None, format_, text, sep, decimal, encoding, None)
    _check_names(source, {"--user": user, "--item": item, "--target": target, "--weight": weight}, context)
    began = time.perf_counter()
    train = table = source.table((user, item))
    beside = {
        name: Source(path, sep=sep, decimal=decimal, encoding=encoding).table((column,))
        for name, path, column in (("users", users, user), ("items", items, item))
        if path is not None
    }
    test = None
    if test_fraction:
        train, test = random_split(table, user, test_fraction=test_fraction, random_state=options["random_state"] or 0)
    interrupted = watched(lambda: rec.fit(train, target, weight=weight, context=list(context), **beside))
    summary: dict[str, Any] = {
        "data": str(data), "rows": len(table), "rows held out": 0 if test is None else len(test),
        "users": len(rec.users_), "items": len(rec.items_), "feedback": rec.feedback,
    }  # fmt: skip
    if test is not None and len(test):
        found = rec.evaluate(test)
        for name in ("precision", "recall", "ndcg", "map"):
            summary |= {
                f"{name} at 10": found.loc["model", name],
                f"{name} of popularity": found.loc["popularity", name],
            }
    summary["seconds"] = round(time.perf_counter() - began, 2)
    if model_path is not None:
        save_model(rec, model_path)
        summary["model file"] = str(model_path)
    elif not as_json:
        say("The model was not saved: name a file with --model.")
    show("Training", summary, as_json)
    if interrupted:
        raise click.exceptions.Exit(INTERRUPTED)


def _check_names(source: Source, named: dict[str, str | None], context: tuple[str, ...]) -> None:
    if not source.is_table:
        source.table()  # which says so
    options = [(option, (name,)) for option, name in named.items() if name is not None]
    source.check_names(*options, ("--context", context), ("--text", source.text))


@recommend.command()
@click.argument("model", type=A_FILE)
@click.option("--users", type=A_FILE, help="A table with a row for each request. By default, all users.")
@click.option("--user", "ids", multiple=True, help="A user, in place of --users. May be repeated.")
@click.option("--n", type=click.IntRange(1), default=10, show_default=True, help="Items for each.")
@click.option("--items", type=A_FILE, help="A table of the only items to choose from.")
@click.option("--include-seen", is_flag=True, help="Recommend what a user has seen, too.")
@output_option("--out", help="A CSV file; by default they are printed.")
@table_options
@plainly
def top(model, users, ids, n, items, include_seen, out, text, format_, sep, decimal, encoding):
    """The best items by a saved MODEL, as a table of users, items, scores and ranks.

    polyfm recommend top plays.polyfm --users u.csv --n 10 --out top.csv
    """
    from polyfm.files.atomic import writing

    check_csv_name(out)
    check_outputs({"MODEL": model, "--users": users, "--items": items}, out=out)
    if users is not None and ids:
        raise click.UsageError("--users and --user both say whom to recommend to: give one of them.")
    if out is None:
        need_output()
    rec = _loaded(model)

    def read(path: Path, column: str) -> Any:
        source = make_source(path, None, format_, text, sep, decimal, encoding, None)
        _check_names(source, {}, (column,) if column == rec.item else (column, *rec.situation_.columns))
        return source.table((column,))

    chosen = None if items is None else read(items, rec.item)[rec.item].tolist()
    asked = None if users is None else read(users, rec.user)[[rec.user, *rec.situation_.columns]]

    def answers() -> Any:
        everyone = list(ids) or rec.users_.texts
        size = len(everyone) if asked is None else len(asked)
        for lo in range(0, size, AT_ONCE):
            part = slice(lo, lo + AT_ONCE)
            whom = {"users": everyone[part]} if asked is None else {"context": asked[part]}
            yield rec.recommend(**whom, n=n, items=chosen, exclude_seen=not include_seen)

    if out is None:
        _write(write_output, answers(), plain if sys.stdout.isatty() else str)
    else:
        with writing(out, DataFileError) as file:
            rows = _write(file.write, answers(), str)
        say(f"{rows:,} recommendations in {out}")


def _write(write: Callable[[bytes], Any], tables: Any, as_text: Callable[[Any], str]) -> int:
    rows = 0
    for table in tables:
        frame = table if hasattr(table, "iloc") else table.to_pandas()
        words = {
            name: frame[name].map(lambda v: as_text(v) if isinstance(v, str) else v) for name in frame.columns[:-2]
        }
        text = frame.assign(**words).to_csv(index=False, header=rows == 0, lineterminator="\n")
        write(text.encode("utf-8", "backslashreplace"))
        rows += len(frame)
    return rows


def _loaded(path: Path) -> Recommender:
    rec = load_model(path)
    if not isinstance(rec, Recommender):
        raise click.UsageError(f"{path}: holds a {type(rec).__name__}, and no Recommender ('polyfm recommend fit').")
    return rec


@recommend.command()
@click.argument("model", type=A_FILE)
@click.argument("data", type=A_FILE)
@click.option("--k", type=click.IntRange(1), default=10, show_default=True, help="Items that are looked at.")
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
@table_options
@plainly
def evaluate(model, data, k, as_json, text, format_, sep, decimal, encoding):
    """How well a saved MODEL ranks what users did in DATA among all items, popularity beside it."""
    check_outputs({"MODEL": model, "DATA": data})
    need_output()
    rec = _loaded(model)
    source = make_source(data, None, format_, text, sep, decimal, encoding, None)
    _check_names(source, {}, (rec.user, rec.item, *rec.situation_.columns))
    found = rec.evaluate(source.table((rec.user, rec.item)), k=k)
    if as_json:
        print_json({name: found.loc[name].to_dict() for name in found.index})
    else:
        print_table(f"Scores at {k}, over all items", found.reset_index(names="ranked by"))
