"""What solver="auto" rests on for sparse data.

POLYFM_DATA=DIR OMP_NUM_THREADS=1 python benchmarks/automatic.py [EPOCHS [CASE ...]]
POLYFM_DATA=DIR OMP_NUM_THREADS=1 python benchmarks/automatic.py held-out [CASE ...]
POLYFM_DATA=DIR OMP_NUM_THREADS=1 python benchmarks/automatic.py by-default [CASE ...]
python benchmarks/automatic.py plateaus

First: block descent against coordinate descent, to the same objective. Coordinate descent runs its epochs; block
descent runs until it is as low, or has taken three times as long.

With "held-out": processor seconds of each solver until the loss of test rows is within 1% of the smallest that any of
them has at any beta (halved until it gets worse), its own set-up included, at the beta that is best for it; and that
loss of its own. alpha is what the linear model asks for.

With "by-default": the loss of test rows (of targets within their range: RMSE) and processor seconds of estimators that
choose their penalties, where "auto" has to descend and where it has to take steps.

With "plateaus": R2 on test rows after so many stochastic epochs, and of "auto" and descent, where products tell
everything (made up).
"""

import sys
import time
import warnings
from functools import partial

import data
import numpy as np
import scipy.sparse as sp
from growth import clicks
from sklearn.metrics import log_loss, roc_auc_score
from solvers import problem

from polyfm import FactorizationMachineClassifier, FactorizationMachineRegressor
from polyfm.core.design import Design
from polyfm.core.model import build_model
from polyfm.core.problem import Problem
from polyfm.losses import as_loss
from polyfm.solvers import BlockDescent, CoordinateDescent, automatic, make_solver, solver_class, takes_steps
from polyfm.training import recipe as recipes
from polyfm.training.automatic import choose_alpha
from polyfm.training.initial import initial_parameters
from polyfm.training.recipe import Recipe


def made_up(n: int, fields: int):
    X = clicks(n, fields)
    P = np.random.default_rng(1).standard_normal((X.shape[1], 5)) * 0.3
    Q = X @ P
    y = np.sum(Q**2 - X @ P**2, axis=1) + np.random.default_rng(2).standard_normal(n)
    return X, y


CASES = {
    "MovieLens 1M": lambda: data.movielens_1m()[::2],
    "Last.fm": lambda: data.lastfm()[::2],
    "a9a": lambda: data.a9a()[::2],
    "IMDB": lambda: data.imdb()[::2],
    **{f"clicks, {fields} fields": partial(made_up, 200_000, fields) for fields in (2, 3, 4, 6, 10)},
}


def seconds_to(solver, task, start, goal: float, most: float) -> tuple[int, float, float]:
    """Epochs, seconds and the objective reached when it is below the goal or the time is over."""
    solver.update(task, solver.init_state(task, start.copy()))  # compiles
    state, epochs, value, began = solver.init_state(task, start.copy()), 0, np.inf, time.perf_counter()
    while value > goal and time.perf_counter() - began < most:
        value = solver.update(task, state)
        epochs += 1
    return epochs, time.perf_counter() - began, value


def main(epochs: int, names: list[str]) -> None:
    for name in names:
        X, y = CASES[name]()
        y = y - y.mean()
        for k in (4, 10, 30):
            task = problem(X, y, k=k, beta=1.0)
            start = initial_parameters(task, np.random.RandomState(0), 0.1)
            cd = CoordinateDescent()
            cd.update(task, cd.init_state(task, start.copy()))  # compiles
            state, began = cd.init_state(task, start.copy()), time.perf_counter()
            for _ in range(epochs):
                goal = cd.update(task, state)
            seconds = time.perf_counter() - began
            taken, theirs, value = seconds_to(BlockDescent(), task, start, goal, 3 * seconds)
            end = f"{theirs / seconds:.2f}" if value <= goal else "not reached"
            print(
                f"{name}, k = {k}, {X.nnz / X.shape[0]:.0f} non-zeros a row: {epochs} epochs of cd {seconds:.2f} s; "
                f"block {taken} epochs, {theirs:.2f} s: {end}; auto takes {automatic(task.model, task.design)}",
                flush=True,
            )


