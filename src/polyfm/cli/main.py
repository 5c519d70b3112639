"""``polyfm``: from a file to a model and back, from a shell. A command is one function and one line here."""

import sys
from typing import Any

import click

import polyfm
from polyfm.cli.ending import let_go_of_output, quiet_ends, whole_process
from polyfm.cli.explain import explain, info
from polyfm.cli.export import export
from polyfm.cli.fit import fit
from polyfm.cli.predict import evaluate, predict
from polyfm.cli.recommend import recommend
from polyfm.cli.report import report
from polyfm.cli.reproduce import reproduce
from polyfm.cli.terminal import one_line
from polyfm.cli.warm_up import warm_up


class Commands(click.Group):
    """A group whose errors, and those of its commands, are one line each; help stands where click has it."""

    def main(self, *args: Any, standalone_mode: bool = True, **kwargs: Any) -> Any:
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **kwargs)  # type: ignore[call-overload]
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # letters that its encoding lacks are no reason to fail
                stream.reconfigure(errors="backslashreplace")
        code: Any = 0
        with quiet_ends():
            try:
                code = super().main(*args, standalone_mode=False, **kwargs)  # type: ignore[call-overload]
                if sys.stdout is not None:
                    sys.stdout.flush()
            except click.Abort:
                raise KeyboardInterrupt from None
            except click.ClickException as error:
                code = _report(error)
            except BrokenPipeError:
                raise
            except OSError as error:
                code = _report(click.UsageError(f"Standard output cannot be written ({error.strerror})."))
        sys.exit(code if isinstance(code, int) else 0)


def _report(error: click.ClickException) -> int:
    let_go_of_output()
    if type(error).__name__ == "NoArgsIsHelpError":  # of some versions of click: its message is the help
        error.show()
        return error.exit_code
    context = getattr(error, "ctx", None)
    hint = f" ('{context.command_path} --help' lists what there is.)" if context is not None else ""
    click.echo(f"Error: {one_line(error.format_message() + hint)}", err=True)
    return error.exit_code


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(polyfm.__version__, prog_name="polyfm")
def cli() -> None:
    """Factorization machines and polynomial networks: from a file to a model and back."""


for command in (fit, predict, evaluate, explain, info, report, export, recommend, reproduce, warm_up):
    cli.add_command(command)


def main() -> None:
    with whole_process():
        cli(prog_name="polyfm")


if __name__ == "__main__":
    main()
