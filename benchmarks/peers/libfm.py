"""libFM: a program on the PATH that reads and writes text files; run anew for each number of iterations."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import dump_svmlight_file

from peers.base import Adapter, Dataset, Trace, peak_mb


class LibFM(Adapter):
    name, label, package = "libfm", "libFM", "libFM"
    needs = "degree 2"
    settings = (
        "the rank; `-method mcmc`, its default, or `-method als` with a `-regular` for both kinds of weights, chosen; "
        "`-init_stdev 0.1`. Its clock starts when the files are read, and includes its own evaluation of the test set "
        "in each iteration, which cannot be turned off"
    )
    grid = ({"method": "mcmc"}, *({"method": "als", "regular": value} for value in (1.0, 5.0, 20.0, 100.0)))

    def available(self) -> str | None:
        return None if shutil.which("libFM") else "the program libFM is not on the PATH"

    def version(self) -> str:
        shown = subprocess.run(["libFM", "-help"], capture_output=True, text=True).stdout
        found = re.search(r"Version:\s*(\S+)", shown)
        return found.group(1) if found else ""

    def suits(self, dataset: Dataset) -> bool:
        return dataset.degree == 2

    def run(self, trace: Trace, dataset: Dataset, threads: int, setting: dict) -> None:
        with tempfile.TemporaryDirectory() as directory:
            train, test, out = (Path(directory, name) for name in ("train", "test", "out"))
            dump_svmlight_file(dataset.X_train, dataset.y_train, str(train))
            dump_svmlight_file(dataset.X_test, dataset.y_test, str(test))
            command = [
                "libFM", "-task", "c" if dataset.classifies else "r", "-train", train, "-test", test, "-out", out,
                "-dim", f"1,1,{dataset.rank}", "-init_stdev", "0.1", "-seed", "1", "-method", setting["method"],
            ]  # fmt: skip
            if setting["method"] == "als":
                command += ["-regular", f"0,{setting['regular']},{setting['regular']}"]

            def fit(iterations: int):
                self._train(trace, [*map(str, command), "-iter", str(iterations)])
                return lambda: np.loadtxt(out)

            trace.in_budgets(fit)

    def _train(self, trace: Trace, command: list[str]) -> None:
        """Run the program; the clock starts anew when it has read its files."""
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("Loading meta data"):
                    trace.start()
                elif line.startswith("#Iter"):
                    self.peak_mb = max(self.peak_mb or 0.0, peak_mb(process.pid))
        if process.returncode:
            raise RuntimeError(f"libFM ended with {process.returncode}")


ADAPTERS = [LibFM()]
