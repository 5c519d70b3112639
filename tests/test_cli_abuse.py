"""The command line, abused: it destroys nothing, surprises nobody, and says in one line what is wrong."""

import csv
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click")
from click.testing import CliRunner

from polyfm.cli.main import cli

ESC, BIDI = "\x1b[31m", "\u202e"
POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX")
rng = np.random.RandomState(0)
X = rng.standard_normal((60, 3))
Y = X[:, 0] * X[:, 1] + X[:, 2]


def svm(targets=Y, first=1) -> str:
    rows = (" ".join(f"{j + first}:{x:.4f}" for j, x in enumerate(row)) for row in X)
    return "".join(f"{target} {row}\n" for target, row in zip(targets, rows, strict=True))


def table(names="a,b,c,y", targets=Y) -> str:
    rows = (",".join(f"{x:.4f}" for x in row) for row in X)
    return names + "\n" + "".join(f"{row},{target}\n" for target, row in zip(targets, rows, strict=True))


def invoke(command: str | list):
    """Run a command, as a line or as words."""
    words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    result = CliRunner().invoke(cli, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert "Traceback" not in result.output
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", result.output), repr(result.output)
    return result


def accepted(command: str | list):
    result = invoke(command)
    assert result.exit_code == 0, result.output
    return result


def refused(command: str | list, message: str = "") -> str:
    """The line with which it is refused; no file has changed."""
    before = contents()
    result = invoke(command)
    lines = [line for line in result.output.splitlines() if not line.startswith("Note: ")]
    assert result.exit_code in (1, 2), result.output
    assert len(lines) == 1, result.output
    assert lines[0].startswith("Error: ")
    assert not lines[0].startswith("Error: unexpected")
    assert re.search(message, lines[0]), lines[0]
    assert contents() == before
    return lines[0]


def contents() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Small data in all forms, and models of them."""
    folder = tmp_path_factory.mktemp("made")
    for name, text in {
        "r.svm": svm(), "zero.svm": svm(first=0), "c.svm": svm(np.where(Y > 0, 1, -1)), "t.csv": table(),
        "k.csv": table(targets=np.array(["down", "up"])[np.digitize(Y, [0])]),
        "k3.csv": table(targets=np.array(["p", "q", "s"])[np.digitize(Y, [-0.5, 0.5])]),
        "new.csv": "\n".join(line.rpartition(",")[0] for line in table().splitlines()) + "\n",
    }.items():  # fmt: skip
        (folder / name).write_text(text)
    for data in ("r.svm", "zero.svm", "c.svm", "t.csv", "k.csv", "k3.csv"):
        target = ["--target", "y"] if data.endswith("csv") else []
        name = folder / data
        accepted(["fit", name, *target, "--model", name.with_suffix(".polyfm"), "--random-state", 0, "--max-iter", 5])
    return folder


@pytest.fixture
def desk(made, tmp_path, monkeypatch):
    """A folder with copies of all that, to work in."""
    shutil.copytree(made, tmp_path / "desk")
    monkeypatch.chdir(tmp_path / "desk")
    return tmp_path / "desk"


@pytest.fixture
def idle(monkeypatch):
    """No data may be read, and no model loaded."""

    def work(*args, **kwargs):
        raise AssertionError("work was done")

    for name in ("read", "chunks"):
        monkeypatch.setattr(f"polyfm.cli.sources.Source.{name}", work)
    monkeypatch.setattr("polyfm.cli.saved.load_model", work)


# -- 1. what is written -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "fit r.svm --model r.svm",
        "fit t.csv --target y --model ../desk/t.csv",
        pytest.param("fit r.svm --model hard", marks=POSIX),
        pytest.param("fit r.svm --model soft", marks=POSIX),
        pytest.param("fit below/r.svm --model r.svm", marks=POSIX),
        "fit r.svm --checkpoint r.svm",
        "fit r.svm --checkpoint r.polyfm --model r.polyfm",
        "fit r.svm --checkpoint new --model ./new",
        "fit r.svm --checkpoint new --model NEW",
        "predict t.polyfm new.csv --out new.csv",
        "predict t.polyfm new.csv --out t.polyfm",
        pytest.param("explain t.polyfm --data new.csv --row 1 --plot soft.png", marks=POSIX),
        pytest.param("explain r.polyfm --plot model.png", marks=POSIX),
    ],
)
def test_an_output_that_is_an_input_or_another_output_is_refused_before_any_work(desk, idle, command):
    if os.name != "nt":
        os.link("r.svm", "hard")
        for name, target in {"soft": "r.svm", "soft.png": "new.csv", "model.png": "r.polyfm", "below": "."}.items():
            os.symlink(target, name)
    refused(command, "itself|one file")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("fit r.svm --model no/m", "no/m.*directory exists"),
        ("fit r.svm --checkpoint no/c", "no/c.*directory exists"),
        ("predict t.polyfm new.csv --out no/p.csv", "no/p.csv.*directory exists"),
        ("explain r.polyfm --plot no/p.png", "no/p.png.*directory exists"),
        ("fit r.svm --model folder", "folder: is a directory"),
        ("predict t.polyfm new.csv --out folder", "folder: is a directory"),
        ("explain r.polyfm --plot folder.png", "is a directory"),
        ("fit r.svm --model .", "not the name of a file"),
        ("fit r.svm --model new/", "not the name of a file"),
        ("fit r.svm --model ''", "not the name of a file"),
        ("fit r.svm --model --json", "not the name of a file"),
        ("predict t.polyfm new.csv --out -", "not the name of a file"),
        ("fit r.svm --model t.csv/m", "cannot be written"),
        ("fit r.svm --model " + "x" * 300, "cannot be written"),
        pytest.param("fit r.svm --model /proc/m", "cannot be written", marks=POSIX),
        pytest.param("predict t.polyfm new.csv --out /dev/null", "a device", marks=POSIX),
        ("fit r.svm --model k.csv", "not a polyfm model file"),
        ("fit r.svm --checkpoint k.csv", "not a checkpoint"),
        ("fit r.svm --checkpoint t.polyfm", "not a checkpoint"),
        ("predict t.polyfm new.csv --out k.csv", "not a file of predictions"),
        ("explain r.polyfm --plot words.png", "not a png picture"),
        ("explain r.polyfm --plot p.txt", "pictures are written as png"),
        ("predict t.polyfm new.csv --out p.parquet", "CSV"),
        ("fit r.svm --model a --model b", "more than once"),
        ("reproduce figure1 --quick --out t.csv", "not a directory"),
        ("reproduce figure1 --quick --out t.csv/below", "not a directory"),
    ],
)
def test_an_output_that_cannot_be_written_or_holds_other_things_is_refused_before_any_work(
    desk, idle, command, message
):
    Path("folder").mkdir()
    Path("folder.png").mkdir()
    Path("words.png").write_text("words")
    refused(command, message)


def test_what_polyfm_has_written_is_replaced(desk):
    Path("empty").touch()
    for command in (
        "fit r.svm --model c.polyfm --max-iter 5", "fit r.svm --model empty --max-iter 5",
        "predict t.polyfm new.csv --out p.csv", "predict k.polyfm new.csv --proba --out p.csv",
        "explain r.polyfm --plot p", "explain r.polyfm --plot p",
    ):  # fmt: skip
        accepted(command)
        accepted(command)
    assert Path("p").read_bytes().startswith(b"\x89PNG")
    assert not list(Path().glob(".polyfm-*"))


def test_a_checkpoint_is_gone_on_from(desk, monkeypatch):
    fit = "fit r.svm --checkpoint c --checkpoint-interval 1 --random-state 0 --tol 0 --json --max-iter"
    with monkeypatch.context() as kept:
        kept.setattr("pathlib.Path.unlink", lambda *args, **kwargs: None)
        accepted(f"{fit} 2")
    assert json.loads(accepted(f"{fit} 4").stdout)["epochs"] == 4
    assert not Path("c").exists()


@POSIX
def test_output_is_not_appended_to_the_file_that_is_read(desk):
    """Which would never end."""
    before = Path("new.csv").read_bytes()
    words = [sys.executable, "-m", "polyfm", "predict", "t.polyfm", "new.csv"]
    with open("new.csv", "ab") as out:
        done = subprocess.run(words, stdout=out, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2
    assert "Standard output goes into DATA" in done.stderr
    assert Path("new.csv").read_bytes() == before


# -- 2. what is printed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("price[usd] [/x] :smile:", "price[usd] [/x] :smile:"),
        (f"a{ESC}b\r\n\x00\x7f\x9b", r"a\x1b[31mb\r\n\x00\x7f\x9b"),
        (f"{BIDI}\u2066\u200e\ufeff\u2028", r"\u202e\u2066\u200e\ufeff\u2028"),
        ("\udcff", r"\udcff"),
        ("naïve 数量 می‌خواهم 👩‍🔬 a\xa0b \\n", "naïve 数量 می‌خواهم 👩‍🔬 a\xa0b \\n"),
    ],
)
def test_plain_text_is_what_it_was_with_visible_escapes(text, printed):
    from polyfm.cli.terminal import plain

    assert plain(text) == plain(plain(text)) == printed
    printed.encode()


def test_names_labels_and_errors_are_printed_literally(desk):
    names = f'price[usd],"[/red]b","c{ESC}",y'
    labels = np.where(Y > 0, f"[bold]{ESC}", f"[/x]{BIDI}")
    Path("x[").mkdir()
    Path("x[/x].csv").write_text(table(names, labels))
    summary = accepted("fit 'x[/x].csv' --target y --model 'x[/m].polyfm' --max-iter 5").output
    assert "x[/x].csv" in summary
    assert "x[/m].polyfm" in summary
    model, data = "'x[/m].polyfm'", "'x[/x].csv' --target y"
    explained = accepted(f"explain {model} --plot 'x[/p].png'").output
    assert "price[usd]" in explained
    assert "[/red]b" in explained
    assert r"c\x1b[31m" in explained
    assert "x[/p].png" in explained
    assert "[/red]b" in accepted(f"explain {model} --data {data} --row 3").output
    assert "x[/m].polyfm" in accepted(f"info {model}").output
    assert "accuracy" in accepted(f"evaluate {model} {data}").output
    assert "x[/p].csv" in accepted(f"predict {model} {data} --out 'x[/p].csv'").output
    assert r"'[bold]\x1b[31m'" in refused(f"explain {model} --class none")
    assert r"'c\x1b[31m'" in refused("fit 'x[/x].csv' --target z")


def test_the_text_of_a_model_file_is_printed_literally(desk, monkeypatch):
    told = {"class": f"[/red]{ESC}", "notes": ["[bold]one", f"two\r{BIDI}"], "parameters": {"loss": "[/x]\x07"}}
    monkeypatch.setattr("polyfm.cli.explain.model_info", lambda path: told)
    output = accepted("info r.polyfm").output
    for text in (r"[/red]\x1b[31m", "[bold]one", r"two\r\u202e", r"loss: [/x]\x07"):
        assert text in output
    assert json.loads(accepted("info r.polyfm --json").output) == told


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["fit", f"gone{ESC}[/x].svm"], r"gone\x1b[31m[/x].svm: there is no such file"),
        (["fit", "gone\nhere  .svm"], r"gone\nhere  .svm: there is no such file"),
        (["info", "\udcff"], r"\udcff: there is no such file"),
        (["fit", "r.svm", f"more{ESC}"], r"more\x1b[31m"),
        (["fit", "r.svm", f"--more{ESC}"], r"--more\x1b[31m"),
        ([f"more{ESC}"], r"more\x1b[31m"),
        (["fit", "r.svm", "--kind", f"{ESC}"], r"\x1b[31m"),
    ],
)
def test_the_words_of_a_command_are_printed_literally(desk, words, printed):
    assert printed in refused(words)


def test_warnings_are_notes_of_one_line(desk, monkeypatch):
    import warnings

    def info(path):
        for _ in range(2):
            warnings.warn(f"of\n  {ESC}[/x]", stacklevel=1)
        return {}

    monkeypatch.setattr("polyfm.cli.explain.model_info", info)
    assert accepted("info r.polyfm").output.count(r"Note: of \x1b[31m[/x]" + "\n") == 1


def test_only_one_module_prints():
    """So that nothing from outside can reach a terminal on another way."""
    from rich.progress import TextColumn

    import polyfm.cli
    from polyfm.cli.terminal import progress_bar

    for path in Path(polyfm.cli.__file__).parent.glob("*.py"):
        if path.name not in ("terminal.py", "demo.py"):  # the demonstration has no input
            assert not re.search(r"Console\(|console\.print|(?<![\w.])print\(|Table\(", path.read_text()), path.name
    assert not any(column.markup for column in progress_bar().columns if isinstance(column, TextColumn))
    assert "markup=False" in Path(polyfm.cli.__file__).with_name("watched.py").read_text()


def test_letters_that_an_encoding_lacks_are_escaped(desk, monkeypatch):
    Path("k.csv").write_text(table("å,b,c,y"))
    accepted("fit k.csv --target y --model m.polyfm --max-iter 5")
    result = CliRunner(charset="ascii").invoke(cli, ["explain", "m.polyfm"])
    assert result.exit_code == 0
    assert rb"\xe5" in result.stdout_bytes


# -- 3. CSV -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [("=1+1", '@a,"b"'), ("-x\ny", "+1"), ("a\rb", "\ufeffc"), ("", " "), (ESC, "ü")])
def test_labels_come_back_from_csv_as_they_were(desk, monkeypatch, labels):
    classes = np.array(sorted(labels))

    class Model:
        classes_, n_features_in_ = classes, 3

        def predict(self, X):
            return classes[np.arange(X.shape[0]) % 2]

        def predict_proba(self, X):
            return np.full((X.shape[0], 2), 0.5)

    monkeypatch.setattr("polyfm.cli.saved.load_model", lambda path: Model())
    both = ["prediction", *(f"p({label})" for label in classes)]
    for option, header in (("", both), ("--no-proba", both[:1]), ("--proba", both[1:])):
        accepted(f"predict c.polyfm c.svm --one-based --out out {option}")
        with open("out", newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        assert rows[0] == header
        assert len(rows) == 61
        if option != "--no-proba":
            assert [row[-2:] for row in rows[1:]] == [["0.5", "0.5"]] * 60
        if option != "--proba":
            assert {row[0] for row in rows[1:]} == set(labels)
        Path("out").unlink()


def test_numbers_are_written_with_all_their_digits(desk):
    from polyfm.datafiles import read_svmlight
    from polyfm.modelfile import load_model

    accepted("predict r.polyfm r.svm --out out")
    assert np.array_equal(np.loadtxt("out", skiprows=1), load_model("r.polyfm").predict(read_svmlight("r.svm")[0]))


# -- 4. where it is printed -------------------------------------------------------------------------------------------


@POSIX
def test_a_reader_who_goes_ends_the_command_in_silence(desk):
    with open("long.svm", "w") as file:
        file.write(svm() * 300)
    words = [sys.executable, "-m", "polyfm", "predict", "r.polyfm", "long.svm", "--one-based"]
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}  # where one write may be a part of what was asked for
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=unbuffered) as process:
        assert process.stdout.readline() == b"prediction\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


class Unwritable(io.RawIOBase):
    """Fails with the error when it is first written to."""

    def __init__(self, error):
        self.error = error

    def writable(self):
        return True

    def write(self, data):
        error, self.error = self.error, None
        if error is not None:
            raise error
        return len(data)


@pytest.mark.parametrize(
    "command", ["info r.polyfm", "explain r.polyfm --json", "evaluate r.polyfm r.svm", "--version"]
)
def test_broken_and_full_outputs(desk, capsys, monkeypatch, command):
    for error, code, message in (
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
        (OSError(28, "No space left on device"), 2, "Error: .*No space left on device.*"),
    ):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(Unwritable(error)), "utf-8"))
        with pytest.raises(SystemExit) as ended:
            cli(shlex.split(command), prog_name="polyfm")
        assert ended.value.code == code or (command == "--version" and code == 141)  # by click
        assert re.fullmatch(message, capsys.readouterr().err.strip())


@pytest.mark.parametrize(
    "command", ["predict r.polyfm r.svm", "info r.polyfm", "explain r.polyfm", "evaluate r.polyfm r.svm"]
)
def test_nothing_is_computed_for_a_closed_output(desk, idle, capsys, monkeypatch, command):
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit) as ended:
        cli(shlex.split(command), prog_name="polyfm")
    assert ended.value.code == 2
    assert "Standard output is closed" in capsys.readouterr().err


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&- <&-", ">/dev/full", "2>&1 | true", "| head -1"])
def test_ends_of_whole_processes(desk, redirection):
    for command in ("", "fit r.svm --model new", "predict r.polyfm r.svm", "info r.polyfm", "fit gone", "fit --help"):
        line = f"{shlex.quote(sys.executable)} -m polyfm {command} {redirection}"
        done = subprocess.run(["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True)
        assert "Traceback" not in done.stderr + done.stdout
        assert "Exception ignored" not in done.stderr
        assert done.returncode in (0, 1, 2, 141), (line, done)
        if command == "fit r.svm --model new":
            accepted("evaluate new r.svm")


# -- 5. sizes ---------------------------------------------------------------------------------------------------------

LARGE = "1 1:1\n2 1000000000:1\n3 2:1\n" * 3


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("fit r.svm --degree 50", "degree"),
        ("fit r.svm --degree 1000000", "degree"),
        ("fit r.svm --n-components 1000000000", "n_components"),
        ("fit large.svm --n-components 1000000", "GB"),
        ("fit large.svm", "GB"),
        ("fit large.svm --solver sgd --n-components 1000000", "GB"),
        ("predict r.polyfm large.svm", "line 2"),
    ],
)
def test_absurd_sizes_are_refused_in_one_line(desk, command, message):
    Path("large.svm").write_text(LARGE)
    refused(command, message)


def test_an_absurd_index_takes_no_memory_to_read(tmp_path):
    import tracemalloc

    from polyfm.datafiles import read_svmlight

    (tmp_path / "large.svm").write_text(LARGE)
    read_svmlight(tmp_path / "large.svm")  # compiles
    tracemalloc.start()
    X, _ = read_svmlight(tmp_path / "large.svm")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert X.shape == (9, 10**9)
    assert peak < 2**24


# -- 6. all the rest --------------------------------------------------------------------------------------------------

CSV = {  # the content of d.csv, which `fit d.csv --target y` refuses
    "empty": ("", "not a table"),
    "blank lines": ("\n\n\n", "not a table"),
    "names alone": ("a,b,y\n", "no rows"),
    "one row": ("a,b,y\n1,2,3\n", "--test-fraction 0"),
    "no features": ("y\n1\n2\n3.5\n", "0 feature"),
    "one class": (table(targets=["u"] * 60), "2 classes"),
    "a class of one row": (table(targets=["u", "d"] * 30) + "1,2,3,rare\n", "'rare' has one row"),
    "missing target": (table() + "1,2,3,\n", "missing in 1 row"),
    "nan target": (table() + "1,2,3,nan\n", "missing in 1 row"),
    "infinite target": (table() + "1,2,3,inf\n", "too large"),
    "huge target": (table() + "1,2,3,1e300\n", "1e\\+300"),
    "infinite cell": (table() + "1,1e400,3,4\n", "infinity"),
    "huge cell": (table() + "1,1e300,3,4\n", "'b'.*1e\\+300"),
    "targets of one name": (table("a,b,y,y"), "several columns named 'y'"),
    "other target": (table("a,b,c,z"), "no column 'y'"),
    "tabs": (table().replace(",", "\t"), "no column 'y'.*one column, .*--sep tab"),
    "semicolons": (table().replace(",", ";"), "no column 'y'.*one column, 'a;b;c;y'.*--sep ';'"),
    "more cells than names": ("a,y\n1,2,3\n", "not a table"),
    "unclosed quote": ('a,y\n1,"2\n3,4\n', "not a table"),
    "Latin-1": ("é,y\n1,2\n".encode("latin-1"), "UTF-8"),
    "UTF-16": (table().encode("utf-16"), "UTF-8"),
    "zeros": (b"\0" * 99, "no column"),
    "gzip, broken": (b"\x1f\x8bgarbage", "gzip"),
    "xz, broken": (b"\xfd7zXZ\0garbage", "xz"),
    "Parquet, broken": (b"PAR1garbage", "Parquet"),
}  # fmt: skip


@pytest.mark.parametrize("case", CSV)
def test_tables_that_cannot_be_learned_from(desk, case):
    content, message = CSV[case]
    Path("d.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    refused("fit d.csv --target y --model m.polyfm", message)


SVMLIGHT = {
    "empty": ("", "no rows"),
    "comments alone": ("# a\n\n# b\n", "no rows"),
    "no features": ("1\n2\n3\n4\n5\n", "0 feature"),
    "one class": ("1 1:2\n" * 9, "2 classes|at least two"),
    "nan label": ("nan 1:2\n", "line 1"),
    "infinite label": ("1e999 1:2\n", "line 1"),
    "nan value": ("1 1:nan\n", "line 1"),
    "negative index": ("1 -1:2\n", "line 1"),
    "enormous index": ("1 1000000000000:2\n", "largest that is supported"),
    "an index twice": ("1 1:2 1:3\n", "comes twice"),
    "words": ("up 1:2\n", "line 1"),
    "a table": ("a,b\n1,2\n", "line 1"),
    "huge value": ("1 1:1e300\n2 1:1\n3 2:1\n4 2:1\n5 1:1\n", "1e\\+300"),
    "zeros": (b"\0" * 99, "line 1"),
}


@pytest.mark.parametrize("options", ["", "--solver sgd"])
@pytest.mark.parametrize("case", SVMLIGHT)
def test_svmlight_files_that_cannot_be_learned_from(desk, case, options):
    content, message = SVMLIGHT[case]
    Path("d.svm").write_bytes(content if isinstance(content, bytes) else content.encode())
    refused("fit d.svm --test-fraction 0 --model m.polyfm" if not options else f"fit d.svm {options}", message)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("fit .", "is a directory"),
        ("fit ''", "is a directory"),
        ("fit -", "no such file"),
        pytest.param("fit /dev/null", "no rows", marks=POSIX),
        pytest.param("fit /dev/null --format csv --target y", "a device", marks=POSIX),
        pytest.param("fit dangling", "no such file", marks=POSIX),
        pytest.param("fit pipe --solver sgd", "must be read twice", marks=POSIX),
        pytest.param("predict r.polyfm pipe", "--one-based", marks=POSIX),
        pytest.param("info pipe", "is a pipe", marks=POSIX),
        ("fit t.csv", "--target, one of 'a', 'b', 'c', 'y'"),
        ("fit t.csv --target ''", "no column ''"),
        ("fit --target y", "needs a file"),
        ("fit r.svm --target y", "makes no sense"),
        ("fit r.svm --text a", "makes no sense"),
        ("fit t.csv --target y --one-based", "makes no sense"),
        ("fit t.csv --target y --text q", "--text 'q': t.csv has no such column"),
        ("fit t.csv --target y --field q", "--field 'q': t.csv has no such column"),
        ("fit t.csv --target y --format parquet", "not a Parquet file"),
        ("fit r.svm --format libfm --one-based", "libfm"),
        ("fit zero.svm --format libsvm", "index 0"),
        ("fit r.svm --format csv --target y", "no column 'y'"),
        ("fit k.csv --target y --task regression", "text such as"),
        ("fit t.csv --target y --task classification", "continuous"),
        ("fit t.csv --target y --loss logistic", "loss"),
        ("fit r.svm --cv --checkpoint c", "--cv does not go with --checkpoint"),
        ("fit r.svm --solver sgd --checkpoint c", "--checkpoint does not go with --solver sgd"),
        ("fit r.svm --solver sgd --early-stopping", "--early-stopping does not go"),
        ("fit r.svm --solver sgd --test-fraction 0.5", "--test-fraction does not go"),
        ("fit r.svm --solver sgd --max-iter 0", "--max-iter"),
        ("fit t.csv --target y --max-iter -1", "--max-iter must be"),
        ("fit t.csv --target y --n-components 0", "--n-components must be"),
        ("fit t.csv --target y --tol nan", "tol"),
        ("fit t.csv --target y --alpha inf", "alpha"),
        ("fit t.csv --target y --beta -1", "beta"),
        ("fit t.csv --target y --degree 2.5", "--degree"),
        ("fit t.csv --target y --random-state -1", "--random-state must be"),
        ("fit t.csv --target y --n-jobs 0", "n_jobs"),
        ("fit t.csv --target y --test-fraction 1", "--test-fraction"),
        ("fit t.csv --target y --test-fraction nan", "test"),
        ("fit t.csv --target y --solver sgd --batch-size ²", "--batch-size"),
        ("fit r.svm c.svm", "extra argument"),
        ("fit r.svm --mod x", "--mod"),
        ("predict t.csv t.csv", "not a polyfm model file"),
        ("predict r.polyfm r.polyfm", "line 1"),
        ("predict t.polyfm r.svm", "trained on a table"),
        ("predict r.polyfm k.csv", "takes numbers"),
        ("predict t.polyfm t.csv --keep q", "--keep 'q': t.csv has no such column"),
        ("predict t.polyfm few.csv", "few.csv: lacks 'c', .*Its columns are 'a', 'b'"),
        ("predict t.polyfm words.csv", "'b' was numbers when the model was trained, and now holds 'x' in row 0"),
        ("predict t.polyfm upper.csv", "lacks 'a', 'b', 'c'.* Is it 'A', 'B', 'C'?"),
        ("predict t.polyfm t.csv --keep prediction", "predictions have that name"),
        ("predict r.polyfm r.svm --keep a", "--keep names columns of a table"),
        ("fit r.svm --drop a", "--drop is for the columns of a table"),
        ("fit r.svm --sep ;", "--sep makes no sense"),
        ("fit t.csv --target y --sep ;;", "not one sign"),
        ("fit t.csv --target y --encoding klingon", "klingon"),
        ("fit t.csv --target y --encoding base64", "base64"),
        ("fit t.csv --target y --drop y", "this is the target"),
        ("fit t.csv --target y --drop a --field a", "contradict"),
        ("fit t.csv --target y --drop a --drop b --drop c", "0 features"),
        ("fit t.csv --target y --beta much", "neither a number nor 'auto'"),
        ("predict t.polyfm huge.csv", "row 1, counted from 0, is not a finite number"),
        ("predict t.polyfm new.csv --proba", "--proba"),
        ("predict r.polyfm wide.svm", "index above 3"),
        ("predict cut.polyfm r.svm", "cut short"),
        ("explain t.polyfm --data new.csv --row 60", "no row 60"),
        ("explain t.polyfm --data new.csv --row -1", "--row"),
        ("explain t.polyfm --row 1", "go together"),
        ("explain t.polyfm --data new.csv --row 1 --all", "--all"),
        ("explain t.polyfm --data new.csv --row 1 --degree 2", "--degree"),
        ("explain t.polyfm --target y", "needs a file"),
        ("explain t.polyfm --degree 9", "degree"),
        ("explain t.polyfm --top 0", "--top"),
        ("explain k3.polyfm", "--class: one of 'p', 'q', 's'"),
        ("explain k3.polyfm --class z", "--class"),
        ("explain r.polyfm --class p", "--class"),
        ("evaluate t.polyfm k.csv --target y", "text such as"),
        ("evaluate k.polyfm t.csv --target y", "none of the model's classes"),
        ("evaluate c.polyfm r.svm", "none of the model's classes"),
        ("evaluate r.polyfm t.csv", "--target, one of"),
    ],
)
def test_errors_are_one_clear_line(desk, command, message):
    Path("few.csv").write_text("a,b\n1,2\n")
    Path("upper.csv").write_text("A,B,C\n1,2,3\n")
    Path("words.csv").write_text("a,b,c\n1,x,3\n")
    Path("huge.csv").write_text("a,b,c\n1,2,3\n1,1e200,1e200\n")
    Path("wide.svm").write_text("1 1:1 4:1\n")
    Path("cut.polyfm").write_bytes(Path("r.polyfm").read_bytes()[:500])
    if os.name != "nt":
        os.symlink("gone", "dangling")
        os.mkfifo("pipe")
    refused(command, message)


@pytest.mark.parametrize("values", ["dates", "lists", "decimals", "bytes"])
def test_targets_that_are_neither_text_nor_numbers(desk, values):
    pytest.importorskip("pyarrow")
    import datetime
    import decimal

    import pandas

    value = {"dates": datetime.datetime(2026, 1, 1), "lists": [1, 2], "decimals": decimal.Decimal(1), "bytes": b"x"}
    pandas.DataFrame({"a": np.arange(20.0), "y": [value[values]] * 20}).to_parquet("d.parquet")
    refused("fit d.parquet --target y", "neither text nor numbers")


def test_columns_that_look_like_numbers_are_not_silently_text(desk):
    for cell in ("oops", '"1,5"'):
        Path("d.csv").write_text(table() + f"{cell},2,3,4\n")
        assert "Note: column 'a' is taken for text" in accepted("fit d.csv --target y --max-iter 2").output
        assert "Note: column" not in accepted("fit d.csv --target y --max-iter 2 --text a").output


def test_columns_are_found_by_name_whatever_their_order(desk):
    names, *rows = (line.split(",") for line in Path("new.csv").read_text().splitlines())
    Path("turned.csv").write_text("\n".join(",".join(row[::-1]) for row in (names, *rows)))
    assert accepted("predict t.polyfm turned.csv").output == accepted("predict t.polyfm new.csv").output


def test_what_can_be_refused_is_refused_before_any_row_is_read(desk, idle):
    """Parameters, solvers, paths, and options that contradict each other."""
    for command, message in (
        ("fit t.csv --target y --degree 1", "degree"),
        ("fit t.csv --target y --kind pn --method direct --solver cd", "cd"),
        ("fit t.csv --target y --method lifted --fit-lambdas", "fit_lambdas"),
        ("fit t.csv --target y --n-jobs 0", "n_jobs|n-jobs"),
        ("fit t.csv --target y --tol nan", "tol"),
        ("fit t.csv --target y --model no/such/folder", "directory exists"),
        ("fit t.csv --target y --task regression --loss logistic", "loss"),
        ("fit t.csv --target y --field q", "--field 'q'"),
        ("fit t.csv --target y --drop q", "--drop 'q'"),
    ):
        refused(command, message)


def test_pictures_are_refused_before_any_work_where_they_cannot_be_drawn(desk, idle, monkeypatch):
    from polyfm.files import tables

    monkeypatch.setattr(tables, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    refused("explain t.polyfm --plot p.png", r"--plot needs matplotlib: pip install 'polyfm\[plot\]'")


def test_a_file_that_may_count_from_zero_or_one_is_noted(desk):
    Path("d.svm").write_text("1 1:1 2:1\n")
    assert "Note: d.svm" in accepted("predict zero.polyfm d.svm").output
    outputs = [accepted(f"predict zero.polyfm d.svm {option}").output for option in ("--zero-based", "--one-based")]
    assert outputs[0] != outputs[1]
    assert "Note" not in outputs[0] + outputs[1] + accepted("predict zero.polyfm zero.svm").output


def test_scores_that_are_not_defined_are_left_out(desk):
    Path("d.csv").write_text("a,b,c,y\n1,2,3,4\n")
    assert set(json.loads(accepted("evaluate t.polyfm d.csv --target y --json").output)) == {"rows", "RMSE", "MAE"}
    Path("d.csv").write_text("a,b,c,y\n1,2,3,up\n1,2,3,other\n")
    output = accepted("evaluate k.polyfm d.csv --target y").output
    assert "Note: the model does not know 'other'" in output
    assert "log loss" not in output


def test_json_is_strict(desk, monkeypatch):
    told = {"objective": float("nan"), "shapes": {"a": (1, float("inf"))}}
    monkeypatch.setattr("polyfm.cli.explain.model_info", lambda path: told)
    assert json.loads(accepted("info r.polyfm --json").output) == {"objective": None, "shapes": {"a": [1, None]}}


def test_a_class_of_several_can_be_explained(desk):
    tables = [json.loads(accepted(f"explain k3.polyfm --class {label} --json").output) for label in "pqs"]
    assert tables[0] != tables[1] != tables[2]


# -- Ctrl-C -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "where"),
    [
        ("fit t.csv --target y --model r.polyfm", "polyfm.cli.sources.Source.read"),
        ("fit t.csv --target y --model r.polyfm", "polyfm.cli.fit.scores"),
        ("fit t.csv --target y --model r.polyfm", "polyfm.cli.fit.save_model"),
        ("fit t.csv --target y --model r.polyfm", "numpy.save"),
        ("fit t.csv --target y --model r.polyfm", "os.replace"),
        ("predict t.polyfm new.csv --out old.csv", "polyfm.cli.predict.csv.writer"),
        ("predict t.polyfm new.csv --out old.csv", "os.fsync"),
        ("predict t.polyfm new.csv", "polyfm.cli.predict.csv.writer"),
        ("explain r.polyfm --plot old.png", "os.fsync"),
        ("evaluate r.polyfm r.svm", "polyfm.cli.predict.metrics"),
    ],
)
def test_ctrl_c_leaves_files_as_they_were(desk, monkeypatch, command, where):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    Path("old.csv").write_text("prediction\n1\n")
    Path("old.png").write_bytes(b"\x89PNG")
    before = contents()
    monkeypatch.setattr(where, interrupt)
    result = invoke(command)
    assert result.exit_code == 130
    assert result.output.splitlines()[-1] == "Interrupted."
    assert contents() == before


def test_ctrl_c_in_a_stream_keeps_what_was_learned(desk, monkeypatch):
    from polyfm import FactorizationMachineRegressor as Estimator

    learn = Estimator._partial_fit_targets

    def interrupted(self, *args):
        signal.raise_signal(signal.SIGINT)  # comes now, and waits until the batch is learned
        learn(self, *args)

    monkeypatch.setattr(Estimator, "_partial_fit_targets", interrupted)
    result = invoke("fit r.svm --solver sgd --max-iter 9 --model m.polyfm --json --task regression")
    assert result.exit_code == 130
    assert "interrupted" in result.output
    assert '"epochs": 1' in result.output
    accepted("evaluate m.polyfm r.svm")


def test_ctrl_c_waits_for_the_end_of_a_block_but_not_twice():
    from polyfm.cli.ending import interrupts_held

    done = []

    def work(n_interrupts):
        with interrupts_held():
            for _ in range(n_interrupts):
                signal.raise_signal(signal.SIGINT)
            done.append(n_interrupts)

    for n_interrupts in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            work(n_interrupts)
    work(0)
    assert done == [1, 0]


def test_ctrl_c_is_not_lost_where_python_would_print_and_forget_it(monkeypatch):
    """In callbacks of llvmlite, and in finalizers."""
    from polyfm.cli import ending

    again = []
    monkeypatch.setattr(ending, "_interrupt_soon", lambda: again.append(1))
    inner = types.SimpleNamespace(f_globals={"__name__": "numba.core"}, f_back=None)
    outer = types.SimpleNamespace(f_globals={"__name__": "numba.core"}, f_back=None)
    inner.f_back = types.SimpleNamespace(f_globals={"__name__": "llvmlite.binding.executionengine"}, f_back=outer)
    ending._interrupt(signal.SIGINT, inner)
    ending._unraisable(types.SimpleNamespace(exc_type=KeyboardInterrupt))
    assert again == [1, 1]
    with pytest.raises(KeyboardInterrupt):
        ending._interrupt(signal.SIGINT, outer)


@POSIX
@pytest.mark.parametrize("library", ["numpy", "sklearn.utils", "numba", "click"])
@pytest.mark.parametrize(
    "start", ["runpy.run_module('polyfm', run_name='__main__')", "from polyfm.__main__ import main; main()"]
)
def test_ctrl_c_while_the_command_is_imported_says_so_in_one_line(library, start):
    code = (
        "import os, runpy, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(name, *_):\n"
        f"        if name == {library!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.meta_path.insert(0, Interrupt)\n"
        f"{start}\n"
    )
    result = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr, result.stdout) == (130, "Interrupted.\n", "")


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_ctrl_c_at_any_moment_leaves_the_old_file_or_the_new_one(desk, seed):
    """Once the command runs."""
    from polyfm.modelfile import load_model

    moment = np.random.RandomState(seed)
    code = "import sys, polyfm.cli.main as m; print('ready', flush=True); m.main()"
    Path("long.svm").write_text(svm() * 300)
    for command, out in (
        ("fit long.svm --model c.polyfm --max-iter 100 --tol 0", "c.polyfm"),
        ("fit long.svm --model c.polyfm --solver sgd --max-iter 30", "c.polyfm"),
        ("predict r.polyfm long.svm --out old.csv", "old.csv"),
    ):
        Path("old.csv").write_text("prediction\n1\n")
        old = Path(out).read_bytes()
        words = [sys.executable, "-c", code, *shlex.split(command)]
        default = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731 - in a shell's background it is ignored
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=default)
        assert process.stdout.readline() == "ready\n"
        time.sleep(moment.uniform(0, 1.5))
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
        assert process.returncode in (0, 130), said
        assert "Traceback" not in said
        assert not list(Path().glob(".polyfm-*"))
        if Path(out).read_bytes() != old:
            assert load_model(out) if out.endswith("polyfm") else Path(out).read_text().count("\n") == 18001
        elif process.returncode == 0:
            raise AssertionError("ended well, and wrote nothing")
