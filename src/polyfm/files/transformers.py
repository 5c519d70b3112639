"""scikit-learn's transformers as records. A class that is not listed here is refused, and so is everything that would
need code.

What scikit-learn keeps in private attributes is not stored, because it changes from release to release. A transformer
is made again by fitting it, with its own parameters or simpler ones, to a few rows that are chosen to give what is
known, and public attributes are then set to what they were.
"""

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import feature_extraction, impute, preprocessing
from sklearn.feature_extraction import text

from polyfm.files.values import Reader, UnstorableError, Writer

FEATURES = ("n_features_in_", "feature_names_in_")
SCALERS = {
    cls.__name__: cls
    for cls in (
        preprocessing.MaxAbsScaler, preprocessing.MinMaxScaler, preprocessing.RobustScaler, preprocessing.StandardScaler
    )
}  # fmt: skip
CLASSES: dict[str, type] = SCALERS | {
    cls.__name__: cls
    for cls in (
        preprocessing.Binarizer, preprocessing.KBinsDiscretizer, preprocessing.Normalizer, preprocessing.OneHotEncoder,
        preprocessing.OrdinalEncoder, impute.MissingIndicator, impute.SimpleImputer, text.CountVectorizer,
        text.HashingVectorizer, text.TfidfTransformer, text.TfidfVectorizer, feature_extraction.DictVectorizer,
        feature_extraction.FeatureHasher,
    )
}  # fmt: skip
# Public attributes that are numbers, or arrays with one number for each feature, and are all that there is.
PLAIN: dict[str, tuple[str, ...]] = {
    "Binarizer": (),
    "FeatureHasher": (),
    "HashingVectorizer": (),
    "MaxAbsScaler": ("max_abs_", "scale_", "n_samples_seen_"),
    "MinMaxScaler": ("min_", "scale_", "data_min_", "data_max_", "data_range_", "n_samples_seen_"),
    "Normalizer": (),
    "RobustScaler": ("center_", "scale_"),
    "StandardScaler": ("mean_", "var_", "scale_", "n_samples_seen_"),
    "TfidfTransformer": ("idf_",),
}
STATELESS = {"FeatureHasher", "HashingVectorizer"}  # as scikit-learn 1.7 does not say
MAY_LACK = {"idf_", "feature_names_in_"}
WITHOUT_COLUMNS = {"CountVectorizer", "DictVectorizer", "FeatureHasher", "HashingVectorizer", "TfidfVectorizer"}
OF_NO_CONSEQUENCE = {"n_jobs", "random_state", "verbose"}  # for what is fitted
WITHOUT_CODE = "a model file holds no code; do this to the data before the pipeline, or use a transformer without it"
MOST_FEATURES = 2**16  # of what is made again by whole rows, and says by no array how many there are
MOST_CELLS = 64  # of such rows, for each category
MOST_REPEATS = 3  # of a pattern for tokens; more, or repeated groups, can take forever on some texts


def parameters_to_record(obj: Any, writer: Writer, prefix: str, apart: tuple[str, ...] = ()) -> dict:
    """Constructor parameters; unlike those of polyfm's estimators, all are needed for what is fitted."""
    record = {}
    for name, value in obj.get_params(deep=False).items():
        if name in apart:
            continue
        if callable(value) and not isinstance(value, type):
            raise UnstorableError(f"The {name} of {type(obj).__name__} is code of your own: {WITHOUT_CODE}")
        try:
            record[name] = writer.value(f"{prefix}{name}", value)
        except UnstorableError as problem:
            if name not in OF_NO_CONSEQUENCE:
                raise UnstorableError(f"The {name} of {type(obj).__name__} is {problem}") from problem
            writer.notes.append(f"The parameter {name} was {problem}; it was not stored and loads as its default.")
    return record


def to_record(obj: Any, writer: Writer, prefix: str) -> dict:
    """The record of a fitted transformer of one of the CLASSES."""
    name = type(obj).__name__
    _check_text_options(obj)
    record = {"class": name, "parameters": parameters_to_record(obj, writer, prefix, APART.get(name, ()))}
    fitted = {key: getattr(obj, key) for key in (*FEATURES, *PLAIN.get(name, ())) if hasattr(obj, key)}
    record["fitted"] = {key: writer.value(prefix + key, value) for key, value in fitted.items()}
    if name in SPECIAL:
        record["special"] = SPECIAL[name][0](obj, writer, prefix)
    return record


