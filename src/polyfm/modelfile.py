"""Models out and in: a file format that is safe to load from a stranger, because it holds numbers and words alone."""

import math
import os
from typing import Any

from sklearn import config_context

from polyfm.files import container
from polyfm.files.atomic import ModelFileError, Path, shown
from polyfm.files.records import ESTIMATORS, from_record, to_record
from polyfm.files.values import Reader, UnstorableError, Writer

__all__ = ["ModelFileError", "load_model", "model_info", "save_model"]


def save_model(estimator: Any, path: Path, *, table: dict[str, Any] | None = None) -> None:
    """Save a fitted estimator, or a pipeline that ends with one, to a file.

    The file is a zip archive of a JSON header, .npy arrays and their SHA-256 sums (no pickle, no code). It is written
    whole or not at all, and the same model gives the same bytes.

    Beside polyfm's estimators, `TableEncoder` and `Recommender`, it holds scikit-learn's `Pipeline`,
    `ColumnTransformer` and `FeatureUnion` of these transformers: `OneHotEncoder`, `OrdinalEncoder`, `SimpleImputer`,
    `MissingIndicator`, `KBinsDiscretizer`, `Binarizer`, `Normalizer`, the scalers `StandardScaler`, `MinMaxScaler`,
    `MaxAbsScaler` and `RobustScaler`, `CountVectorizer`, `TfidfVectorizer`, `TfidfTransformer`, `HashingVectorizer`,
    `FeatureHasher` and `DictVectorizer`. What needs code of your own, such as `FunctionTransformer` or a tokenizer, is
    refused.

    What is not stored loads as a default and is noted (see `model_info`): a `RandomState` instance becomes
    ``random_state=None``; of a loss of your own, the name and the numbers are stored, but not the code. Such a model
    predicts when loaded, and says what to do when it is fitted. Of an estimator with a search built in, such as
    `FactorizationMachineRegressorCV`, the model that it has chosen is stored.

    Parameters
    ----------
    estimator : object
        Fitted.
    path : str or path-like
        Replaced if it exists.
    table : dict, default=None
        What the command line is to know of the table that was learned from: ``"target"``, the name of the column that
        is predicted, and ``"text"``, the names of those that are to be read as text.

    Raises
    ------
    ModelFileError
        If the object cannot be stored, or the file cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_diabetes
    >>> from polyfm import FactorizationMachineRegressor
    >>> from polyfm.modelfile import load_model, save_model
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = FactorizationMachineRegressor(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     save_model(model, os.path.join(directory, "diabetes.polyfm"))
    ...     loaded = load_model(os.path.join(directory, "diabetes.polyfm"))
    >>> bool((loaded.predict(X) == model.predict(X)).all())
    True
    """
    from polyfm import __version__

    writer = Writer()
    if table is not None and not _is_table(table):
        raise ModelFileError(
            f"{os.fspath(path)}: table must be a dict of 'target', a name, and 'text', a list of names; got {table!r}."
        )
    try:
        record = to_record(estimator, writer)
    except UnstorableError as problem:
        raise ModelFileError(f"{os.fspath(path)}: {type(estimator).__name__} cannot be saved: {problem}.") from problem
    header = {"polyfm_version": __version__, "notes": writer.notes, "object": record}
    container.write(path, header if table is None else {**header, "table": table}, writer.arrays)


def load_model(path: Path) -> Any:
    """Load what `save_model` has saved.

    Loading runs no code from the file, and takes no more memory than a few times the size of the file. A file that is
    cut short, altered, foreign or from a newer polyfm is refused.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    estimator : object
        Fitted, with the same predictions, bit for bit.

    Raises
    ------
    ModelFileError
        With the file, what is wrong, and what to do.

    Examples
    --------
    >>> from polyfm.modelfile import ModelFileError, load_model
    >>> try:
    ...     load_model("no-such-file.polyfm")
    ... except ModelFileError as error:
    ...     print(str(error)[:47])
    no-such-file.polyfm: there is no such file. Che
    """
    header, arrays = container.read(path)
    try:
        with config_context(transform_output="default"):  # what the user has set is not for transformers in the making
            return from_record(header["object"], Reader(arrays))
    except _ODD as problem:
        raise _strange(path, header, problem) from problem


