"""Scores of predictions, all at once or in chunks."""

import click
import numpy as np

from polyfm.cli.terminal import note
from polyfm.reporting.scores import of_classes, of_numbers, unknown_labels


def scores(model, X, y) -> dict[str, float]:
    predicted = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    return metrics(y, predicted, getattr(model, "classes_", None))


def metrics(y, values, classes=None) -> dict[str, float]:
    """Scores of predicted numbers or, where there are classes, of labels or of probabilities."""
    if classes is None:
        if y.dtype.kind in "OUS":
            raise click.UsageError(f"The model predicts numbers, and the target holds text such as {str(y[0])!r}.")
        return of_numbers(y, values)
    unknown = unknown_labels(y, classes)
    if unknown:
        shown = ", ".join(repr(str(label)) for label in unknown[:3]) + (" ..." if len(unknown) > 3 else "")
        if len(unknown) == len(np.unique(y)):
            there = ", ".join(repr(str(label)) for label in classes[:20])
            raise click.UsageError(f"The target has none of the model's classes, {there}, but {shown}.")
        note(f"the model does not know {shown}: such rows count as errors, and there are no scores of probabilities.")
    return of_classes(y, values, classes)


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
