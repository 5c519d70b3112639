"""`python tests/attack` (or `python -m tests.attack` in the root of the repository)."""

import os
import sys
from pathlib import Path

for library in ("OPENBLAS", "OMP", "MKL"):  # their threads do not live on in forked children
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attack.run import main  # noqa: E402

sys.exit(main())
