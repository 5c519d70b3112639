"""Checks of what users pass, before any work is done."""

import math
import os
import warnings
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from joblib import cpu_count, effective_n_jobs

from polyfm.core.model import Model
from polyfm.core.penalty import Ridge
from polyfm.solvers import PACES

RandomState: TypeAlias = int | np.random.RandomState | None  # what users pass as random_state

LARGEST = {"float64": 1e100, "float32": 1e15}  # beyond these, squares of derivatives overflow
MOST_SHOWN = 10**15
VERY_DIFFERENT = 100.0  # sizes of features (root mean squares)
MOST_LOOKED_AT, FEW = 10**6, 1e-3  # values of sparse data, and the part of them that does not count
MOST_NAMED = 3  # features or fields in a message


def check_features(X) -> None:
    check_range(
        "X", X.data if hasattr(X, "indptr") else X, LARGEST[X.dtype.name],
        "Scale the features first, for instance with sklearn.preprocessing.StandardScaler or MaxAbsScaler.",
    )  # fmt: skip


def warn_of_sizes(X) -> bool:
    """Say that one penalty cannot suit features of very different sizes, and whether they are. Rare words and
    categories are meant so: a size is that of the values other than zero."""
    if X.shape[1] < 2 or X.shape[0] == 0:
        return False
    return warn_of_unequal(*(_sizes_of_stored(X) if hasattr(X, "indptr") else _sizes(X)))


def warn_of_unequal(small: float, large: float) -> bool:
    unequal = large > VERY_DIFFERENT * small
    if unequal:
        warnings.warn(
            f"Features differ in size by a factor of {large / small:.2g}, and one penalty cannot suit them all: the "
            "fit may be poor and slow. Scale them first, for instance with sklearn.preprocessing.StandardScaler.",
            UserWarning,
            stacklevel=9,
        )
    return unequal


def _sizes(X: np.ndarray) -> tuple[float, float]:
    squares, counts = np.einsum("ij,ij->j", X, X), np.count_nonzero(X, axis=0)
    sizes = np.sqrt(squares[squares > 0] / counts[squares > 0])
    return (float(sizes.min()), float(sizes.max())) if len(sizes) else (1.0, 1.0)


