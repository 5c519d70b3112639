"""Vowpal Wabbit: online steps over a cache file, trained anew for each number of passes."""

import tempfile
from itertools import product
from pathlib import Path

import numpy as np

from peers.base import Adapter, Dataset, Trace, as_csr

BITS = 22


class VowpalWabbit(Adapter):
    name, label, module, package = "vowpalwabbit", "Vowpal Wabbit", "vowpalwabbit", "vowpalwabbit"
    settings = (
        "two one-hot fields as two namespaces with `--lrq` of the rank, elsewhere `--interactions` up to the degree; "
        f"`-b {BITS}`, `--holdout_off`; `--learning_rate` (0.5 by default, 0.1 in its demonstration of `--lrq`) and "
        "`--l2` chosen; all else at its default. Rows are read from its binary cache, which is made beforehand; it "
        "reads in a second thread of its own, but on the same cores as everybody"
    )
    grid = tuple({"learning_rate": rate, "l2": l2} for rate, l2 in product((0.5, 0.1, 0.02, 0.005), (0.0, 1e-5)))

    def run(self, trace: Trace, dataset: Dataset, threads: int, setting: dict) -> None:
        from vowpalwabbit import Workspace

        def command(*words) -> None:
            Workspace(arg_list=[*map(str, words), "--quiet"]).finish()

        with tempfile.TemporaryDirectory() as directory:
            train, test, cache, test_cache, model, out = (
                Path(directory, name) for name in ("train", "test", "cache", "test_cache", "model", "out")
            )
            for text, binary, X, y in (
                (train, cache, dataset.X_train, dataset.y_train), (test, test_cache, dataset.X_test, dataset.y_test),
            ):  # fmt: skip
                text.write_text(as_text(as_csr(X), y, dataset.fields))
                command("--noop", "-b", BITS, "-d", text, "--cache_file", binary, "-k")
            options = ["-b", BITS, "--holdout_off", *interactions(dataset)]
            options += ["--loss_function", "logistic" if dataset.classifies else "squared"]
            options += [word for name, value in setting.items() for word in (f"--{name}", value)]

            def fit(passes: int):
                command("--cache_file", cache, "--passes", passes, "-f", model, *options)

                def predict() -> np.ndarray:
                    command("-t", "-i", model, "--cache_file", test_cache, "--passes", 1, "-p", out)
                    return np.loadtxt(out, ndmin=1)

                return predict

            trace.in_budgets(fit)


def interactions(dataset: Dataset) -> list[str]:
    if len(dataset.fields) == 2:
        return ["--lrq", f"ab{dataset.rank}"]
    return [word for m in range(2, dataset.degree + 1) for word in ("--interactions", "a" * m)]


def as_text(X, y: np.ndarray, fields: tuple[int, ...]) -> str:
    """Rows in its text format: one namespace, or one for each of two one-hot fields."""
    ends, columns = X.indptr, X.indices.tolist()
    if len(fields) == 2:
        return "".join(
            f"{t:g} |a {columns[start]} |b {columns[start + 1]}\n"
            for t, start in zip(y.tolist(), ends.tolist(), strict=False)
        )
    words = [f"{j}:{value:.9g}" for j, value in zip(columns, X.data.tolist(), strict=True)]
    return "".join(
        f"{t:.9g} |a {' '.join(words[start:end])}\n"
        for t, start, end in zip(y.tolist(), ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    )


ADAPTERS = [VowpalWabbit()]
