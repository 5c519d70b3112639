"""A first look: where products of features matter, beside a linear model and boosted trees, and where they do not."""

import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from polyfm import __version__
from polyfm.cli.demo_problems import LINEAR, MACHINE, NOISE, TREES, Tastes, problems, score, tastes
from polyfm.cli.ending import let_go_of_output, whole_process

CELLS = 18  # of a picture, each way
SHADES = " ░▒▓█"
COLOURS = (18, 19, 26, 68, 110, 152, 188, 223, 216, 209, 167, 124, 88)  # of 256: blue, grey, red
SLOW = 1.5  # seconds, above which something was compiled
READINGS = {
    "ratings": "A rating depends on both at once. Factorization machines were made for this.",
    "diabetes": "Few rows, much noise: little beyond a linear model, and trees overfit.",
    "odd digits": "Pixels act together. Pairs explain most of it, trees a little more.",
    "curves": "A sine, a square, one product: not of this kind. Use trees.",
}


def main() -> None:
    try:
        with whole_process(), threadpool_limits(1):  # for trees, whose threads wait for each other on busy machines
            run()
    except OSError as error:
        let_go_of_output()
        raise SystemExit(f"Error: Standard output cannot be written ({error.strerror}).") from None


def run() -> None:
    print(f"polyfm {__version__}: four problems, a quarter of the rows held out, defaults for all\n")
    tried = problems()
    compile_loops(tried)
    print(f"\n{'R2 on held-out rows':<56}{'linear':>8}{'trees':>8}{'polyfm':>8}")
    spent = dict.fromkeys((LINEAR, TREES, MACHINE), 0.0)
    fitted: dict[str, dict[str, Any]] = {}
    for problem in tried:
        scores = {}
        fitted[problem.name] = {}
        for name, (model, X) in problem.contestants().items():
            show(f"  {problem.name}: {name} ...")
            with timed(spent, name):
                scores[name] = score(problem, model, X)
            fitted[problem.name][name] = model
        show("")
        best = max(scores.values())
        cells = (f"{value:.3f}{'*' if value == best else ' '}" for value in scores.values())
        print((f"{problem.name:<11}{problem.what:<45}" + "".join(f"{cell:>8}" for cell in cells)).rstrip())
        print(f"{'':<11}{READINGS[problem.name]}")
    print(f"{'seconds for all four':<56}" + "".join(f"{seconds:>7.1f} " for seconds in spent.values()).rstrip())
    print("linear: RidgeCV. trees: HistGradientBoostingRegressor. polyfm: FactorizationMachineRegressor.")
    if can_print(SHADES + "▀"):
        print_tastes(tastes(), fitted["ratings"])
    print_next_steps()


def compile_loops(tried) -> None:
    """Fit a few rows first, so that times below are of training alone."""
    show("Compiling loops for this machine: once, then they are read from disk ...")
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sixty rows there is much to say
        for problem in tried:
            problem.machine().fit(problem.X[:60], problem.y[:60])
    seconds = time.perf_counter() - began
    show("")
    if seconds > SLOW:
        print(f"Compiled loops for this machine in {seconds:.1f} s. The next run reads them from disk.")
    else:
        print(f"Compiled loops were read from disk, in {seconds:.1f} s.")


@contextmanager
def timed(spent: dict[str, float], name: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    spent[name] += time.perf_counter() - began


def show(text: str) -> None:
    """Overwrite the current line of a terminal; elsewhere say nothing."""
    if is_terminal():
        print(f"\r\x1b[2K{text}", end="", flush=True)


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def can_print(text: str) -> bool:
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


# -- the picture ------------------------------------------------------------------------------------------------------


def print_tastes(ratings: Tastes, fitted: dict[str, Any]) -> None:
    models = {name: ratings.predicted(model.predict, table=name == TREES) for name, model in fitted.items()}
    panels = {"the truth": ratings.truth, **models}
    train, _ = ratings.problem.split()
    print(
        "\nThe ratings again: people down, films across, both in the order of their taste,\n"
        f"which no model was told. Each has seen {len(train) / ratings.truth.size:.0%} of these ratings, with noise of "
        f"{NOISE} points.\n"
    )
    cells = [coarse(panel) for panel in panels.values()]
    low, high = np.min(cells), np.max(cells)
    print("  ".join(f"{name:<{CELLS}}" for name in panels))
    draw = in_colours if is_terminal() and "NO_COLOR" not in os.environ and os.name != "nt" else in_shades
    lines = [draw((panel - low) / (high - low)) for panel in cells]
    for parts in zip(*lines, strict=True):
        print("  ".join(parts))


def coarse(panel: np.ndarray) -> np.ndarray:
    """Means over nearly equal parts."""
    down, across = (np.linspace(0, size, CELLS + 1).astype(int)[:-1] for size in panel.shape)
    sums = np.add.reduceat(np.add.reduceat(panel, down, axis=0), across, axis=1)
    return sums / np.multiply.outer(
        *(np.diff([*at, size]) for at, size in zip((down, across), panel.shape, strict=True))
    )


def in_colours(panel: np.ndarray) -> list[str]:
    """Two cells in each letter: the upper half in its colour, the lower in that of the ground."""
    codes = np.take(COLOURS, np.minimum((panel * len(COLOURS)).astype(int), len(COLOURS) - 1))
    return [
        "".join(f"\x1b[38;5;{top};48;5;{bottom}m▀" for top, bottom in zip(*codes[i : i + 2], strict=True)) + "\x1b[0m"
        for i in range(0, CELLS, 2)
    ]


def in_shades(panel: np.ndarray) -> list[str]:
    halves = (panel[::2] + panel[1::2]) / 2
    return ["".join(SHADES[min(int(value * len(SHADES)), len(SHADES) - 1)] for value in line) for line in halves]


# -- what to do next --------------------------------------------------------------------------------------------------


def print_next_steps() -> None:
    python = this_python()
    print("\nNext, on a table of yours:")
    if importlib.util.find_spec("click") is None or importlib.util.find_spec("rich") is None:
        print(f'  {python} -m pip install "polyfm[cli]"')
    print(f"  {python} -m polyfm fit TABLE.csv --target COLUMN --model first.polyfm")
    print(f"  {python} -m polyfm explain first.polyfm")
    print("or in Python, with no penalty to tune:")
    print("  from polyfm import FactorizationMachineRegressor, TableEncoder")
    print("  from sklearn.pipeline import make_pipeline")
    print("  model = make_pipeline(TableEncoder(), FactorizationMachineRegressor()).fit(table, target)")


def this_python() -> str:
    """What to type for the Python that runs this."""
    try:
        return os.path.relpath(sys.executable) if Path(sys.executable).is_relative_to(Path.cwd()) else sys.executable
    except OSError:  # the directory is gone
        return sys.executable
