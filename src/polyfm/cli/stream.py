"""Learning from a svmlight file as it is read, in bounded memory."""

from typing import Any

import click
import numpy as np

from polyfm.cli.ending import interrupts_held
from polyfm.cli.models import described, make_estimator
from polyfm.cli.scores import Progressive
from polyfm.cli.sources import Source
from polyfm.cli.terminal import overwrite, say

# What a stream, whose rows come once in each pass and are scored before they are learned from, has no use for.
NOT_OF_A_STREAM = (
    "checkpoint", "checkpoint_interval", "early_stopping", "n_iter_no_change", "tol", "validation_fraction",
)  # fmt: skip


def check_stream(parameters: dict, test_fraction: float | None) -> None:
    refused = [name for name in NOT_OF_A_STREAM if parameters.get(name) not in (None, False)]
    refused += ["test_fraction"] if test_fraction is not None else []
    if refused:
        raise click.UsageError(
            f"--{refused[0].replace('_', '-')} does not go with --solver sgd on a svmlight file, which is learned from "
            "as it is read. --no-stream reads it into memory first."
        )
    if parameters.get("max_iter", 1) < 1:
        raise click.UsageError(f"--max-iter must be at least 1, got {parameters['max_iter']}.")


def fit_stream(source: Source, kind: str, task: str, parameters: dict) -> tuple[Any, dict, bool]:
    """Train on a file of any size, some rows at a time; each chunk is scored before it is learned from."""
    labels: Any = np.array([])
    if task != "regression":
        for _, y in source.chunks(with_target=True):
            labels = np.union1d(labels, y)
            if task == "auto" and len(labels) > 2:
                break
    classify = task == "classification" or (task == "auto" and len(labels) <= 2)
    if classify and len(labels) < 2:
        raise ValueError(f"Learning classes needs at least two; all rows of {source.path} have {str(labels[0])!r}.")
    passes = parameters.pop("max_iter", 1)
    model = make_estimator(kind, classify, False, parameters)
    rows, progress = 0, Progressive(classify)
    interrupted = False
    try:
        for epoch in range(passes):
            for X, y in source.chunks(with_target=True):
                if epoch == 0:
                    if rows:
                        progress.add(y, model.predict(X))
                    rows += len(y)
                with interrupts_held():  # between two states, a model is of no use
                    model.partial_fit(X, y, **({"classes": labels} if classify else {}))
                overwrite(f"pass {epoch + 1} of {passes}: {model.n_samples_seen_:,} rows")
    except KeyboardInterrupt:
        interrupted = True
        if not hasattr(model, "components_"):
            raise
        say("Training was interrupted; the model learned so far was kept.")
    summary: dict[str, Any] = {
        "data": str(source.path),
        "rows": rows,
        "features": model.n_features_in_,
        **described(model),
    }
    summary |= {f"progressive {name}": value for name, value in progress.scores().items()}
    return model, summary, interrupted