def from_record(record: dict, parameters: dict[str, Any], reader: Reader) -> Any:
    """The fitted transformer of a record of unknown origin."""
    name = record["class"]
    if set(parameters) & set(APART.get(name, ())):
        raise ValueError("parameters that are never stored so")
    obj: Any = CLASSES[name](**parameters)
    obj._validate_params()
    _check_text_options(obj)
    fitted = {key: reader.value(value) for key, value in record["fitted"].items()}
    known = {*FEATURES, *PLAIN.get(name, ())}
    needed = known - MAY_LACK - (set(FEATURES) if name in WITHOUT_COLUMNS else set())
    if not needed <= set(fitted) <= known:
        raise ValueError(f"unknown or missing attributes among {sorted(fitted)}")
    n_features = check_features(fitted) if "n_features_in_" in fitted else 0
    arrays = [v for v in fitted.values() if isinstance(v, np.ndarray)]
    if any(v.shape != (n_features,) for v in arrays):
        raise ValueError("as many numbers as there are features were expected")
    if name in SPECIAL:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # of rows that are none
            SPECIAL[name][1](obj, n_features, record["special"], reader)
    for key, value in fitted.items():
        setattr(obj, key, value)
    return obj


def check_features(fitted: dict[str, Any]) -> int:
    n_features = fitted["n_features_in_"]
    if type(n_features) is not int or n_features < 1:
        raise ValueError("an impossible number of features")
    names = fitted.get("feature_names_in_")
    if names is not None and (names.shape != (n_features,) or names.dtype.kind not in "OU"):
        raise ValueError("as many feature names as there are features were expected")
    return n_features


def check_width(obj: Any) -> None:
    if obj.n_features_in_ > MOST_FEATURES:
        raise UnstorableError(f"{type(obj).__name__} of {obj.n_features_in_} columns is wider than {MOST_FEATURES}")


def _with(obj: Any, changes: dict[str, Any], rows: Any) -> None:
    """Fit with some parameters changed for the time being."""
    before = {name: getattr(obj, name) for name in changes}
    for name, value in changes.items():
        setattr(obj, name, value)
    obj.fit(rows)
    for name, value in before.items():
        setattr(obj, name, value)


# -- categories -------------------------------------------------------------------------------------------------------


def _categories_to_record(obj: Any, writer: Writer, prefix: str) -> dict:
    rare = getattr(obj, "infrequent_categories_", None) or [None] * len(obj.categories_)
    if not _is_even(
        obj.categories_, [len(values) for values in obj.categories_] if any(some is not None for some in rare) else []
    ):
        raise UnstorableError(f"{type(obj).__name__} has too many columns with too different numbers of categories")
    return {
        "given": not isinstance(obj.categories, str),
        "categories": [writer.objects(f"{prefix}categories_{i}", values) for i, values in enumerate(obj.categories_)],
        "rare": [
            None if some is None else writer.array(f"{prefix}rare_{i}", _among(values, some))
            for i, (values, some) in enumerate(zip(obj.categories_, rare, strict=True))
        ],
    }


def _is_even(categories: list[np.ndarray], frequent: list[int]) -> bool:
    """Whether rows that show all frequent categories take not much more memory than all categories."""
    return len(categories) * max(frequent, default=1) <= MOST_CELLS * sum(map(len, categories)) + 2**16


def _among(values: np.ndarray, some: np.ndarray) -> np.ndarray:
    wanted = {"nan" if value != value else (value,) for value in some.tolist()}
    return np.array([("nan" if value != value else (value,)) in wanted for value in values.tolist()], dtype=bool)


def _restore_categories(obj: Any, n_features: int, special: dict, reader: Reader) -> None:
    categories = [reader.objects(values) for values in special["categories"]]
    rare = [None if some is None else reader.value(some) for some in special["rare"]]
    if not len(categories) == len(rare) == n_features or not all(len(values) for values in categories):
        raise ValueError("as many lists of categories as there are features were expected")
    frequent = []
    for values, some in zip(categories, rare, strict=True):
        if some is not None and (some.dtype != bool or some.shape != values.shape):
            raise ValueError("rare categories that are none")
        frequent.append(values if some is None else values[~some])
    # A category that is frequent occurs once, and the others never. Rows are as many as the longest list needs.
    n_rows = max(1, *(len(values) for values in frequent)) if any(some is not None for some in rare) else 1
    if not _is_even(categories, [n_rows]):
        raise ValueError("columns with too different numbers of categories")
    rows = np.empty((n_rows, n_features), dtype=object)
    for j, (values, often) in enumerate(zip(categories, frequent, strict=True)):
        shown = often if len(often) else values[:1]
        rows[:, j] = shown.astype(object)[np.arange(n_rows) % len(shown)]
    limited = obj.max_categories is not None or obj.min_frequency is not None
    if not limited and any(some is not None for some in rare):
        raise ValueError("rare categories where there are none")
    if any(some is not None and some.all() for some in rare):
        raise ValueError("no frequent categories")
    of_numbers = [values.astype(object) for values in categories]
    _with(obj, {"categories": of_numbers, "max_categories": None, "min_frequency": 1 if limited else None}, rows)
    obj.categories_ = categories
    if special["given"]:
        obj.categories = categories


