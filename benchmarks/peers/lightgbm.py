"""LightGBM: boosted trees, for what a model without factors reaches. Each round is reported."""

import numpy as np

from peers.base import Adapter, Dataset, Trace, penalties


class LightGBM(Adapter):
    name, label, module, package = "lightgbm", "LightGBM", "lightgbm", "lightgbm"
    threaded = True
    settings = (
        "one-hot fields as categorical features, as its documentation advises; `lambda_l2` chosen; all else at its "
        "default; `lightgbm.Dataset`, the binned data, is made beforehand"
    )
    grid = penalties("lambda_l2", 0.0, 1.0, 10.0, 100.0, 1000.0)

    def run(self, trace: Trace, dataset: Dataset, threads: int, setting: dict) -> None:
        import lightgbm

        options = {
            "objective": "binary" if dataset.classifies else "regression", "num_threads": threads, "verbosity": -1,
            "seed": 0, **setting,
        }  # fmt: skip
        y = (dataset.y_train > 0).astype(float) if dataset.classifies else dataset.y_train
        X, X_test, categories = dataset.X_train, dataset.X_test, "auto"
        if dataset.fields:
            X, X_test, categories = (
                codes(X, dataset.fields),
                codes(X_test, dataset.fields),
                [*range(len(dataset.fields))],
            )
        rows = lightgbm.Dataset(X, y, params=options, categorical_feature=categories).construct()
        trace.start()
        booster = lightgbm.Booster(options, rows)
        scores, n_summed, n_rounds, finished = np.zeros(X_test.shape[0]), 0, 0, False

        def predict() -> np.ndarray:
            """Add the trees since the last point: for all of them at each point, time would go as its square."""
            nonlocal scores, n_summed
            new = {"start_iteration": n_summed, "num_iteration": n_rounds - n_summed}
            scores = scores + booster.predict(X_test, raw_score=True, **new)
            n_summed = n_rounds
            return scores

        while not finished:
            stuck = booster.update()
            n_rounds += 1
            finished = trace.point(n_rounds, predict, always=stuck) or stuck


def codes(X, fields: tuple[int, ...]) -> np.ndarray:
    """The one-hot fields as columns of integers."""
    starts = np.cumsum((0, *fields[:-1]))
    return (X.indices.reshape(-1, len(fields)) - starts).astype(np.int32)


ADAPTERS = [LightGBM()]
