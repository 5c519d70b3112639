"""polylearn: the coordinate descent of the paper's authors, trained anew for each number of epochs."""

import numpy as np
import scipy.sparse as sp

from peers.base import Adapter, Dataset, Trace, penalties


class Polylearn(Adapter):
    name, label, module, package = "polylearn", "polylearn", "polylearn", "polylearn"
    needs = "degree 2 or 3"
    settings = (
        "`FactorizationMachineRegressor` / `Classifier` with the logistic loss; the rank and degree; `beta` chosen; "
        "`tol=0`. It fits no intercept, so that it is given centred targets"
    )
    grid = penalties("beta", 1.0, 0.1, 10.0, 30.0, 100.0)

    def suits(self, dataset: Dataset) -> bool:
        return dataset.degree in (2, 3)

    def run(self, trace: Trace, dataset: Dataset, threads: int, setting: dict) -> None:
        import polylearn

        options = {"degree": dataset.degree, "n_components": dataset.rank, "tol": 0.0, "random_state": 0, **setting}
        if dataset.classifies:
            cls, mean = polylearn.FactorizationMachineClassifier, 0.0
            options["loss"] = "logistic"
        else:
            cls, mean = polylearn.FactorizationMachineRegressor, float(dataset.y_train.mean())
        as_columns = sp.csc_matrix if dataset.is_sparse else np.asfortranarray
        X, X_test, y = as_columns(dataset.X_train), as_columns(dataset.X_test), dataset.y_train - mean

        def fit(max_iter: int):
            model = cls(max_iter=max_iter, **options).fit(X, y)
            return lambda: model.decision_function(X_test) if dataset.classifies else model.predict(X_test) + mean

        trace.in_budgets(fit)


ADAPTERS = [Polylearn()]