# -- gaps and bins ----------------------------------------------------------------------------------------------------


def _imputer_to_record(obj: Any, writer: Writer, prefix: str) -> dict:
    statistics = obj.statistics_
    return {
        "dtype": str(np.dtype(getattr(obj, "_fit_dtype", statistics.dtype))),
        "statistics": writer.objects(f"{prefix}statistics_", statistics),
        "indicated": None if obj.indicator_ is None else writer.array(f"{prefix}indicated", obj.indicator_.features_),
    }


def _restore_imputer(obj: Any, n_features: int, special: dict, reader: Reader) -> None:
    dtype = np.dtype({"object": object, "float32": np.float32, "float64": np.float64}.get(special["dtype"], np.float64))
    statistics = reader.objects(special["statistics"])
    if statistics.shape != (n_features,):
        raise ValueError("as many statistics as there are features were expected")
    rows = np.empty((2, n_features), dtype=dtype)
    rows[:] = statistics if obj.strategy != "constant" else _other_than(obj.missing_values, dtype)
    indicated = _positions(special["indicated"], n_features, reader)
    if indicated is not None and obj.add_indicator:
        rows[1, indicated] = obj.missing_values
    for j, value in enumerate(statistics.tolist()):
        if value is None or value != value:  # nothing was there
            rows[:, j] = obj.missing_values
    _with(obj, {}, rows)
    obj.statistics_ = statistics
    if (obj.indicator_ is not None) != (indicated is not None):
        raise ValueError("an indicator where there is none")
    if obj.indicator_ is not None:
        obj.indicator_.features_ = indicated


def _other_than(missing: Any, dtype: np.dtype) -> Any:
    if dtype.kind == "O":
        return "x" if missing != "x" else "y"
    return 0.0 if missing != 0 else 1.0


def _positions(record: Any, n_features: int, reader: Reader) -> np.ndarray | None:
    if record is None:
        return None
    found = reader.value(record)
    if found.ndim != 1 or found.dtype.kind not in "iu" or np.any(np.diff(found) <= 0):
        raise ValueError("positions that do not rise")
    if len(found) and not 0 <= found[0] <= found[-1] < n_features:
        raise ValueError("positions of no feature")
    return found


def _indicator_to_record(obj: Any, writer: Writer, prefix: str) -> dict:
    check_width(obj)
    return {"indicated": writer.array(f"{prefix}indicated", obj.features_)}


def _restore_indicator(obj: Any, n_features: int, special: dict, reader: Reader) -> None:
    indicated = _positions(special["indicated"], n_features, reader)
    if n_features > MOST_FEATURES:
        raise ValueError("too many features")
    rows = np.full((2, n_features), _other_than(obj.missing_values, np.dtype(object)), dtype=object)
    if isinstance(obj.missing_values, (int, float)):
        rows = np.full((2, n_features), _other_than(obj.missing_values, np.dtype(float)), dtype=float)
    if indicated is not None:
        rows[1, indicated] = obj.missing_values
    _with(obj, {}, rows)
    obj.features_ = indicated


def _bins_to_record(obj: Any, writer: Writer, prefix: str) -> dict:
    return {"edges": [writer.array(f"{prefix}edges_{j}", edges) for j, edges in enumerate(obj.bin_edges_)]}


def _restore_bins(obj: Any, n_features: int, special: dict, reader: Reader) -> None:
    edges = [reader.value(value) for value in special["edges"]]
    if len(edges) != n_features or any(e.ndim != 1 or e.dtype.kind != "f" or len(e) < 2 for e in edges):
        raise ValueError("as many lists of edges as there are features were expected")
    if any(not np.all(np.diff(e) >= 0) for e in edges):
        raise ValueError("edges that do not rise")
    n_bins = np.array([len(e) - 1 for e in edges])
    rows = np.repeat(np.array([[0.0], [1.0]]), n_features, axis=1)
    _with(obj, {"n_bins": np.maximum(n_bins, 2), "strategy": "uniform"}, rows)
    if np.any(n_bins < 2):  # a column that was the same throughout, which has one bin
        rows[1, n_bins < 2] = 0.0
        _with(obj, {"n_bins": np.maximum(n_bins, 2), "strategy": "uniform"}, rows)
    obj.n_bins_ = n_bins
    obj.bin_edges_ = np.empty(n_features, dtype=object)
    obj.bin_edges_[:] = edges


