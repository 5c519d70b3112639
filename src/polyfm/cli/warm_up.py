"""``polyfm warm-up``: compile what fits need, before they need it."""

import click

from polyfm.cli.common import plainly
from polyfm.cli.terminal import note, say


@click.command("warm-up")
@click.argument("names", nargs=-1)
@click.option(
    "--jobs", type=int, default=-1, show_default=True, help="Processes at the same time; -1: one a processor."
)
@plainly
def warm_up(names, jobs):
    """Compile the loops of common fits and keep them on disk: when an image is built, or a machine is set up.

    NAMES are of ratings, clicks, text, tables, networks and bayes; without any, all of them.
    """
    from polyfm.warming import warming

    begun = warming(list(names) or None, jobs)
    note("Compiling; later fits, in any process, need not wait for it.")
    for done in begun:
        say(f"{done.name}: {done.seconds:.1f} s")