def liked():
    X, X_test, y, y_test = data.movielens_1m()
    return X, X_test, np.where(y > 3.5, 1.0, -1.0), np.where(y_test > 3.5, 1.0, -1.0)


def one_against_others(load, label):
    X, X_test, y, y_test = load()
    return X, X_test, np.where(y == label, 1.0, -1.0), np.where(y_test == label, 1.0, -1.0)


HELD_OUT = {  # what to load, the loss, the rank
    **{
        f"clicks, {n} rows, {fields} fields of {size}": (partial(data.clicks, n, fields, size), "logistic", 8)
        for n, fields, size in (
            (100_000, 10, 1000), (100_000, 20, 10_000), (300_000, 5, 10_000), (300_000, 10, 1000),
            (300_000, 10, 10_000), (300_000, 20, 1000), (300_000, 40, 10_000), (1_000_000, 3, 10_000),
            (1_000_000, 5, 10_000), (1_000_000, 10, 10_000), (1_000_000, 20, 10_000),
        )
    },
    "a9a": (data.a9a, "logistic", 8),
    "IMDB, classes": (partial(one_against_others, data.imdb_classes, 1), "logistic", 8),
    "newsgroups": (partial(one_against_others, partial(data.newsgroups, 20), 3), "logistic", 8),
    "MovieLens 1M, liked or not": (liked, "logistic", 16),
    "MovieLens 1M": (data.movielens_1m, "squared", 16),
    "MovieLens 100K with features": (data.movielens_100k_with_features, "squared", 10),
    "Last.fm listening": (data.lastfm_listening, "squared", 10),
}  # fmt: skip
SIGNIFICANT, PATIENCE, MOST_EPOCHS, MOST_BETAS = 5e-4, 3, 40, 14


def judged(name: str, problem: Problem, judge: Problem) -> list[tuple[float, float]]:
    """(loss of test rows, processor seconds of training so far) after each epoch, until it no longer falls."""
    solver = make_solver(name)
    start = initial_parameters(problem, np.random.RandomState(0), 0.1)
    began = time.process_time()
    state = solver.init_state(problem, start)
    solver.objective(problem, state)
    seconds, found, best, waited = time.process_time() - began, [], np.inf, 0
    while waited < PATIENCE and len(found) < MOST_EPOCHS:
        began = time.process_time()
        solver.update(problem, state)
        seconds += time.process_time() - began
        found.append((judge.mean_loss(state.parameters), seconds))
        waited = 0 if found[-1][0] < (1 - SIGNIFICANT) * best else waited + 1
        best = min(best, found[-1][0])
    return found


def held_out(names: list[str]) -> None:
    for case in names:
        load, loss, k = HELD_OUT[case]
        X, X_test, y, y_test = load()
        if loss == "squared":
            y, y_test = y - y.mean(), y_test - y.mean()
        model = build_model("anova", "direct", 2, k, None, True, True)
        recipe = Recipe(model, as_loss(loss), None, 1.0)
        alpha = choose_alpha(recipe, X, [y], None, None if loss == "squared" else y, 0)
        sorted_rows = Design(X, "sorted")
        auto = "sgd" if takes_steps(model, X) else automatic(model, sorted_rows)
        designs = {"cd": sorted_rows, "sgd": Design(X, solver_class("sgd").row_order)}
        if sorted_rows.has_short_rows:
            designs["block"] = sorted_rows
        judge = Problem.with_target(Design(X_test), model, as_loss(loss), y_test, None, alpha, 1.0)
        curves: dict[str, list] = {}
        for name, design in designs.items():
            judged(name, Problem.with_target(design, model, as_loss(loss), y, None, alpha, 1e3), judge)  # compiles
            beta, best, worse, runs = alpha * 32, np.inf, 0, []
            while worse < 2 and len(runs) < MOST_BETAS:
                runs.append(
                    judged(name, Problem.with_target(design, model, as_loss(loss), y, None, alpha, beta), judge)
                )
                least = min(runs[-1])[0]
                best, worse, beta = (least, 0, beta / 2) if least < best else (best, worse + 1, beta / 2)
            curves[name] = min(runs, key=min)
        goal = 1.01 * min(min(curve)[0] for curve in curves.values())
        line = f"{case}: {X.shape[0]} x {X.shape[1]}, {X.nnz / X.shape[0]:.0f} non-zeros a row; auto takes {auto}"
        for name, curve in curves.items():
            seconds = next((f"{s:.2f} s" for value, s in curve if value <= goal), "not reached")
            line += f"; {name} {min(curve)[0]:.4f}, {seconds}"
        print(line, flush=True)


