"""scikit-learn's Nystroem features of a polynomial kernel, then Ridge; its points are growing numbers of features."""

from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from peers.base import ENTRIES, Adapter, Dataset, Trace, penalties

COMPONENTS = (50, 100, 200, 500, 1000, 2000)


class NystroemRidge(Adapter):
    name, label = "nystroem", "Nystroem + Ridge"
    threaded = True
    needs = f"at most {ENTRIES // COMPONENTS[0]:,} rows"
    settings = (
        '`kernel="poly"`, `coef0=1`, the degree, `gamma` at its default; `Ridge` with `alpha` chosen. Its points are '
        f"growing numbers of components, up to {COMPONENTS[-1]:,} or {ENTRIES:,} features in all"
    )
    grid = penalties("alpha", 1.0, 0.01, 0.1, 10.0, 100.0)

    def suits(self, dataset: Dataset) -> bool:
        return len(dataset.y_train) * COMPONENTS[0] <= ENTRIES

    def run(self, trace: Trace, dataset: Dataset, threads: int, setting: dict) -> None:
        n = len(dataset.y_train)

        def fit(components: int):
            features = Nystroem(
                kernel="poly", degree=dataset.degree, coef0=1, n_components=components, random_state=0, n_jobs=threads
            )
            model = make_pipeline(features, Ridge(**setting)).fit(dataset.X_train, dataset.y_train)
            return lambda: model.predict(dataset.X_test)

        trace.in_budgets(fit, tuple(k for k in COMPONENTS if k * n <= ENTRIES and k <= n), growth=1.5)


ADAPTERS = [NystroemRidge()]
