"""The command line, with options, values and files drawn at random: it works, or says why not in one line."""

import contextlib
import gzip
import json
import random
import resource
import sys
import warnings
from functools import cache
from pathlib import Path

import click
import numpy as np
from click.testing import CliRunner
from untrained import untrained

from attack.common import check, say, temporary
from polyfm import FactorizationMachineClassifier, FactorizationMachineRegressor
from polyfm.cli.main import cli
from polyfm.modelfile import save_model

NUMBERS = (
    "1", "2", "0.5", "1", "0", "3", "1e-3", "-1", "-0.0", "1e300", "1e400", "nan", "inf", "-inf", "x", "", " ",
    "1e-300", "1,2", "0x10", "1_000", "\u0661", "9" * 30, "None", "True", "--", "%s", "\n", "é" * 50,
)  # fmt: skip
# Where a number costs time, memory or threads, or compiles: few of the sound ones, and all that are not numbers.
SMALL = {
    "degree": ("2", "2", "2", "3", "0", "-1", "1", "2.5", "x"),
    "n_components": ("1", "3", "0", "-2", "x", "1e3"),
    "max_iter": ("1", "2", "5", "0", "-1", "x"),
    "n_jobs": ("1", "2", "-1", "0", "x"),
    "n_betas": ("1", "2", "0", "x"),
    "top": ("1", "5", "0", "-1", "1000000", "x"),
    "batch_size": ("auto", "1", "7", "0", "-1", "x", "1e3"),
    "shares": ("1", "2", "0", "-1", "x"),
}
SOUND = [f"{name}.csv" for name in ("table", "words")] + ["data.svm", "real.svm"]
SOUND += [f"{name}.polyfm" for name in ("table", "data", "six", "classes")]
MEMORY = 2 * 2**30  # bytes
home = Path()
there: list[str] = []


@cache
def prepare() -> None:
    """Files of all sorts; commands run among them."""
    global home
    home = temporary()
    rng = np.random.RandomState(0)
    rows = [f"{i % 4},{i % 3},{x:.3f},{y:.3f}" for i, (x, y) in enumerate(rng.randn(30, 2))]
    texts = {
        "table.csv": "user,item,x,y\n" + "\n".join(rows) + "\n",
        "words.csv": "a,y\nx,yes\ny,no\nz,yes\nx,no\n" * 5,
        "gaps.csv": "a,y\n1,\n,2\n3,3\n",
        "header.csv": "a,b,y\n",
        "one.csv": "a,y\n1,2\n",
        "twice.csv": "y,y\n1,2\n3,4\n",
        "ragged.csv": "a,y\n1,2,3\n4\n",
        "empty": "",
        "empty.csv": "",
        "data.svm": "".join(f"{i % 2} 1:{i} 3:0.5 {4 + i % 3}:1\n" for i in range(30)),
        "real.svm": "".join(f"{i}.5 0:1 {1 + i % 3}:1\n" for i in range(30)),
        "bad.svm": "1 1:1\n1 1:x\n",
        "garbage": "\x00\x01PK\x03\x04" * 50,
        "é ü.csv": "a,y\n1,2\n2,3\n3,4\n4,5\n5,6\n",
    }
    for name, text in texts.items():
        (home / name).write_text(text)
    (home / "directory").mkdir()
    (home / "cut.csv.gz").write_bytes(gzip.compress(texts["table.csv"].encode())[:60])
    (home / "latin.csv").write_bytes("a,y\né,1\n".encode("latin-1"))
    save_model(untrained(FactorizationMachineRegressor(n_components=2), 6), home / "six.polyfm")
    save_model(untrained(FactorizationMachineClassifier(n_components=2), 6, [0, 1]), home / "classes.polyfm")
    (home / "cut.polyfm").write_bytes((home / "six.polyfm").read_bytes()[:-70])
    invoked(["fit", "table.csv", "--target", "y", "--model", "table.polyfm", "--random-state", "0"])
    invoked(["fit", "data.svm", "--model", "data.polyfm", "--random-state", "0"])
    there.extend(sorted(path.name for path in home.iterdir()))


