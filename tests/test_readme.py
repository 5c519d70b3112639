"""The Python of pages runs as written, their links lead somewhere, and `python -m polyfm` shows what is promised."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "benchmarks").glob("**/*.md"))]
WITH_PYTHON = {"README.md", "docs/guide.md", "docs/architecture.md"}


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """The names of a page's headings in links, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("page", PAGES, ids=named)
def test_python_in_pages_runs_as_written(page, capsys):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    assert blocks or named(page) not in WITH_PYTHON
    scope: dict = {}
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


def test_first_look_shows_scores_descent_and_interactions():
    done = subprocess.run([sys.executable, "-m", "polyfm"], capture_output=True, text=True, check=True)
    assert "Warning" not in done.stderr
    for promised in ("ridge", "degree 2", "degree 3", "R2 test", "never increases", "strongest products of 3", " x "):
        assert promised in done.stdout
