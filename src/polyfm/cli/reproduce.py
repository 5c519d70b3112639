"""``polyfm reproduce``: the paper's experiments, with progress, from where they were left."""

from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from polyfm.reproduce import COMMANDS, run


def reproduce(name: str, data_home: Path | None, out: Path, quick: bool, jobs: int, console: Console) -> None:
    """Run the experiments of one command, or of all; what lacks its data is named at the end."""
    failures = []
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, refresh_per_second=2, disable=not console.is_terminal) as progress:
        for command in COMMANDS if name == "all" else (name,):
            for experiment in COMMANDS[command]:
                task = progress.add_task(experiment.name, total=None)

                def watch(_: str, done: float, total: float, task=task) -> None:
                    progress.update(task, completed=done, total=total)

                try:
                    paths = run(experiment, data_home, out, quick=quick, n_jobs=jobs, watch=watch)
                except FileNotFoundError as error:
                    if name != "all":
                        raise
                    failures.append(f"{experiment.name}: {error}")
                    progress.remove_task(task)
                except KeyboardInterrupt:
                    console.print("Interrupted. What was finished is kept: the same command goes on from there.")
                    raise click.exceptions.Exit(130) from None
                else:
                    console.print(f"{experiment.name}: {', '.join(str(path) for path in paths)}", soft_wrap=True)
    if failures:
        raise FileNotFoundError(" ".join(failures))
