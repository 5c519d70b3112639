"""The linear model of scikit-learn: what features that act together have to beat."""

from sklearn.linear_model import LogisticRegression, Ridge

from peers.base import Adapter, Dataset, Trace, penalties


class Linear(Adapter):
    name, label = "linear", "Ridge, LogisticRegression"
    settings = "`Ridge(alpha)`, or `LogisticRegression(C=1 / alpha)`, with `alpha` chosen; all else at its default"
    grid = penalties("alpha", 1.0, 0.1, 0.3, 3.0, 10.0, 30.0)

    def run(self, trace: Trace, dataset: Dataset, threads: int, setting: dict) -> None:
        alpha = setting["alpha"]
        model = LogisticRegression(C=1 / alpha, max_iter=1000) if dataset.classifies else Ridge(alpha=alpha)
        trace.start()
        model.fit(dataset.X_train, dataset.y_train)
        predict = model.decision_function if dataset.classifies else model.predict
        trace.point(1, lambda: predict(dataset.X_test), always=True)


ADAPTERS = [Linear()]
