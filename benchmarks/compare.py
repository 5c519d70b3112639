"""Time two revisions of polyfm against each other: fits, prediction, start-up and memory, on the same data.

    POLYFM_DATA=DIR python benchmarks/compare.py BASE HEAD [--cases NAME ...] [--rounds 10] [--seconds S] [--json FILE]
    python benchmarks/compare.py BASE . --quick      made-up data, two rounds: does it run, and do results agree?

BASE and HEAD are git revisions; "." or "worktree" is the working tree, uncommitted changes included. Each is copied
into a temporary directory and compiled there. In a round, a new process for each loads the data and the two take turns,
base head head base (the other way round in every second round): one runs while the other waits, so that a noisy minute
of the machine meets both. Processes are new in every round because equal ones differ by several percent for life.

A row has the medians over all rounds, the median of the rounds' ratios head / base, and its 90% interval (bootstrap).
SLOWER marks an interval wholly above 1.03, of five rounds or more; compare a revision with itself to see what the
machine can tell. Where the two compute different things, a line says so.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from _compare_worker import CASES

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
WORKING_TREE = (".", "worktree")
BASE, HEAD = 0, 1
ORDERS = (BASE, HEAD, HEAD, BASE), (HEAD, BASE, BASE, HEAD)  # of rounds in turn: who follows himself finds warm caches
TOLERATED, AGREEMENT = 1.03, 1e-6
FEWEST = 5  # rounds from which an interval means something

FIRST_FIT = """
import numpy as np, scipy.sparse as sp, polyfm
rng = np.random.RandomState(0)
indices = np.column_stack([rng.randint(20, size=500), rng.randint(20, 50, size=500)]).ravel()
X = sp.csr_matrix((np.ones(1000), indices, np.arange(0, 1001, 2)), shape=(500, 50))
model = polyfm.FactorizationMachineRegressor(n_components=10, alpha=1.0, beta=1.0, max_iter=5, tol=0.0, random_state=0)
print(model.fit(X, rng.standard_normal(500)).objective_)
"""
# Each sample is a process of its own, from its start to its end.
NEW_PROCESS = {
    "import": ("new process: import", "from polyfm import *"),
    "first-fit": ("new process: import, first fit", FIRST_FIT),
}
TITLES = {name: title for name, (title, _) in NEW_PROCESS.items()} | {name: case.title for name, case in CASES.items()}
MEMORY = "peak-memory"

# -- the two revisions ------------------------------------------------------------------------------------------------


def git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"git {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout.strip()


@contextmanager
def checkout(revision: str, place: Path) -> Iterator[str]:
    """The sources of a revision in `place`, and what to call it."""
    if revision in WORKING_TREE:  # a copy, since it may be edited meanwhile
        shutil.copytree(ROOT / "src", place / "src", ignore=shutil.ignore_patterns("__pycache__"))
        yield f"working tree at {git('rev-parse', '--short', 'HEAD')}"
        return
    commit = git("rev-parse", "--short", "--verify", f"{revision}^{{commit}}")
    git("worktree", "add", "--detach", str(place), commit)
    try:
        yield commit if commit == revision else f"{revision} ({commit})"
    finally:
        git("worktree", "remove", "--force", str(place))


class Side:
    """One of the two: its processes import polyfm from `source`, and keep their caches there."""

    def __init__(self, name: str, source: Path, options: argparse.Namespace):
        self.name, self.source, self.options = name, source, options
        limits = {f"{library}_NUM_THREADS": str(options.threads) for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
        self.environment = os.environ | limits | {"PYTHONPATH": str(source)}
        for variable in ("NUMBA_CACHE_DIR", "POLYFM_CACHE", "PYTHONDONTWRITEBYTECODE"):
            self.environment.pop(variable, None)
        self.worker: subprocess.Popen | None = None

    @contextmanager
    def working(self) -> Iterator[None]:
        """While this lasts a worker may be asked; at its end, Ctrl-C or not, the worker is ended."""
        try:
            yield
        finally:
            if self.worker:
                self.worker.kill()
                self.worker.communicate()
            self.worker = None

    def ask(self, *question: Any) -> dict[str, Any]:
        """A question to the worker, who starts with the first one; everybody else waits for the answer."""
        if self.worker is None:
            kind = "quick" if self.options.quick else "whole"
            self.worker = subprocess.Popen(
                [sys.executable, str(HERE / "_compare_worker.py"), kind, str(self.options.threads)],
                env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            )  # fmt: skip
        try:
            print(json.dumps(question), file=self.worker.stdin, flush=True)
            answer = self.worker.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise SystemExit(f"The process of {self.name} ended with code {self.worker.wait()} when asked {question}.")
        return json.loads(answer)

    def new_process(self, name: str) -> dict[str, Any]:
        """Seconds from the start to the end of a process, and the numbers that it printed."""
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", NEW_PROCESS[name][1]], env=self.environment, cwd=self.source,
            capture_output=True, text=True, start_new_session=True,
        )  # fmt: skip
        if done.returncode:
            return {"trouble": done.stderr.strip().splitlines()[-1]}
        return {"seconds": time.perf_counter() - began, "results": [float(word) for word in done.stdout.split()]}


# -- the run ----------------------------------------------------------------------------------------------------------


def first_run(sides: list[Side], names: list[str]) -> tuple[dict[str, list[list[float]]], dict[str, str]]:
    """Compile and fill the caches: what base and head computed in each case, and why a case is left out.

    Its processes end before the first round, since compilers need memory, which is not to be measured.
    """
    results: dict[str, list[list[float]]] = {name: [] for name in names}
    left_out: dict[str, str] = {}
    for side in sides:
        say(f"Compiling {side.name}")
        with side.working():
            for name in names:
                answer = side.new_process(name) if name in NEW_PROCESS else side.ask("prepare", name)
                if "trouble" in answer:
                    left_out.setdefault(name, f"{side.name}: {answer['trouble']}")
                else:
                    results[name].append(answer["results"])
    return results, left_out


def one_round(sides: list[Side], names: list[str], order: tuple[int, ...]) -> dict[str, list[list[float]]]:
    """Seconds of base and of head in each case, and the peak memory of their two workers."""
    figures = {name: in_turns(sides, order, Side.new_process, name) for name in names if name in NEW_PROCESS}
    with sides[0].working(), sides[1].working():
        for name in (name for name in names if name in CASES):
            for turn in order[:2]:
                sides[turn].ask("prepare", name)
            figures[name] = in_turns(sides, order, Side.ask, "sample")
        memory = {MEMORY: [[side.ask("peak")["mb"]] for side in sides]} if sides[0].worker else {}
    return figures | memory


def in_turns(
    sides: list[Side], order: tuple[int, ...], run: Callable[[Side, str], dict[str, Any]], what: str
) -> list[list[float]]:
    seconds: list[list[float]] = [[], []]
    for turn in order:
        seconds[turn].append(run(sides[turn], what)["seconds"])
    return seconds


def compared(rounds: list[list[list[float]]]) -> dict[str, Any]:
    """Medians of base and head; the median of the rounds' ratios, and where it lies in 90% of draws of rounds.

    A ratio of the two medians would be further off: rounds differ more from each other than their two halves do.
    """
    samples = np.array(rounds).transpose(1, 0, 2)  # side, round, sample
    base, head = np.median(samples, axis=2)
    ratios = head / base
    draws = np.random.RandomState(0).choice(ratios, (2000, len(ratios)))
    low, high = np.percentile(np.median(draws, axis=1), (5, 95))
    return {
        "base": np.median(samples[0]), "head": np.median(samples[1]), "ratio": np.median(ratios), "low": low,
        "high": high, "worse": bool(low > TOLERATED and len(rounds) >= FEWEST), "rounds": rounds,
    }  # fmt: skip


def agree(base: list[float], head: list[float]) -> bool:
    return len(base) == len(head) and np.allclose(base, head, rtol=AGREEMENT, atol=0)


def measure(sides: list[Side], options: argparse.Namespace) -> dict[str, Any]:
    results, left_out = first_run(sides, options.cases)
    names = [name for name in options.cases if name not in left_out]
    rounds: list[dict[str, list[list[float]]]] = []
    began = time.perf_counter()
    while names and len(rounds) < options.rounds and (len(rounds) < 2 or time.perf_counter() - began < options.seconds):
        rounds.append(one_round(sides, names, ORDERS[len(rounds) % 2]))
        say(f"Round {len(rounds)} of {options.rounds}: {time.perf_counter() - began:.0f} s")
    rows = {name: compared([figures[name] for figures in rounds]) for name in (rounds[0] if rounds else ())}
    return {
        "base": sides[0].name, "head": sides[1].name, "threads": options.threads, "quick": options.quick,
        "rows": rows, "left_out": left_out,
        "differ": {name: results[name] for name in names if not agree(*results[name])},
    }  # fmt: skip


# -- the report -------------------------------------------------------------------------------------------------------


def report(found: dict[str, Any]) -> None:
    kind = "made-up data in the place of" if found["quick"] else ""
    say(f"\n{kind:<36}{'base':>12}{'head':>12}{'ratio':>8}   90% interval")
    for name, row in found["rows"].items():
        title, show, mark = (TITLES[name], duration, "SLOWER") if name in TITLES else ("peak memory", size, "LARGER")
        figures = f"{show(row['base']):>12}{show(row['head']):>12}{row['ratio']:>8.3f}"
        say(f"{title:<36}{figures}   {row['low']:.3f} to {row['high']:.3f}  {mark if row['worse'] else ''}".rstrip())
    for name, (base, head) in found["differ"].items():
        say(f"RESULTS DIFFER, {TITLES[name]}: base {base}, head {head}")
    for name, why in found["left_out"].items():
        say(f"Left out, {TITLES[name]}: {why}")


def duration(seconds: float) -> str:
    unit, name = next(((unit, name) for unit, name in ((1, "s"), (1e-3, "ms")) if seconds >= unit), (1e-6, "us"))
    return f"{seconds / unit:.3f} {name}"


def size(mb: float) -> str:
    return f"{mb:.0f} MB"


def say(text: str) -> None:
    print(text, flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE", help='git revision, or "."')
    parser.add_argument("head", metavar="HEAD", help='git revision, or "."')
    parser.add_argument("--cases", nargs="+", metavar="NAME", choices=TITLES, help=f"of: {', '.join(TITLES)}")
    parser.add_argument("--rounds", type=int, help="(default: 10, or 2 with --quick)")
    parser.add_argument("--seconds", type=float, default=np.inf, help="no new round after this many, but two")
    parser.add_argument("--threads", type=int, default=1, help="(default: 1)")
    parser.add_argument("--quick", action="store_true", help="made-up data; POLYFM_DATA is not needed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples and figures, too")
    options = parser.parse_args(arguments)
    options.cases = options.cases or list(TITLES)
    options.rounds = max(options.rounds or (2 if options.quick else 10), 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped."))  # as after Ctrl-C, nothing stays behind
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="polyfm-compare-"))).resolve()
        sides = []
        for role, revision in (("base", options.base), ("head", options.head)):
            name = stack.enter_context(checkout(revision, directory / role))
            sides.append(Side(f"{role}, {name}", directory / role / "src", options))
        found = measure(sides, options)
    report(found)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