def _sizes_of_stored(X) -> tuple[float, float]:
    """Of sparse data, of which a part is enough. Sizes that few values have, such as those of a word in one long text,
    do not count: the others are what one penalty has to suit."""
    values = X.data
    if len(values) == 0 or values.max() == values.min():
        return 1.0, 1.0
    some = np.arange(0, len(values), max(1, len(values) // MOST_LOOKED_AT))
    features = X.indices[some] if X.format == "csr" else np.searchsorted(X.indptr, some, side="right") - 1
    _, features = np.unique(features, return_inverse=True)
    squares = np.bincount(features, values[some].astype(np.float64) ** 2)
    sizes = np.sqrt(squares / np.bincount(features))[features]  # of each value, that of its feature
    small, large = np.quantile(sizes[sizes > 0], (FEW, 1 - FEW)) if sizes.any() else (1.0, 1.0)
    return float(small), float(large)


def check_range(name: str, values: np.ndarray, limit: float, remedy: str) -> None:
    largest = max(abs(float(values.max())), abs(float(values.min()))) if values.size else 0.0
    if largest > limit:
        raise ValueError(
            f"{name} has a value of magnitude {largest:.3g}, too large for products and squares in {values.dtype}. "
            f"{remedy}"
        )


def threads_of(n_jobs: int | None) -> int:
    """As many threads as asked for, in joblib's way of counting, and no more than there are processors."""
    return 1 if n_jobs in (None, 1) else min(effective_n_jobs(n_jobs), cpu_count())


def check_size(model: Model, X, n_targets: int) -> None:
    """Refuse what this machine could never hold: the parameters, and what training keeps for a sample."""
    n, d = X.shape
    group = model.groups[0]
    parameters = n_targets * (sum(math.prod(group.shape(d)) for group in model.groups) + d)
    state = n * (1 + max(group.form.n_cached if group.form.multilinear else 0 for group in model.groups))
    needed, there = min((parameters + state) * X.dtype.itemsize, 10**30), memory()
    if there is not None and needed > there:
        raise ValueError(
            f"The model would need {_short(needed / 10**9)} GB, for {_short(parameters)} parameters and "
            f"{_short(state)} numbers that belong to the samples; this machine has {there / 1e9:.3g} GB. Lower "
            f"n_components or degree={group.degree}, or hash the {d} features to fewer."
        )
    if not group.is_workable:
        raise ValueError(
            f"Each row would need {_short(group.form.n_slots * group.n_bases)} numbers of working space with "
            f"method={group.form.method!r}, degree={group.degree} and n_components={_short(group.n_bases)}. Lower them."
        )


def _short(number: float) -> str:
    return f"{number:.3g}" if number < MOST_SHOWN else "more than 1e15"


def memory() -> float | None:
    """Bytes of memory that this process may use at most, where the system says so."""
    try:
        there = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return None
    try:  # a container's limit
        return min(there, float(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):
        return there


def check_finite(name: str, value) -> None:
    """Refuse numbers that no float can hold, of whatever type they are."""
    try:
        finite = not isinstance(value, Real) or math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        finite = False
    if not finite:
        raise ValueError(f"{name} must be finite, got {str(value)[:20]}{'...' if len(str(value)) > 20 else ''}.")


def check_automatic_rank(estimator: Any) -> None:
    """Refuse what goes with a given number of bases alone."""
    if estimator.degree != 2:
        raise ValueError(
            f"n_components='auto' needs degree=2, got {estimator.degree}: for products of three and more features "
            "nobody can tell how many bases the best model has. Give a number."
        )
    if estimator.solver not in ("auto", *PACES):
        raise ValueError(
            f"n_components='auto' needs solver='auto' or one of {sorted(PACES)}, got {estimator.solver!r}."
        )
    for name in ("early_stopping", "checkpoint"):
        if getattr(estimator, name, None):
            raise ValueError(f"n_components='auto' goes without {name}: give a number of bases, or leave {name} out.")
    if not isinstance(estimator.init_lambdas, str):
        raise ValueError(
            "n_components='auto' needs init_lambdas='ones' or 'random_signs' (bases of both signs): nobody knows yet "
            "how many there will be."
        )
    for name in ("alpha", "beta"):
        penalty = getattr(estimator, name, 1.0)
        if isinstance(penalty, Real) and penalty == 0 and (name == "beta" or estimator.fit_linear):
            raise ValueError(f"n_components='auto' needs {name} > 0: without a penalty there is no bound to stop at.")


def is_auto(penalty: Any) -> bool:
    """Whether the data are to choose it."""
    return isinstance(penalty, str) and penalty == "auto"


def shown(penalty: Any) -> float | np.ndarray:
    """A penalty as a fitted attribute: a number, one for each feature, or one for each degree."""
    if isinstance(penalty, Ridge):
        return penalty.strength[penalty.of] if penalty.of is not None else float(penalty.strength[0])
    return np.array(penalty) if isinstance(penalty, tuple) else float(penalty)


def check_penalties(alpha: Any, beta: Any, dtype) -> None:
    """Penalties have the units of squared features."""
    largest = LARGEST[dtype.name] ** 2
    for name, penalty in (("alpha", alpha), ("beta", beta)):
        if penalty is None:
            continue
        strength = penalty.strength if isinstance(penalty, Ridge) else np.array([penalty])
        if strength.max() > largest:
            raise ValueError(
                f"{name} is {strength.max():.3g}, too large for products in {dtype}: at most {largest:.0e}. "
                f"To leave features out, drop their columns."
            )


def check_some_weight(sample_weight: np.ndarray, of: str) -> None:
    if not np.any(sample_weight):
        raise ValueError(f"Of {of}, all sample weights are zero: there is nothing to learn from. Drop such rows first.")


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
        check_finite(name, penalty)
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
