"""Hostile fits: every estimator on every kind of bad data gives a sound model or an error that a user can act on.

Sound: finite predictions, `objective_` that of the parameters that were kept, a history that does not rise where the
solver says so, and the same bits on two threads. Loops are compiled for types, so few of these are taken in a block of
seeds, and others in the next.
"""

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

import polyfm
from attack.common import Huber, check, raw, recomputed, refused, say
from polyfm.losses import losses_for
from polyfm.solvers import SOLVERS
from polyfm.solvers.registry import solver_class

# Half the squares of residuals that are 1e-6 of the least start; in single precision, its rounding at the largest.
NEGLIGIBLE = {"float64": 1e-24, "float32": 1e-17}
TYPES = 4  # in a block of seeds
BLOCK = 2500
CLOSE = {"float64": (1e-6, 1e-9, 1e-11), "float32": (1e-3, 1e-4, 1e-5)}  # objective, history, rounding


def pick(rng, *choices):
    return choices[rng.randint(len(choices))]


def types_of(rng) -> dict:
    """What loops are compiled for; seldom what cannot be."""
    while True:
        types = any_types(rng)
        names = ("degree", "method", "fit_lower", "loss", "solver", "fit_lambdas")
        try:
            getattr(polyfm, types["name"])(**{name: types[name] for name in names})._validate_options()
        except ValueError:
            if rng.randint(10):
                continue
        return types


def any_types(rng) -> dict:
    classifier = bool(rng.randint(2))
    kernel = pick(rng, "FactorizationMachine", "FactorizationMachine", "PolynomialNetwork")
    losses = [*losses_for("classification" if classifier else "regression"), *([] if classifier else [Huber(0.5)])]
    return {
        "name": kernel + ("Classifier" if classifier else "Regressor"),
        "degree": pick(rng, 2, 2, 3, 4),
        "method": pick(rng, "direct", "lifted"),
        "fit_lower": pick(rng, "explicit", "augment", None),
        "loss": pick(rng, *losses),
        "solver": pick(rng, "auto", *SOLVERS),
        "fit_linear": bool(rng.randint(4)),
        "fit_lambdas": not rng.randint(4),
        "dtype": pick(rng, np.float64, np.float64, np.float32),
        "storage": pick(rng, "dense", "sparse", "ones"),
        "weighted": bool(rng.randint(2)),
    }


