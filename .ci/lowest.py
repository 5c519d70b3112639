"""Print the lowest declared version of every dependency, for pip's --constraint: what is promised must be tried."""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
declared = list(project["dependencies"])
for extra in ("test", "cli", "table", "parquet", "plot", "datasets"):
    declared += [requirement for requirement in extras[extra] if not requirement.startswith("polyfm[")]
for requirement in declared:
    found = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement)
    if found is None:
        sys.exit(f"{requirement!r} names no lowest version.")
    print("==".join(found.groups()))
