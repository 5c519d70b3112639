"""Penalties by default against the best of a grid: how much is lost by not tuning.

    POLYFM_DATA=DIR python benchmarks/penalties.py --out penalties.csv
    python benchmarks/penalties.py --report penalties.csv

For every problem, on the same training rows: the defaults (over seeds), the linear model alone at the alpha that they
chose, ``alpha=beta=1``, and a grid of alphas and betas whose best *test* score is what the others are measured against.
Scores are R2, or for classes the share of the deviance that is explained. CPU seconds are those of one thread.
"""

import argparse
import csv
import time
import warnings

import data
import numpy as np
from sklearn.base import is_classifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, r2_score
from sklearn.multiclass import OneVsRestClassifier

import polyfm

FM = {"regression": polyfm.FactorizationMachineRegressor, "classes": polyfm.FactorizationMachineClassifier}
PN = {"regression": polyfm.PolynomialNetworkRegressor, "classes": polyfm.PolynomialNetworkClassifier}
MODELS = {
    "FM 2": (FM, {}),
    "FM 3": (FM, {"degree": 3}),
    "PN 2": (PN, {}),
    "PN 3": (PN, {"degree": 3}),
}


def part(split, share: float, seed: int = 1):
    """The split with this share of its training rows."""
    X, X_test, y, y_test = split
    rows = np.random.RandomState(seed).permutation(X.shape[0])[: int(share * X.shape[0])]
    return X[rows], X_test, y[rows], y_test


# Looked at while the rule was made; "@.1" has a tenth of the training rows.
LOOKED_AT = {
    "diabetes": lambda: data.diabetes(),
    "abalone": lambda: data.dense("abalone"),
    "abalone@.1": lambda: part(data.dense("abalone"), 0.1),
    "cadata": lambda: data.dense("cadata"),
    "cadata@.1": lambda: part(data.dense("cadata"), 0.1),
    "cadata@.02": lambda: part(data.dense("cadata"), 0.02),
    "cpusmall": lambda: data.dense("cpusmall"),
    "cpusmall@.1": lambda: part(data.dense("cpusmall"), 0.1),
    "Criteo": data.criteo,
    "Last.fm tags": data.lastfm,
    "ML-100K": data.movielens_100k,
    "ML-100K@.3": lambda: part(data.movielens_100k(), 0.3),
    "ML-1M": data.movielens_1m,
    "a9a@.1": lambda: part(data.a9a(), 0.1),
    "IMDB@.15": lambda: part(data.imdb(), 0.15),
}
# Run once, when the rule was made.
HELD_BACK = {
    "a9a": data.a9a,
    "IMDB classes": data.imdb_classes,
    "20 newsgroups": data.newsgroups,
    "ML-100K with features": data.movielens_100k_with_features,
    "Last.fm listening": data.lastfm_listening,
}
PROBLEMS = {**LOOKED_AT, **HELD_BACK}
OF_CLASSES = {"Criteo", "a9a", "a9a@.1", "IMDB classes", "20 newsgroups"}


def score(model, X, y) -> float:
    if not is_classifier(model):
        return r2_score(y, model.predict(X))
    classes, counts = np.unique(y, return_counts=True)
    base = log_loss(y, np.tile(counts / len(y), (len(y), 1)), labels=classes)
    return 1 - log_loss(y, np.clip(model.predict_proba(X), 1e-15, 1), labels=model.classes_) / base


def linear_model(task: str, alpha: float):
    if task == "regression":
        return Ridge(alpha=alpha, solver="auto")
    return OneVsRestClassifier(LogisticRegression(C=1 / max(alpha, 1e-12), max_iter=300))


def timed(model, X, y) -> float:
    began = time.process_time()
    model.fit(X, y)
    return time.process_time() - began


