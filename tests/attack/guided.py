"""The same files as `files` makes, by a mutator that sees which lines of polyfm each one reaches (atheris, where it is
installed). What went wrong is kept in a file, and `--repeat guided:FILE` reads it again."""

import hashlib
import inspect
import os
import sys
import tempfile
import time
from pathlib import Path

from attack import files
from attack.common import Failed, told
from attack.files import enter, prepare

__all__ = ["attempt", "enter", "prepare", "run"]

KINDS = ["model", "checkpoint", "svmlight", "packed", "libfm", "csv"]
MODULES = (
    "polyfm.files.atomic", "polyfm.files.container", "polyfm.files.fitted", "polyfm.files.records",
    "polyfm.files.svmlight", "polyfm.files.tables", "polyfm.files.values", "polyfm.libfm", "polyfm.modelfile",
    "polyfm.training.checkpoint", "zipfile", "json.decoder", "numpy.lib._format_impl",
)  # fmt: skip
MOST_BYTES = 2**14


def judged(data: bytes) -> list[str]:
    """The first byte says what kind of file the others are."""
    kind = KINDS[data[0] % len(KINDS)]
    return files.judged(kind, 0 if kind == "checkpoint" else -1, data[1:])


def attempt(where: str) -> list[str]:
    return judged(Path(where).read_bytes())


def instrument(atheris) -> None:
    """Functions that were imported before: the parent has done that, so that workers need not."""
    for name in MODULES:
        module = sys.modules.get(name)
        for owner in [module, *(cls for _, cls in inspect.getmembers(module, inspect.isclass))]:
            for member in list(vars(owner).values()) if owner is not None else []:
                function = getattr(member, "__wrapped__", member)
                if inspect.isfunction(function) and function.__module__ == name:
                    atheris.instrument_func(function)


def run(seeds: range, until: float, report) -> None:
    import atheris

    instrument(atheris)
    count = 0

    def one(data: bytes) -> None:
        nonlocal count
        if not data:
            return
        report(count)
        failure, labels = None, []
        try:
            labels = judged(data)
        except BaseException as error:
            kept = Path(tempfile.gettempdir()) / f"attack-{hashlib.sha256(data).hexdigest()[:16]}"
            kept.write_bytes(data)
            count, failure = str(kept), told(error) if not isinstance(error, Failed) else str(error)
        report(count, labels, failure)
        count = 0 if isinstance(count, str) else count + 1

    corpus = Path(tempfile.mkdtemp(prefix="corpus-", dir=files.home))
    for k, kind in enumerate(KINDS):
        for i, data in enumerate(files.seeds[kind]):
            (corpus / f"{kind}{i}").write_bytes(bytes([k]) + data)
    seconds = max(int(until - time.monotonic()), 1)
    options = [f"-max_total_time={seconds}", f"-seed={seeds[0] % 2**31 or 1}", f"-max_len={MOST_BYTES}", "-verbosity=0"]
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what libFuzzer says
    atheris.Setup(["attack", str(corpus), *options, "-rss_limit_mb=0"], one)
    atheris.Fuzz()  # ends the process
