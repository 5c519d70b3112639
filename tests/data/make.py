"""Make the model files that later releases must read: ``python tests/data/make.py`` once for each release.

Never make those of an earlier release again: they are kept as they were written.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes, load_iris
from sklearn.pipeline import make_pipeline

import polyfm
from polyfm.modelfile import save_model
from polyfm.tabular import TableEncoder


def keep(kind, model, rows):
    """A model file, and beside it some rows with their predictions."""
    name = f"{kind}-{'.'.join(polyfm.__version__.split('.')[:2])}"
    steps = getattr(model, "named_steps", {"": model}).values()
    frame = pd.DataFrame(rows) if isinstance(rows, dict) else np.asarray(rows)
    predictions = model.predict_proba(frame) if hasattr(model, "predict_proba") else model.predict(frame)
    content = {"classes": [type(step).__name__ for step in steps], "rows": rows, "predictions": predictions.tolist()}
    if kind == "bayes":
        content["std"] = model.predict(frame, return_std=True)[1].tolist()
    save_model(model, Path(__file__).with_name(f"{name}.polyfm"))
    Path(__file__).with_name(f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def main():
    options = {"n_components": 2, "random_state": 0, "max_iter": 20}
    X, y = load_diabetes(return_X_y=True)
    model = polyfm.FactorizationMachineRegressor(degree=3, beta=0.1, **options).fit(X, y)
    keep("regressor", model, X[:3].tolist())

    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = polyfm.PolynomialNetworkClassifier(**options).fit(X.astype(np.float32), names)
    keep("classifier", model, X[[0, 60, 120]].tolist())

    X, y = load_diabetes(return_X_y=True)
    model = polyfm.BayesianFactorizationMachineRegressor(n_components=2, random_state=0).fit(X, y)
    keep("bayes", model, X[:3].tolist())
    model = polyfm.FactorizationMachineOrdinal(**options).fit(X, np.digitize(y, [80, 150, 250]))
    keep("ordinal", model, X[:3].tolist())

    rng = np.random.RandomState(0)
    ages = np.where(rng.uniform(size=60) < 0.2, np.nan, rng.randint(18, 70, 60))
    genres = rng.choice(["drama", "comedy", None], 60)
    table = pd.DataFrame({"user": rng.randint(0, 6, 60), "genre": genres, "age": ages})
    model = make_pipeline(TableEncoder(fields=["user"]), polyfm.FactorizationMachineRegressor(**options))
    model.fit(table, rng.standard_normal(60))
    keep("table", model, {"user": [1, 99, 3], "genre": ["drama", None, "war"], "age": [20.0, None, 44.0]})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
