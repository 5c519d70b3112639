"""What `polyfm fit` makes of the columns of a table: their kinds, what is left out, and what looks like a mistake."""

import re
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np

from polyfm.cli.sources import UNNAMED, listed
from polyfm.cli.terminal import note
from polyfm.estimators.validation import LARGEST
from polyfm.files.atomic import shown

MOSTLY = 0.5  # of a column of text: so many numbers make it look like a mistake
NEARLY = 0.8  # of the rows: so many distinct texts say nothing about a new row
ENOUGH = 10_000  # values of a column, to tell what it is
FEW = 20  # rows or values that tell nothing yet
MANY = 100  # distinct whole numbers, one after the other, that look like names
LIKE_A_NUMBER = r"[-+]?[\d.,' ]{1,40}(?:[eE][-+]?\d{1,5})?%?"
WITH_A_COMMA = r"[-+]?\d*,\d+"
LIKE_A_DATE = r"\d{1,4}[-./ ](?:\d{1,2}|[A-Za-z]{3,9})[-./ ]\d{1,4}(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?.{0,6}"
ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?Z| ?[+-]\d{2}:?\d{2})?)?"
DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d-%b-%Y", "%d %b %Y")
LAYOUTS = [day + time for day in DAYS for time in ("", " %H:%M", " %H:%M:%S")]
NAMES_THINGS = re.compile(
    r"(?:^|[^A-Za-z])(?i:id|uid|uuid|key|code|zip|zipcode|postcode|sku|isbn)$|[a-z]I[Dd]$|^(?i:user|item|movie|customer)$"
)


@dataclass
class Column:
    """A line of what is printed."""

    name: str
    kind: str
    distinct: int
    missing: int
    features: int = 0


@dataclass
class Columns:
    """What was decided about the columns of a table."""

    columns: list[Column] = field(default_factory=list)
    dates: dict[str, str | None] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)


def examine(table, fields: tuple[str, ...], text: tuple[str, ...]) -> Columns:
    """Look at the columns to learn from. Numbers that are too large are refused; what may be a mistake is noted."""
    found = Columns()
    notes: dict[str, list[str]] = {}
    for name, column in table.items():
        found.columns.append(_examined(column, name in fields, name in text, found, notes))
    _say(notes)
    return found


def _examined(column, is_field: bool, is_text: bool, found: Columns, notes: dict[str, list[str]]) -> Column:
    from pandas.api import types

    name = str(column.name)
    there = column.dropna()
    try:
        distinct = int(there.nunique())
    except TypeError as problem:
        raise click.UsageError(
            f"Column {name!r} holds {type(there.iloc[0]).__name__}s. Say --drop {name}."
        ) from problem
    seen = Column(name, "number", distinct, len(column) - len(there))
    if name == UNNAMED and distinct == len(column):
        return _left_out(seen, found, notes, "index")
    if types.is_numeric_dtype(column.dtype) and not is_field:
        _check_numbers(name, there)
        if distinct > 1 and not types.is_bool_dtype(column.dtype):
            _look_for_names(seen, there, notes)
    elif types.is_datetime64_any_dtype(column.dtype) and not is_field:
        seen.kind = "date"
    elif (
        not types.is_numeric_dtype(column.dtype) and not types.is_string_dtype(column.dtype) and column.dtype != object
    ):
        if not hasattr(column, "cat"):
            raise click.UsageError(f"Column {name!r} is of type {column.dtype}: say --drop {name}, or convert it.")
        seen.kind = "category"
    else:
        seen.kind = "category"
        if not is_field and not is_text and distinct > 1 and not hasattr(column, "cat"):
            layouts = _layouts(there)
            if len(layouts) == 1:
                seen.kind, found.dates[name] = "date", layouts[0]
            elif layouts:
                return _left_out(seen, found, notes, "ambiguous")
            else:
                _look_for_mistakes(seen, there, notes)
        elif not is_text and distinct == len(column) > FEW:
            notes.setdefault("own", []).append(name)
    if distinct == 0 or (distinct == 1 and not seen.missing):
        notes.setdefault("constant", []).append(name)
    return seen


def _left_out(seen: Column, found: Columns, notes: dict[str, list[str]], why: str) -> Column:
    seen.kind = "left out"
    found.dropped.append(seen.name)
    notes.setdefault(why, []).append(seen.name)
    return seen


def _check_numbers(name: str, there) -> None:
    if there.dtype.kind == "f" and len(there):
        largest = there.abs().max()
        if largest == np.inf:
            raise click.UsageError(f"Column {name!r} holds infinity. Correct it, or leave it empty.")
        if largest > LARGEST["float64"]:
            raise click.UsageError(f"Column {name!r} has a value of magnitude {largest:.3g}. Scale or correct it.")


