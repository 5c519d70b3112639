"""``python -m polyfm``: a first look; with arguments, the command line (the same as the command ``polyfm``)."""

import sys

from polyfm.cli.beginning import mind_interrupts


def main() -> None:
    mind_interrupts()
    if len(sys.argv) == 1:
        from polyfm.cli import demo

        demo.main()
        return
    try:
        from polyfm.cli.main import main as command_line
    except ModuleNotFoundError as error:
        raise SystemExit(f'The command line needs {error.name}: pip install "polyfm[cli]"') from None
    command_line()


if __name__ == "__main__":
    main()
