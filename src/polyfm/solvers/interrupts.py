"""Ctrl-C during a fit: noted when it comes, answered between two epochs, when everything belongs together.

An exception that can be raised between any two instructions would leave predictions that do not belong to the
parameters, or come just when a finished model is put away. A second Ctrl-C is answered at once.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_noted = threading.Event()


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Within, Ctrl-C only makes `interrupted` true. Where somebody else minds it, or in another thread than the main
    one (which never gets it), nothing is changed."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def note(number, frame):
        if _noted.is_set():
            signal.default_int_handler(number, frame)
        _noted.set()

    _noted.clear()
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _noted.clear()


def interrupted() -> bool:
    """Whether Ctrl-C has come since the fit began."""
    return _noted.is_set()
