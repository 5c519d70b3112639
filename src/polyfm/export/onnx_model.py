"""`to_onnx`: models and pipelines in ONNX, by way of skl2onnx, which knows scikit-learn's own transformers."""

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from polyfm.export.content import Content, ExportError
from polyfm.export.operators import Graph, values
from polyfm.files.atomic import Path, check_writable, writing
from polyfm.files.tables import required

OPSET = 18  # of ONNX 1.13, from 2022: old enough for most runtimes
LARGEST_FILE = 2**31 - 1  # a limit of the format, which is Protocol Buffers'


def to_onnx(
    model: Any, path: Path | None = None, *, X: Any = None, dtype: Any = np.float32, raw_scores: bool = False
) -> Any:
    """A fitted model, or a pipeline that ends in one, as an ONNX model of standard operators.

    It predicts what `predict` and `predict_proba` do, computed in double precision; only inputs and outputs have the
    precision of `dtype`. Outputs are named as skl2onnx names them: ``variable`` of a regressor, of shape (n, 1);
    ``label`` and ``probabilities`` of a classifier, or ``label`` and ``scores``, the values of `decision_function`,
    where the loss has no probabilities. Needs onnx and skl2onnx: ``pip install "polyfm[onnx]"``.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted. Of the other steps of a pipeline, those that skl2onnx knows are exported, and `TableEncoder` without
        dates and hashing.
    path : str or path-like, default=None
        A file to write to, replaced if it exists; written whole or not at all.
    X : table or array, default=None
        Some rows as the pipeline takes them: their types are those of the inputs. Needed by pipelines that take a table
        and do not begin with a `TableEncoder`: each column is then an input of its name.
    dtype : float32 or float64, default=float32
        Of numbers that go in and come out. With float64, numbers of many digits, such as 20,261,118, lose none.
    raw_scores : bool, default=False
        Whether a classifier gives the values of `decision_function` in place of probabilities.

    Returns
    -------
    model : onnx.ModelProto

    Raises
    ------
    ExportError
        If a part of the model cannot be expressed, or the file cannot be written.

    Examples
    --------
    >>> import numpy as np
    >>> from polyfm import FactorizationMachineRegressor
    >>> from polyfm.export import to_onnx
    >>> X = np.random.RandomState(0).standard_normal((50, 3))
    >>> fm = FactorizationMachineRegressor(random_state=0).fit(X, X[:, 0] * X[:, 1])
    >>> [output.name for output in to_onnx(fm).graph.output]  # doctest: +SKIP
    ['variable']
    """
    required("onnx", "onnx", "to_onnx")
    skl2onnx = required("skl2onnx", "onnx", "to_onnx")
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ExportError(f"dtype must be float32 or float64, got {dtype!r}.")
    if path is not None:
        check_writable(path, ExportError)
    register_converters()
    estimator = _last(model)
    content = Content.of(estimator, raw_scores=raw_scores)
    options, outputs = None, None
    if content.classes is not None:
        options = {id(estimator): {"zipmap": False, "raw_scores": not content.has_probabilities}}
        if not content.has_probabilities:
            outputs = [("label", None), ("scores", None)]
    try:
        found = skl2onnx.convert_sklearn(
            model, type(estimator).__name__, _inputs(model, X, np.dtype(dtype)), target_opset=OPSET, options=options,
            final_types=outputs,
        )  # fmt: skip
    except (skl2onnx.common.exceptions.MissingShapeCalculator, skl2onnx.common.exceptions.MissingConverter) as problem:
        known = _unknown_step(model, skl2onnx)
        raise ExportError(
            f"{known} is not exported: neither polyfm nor skl2onnx has a converter for it. Export the model alone, "
            "to_onnx(pipeline[-1]), and do what comes before it elsewhere; or register a converter with skl2onnx."
        ) from problem
    except (NotImplementedError, RuntimeError, TypeError) as problem:
        if isinstance(problem, ExportError):
            raise
        raise ExportError(
            f"skl2onnx could not convert the pipeline: {problem} Pass rows as X, so that types are known; or export "
            "the model alone, to_onnx(pipeline[-1])."
        ) from problem
    found.producer_name, found.doc_string = "polyfm", ""
    if found.ByteSize() > LARGEST_FILE:
        raise ExportError(
            f"The model takes {found.ByteSize() / 2**30:.1f} GiB, and ONNX files hold at most 2. Train with fewer "
            "features or bases, or use to_c."
        )
    if path is not None:
        with writing(path, ExportError) as file:
            file.write(found.SerializeToString(deterministic=True))
    return found


