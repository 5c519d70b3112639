"""scikit-learn's KernelRidge with a polynomial kernel: exact, at the cost of a matrix of all pairs of rows."""

import numpy as np
from sklearn.kernel_ridge import KernelRidge

from peers.base import Adapter, Dataset, Trace, penalties

ROWS = (500, 1000, 2000, 5000, 10_000)
MOST = 16_000


class Kernel(Adapter):
    name, label = "kernelridge", "KernelRidge"
    threaded = True
    needs = f"at most {MOST:,} rows"
    settings = (
        '`kernel="poly"`, `coef0=1`, the degree; `gamma` at its default; `alpha` chosen. It has no intercept, so that '
        "it is given centred targets. Its points are fits to growing parts of the rows"
    )
    grid = penalties("alpha", 1.0, 0.01, 0.1, 10.0, 100.0)

    def suits(self, dataset: Dataset) -> bool:
        return len(dataset.y_train) <= MOST

    def run(self, trace: Trace, dataset: Dataset, threads: int, setting: dict) -> None:
        n, mean = len(dataset.y_train), float(dataset.y_train.mean())
        order = np.random.RandomState(0).permutation(n)
        budgets = (*(rows for rows in ROWS if rows < n), n)

        def fit(rows: int):
            part = order[:rows]
            model = KernelRidge(kernel="poly", degree=dataset.degree, coef0=1, **setting)
            model.fit(dataset.X_train[part], dataset.y_train[part] - mean)
            return lambda: model.predict(dataset.X_test) + mean

        trace.in_budgets(fit, budgets, growth=3.0)


ADAPTERS = [Kernel()]
