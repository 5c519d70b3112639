"""Fitted objects as plain records of JSON and arrays. Only classes and attributes that are listed here are stored."""

from numbers import Real
from typing import Any

from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from polyfm import estimators
from polyfm.files import compositions, transformers
from polyfm.files.compositions import COMPOSITIONS
from polyfm.files.fitted import chosen, model_to_record, restore_model, restored_stream, stream_to_record
from polyfm.files.posteriors import posterior_to_record, restore_posterior
from polyfm.files.transformers import FEATURES, check_features
from polyfm.files.values import Reader, UnstorableError, Writer
from polyfm.losses import LOSSES
from polyfm.recommend import Recommender
from polyfm.recommend import record as recommendation
from polyfm.tabular import TableEncoder

BAYESIAN: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        estimators.BayesianFactorizationMachineClassifier,
        estimators.BayesianFactorizationMachineOrdinal,
        estimators.BayesianFactorizationMachineRegressor,
        estimators.BayesianPolynomialNetworkClassifier,
        estimators.BayesianPolynomialNetworkRegressor,
    )
}
ESTIMATORS: dict[str, Any] = BAYESIAN | {
    cls.__name__: cls
    for cls in (
        estimators.FactorizationMachineClassifier,
        estimators.FactorizationMachineOrdinal,
        estimators.FactorizationMachineRegressor,
        estimators.PolynomialNetworkClassifier,
        estimators.PolynomialNetworkRegressor,
    )
}
TRAINING = (
    "alpha_", "beta_", "target_range_", "objective_", "history_", "n_iter_", "solver_", "validation_losses_",
    "n_samples_seen_", "n_components_", "duality_gap_",
)  # fmt: skip
OF_POSTERIOR = ("groups_", "effective_rank_")
SINCE_0_2 = ("kinds_", "sources_", "parts_", "rare_", "buckets_")
# What training leaves beside the parameters. An attribute that is not listed here is not stored.
FITTED = {
    **dict.fromkeys(ESTIMATORS, (*FEATURES, "classes_", *TRAINING)),
    "FactorizationMachineOrdinal": (*FEATURES, "classes_", "cut_points_", *TRAINING),
    **dict.fromkeys(BAYESIAN, (*FEATURES, "classes_", *TRAINING, *OF_POSTERIOR)),
    "TableEncoder": (*FEATURES, "categorical_", "medians_", "means_", "scales_", "flagged_", *SINCE_0_2),
}
OPTIONAL = {"feature_names_in_", *TRAINING, *SINCE_0_2, *OF_POSTERIOR}
OURS: dict[str, Any] = {**ESTIMATORS, "TableEncoder": TableEncoder}
OUTPUTS = ("default", "pandas", "polars")  # of set_output
NOT_STORED = {"checkpoint"}  # a path: it means nothing elsewhere, and `fit` writes to it and deletes it
ELSEWHERE = {"estimator"}  # of a Recommender: its record holds the fitted one


class MissingLoss:
    """Stands for a user's own loss in a model that was loaded: a file holds a loss's name and numbers, not its code.

    The model predicts as before. Before it is fitted again, its loss must be given again with `set_params`.
    """

    def __init__(self, name: str, numbers: dict[str, float]):
        self._name, self._numbers = name, numbers

    def __repr__(self) -> str:
        return f"<{self._call}, to be given again>"

    @property
    def _call(self) -> str:
        return f"{self._name}({', '.join(f'{name}={number!r}' for name, number in self._numbers.items())})"

    def _refuse(self):
        raise TypeError(
            f"This model was trained with a loss of your own, {self._call}, and loaded from a file, which cannot hold "
            "its code. Predictions do not need it; before fitting, give it again: model.set_params(loss=...)."
        )

    @property
    def curvature(self) -> float:
        return self._refuse()

    def value(self, y, f):
        self._refuse()

    def derivative(self, y, f):
        self._refuse()


# -- objects ----------------------------------------------------------------------------------------------------------


def to_record(obj: Any, writer: Writer, prefix: str = "") -> dict:
    """The record of a fitted estimator or transformer, or of a composition of these."""
    record = _to_record(obj, writer, prefix)
    output = getattr(obj, "_sklearn_output_config", {}).get("transform")
    return record if output is None else {**record, "output": output}


def _to_record(obj: Any, writer: Writer, prefix: str) -> dict:
    obj = obj.to_local() if hasattr(obj, "to_local") else obj  # what a cluster has fitted
    name = type(obj).__name__
    if COMPOSITIONS.get(name) is type(obj):
        return compositions.to_record(obj, writer, prefix, to_record)
    if transformers.CLASSES.get(name) is type(obj):
        if name not in transformers.STATELESS:
            check_is_fitted(obj)
        return transformers.to_record(obj, writer, prefix)
    if type(obj) is Recommender:
        found = recommendation.to_record(obj, writer, prefix, to_record)
        return {"class": name, "parameters": _parameters_to_record(obj, writer, prefix), **found}
    if chosen(obj) is not obj:
        writer.notes.append(f"This is the model that {name} has chosen; its search was not stored.")
        obj = chosen(obj)
        name = type(obj).__name__
    if OURS.get(name) is not type(obj):
        raise UnstorableError(_not_known(obj))
    check_is_fitted(obj)
    record = {
        "class": name,
        "parameters": _parameters_to_record(obj, writer, prefix),
        "fitted": _fitted_to_record(obj, writer, prefix),
    }
    if name in ESTIMATORS:
        obj._validate_params()
        record["model"] = model_to_record(obj, writer, prefix)
        if name in BAYESIAN:
            record["posterior"] = posterior_to_record(obj._posterior, writer, prefix)
        if getattr(obj, "_stream", None) is not None:
            record["stream"] = [stream_to_record(s, writer, f"{prefix}stream{t}.") for t, s in enumerate(obj._stream)]
    if name == "TableEncoder":
        record["categories"] = [
            writer.strings(f"{prefix}categories_{i}", values) for i, values in enumerate(obj.categories_)
        ]
    return record


