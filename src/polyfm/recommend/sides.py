"""A side of a recommendation: users or items, their ids as the user writes them, and their features."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from polyfm.tabular import TableEncoder, columns

MOST_NAMED = 3


def as_table(table: Any, name: str) -> Any:
    """A table of pandas, polars or pyarrow as a DataFrame of pandas."""
    pandas = columns.pandas_for_tables()
    table = columns.as_pandas(table)
    if not isinstance(table, pandas.DataFrame):
        raise TypeError(f"{name} must be a table of pandas, polars or pyarrow, got {type(table).__name__}.")
    if not table.columns.is_unique:
        raise ValueError(f"{name} has several columns named {table.columns[table.columns.duplicated()][0]!r}.")
    return table


def check_columns(table: Any, name: str, wanted: Sequence[Any]) -> None:
    missing = [column for column in wanted if column not in table.columns]
    if missing:
        raise ValueError(f"{name} has no column {missing[0]!r}; it has {list(map(str, table.columns))}.")
    if not len(table):
        raise ValueError(f"{name} has no rows.")


def texts_of(column: Any, name: str) -> tuple[np.ndarray, list[str]]:
    """Ids as codes and the texts that they stand for; none may be missing."""
    codes, texts = columns.texts(column)
    if np.any(codes < 0):
        raise ValueError(f"{name}: row {int(np.argmax(codes < 0))}, counted from 0, has no {column.name}. Drop it.")
    at = {text: position for position, text in enumerate(dict.fromkeys(texts))}  # 7 and "7" are one
    return np.array([at[text] for text in texts], dtype=np.int64)[codes], list(at)


class Side:
    """Ids with features. The first columns of X are features of ids; rows that have none are known by their other
    features alone."""

    def __init__(self, column: str, texts: list[str], values: list, table: Any, encoder: TableEncoder, X: Any):
        self.column, self.texts, self.values, self.table, self.encoder = column, texts, values, table, encoder
        self.position = {text: i for i, text in enumerate(texts)}
        self.X: sp.csr_matrix = X

    @classmethod
    def learn(cls, column: str, ids: Any, table: Any, name: str, fields: Sequence[str]) -> tuple["Side", np.ndarray]:
        """A side from the column of ids and, where there is one, the table of features; the position of each id."""
        pandas = columns.pandas_for_tables()
        codes, texts = texts_of(ids, "ratings")
        values = _first_values(ids, codes, len(texts))
        n_trained = len(texts)
        frame = pandas.DataFrame({column: texts}, dtype=object)
        if table is not None:
            table = as_table(table, name)
            check_columns(table, name, [column])
            found = _once(table, column, name)
            known = set(texts)
            fresh = [row for row, text in enumerate(found) if text not in known]
            texts = texts + [found[row] for row in fresh]
            values = values + table[column].iloc[fresh].tolist()
            at = {text: row for row, text in enumerate(found)}
            take = np.array([at.get(text, -1) for text in texts])
            features = table.drop(columns=[column]).reset_index(drop=True)
            frame, encoded = (
                part.reindex(take).reset_index(drop=True) for part in (features, without_booleans(features))
            )
            for part in (frame, encoded):
                part.insert(0, column, np.array(texts, dtype=object))
        else:
            encoded = frame
        named = [column, *(name for name in fields if name in frame.columns and name != column)]
        encoder = TableEncoder(fields=named).fit(encoded.iloc[:n_trained])
        return cls(column, texts, values, frame, encoder, encoder.transform(encoded)), codes

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def n_ids(self) -> int:
        """How many features of ids there are."""
        return len(self.encoder.categories_[0])

    @property
    def has_id(self) -> np.ndarray:
        """Which rows have a feature of their own."""
        return self.X[:, : self.n_ids].getnnz(axis=1) > 0

    @property
    def has_features(self) -> bool:
        return len(self.encoder.feature_names_in_) > 1

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self.encoder.get_feature_names_out()]

    def positions_of(self, texts: Sequence[str]) -> np.ndarray:
        """The position of each text, or -1."""
        return np.array([self.position.get(text, -1) for text in texts], dtype=np.int64)

    def find(self, ids: Any) -> np.ndarray:
        """The position of each id; an error names those that are not known."""
        pandas = columns.pandas_for_tables()
        codes, texts = texts_of(pandas.Series(list(ids), name=self.column, dtype=object), self.column)
        found = self.positions_of(texts)
        unknown = [text for text, at in zip(texts, found, strict=True) if at < 0]
        if unknown:
            more = f" and {len(unknown) - MOST_NAMED} more" if len(unknown) > MOST_NAMED else ""
            raise ValueError(
                f"{self.column}={', '.join(map(repr, unknown[:MOST_NAMED]))}{more}: not known. Those of training are, "
                "and those that were added."
            )
        return found[codes]

    def add(self, table: Any, name: str) -> np.ndarray:
        """More ids, with the features that training saw, and none of their own yet; their positions."""
        pandas = columns.pandas_for_tables()
        wanted = list(self.encoder.feature_names_in_)
        check_columns(table, name, wanted)
        found = _once(table, self.column, name)
        known = [text for text in found if text in self.position]
        if known:
            raise ValueError(f"{name}: {self.column}={known[0]!r} is known already. Leave it out.")
        features = table[wanted].reset_index(drop=True)
        features[self.column] = np.array(found, dtype=object)
        X = self.encoder.transform(without_booleans(features))
        before = len(self)
        self.values += table[self.column].tolist()
        self.texts += found
        self.position |= {text: before + i for i, text in enumerate(found)}
        self.table = pandas.concat([self.table, features], ignore_index=True)
        self.X = sp.vstack([self.X, X], format="csr")
        return np.arange(before, len(self))

    def give_ids(self, positions: np.ndarray) -> None:
        """Features of their own for rows that have none: further columns, behind those of the other ids."""
        at, n = self.n_ids, len(positions)
        self.encoder.add_values(0, [self.texts[position] for position in positions])
        X = self.X
        mine = sp.csr_matrix((np.ones(n), (positions, np.arange(n))), shape=(len(self), n))
        self.X = sp.hstack([X[:, :at], mine, X[:, at:]], format="csr").astype(X.dtype)
        self.X.sort_indices()


class Situation:
    """Columns of context: what is known of an interaction beside who and what."""

    def __init__(self, encoder: TableEncoder | None):
        self.encoder = encoder

    @classmethod
    def learn(cls, table: Any, names: Sequence[str], fields: Sequence[str]) -> "Situation":
        if not names:
            return cls(None)
        frame = without_booleans(table[list(names)])
        return cls(TableEncoder(fields=[name for name in fields if name in names] or None).fit(frame))

    @property
    def columns(self) -> list[str]:
        return [] if self.encoder is None else list(self.encoder.feature_names_in_)

    @property
    def names(self) -> list[str]:
        return [] if self.encoder is None else [str(name) for name in self.encoder.get_feature_names_out()]

    @property
    def size(self) -> int:
        return len(self.names)

    def rows(self, table: Any, name: str) -> sp.csr_matrix:
        """Features of each row of a table."""
        if self.encoder is None:
            return sp.csr_matrix((len(table), 0))
        check_columns(table, name, self.columns)
        return self.encoder.transform(without_booleans(table[self.columns]))

    def unknown(self, n: int) -> sp.csr_matrix:
        """Features of n rows of which nothing is known: as gaps in a table are."""
        if self.encoder is None:
            return sp.csr_matrix((n, 0))
        gaps = columns.pandas_for_tables().DataFrame({name: [None] for name in self.columns}, dtype=object)
        return self.encoder.transform(gaps)[np.zeros(n, dtype=np.int64)]


def _once(table: Any, column: str, name: str) -> list[str]:
    """The ids of a table that has one row for each."""
    rows, found = texts_of(table[column], name)
    if len(found) < len(table):
        twice = found[int(np.argmax(np.bincount(rows) > 1))]
        raise ValueError(f"{name} has several rows for {column}={twice!r}. Keep one of them.")
    return found


def with_gaps(table: Any, encoder: TableEncoder, of: str) -> Any:
    """A table with the columns that training saw: those that it lacks are unknown, and a warning says so."""
    lacking = [name for name in encoder.feature_names_in_ if name not in table.columns]
    if not lacking:
        return table
    warnings.warn(f"{of} come without {lacking}: these count as unknown.", UserWarning, stacklevel=4)
    pandas = columns.pandas_for_tables()
    empty = {name: pandas.Series([None] * len(table), dtype=object, index=table.index) for name in lacking}
    return table.assign(**empty)


def _first_values(ids: Any, codes: np.ndarray, n: int) -> list:
    first = np.full(n, -1)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return ids.iloc[first].tolist()


def without_booleans(table: Any) -> Any:
    """True and False as numbers: beside a gap they would become words."""
    booleans = {name: float for name, dtype in table.dtypes.items() if dtype.kind == "b"}
    return table.astype(booleans) if booleans else table
