"""What `TableEncoder` learns, from a table that comes in parts: summaries of parts, which are merged.

Categories are counted. Of numbers a summary has the mean, the squares about it, and the values themselves with their
counts, for the median: all of them up to `MOST_VALUES`, and so many that stand for the others beyond.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np

from polyfm.tabular import columns
from polyfm.tabular.blocks import Block, block_of, counts_of
from polyfm.tabular.columns import CATEGORY, NUMBER, PARTS
from polyfm.tabular.encoder import TableEncoder

MOST_VALUES = 2**14  # a merge moves the rank of the median by 1 / 2^15 of the rows at most


@dataclass
class Numbers:
    """A column of numbers, or of days."""

    n: int = 0  # that are there
    n_missing: int = 0
    mean: float = 0.0
    squares: float = 0.0  # of the differences from the mean, added up
    values: np.ndarray = field(default_factory=lambda: np.empty(0))  # in order
    counts: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @classmethod
    def of(cls, numbers: np.ndarray) -> Numbers:
        there = numbers[~np.isnan(numbers)]
        values, counts = np.unique(there, return_counts=True)  # in an order that does not depend on that of the rows
        n = len(there)
        mean = float(values @ (counts / n)) if n else 0.0
        squares = float(np.square(values - mean) @ counts) if n else 0.0
        return cls(n, len(numbers) - n, mean, squares, *_thinned(values, counts))

    def merged(self, other: Numbers) -> Numbers:
        n = self.n + other.n
        if not self.n or not other.n:
            one = other if not self.n else self
            return Numbers(n, self.n_missing + other.n_missing, one.mean, one.squares, one.values, one.counts)
        mean, squares = _together(self.n, self.mean, self.squares, other.n, other.mean, other.squares)
        values, places = np.unique(np.concatenate([self.values, other.values]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([self.counts, other.counts])).astype(np.int64)
        return Numbers(n, self.n_missing + other.n_missing, mean, squares, *_thinned(values, counts))

    @property
    def median(self) -> float:
        if not self.n:
            return 0.0
        ends = np.cumsum(self.counts)
        middle = np.searchsorted(ends, [(self.n - 1) // 2, self.n // 2], side="right")
        return float(self.values[middle].mean())

    def scaling(self) -> tuple[float, float]:
        """Mean and scale as `StandardScaler` finds them, once medians are where numbers are missing."""
        mean, squares = _together(self.n, self.mean, self.squares, self.n_missing, self.median, 0.0)
        n, eps = self.n + self.n_missing, np.finfo(float).eps
        variance = squares / n
        scale = float(np.sqrt(variance))
        constant = variance <= n * eps * variance + (n * mean * eps) ** 2
        return mean, 1.0 if constant or scale < 10 * eps else scale


def _together(n: int, mean: float, squares: float, m: int, other: float, more: float) -> tuple[float, float]:
    """Means and squares of two groups as those of one."""
    share = m / (n + m)
    return mean + (other - mean) * share, squares + more + (other - mean) ** 2 * n * share


def _thinned(values: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most `MOST_VALUES` values, each of which stands for as many rows as the others."""
    if len(values) <= MOST_VALUES:
        return values, counts
    ends = np.cumsum(counts)
    bounds = np.linspace(0, ends[-1], MOST_VALUES + 1).round().astype(np.int64)
    middles = np.searchsorted(ends, (bounds[:-1] + bounds[1:]) // 2, side="right")
    kept, places = np.unique(middles, return_inverse=True)
    return values[kept], np.bincount(places, np.diff(bounds)).astype(np.int64)


class Summary:
    """What is known of the rows so far."""

    def __init__(self, kinds: Any, layouts: list[str | None]):
        self.kinds, self.layouts = list(kinds), layouts
        self.n_rows = 0
        self.categories: dict[tuple[int, str], Counter] = {}  # by column, and part of a date
        self.numbers: dict[int, Numbers] = {}
        self._waiting: dict[int, list[np.ndarray]] = {}

    def add(self, table: Any) -> None:
        """Rows of this part, as a DataFrame of pandas."""
        self.n_rows += len(table)
        for j, (kind, layout) in enumerate(zip(self.kinds, self.layouts, strict=True)):
            column = table.iloc[:, j]
            if kind == CATEGORY:
                self._count(j, "", counts_of(*columns.texts(column)))
            elif kind == NUMBER:
                self._waiting.setdefault(j, []).append(columns.numbers(column))
            else:
                when = columns.moments(column, layout)
                self._waiting.setdefault(j, []).append(columns.days(when))
                for part, texts in PARTS.items():
                    self._count(j, part, counts_of(columns.part(when, part), texts))

    def _count(self, j: int, part: str, counts: Counter) -> None:
        self.categories.setdefault((j, part), Counter()).update(counts)

    def close(self) -> Summary:
        """This part is at its end."""
        self.numbers = {j: Numbers.of(np.concatenate(found)) for j, found in self._waiting.items()}
        self._waiting = {}
        return self

    def merged(self, other: Summary) -> Summary:
        """Of both; this one is changed."""
        self.n_rows += other.n_rows
        for (j, part), counts in other.categories.items():
            self._count(j, part, counts)
        for j, numbers in other.numbers.items():
            self.numbers[j] = self.numbers.get(j, Numbers()).merged(numbers)
        return self


def kinds_of(encoder: TableEncoder, table: Any) -> Summary:
    """An empty summary for an encoder that is not fitted, whose parameters are checked; of the table, types alone
    matter."""
    encoder._validate_params()
    if np.dtype(encoder.dtype) not in (np.float64, np.float32):
        raise ValueError(f"dtype must be float64 or float32, got {encoder.dtype!r}.")
    return Summary(encoder._find_kinds(table), encoder._layouts(table.columns))


def fit_to_summary(encoder: TableEncoder, names: list[str], summary: Summary) -> TableEncoder:
    """As `encoder.fit` of all rows. The median, where there are many values, is one of those next to it."""
    if not summary.n_rows:
        raise ValueError("There are no rows to learn categories and scales from.")
    encoder.feature_names_in_ = np.array(names, dtype=object)
    encoder.n_features_in_ = len(names)
    encoder.kinds_ = np.array(summary.kinds, dtype=object)
    encoder.categorical_ = encoder.kinds_ == CATEGORY
    given = encoder.min_frequency or 1
    least = int(given if isinstance(given, Integral) else np.ceil(given * summary.n_rows))
    blocks: list[Block] = []
    for j, kind in enumerate(summary.kinds):
        if kind == CATEGORY:
            blocks.append(block_of(j, summary.categories[j, ""], least, encoder.n_buckets))
        elif kind != NUMBER:
            for part in PARTS:
                counts = summary.categories[j, part]
                del counts[None]
                if len(counts) > 1:
                    blocks.append(block_of(j, counts, least, None, part))
    encoder._keep_blocks(blocks)
    numbers = [summary.numbers[j] for j in range(len(names)) if summary.kinds[j] != CATEGORY]
    encoder.medians_ = np.array([column.median for column in numbers], dtype=np.float64)
    scaling = np.array([column.scaling() for column in numbers], dtype=np.float64).reshape(-1, 2)
    encoder.means_, encoder.scales_ = scaling[:, 0].copy(), scaling[:, 1].copy()
    encoder.flagged_ = np.array([column.n_missing > 0 for column in numbers], dtype=bool)
    encoder._make_plan()
    return encoder
