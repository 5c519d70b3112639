"""Interactions as they are read from a table: who, what, how much, and how much it counts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from polyfm.recommend.sides import as_table, check_columns
from polyfm.tabular import columns


class Log(NamedTuple):
    table: Any  # of pandas
    target: np.ndarray
    weight: np.ndarray


def read_log(
    table: Any, name: str, user: str, item: str, target: str | None, weight: str | None, context: Sequence[str],
    numeric: bool = True,
) -> Log:  # fmt: skip
    """Checked interactions: columns that are there, targets and weights without gaps."""
    table = as_table(table, name)
    check_columns(table, name, [user, item, *(c for c in (target, weight) if c is not None), *context])
    y = np.ones(len(table)) if target is None else (_numbers if numeric else _labels)(table, target, name)
    a = np.ones(len(table)) if weight is None else _numbers(table, weight, name)
    if a.min() < 0 or not a.max() > 0:
        raise ValueError(f"{name}: the weights in {weight!r} must not be negative, and some must be positive.")
    return Log(table, y, a)


def _labels(table: Any, name: str, of: str) -> np.ndarray:
    """Targets of a classifier, whatever they are."""
    if table[name].isna().any():
        raise ValueError(f"{of}: column {name!r} has gaps. Drop those rows.")
    return table[name].to_numpy()


def _numbers(table: Any, name: str, of: str) -> np.ndarray:
    try:
        found = columns.numbers(table[name])
    except ValueError as problem:
        raise ValueError(f"{of}: column {name!r} must hold finite numbers ({problem.__cause__ or problem}).") from None
    if np.isnan(found).any():
        raise ValueError(f"{of}: column {name!r} has gaps. Drop those rows.")
    return found


def columns_named(names: Any, parameter: str, taken: set) -> list[str]:
    """A list of columns, none of which has another task."""
    if names is None:
        return []
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{parameter} must be a list of columns, got {names!r}.")
    found = list(dict.fromkeys(names))
    if both := [name for name in found if name in taken]:
        raise ValueError(f"{parameter}={both}: these columns are users, items, ratings or weights already.")
    return found


def grouped(u: np.ndarray, table: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the same user and, where the table has columns, of the same values: codes, and the first row of each."""
    if table.shape[1] == 0:
        _, first, codes = np.unique(u, return_index=True, return_inverse=True)
        return codes, first
    keys = [u, *(table[name].to_numpy() for name in table.columns)]
    codes = table.groupby(keys, dropna=False, sort=False).ngroup().to_numpy()
    return codes, np.unique(codes, return_index=True)[1]