def register_converters() -> None:
    """Let skl2onnx know polyfm's estimators and `TableEncoder`: its own functions then convert them, too.

    `to_onnx` does this by itself. Classifiers take skl2onnx's options ``zipmap`` and ``raw_scores``.

    Examples
    --------
    >>> from polyfm.export import register_converters
    >>> register_converters()  # doctest: +SKIP
    """
    skl2onnx = required("skl2onnx", "onnx", "register_converters")
    import polyfm.estimators
    from polyfm.export.table_columns import convert_table, declare_table, shape_of_table
    from polyfm.tabular import TableEncoder

    for name in polyfm.estimators.__all__:
        estimator = getattr(polyfm.estimators, name)
        options = {"zipmap": [True, False, "columns"], "raw_scores": [True, False]}
        skl2onnx.update_registered_converter(
            estimator, f"Polyfm{name}", _shapes, _convert, options=options if _is_classifier(estimator) else None
        )
    skl2onnx.update_registered_converter(
        TableEncoder, "PolyfmTableEncoder", shape_of_table, convert_table, parser=declare_table
    )


def _is_classifier(estimator: type) -> bool:
    return hasattr(estimator, "decision_function")


def _last(model: Any) -> Any:
    return _last(model.steps[-1][1]) if isinstance(model, Pipeline) else model


def _first(model: Any) -> Any:
    return _first(model.steps[0][1]) if isinstance(model, Pipeline) else model


def _unknown_step(model: Any, skl2onnx: Any) -> str:
    """The first class within a pipeline that nobody can convert."""
    known = skl2onnx.supported_converters(from_sklearn=True)
    parts = [model]
    while parts:
        part = parts.pop(0)
        inner = getattr(part, "steps", None) or getattr(part, "transformers_", None)
        inner = inner or getattr(part, "transformer_list", None)
        if inner:
            parts = [step[1] for step in inner if not isinstance(step[1], str)] + parts
        elif type(part).__name__ not in known and not hasattr(part, "_fitted"):
            return type(part).__name__
    return type(model).__name__


# -- inputs -----------------------------------------------------------------------------------------------------------