def _not_known(obj: Any) -> str:
    name = type(obj).__name__
    if isinstance(obj, FunctionTransformer):
        return f"{name} is code of your own: {transformers.WITHOUT_CODE}"
    hint = "Save its best_estimator_. " if hasattr(obj, "best_estimator_") else ""
    known = ", ".join(sorted({*OURS, Recommender.__name__, *transformers.CLASSES, *COMPOSITIONS}))
    return f"{hint}A model file holds {known}, but not {name}"


def _fitted_to_record(obj: Any, writer: Writer, prefix: str) -> dict:
    record = {}
    for key in FITTED[type(obj).__name__]:
        if hasattr(obj, key):
            try:
                record[key] = writer.value(prefix + key, getattr(obj, key))
            except UnstorableError as problem:
                raise UnstorableError(f"{key} is {problem}; use numbers or text") from problem
    return record


def from_record(record: dict, reader: Reader) -> Any:
    """The fitted object of a record."""
    obj = _from_record(record, reader)
    if "output" in record:
        if record["output"] not in OUTPUTS:
            raise ValueError("an output of an unknown kind")
        obj.set_output(transform=record["output"])
    return obj


def _from_record(record: dict, reader: Reader) -> Any:
    name = record["class"]
    cls = {**OURS, Recommender.__name__: Recommender, **transformers.CLASSES, **COMPOSITIONS}[name]
    parameters = _parameters_from_record(cls, record["parameters"], reader) if "parameters" in record else {}
    if name in COMPOSITIONS:
        return compositions.from_record(record, parameters, reader, from_record)
    if name in transformers.CLASSES:
        return transformers.from_record(record, parameters, reader)
    if cls is Recommender:
        return recommendation.from_record(record, parameters, reader, from_record)
    obj = cls(**parameters)
    obj._validate_params()
    fitted = {key: reader.value(value) for key, value in record["fitted"].items()}
    required = set(FITTED[name]) - OPTIONAL - ({"classes_"} if not hasattr(cls, "decision_function") else set())
    if not required <= set(fitted) <= set(FITTED[name]):
        raise ValueError(f"unknown or missing attributes among {sorted(fitted)}")
    for key, value in fitted.items():
        setattr(obj, key, value)
    check_features(fitted)
    if name in ESTIMATORS:
        restore_model(obj, record["model"], reader)
        if name in BAYESIAN:
            restore_posterior(obj, record["posterior"], reader)
        if "stream" in record:
            obj._stream = [
                restored_stream(entry, p, reader)
                for entry, p in zip(record["stream"], obj._fitted.targets, strict=True)
            ]
    else:
        obj.categories_ = [reader.strings(values) for values in record["categories"]]
        obj._restore()
    return obj


def _parameters_to_record(obj: Any, writer: Writer, prefix: str) -> dict:
    """Constructor parameters; those that cannot be stored are left out, with a note, and load as their defaults."""
    record = {}
    for name, value in obj.get_params(deep=False).items():
        if name == "loss" and not isinstance(value, str):
            record[name] = _loss_to_record(value, writer)
            continue
        if name in ELSEWHERE:
            continue
        try:
            if name in NOT_STORED and value is not None:
                raise UnstorableError("a path of this machine")
            record[name] = writer.value(prefix + name, value)
        except UnstorableError as problem:
            writer.notes.append(f"The parameter {name} was {problem}; it was not stored and loads as its default.")
    return record


def _parameters_from_record(cls: type, record: dict, reader: Reader) -> dict:
    known = cls._get_param_names()  # type: ignore[attr-defined]
    if any(record.get(name) is not None for name in NOT_STORED | ELSEWHERE):
        raise ValueError(f"one of the parameters {sorted(NOT_STORED | ELSEWHERE)}, which are never stored")
    if unknown := set(record) - set(known):
        raise ValueError(f"parameters that {cls.__name__} does not have: {sorted(unknown)}")
    loss = record.get("loss")
    given = {"loss": _loss_from_record(loss, reader)} if isinstance(loss, dict) else {}
    return {name: reader.value(value) for name, value in record.items() if name not in given} | given


def _loss_to_record(loss: Any, writer: Writer) -> dict:
    if isinstance(loss, MissingLoss):
        name, numbers = loss._name, {key: writer.value(key, number) for key, number in loss._numbers.items()}
    else:
        name = type(loss).__name__
        fields = getattr(loss, "_fields", None) or tuple(getattr(loss, "__dict__", ()))
        numbers = {key: getattr(loss, key) for key in fields}
        numbers = {key: writer.value(key, float(n)) for key, n in numbers.items() if isinstance(n, Real)}
        if type(loss) in LOSSES.values():
            return {"loss": name, "numbers": numbers, "own": False}
    writer.notes.append(
        f"The loss is the user's own class {name}; its code was not stored. The loaded model predicts; before it is "
        "fitted again, give it its loss with set_params(loss=...)."
    )
    return {"loss": name, "numbers": numbers, "own": True}


def _loss_from_record(record: dict, reader: Reader) -> Any:
    numbers = {str(key): float(reader.value(number)) for key, number in record["numbers"].items()}
    if record["own"]:
        return MissingLoss(str(record["loss"]), numbers)
    return {cls.__name__: cls for cls in LOSSES.values()}[record["loss"]](**numbers)
