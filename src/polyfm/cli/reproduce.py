"""``polyfm reproduce``: the paper's experiments, with progress, from where they were left."""

from pathlib import Path

import click
from rich.progress import TaskProgressColumn, TimeElapsedColumn

from polyfm.cli.common import plainly
from polyfm.cli.ending import INTERRUPTED
from polyfm.cli.paths import check_folder
from polyfm.cli.terminal import progress_bar, say

EXPERIMENTS = ["figure1", "figure2", "figure3", "figure3-one-penalty", "figure4", "theorem2", "beyond", "all"]


@click.command()
@click.argument("experiment", type=click.Choice(EXPERIMENTS))
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

    check_folder("out", out)
    failures = []
    with progress_bar(TaskProgressColumn(), TimeElapsedColumn(), refresh_per_second=2) as progress:
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
                    say("Interrupted. What was finished is kept: the same command goes on from there.")
                    raise click.exceptions.Exit(INTERRUPTED) from None
                else:
                    say(f"{each.name}: {', '.join(str(path) for path in paths)}")
    if failures:
        raise FileNotFoundError(" ".join(failures))
