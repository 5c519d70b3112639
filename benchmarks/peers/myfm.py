"""myFM: Bayesian factorization machines, by Gibbs sampling or variational inference. Each iteration is reported."""

import numpy as np
from scipy.special import ndtr

from peers.base import Adapter, Dataset, Trace, as_csr

BURN_IN = 5  # iterations that its predictions leave out, by default


class MyFM(Adapter):
    module = package = "myfm"
    needs = "degree 2"

    def __init__(self, name: str, label: str, family: str, settings: str):
        self.name, self.label, self.family, self.settings = name, label, family, settings

    def suits(self, dataset: Dataset) -> bool:
        return dataset.degree == 2

    def run(self, trace: Trace, dataset: Dataset, threads: int, setting: dict) -> None:
        import myfm

        cls = getattr(myfm, self.family + ("Classifier" if dataset.classifies else "Regressor"))
        model = cls(rank=dataset.rank, random_seed=0)
        X, X_test = as_csr(dataset.X_train), as_csr(dataset.X_test)
        y = dataset.y_train > 0 if dataset.classifies else dataset.y_train
        samples = self.family == "MyFM"
        total, kept = np.zeros(X_test.shape[0]), 0

        def callback(i: int, fm, hyper, history) -> tuple[bool, None]:
            nonlocal total, kept
            with trace.paused():
                f = fm.predict_score(X_test, [])
                f = ndtr(f) if dataset.classifies else f
                if not samples or i <= BURN_IN:
                    total, kept = np.zeros_like(f), 0
                total, kept = total + f, kept + 1
            return trace.point(i + 1, lambda: total / kept), None

        options = {"n_iter": 1_000_000, "callback": callback, "group_shapes": list(dataset.fields) or None}
        if samples:
            options["n_kept_samples"] = 1  # the mean of predictions is taken in the callback
        trace.start()
        model.fit(X, y, **options)


COMMON = "the rank; `group_shapes` where the data are one-hot fields; priors at their defaults: they take the place of "
ADAPTERS = [
    MyFM(
        "myfm", "myFM (Gibbs)", "MyFM",
        COMMON + "penalties, so that there is nothing to choose. Predictions are means over the samples after the "
        "first five, as by default",
    ),
    MyFM("myfm-variational", "myFM (variational)", "VariationalFM", COMMON + "penalties"),
]  # fmt: skip
