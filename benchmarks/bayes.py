"""Bayesian machines beside myFM (from PyPI), on the same rows and one thread: CPU seconds, errors, coverage.

    POLYFM_DATA=DIR OMP_NUM_THREADS=1 python benchmarks/bayes.py [iteration ml-1m fold3 ordinal networks lifted ...]
    POLYFM_DATA=DIR OMP_NUM_THREADS=1 python benchmarks/bayes.py blind [SET ...]

Nothing is tuned by data set: ranks are those that others have published, all else is default.
"""

import sys
import time
import warnings

import data
import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from polyfm import (
    BayesianFactorizationMachineClassifier,
    BayesianFactorizationMachineOrdinal,
    BayesianFactorizationMachineRegressor,
    BayesianPolynomialNetworkRegressor,
    FactorizationMachineClassifierCV,
    FactorizationMachineRegressorCV,
    PolynomialNetworkRegressor,
)
from polyfm.core.design import Design
from polyfm.core.fitted import Fitted
from polyfm.training.hooks import watching


def rmse(y, f, y_train) -> float:
    return float(np.sqrt(np.mean((np.clip(f, y_train.min(), y_train.max()) - y) ** 2)))


def report(*words) -> None:
    print(*words, sep="   ", flush=True)


def compile_loops(X, y, **options) -> None:
    some = BayesianFactorizationMachineRegressor(inference="gibbs", n_samples=1, max_iter=1, random_state=0, **options)
    some.fit(X, y).predict(X[:10], return_std=True)


def timed(fit, clock=time.process_time) -> tuple[object, float]:
    began = clock()
    model = fit()
    return model, clock() - began


# -- one iteration ----------------------------------------------------------------------------------------------------


def iteration() -> None:
    """CPU seconds of one iteration on MovieLens 1M, rank 30: what more iterations take, by turns. On two threads it is
    seconds by the clock."""
    import myfm

    X, _, y, _ = data.movielens_1m()
    compile_loops(X, y, n_components=30)
    groups = np.repeat([0, 1], [6040, 3706])
    ours, both, theirs, bounds = [], [], [], []
    for _ in range(3):
        gibbs = BayesianFactorizationMachineRegressor(
            n_components=30, inference="gibbs", thinning=1, max_iter=1, tol=0, random_state=0, groups=groups
        )
        some, many = (timed(lambda n=n, gibbs=gibbs: gibbs.set_params(n_samples=n).fit(X, y))[1] for n in (1, 21))
        ours.append((many - some) / 20)
        gibbs.set_params(n_jobs=2)
        some, many = (
            timed(lambda n=n, gibbs=gibbs: gibbs.set_params(n_samples=n).fit(X, y), time.perf_counter)[1]
            for n in (1, 21)
        )
        both.append((many - some) / 20)
        variational = BayesianFactorizationMachineRegressor(n_components=30, tol=0, random_state=0, groups=groups)
        some, many = (timed(lambda n=n, model=variational: model.set_params(max_iter=n).fit(X, y))[1] for n in (2, 12))
        bounds.append((many - some) / 10)
        other = myfm.MyFMRegressor(rank=30, random_seed=0)
        some, many = (
            timed(lambda n=n, fm=other: fm.fit(X, y, n_iter=n, n_kept_samples=1, group_shapes=[6040, 3706]))[1]
            for n in (1, 5)
        )
        theirs.append((many - some) / 4)
        report(
            f"Gibbs {ours[-1]:.3f} s", f"on two threads {both[-1]:.3f} s", f"variational {bounds[-1]:.3f} s",
            f"myFM Gibbs {theirs[-1]:.3f} s",
        )  # fmt: skip
    for name, reduce in (("least", min), ("median", np.median)):
        own, two, other = (float(reduce(found)) for found in (ours, both, theirs))
        report(f"{name}: Gibbs {own:.3f}, {two:.3f}, myFM {other:.3f}", f"1/{other / own:.1f}, 1/{other / two:.1f}")


# -- MovieLens 1M against time ----------------------------------------------------------------------------------------


