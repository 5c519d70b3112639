"""The data of an experiment: a published set, some rows of it, or a small stand-in where a quick run lacks files."""

from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import train_test_split

from polyfm import datasets
from polyfm.datasets import Split
from polyfm.kernels import anova_kernel

LABELS = {
    "e2006": "E2006-tfidf",
    "imdb": "IMDB (tf-idf, stars)",
    "movielens_1m": "MovieLens 1M",
    "lastfm": "Last.fm",
}


@dataclass(frozen=True)
class Data:
    """A split with the name it goes by in tables and the words it goes by on pictures."""

    name: str
    label: str
    split: Split

    def described(self) -> dict[str, Any]:
        """What tells these data from others."""
        return {
            "name": self.name,
            "label": self.label,
            "rows": [int(self.split.X_train.shape[0]), int(self.split.X_test.shape[0])],
            "features": int(self.split.X_train.shape[1]),
            "fingerprint": joblib.hash(tuple(self.split)),
        }


def read(name: str, data_home=None, *, otherwise: str | None = None, rows: int | None = None) -> Data:
    """A data set, or the one to take `otherwise`. With `rows`, at most so many of them, made up if there is no file."""
    names = [name] if otherwise is None else [name, otherwise]
    for i, candidate in enumerate(names):
        try:
            split = datasets.train_test(candidate, data_home)
        except FileNotFoundError:
            if candidate != names[-1]:
                continue
            if rows is None:
                raise
            return Data(name, f"synthetic stand-in for {LABELS.get(name, name)}", stand_in(name, rows))
        label = LABELS.get(candidate, candidate)
        if i:
            label += f" in place of {LABELS.get(name, name)}"
        if rows is not None and split.X_train.shape[0] > rows:
            split, label = _some(split, rows), f"{label}, {rows:,} rows"
        return Data(candidate, label, split)
    raise AssertionError


def scaled(split: Split) -> Split:
    """Dense features in [-1, 1] and a target of mean 0 and variance 1, by what the training part says."""
    low, high = split.X_train.min(axis=0), split.X_train.max(axis=0)
    middle, half = (low + high) / 2, np.where(high > low, (high - low) / 2, 1.0)
    mean, deviation = split.y_train.mean(), split.y_train.std()
    return Split(
        (split.X_train - middle) / half,
        (split.X_test - middle) / half,
        (split.y_train - mean) / deviation,
        (split.y_test - mean) / deviation,
    )


def _some(split: Split, rows: int) -> Split:
    rng = np.random.RandomState(0)
    train = np.sort(rng.permutation(split.X_train.shape[0])[:rows])
    test = np.sort(rng.permutation(split.X_test.shape[0])[:rows])
    return Split(split.X_train[train], split.X_test[test], split.y_train[train], split.y_test[test])


def stand_in(name: str, rows: int) -> Split:
    """Data of the same kind, small and made on the spot; a third more rows than asked for are there to test on."""
    rng = np.random.RandomState(0)
    n = rows + rows // 3
    X, y = {"movielens_1m": _ratings, "lastfm": _ratings, "a9a": _labels, "e2006": _words, "imdb": _words}.get(
        name, _measurements
    )(n, rng)
    return Split(*train_test_split(X, y, train_size=rows, random_state=0))


def _measurements(n: int, rng) -> tuple[np.ndarray, np.ndarray]:
    X = rng.uniform(-1, 1, size=(n, 6))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 * X[:, 4]
    return X, y + 0.1 * rng.standard_normal(n)


def _ratings(n: int, rng) -> tuple[sp.csr_matrix, np.ndarray]:
    users, items = rng.randint(20, size=n), rng.randint(15, size=n)
    U, V = rng.standard_normal((20, 2)), rng.standard_normal((15, 2))
    indices = np.column_stack([users, 20 + items]).ravel().astype(np.int32)
    X = sp.csr_matrix((np.ones(2 * n), indices, np.arange(0, 2 * n + 1, 2, dtype=np.int32)), shape=(n, 35))
    return X, 3 + np.sum(U[users] * V[items], axis=1) + 0.1 * rng.standard_normal(n)


def _words(n: int, rng) -> tuple[sp.csr_matrix, np.ndarray]:
    X = sp.csr_matrix((rng.uniform(size=(n, 60)) < 0.2).astype(float))
    return X, 3 + anova_kernel(X.toarray(), rng.standard_normal((1, 60)), 2)[:, 0] + rng.standard_normal(n)


def _labels(n: int, rng) -> tuple[sp.csr_matrix, np.ndarray]:
    X = sp.csr_matrix((rng.uniform(size=(n, 12)) < 0.4).astype(float))
    scores = anova_kernel(X.toarray(), rng.standard_normal((2, 12)), 2).sum(axis=1)
    return X, np.where(scores + 0.3 * rng.standard_normal(n) > np.median(scores), 1.0, -1.0)
