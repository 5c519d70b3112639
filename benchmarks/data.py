"""Data sets for the benchmarks, read from the directory that POLYFM_DATA names. None of them is ours to ship."""

import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler


def home() -> Path:
    directory = os.environ.get("POLYFM_DATA")
    if not directory:
        raise SystemExit("Set POLYFM_DATA to the directory that holds ml-1m/, imdb/, abalone.libsvm.gz, ...")
    return Path(directory)


def one_hot(*fields: np.ndarray) -> sp.csr_matrix:
    """Columns of codes as one binary matrix, one block of columns for each field."""
    n, start, columns = len(fields[0]), 0, []
    for field in fields:
        values, codes = np.unique(field, return_inverse=True)
        columns.append(codes + start)
        start += len(values)
    indices = np.column_stack(columns).ravel().astype(np.int32)
    indptr = np.arange(0, len(indices) + 1, len(fields), dtype=np.int32)
    return sp.csr_matrix((np.ones(len(indices)), indices, indptr), shape=(n, start))


def movielens_1m():
    ratings = np.load(home() / "ml-1m" / "ratings.npz")
    X, y = one_hot(ratings["user"], ratings["movie"]), ratings["rating"].astype(float)
    return train_test_split(X, y, test_size=0.25, random_state=0)


def lastfm():
    counts = np.load(home() / "hetrec2011-lastfm" / "artist_tag_counts.npz")
    X, y = one_hot(counts["artist"], counts["tag"]), counts["count"].astype(float)
    return train_test_split(X, y, test_size=0.25, random_state=0)


def imdb_counts():
    """How often words occur in the reviews, star ratings as targets."""
    train, test = (sp.load_npz(home() / "imdb" / f"{part}_counts.npz").astype(float) for part in ("train", "test"))
    ratings = np.load(home() / "imdb" / "ratings.npz")
    return train, test, ratings["y_train"].astype(float), ratings["y_test"].astype(float)


def imdb():
    """tf-idf of the reviews, star ratings as targets."""
    from sklearn.feature_extraction.text import TfidfTransformer

    train, test, y_train, y_test = imdb_counts()
    tfidf = TfidfTransformer().fit(train)
    return tfidf.transform(train), tfidf.transform(test), y_train, y_test


def dense(name: str):
    """abalone, cadata or cpusmall; features and target standardised."""
    X, y = load_svmlight_file(str(home() / f"{name}.libsvm.gz"))
    X_train, X_test, y_train, y_test = train_test_split(X.toarray(), y, test_size=0.25, random_state=0)
    scaler = StandardScaler().fit(X_train)
    mean, std = y_train.mean(), y_train.std()
    return scaler.transform(X_train), scaler.transform(X_test), (y_train - mean) / std, (y_test - mean) / std


def diabetes():
    """The set that comes with scikit-learn; features and target standardised."""
    from sklearn.datasets import load_diabetes

    X_train, X_test, y_train, y_test = train_test_split(*load_diabetes(return_X_y=True), test_size=0.25, random_state=0)
    scaler, mean, std = StandardScaler().fit(X_train), y_train.mean(), y_train.std()
    return scaler.transform(X_train), scaler.transform(X_test), (y_train - mean) / std, (y_test - mean) / std


def imdb_classes():
    """tf-idf of the reviews; whether they are favourable."""
    X_train, X_test, y_train, y_test = imdb()
    return X_train, X_test, (y_train >= 7).astype(int), (y_test >= 7).astype(int)


def lastfm_listening():
    """Logarithms of how often a user has listened to an artist."""
    import pandas as pd

    plays = pd.read_csv(home() / "hetrec2011-lastfm" / "user_artists.dat.gz", sep="\t")
    X = one_hot(plays["userID"].to_numpy(), plays["artistID"].to_numpy())
    return train_test_split(X, np.log1p(plays["weight"].to_numpy(float)), test_size=0.25, random_state=0)


