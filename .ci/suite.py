"""Run the tests with the newest or with the lowest declared versions of all dependencies, on any system.

python .ci/suite.py newest|lowest [arguments for pytest]
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    if sys.argv[1:2] not in (["newest"], ["lowest"]):
        sys.exit(str(__doc__))
    kind, *arguments = sys.argv[1:]
    place = ROOT / f".venv-{kind}"
    venv.create(place, with_pip=True, clear=True)
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    install = [python, "-m", "pip", "install", "-q", "-e", ".[test]"]
    environment = dict(os.environ)
    if kind == "lowest":
        constraints = place / "constraints.txt"
        constraints.write_text(subprocess.check_output([python, ".ci/lowest.py"], cwd=ROOT, text=True))
        install += ["-c", constraints]
        # A cache of its own: numba discards what another version of it has compiled.
        environment["NUMBA_CACHE_DIR"] = str(place / "cache")
    subprocess.run(install, cwd=ROOT, check=True)
    tests = subprocess.run([python, "-m", "pytest", "-n", "2", *arguments], cwd=ROOT, env=environment, check=False)
    sys.exit(tests.returncode)


if __name__ == "__main__":
    main()
