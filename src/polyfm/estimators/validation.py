"""Checks of what users pass, before any work is done."""

from numbers import Real
from typing import Any

import numpy as np

from polyfm.core.model import Model
from polyfm.core.penalty import Ridge

LARGEST = {"float64": 1e100, "float32": 1e15}  # beyond these, squares of derivatives overflow
MOST_NAMED = 3  # features or fields in a message


def check_features(X) -> None:
    check_range(
        "X", X.data if hasattr(X, "indptr") else X, LARGEST[X.dtype.name],
        "Scale the features first, for instance with sklearn.preprocessing.StandardScaler or MaxAbsScaler.",
    )  # fmt: skip


def check_range(name: str, values: np.ndarray, limit: float, remedy: str) -> None:
    largest = max(abs(float(values.max())), abs(float(values.min()))) if values.size else 0.0
    if largest > limit:
        raise ValueError(
            f"{name} has a value of magnitude {largest:.3g}, too large for products and squares in {values.dtype}. "
            f"{remedy}"
        )


def check_lambdas(init_lambdas, model: Model) -> Any:
    """`init_lambdas` as a word or as a checked array over all bases."""
    if isinstance(init_lambdas, str):
        return init_lambdas
    lams = np.asarray(init_lambdas, dtype=np.float64)
    n_bases = sum(group.n_bases for group in model.groups)
    if lams.shape != (n_bases,):
        raise ValueError(
            f"init_lambdas has shape {lams.shape}, but the model has {n_bases} bases (n_components="
            f"{model.groups[0].n_bases} for each of {len(model.groups)} degree(s)): pass ({n_bases},) values."
        )
    if not np.all(np.isfinite(lams)):
        raise ValueError("init_lambdas must be finite numbers.")
    return lams


def as_ridge(name: str, penalty, groups, feature_names, n_features: int, n_dummies: int = 0) -> float | Ridge:
    """`alpha` or `beta` as training wants it."""
    strengths = by_feature(name, penalty, groups, feature_names, n_features, n_dummies)
    return strengths if isinstance(strengths, float) else Ridge.by_feature(strengths)


def by_feature(name: str, penalty, groups, feature_names, n_features: int, n_dummies: int = 0) -> float | np.ndarray:
    """`alpha` or `beta`: a number, or one for each feature, from an array or from a dict by field or feature."""
    if isinstance(penalty, Real):
        if not np.isfinite(float(penalty)):
            raise ValueError(f"{name} must be finite, got {penalty}.")
        return float(penalty)
    if isinstance(penalty, dict):
        strengths = _by_name(name, penalty, groups, feature_names, n_features)
    else:
        strengths = np.asarray(penalty)
        allowed = {n_features, n_features + n_dummies}
        if strengths.ndim != 1 or len(strengths) not in allowed or strengths.dtype.kind not in "iuf":
            raise ValueError(
                f"{name} has shape {strengths.shape} and type {strengths.dtype}; pass a number, {n_features} numbers "
                "(one for each feature), or a dict by field or feature."
            )
    strengths = strengths.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(strengths) & (strengths >= 0)))
    if len(wrong):
        raise ValueError(f"{name} must be finite and >= 0, got {strengths[wrong[0]]} for feature {wrong[0]}.")
    return strengths


def _by_name(name: str, penalty: dict, groups, feature_names, n_features: int) -> np.ndarray:
    """One strength for each feature, from a dict by the labels in `groups` or else by features."""
    kind = "field" if groups is not None else "feature"
    if groups is not None:
        given = np.asarray(groups)
        if given.shape != (n_features,):
            raise ValueError(
                f"groups has shape {given.shape}; pass the field of each of the {n_features} features, one label each."
            )
    labels = range(n_features) if feature_names is None else feature_names
    labels = list(labels if groups is None else given.tolist())
    known = set(labels)
    unknown = [key for key in penalty if key not in known]
    missing = [label for label in dict.fromkeys(labels) if label not in penalty]
    if unknown or missing:
        problem = f"has no number for the {kind}(s)" if missing else f"names what is no {kind}:"
        shown = ", ".join(map(repr, (missing or unknown)[:MOST_NAMED]))
        more = len(missing or unknown) - MOST_NAMED
        hint = (
            ""
            if groups is not None
            else " To name fields instead of features, pass groups=, the field of each feature."
        )
        raise ValueError(f"{name} {problem} {shown}{f' and {more} more' if more > 0 else ''}.{hint}")
    bad = [value for value in penalty.values() if isinstance(value, bool) or not isinstance(value, Real)]
    if bad:
        raise ValueError(f"{name} must hold numbers, got {bad[0]!r}.")
    return np.array([float(penalty[label]) for label in labels])