def _inputs(model: Any, X: Any, dtype: np.dtype) -> list[tuple[str, Any]]:
    """Names and types of what goes in."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType

    number = FloatTensorType if dtype == np.float32 else DoubleTensorType
    first = _first(model)
    if type(first).__name__ == "TableEncoder" and X is None:
        names = getattr(first, "feature_names_in_", [f"x{j}" for j in range(first.n_features_in_)])
        return [
            (str(name), StringTensorType([None, 1]) if kind == "category" else number([None, 1]))
            for name, kind in zip(names, first.kinds_, strict=True)
        ]
    if X is not None and hasattr(X, "columns"):
        return [
            (str(name), number([None, 1]) if _is_numeric(X[name].dtype) else StringTensorType([None, 1]))
            for name in X.columns
        ]
    if X is not None and np.asarray(X).dtype.kind in "OUS":
        return [("X", StringTensorType([None, *np.asarray(X).shape[1:]]))]
    if X is None and type(first).__name__ == "ColumnTransformer" and hasattr(first, "feature_names_in_"):
        raise ExportError(
            "The pipeline takes a table, and its columns may hold text or numbers: pass some rows of it as X."
        )
    return [("X", number([None, getattr(first, "n_features_in_", None)]))]


def _is_numeric(dtype: Any) -> bool:
    """Of pandas or polars."""
    return dtype.is_numeric() if hasattr(dtype, "is_numeric") else getattr(dtype, "kind", "O") in "biuf"


# -- what skl2onnx calls ----------------------------------------------------------------------------------------------


def _content(operator: Any) -> Content:
    raw = operator.scope_inst.get_options(operator.raw_operator, {"raw_scores": False}, fail=False)
    return Content.of(operator.raw_operator, raw_scores=bool(raw and raw["raw_scores"]))


def _shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    content = _content(operator)
    if content.classes is None:
        operator.outputs[0].type.shape = [None, 1]
        return
    is_text = _labels(content.classes).dtype.kind == "O"
    operator.outputs[0].type = StringTensorType([None]) if is_text else Int64TensorType([None])
    operator.outputs[1].type.shape = [None, len(content.classes) if content.has_probabilities else content.n_targets]


def _labels(classes: np.ndarray) -> np.ndarray:
    """Class labels as ONNX has them: whole numbers or texts."""
    if classes.dtype.kind in "biu" or (classes.dtype.kind == "f" and np.all(classes == np.round(classes))):
        return classes.astype(np.int64)
    if classes.dtype.kind in "OU" and all(isinstance(label, str) for label in classes.tolist()):
        return classes.astype(object)
    raise ExportError(
        f"Class labels such as {classes.tolist()[0]!r} are not exported: ONNX has whole numbers and texts. Train with "
        "such labels, for instance those of sklearn.preprocessing.LabelEncoder."
    )


def graph_in(scope: Any, container: Any) -> Graph:
    """A graph whose nodes go into a container of skl2onnx."""
    from onnx import TensorProto

    kinds = {"f": TensorProto.DOUBLE, "i": TensorProto.INT64, "O": TensorProto.STRING}

    def add_node(operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> None:
        where = {"op_domain": "ai.onnx.ml", "op_version": 3} if operator == "LabelEncoder" else {}
        container.add_node(
            operator, inputs, outputs, name=scope.get_unique_operator_name(operator),
            **({"op_version": container.target_opset} | where | attributes),
        )  # fmt: skip

    def add_constant(array: np.ndarray, name: str) -> None:
        kind = TensorProto.FLOAT if array.dtype == np.float32 else kinds[array.dtype.kind]
        content = [text.encode() for text in array.ravel().tolist()] if array.dtype.kind == "O" else array.ravel()
        container.add_initializer(name, kind, list(array.shape), content)

    return Graph(add_node, add_constant, scope.get_unique_variable_name)


def _convert(scope: Any, operator: Any, container: Any) -> None:
    from onnx import TensorProto
    from skl2onnx.common.data_types import DoubleTensorType

    content, graph = _content(operator), graph_in(scope, container)
    parts = [graph("Cast", variable.full_name, to=TensorProto.DOUBLE) for variable in operator.inputs]
    x = parts[0] if len(parts) == 1 else graph("Concat", *parts, axis=1)
    f = values(graph, content, x)
    precision = TensorProto.DOUBLE if isinstance(operator.outputs[-1].type, DoubleTensorType) else TensorProto.FLOAT
    outputs = [variable.full_name for variable in operator.outputs]
    if content.classes is None:
        if content.clip is not None:
            f = graph("Clip", f, *map(graph.constant, content.clip))
        graph("Cast", f, output=outputs[0], to=precision)
        return
    if content.n_targets == 1:
        above = graph("Cast", graph("Greater", f, graph.constant(0.0)), to=TensorProto.INT64)
        position = graph("Squeeze", above, graph.constant([1]))
    else:
        position = graph("ArgMax", f, axis=1, keepdims=0)
    graph("Gather", graph.constant(_labels(content.classes)), position, output=outputs[0], axis=0)
    second = _probabilities(graph, f, content.n_targets) if content.has_probabilities else f
    graph("Cast", second, output=outputs[1], to=precision)


def _probabilities(graph: Graph, f: str, n_targets: int) -> str:
    """As `predict_proba` has them: those of several classes are made to sum to one, and are equal where all are 0."""
    p = graph("Sigmoid", f)
    if n_targets == 1:
        return graph("Concat", graph("Sub", graph.constant(1.0), p), p, axis=1)
    total = graph("ReduceSum", p, graph.constant([1]), keepdims=1)
    some = graph("Greater", total, graph.constant(0.0))
    return graph("Where", some, graph("Div", p, total), graph.constant(1 / n_targets))
