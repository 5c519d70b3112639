"""One-hot blocks: which columns of the output the values of one field have."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from sklearn.utils import murmurhash3_32

from polyfm.tabular.columns import PARTS

NOWHERE = -1


@dataclass
class Block:
    """A field, which is a column of the table or a part of a date, and its columns in the output."""

    source: int  # the column of the table
    part: str  # of a date, or ""
    values: np.ndarray  # texts, and None for the missing value, each with a column of its own
    rare: bool  # whether all other values share a column
    n_buckets: int  # columns that texts are hashed into, or 0
    first: int = 0  # its first column in the output
    places: dict[str | None, int] = field(init=False, repr=False)
    elsewhere: int = field(init=False, repr=False)

    def place(self, first: int) -> int:
        """Settle the columns, from `first` on; gives the one behind them."""
        self.first = first
        begin = first + self.n_buckets
        self.places = {value: begin + i for i, value in enumerate(self.values.tolist())}
        self.elsewhere = begin + len(self.values) if self.rare else NOWHERE
        return first + self.size

    @property
    def size(self) -> int:
        return self.n_buckets + len(self.values) + self.rare

    def find(self, text: str | None) -> int:
        """The column of a value, or NOWHERE."""
        if self.n_buckets and text is not None:
            return self.first + bucket(text, self.n_buckets)
        return self.places.get(text, self.elsewhere)

    def columns(self, codes: np.ndarray, texts: Iterable[str]) -> np.ndarray:
        """The columns of many values, given by codes (-1: missing) of texts."""
        return np.array([*map(self.find, texts), self.find(None)], dtype=np.int64)[codes]

    def of_parts(self, found: np.ndarray) -> np.ndarray:
        """The columns of parts of dates, given by their positions in PARTS; a missing date has none of them."""
        return np.array([*map(self.find, PARTS[self.part]), NOWHERE], dtype=np.int64)[found]

    def names(self, name: str) -> list[str]:
        values = [f"{name} is missing" if value is None else f"{name}={value}" for value in self.values]
        return [*(f"{name}#{i}" for i in range(self.n_buckets)), *values, *([f"{name} is rare"] if self.rare else [])]


def bucket(text: str, n_buckets: int) -> int:
    return murmurhash3_32(text.encode("utf-8", "surrogatepass"), seed=0, positive=True) % n_buckets


def block_of(source: int, counts: Mapping[str | None, int], least: int, n_buckets: int | None, part: str = "") -> Block:
    """The block of a field whose values occurred so many times: those that occurred less often than `least` share a
    column; where there are still more than `n_buckets`, they are hashed."""
    kept = [value for value, count in counts.items() if count >= least]
    texts = sorted(value for value in kept if value is not None)
    missing = [None] if None in kept else []
    if n_buckets is not None and len(texts) > n_buckets:
        return Block(source, part, np.array(missing, dtype=object), False, n_buckets)
    return Block(source, part, np.array([*texts, *missing], dtype=object), len(kept) < len(counts), 0)


def counts_of(codes: np.ndarray, texts: Iterable[str]) -> Counter:
    """How often each text, and the missing value, occurs."""
    texts = list(texts)
    found: Counter = Counter()
    for text, count in zip([*texts, None], np.bincount(codes % (len(texts) + 1), minlength=1).tolist(), strict=False):
        if count:
            found[text] += count
    return found
