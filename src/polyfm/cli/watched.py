"""A fit that shows how far it is, whose warnings are notes."""

import warnings
from collections.abc import Callable
from typing import Any

from rich.progress import TextColumn, TimeElapsedColumn, TimeRemainingColumn

from polyfm.cli.terminal import note, one_line, progress_bar
from polyfm.training import hooks

WAS_INTERRUPTED = ("Training was interrupted", "The search was interrupted")


def watched(fit: Callable[[], Any]) -> bool:
    """Fit with a progress bar; whether it was interrupted."""
    columns = (
        TextColumn("{task.fields[unit]} {task.completed:.0f}/{task.total:.0f}", markup=False),
        TextColumn("{task.fields[note]}", markup=False), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with progress_bar(*columns, transient=True) as progress:
        task = progress.add_task("training", total=1, note="", unit="epoch")

        def watch(seen: hooks.Progress) -> None:
            unit = {"training": "epoch", "searching": "fit"}[seen.stage]
            progress.update(
                task, description=seen.stage, completed=seen.done, total=seen.total, note=one_line(seen.note), unit=unit
            )

        with warnings.catch_warnings(record=True) as caught, hooks.watching(watch):
            warnings.simplefilter("always", UserWarning)
            fit()
    said = [str(w.message) for w in caught if issubclass(w.category, (UserWarning, RuntimeWarning))]
    for message in dict.fromkeys(said):
        note(message)
    return any(message.startswith(WAS_INTERRUPTED) for message in said)
