"""The data sets of the paper, and two more, read from their publishers' own files.

Every loader takes the directory that holds the files, `data_home` (or else the environment variable POLYFM_DATA_HOME,
or else ``~/.cache/polyfm``), and `download`: whether files that are not there are fetched from their publisher into it,
which needs pooch. The counts of what was read are verified. A loader returns X and y, dense or CSR, of float64; where
the publisher made the split into training and test data, it returns that `Split`.
"""

import os
import re
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
import sklearn.datasets
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import train_test_split

from polyfm.datasets._published import File, data_home, published
from polyfm.files.atomic import DataFileError, reading_data
from polyfm.files.svmlight import read_svmlight

Home = str | os.PathLike[str] | None
T = TypeVar("T")


class Split(NamedTuple):
    """Training and test data.

    Attributes
    ----------
    X_train, X_test : ndarray or csr_matrix
        Features.
    y_train, y_test : ndarray
        Targets.
    """

    X_train: Any
    X_test: Any
    y_train: np.ndarray
    y_test: np.ndarray


def train_test(name: str, data_home: Home = None, *, random_state: Any = 0, download: bool = False) -> Split:
    """Load a data set and split it: the publisher's split where there is one, else 75% and 25% at random.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    data_home : str or path-like, default=None
        The directory of the publisher's files; see `polyfm.datasets.data_home`.
    random_state : int, RandomState or None, default=0
        Seed of the random split.
    download : bool, default=False
        Whether to fetch files that are missing.

    Returns
    -------
    Split
        The named tuple (X_train, X_test, y_train, y_test).

    Raises
    ------
    FileNotFoundError
        If a file is missing: with its address, and where to put it.
    ValueError
        If a file is cut short, malformed or another one.

    Examples
    --------
    >>> from polyfm.datasets import train_test
    >>> split = train_test("diabetes")
    >>> split.X_train.shape, split.X_test.shape
    ((331, 10), (111, 10))
    """
    if name not in _LOADERS:
        raise ValueError(f"There is no data set {name!r}. Choose one of {', '.join(NAMES)}.")
    data = _LOADERS[name](data_home, download=download)
    if isinstance(data, Split):
        return data
    return Split(*train_test_split(*data, test_size=0.25, random_state=random_state))


def _loader(load: T) -> T:
    """Write what all loaders have in common into a docstring."""
    load.__doc__ = f"""{(load.__doc__ or "").rstrip()}

    Parameters
    ----------
    data_home : str or path-like, default=None
        The directory of the publisher's files; see `polyfm.datasets.data_home`.
    download : bool, default=False
        Whether to fetch files that are missing.
    """
    return load


