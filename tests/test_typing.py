"""Public names have types that a strict checker can use: a client's file passes, and mistakes are found."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import polyfm

FILES = Path(__file__).parent / "typing"
SOURCES = Path(polyfm.__file__).parents[1]


def mypy(name, tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--ignore-missing-imports",
         "--config-file=", f"--cache-dir={tmp_path}", str(FILES / name)],
        capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, "MYPYPATH": str(SOURCES)},
    )  # fmt: skip


def test_the_package_says_that_it_has_types():
    assert (SOURCES / "polyfm" / "py.typed").exists()


@pytest.mark.slow
def test_a_strict_checker_has_nothing_against_what_users_write(tmp_path):
    done = mypy("client.py", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_checker_finds_mistakes(tmp_path):
    done = mypy("mistakes.py", tmp_path)
    found = dict(re.findall(r"mistakes\.py:(\d+): error: .*\[([a-z-]+)\]", done.stdout))
    lines = (FILES / "mistakes.py").read_text().splitlines()
    expected = {str(i): line.rpartition("# ")[2] for i, line in enumerate(lines, 1) if "# " in line}
    assert found == expected, done.stdout
