"""A few attacks of each kind, always the same ones; `python tests/attack` runs them for as long as one likes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ATTEMPTS = {"fits": 60, "sparse": 200, "files": 2000, "kills": 12, "signals": 16, "commands": 150}

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")]


@pytest.mark.parametrize(("kind", "attempts"), ATTEMPTS.items())
def test_attacks_are_held(kind, attempts):
    """In a process without threads, which is what children can be forked from."""
    command = [sys.executable, str(Path(__file__).parent), "--only", kind, "--attempts", str(attempts), "--seed", "0"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout[-3000:]}{result.stderr[-2000:]}"


def test_what_is_not_held_is_told_and_can_be_repeated(tmp_path):
    """The tool can fail: a kind of attack that always goes through."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, types\n"
        f"sys.path.insert(0, {str(Path(__file__).parent.parent)!r})\n"
        "from attack import common, run\n"
        "run.KINDS[:] = ['weak']\n"
        "def attempt(seed):\n"
        "    if seed == 3: import os; os.abort()\n"
        "    common.check(seed % 2, f'seed {seed} went through')\n"
        "    return ['held']\n"
        "sys.modules['attack.weak'] = types.SimpleNamespace(attempt=attempt)\n"
        "sys.exit(run.main(sys.argv[1:]))\n"
    )
    result = subprocess.run(
        [sys.executable, str(script), "--attempts", "4", "--seed", "0"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "2 x seed # went through\n    --repeat weak:0 weak:2" in result.stdout
    assert "1 x the process died by signal #\n    --repeat weak:3" in result.stdout
    again = subprocess.run([sys.executable, str(script), "--repeat", "weak:1"], check=False)
    assert again.returncode == 0
