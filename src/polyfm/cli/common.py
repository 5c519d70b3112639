"""What commands share: errors for people, options for data, and output."""

import functools
import json
import traceback
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from polyfm.cli.sources import FORMATS, Source
from polyfm.datafiles import DataFileError
from polyfm.modelfile import ModelFileError

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


def make_source(data: Path | None, target, format_, text, zero_based) -> Source:
    return Source(data, format_, target, tuple(text), "auto" if zero_based is None else zero_based)


def width(model) -> int | None:
    return None if hasattr(model, "steps") else int(model.n_features_in_)


def show(title: str, summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({name.replace(" ", "_"): value for name, value in summary.items()}, default=str))
        return
    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in summary.items():
        table.add_row(name, f"{value:.6g}" if isinstance(value, float) else str(value))
    Console(highlight=False).print(table)


def print_table(title: str, frame) -> None:
    table = Table(title=title, title_justify="left")
    for name in frame.columns:
        table.add_column(str(name), justify="right" if frame[name].dtype.kind == "f" else "left")
    for row in frame.itertuples(index=False):
        table.add_row(*(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row))
    Console(highlight=False).print(table)