def ml_1m(most_seconds: float = 60.0) -> None:
    """RMSE against CPU seconds, by steps of variational inference; then Gibbs sampling for the same time in all."""
    X, X_test, y, y_test = data.movielens_1m()
    compile_loops(X, y, n_components=30)
    test, spent, reached = Design(X_test), [0.0, time.process_time()], []
    model = BayesianFactorizationMachineRegressor(n_components=30, tol=0, max_iter=60, random_state=0)

    def look(progress) -> None:
        spent[0] += time.process_time() - spent[1]
        f = Fitted(model._model(), [progress.parameters]).predict(test)[0]
        reached.append((spent[0], rmse(y_test, f, y)))
        spent[1] = time.process_time()

    spent[1] = time.process_time()
    with watching(look):
        model.fit(X, y)
    first = next((seconds for seconds, error in reached if error <= 0.8455), None)
    report("variational", f"to .8455 in {first} s", f"60 epochs {reached[-1][1]:.4f} in {reached[-1][0]:.1f} s")
    for max_iter, n_samples in ((40, 50), (40, 150)):
        gibbs = BayesianFactorizationMachineRegressor(
            n_components=30, inference="gibbs", max_iter=max_iter, n_samples=n_samples, tol=0, random_state=0
        )
        _, seconds = timed(lambda gibbs=gibbs: gibbs.fit(X, y))
        f, std = gibbs.predict(X_test, return_std=True)
        covered = np.mean(np.abs(f - y_test) < 1.6449 * std)
        report(f"Gibbs {n_samples} draws", f"{rmse(y_test, f, y):.4f} in {seconds:.1f} s", f"covers {covered:.3f}")


# -- MovieLens 100K, the fold that myFM's authors publish -------------------------------------------------------------


