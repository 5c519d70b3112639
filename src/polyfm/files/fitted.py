"""The parameters of a fitted estimator, and the state of training on a stream, as records; read back with suspicion."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from polyfm.core.fitted import Fitted
from polyfm.core.model import MOST_DEGREE, Group, Model
from polyfm.core.parameters import Parameters
from polyfm.estimators.validation import is_auto
from polyfm.files.values import Reader, UnstorableError, Writer
from polyfm.loops.forms import FORMS, form_of
from polyfm.solvers import SGD, Resume, sgd

LARGEST_COUNT = 2.0**53  # of epochs, rows and seeds
STREAM_NUMBERS = {"step": float, "epoch": int, "seed": int, "halvings": int, "n_seen": int}  # as SGD.resume has them


def chosen(estimator: Any) -> Any:
    """The plain estimator that a search over beta has chosen; other estimators are what they are."""
    plain = getattr(type(estimator), "_plain", None)
    if plain is None:
        return estimator
    check_is_fitted(estimator)
    found = {"beta": estimator.beta_, "degree": estimator.degree_, "n_components": estimator.n_components_}
    found |= {name: getattr(estimator, name) for name in ("n_jobs", "class_weight") if hasattr(estimator, name)}
    if isinstance(estimator.alpha, str):  # the data have chosen it
        found["alpha"] = estimator.alpha_
    other = estimator._plain_estimator(**found)
    of_search = {"betas_", "degree_", "n_components_", "cv_scores_", "best_score_", "search_scores_"}
    fitted = {name: value for name, value in vars(estimator).items() if name.endswith("_") and name not in of_search}
    vars(other).update(fitted, _fitted=estimator._fitted)
    return other


def model_to_record(estimator: Any, writer: Writer, prefix: str) -> dict:
    model, targets = estimator._fitted.model, estimator._fitted.targets
    groups = []
    for g, group in enumerate(model.groups):
        if not group.is_workable:
            raise UnstorableError(f"Degree {group.degree} and rank {group.n_bases} are too high to load again")
        groups.append(
            {
                "kernel": group.form.kernel,
                "method": group.form.method,
                "degree": int(group.degree),
                "n_bases": int(group.n_bases),
                "n_dummies": int(group.n_dummies),
                "factors": writer.array(f"{prefix}factors_{g}", np.stack([p.factors[g] for p in targets])),
                "lambdas": writer.array(f"{prefix}lambdas_{g}", np.stack([p.lambdas[g] for p in targets])),
            }
        )
    return {
        "groups": groups,
        "fit_linear": bool(model.fit_linear),
        "fit_intercept": bool(model.fit_intercept),
        "coef": writer.array(f"{prefix}coef", np.stack([p.coef for p in targets])),
        "intercept": writer.array(f"{prefix}intercept", np.stack([p.intercept for p in targets])),
    }


def restore_model(estimator: Any, record: dict, reader: Reader) -> None:
    n_features = estimator.n_features_in_
    n_targets = 1
    if hasattr(estimator, "decision_function"):
        if estimator.classes_.ndim != 1 or len(np.unique(estimator.classes_)) < max(2, len(estimator.classes_)):
            raise ValueError("class labels that are fewer than two, or repeated")
        n_targets = 1 if len(estimator.classes_) == 2 or estimator._is_ordered else len(estimator.classes_)

    def numbers(value: dict, *shape: int) -> np.ndarray:
        array = reader.value(value)
        if array.dtype.kind != "f" or array.shape != (n_targets, *shape) or not np.all(np.isfinite(array)):
            raise ValueError(f"parameters that are not {(n_targets, *shape)} finite numbers")
        return array

    groups = []
    for entry in record["groups"]:
        kernel, method = entry["kernel"], entry["method"]
        fields = {name: entry[name] for name in ("degree", "n_bases", "n_dummies")}
        if (kernel, method) not in FORMS or kernel != estimator._kernel:
            raise ValueError("bases of an unknown form")
        for name, lo, hi in (("degree", 2, MOST_DEGREE), ("n_bases", 1, 2**31), ("n_dummies", 0, MOST_DEGREE)):
            if type(fields[name]) is not int or not lo <= fields[name] <= hi:
                raise ValueError(f"{name}={fields[name]!r}")
        form = form_of(kernel, method, fields["degree"])
        groups.append(Group(form, fields["n_bases"], fields["n_dummies"]))
        if not groups[-1].is_workable:
            raise ValueError("a degree and rank too high to predict with")
    if not groups or len({group.form.method for group in groups}) > 1:
        raise ValueError("no bases, or bases of several forms")
    if [g.degree for g in groups] != sorted({g.degree for g in groups}, reverse=True):
        raise ValueError("degrees that do not fall")
    model = Model(tuple(groups), bool(record["fit_linear"]), bool(record["fit_intercept"]))
    factors = [numbers(e["factors"], *g.shape(n_features)) for e, g in zip(record["groups"], groups, strict=True)]
    lambdas = [numbers(e["lambdas"], g.n_bases) for e, g in zip(record["groups"], groups, strict=True)]
    coef, intercept = numbers(record["coef"], n_features), numbers(record["intercept"], 1)
    parameters = [
        Parameters(tuple(f[t] for f in factors), tuple(lams[t] for lams in lambdas), coef[t], intercept[t])
        for t in range(n_targets)
    ]
    estimator._set_fitted(Fitted(model, parameters))
    _check_training(estimator, len(groups))


def _check_training(estimator: Any, n_groups: int) -> None:
    """What training left beside the parameters and predictions or further training would read."""
    chosen = vars(estimator)
    if is_auto(estimator.alpha) and "alpha_" in chosen:
        _check_numbers("alpha_", chosen["alpha_"], [()], lowest=0.0)
    if is_auto(estimator.beta) and "beta_" in chosen:
        _check_numbers("beta_", chosen["beta_"], [(), (n_groups,)], lowest=0.0)
    if ("alpha_" in chosen) != ("beta_" in chosen):
        raise ValueError("one of alpha_ and beta_ without the other")
    if "cut_points_" in chosen:
        _check_numbers("cut_points_", chosen["cut_points_"], [(len(estimator.classes_) - 1,)])
        if np.any(np.diff(chosen["cut_points_"]) <= 0):
            raise ValueError("cut points that do not rise")
    if "target_range_" in chosen:
        _check_numbers("target_range_", chosen["target_range_"], [(2,)])
    elif getattr(estimator, "clip", False) is True:
        raise ValueError("clip=True without the range of the targets")


def _check_numbers(name: str, value: Any, shapes: list[tuple[int, ...]], lowest: float = -np.inf) -> None:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or array.shape not in shapes or not np.all(np.isfinite(array) & (array >= lowest)):
        raise ValueError(f"{name} that is not made of finite numbers")


# -- the state of training on a stream --------------------------------------------------------------------------------


def stream_to_record(state: sgd.State, writer: Writer, prefix: str) -> dict:
    """What `partial_fit` goes on from, beside the parameters."""
    resume = SGD().resume(state)
    numbers = zip(STREAM_NUMBERS.items(), resume["numbers"].tolist(), strict=False)
    return {
        "accumulators": [writer.array(f"{prefix}accumulator{i}", a) for i, a in enumerate(state.accumulators)],
        "sizes": writer.array(f"{prefix}sizes", resume["sizes"]),
        "counts": writer.value(f"{prefix}counts", resume.get("counts")),
        "numbers": {name: writer.value(name, kind(number)) for (name, kind), number in numbers},
    }


def restored_stream(record: dict, parameters: Parameters, reader: Reader) -> sgd.State:
    accumulators = [reader.value(value) for value in record["accumulators"]]
    sizes, counts = reader.value(record["sizes"]), reader.value(record["counts"])
    shapes = [P.shape[::-1] for P in parameters.factors] + [parameters.coef.shape, parameters.intercept.shape]
    if [a.shape for a in accumulators] != shapes or sizes.shape != (len(shapes),):
        raise ValueError("a stream whose arrays do not belong to the model")
    if counts is not None and (counts.shape != parameters.coef.shape or counts.dtype != np.int64):
        raise ValueError("a stream with impossible counts")
    numbers = [float(kind(record["numbers"][name])) for name, kind in STREAM_NUMBERS.items()]
    if not all(abs(number) < LARGEST_COUNT for number in numbers):
        raise ValueError("counts that no stream can reach")
    resume: Resume = {f"accumulator{i}": a for i, a in enumerate(accumulators)}
    resume |= {"sizes": sizes, "numbers": np.array([*numbers, np.inf])} | ({} if counts is None else {"counts": counts})
    return SGD().init_state(None, parameters, resume)  # type: ignore[arg-type]  # one that goes on asks no problem