def _look_for_names(seen: Column, there, notes: dict[str, list[str]]) -> None:
    """Whole numbers that number the rows, or the things that rows are about."""
    if there.dtype.kind not in "iu" and not (there.dtype.kind == "f" and (there % 1 == 0).all()):
        return
    smallest, largest = there.min(), there.max()
    if len(there) > FEW and seen.distinct == len(there) == largest - smallest + 1:
        notes.setdefault("numbers the rows", []).append(seen.name)
    elif NAMES_THINGS.search(seen.name) or (
        seen.distinct >= MANY and smallest in (0, 1) and seen.distinct >= 0.9 * (largest - smallest + 1)
    ):
        notes.setdefault("names", []).append(seen.name)


def _layouts(there) -> list[str | None]:
    """How all the values of a column of text are written, if they are dates. More than one: it cannot be told."""
    import pandas

    words = there.astype(str).str.strip()
    some = words.iloc[:: max(1, len(words) // ENOUGH)]
    if not some.str.fullmatch(LIKE_A_DATE).all():
        return []
    for layout in (None, *LAYOUTS):
        if layout is None and not words.str.fullmatch(ISO_DATE).all():
            continue
        if _parses(pandas, some, layout) and _parses(pandas, words, layout):
            others = [other for other in LAYOUTS if layout is not None and other != layout]
            return [layout, *(other for other in others if _parses(pandas, words, other))]
    return []


def _parses(pandas: Any, words, layout: str | None) -> bool:
    from polyfm.tabular.columns import OFFSET

    words = words.str.replace(OFFSET, r"\1", regex=True) if layout is None else words
    return bool(pandas.to_datetime(words, format=layout or "ISO8601", errors="coerce").notna().all())


def _look_for_mistakes(seen: Column, there, notes: dict[str, list[str]]) -> None:
    import pandas

    words = there.astype(str)
    some = words.iloc[:: max(1, len(words) // ENOUGH)].str.strip()
    if some.str.fullmatch(LIKE_A_NUMBER).mean() >= MOSTLY:
        wrong = words[pandas.to_numeric(words, errors="coerce").isna()]
        if len(wrong) and wrong.str.strip().str.fullmatch(WITH_A_COMMA).all():
            notes.setdefault("decimal", []).append(seen.name)
            return
        why = f"{shown(wrong.iloc[0])} in row {wrong.index[0]}, counted from 0" if len(wrong) else "large numbers"
        note(
            f"column {seen.name!r} is taken for text, one feature a value, because of {why}. Correct it, or say "
            f"--text {seen.name} if it is meant."
        )
    elif seen.distinct > max(FEW, NEARLY * len(words)):
        notes.setdefault("own", []).append(seen.name)


NOTES = {  # of one column, and of several
    "index": ("{} has no name and a value of its own in every row: taken for an index, and left out.",) * 2,
    "ambiguous": (
        "{} holds dates that can be read in more than one way, such as 01/02/2026, and is left out. Write them as "
        "2026-02-01, or say {text} to take them as they are.",
        "{} hold dates that can be read in more than one way, such as 01/02/2026, and are left out. Write them as "
        "2026-02-01, or say {text} to take them as they are.",
    ),
    "decimal": (
        "{} is taken for text, one feature a value, because of commas in numbers. Say --decimal , if they are for "
        "decimals, or {text} if text is meant.",
        "{} are taken for text, one feature a value, because of commas in numbers. Say --decimal , if they are for "
        "decimals, or {text} if text is meant.",
    ),
    "constant": (
        "{} is the same in all rows: nothing can be learned from it.",
        "{} are each the same in all rows: nothing can be learned from them.",
    ),
    "numbers the rows": (
        "{} numbers the rows, which says nothing about a new one. Leave it out with {drop}.",
        "{} number the rows, which says nothing about a new one. Leave them out with {drop}.",
    ),
    "names": (
        "{} is taken for a quantity. If its numbers name things, such as users, say {field}.",
        "{} are taken for quantities. If their numbers name things, such as users, say {field}.",
    ),
    "own": (
        "{} has a text of its own in most rows, which says nothing about a new one. Leave it out with {drop}.",
        "{} have a text of their own in most rows, which says nothing about a new one. Leave them out with {drop}.",
    ),
}


def _say(notes: dict[str, list[str]]) -> None:
    for why, names in notes.items():
        several = len(names) > 1
        text = NOTES[why][several]
        for option in ("drop", "field", "text"):
            text = text.replace(f"{{{option}}}", _options(f"--{option}", names))
        note(("columns " if several else "column ") + text.replace("{}", listed(names)))


def _options(option: str, names: list[str]) -> str:
    return " ".join(f"{option} {name}" for name in names[:5]) + (" ..." if len(names) > 5 else "")
