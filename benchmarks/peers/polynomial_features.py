"""scikit-learn's PolynomialFeatures, then Ridge: the table of all products, where it is small enough. One point."""

from math import comb

from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from peers.base import Adapter, Dataset, Trace, penalties

PRODUCTS = 20_000


class Products(Adapter):
    name, label = "polynomialfeatures", "PolynomialFeatures + Ridge"
    threaded = True
    needs = f"at most {PRODUCTS:,} products of features"
    settings = "the degree, powers included, without the constant; `Ridge` with `alpha` chosen"
    grid = penalties("alpha", 1.0, 0.01, 0.1, 10.0, 100.0)

    def suits(self, dataset: Dataset) -> bool:
        return comb(dataset.X_train.shape[1] + dataset.degree, dataset.degree) <= PRODUCTS

    def run(self, trace: Trace, dataset: Dataset, threads: int, setting: dict) -> None:
        model = make_pipeline(PolynomialFeatures(dataset.degree, include_bias=False), Ridge(**setting))
        trace.start()
        model.fit(dataset.X_train, dataset.y_train)
        trace.point(1, lambda: model.predict(dataset.X_test), always=True)


ADAPTERS = [Products()]
