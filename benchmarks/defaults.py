"""How the defaults were chosen: scores and epochs against the initial scale and the tolerance, over seeds.

    POLYFM_DATA=DIR python benchmarks/defaults.py --out defaults.csv

Each run is continued from one tolerance to the next, so that a row tells what stopping there costs.
"""

import argparse
import csv
import time
import warnings

import data
import numpy as np

import polyfm

FM, PN = polyfm.FactorizationMachineRegressor, polyfm.PolynomialNetworkRegressor
MODELS = {
    "FM 2": lambda **kw: FM(degree=2, **kw),
    "FM 3": lambda **kw: FM(degree=3, **kw),
    "FM 3 augment": lambda **kw: FM(degree=3, fit_lower="augment", **kw),
    "FM 3 lifted": lambda **kw: FM(degree=3, method="lifted", **kw),
    "PN 2": lambda **kw: PN(degree=2, **kw),
    "PN 3": lambda **kw: PN(degree=3, **kw),
}
SETS = {
    "abalone": lambda: data.dense("abalone"),
    "cadata": lambda: data.dense("cadata"),
    "cpusmall": lambda: data.dense("cpusmall"),
    "synthetic": lambda: data.synthetic_anova(3),
}
TOLERANCES = (1e-3, 1e-4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="defaults.csv")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--scales", type=float, nargs="+", default=[0.001, 0.01, 0.1, 0.3, 1.0])
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--max-iter", type=int, default=1000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with open(options.out, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["set", "model", "scale", "seed", "tol", "epochs", "seconds", "objective", "train", "test"])
        for name in options.sets:
            X_train, X_test, y_train, y_test = SETS[name]()
            for label in options.models:
                for scale in options.scales:
                    for seed in range(options.seeds):
                        began, epochs = time.perf_counter(), 0
                        model = MODELS[label](
                            alpha=1.0,
                            beta=1.0,
                            init_scale=scale,
                            random_state=seed,
                            warm_start=True,
                            max_iter=options.max_iter,
                        )
                        for tol in TOLERANCES:
                            model.set_params(tol=tol).fit(X_train, y_train)
                            epochs += model.n_iter_
                            seconds = time.perf_counter() - began
                            scores = model.score(X_train, y_train), model.score(X_test, y_test)
                            rows.writerow(
                                [name, label, scale, seed, tol, epochs, f"{seconds:.3f}", model.objective_, *scores]
                            )
                        file.flush()
                    print(
                        name, label, scale, "last seed:", epochs, "epochs, test R2", np.round(scores[1], 3), flush=True
                    )


if __name__ == "__main__":
    main()
