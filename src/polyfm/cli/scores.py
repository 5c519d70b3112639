"""Scores of predictions, all at once or in chunks."""

import click
import numpy as np
import sklearn.metrics

from polyfm.cli.terminal import note


def scores(model, X, y) -> dict[str, float]:
    predicted = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    return metrics(y, predicted, getattr(model, "classes_", None))


def metrics(y, values, classes=None) -> dict[str, float]:
    """Scores of predicted numbers or, where there are classes, of labels or of probabilities."""
    if classes is None:
        if y.dtype.kind in "OUS":
            raise click.UsageError(f"The model predicts numbers, and the target holds text such as {str(y[0])!r}.")
        r2 = {"R2": float(sklearn.metrics.r2_score(y, values))} if len(y) > 1 else {}
        return {
            **r2,
            "RMSE": float(sklearn.metrics.root_mean_squared_error(y, values)),
            "MAE": float(sklearn.metrics.mean_absolute_error(y, values)),
        }
    known = set(classes.tolist())
    unknown = [label for label in np.unique(y).tolist() if label not in known]
    if unknown:
        shown = ", ".join(repr(str(label)) for label in unknown[:3]) + (" ..." if len(unknown) > 3 else "")
        if len(unknown) == len(np.unique(y)):
            there = ", ".join(repr(str(label)) for label in classes[:20])
            raise click.UsageError(f"The target has none of the model's classes, {there}, but {shown}.")
        note(f"the model does not know {shown}: such rows count as errors, and there are no scores of probabilities.")
    labels = values if values.ndim == 1 else classes[values.argmax(axis=1)]
    found = {"accuracy": float(np.mean(y == labels))}
    if values.ndim == 2 and not unknown:
        found["log loss"] = float(sklearn.metrics.log_loss(y, values, labels=classes))
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