def features(rng, n: int, d: int, types: dict):
    X = rng.standard_normal((n, d)) * (rng.uniform(size=(n, d)) < pick(rng, 1.0, 0.5, 0.1))
    span = pick(rng, 0, 0, 3, 8, 90 if types["dtype"] == np.float64 else 14)
    if types["storage"] == "ones":
        X = (X != 0).astype(float)
    else:
        X *= 10.0 ** rng.uniform(-span, span, d)
    for spoil in range(4):
        if not rng.randint(4):
            if spoil == 0:
                X[:, rng.randint(d)] = 1.0 if types["storage"] == "ones" else pick(rng, 0.0, 1.0, 1e6)
            elif spoil == 1:
                X[rng.randint(n, size=n // 2)] = X[0]
            elif spoil == 2:
                X[rng.randint(n)] = 0.0
            else:
                X[:, rng.randint(d)] = 0.0
    X = X.astype(types["dtype"])
    if types["storage"] == "dense":
        return pick(rng, np.ascontiguousarray, np.asfortranarray)(X)
    X = pick(rng, sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array)(X)
    if X.format == "csr" and not rng.randint(3):
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def labels(rng, n: int, classifier: bool, dtype) -> np.ndarray:
    if classifier:
        return pick(
            rng, rng.randint(2, size=n), rng.randint(2, size=n), rng.randint(3, size=n), np.arange(n) % 2 == 0,
            np.zeros(n, int), rng.choice(["a", "b", "c"], size=n), (np.arange(n) == 0).astype(float), np.arange(n) // 4,
        )  # fmt: skip
    size = pick(rng, 1.0, 1.0, 1e8, 1e-8, 1e90 if dtype == np.float64 else 1e14, 1e-90, 1e120)
    return pick(rng, rng.standard_normal(n), rng.standard_normal(n), np.ones(n), np.zeros(n), np.arange(n)) * size


def weights(rng, n: int):
    w = 10.0 ** rng.uniform(-1, 1, n)
    return pick(
        rng, w, w * (rng.uniform(size=n) < 0.5), 10.0 ** rng.uniform(-30, 30, n), w * 1e-300, w * 1e300, w * 1e-30,
        np.zeros(n), np.eye(n)[0],
    )  # fmt: skip


def strength(rng, d: int, groups):
    if not rng.randint(4):
        return "auto"
    number = pick(rng, 0.0, 1e-300, 1e-8, 0.1, 0.1, 1.0, 1.0, 1e8, 1e300)
    kind = rng.randint(8)
    if kind == 0:
        return 10.0 ** rng.uniform(-8, 8, d) * (rng.uniform(size=d) < 0.8)
    if kind == 1 and groups is not None:
        return {label: float(10.0 ** rng.uniform(-3, 3)) for label in np.unique(groups).tolist()}
    return number


def options(rng, types: dict, d: int) -> dict:
    groups = pick(rng, None, rng.randint(3, size=d), rng.choice(["user", "item"], size=d))
    given = {name: types[name] for name in ("degree", "method", "fit_lower", "loss", "solver", "fit_linear")}
    given |= {
        "n_components": pick(rng, 1, 2, 8, 10, d + 3),
        "alpha": strength(rng, d, groups),
        "beta": strength(rng, d, groups),
        "groups": groups,
        "fit_intercept": bool(rng.randint(4)),
        "init_scale": pick(rng, 0.1, 0.1, 1e-6, 1e3),
        "max_iter": pick(rng, 1, 3, 15),
        "tol": pick(rng, 0.0, 1e-3, 1e-9),
        "batch_size": pick(rng, "auto", 1, 7, 1000),
        "shares": pick(rng, 1, 1, 2, 3),
        "early_stopping": not rng.randint(5),
        "n_iter_no_change": pick(rng, 1, 3),
        "warm_start": not rng.randint(4),
        "random_state": int(rng.randint(1000)),
    }
    if types["method"] == "direct":
        given |= {"init_lambdas": pick(rng, "ones", "random_signs"), "fit_lambdas": types["fit_lambdas"]}
    return given


def attempt(seed: int) -> list[str]:
    few, rng = np.random.RandomState(seed // BLOCK), np.random.RandomState(seed % 2**32)
    types = pick(rng, *(types_of(few) for _ in range(TYPES)))
    n, d = pick(rng, 1, 2, 3, 10, 60, 60), pick(rng, 1, 2, 5, 5, 40)
    given, X = options(rng, types, d), features(rng, n, d, types)
    y, name = labels(rng, n, "Classifier" in types["name"], types["dtype"]), types["name"]
    weight = weights(rng, n) if types["weighted"] else None
    if not rng.randint(4):
        name += "CV"
        given = {k: v for k, v in given.items() if k in getattr(polyfm, name)().get_params()}
        given |= {"cv": 2, "betas": pick(rng, None, [0.1, 10.0]), "n_betas": 2, "max_iter": min(given["max_iter"], 3)}
    model = getattr(polyfm, name)(**given)
    say(model, f"\nX: {type(X).__name__} {X.shape} {X.dtype}, weight {weight}, y {y}")
    try:
        if given["solver"] == "sgd" and "CV" not in name and not rng.randint(3):
            return streamed(model, X, y, weight)
        model.fit(X, y, sample_weight=weight)
        if given.get("warm_start"):
            model.fit(X, y, sample_weight=weight)
    except Exception as error:
        return [refused(error)]
    sound(model, X, y, weight)
    return ["fitted"]


def streamed(model, X, y, weight) -> list[str]:
    X = sp.csr_array(X) if sp.issparse(X) else X
    for rows in np.array_split(np.arange(X.shape[0]), 3):
        if len(rows):
            classes = {"classes": np.unique(y)} if "Classifier" in type(model).__name__ else {}
            model.partial_fit(X[rows], y[rows], sample_weight=None if weight is None else weight[rows], **classes)
            check(np.all(np.isfinite(raw(model, X[rows]))), "predictions are not finite after partial_fit")
    return ["streamed"]


def sound(model, X, y, weight) -> None:
    solver, dtype = solver_class(model.solver_), model._fitted.targets[0].coef.dtype.name
    close, rise, rounding = CLOSE[dtype]
    f, h = raw(model, X), model.history_
    say(f"objective {model.objective_}, history {h}")
    check(np.all(np.isfinite(f)), f"predictions are not finite ({model.solver_})")
    if hasattr(model, "predict_proba"):
        p = model.predict_proba(X)
        check(np.all((p >= 0) & (p <= 1)) and np.allclose(p.sum(axis=1), 1, atol=1e-5), "probabilities are not")
    objective, nothing = recomputed(model, X, y, weight)

    def agrees(objective: float) -> bool:
        gap = abs(objective - model.objective_)
        # Predictions that are kept up to date carry the rounding of what they were at first, before h[0].
        negligible = NEGLIGIBLE[dtype] * max(getattr(model, "init_scale", 1.0), 1.0) ** 2
        return gap <= close * abs(objective) + rounding * max(abs(nothing), h[0]) + negligible

    check(
        # In single precision predictions may cancel: what solvers compute in double precision is nearer to the truth.
        agrees(objective) or (dtype == "float32" and agrees(recomputed(model, X, y, weight, np.float64)[0])),
        f"objective_ {model.objective_} is not that of the parameters, {objective} ({model.solver_}, {dtype})",
    )
    if getattr(model, "early_stopping", False):
        h = h[:-1] if len(model._fitted.targets) == 1 else h[:1]  # each target ends with that of its best epoch
    if solver.monotone and len(h) > 1:
        check(
            np.max(np.diff(h)) <= rise * abs(h[0]) + rounding * abs(nothing),
            f"history_ rises by {np.max(np.diff(h)) / abs(h[0])} of its first ({model.solver_}, {dtype})",
        )
    two = clone(model).set_params(n_jobs=2).fit(X, y, sample_weight=weight)
    if getattr(model, "warm_start", False):
        two.fit(X, y, sample_weight=weight)
    for name in ("components_", "coef_", "intercept_", "lambdas_"):
        same = np.array_equal(getattr(two, name), getattr(model, name))
        check(same, f"{name} differ with n_jobs=2 ({model.solver_})")
