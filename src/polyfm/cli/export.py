"""``polyfm export``: a saved model for other programs."""

from pathlib import Path

import click
import numpy as np

from polyfm.cli.common import plainly
from polyfm.cli.paths import check_outputs, output_option
from polyfm.cli.saved import Saved
from polyfm.cli.terminal import say


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@output_option("--onnx", help="Write it, with its encoder, as an ONNX model.")
@output_option("--c", help="Write it as a C file, which takes encoded rows.")
@click.option("--name", help="What the names in the C file begin with.  [default: polyfm]")
@click.option("--double", is_flag=True, help="Numbers go into the ONNX model, and come out, in double precision.")
@click.option("--raw-scores", is_flag=True, help="A classifier gives its decision function in place of probabilities.")
@plainly
def export(model, onnx, c, name, double, raw_scores):
    """Write a saved MODEL for programs that know nothing of polyfm."""
    from polyfm.export import to_c, to_onnx

    if onnx is None and c is None:
        raise click.UsageError("Say what to write: --onnx FILE, --c FILE, or both.")
    if name is not None and c is None:
        raise click.UsageError("--name is for --c.")
    if double and onnx is None:
        raise click.UsageError("--double is for --onnx: C files are in double precision.")
    check_outputs({"MODEL": model}, onnx=onnx, c=c)
    saved = Saved(model)
    if c is not None:
        if saved.encoder is not None:
            raise click.UsageError(
                f"{model}: holds an encoder, which is not written as C. Use --onnx; or, in Python, write the last "
                "step, polyfm.export.to_c(load_model(...)[-1], ...), and encode rows before they come to C."
            )
        to_c(saved.model, c, name=name or "polyfm", raw_scores=raw_scores)
        say(f"C in {c}")
    if onnx is not None:
        found = to_onnx(saved.model, onnx, dtype=np.float64 if double else np.float32, raw_scores=raw_scores)
        inputs, outputs = (", ".join(value.name for value in side) for side in (found.graph.input, found.graph.output))
        say(f"ONNX in {onnx}; inputs: {inputs}; outputs: {outputs}")
