"""A side of a recommendation: users or items, their ids as the user writes them, and their features."""

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
    """Ids with features. The first `n_trained` were seen in training and have factors of their own; the others are
    known by their features, or by what was folded in."""

    def __init__(self, column: str, texts: list[str], values: list, table: Any, n_trained: int, encoder: TableEncoder):
        self.column, self.texts, self.values, self.table = column, texts, values, table
        self.n_trained, self.encoder = n_trained, encoder
        self.position = {text: i for i, text in enumerate(texts)}
        self.X: sp.csr_matrix = encoder.transform(table)

    @classmethod
    def learn(cls, column: str, ids: Any, table: Any, name: str) -> tuple["Side", np.ndarray]:
        """A side from the column of ids and, where there is one, the table of features; the position of each id."""
        pandas = columns.pandas_for_tables()
        codes, texts = texts_of(ids, "ratings")
        values = _first_values(ids, codes, len(texts))
        n_trained = len(texts)
        frame = pandas.DataFrame({column: texts}, dtype=object)
        if table is not None:
            table = as_table(table, name)
            check_columns(table, name, [column])
            rows, found = texts_of(table[column], name)
            if len(found) < len(table):
                twice = found[int(np.argmax(np.bincount(rows) > 1))]
                raise ValueError(f"{name} has several rows for {column}={twice!r}. Keep one of them.")
            known = set(texts)
            fresh = [row for row, text in enumerate(found) if text not in known]
            texts = texts + [found[row] for row in fresh]
            values = values + [table[column].iloc[row] for row in fresh]
            at = {text: row for row, text in enumerate(found)}
            take = np.array([at.get(text, -1) for text in texts])
            features = _without_booleans(table.drop(columns=[column])).reset_index(drop=True).reindex(take)
            features = features.reset_index(drop=True)
            features.insert(0, column, np.array(texts, dtype=object))
            frame = features
        encoder = TableEncoder(fields=[column]).fit(frame.iloc[:n_trained])
        return cls(column, texts, values, frame, n_trained, encoder), codes

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self.encoder.get_feature_names_out()]

    def find(self, ids: Any) -> np.ndarray:
        """The position of each id; an error names those that are not known."""
        pandas = columns.pandas_for_tables()
        codes, texts = texts_of(pandas.Series(list(ids), name=self.column, dtype=object), self.column)
        unknown = [text for text in texts if text not in self.position]
        if unknown:
            more = f" and {len(unknown) - MOST_NAMED} more" if len(unknown) > MOST_NAMED else ""
            raise ValueError(
                f"{self.column}={', '.join(map(repr, unknown[:MOST_NAMED]))}{more}: not known. Those of training are, "
                "and those that were added."
            )
        return np.array([self.position[text] for text in texts], dtype=np.int64)[codes]

    def add(self, table: Any, name: str) -> np.ndarray:
        """More ids, with the features that training saw; their positions."""
        pandas = columns.pandas_for_tables()
        table = as_table(table, name)
        check_columns(table, name, list(self.table.columns))
        rows, found = texts_of(table[self.column], name)
        if len(found) < len(table):
            twice = found[int(np.argmax(np.bincount(rows) > 1))]
            raise ValueError(f"{name} has several rows for {self.column}={twice!r}. Keep one of them.")
        known = [text for text in found if text in self.position]
        if known:
            raise ValueError(f"{name}: {self.column}={known[0]!r} is known already. Leave it out.")
        features = _without_booleans(table[list(self.table.columns)]).reset_index(drop=True)
        features[self.column] = np.array(found, dtype=object)
        X = self.encoder.transform(features)
        before = len(self)
        self.values += table[self.column].tolist()
        self.texts += found
        self.position |= {text: before + i for i, text in enumerate(found)}
        self.table = pandas.concat([self.table, features], ignore_index=True)
        self.X = sp.vstack([self.X, X], format="csr")
        return np.arange(before, len(self))


def _first_values(ids: Any, codes: np.ndarray, n: int) -> list:
    first = np.full(n, -1)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return ids.iloc[first].tolist()


def _without_booleans(table: Any) -> Any:
    """True and False as numbers: beside a gap they would become words."""
    return table.astype({name: float for name, dtype in table.dtypes.items() if dtype.kind == "b"})
