"""``polyfm reproduce``: the paper's experiments, with progress, from where they were left."""

from pathlib import Path

import click
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from polyfm.cli.common import console, plainly


@click.command()
@click.argument("experiment", type=click.Choice(["figure1", "figure2", "figure3", "figure4", "beyond", "all"]))
@click.option("--data-home", type=click.Path(path_type=Path), help="The directory of the publishers' data files.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("reproduced"), show_default=True)
@click.option(
    "--quick", is_flag=True, help="A few rows and settings, in seconds; made-up data where files are missing."
)
@click.option(
    "--jobs", type=click.IntRange(1), default=2, show_default=True, help="Cells at a time, where none is timed."
)
@plainly
def reproduce(experiment, data_home, out, quick, jobs):
    """Run the experiments of the paper's section 9, or those beyond it: a table, a picture and the settings of each.

    What is finished is kept in OUT. The same command goes on from there.
    """
    from polyfm.reproduce import COMMANDS, run

    failures = []
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, refresh_per_second=2, disable=not console.is_terminal) as progress:
        for command in COMMANDS if experiment == "all" else (experiment,):
            for each in COMMANDS[command]:
                task = progress.add_task(each.name, total=None)

                def watch(_: str, done: float, total: float, task=task) -> None:
                    progress.update(task, completed=done, total=total)

                try:
                    paths = run(each, data_home, out, quick=quick, n_jobs=jobs, watch=watch)
                except FileNotFoundError as error:
                    if experiment != "all":
                        raise
                    failures.append(f"{each.name}: {error}")
                    progress.remove_task(task)
                except KeyboardInterrupt:
                    console.print("Interrupted. What was finished is kept: the same command goes on from there.")
                    raise click.exceptions.Exit(130) from None
                else:
                    console.print(f"{each.name}: {', '.join(str(path) for path in paths)}", soft_wrap=True)
    if failures:
        raise FileNotFoundError(" ".join(failures))