def words(values, target):
    """The reviews with other values than tf-idf."""
    X, X_test, y, y_test = data.imdb_counts()
    X.data, X_test.data = values(X.data), values(X_test.data)
    return X, X_test, *((t >= 7).astype(int) if target == "classes" else t for t in (y, y_test))


BY_DEFAULT = {  # what to load, the rank
    "IMDB, classes": (data.imdb_classes, 8),
    "IMDB, stars": (data.imdb, 8),
    **{
        f"IMDB, {target}, {kind}": (partial(words, values, target), 8)
        for target in ("classes", "stars")
        for kind, values in (("counts", np.asarray), ("log counts", np.log1p), ("ones", np.ones_like))
    },
    "newsgroups": (partial(one_against_others, partial(data.newsgroups, 20), 3), 8),
    "clicks": (data.clicks, 8),
}


def by_default(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    for case in names:
        load, k = BY_DEFAULT[case]
        X, X_test, y, y_test = load()
        classes = len(np.unique(y)) == 2
        line = case
        for name, steps in (("descent", False), ("steps", True)):
            recipes.takes_steps = lambda model, X, steps=steps: steps
            began = time.process_time()
            cls = FactorizationMachineClassifier if classes else FactorizationMachineRegressor
            model = cls(n_components=k, random_state=0).fit(X, y)
            seconds = time.process_time() - began
            if classes:
                p = model.predict_proba(X_test)[:, 1]
                text = f"log loss {log_loss(y_test, p):.4f}, AUC {roc_auc_score(y_test, p):.4f}"
            else:
                f = np.clip(model.predict(X_test), y.min(), y.max())
                text = f"RMSE {np.sqrt(np.mean((f - y_test) ** 2)):.4f}"
            line += f"; {name} ({model.solver_}) {text}, {seconds:.1f} s"
        print(line, flush=True)


def plateaus() -> None:
    warnings.simplefilter("ignore")
    sets = ("parity of two", 2, 5, 5000, 160_000, 4.0), ("products of three", 3, 8, 100, 114_000, 1.0)
    for title, degree, fields, size, n, beta in sets:
        rng = np.random.RandomState(3)
        codes = rng.randint(size, size=(n, fields))
        indices = (codes + size * np.arange(fields)).ravel()
        X = sp.csr_matrix((np.ones(codes.size), indices, np.arange(0, codes.size + 1, fields)))
        if degree == 2:
            signs = rng.choice([-1.0, 1.0], (2, size))
            y = signs[0][codes[:, 0]] * signs[1][codes[:, 1]]
        else:
            P = 0.6 * rng.standard_normal((X.shape[1], 2))
            p, q, r = (X @ P**m for m in (1, 2, 3))
            y = np.sum(p**3 - 3 * p * q + 2 * r, axis=1) / 6 + X @ (0.4 * rng.standard_normal(X.shape[1]))
        y, last = y + 0.3 * rng.standard_normal(n), n - 20_000
        line, given = title, {"solver": "sgd", "tol": 0, "alpha": 1.0, "beta": beta}
        cases = [given | {"max_iter": n_epochs} for n_epochs in (1, 2, 3, 5, 10, 20, 50)]
        for options in (*cases, {"solver": "auto"}, {"solver": "cd"}):
            model = FactorizationMachineRegressor(n_components=8, degree=degree, random_state=0, **options)
            score = model.fit(X[:last], y[:last]).score(X[last:], y[last:])
            line += f"; {options.get('max_iter', options['solver'])} {score:.3f}"
        print(line, flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["plateaus"]:
        plateaus()
        sys.exit()
    if sys.argv[1:2] == ["by-default"]:
        by_default(sys.argv[2:] or list(BY_DEFAULT))
        sys.exit()
    if sys.argv[1:2] == ["held-out"]:
        held_out(sys.argv[2:] or list(HELD_OUT))
        sys.exit()
    main(int(sys.argv[1]) if sys.argv[1:] else 10, sys.argv[2:] or list(CASES))