@_loader
def load_diabetes(data_home: Home = None, *, download: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Disease progression from 10 measurements of 442 patients. It comes with scikit-learn: no file is needed."""
    return sklearn.datasets.load_diabetes(return_X_y=True)


@_loader
def load_abalone(data_home: Home = None, *, download: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Rings (the age) of 4,177 abalones from 8 measurements, not scaled."""
    return _load_dense("abalone", data_home, download)


@_loader
def load_cadata(data_home: Home = None, *, download: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """House prices in 20,640 Californian districts from 8 features, not scaled."""
    return _load_dense("cadata", data_home, download)


@_loader
def load_cpusmall(data_home: Home = None, *, download: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Share of a processor's time in user mode from 12 measurements of the system, 8,192 times, not scaled."""
    return _load_dense("cpusmall", data_home, download)


@_loader
def load_e2006(data_home: Home = None, *, download: bool = False) -> Split:
    """Volatility of stock returns from the tf-idf of 16,087 + 3,308 financial reports; 150,360 features."""
    return _load_split("e2006", data_home, download)


@_loader
def load_a9a(data_home: Home = None, *, download: bool = False) -> Split:
    """Whether an adult's income is high (1 or -1) from 123 binary features; 32,561 + 16,281 rows."""
    return _load_split("a9a", data_home, download)


@_loader
def load_movielens_1m(data_home: Home = None, *, download: bool = False) -> tuple[sp.csr_matrix, np.ndarray]:
    """1,000,209 ratings, 1 to 5, of 3,706 movies by 6,040 users, one-hot: the users' columns, then the movies'."""
    with published("movielens_1m", data_home, download) as (ratings,):
        user, movie, rating, _ = _integers(ratings.path, 4).T
        X, n_users, n_movies = _one_hot(user, movie)
        ratings.check(ratings=len(rating), users=n_users, movies=n_movies)
    return X, rating.astype(np.float64)


@_loader
def load_lastfm(data_home: Home = None, *, download: bool = False) -> tuple[sp.csr_matrix, np.ndarray]:
    """How many times a tag was given to an artist: 108,437 pairs of 12,133 artists and 9,718 tags, one-hot.

    The artists' columns come first. Artists without an entry in the publisher's list are left out, as in the paper.
    """
    with published("lastfm", data_home, download) as (tagged, artists):
        _, artist, tag, _, _, _ = _integers(tagged.path, 6, header=True).T
        with reading_data(artists.path) as file:
            listed = np.array(re.findall(rb"^(\d+)\t", file.read(), re.MULTILINE)).astype(np.int64)
        kept = np.isin(artist, listed)
        pairs, counts = np.unique(np.column_stack([artist[kept], tag[kept]]), axis=0, return_counts=True)
        X, n_artists, n_tags = _one_hot(*pairs.T)
        tagged.check(assignments=len(artist), pairs=len(pairs), artists=n_artists, tags=n_tags)
    return X, counts.astype(np.float64)


@_loader
def load_imdb(data_home: Home = None, *, download: bool = False) -> Split:
    """Stars, 1 to 10, from the tf-idf of the words of 25,000 + 25,000 film reviews.

    The words are those of the publisher's vocabulary, their counts the publisher's; idf is that of the training part.
    """
    with published("imdb", data_home, download) as (train, test, vocabulary):
        with reading_data(vocabulary.path) as file:
            n_words = len(file.read().splitlines())
        X_train, y_train = _svmlight(train, n_words, zero_based=True)
        X_test, y_test = _svmlight(test, n_words, zero_based=True)
    tfidf = TfidfTransformer().fit(X_train)
    return Split(tfidf.transform(X_train), tfidf.transform(X_test), y_train, y_test)


_LOADERS: dict[str, Any] = {
    "diabetes": load_diabetes,
    "abalone": load_abalone,
    "cadata": load_cadata,
    "cpusmall": load_cpusmall,
    "e2006": load_e2006,
    "movielens_1m": load_movielens_1m,
    "lastfm": load_lastfm,
    "a9a": load_a9a,
    "imdb": load_imdb,
}
#: The names of the data sets, for `train_test`.
NAMES = tuple(_LOADERS)


def _load_dense(name: str, home: Home, download: bool) -> tuple[np.ndarray, np.ndarray]:
    with published(name, home, download) as (file,):
        X, y = _svmlight(file)
    return X.toarray(), y


def _load_split(name: str, home: Home, download: bool) -> Split:
    with published(name, home, download) as (train, test):
        X_train, y_train = _svmlight(train)
        X_test, y_test = _svmlight(test, X_train.shape[1])
    return Split(X_train, X_test, y_train, y_test)


def _svmlight(file: File, n_features: int | None = None, zero_based: bool = False) -> tuple[sp.csr_matrix, np.ndarray]:
    X, y = read_svmlight(file.path, n_features=n_features, zero_based=zero_based)
    file.check(rows=X.shape[0], features=X.shape[1], nonzeros=int(np.count_nonzero(X.data)))
    return X, y


def _integers(path: Path, n_columns: int, header: bool = False) -> np.ndarray:
    """A table of whole numbers, between blanks or double colons."""
    with reading_data(path) as file:
        if header:
            file.readline()
        text = file.read().replace(b"::", b" ").strip()
    if text.translate(None, b"0123456789 \t\r\n"):
        raise DataFileError(f"{path}: holds something that is not a whole number.")
    numbers = np.fromstring(text, dtype=np.int64, sep=" ")
    if len(numbers) % n_columns:
        raise DataFileError(f"{path}: has a line that does not hold {n_columns} numbers.")
    return numbers.reshape(-1, n_columns)


def _one_hot(first: np.ndarray, second: np.ndarray) -> tuple[sp.csr_matrix, int, int]:
    """A column for each value of the first field, then of the second, in increasing order; and their numbers."""
    first_values, first_codes = np.unique(first, return_inverse=True)
    second_values, second_codes = np.unique(second, return_inverse=True)
    n_first, n_second = len(first_values), len(second_values)
    indices = np.column_stack([first_codes, second_codes + n_first]).ravel().astype(np.int32)
    indptr = np.arange(0, len(indices) + 1, 2, dtype=np.int32)
    X = sp.csr_matrix((np.ones(len(indices)), indices, indptr), shape=(len(first), n_first + n_second))
    return X, n_first, n_second


__all__ = [
    "NAMES",
    "Split",
    "data_home",
    "load_a9a",
    "load_abalone",
    "load_cadata",
    "load_cpusmall",
    "load_diabetes",
    "load_e2006",
    "load_imdb",
    "load_lastfm",
    "load_movielens_1m",
    "train_test",
]
