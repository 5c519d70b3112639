"""Ctrl-C while the command is still being imported ends it in one line. Imports next to nothing itself."""

import os
import signal

INTERRUPTED = 130  # as shells name what SIGINT has ended


def mind_interrupts() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it is ignored in a shell's background
        signal.signal(signal.SIGINT, end_at_once)


def end_at_once(number: int, frame: object) -> None:
    """Nothing has begun that would have to be ended, and an exception from within an import may become another."""
    try:
        os.write(2, b"Interrupted.\n")
    finally:
        os._exit(INTERRUPTED)
