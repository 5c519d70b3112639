"""Recommendation beside its peers: the same splits, the same number of tuning trials, rankings over all items.

    POLYFM_DATA=DIR python benchmarks/recommend.py implicit --data ml-1m     # or lastfm: NDCG@20, Recall@20, seconds
    POLYFM_DATA=DIR python benchmarks/recommend.py cold                      # movies that nobody has rated yet
    POLYFM_DATA=DIR python benchmarks/recommend.py warp                      # MovieLens 100K, as LightFM's example
    POLYFM_DATA=DIR python benchmarks/recommend.py epoch                     # all pairs against explicit ratings
    POLYFM_DATA=DIR python benchmarks/recommend.py defaults                  # a grid of omega and reg, on validation
    python benchmarks/recommend.py top                                       # top-10 of 30,000 items, 100,000 users

Peers are `implicit` and `irspack`, where they are installed. Everybody has one thread; times are CPU seconds.
"""

import argparse
import gzip
import itertools
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import scipy.sparse as sp  # noqa: E402

from polyfm import FactorizationMachineRegressor  # noqa: E402
from polyfm.recommend import Recommender, auc_score, cold_split, random_split, ranking_metrics, top_n  # noqa: E402

TRIALS = 8
K = 20


def data_home() -> Path:
    return Path(os.environ["POLYFM_DATA"])


def movielens_1m() -> pd.DataFrame:
    arrays = np.load(data_home() / "ml-1m" / "ratings.npz")
    table = pd.DataFrame({"user": arrays["user"], "item": arrays["movie"], "rating": arrays["rating"]})
    return table[table.rating >= 4][["user", "item"]]


def movies() -> pd.DataFrame:
    with gzip.open(data_home() / "ml-1m" / "movies.dat.gz", "rt", encoding="latin-1") as file:
        rows = [line.rstrip("\n").split("::") for line in file]
    table = pd.DataFrame(rows, columns=["item", "title", "genres"])
    genres = table.genres.str.get_dummies("|").astype(float)
    year = table.title.str.extract(r"\((\d{4})\)")[0].astype(float) // 5 * 5
    return pd.concat([table[["item"]].astype(int), year.rename("years").astype(int).astype(str), genres], axis=1)


def lastfm() -> pd.DataFrame:
    table = pd.read_csv(data_home() / "hetrec2011-lastfm" / "user_artists.dat.gz", sep="\t")
    return table.rename(columns={"userID": "user", "artistID": "item"})[["user", "item"]]


def movielens_100k() -> pd.DataFrame:
    names = ["user", "item", "rating", "time"]
    return pd.read_csv(data_home() / "ml-100k" / "u.data.gz", sep="\t", header=None, names=names)[["user", "item"]]


class Pairs(NamedTuple):
    """Interactions as matrices over the ids of both parts."""

    train: sp.csr_matrix
    test: sp.csr_matrix

    @classmethod
    def of(cls, train: pd.DataFrame, test: pd.DataFrame) -> "Pairs":
        whole = pd.concat([train, test])
        ids = [{value: n for n, value in enumerate(np.unique(whole[name]))} for name in ("user", "item")]

        def matrix(table: pd.DataFrame) -> sp.csr_matrix:
            at = [table[name].map(of) for name, of in zip(("user", "item"), ids, strict=True)]
            return sp.csr_matrix((np.ones(len(table)), at), shape=tuple(map(len, ids)))

        return cls(matrix(train), matrix(test))


def scores(U: np.ndarray, V: np.ndarray, pairs: Pairs) -> dict[str, float]:
    positions, _ = top_n(U, V, K, exclude=pairs.train)
    return ranking_metrics(positions, pairs.test)


# -- contestants: from interactions and settings to vectors of users and items, and the CPU seconds of training --------

Trained = tuple[np.ndarray, np.ndarray, float]


