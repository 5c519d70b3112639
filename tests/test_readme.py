"""The README's Python is run as written, and `python -m polyfm` shows what it promises."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_pages_runs_as_written(page, capsys):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    assert blocks or page.name not in ("README.md", "guide.md")
    scope: dict = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), scope)
    if page.name == "README.md":
        assert float(capsys.readouterr().out.split()[0]) > 0.9


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_first_look_shows_scores_descent_and_interactions():
    done = subprocess.run([sys.executable, "-m", "polyfm"], capture_output=True, text=True, check=True)
    assert "Warning" not in done.stderr
    for promised in ("ridge", "degree 2", "degree 3", "R2 test", "never increases", "strongest products of 3", " x "):
        assert promised in done.stdout
