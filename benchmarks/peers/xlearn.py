"""xLearn: stochastic steps without locks. It reads text files and is trained anew for each number of epochs."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import dump_svmlight_file

from peers.base import Adapter, Dataset, Trace, penalties


class XLearn(Adapter):
    name, label, module, package = "xlearn", "xLearn", "xlearn", "xlearn"
    needs = "degree 2"
    threaded = True
    settings = (
        "`create_fm` with `k` the rank; `lambda` chosen; `disableNorm()`, since nobody else scales rows; all else at "
        "its default. Its clock includes reading the file, which xLearn does in `fit` (from its binary copy after the "
        "first time)"
    )
    grid = penalties("lambda", 2e-5, 0.0, 2e-4, 2e-3, 2e-2)

    def suits(self, dataset: Dataset) -> bool:
        return dataset.degree == 2

    def run(self, trace: Trace, dataset: Dataset, threads: int, setting: dict) -> None:
        import xlearn

        with tempfile.TemporaryDirectory() as directory:
            train, test, model_file, out = (str(Path(directory, name)) for name in ("train", "test", "model", "out"))
            for file, X, y in ((train, dataset.X_train, dataset.y_train), (test, dataset.X_test, dataset.y_test)):
                dump_svmlight_file(X, np.maximum(y, 0) if dataset.classifies else y, file)
            task = "binary" if dataset.classifies else "reg"

            def fit(epochs: int):
                model = xlearn.create_fm()
                model.setTrain(train)
                model.setQuiet()
                model.disableNorm()
                model.fit({"task": task, "k": dataset.rank, "epoch": epochs, "nthread": threads, **setting}, model_file)

                def predict() -> np.ndarray:
                    model.setTest(test)
                    model.predict(model_file, out)
                    return np.loadtxt(out)

                return predict

            trace.in_budgets(fit)


ADAPTERS = [XLearn()]
