"""What commands print. All text that comes from outside, such as names, labels and errors, goes through `plain`."""

import json
import math
import re
import sys
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

JOINERS = "\u200c\u200d"  # invisible, but part of how Persian, Hindi and emoji are spelled
UNWRAPPED = 10_000  # columns of what is no terminal


def plain(text: Any) -> str:
    """Text that is printed as it is: what would steer a terminal, or hide in it, becomes a visible escape.

    >>> print(plain("price[usd] \\x1b[31m \\u202e"))
    price[usd] \\x1b[31m \\u202e
    """
    text = str(text)
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(c: str) -> str:
    if c.isprintable() or c in JOINERS or unicodedata.category(c) == "Zs":
        return c
    return c.encode("unicode_escape").decode()


def one_line(text: Any) -> str:
    """Messages of several lines in one."""
    return plain(re.sub(r"\s*\n\s*", " ", str(text).strip()))


# -- consoles ---------------------------------------------------------------------------------------------------------


class _Console(Console):
    """One that takes nothing in a text for markup, and leaves it to the command what a reader's going means."""

    def __init__(self, **options: Any):
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def on_broken_pipe(self) -> None:
        raise  # the BrokenPipeError that rich is dealing with


_messages = _Console(stderr=True)


def say(text: Any, style: str | None = None) -> None:
    """A message, beside what was asked for."""
    _messages.print(Text(one_line(text), style=style or ""), soft_wrap=True)


def note(text: Any) -> None:
    say(f"Note: {text}", "yellow")


def overwrite(text: str) -> None:
    """A message that the next one takes the place of; for terminals alone."""
    if _messages.is_terminal:
        _messages.print(Text(one_line(text)), end="\r")


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    said = set()

    def show(message, category, *_: Any) -> None:
        if issubclass(category, (UserWarning, RuntimeWarning)) and str(message) not in said:
            said.add(str(message))
            note(message)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def progress_bar(*columns: ProgressColumn, **options: Any) -> Progress:
    """A bar on a terminal, and nothing elsewhere."""
    first = (TextColumn("{task.description}", markup=False), BarColumn())
    return Progress(*first, *columns, console=_messages, disable=not _messages.is_terminal, **options)


# -- results ----------------------------------------------------------------------------------------------------------


def need_output() -> None:
    """For commands that are of no use where nothing can be printed."""
    if sys.stdout is None:
        raise click.UsageError("Standard output is closed: there is nowhere to print to.")


def write_output(data: bytes) -> None:
    """All of it: where Python does not buffer its output (PYTHONUNBUFFERED), a call may write a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[sys.stdout.buffer.write(rest) :]


def show(title: str, summary: dict[str, Any], as_json: bool) -> None:
    """Names and values."""
    if as_json:
        print_json({name.replace(" ", "_"): value for name, value in summary.items()})
        return
    table = Table(title=Text(plain(title)), show_header=False, title_justify="left")
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for name, value in summary.items():
        table.add_row(_cell(name, ".6g"), _cell(value, ".6g"))
    _print_result(table)


def inform(title: str, names: list[str], rows: list[tuple[Any, ...]]) -> None:
    """A table beside what was asked for."""
    table = Table(title=Text(plain(title)), title_justify="left")
    for i, name in enumerate(names):
        numbers = bool(rows) and isinstance(rows[0][i], int)
        table.add_column(_cell(name, ""), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(f"{value:,}" if isinstance(value, int) else value, "") for value in row))
    _messages.width = _messages.width if _messages.is_terminal else UNWRAPPED
    _messages.print(table)


def print_table(title: str, frame) -> None:
    table = Table(title=Text(plain(title)), title_justify="left")
    for name in frame.columns:
        justify: Any = "right" if any(isinstance(value, float) for value in frame[name]) else "left"
        table.add_column(_cell(name, ""), justify=justify, overflow="fold")
    for row in frame.itertuples(index=False):
        table.add_row(*(_cell("" if value is None or value != value else value, ".4g") for value in row))
    _print_result(table)


def _cell(value: Any, form: str) -> Text:
    """A value for the eye; what has parts that are named, or are texts, has a line for each."""
    if isinstance(value, dict):
        return Text("\n".join(f"{plain(name)}: {plain(part)}" for name, part in value.items()))
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return Text("\n".join(map(plain, value)))
    return Text(plain(format(value, form) if isinstance(value, float) else value))


def _print_result(table: Table) -> None:
    console = _Console()
    if not console.is_terminal:
        console.width = UNWRAPPED
    console.print(table)


def print_json(value: Any) -> None:
    """Strict JSON in ASCII: what is not a finite number is null."""
    click.echo(json.dumps(_finite(value), default=str, allow_nan=False).replace("\x7f", "\\u007f"))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