def enter() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.RLIM_INFINITY))


def invoked(words: list[str]):
    with contextlib.chdir(home), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        return CliRunner().invoke(cli, words, prog_name="polyfm")


def file(rng: random.Random, *endings: str) -> str:
    """Mostly one of the right sort, else any, and sometimes none."""
    if rng.randrange(4):
        right = [name for name in there if name.endswith(endings)]
        return rng.choice([name for name in right if name in SOUND] if rng.randrange(3) else right)
    return rng.choice([*there, "missing", "missing/deep.csv", "a" * 300, "", "-", "/dev/null", "."])


def value(rng: random.Random, option: click.Option) -> str:
    name, kind = str(option.name), option.type
    if name in ("target", "text", "fields"):
        return rng.choice(["y", "y", "y", "x", "user", "a", "", "Y", "no such", "\n"])
    if isinstance(kind, click.Choice):
        return rng.choice([*kind.choices, *kind.choices, "x", ""])
    if isinstance(kind, click.Path):
        if name == "data":
            return file(rng, ".csv", ".svm")
        return rng.choice(["out.polyfm", "out.csv", "out.png", "directory", "missing/out", "", "a" * 300, "table.csv/"])
    numbers = SMALL.get(name, NUMBERS)
    return rng.choice(numbers if rng.randrange(3) else numbers[:5])


def line(rng: random.Random) -> list[str]:
    name = rng.choice([*["fit"] * 8, *["predict"] * 3, *["evaluate"] * 3, *["explain"] * 3, "info", "reproduce"])
    command = cli.commands[name]
    words = [name]
    if name == "reproduce":  # the sound ones take minutes
        return [name, rng.choice(["figure9", "", "figure1x"]), *rng.choice([[], ["--jobs", "0"], ["--out", ""]])]
    if name == "fit":
        words += rng.choice([[file(rng, ".csv", ".svm")]] * 20 + [[]])
        words += rng.choice([["--target", "y"], ["--target", "y"], []]) + rng.choice([["--max-iter", "2"], []])
    else:
        words.append(file(rng, ".polyfm"))
        if name in ("predict", "evaluate"):
            words.append(file(rng, ".csv", ".svm"))
    options = [p for p in command.params if isinstance(p, click.Option)]
    for option in rng.sample(options, min(rng.choice((0, 0, 1, 1, 2, 2, 3, 6)), len(options))):
        if option.name == "debug":
            continue
        words.append(rng.choice([*option.opts, *option.secondary_opts]))
        if not option.is_flag:
            words.append(value(rng, option))
    if not rng.randrange(30):
        words.insert(rng.randrange(len(words) + 1), rng.choice(["--", "--no-such", "extra", "-", "-x", "--help"]))
    return words


def attempt(seed: int) -> list[str]:
    words = line(random.Random(seed))
    say("polyfm", *map(repr, words))
    result = invoked(words)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")  # a process of its own would have ended
    said = result.output.strip()
    say(f"exit {result.exit_code}\n{said}")
    check(result.exception is None or isinstance(result.exception, SystemExit), f"{result.exception!r}")
    check("Traceback" not in said and "Warning" not in said, "says more than it should")
    if result.exit_code == 0:
        if "--json" in words and "--help" not in words:
            json.loads(result.stdout, parse_constant=lambda name: check(False, f"{name} is no JSON"))
        return ["ran"]
    check(result.exit_code in (1, 2), f"exit code {result.exit_code}")
    errors = [text for text in said.splitlines() if text.startswith("Error: ")]
    check(len(errors) == 1 and said.endswith(errors[0]), "no error in one last line")
    check(not errors[0].startswith("Error: unexpected "), errors[0][:200])
    check(len(errors[0]) >= 20, f"says too little, {errors[0]!r}")
    return [f"exit {result.exit_code}: {errors[0][:80]}"]
