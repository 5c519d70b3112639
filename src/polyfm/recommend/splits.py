"""Splits of interactions into what is learned from and what is held out."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from polyfm.recommend.sides import as_table, check_columns, texts_of
from polyfm.tabular.columns import is_polars


def random_split(table: Any, user: str, *, test_fraction: float = 0.2, random_state: Any = None) -> tuple[Any, Any]:
    """Hold out a fraction of each user's interactions, at random.

    Parameters
    ----------
    table : DataFrame
        Of pandas or polars; a row is an interaction.
    user : str
        Its column of users.
    test_fraction : float, default=0.2
        Of each user's rows, rounded.
    random_state : int, RandomState or None, default=None
        Seed of the choice.

    Returns
    -------
    train, test : DataFrame

    Examples
    --------
    >>> import pandas as pd
    >>> from polyfm.recommend import random_split
    >>> plays = pd.DataFrame({"user": list("aaaabbbb"), "item": list("wxyzwxyz")})
    >>> train, test = random_split(plays, "user", test_fraction=0.25, random_state=0)
    >>> train.user.value_counts().to_dict(), test.user.value_counts().to_dict()
    ({'a': 3, 'b': 3}, {'a': 1, 'b': 1})
    """
    _check_fraction(test_fraction)
    codes = _codes(table, user)
    order = check_random_state(random_state).permutation(len(codes))
    ranks, counts = _ranks(codes, order)
    return _parted(table, ranks < np.round(test_fraction * counts[codes]))


def last_out_split(table: Any, user: str, time: str, *, n: int = 1) -> tuple[Any, Any]:
    """Hold out each user's last interactions by time; of equal times, those that stand later in the table.

    Parameters
    ----------
    table : DataFrame
        The interactions.
    user, time : str
        Columns.
    n : int, default=1
        How many of each user's rows. Users with no more than that keep all of theirs for training.

    Returns
    -------
    train, test : DataFrame

    Examples
    --------
    >>> import pandas as pd
    >>> from polyfm.recommend import last_out_split
    >>> plays = pd.DataFrame({"user": list("aab"), "item": list("xyx"), "when": [2, 1, 5]})
    >>> last_out_split(plays, "user", "when")[1].item.tolist()
    ['x']
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ValueError(f"n={n!r} is not a number of rows: give an integer of at least 1.")
    codes = _codes(table, user)
    check_columns(as_table(table, "table"), "table", [time])
    times = as_table(table, "table")[time]
    if times.isna().any():
        raise ValueError(f"table: column {time!r} has gaps, and a row without a time is neither early nor late.")
    order = np.argsort(times.to_numpy(), kind="stable")[::-1]
    ranks, counts = _ranks(codes, order)
    return _parted(table, (ranks < n) & (counts[codes] > n))


def cold_split(table: Any, column: str, *, test_fraction: float = 0.1, random_state: Any = None) -> tuple[Any, Any]:
    """Hold out all interactions of some users, or of some items, whichever the column names: those are cold.

    Parameters
    ----------
    table : DataFrame
        The interactions.
    column : str
        Of users or of items.
    test_fraction : float, default=0.1
        Of the users or items, rounded, and at least one.
    random_state : int, RandomState or None, default=None
        Seed of the choice.

    Returns
    -------
    train, test : DataFrame

    Examples
    --------
    >>> import pandas as pd
    >>> from polyfm.recommend import cold_split
    >>> plays = pd.DataFrame({"user": list("abab"), "item": list("xxyy")})
    >>> train, test = cold_split(plays, "item", test_fraction=0.5, random_state=0)
    >>> set(train.item) & set(test.item)
    set()
    """
    _check_fraction(test_fraction)
    codes = _codes(table, column)
    n = int(codes.max()) + 1
    if n < 2:
        raise ValueError(f"table: column {column!r} has one value alone: nothing would be left to learn from.")
    cold = check_random_state(random_state).permutation(n)[: max(1, round(test_fraction * n))]
    return _parted(table, np.isin(codes, cold))


def _check_fraction(fraction: float) -> None:
    if not 0 < fraction < 1:
        raise ValueError(f"test_fraction={fraction!r} must lie between 0 and 1.")


def _codes(table: Any, column: str) -> np.ndarray:
    frame = as_table(table, "table")
    check_columns(frame, "table", [column])
    return texts_of(frame[column], "table")[0]


def _ranks(codes: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rank of each row among those of its code, in the given order; how many rows each code has."""
    counts = np.bincount(codes)
    grouped = order[np.argsort(codes[order], kind="stable")]
    ranks = np.empty(len(codes), dtype=np.int64)
    ranks[grouped] = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks, counts


def _parted(table: Any, held_out: np.ndarray) -> tuple[Any, Any]:
    if is_polars(table):
        return table.filter(~held_out), table.filter(held_out)
    frame = as_table(table, "table")
    return frame[~held_out], frame[held_out]
