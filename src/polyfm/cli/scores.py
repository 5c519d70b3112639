"""Scores of predictions, all at once or in chunks."""

import numpy as np
import sklearn.metrics


def scores(model, X, y) -> dict[str, float]:
    if hasattr(model, "predict_proba"):
        return metrics(True, y, model.predict_proba(X), model.classes_)
    return metrics(hasattr(model, "classes_"), y, model.predict(X))


def metrics(classify: bool, y, values, classes=None) -> dict[str, float]:
    if not classify:
        return {
            "R2": float(sklearn.metrics.r2_score(y, values)),
            "RMSE": float(sklearn.metrics.root_mean_squared_error(y, values)),
            "MAE": float(sklearn.metrics.mean_absolute_error(y, values)),
        }
    if values.ndim == 1:
        return {"accuracy": float(sklearn.metrics.accuracy_score(y, values))}
    found = {
        "accuracy": float(sklearn.metrics.accuracy_score(y, classes[values.argmax(axis=1)])),
        "log loss": float(sklearn.metrics.log_loss(y, values, labels=classes)),
    }
    if len(classes) == 2 and len(np.unique(y)) == 2:
        found["ROC AUC"] = float(sklearn.metrics.roc_auc_score(y == classes[1], values[:, 1]))
    return found


class Progressive:
    """Scores of predictions that come in chunks, from sums alone: memory does not grow with the rows."""

    def __init__(self, classify: bool):
        self.classify = classify
        self.n, self.correct, self.mean, self.spread, self.squares, self.sizes = 0, 0, 0.0, 0.0, 0.0, 0.0

    def add(self, y: np.ndarray, predictions: np.ndarray) -> None:
        n = self.n + len(y)
        if self.classify:
            self.correct += int(np.sum(y == predictions))
        else:
            # The sum of squares around the mean of all rows so far, by the parallel form of Welford's update.
            mean, shift = float(np.mean(y)), float(np.mean(y)) - self.mean
            self.spread += float(np.sum((y - mean) ** 2)) + shift**2 * self.n * len(y) / n
            self.mean += shift * len(y) / n
            self.squares += float(np.sum((y - predictions) ** 2))
            self.sizes += float(np.sum(np.abs(y - predictions)))
        self.n = n

    def scores(self) -> dict[str, float]:
        if self.n == 0:
            return {}
        if self.classify:
            return {"accuracy": self.correct / self.n}
        r2 = {"R2": 1 - self.squares / self.spread} if self.spread > 0 else {}
        return {**r2, "RMSE": float(np.sqrt(self.squares / self.n)), "MAE": self.sizes / self.n}
