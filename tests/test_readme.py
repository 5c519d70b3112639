"""The Python of pages runs as written, their links lead somewhere, and `python -m polyfm` shows what is promised."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "benchmarks").glob("**/*.md"))]
NEEDED = {
    "docs/export.md": ("skl2onnx", "onnxruntime"),
    "docs/distributed.md": ("dask", "distributed"),
    "docs/spark.md": ("pyspark",),
}
WITH_PYTHON = {"README.md", "docs/guide.md", "docs/architecture.md"}


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """The names of a page's headings in links, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.parametrize("page", PAGES, ids=named)
def test_python_in_pages_runs_as_written(page, capsys):
    for module in NEEDED.get(named(page), ()):
        pytest.importorskip(module, reason=f"{named(page)} shows {module}, which is not installed")
    if named(page) == "docs/spark.md" and not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("Spark needs Java 17 or later")
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    assert blocks or named(page) not in WITH_PYTHON
    scope: dict = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, page.name, "exec"), scope)
    if named(page) == "README.md":
        assert float(capsys.readouterr().out.split()[0]) > 0.9


@pytest.mark.parametrize("page", LINKED, ids=named)
def test_links_between_pages_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
            assert not anchor or anchor in anchors(page.parent / target if target else page), f"{target}#{anchor}"


def test_first_look_compares_draws_and_says_what_to_type_next():
    done = subprocess.run(
        [sys.executable, "-m", "polyfm"], capture_output=True, encoding="utf-8", check=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert "Warning" not in done.stderr
    scores = {
        name: [float(score.rstrip("*")) for score in line.split()[-3:]]
        for line in done.stdout.splitlines()
        for name in ("ratings", "diabetes", "odd digits", "curves")
        if line.startswith(f"{name} ")
    }
    linear, trees, machine = scores["ratings"]
    assert machine > 0.65 > trees + 0.2 > linear
    assert scores["curves"][1] > scores["curves"][2]  # honest about trees
    for promised in ("generated", "real", "ompiled loops", "the truth", "▓", "polyfm fit TABLE.csv"):
        assert promised in done.stdout


def test_first_look_without_letters_for_a_picture_goes_without():
    done = subprocess.run(
        [sys.executable, "-m", "polyfm"], capture_output=True, check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert b"the truth" not in done.stdout
    assert b"polyfm fit TABLE.csv" in done.stdout
