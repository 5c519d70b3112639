"""fastFM: alternating least squares, trained anew for each number of iterations."""

import numpy as np
import scipy.sparse as sp

from peers.base import Adapter, Dataset, Trace, penalties


class FastFM(Adapter):
    name, label, module, package = "fastfm", "fastFM (ALS)", "fastFM", "fastFM"
    needs = "degree 2"
    settings = "`als.FMRegression` / `als.FMClassification`; the rank; `l2_reg_V` chosen; all else at its default"
    grid = penalties("l2_reg_V", 0.1, 1.0, 5.0, 20.0, 100.0)

    def suits(self, dataset: Dataset) -> bool:
        return dataset.degree == 2

    def run(self, trace: Trace, dataset: Dataset, threads: int, setting: dict) -> None:
        from fastFM import als

        cls = als.FMClassification if dataset.classifies else als.FMRegression
        X, X_test = (sp.csc_matrix(X, dtype=np.float64) for X in (dataset.X_train, dataset.X_test))

        def fit(n_iter: int):
            model = cls(n_iter=n_iter, rank=dataset.rank, random_state=0, **setting)
            model.fit(X, dataset.y_train)
            return lambda: model.predict_proba(X_test) if dataset.classifies else model.predict(X_test)

        trace.in_budgets(fit)


ADAPTERS = [FastFM()]
