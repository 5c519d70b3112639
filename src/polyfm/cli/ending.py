"""How the command ends: in silence where nobody reads on, with 130 after Ctrl-C. Needs neither click nor rich."""

import _thread
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from polyfm.cli.beginning import INTERRUPTED, end_at_once

UNREAD = 141  # as shells name what SIGPIPE has ended
SOON = 0.02  # seconds


@contextmanager
def whole_process() -> Iterator[None]:
    """Around all that a process does for the command."""
    _hold_standard_streams()
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, end_at_once):  # not where a shell ignores it
        signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _unraisable
    try:
        with quiet_ends():
            yield
    finally:
        with suppress(ValueError):  # from here on there is nothing to interrupt: Python tidies up
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _hold_standard_streams() -> None:
    """Let 0, 1 and 2 be taken: were one closed, the next file to be opened, perhaps a model, would be in its place."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def _interrupt(number: int, frame: Any) -> None:
    """Ctrl-C. llvmlite is called back from C, where an exception would be printed and lost, and takes harm if it is
    left halfway: there it has to wait."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("llvmlite"):
            _interrupt_soon()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _unraisable(problem: Any) -> None:
    """Ctrl-C that came where no exception can be raised, such as a finalizer, comes once more."""
    if issubclass(problem.exc_type, KeyboardInterrupt):
        _interrupt_soon()
    else:
        sys.__unraisablehook__(problem)


def _interrupt_soon() -> None:
    timer = threading.Timer(SOON, _thread.interrupt_main)
    timer.daemon = True
    timer.start()


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block, unless it comes twice."""
    came = False

    def remember(number: int, frame: Any) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True

    if threading.current_thread() is not threading.main_thread():  # which alone has signals
        yield
        return
    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def let_go_of_output() -> None:
    """Have what is still to be written go nowhere, so that Python does not try again when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except AttributeError:  # it was closed from the start
            pass


@contextmanager
def quiet_ends() -> Iterator[None]:
    """Ctrl-C, and a reader who has gone (``| head``), end the command without a traceback."""
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write("Interrupted.\n")
        let_go_of_output()
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        let_go_of_output()
        raise SystemExit(UNREAD) from None