def fold3() -> None:
    import myfm
    import pandas as pd
    import scipy.sparse as sp

    ratings = pd.read_csv(data.home() / "ml-100k" / "u.data.gz", sep="\t", header=None)
    users = pd.read_csv(data.home() / "ml-100k" / "u.user.gz", sep="|", header=None).set_index(0)
    items = pd.read_csv(data.home() / "ml-100k" / "u.item.gz", sep="|", header=None, encoding="latin-1").set_index(0)
    ids = data.one_hot(ratings[0].to_numpy(), ratings[1].to_numpy())
    of_users = users.loc[ratings[0]]
    side = data.one_hot(*((of_users[c] // 10 if c == 1 else of_users[c]).to_numpy() for c in (1, 2, 3)))
    genres = sp.csr_matrix(items.loc[ratings[1]].iloc[:, -19:].to_numpy(float))
    y, test = ratings[2].to_numpy(float), np.zeros(len(ratings), dtype=bool)
    test[40_000:60_000] = True
    sizes = [*(ratings[c].nunique() for c in (0, 1)), side.shape[1], 19]
    for name, X, n_groups in (("ids", ids, 2), ("ids + features", sp.hstack([ids, side, genres]).tocsr(), 4)):
        groups = np.repeat(np.arange(n_groups), sizes[:n_groups])
        compile_loops(X[~test], y[~test], n_components=10)
        for inference in ("variational", "gibbs"):
            model = BayesianFactorizationMachineRegressor(
                n_components=10, inference=inference, groups=groups, n_samples=200, random_state=0
            )
            _, seconds = timed(lambda model=model, X=X: model.fit(X[~test], y[~test]))
            error = rmse(y[test], model.predict(X[test]), y)
            report("fold 3", name, inference, f"{error:.4f} in {seconds:.1f} s")
        other = myfm.MyFMRegressor(rank=10, random_seed=0)
        _, seconds = timed(
            lambda X=X, other=other, n=n_groups: other.fit(
                X[~test], y[~test], n_iter=500, n_kept_samples=500, group_shapes=sizes[:n]
            )
        )
        report("fold 3", name, "myFM Gibbs 500", f"{rmse(y[test], other.predict(X[test]), y):.4f} in {seconds:.1f} s")


def ordinal() -> None:
    """The same fold, ids alone, ratings as ordered classes."""
    import pandas as pd

    ratings = pd.read_csv(data.home() / "ml-100k" / "u.data.gz", sep="\t", header=None)
    X, y = data.one_hot(ratings[0].to_numpy(), ratings[1].to_numpy()), ratings[2].to_numpy()
    groups = np.repeat([0, 1], [ratings[0].nunique(), ratings[1].nunique()])
    test = np.zeros(len(y), dtype=bool)
    test[40_000:60_000] = True
    for inference in ("variational", "gibbs"):
        model = BayesianFactorizationMachineOrdinal(
            n_components=10, inference=inference, groups=groups, n_samples=200, random_state=0
        )
        _, seconds = timed(lambda model=model: model.fit(X[~test], y[~test]))
        error = np.sqrt(np.mean((model.predict_mean(X[test]) - y[test]) ** 2))
        report("ordinal, fold 3", inference, f"log-loss {log_loss(y[test], model.predict_proba(X[test])):.4f}",
               f"RMSE {error:.4f}", f"{seconds:.1f} s")  # fmt: skip


# -- intervals --------------------------------------------------------------------------------------------------------


def log_counts():
    X, X_test, y, y_test = data.lastfm()
    return X, X_test, np.log1p(y), np.log1p(y_test)


SETS = {
    "ml-100k": (data.movielens_100k, 20),
    "ml-100k + features": (data.movielens_100k_with_features, 20),
    "abalone": (lambda: data.dense("abalone"), 10),
    "cadata": (lambda: data.dense("cadata"), 10),
    "cpusmall": (lambda: data.dense("cpusmall"), 10),
    "lastfm log counts": (log_counts, 10),
    "lastfm counts": (data.lastfm, 10),
    "lastfm listening": (data.lastfm_listening, 10),
    "diabetes": (data.diabetes, 5),
}


def coverage(n_splits: int = 1) -> None:
    """How often test targets are within intervals of 90 (50) per cent, and errors; mean over splits."""
    for name, (load, rank) in SETS.items():
        X, X_test, y, y_test = load()
        for inference in ("variational", "gibbs"):
            found = []
            for split in range(n_splits):
                parts = X, X_test, y, y_test
                if split:
                    whole = np.concatenate([y, y_test])
                    stacked = np.vstack([X, X_test]) if isinstance(X, np.ndarray) else _stacked(X, X_test)
                    parts = train_test_split(stacked, whole, test_size=0.25, random_state=split)
                model = BayesianFactorizationMachineRegressor(n_components=rank, inference=inference, random_state=0)
                _, seconds = timed(lambda model=model, parts=parts: model.fit(parts[0], parts[2]))
                f, std = model.predict(parts[1], return_std=True)
                within = [np.mean(np.abs(f - parts[3]) < z * std) for z in (1.6449, 0.6745)]
                found.append((*within, rmse(parts[3], f, parts[2]), seconds, model.n_iter_))
            mean = np.mean(found, axis=0)
            report(name, inference, f"covers {mean[0]:.3f} ({mean[1]:.3f})", f"RMSE {mean[2]:.4f}",
                   f"{mean[3]:.1f} s", f"{mean[4]:.0f} epochs")  # fmt: skip


def _stacked(*parts):
    import scipy.sparse as sp

    return sp.vstack(parts).tocsr()


def penalties() -> None:
    """Against one penalty, chosen by cross-validation."""
    for name, (load, rank) in SETS.items():
        X, X_test, y, y_test = load()
        model = FactorizationMachineRegressorCV(n_components=rank, random_state=0)
        _, seconds = timed(lambda model=model, X=X, y=y: model.fit(X, y))
        report(name, f"cross-validated RMSE {rmse(y_test, model.predict(X_test), y):.4f}", f"{seconds:.1f} s")


# -- classes ----------------------------------------------------------------------------------------------------------


def a9a() -> None:
    import myfm

    X, X_test, y, y_test = data.a9a()
    for inference in ("variational", "gibbs"):
        model = BayesianFactorizationMachineClassifier(n_components=10, inference=inference, random_state=0)
        _, seconds = timed(lambda model=model: model.fit(X, y))
        p = model.predict_proba(X_test)[:, 1]
        report("a9a", inference, f"log-loss {log_loss(y_test, p):.5f}", f"AUC {roc_auc_score(y_test, p):.5f}",
               f"{seconds:.1f} s")  # fmt: skip
    other = myfm.MyFMClassifier(rank=10, random_seed=0)
    _, seconds = timed(lambda: other.fit(X, y > 0, n_iter=200, n_kept_samples=190))
    p = other.predict_proba(X_test)
    report("a9a", "myFM Gibbs 200", f"log-loss {log_loss(y_test, p):.5f}", f"AUC {roc_auc_score(y_test, p):.5f}",
           f"{seconds:.1f} s")  # fmt: skip


# -- beside one penalty, over several splits ---------------------------------------------------------------------------


def imdb_words(n_words: int = 2000):
    """The words that most reviews have."""
    X, X_test, y, y_test = data.imdb()
    words = np.sort(np.argsort(-X.getnnz(axis=0), kind="stable")[:n_words])
    return X[:, words], X_test[:, words], y, y_test


# Whether the rule for starts and hyper-priors was chosen with a look at this set; how many splits; fixed options.
BLIND = {
    "ml-100k + features": (False, 5, {}),
    "cpusmall": (False, 5, {}),
    "lastfm counts": (False, 5, {}),
    "lastfm listening": (False, 5, {}),
    "diabetes": (False, 5, {}),
    "criteo": (False, 5, {}),
    "a9a": (False, 5, {}),
    "imdb": (False, 2, {"max_iter": 40}),
    "ml-1m": (False, 5, {"max_iter": 40}),
    "ml-100k": (True, 5, {}),
    "abalone": (True, 5, {}),
    "cadata": (True, 5, {}),
    "lastfm log counts": (True, 5, {}),
}
MORE_SETS = {"ml-1m": (data.movielens_1m, 30), "imdb": (imdb_words, 5)}
CLASSES = {"criteo": (data.criteo, 10), "a9a": (data.a9a, 10)}


def blind(*names) -> None:
    """Mean errors (RMSE; log loss of classes) over splits, and how often intervals of 90% hold. In parentheses: the
    error over that of one penalty, which is chosen by cross-validation on the same rows."""
    for name in names or BLIND:
        seen, n_splits, options = BLIND[name]
        classes = name in CLASSES
        load, rank = CLASSES[name] if classes else (SETS | MORE_SETS)[name]
        X, X_test, y, y_test = load()
        X = np.vstack([X, X_test]) if isinstance(X, np.ndarray) else _stacked(X, X_test)
        y = np.concatenate([y, y_test])
        errors, held, seconds = [], [], []
        for split in range(1, n_splits + 1):
            parts = train_test_split(X, y, test_size=0.25, random_state=split)
            found = [_errors(classes, kind, rank, options, *parts) for kind in ("variational", "gibbs", "CV")]
            errors.append([f[0] for f in found])
            held.append([f[1] for f in found[:2]])
            seconds.append([f[2] for f in found])
        mean, cover, spent = (np.mean(values, axis=0) for values in (errors, held, seconds))
        report(
            name, "(looked at)" if seen else "", f"{n_splits} splits",
            *(f"{kind} {e:.4f} ({e / mean[2]:.3f})" for kind, e in zip(("variational", "Gibbs"), mean, strict=False)),
            f"CV {mean[2]:.4f}", "" if classes else f"90%: {100 * cover[0]:.1f} / {100 * cover[1]:.1f}",
            f"{spent[0]:.1f} / {spent[1]:.1f} / {spent[2]:.1f} s",
        )  # fmt: skip


def _errors(classes, kind, rank, options, X, X_test, y, y_test) -> tuple[float, float, float]:
    """The error on test rows, the share of them in intervals of 90%, and seconds."""
    if kind == "CV":
        cls = FactorizationMachineClassifierCV if classes else FactorizationMachineRegressorCV
        model = cls(n_components=rank, random_state=0)
    else:
        cls = BayesianFactorizationMachineClassifier if classes else BayesianFactorizationMachineRegressor
        model = cls(n_components=rank, inference=kind, random_state=0, **options)
    _, seconds = timed(lambda: model.fit(X, y))
    if classes:
        return log_loss(y_test, model.predict_proba(X_test)), np.nan, seconds
    f, held = model.predict(X_test), np.nan
    if kind != "CV":
        low, high = model.predict_interval(X_test)
        held = float(np.mean((low < y_test) & (y_test < high)))
    return rmse(y_test, f, y), held, seconds


# -- where they are not the right tool: dense classes, ranks that are too large ----------------------------------------


def small() -> None:
    """Log losses on the classes that come with scikit-learn, features scaled, mean over three splits; beside one
    penalty that is chosen by cross-validation, and the linear model."""
    from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.preprocessing import StandardScaler

    kinds = {
        "variational": BayesianFactorizationMachineClassifier(random_state=0),
        "Gibbs": BayesianFactorizationMachineClassifier(inference="gibbs", random_state=0),
        "CV": FactorizationMachineClassifierCV(random_state=0),
        "linear": LogisticRegressionCV(max_iter=1000),
    }
    for load in (load_iris, load_wine, load_breast_cancer, load_digits):
        X, y = load(return_X_y=True)
        found: dict[str, list[float]] = {kind: [] for kind in kinds}
        for split in range(3):
            X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=split, stratify=y)
            scaler = StandardScaler().fit(X_train)
            for kind, model in kinds.items():
                model.fit(scaler.transform(X_train), y_train)
                found[kind].append(log_loss(y_test, model.predict_proba(scaler.transform(X_test))))
        report(load.__name__, *(f"{kind} {np.mean(losses):.3f}" for kind, losses in found.items()))


def ranks() -> None:
    """200 rows of x0 x1 + x2 with noise of 1: the error of the function that was learned, mean over ten draws."""
    for inference in ("variational", "gibbs"):
        errors = []
        for k in (5, 20, 100):
            model = BayesianFactorizationMachineRegressor(n_components=k, inference=inference, random_state=0)
            of_draws = []
            for seed in range(10):
                rng = np.random.RandomState(seed)
                X, X_test = rng.standard_normal((200, 6)), rng.standard_normal((2000, 6))
                f, f_test = (Z[:, 0] * Z[:, 1] + Z[:, 2] for Z in (X, X_test))
                model.fit(X, f + rng.standard_normal(200))
                of_draws.append(np.sqrt(np.mean((model.predict(X_test) - f_test) ** 2)))
            errors.append(f"rank {k} {np.mean(of_draws):.3f}")
        report(inference, *errors)


def networks() -> None:
    """Polynomial networks of rank 10 on dense sets: mean RMSE over three splits, share of test targets in intervals of
    90%, and CPU seconds. Beside them ordinary ones, whose penalties are chosen on held-out rows, and ridge regression
    on all monomials."""
    X, _, y, _ = data.diabetes()
    for degree in (2, 3):  # loops are compiled
        for cls in (BayesianPolynomialNetworkRegressor, PolynomialNetworkRegressor):
            cls(degree=degree, max_iter=2, random_state=0).fit(X, y)
    for name in ("diabetes", "abalone", "cadata", "cpusmall"):
        X, X_test, y, y_test = data.diabetes() if name == "diabetes" else data.dense(name)
        X, y = np.vstack([X, X_test]), np.concatenate([y, y_test])
        for degree in (2, 3):
            kinds = {
                "Bayesian": BayesianPolynomialNetworkRegressor(degree=degree, random_state=0),
                "penalties": PolynomialNetworkRegressor(degree=degree, random_state=0),
                "ridge": make_pipeline(PolynomialFeatures(degree), RidgeCV(np.logspace(-3, 5, 17))),
            }
            found: dict[str, list[tuple[float, ...]]] = {kind: [] for kind in kinds}
            for split in range(1, 4):
                X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=split)
                scaler = StandardScaler().fit(X_train)
                X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
                for kind, model in kinds.items():
                    _, seconds = timed(lambda model=model, X=X_train, y=y_train: model.fit(X, y))
                    f, held = model.predict(X_test), np.nan
                    if kind == "Bayesian":
                        low, high = model.predict_interval(X_test)
                        held = np.mean((low <= y_test) & (y_test <= high))
                    found[kind].append((np.sqrt(np.mean((f - y_test) ** 2)), held, seconds))
            means = {kind: np.mean(values, axis=0) for kind, values in found.items()}
            report(
                f"{name}, degree {degree}", f"covers {100 * means['Bayesian'][1]:.1f}%",
                *(f"{kind} {error:.4f} in {seconds:.1f} s" for kind, (error, _, seconds) in means.items()),
            )  # fmt: skip


def lifted() -> None:
    """MovieLens 100K, rank 20: draws of direct and of lifted machines."""
    X, X_test, y, y_test = data.movielens_100k()
    for method in ("direct", "lifted"):
        model = BayesianFactorizationMachineRegressor(n_components=20, method=method, inference="gibbs", random_state=0)
        _, seconds = timed(lambda model=model: model.fit(X, y))
        report("ml-100k", method, f"{rmse(y_test, model.predict(X_test), y):.4f} in {seconds:.1f} s")


PARTS = {
    "iteration": iteration, "ml-1m": ml_1m, "fold3": fold3, "ordinal": ordinal, "coverage": coverage, "a9a": a9a,
    "penalties": penalties, "small": small, "ranks": ranks, "networks": networks,
    "lifted": lifted,
}  # fmt: skip

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["blind"]:
        blind(*sys.argv[2:])
    else:
        for part in sys.argv[1:] or PARTS:
            PARTS[part]()
