"""A first look: train on scikit-learn's diabetes set and show what was learned."""

import sys
import time
from itertools import combinations

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polyfm import FactorizationMachineRegressor, __version__
from polyfm.cli.ending import let_go_of_output, whole_process

BETAS = np.logspace(1, 4, 7)
BARS = "▁▂▃▄▅▆▇█"
NAMES = {"s1": "tc", "s2": "ldl", "s3": "hdl", "s4": "tch", "s5": "ltg", "s6": "glu"}  # the blood measurements


def machine(degree: int, beta: float):
    model = FactorizationMachineRegressor(
        degree=degree, n_components=5, alpha=50.0, beta=beta, fit_lower="augment", random_state=0
    )
    return make_pipeline(StandardScaler(), model)


def choose_beta(degree: int, X, y) -> float:
    """Cross-validate beta on the training part, showing progress."""
    scores = []
    for i, beta in enumerate(BETAS, 1):
        scores.append(cross_val_score(machine(degree, beta), X, y, cv=5).mean())
        show(f"  degree {degree}: choosing beta, {i} of {len(BETAS)} (beta = {beta:.3g}: R2 = {scores[-1]:.3f})")
    show("")
    return float(BETAS[int(np.argmax(scores))])


def show(text: str) -> None:
    """Overwrite the current line of a terminal; elsewhere say nothing."""
    if sys.stdout is not None and sys.stdout.isatty():
        print(f"\r\x1b[2K{text}", end="", flush=True)


def sparkline(values: np.ndarray, width: int = 48) -> str:
    picked = values[np.unique(np.linspace(0, len(values) - 1, width).astype(int))]
    span = np.ptp(picked) or 1.0
    return "".join(BARS[round(float((v - picked.min()) / span * (len(BARS) - 1)))] for v in picked)


def strongest(model: FactorizationMachineRegressor, names: list[str], degree: int, top: int = 5):
    """The largest weights W_(j1..jm) = sum_s lambda_s p_(j1 s) .. p_(jm s) of products of distinct features."""
    P, lams = model.components_[:, : len(names)], model.lambdas_
    weights = {js: float(lams @ np.prod(P[:, js], axis=1)) for js in combinations(range(len(names)), degree)}
    best = sorted(weights, key=lambda js: -abs(weights[js]))[:top]
    return [(" x ".join(names[j] for j in js), weights[js]) for js in best]


def main() -> None:
    try:
        with whole_process():
            run()
    except OSError as error:
        let_go_of_output()
        raise SystemExit(f"Error: Standard output cannot be written ({error.strerror}).") from None


def run() -> None:
    data = load_diabetes()
    names = [NAMES.get(name, name) for name in data.feature_names]
    X_train, X_test, y_train, y_test = train_test_split(data.data, data.target, test_size=0.25, random_state=0)
    print(f"polyfm {__version__}: the diabetes set, {len(y_train)} patients to learn from, {len(y_test)} held out\n")

    ridge = make_pipeline(StandardScaler(), RidgeCV(BETAS)).fit(X_train, y_train)
    rows = [("ridge (no interactions)", "", ridge.score(X_train, y_train), ridge.score(X_test, y_test), "")]
    fitted = {}
    for degree in (2, 3):
        began = time.perf_counter()
        pipeline = machine(degree, choose_beta(degree, X_train, y_train)).fit(X_train, y_train)
        fitted[degree] = model = pipeline[-1]
        rows.append(
            (
                f"factorization machine, degree {degree}",
                f"{model.beta:.3g}",
                pipeline.score(X_train, y_train),
                pipeline.score(X_test, y_test),
                f"{time.perf_counter() - began:.1f} s",
            )
        )
    print(f"{'model':<34}{'beta':>7}{'R2 train':>10}{'R2 test':>9}{'time':>9}")
    for label, beta, train, test, seconds in rows:
        print(f"{label:<34}{beta:>7}{train:>10.3f}{test:>9.3f}{seconds:>9}")

    print("\nobjective, epoch by epoch (it never increases)")
    for degree, model in fitted.items():
        h = model.history_
        print(f"  degree {degree}  {h[0]:>10.0f} {sparkline(h)} {h[-1]:.0f} after {model.n_iter_} epochs")

    for degree, model in fitted.items():
        print(f"\nstrongest products of {degree} features (weights for standardised features)")
        for label, weight in strongest(model, names, degree):
            print(f"  {label:<18}{weight:>8.2f}")
