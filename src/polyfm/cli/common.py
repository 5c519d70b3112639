"""What commands share: errors for people, and options for data."""

import functools
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from polyfm.cli.ending import quiet_ends
from polyfm.cli.sources import FORMATS, Source
from polyfm.cli.terminal import one_line, plain, warnings_as_notes
from polyfm.datafiles import DataFileError
from polyfm.modelfile import ModelFileError


def plainly(command: Callable) -> Callable:
    """Errors for people: one line and an exit code (2: bad input, 1: a fault of ours), no traceback."""

    @functools.wraps(command)
    def wrapped(*args, debug: bool = False, **kwargs):
        try:
            with quiet_ends(), warnings_as_notes():
                return command(*args, **kwargs)
        except (click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if debug:
                click.echo("\n".join(map(plain, traceback.format_exc().splitlines())), err=True)
            kind, message = _described(error)
            raise kind(one_line(_with_plain_paths(message, kwargs))) from None

    return click.option("--debug", is_flag=True, help="Show the traceback of an error.")(wrapped)


class BadInput(click.ClickException):
    exit_code = 2


class Fault(click.ClickException):
    exit_code = 1


def _described(error: Exception) -> tuple[type[click.ClickException], str]:
    if isinstance(error, click.ClickException):
        return BadInput, error.format_message()
    if isinstance(error, (ModelFileError, DataFileError, ValueError, TypeError, ImportError, OSError)):
        return BadInput, str(error)
    if isinstance(error, MemoryError):
        return Fault, f"This needs more memory than there is. {error}"
    return Fault, f"unexpected {type(error).__name__}: {error} (--debug shows where)"


def _with_plain_paths(message: str, options: dict[str, Any]) -> str:
    """Line ends within the names of files are part of them, unlike those of the message."""
    for value in options.values():
        if isinstance(value, Path):
            message = message.replace(str(value), plain(value))
    return message


class OneSign(click.ParamType):
    """A separator, or the sign before decimals."""

    name = "sign"

    def convert(self, value, param, ctx):
        value = {"tab": "\t", "\\t": "\t"}.get(value, value)
        if len(value) != 1 or value in '\r\n"':
            self.fail(f"{value!r} is not one sign; 'tab' stands for a tab.", param, ctx)
        return value


DATA_OPTIONS = [
    click.option("--target", help="The column to predict, in a table."),
    click.option(
        "--text", multiple=True, help="A column of a table to keep as text, such as 007. May be repeated."
    ),
    click.option(
        "--format", "format_", type=click.Choice(FORMATS), default="auto", help="Of the file. By default, by its name."
    ),
    click.option("--sep", type=OneSign(), help="Between the columns of a text file, such as ';' or tab. [default: ,]"),
    click.option("--decimal", type=OneSign(), help="Before the decimals of its numbers. [default: .]"),
    click.option("--encoding", help="Of its letters, such as cp1252. [default: utf-8]"),
    click.option("--zero-based/--one-based", default=None, help="How a svmlight file counts its features."),
]  # fmt: skip


TABLE_OPTIONS = DATA_OPTIONS[1:-1]  # of commands that read tables alone


def data_options(command: Callable) -> Callable:
    for option in reversed(DATA_OPTIONS):
        command = option(command)
    return command


def table_options(command: Callable) -> Callable:
    for option in reversed(TABLE_OPTIONS):
        command = option(command)
    return command


def make_source(data: Path | None, target, format_, text, sep, decimal, encoding, zero_based) -> Source:
    zero_based = "auto" if zero_based is None else zero_based
    source = Source(data, format_, target, tuple(text), zero_based, sep, decimal, encoding)
    source.check_options()
    return source
