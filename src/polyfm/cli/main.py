"""``polyfm``: from a file to a model and back, from a shell. A command is one function and one line here."""

import click

import polyfm
from polyfm.cli.explain import explain, info
from polyfm.cli.fit import fit
from polyfm.cli.predict import evaluate, predict
from polyfm.cli.reproduce import reproduce


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(polyfm.__version__, prog_name="polyfm")
def cli() -> None:
    """Factorization machines and polynomial networks: from a file to a model and back."""


for command in (fit, predict, evaluate, explain, info, reproduce):
    cli.add_command(command)


def main() -> None:
    cli(prog_name="polyfm")


if __name__ == "__main__":
    main()