def movielens_100k_with_features():
    """Users with age, gender and occupation, items with genres, as one-hot fields and flags."""
    import pandas as pd

    ratings = pd.read_csv(home() / "ml-100k" / "u.data.gz", sep="\t", header=None)
    users = pd.read_csv(home() / "ml-100k" / "u.user.gz", sep="|", header=None).set_index(0).loc[ratings[0]]
    items = pd.read_csv(home() / "ml-100k" / "u.item.gz", sep="|", header=None, encoding="latin-1")
    genres = items.set_index(0).loc[ratings[1]].iloc[:, -19:].to_numpy(float)
    fields = [ratings[0], ratings[1], users[1] // 10, users[2], users[3]]
    X = sp.hstack([one_hot(*(np.asarray(field) for field in fields)), sp.csr_matrix(genres)], format="csr")
    return train_test_split(X, ratings[2].to_numpy(float), test_size=0.25, random_state=0)


def a9a():
    X_train, y_train = load_svmlight_file(str(home() / "a9a.gz"), n_features=123)
    X_test, y_test = load_svmlight_file(str(home() / "a9a.t.gz"), n_features=123)
    return X_train, X_test, y_train, y_test


def movielens_100k():
    import pandas as pd

    ratings = pd.read_csv(home() / "ml-100k" / "u.data.gz", sep="\t", header=None)
    X, y = one_hot(ratings[0].to_numpy(), ratings[1].to_numpy()), ratings[2].to_numpy(float)
    return train_test_split(X, y, test_size=0.25, random_state=0)


def newsgroups(n_classes: int = 6):
    """tf-idf of the first few of the 20 newsgroups."""
    from sklearn.feature_extraction.text import TfidfTransformer

    train, test = (sp.load_npz(home() / "20news" / f"{part}_counts.npz").astype(float) for part in ("train", "test"))
    targets = np.load(home() / "20news" / "targets.npz")
    few, few_test = targets["y_train"] < n_classes, targets["y_test"] < n_classes
    tfidf = TfidfTransformer().fit(train[few])
    return (
        tfidf.transform(train[few]), tfidf.transform(test[few_test]), targets["y_train"][few],
        targets["y_test"][few_test],
    )  # fmt: skip


def criteo():
    """The tiny sample: integers standardised, categories one-hot."""
    import pandas as pd

    from polyfm.tabular import TableEncoder

    table = pd.read_csv(home() / "criteo" / "train.tiny.csv.gz")
    y = table.pop("Label").to_numpy()
    table = table.drop(columns="Id")
    train, test, y_train, y_test = train_test_split(table, y, test_size=0.25, random_state=0)
    encoder = TableEncoder().fit(train)
    return encoder.transform(train), encoder.transform(test), y_train, y_test


def synthetic_anova(degree: int = 3, n: int = 4000, d: int = 20, rank: int = 5, seed: int = 0):
    """Targets of a random ANOVA model of one degree, with a tenth of noise."""
    from polyfm.kernels import anova_kernel

    rng = np.random.RandomState(seed)
    X, P = rng.standard_normal((n, d)), rng.standard_normal((rank, d))
    y = anova_kernel(X, P, degree).sum(axis=1)
    y /= y.std()
    y += 0.1 * rng.standard_normal(n)
    return train_test_split(X, y, test_size=0.25, random_state=0)


def clicks(n: int = 1_000_000, fields: int = 20, size: int = 10_000, rank: int = 4, seed: int = 0):
    """A made-up log of clicks: one-hot fields whose values are Zipf's, and classes drawn from a machine of low rank."""
    rng = np.random.default_rng(seed)
    frequencies = np.cumsum(1 / np.arange(1.0, size + 1))
    codes = np.searchsorted(frequencies / frequencies[-1], rng.random((n, fields))).clip(max=size - 1).astype(np.int32)
    f, sums = np.full(n, -1.5), np.zeros((n, rank))
    for field in codes.T:
        factors = 0.25 * rng.standard_normal((size, rank))
        f += (0.3 * rng.standard_normal(size) - 0.5 * np.sum(factors**2, axis=1))[field]
        sums += factors[field]
    f += 0.5 * np.sum(sums**2, axis=1)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-f)), 1.0, -1.0)
    codes += np.arange(fields, dtype=np.int32) * size
    indptr = np.arange(0, codes.size + 1, fields, dtype=np.int32)
    X = sp.csr_matrix((np.ones(codes.size), codes.ravel(), indptr), shape=(n, fields * size))
    last = n - n // 10
    return X[:last], X[last:], y[:last], y[last:]
