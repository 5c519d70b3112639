"""Docstrings and signatures of the classes, made from those of the ordinary estimators."""

import inspect
import re
from collections.abc import Callable

from polyfm.spark.params import LEFT_OUT, OF_TABLES, SPELLED, with_params

_ESTIMATOR = """{plain} on DataFrames of Spark, as an estimator of Spark ML.

    Rows stay on the executors; what travels are parameters and sums. The model is that of
    `{plain}`, to rounding, and the number of executors changes no bit of it.

    Parameters
    ----------
    featuresCol : str or list of str, default="features"
        A column of vectors or of arrays of numbers; or a list of plain columns, which become features as
        `TableEncoder` has it.
    labelCol : str, default="label"
        The column of the targets: numbers, or texts too where these are classes.
    predictionCol : str, default="prediction"
        The column that `transform` adds.
    weightCol : str, default=None
        A column of weights: a weight of 2 is the row twice.
{of_classes}    fields : list of str, default=None
        Of the plain columns of numbers those that are categories, such as ids.
    dates : list of str or dict, default=None
        Of the plain columns of text those that are dates; a dict says how they are written.
    min_frequency : int or float, default=None
        How often a value of a plain column has to occur to have a feature of its own.
    n_buckets : int, default=None
        Features that the values of a plain column are hashed into, where there are more.
{body}
    """
_OF_CLASSES = """    probabilityCol : str, default="probability"
        The column of probabilities, a vector; an empty name leaves it out, as do losses that have none.
    rawPredictionCol : str, default="rawPrediction"
        The column of the values of `decision_function`, a vector; an empty name leaves it out.
"""
_MODEL = """A model that `{estimator}` has fitted.

    Parameters
    ----------
    local : {plain} or Pipeline
        The ordinary estimator, fitted, or a pipeline of a `TableEncoder` and it.
    """
_OTHERWISE = {  # than where all rows are in one place
    "n_components": """ : int, default=10
        Number of bases: the rank of the interaction tensor. With ``fit_lower="explicit"``, for each degree.
""",
    "solver": """ : {"auto", "lbfgs", "block"}, default="auto"
        "lbfgs", which "auto" stands for, learns every combination of kernel, degree and loss. "block" is for one-hot
        fields that stand side by side, and takes a round a field.
""",
    "random_state": """ : int, default=0
        Seed of the initial bases.
""",
}
_COLUMNS = {"featuresCol": "features", "labelCol": "label", "predictionCol": "prediction", "weightCol": None}
_CLASS_COLUMNS = {"probabilityCol": "probability", "rawPredictionCol": "rawPrediction"}


def documented(plain: type) -> Callable[[type], type]:
    """A class decorator for estimators."""

    def decorate(cls: type) -> type:
        of_classes = hasattr(cls, "probabilityCol")
        section = (
            (plain.__doc__ or "").partition("    Parameters\n    ----------\n")[2].partition("    Attributes\n")[0]
        )
        entries = re.findall(r"^    (\w+)( : .*\n(?:        .*\n|\n(?=        ))+)", section, flags=re.MULTILINE)
        told = {name: text for name, text in entries if name not in LEFT_OUT} | _OTHERWISE
        body = "".join(f"    {SPELLED.get(name, name)}{text}" for name, text in told.items())
        cls.__doc__ = _ESTIMATOR.format(
            plain=plain.__name__, of_classes=_OF_CLASSES if of_classes else "", body=body.rstrip()
        )
        own = {
            SPELLED.get(n, n): p.default for n, p in inspect.signature(plain).parameters.items() if n not in LEFT_OUT
        }
        defaults = {**_COLUMNS, **(_CLASS_COLUMNS if of_classes else {}), **dict.fromkeys(OF_TABLES), **own, "seed": 0}
        keyword = inspect.Parameter.KEYWORD_ONLY
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, keyword, default=value) for name, value in defaults.items()]
        )
        return with_params(plain)(cls)

    return decorate


def documented_model(plain: type) -> Callable[[type], type]:
    """A class decorator for models."""

    def decorate(cls: type) -> type:
        cls.__doc__ = _MODEL.format(estimator=cls.__name__.removesuffix("Model"), plain=plain.__name__)
        return with_params(plain)(cls)

    return decorate