def ours(X: sp.csr_matrix, k: int, settings: dict) -> Trained:
    coo = X.tocoo()
    table = pd.DataFrame({"user": coo.row, "item": coo.col})
    rec = Recommender(feedback="implicit", n_components=k, random_state=0, **settings)
    began = time.process_time()
    rec.fit(table)
    seconds = time.process_time() - began
    U, V = np.zeros((X.shape[0], k)), np.zeros((X.shape[1], k))
    U[rec.users_.values] = rec._engine.vectors(0, rec.users_.X)
    V[rec.items_.values] = rec._engine.vectors(1, rec.items_.X)
    return U, V, seconds


def implicit_als(X: sp.csr_matrix, k: int, settings: dict) -> Trained:
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(factors=k, num_threads=1, random_state=0, **settings)
    began = time.process_time()
    model.fit(X, show_progress=False)
    return model.user_factors, model.item_factors, time.process_time() - began


def irspack_ials(X: sp.csr_matrix, k: int, settings: dict) -> Trained:
    from irspack import IALSRecommender

    model = IALSRecommender(X, n_components=k, n_threads=1, **settings)
    began = time.process_time()
    model.learn()
    return model.get_user_embedding(), model.get_item_embedding(), time.process_time() - began


# What each tunes: as many combinations for everybody, around what suits such data.
CONTESTANTS: dict[str, tuple[Callable, dict]] = {
    "polyfm": (ours, {"omega": [0.03, 0.05, 0.1, 0.2], "reg": [0.005, 0.01], "max_iter": [12]}),
    "implicit": (implicit_als, {"alpha": [3.0, 5.0, 10.0, 20.0], "regularization": [0.1, 10.0], "iterations": [15]}),
    "irspack": (irspack_ials, {"alpha0": [0.03, 0.05, 0.1, 0.2], "reg": [0.005, 0.01], "train_epochs": [12]}),
}


def draws(grid: dict, n: int) -> list[dict]:
    every = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    return [every[i] for i in np.random.RandomState(0).permutation(len(every))[:n]]


def implicit(arguments: argparse.Namespace) -> None:
    table = {"ml-1m": movielens_1m, "lastfm": lastfm}[arguments.data]()
    train, test = random_split(table, "user", random_state=0)
    inner, validation = random_split(train, "user", random_state=1)
    tuning, final = Pairs.of(inner, validation), Pairs.of(train, test)
    for name, (fit, grid) in CONTESTANTS.items():
        if arguments.peer and name not in arguments.peer:
            continue
        fit(tuning.train[:200], 4, {})  # compile
        tried = []
        for settings in draws(grid, arguments.trials):
            U, V, seconds = fit(tuning.train, arguments.k, settings)
            tried.append((scores(U, V, tuning)["ndcg"], settings))
            print(f"  {name} {settings} validation {tried[-1][0]:.4f} {seconds:.2f} s", flush=True)
        chosen = max(tried, key=lambda pair: pair[0])[1]
        U, V, seconds = fit(final.train, arguments.k, chosen)
        found = scores(U, V, final)
        print(f"{arguments.data} k={arguments.k} {name:8s} NDCG@20 {found['ndcg']:.4f} Recall@20 {found['recall']:.4f} "
              f"{seconds:.2f} s {chosen}", flush=True)  # fmt: skip


def defaults(arguments: argparse.Namespace) -> None:
    """What omega and reg give on a validation split of MovieLens 1M; Last.fm is for a check."""
    table = {"ml-1m": movielens_1m, "lastfm": lastfm}[arguments.data]()
    train, _ = random_split(table, "user", random_state=0)
    tuning = Pairs.of(*random_split(train, "user", random_state=1))
    for omega, reg in itertools.product([0.02, 0.05, 0.1, 0.2, 0.4], [0.003, 0.01, 0.03]):
        U, V, seconds = ours(tuning.train, arguments.k, {"omega": omega, "reg": reg})
        print(f"{arguments.data} omega {omega} reg {reg} validation NDCG@20 {scores(U, V, tuning)['ndcg']:.4f} "
              f"{seconds:.2f} s", flush=True)  # fmt: skip