def run(name: str, label: str, seeds: int, search: bool):
    X, X_test, y, y_test = PROBLEMS[name]()
    task = "classes" if name in OF_CLASSES else "regression"
    classes, options = MODELS[label]
    make = classes[task]

    def row(kind, alpha, beta, model, seconds):
        return [name, label, kind, alpha, beta, score(model, X_test, y_test), seconds]

    for seed in range(seeds):
        model = make(random_state=seed, **options)
        seconds = timed(model, X, y)
        yield row("auto", model.alpha_, np.max(model.beta_), model, seconds)
    alpha, chosen = model.alpha_, float(np.min(model.beta_))
    given = make(alpha=alpha, beta=model.beta_ if np.ndim(model.beta_) == 0 else chosen, random_state=0, **options)
    seconds = timed(given, X, y)
    yield row("same, given", alpha, chosen, given, seconds)
    if search:
        found = getattr(polyfm, make.__name__ + "CV")(random_state=0, **options)
        seconds = timed(found, X, y)
        yield row("search", found.alpha_, found.beta_, found, seconds)
    if model.fit_linear:
        linear = linear_model(task, alpha)
        seconds = timed(linear, X, y)
        yield row("linear", alpha, np.inf, linear, seconds)
    large = X.shape[0] > 50_000 or (task == "classes" and len(np.unique(y)) > 2)
    alphas = [alpha] if not model.fit_linear else [alpha, 1.0] if large else [alpha / 8, alpha, 8 * alpha, 1.0]
    top = chosen * 2.0 ** np.ceil(np.log2(largest_beta(make(**options), X, y, alpha) / chosen))
    for a in alphas:
        for beta in [*(top * 2.0 ** -np.arange(13.0)), 1.0]:
            model = make(alpha=a, beta=beta, random_state=0, **options)
            seconds = timed(model, X, y)
            yield row("one" if a == beta == 1 else "grid", a, beta, model, seconds)


def largest_beta(model, X, y, alpha) -> float:
    """The first beta of a search on these data."""
    cv = getattr(polyfm, type(model).__name__ + "CV")
    options = {name: getattr(model, name) for name in ("degree", "method", "fit_lower", "fit_linear")}
    return float(cv(n_betas=1, cv=2, max_iter=1, alpha=alpha, random_state=0, **options).fit(X, y).betas_[0])


def report(path: str) -> None:
    with open(path) as file:
        rows = list(csv.DictReader(file))
    for label in dict.fromkeys(r["model"] for r in rows):
        columns = "best of the grid | defaults | regret | linear | 1, 1 | CV | CPU s: auto, given, CV"
        print(f"\n{label}\n| problem | {columns} |")
        print("|---|---|---|---|---|---|---|---|")
        regrets: dict[str, float] = {}
        for name in dict.fromkeys(r["problem"] for r in rows if r["model"] == label):
            of = [r for r in rows if r["model"] == label and r["problem"] == name]
            scores = {
                kind: [float(r["score"]) for r in of if r["kind"] in kinds]
                for kind, kinds in (
                    ("grid", ("grid", "one", "same, given", "linear")), ("auto", ("auto",)), ("linear", ("linear",)),
                    ("one", ("one",)), ("search", ("search",)),
                )
            }  # fmt: skip
            cpu = [
                np.median([float(r["seconds"]) for r in of if r["kind"] == k] or [np.nan])
                for k in ("auto", "same, given", "search")
            ]
            best, auto = max(scores["grid"]), np.mean(scores["auto"])
            regrets[name] = best - auto
            texts = [f"{scores[kind][0]:.3f}" if scores[kind] else "" for kind in ("linear", "one", "search")]
            print(
                f"| {name} | {best:.3f} | {auto:.3f} | {best - auto:.3f} | {' | '.join(texts)} |"
                f" {cpu[0]:.2f}, {cpu[1]:.2f}, {cpu[2]:.2f} |"
            )
        for title, names in (("looked at", LOOKED_AT), ("held back", HELD_BACK)):
            found = [regrets[name] for name in names if name in regrets]
            if found:
                print(f"{title}: mean regret {np.mean(found):.4f}, worst {max(found):.4f}, {len(found)} problems")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="penalties.csv")
    parser.add_argument("--report")
    parser.add_argument("--models", nargs="+", default=["FM 2"])
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--search", action="store_true", help="the `...CV` estimators too")
    options = parser.parse_args()
    if options.report:
        return report(options.report)
    warnings.simplefilter("ignore")
    with open(options.out, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["problem", "model", "kind", "alpha", "beta", "score", "seconds"])
        for label in options.models:
            for name in options.problems:
                for row in run(name, label, options.seeds, options.search):
                    rows.writerow(row)
                    file.flush()
                print(label, name, flush=True)
    report(options.out)


if __name__ == "__main__":
    main()
