"""`TableEncoder` in ONNX: each column of a table is an input, texts of categories and numbers."""

from typing import Any

import numpy as np

from polyfm.export.content import ExportError
from polyfm.tabular.columns import CATEGORY, DATE


def declare_table(scope: Any, encoder: Any, inputs: list[Any], custom_parsers: Any = None) -> list[Any]:
    """What skl2onnx calls a parser: one output, of doubles, for all columns."""
    from skl2onnx.common.data_types import DoubleTensorType

    operator = scope.declare_local_operator("PolyfmTableEncoder", encoder)
    operator.inputs = inputs
    operator.outputs.append(scope.declare_local_variable("encoded", DoubleTensorType()))
    return operator.outputs


def shape_of_table(operator: Any) -> None:
    operator.outputs[0].type.shape = [None, operator.raw_operator._plan.n_encoded]


def convert_table(scope: Any, operator: Any, container: Any) -> None:
    from onnx import TensorProto
    from skl2onnx.common.data_types import StringTensorType

    from polyfm.export.onnx_model import graph_in

    encoder, graph = operator.raw_operator, graph_in(scope, container)
    plan = encoder._plan
    _check(encoder)
    if len(operator.inputs) != encoder.n_features_in_:
        raise ExportError(
            f"The pipeline has {len(operator.inputs)} inputs, and its TableEncoder takes {encoder.n_features_in_} "
            "columns: leave out X."
        )
    columns = []
    for variable, kind in zip(operator.inputs, encoder.kinds_, strict=True):
        if isinstance(variable.type, StringTensorType) != (kind == CATEGORY):
            raise ExportError(f"Column {variable.raw_name!r} is a {kind} for the TableEncoder: leave out X.")
        columns.append(variable.full_name)

    parts = []
    for block in plan.blocks:
        places = {text: place - block.first for text, place in block.places.items() if text is not None}
        elsewhere = block.elsewhere - block.first if block.rare else block.size  # one column more, cut off again
        places.setdefault("", block.places.get(None, block.first + elsewhere) - block.first)  # a missing value
        found = graph(
            "LabelEncoder", columns[block.source], keys_strings=list(places), values_int64s=list(places.values()),
            default_int64=elsewhere,
        )  # fmt: skip
        flat = graph("Reshape", found, graph.constant([-1]))
        on_and_off = graph.constant(np.array([0, 1], dtype=np.float32))
        hot = graph("OneHot", flat, graph.constant([block.size + 1]), on_and_off, axis=-1)
        bounds = [graph.constant([bound]) for bound in (0, block.size, 1)]
        parts.append(graph("Cast", graph("Slice", hot, *bounds), to=TensorProto.DOUBLE))
    if plan.of_numbers:
        numbers = [graph("Cast", columns[j], to=TensorProto.DOUBLE) for j in plan.of_numbers]
        x = graph("Concat", *numbers, axis=1)
        missing = graph("IsNaN", x)
        centred = graph("Sub", graph("Where", missing, graph.constant(plan.medians), x), graph.constant(plan.means))
        parts.append(graph("Div", centred, graph.constant(plan.scales)))
        if plan.flagged.any():
            flagged = graph.constant(np.flatnonzero(plan.flagged))
            parts.append(graph("Gather", graph("Cast", missing, to=TensorProto.DOUBLE), flagged, axis=1))
    graph("Concat", *parts, output=operator.outputs[0].full_name, axis=1)


def _check(encoder: Any) -> None:
    names = getattr(encoder, "feature_names_in_", range(encoder.n_features_in_))
    dates = [name for name, kind in zip(names, encoder.kinds_, strict=True) if kind == DATE]
    if dates:
        raise ExportError(
            f"Column {dates[0]!r} holds dates, which ONNX has no operators for. Split it into numbers and categories "
            "before the TableEncoder, or export the model alone: to_onnx(pipeline[-1])."
        )
    hashed = [names[block.source] for block in encoder._plan.blocks if block.n_buckets]
    if hashed:
        raise ExportError(
            f"Column {hashed[0]!r} is hashed (n_buckets), which ONNX has no operators for. Use min_frequency in its "
            "place, or export the model alone: to_onnx(pipeline[-1])."
        )