def cold(arguments: argparse.Namespace) -> None:
    """A tenth of the movies is hidden: they are known by genres and years, and ranked among themselves. Settings are
    chosen within the training part of the first of three splits, by the mean of two splits of that."""
    table, features = movielens_1m(), movies()
    known = features[features.item.isin(table.item)]
    train, _ = cold_split(table, "item", random_state=0)
    seen = known[known.item.isin(train.item)]
    for name, run in (("polyfm", _cold_ours), ("irspack", _cold_irspack)):
        tried = []
        for settings in draws(COLD[name], arguments.trials):
            inner = (cold_split(train, "item", random_state=seed) for seed in (1, 2))
            tried.append((np.mean([run(*parts, seen, arguments.k, settings) for parts in inner]), settings))
            print(f"  {name} {settings} validation {tried[-1][0]:.4f}", flush=True)
        chosen = max(tried, key=lambda pair: pair[0])[1]
        outer = (cold_split(table, "item", random_state=seed) for seed in (0, 11, 12))
        found = [run(*parts, known, arguments.k, chosen) for parts in outer]
        each = " ".join(f"{value:.4f}" for value in found)
        print(f"cold items k={arguments.k} {name} NDCG@20 {np.mean(found):.4f} ({each}) {chosen}", flush=True)


COLD = {
    "polyfm": {"omega": [0.05, 0.1, 0.2, 0.4], "reg": [0.005, 0.02], "max_iter": [12]},
    "irspack": {"alpha0": [0.1, 0.2], "reg": [0.005, 0.02], "lambda_item_feature": [1.0, 100.0]},
}


def _cold_ours(train, hidden, features, k: int, settings: dict) -> float:
    rec = Recommender(feedback="implicit", n_components=k, random_state=0, **settings).fit(train, items=features)
    who, what = rec.users_.find(np.unique(hidden.user)), rec.items_.find(np.unique(hidden.item))
    return _ndcg(rec._engine.vectors(0, rec.users_.X[who]), rec._item_vectors(what), hidden)


def _cold_irspack(train, hidden, features, k: int, settings: dict) -> float:
    from irspack import IALSRecommender

    pairs = Pairs.of(train, train[:0])
    items = np.unique(train.item)
    encoded = pd.get_dummies(features.set_index("item"), columns=["years"]).astype(float)
    F = sp.csr_matrix(encoded.loc[items].to_numpy())
    model = IALSRecommender(pairs.train, item_features=F, n_components=k, n_threads=1, train_epochs=12, **settings)
    model.learn()
    asked, users = np.unique(hidden.item), np.unique(train.user)
    V = model.compute_item_embedding_from_features(sp.csr_matrix(encoded.loc[asked].to_numpy()))
    U = model.get_user_embedding()[np.searchsorted(users, np.unique(hidden.user))]
    return _ndcg(U, V, hidden)


def _ndcg(U, V, hidden) -> float:
    at = [np.unique(hidden[name], return_inverse=True)[1] for name in ("user", "item")]
    relevant = sp.csr_matrix((np.ones(len(hidden)), at), shape=(len(U), len(V)))
    return ranking_metrics(top_n(U, V, K)[0], relevant)["ndcg"]


def warp(arguments: argparse.Namespace) -> None:
    """Ten ratings of each user held out, every rating a positive; means over five splits."""
    table = movielens_100k()
    for loss, k, epochs, reg, rate in (
        ("warp", 10, 10, 0.01, 0.05), ("warp", 30, 30, 0.01, 0.05), ("warp", 30, 50, 1.0, 0.1),
        ("bpr", 30, 30, 0.01, 0.05),
    ):  # fmt: skip
        found: dict[str, list[tuple[float, float]]] = {"seen items left in": [], "left out": []}
        for split in range(5):
            mixed = table.iloc[np.random.RandomState(split).permutation(len(table))]
            held_out = mixed.groupby("user").cumcount() < 10
            train, test = mixed[~held_out], mixed[held_out]
            options = {"n_components": k, "max_iter": epochs, "reg": reg, "learning_rate": rate, "random_state": split}
            rec = Recommender(feedback="implicit", loss=loss, **options).fit(train)
            known = test[test.item.isin(train.item)]
            at = rec.users_.find(known.user), rec.items_.find(known.item)
            relevant = sp.csr_matrix((np.ones(len(known)), at), shape=rec.seen_.shape)
            U, V = rec._engine.vectors(0, rec.users_.X), rec._item_vectors()
            for (_, scores), exclude in zip(found.items(), (None, rec.seen_), strict=True):
                precision = ranking_metrics(top_n(U, V, 10, exclude=exclude)[0], relevant)["precision"]
                scores.append((precision, auc_score(U, V, relevant, exclude)))
        for how, scores in found.items():
            precision, auc = np.mean(scores, axis=0)
            print(
                f"{loss} {k=} {epochs=} {reg=} {rate=}, {how}: precision@10 {precision:.4f} AUC {auc:.4f}", flush=True
            )


