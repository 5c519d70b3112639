"""scikit-learn's PolynomialCountSketch, then Ridge; its points are growing numbers of features."""

from sklearn.kernel_approximation import PolynomialCountSketch
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from peers.base import ENTRIES, Adapter, Dataset, Trace, penalties

COMPONENTS = (50, 100, 200, 500, 1000, 2000, 5000)
VISITS = 500_000_000  # entries of X, zeros included, which it goes through one column after the other


class CountSketchRidge(Adapter):
    name, label = "countsketch", "PolynomialCountSketch + Ridge"
    threaded = True
    needs = f"rows times columns of at most {VISITS:,}"
    settings = (
        "`coef0=1`, the degree, `gamma=1 / n_features` as in KernelRidge; `Ridge` with `alpha` chosen. Its points are "
        f"growing numbers of components, up to {COMPONENTS[-1]:,} or {ENTRIES:,} features in all"
    )
    grid = penalties("alpha", 1.0, 0.01, 0.1, 10.0, 100.0)

    def suits(self, dataset: Dataset) -> bool:
        n, d = dataset.X_train.shape
        return n * d <= VISITS and n * COMPONENTS[0] <= ENTRIES

    def run(self, trace: Trace, dataset: Dataset, threads: int, setting: dict) -> None:
        n, d = dataset.X_train.shape

        def fit(components: int):
            features = PolynomialCountSketch(
                gamma=1 / d, degree=dataset.degree, coef0=1, n_components=components, random_state=0
            )
            model = make_pipeline(features, Ridge(**setting)).fit(dataset.X_train, dataset.y_train)
            return lambda: model.predict(dataset.X_test)

        trace.in_budgets(fit, tuple(k for k in COMPONENTS if k * n <= ENTRIES), growth=1.5)


ADAPTERS = [CountSketchRidge()]
