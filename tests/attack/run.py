"""Runs attacks in turns, each kind in a forked worker, so that a crash or an endless loop is a result too."""

import argparse
import importlib
import importlib.util
import json
import os
import re
import select
import signal
import sys
import time
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from attack import common

KINDS = ["fits", "sparse", "files", "guided", "kills", "signals", "commands"]
SLICE = 30.0  # seconds that a kind has before the next one's turn
BLOCK = 10**6  # seeds in a slice, at most
LONGEST = 180.0  # seconds for one attack, compiling included
SHOWN = 3  # seeds of a failure


@dataclass
class Tally:
    tried: int = 0
    labels: Counter = field(default_factory=Counter)
    failures: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # seeds by what went wrong

    @property
    def failed(self) -> int:
        return sum(map(len, self.failures.values()))


def prepare(name: str) -> None:
    """Compile what forked workers will need."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(importlib.import_module(f"attack.{name}"), "prepare", lambda: None)()


def attack(name: str, seed: int) -> tuple[list[str], str | None]:
    """What one attack met with, and what went wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            return importlib.import_module(f"attack.{name}").attempt(seed), None
    except BaseException as error:
        return [], common.told(error)


class Worker:
    """One slice of one kind: it writes a line before and after each attack."""

    def __init__(self, name: str, seeds: range, seconds: float):
        self.name, self.seed = name, str(seeds[0])
        self._pipe, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._pipe)
            try:
                self._work(name, seeds, time.monotonic() + seconds, write)
            except BaseException as error:
                print(f"{name}: {common.told(error)}", flush=True)
                os._exit(1)
            os._exit(0)
        os.close(write)
        self._data, self.began, self.busy = b"", time.monotonic(), False

    @staticmethod
    def _work(name: str, seeds: range, until: float, write: int) -> None:
        def report(seed, labels=None, failure=None):
            os.write(write, json.dumps([str(seed), labels, failure and failure[:3000]]).encode() + b"\n")

        module = importlib.import_module(f"attack.{name}")
        if hasattr(module, "enter"):
            module.enter()
        if hasattr(module, "run"):
            module.run(seeds, until, report)
            return
        for seed in seeds:
            report(seed)
            report(seed, *attack(name, seed))
            if time.monotonic() > until:
                break

    def fileno(self) -> int:
        return self._pipe

    def read(self, tally: Tally) -> bool:
        """Take in what has come; whether there will be more."""
        part = os.read(self._pipe, 2**16)
        *lines, self._data = (self._data + part).split(b"\n")
        for line in lines:
            self.seed, labels, failure = json.loads(line)
            self.busy, self.began = labels is None, time.monotonic()
            if labels is not None:
                self._count(tally, labels, failure)
        if not part:
            status = os.waitpid(self.pid, 0)[1]
            if self.busy:
                how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {status >> 8}"
                self._count(tally, [], f"the process died by {how}")
            elif status:
                self._count(tally, [], f"the worker ended with status {status}")
            os.close(self._pipe)
        return bool(part)

    def is_stuck(self, tally: Tally) -> bool:
        if time.monotonic() - self.began < LONGEST:
            return False
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._pipe)
        self._count(tally, [], f"not done after {LONGEST:.0f} s")
        return True

    def _count(self, tally: Tally, labels: list[str], failure: str | None) -> None:
        tally.tried += 1
        tally.labels.update(labels)
        if failure is not None:
            # The same failure with other numbers is one failure.
            tally.failures[re.sub(r"[-+]?\d[\d.]*(e[-+]?\d+)?|nan|inf", "#", failure)].append(self.seed)
            if len(tally.failures) <= 20 or common.speaking:
                print(f"FAILED {self.name}:{self.seed}  {failure.splitlines()[0][:200]}", flush=True)


def run(kinds: list[str], minutes: float, attempts: int | None, seed: int, jobs: int) -> dict[str, Tally]:
    for name in kinds:
        began = time.monotonic()
        prepare(name)
        print(f"{name} is ready after {time.monotonic() - began:.0f} s", flush=True)
    tallies, started, workers = {name: Tally() for name in kinds}, Counter(), []
    deadline = time.monotonic() + 60 * minutes
    open_kinds = list(kinds)
    while workers or (open_kinds and (attempts is not None or time.monotonic() < deadline)):
        while len(workers) < jobs and open_kinds and (attempts is not None or time.monotonic() < deadline):
            name = open_kinds.pop(0)
            first, n = seed + BLOCK * started[name], BLOCK if attempts is None else attempts
            started[name] += 1
            if attempts is None:
                open_kinds.append(name)
            left = SLICE if len(kinds) > 1 else deadline - time.monotonic()
            seconds = LONGEST if attempts is not None else min(left, deadline - time.monotonic())
            workers.append(Worker(name, range(first, first + n), seconds))
        for worker in select.select(workers, [], [], 1.0)[0]:
            if not worker.read(tallies[worker.name]):
                workers.remove(worker)
        workers = [worker for worker in workers if not worker.is_stuck(tallies[worker.name])]
    return tallies


def show(tallies: dict[str, Tally], messages: bool) -> None:
    print(f"\n{'kind':<10}{'tried':>9}{'held':>9}{'failed':>8}   how")
    for name, tally in tallies.items():
        brief = Counter()
        for label, n in tally.labels.items():
            brief[label.partition(":")[0]] += n
        how = ", ".join(f"{n} {label}" for label, n in brief.most_common())
        print(f"{name:<10}{tally.tried:>9}{tally.tried - tally.failed:>9}{tally.failed:>8}   {how}")
    for name, tally in tallies.items():
        for what, seeds in sorted(tally.failures.items(), key=lambda item: -len(item[1])):
            again = " ".join(f"{name}:{seed}" for seed in seeds[:SHOWN])
            print(f"\n{len(seeds)} x {what}\n    --repeat {again}")
        if messages:
            for label, n in sorted(tally.labels.items(), key=lambda item: -item[1]):
                print(f"{name:<10}{n:>8} x {label}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python tests/attack", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--attempts", type=int, help="of each kind, in place of --minutes")
    parser.add_argument("--only", default=",".join(KINDS), help=f"some of {','.join(KINDS)}")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 10**6 % 10**9 * 1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--messages", action="store_true", help="list what was refused and how")
    parser.add_argument("--repeat", nargs="+", metavar="KIND:SEED", help="these attacks alone, and say what they do")
    given = parser.parse_args(arguments)
    if given.repeat:
        common.speaking = True
        found = []
        for name, _, seed in (each.partition(":") for each in given.repeat):
            prepare(name)
            labels, failure = attack(name, int(seed) if seed.isdigit() else seed)
            print(f"{name}:{seed}", failure or f"held: {labels}")
            found.append(failure)
        return int(any(found))
    kinds = given.only.split(",")
    unknown = [name for name in kinds if name not in KINDS]
    if unknown:
        parser.error(f"there is no kind {unknown[0]!r}; there are {', '.join(KINDS)}")
    if importlib.util.find_spec("atheris") is None:
        kinds = [name for name in kinds if name != "guided"]
    print(f"--seed {given.seed}", flush=True)
    tallies = run(kinds, given.minutes, given.attempts, given.seed, given.jobs)
    show(tallies, given.messages)
    return int(any(tally.failed for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