def epoch(arguments: argparse.Namespace) -> None:
    """One epoch over all pairs, and one of block descent over the same rows as ratings."""
    table = movielens_1m()
    rng = np.random.RandomState(0)
    rated = table.assign(rating=rng.standard_normal(len(table)))
    times: dict[str, list[float]] = {"all pairs": [], "ratings": []}
    for _ in range(3):
        rec = Recommender(feedback="implicit", n_components=arguments.k, max_iter=4, random_state=0)
        times["all pairs"].append(_epochs(lambda rec=rec: rec.fit(table)))
        model = FactorizationMachineRegressor(
            n_components=arguments.k, alpha=1.0, beta=1.0, max_iter=4, tol=0.0, random_state=0
        )
        explicit = Recommender(estimator=model)
        times["ratings"].append(_epochs(lambda rec=explicit: rec.fit(rated, "rating")))
    a, b = min(times["all pairs"]), min(times["ratings"])
    print(f"k={arguments.k}: an epoch over all pairs {a:.3f} s, of ratings {b:.3f} s: {a / b:.2f} times", flush=True)


def _epochs(fit: Callable) -> float:
    """CPU seconds of the shortest epoch of a fit."""
    import warnings

    from polyfm.training import hooks

    times = [time.process_time()]
    with warnings.catch_warnings(), hooks.watching(lambda progress: times.append(time.process_time())):
        warnings.simplefilter("ignore")
        fit()
    return float(np.diff(times)[1:].min())


def top(arguments: argparse.Namespace) -> None:
    rng = np.random.RandomState(0)
    users, items = rng.standard_normal((100_000, 32)), rng.standard_normal((30_000, 32))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    top_n(users[:300], items, 10)
    times: dict[str, list[float]] = {"polyfm": [], "implicit": []}
    model = _implicit_with(users, items)
    for _ in range(arguments.rounds):
        began = time.process_time()
        mine, _ = top_n(users, items, 10)
        times["polyfm"].append(time.process_time() - began)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if model is not None:
            began = time.process_time()
            theirs = model.recommend(np.arange(len(users)), None, 10, filter_already_liked_items=False)[0]
            times["implicit"].append(time.process_time() - began)
            print(f"the same items in the same order: {np.mean(mine == theirs):.5f}")
    print({name: round(min(found), 2) for name, found in times.items() if found}, "CPU s;",
          f"peak memory {memory / 1024:.0f} MB, of which {before / 1024:.0f} before", flush=True)  # fmt: skip


def _implicit_with(users, items):
    try:
        from implicit.als import AlternatingLeastSquares
    except ImportError:
        return None
    model = AlternatingLeastSquares(factors=32, num_threads=1)
    model.user_factors, model.item_factors = users.astype(np.float32), items.astype(np.float32)
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["implicit", "defaults", "cold", "warp", "epoch", "top"])
    parser.add_argument("--data", choices=["ml-1m", "lastfm"], default="ml-1m")
    parser.add_argument("--peer", nargs="*", choices=list(CONTESTANTS))
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-k", type=int, default=32)
    arguments = parser.parse_args()
    globals()[arguments.what](arguments)
