"""Scores of predictions, by their usual names."""

import numpy as np
import sklearn.metrics


def of_numbers(y: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    r2 = {"R2": float(sklearn.metrics.r2_score(y, predicted))} if len(y) > 1 else {}
    return {
        **r2,
        "RMSE": float(sklearn.metrics.root_mean_squared_error(y, predicted)),
        "MAE": float(sklearn.metrics.mean_absolute_error(y, predicted)),
    }


def unknown_labels(y: np.ndarray, classes: np.ndarray) -> list:
    known = set(classes.tolist())
    return [label for label in np.unique(y).tolist() if label not in known]


def of_classes(y: np.ndarray, values: np.ndarray, classes: np.ndarray) -> dict[str, float]:
    """Of labels (n,) or probabilities (n, classes). Labels that are none of the classes count as errors."""
    labels = values if values.ndim == 1 else classes[values.argmax(axis=1)]
    found = {"accuracy": float(np.mean(y == labels))}
    if values.ndim == 2 and not unknown_labels(y, classes):
        found["log loss"] = float(sklearn.metrics.log_loss(y, values, labels=classes))
        if len(classes) == 2 and len(np.unique(y)) == 2:
            found["ROC AUC"] = float(sklearn.metrics.roc_auc_score(y == classes[1], values[:, 1]))
    return found