def model_info(path: Path) -> dict[str, Any]:
    """What a model file holds, without loading its arrays.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    info : dict
        ``class``, ``parameters``, ``degree``, ``degrees``, ``rank``, ``n_features``, ``n_classes`` (None for
        regressors), ``objective`` (None where it was not kept), ``n_iter``, ``n_parameters``, ``effective_rank`` (None
        but for Bayesian machines), ``dtype``, ``shapes`` of the arrays, ``steps`` (the classes of a pipeline),
        ``table`` (as it was given to `save_model`), ``notes``, ``format_version``, ``polyfm_version`` and ``bytes``. Of
        a pipeline, all but the first few describe its last step. Of a `Recommender`, there are ``n_users``,
        ``n_items``, ``n_interactions``, ``user_features``, ``item_features`` and ``estimator`` in place of what
        describes a single model.

    Raises
    ------
    ModelFileError
        As `load_model` does, except that damage within arrays is not noticed.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from polyfm import FactorizationMachineClassifier
    >>> from polyfm.modelfile import model_info, save_model
    >>> X, y = load_iris(return_X_y=True)
    >>> model = FactorizationMachineClassifier(degree=3, n_components=4, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     save_model(model, os.path.join(directory, "iris.polyfm"))
    ...     info = model_info(os.path.join(directory, "iris.polyfm"))
    >>> info["class"], info["degree"], info["rank"], info["n_features"], info["n_classes"]
    ('FactorizationMachineClassifier', 3, 4, 4, 3)
    """
    header = container.read_header(path)
    try:
        return _described(path, header)
    except _ODD as problem:
        raise _strange(path, header, problem) from problem


# What a header of unknown origin can cause; a sound one causes none of these.
_ODD = (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, AssertionError, RecursionError)


def _strange(path: Path, header: dict[str, Any], problem: Exception) -> ModelFileError:
    from polyfm import __version__

    written = shown(str(header.get("polyfm_version")))
    remedy = "Save it again, or ask whoever made it."
    if written != shown(__version__):
        remedy = f"It says that polyfm {written} wrote it, and this is {__version__}: update polyfm if that is newer."
    return ModelFileError(
        f"{os.fspath(path)}: holds what this polyfm does not understand ({shown(str(problem))}). {remedy}"
    )


def _described(path: Path, header: dict[str, Any]) -> dict[str, Any]:
    record = header["object"]
    info: dict[str, Any] = {"class": record["class"], "steps": None}
    if record["class"] == "Pipeline":
        steps = [step["object"] for step in record["steps"]]
        info["steps"] = [step if isinstance(step, str) else step["class"] for step in steps]
        record = steps[-1]
        while isinstance(record, dict) and record["class"] == "Pipeline":
            record = record["steps"][-1]["object"]
    shapes = {name: tuple(entry["shape"]) for name, entry in header["arrays"].items()}
    if isinstance(record, dict) and record["class"] in ESTIMATORS:
        fitted, model = record["fitted"], record["model"]
        names = [g[part]["array"] for g in model["groups"] for part in ("factors", "lambdas")]
        names += [model["coef"]["array"], model["intercept"]["array"]]
        info |= {
            "parameters": {name: _plain(value) for name, value in record["parameters"].items()},
            "degree": model["groups"][0]["degree"],
            "degrees": [group["degree"] for group in model["groups"]],
            "rank": model["groups"][0]["n_bases"],
            "n_features": fitted["n_features_in_"],
            "n_classes": _count(fitted["classes_"], shapes) if "classes_" in fitted else None,
            "objective": fitted.get("objective_"),
            "n_iter": fitted.get("n_iter_"),
            "n_parameters": sum(math.prod(shapes[name]) for name in names),
            "effective_rank": fitted.get("effective_rank_"),
            "dtype": "float32" if header["arrays"][names[-2]]["dtype"].endswith("f4") else "float64",
        }
    if isinstance(record, dict) and record["class"] == "Recommender":
        info |= _of_recommender(record, shapes)
    if header.get("table") is not None and not _is_table(header["table"]):
        raise ValueError("a table of another kind")
    return info | {
        "table": header.get("table"),
        "shapes": shapes,
        "notes": list(map(str, header["notes"])),
        "format_version": header["format_version"],
        "polyfm_version": str(header["polyfm_version"]),
        "bytes": os.path.getsize(path),
    }


def _of_recommender(record: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    def columns(side: dict[str, Any]) -> list[str]:
        return [str(name) for name, _ in side["table"]]

    return {
        "parameters": {name: _plain(value) for name, value in record["parameters"].items()},
        "n_users": record["users"]["texts"]["count"],
        "n_items": record["items"]["texts"]["count"],
        "n_interactions": shapes[record["seen"]["indices"]["array"]][0],
        "user_features": columns(record["users"]),
        "item_features": columns(record["items"]),
        "estimator": record["estimator"]["class"] if "estimator" in record else None,
    }


def _is_table(table: Any) -> bool:
    if not isinstance(table, dict) or not set(table) <= {"target", "text"}:
        return False
    text = table.get("text", [])
    return isinstance(table.get("target", ""), str) and isinstance(text, list) and all(isinstance(t, str) for t in text)


def _plain(value: Any) -> Any:
    """A parameter for the eye."""
    if not isinstance(value, dict):
        return value
    if "loss" in value:
        return f"{value['loss']}({', '.join(f'{k}={v!r}' for k, v in value['numbers'].items())})"
    return next((value[tag] for tag in ("list", "float", "dtype", "array", "strings") if tag in value), value)


def _count(classes: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> int:
    return classes["count"] if "strings" in classes else shapes[classes["array"]][0]