# -- text -------------------------------------------------------------------------------------------------------------


def _check_text_options(obj: Any) -> None:
    """Refuse options of vectorizers that reach beyond the text, or may never come to an end."""
    if getattr(obj, "input", "content") != "content":
        raise UnstorableError(f"{type(obj).__name__} with input={obj.input!r} opens files: pass the texts themselves")
    pattern = getattr(obj, "token_pattern", None)
    if pattern is not None:
        plain = re.sub(r"\\.|\[\^?\]?[^]]*\]", "x", pattern).replace("(?u)", "").replace("(?i)", "")
        if re.search(r"\)[*+?{]", plain) or len(re.findall(r"[*+?{]", re.sub(r"\(\?[:=!]", "(", plain))) > MOST_REPEATS:
            raise UnstorableError(
                f"The token_pattern {pattern[:100]!r} repeats groups, or repeats too often: a pattern of that kind can "
                "take forever. Use a simpler one"
            )


def _words_to_record(obj: Any, writer: Writer, prefix: str) -> dict:
    words = sorted(obj.vocabulary_, key=obj.vocabulary_.__getitem__)
    if [obj.vocabulary_[word] for word in words] != list(range(len(words))):
        raise UnstorableError(f"The vocabulary of {type(obj).__name__} does not number its words from 0 on")
    idf = obj.idf_ if getattr(obj, "use_idf", False) else None
    return {
        "words": writer.strings(f"{prefix}words", np.array(words, dtype=object)),
        "given": bool(obj.fixed_vocabulary_),
        "idf": None if idf is None else writer.array(f"{prefix}idf", idf),
    }


def _restore_words(obj: Any, n_features: int, special: dict, reader: Reader) -> None:
    words = {word: i for i, word in enumerate(reader.strings(special["words"]).tolist())}
    if len(words) != special["words"]["count"] or None in words:
        raise ValueError("words that come twice")
    _with(obj, {"vocabulary": words, "stop_words": None}, ["x"])
    obj.vocabulary_ = words
    obj.fixed_vocabulary_ = bool(special["given"])
    if special["given"]:
        obj.vocabulary = dict(words)
    if special["idf"] is not None:
        idf = reader.value(special["idf"])
        if idf.shape != (len(words),) or idf.dtype.kind != "f" or not obj.use_idf:
            raise ValueError("as many weights as there are words were expected")
        obj.idf_ = idf


def _names_to_record(obj: Any, writer: Writer, prefix: str) -> dict:
    names = obj.feature_names_
    if not all(isinstance(name, str) for name in names):
        raise UnstorableError("The names of the features of DictVectorizer are not all text")
    return {"names": writer.strings(f"{prefix}names", np.array(names, dtype=object))}


def _restore_names(obj: Any, n_features: int, special: dict, reader: Reader) -> None:
    obj.feature_names_ = reader.strings(special["names"]).tolist()
    obj.vocabulary_ = {name: i for i, name in enumerate(obj.feature_names_)}
    if len(obj.vocabulary_) < len(obj.feature_names_) or None in obj.vocabulary_:
        raise ValueError("features that come twice")


# -- who does what ----------------------------------------------------------------------------------------------------

APART: dict[str, tuple[str, ...]] = {  # parameters that are stored with what was fitted
    "CountVectorizer": ("vocabulary",),
    "OneHotEncoder": ("categories",),
    "OrdinalEncoder": ("categories",),
    "TfidfVectorizer": ("vocabulary",),
}
SPECIAL: dict[str, tuple[Callable[..., dict], Callable[..., None]]] = {
    "CountVectorizer": (_words_to_record, _restore_words),
    "DictVectorizer": (_names_to_record, _restore_names),
    "KBinsDiscretizer": (_bins_to_record, _restore_bins),
    "MissingIndicator": (_indicator_to_record, _restore_indicator),
    "OneHotEncoder": (_categories_to_record, _restore_categories),
    "OrdinalEncoder": (_categories_to_record, _restore_categories),
    "SimpleImputer": (_imputer_to_record, _restore_imputer),
    "TfidfVectorizer": (_words_to_record, _restore_words),
}
