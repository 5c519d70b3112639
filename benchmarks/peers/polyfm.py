"""Our own solvers, and our estimators as they come: the clock runs from the call of `fit`, all being compiled."""

import warnings
from dataclasses import fields

import polyfm
from peers.base import Adapter, Dataset, Trace, penalties
from polyfm.core.design import Design
from polyfm.solvers import SOLVERS
from polyfm.training.hooks import watching


class Ours(Adapter):
    module = package = "polyfm"
    ours = True
    grid = penalties("beta", 1.0, 0.1, 10.0, 30.0, 100.0)

    def __init__(self, solver: str = "auto", kind: str = "FactorizationMachine"):
        self.solver, self.kind = solver, kind
        self.network = kind == "PolynomialNetwork"
        self.name = "polyfm-pn" if self.network else f"polyfm-{solver}"
        self.label = "polyfm PN" if self.network else f"polyfm {solver}"
        self.threaded = "n_threads" in {f.name for f in fields(SOLVERS.get(solver, SOLVERS["cd"]))}
        model = "a polynomial network" if self.network else "a factorization machine"
        self.settings = (
            f"{model} with `solver={solver!r}`; `beta` chosen"
            + (" (once for all solvers, so that they minimise the same objective)" if not self.network else "")
            + "; `tol=0` so that it goes on to the end of its time; all else at its default"
        )
        if self.network:
            self.grid = penalties("beta", 1.0, 0.001, 0.01, 0.1, 10.0)
        self.needs = "dense features" if self.network else ""

    @property
    def tuned_as(self) -> str:
        return "polyfm-pn" if self.network else "polyfm"

    def version(self) -> str:
        return polyfm.__version__

    def suits(self, dataset: Dataset) -> bool:
        return not (self.network and dataset.is_sparse)

    def estimator(self, dataset: Dataset, threads: int, setting: dict, **options):
        cls = getattr(polyfm, self.kind + ("Classifier" if dataset.classifies else "Regressor"))
        return cls(
            degree=dataset.degree, n_components=dataset.rank, solver=self.solver, tol=0.0, n_jobs=threads,
            random_state=0, alpha=1.0, **setting, **options,
        )  # fmt: skip

    def run(self, trace: Trace, dataset: Dataset, threads: int, setting: dict) -> None:
        warnings.simplefilter("ignore")
        model = self.estimator(dataset, threads, setting, max_iter=1_000_000)
        # Loops differ with the size of the data, so that a few rows would not compile all that the run needs.
        self.estimator(dataset, threads, setting, max_iter=1).fit(dataset.X_train, dataset.y_train)
        form, test = model._model(), Design(dataset.X_test)

        def watch(seen) -> bool:
            return trace.point(int(seen.done), lambda: form.predict(seen.parameters, test), seen.objective)

        trace.start()
        with watching(watch):
            model.fit(dataset.X_train, dataset.y_train)
        trace.point(model.n_iter_, lambda: model._fitted.predict(test)[0], model.objective_, always=True)


class AsItComes(Adapter):
    """What a user gets who sets nothing: with the penalties, and with what tells when to stop, that the data choose."""

    module = package = "polyfm"
    ours = threaded = True

    def __init__(self, name: str, label: str, settings: str, kind: str = "FactorizationMachine", **options):
        self.name, self.label, self.settings, self.kind, self.options = name, label, settings, kind, options
        self.needs = "degree 2" if self.bayes else ""

    @property
    def bayes(self) -> bool:
        return self.kind.startswith("Bayesian")

    def version(self) -> str:
        return polyfm.__version__

    def suits(self, dataset: Dataset) -> bool:
        return dataset.degree == 2 or not self.bayes

    def run(self, trace: Trace, dataset: Dataset, threads: int, setting: dict) -> None:
        warnings.simplefilter("ignore")
        cls = getattr(polyfm, self.kind + ("Classifier" if dataset.classifies else "Regressor"))
        y = dataset.y_train > 0 if dataset.classifies else dataset.y_train
        options = {"degree": dataset.degree, "n_components": dataset.rank, "n_jobs": threads, "random_state": 0}
        model = cls(**options, **self.options)
        few = {"max_iter": 1} | ({"n_samples": 1} if self.options.get("inference") == "gibbs" else {})
        cls(**options, **self.options, **few).fit(dataset.X_train, y)  # compiles
        form, test = model._model(), Design(dataset.X_test)

        def watch(seen) -> bool:
            if seen.parameters is None:
                return False
            if self.options.get("inference") == "variational":
                return trace.point(int(seen.done), lambda: form.predict(seen.parameters, test))
            with trace.paused() as seconds:  # one draw is no model, and what a user gets is what stands at the end
                return seconds >= trace.seconds

        def predict():
            return model.predict_proba(dataset.X_test)[:, 1] if dataset.classifies else model.predict(dataset.X_test)

        trace.start()
        with watching(watch):
            model.fit(dataset.X_train, y)
        trace.point(model.n_iter_, predict, always=True)


ADAPTERS = [
    AsItComes("polyfm-default", "polyfm as it comes", "a factorization machine, `n_components` and `degree`"),
    AsItComes(
        "polyfm-bayes", "polyfm Bayes (variational)",
        "a Bayesian factorization machine with `inference='variational'`",
        "BayesianFactorizationMachine", inference="variational",
    ),
    AsItComes(
        "polyfm-gibbs", "polyfm Bayes (Gibbs)",
        "a Bayesian factorization machine with `inference='gibbs'`. Its point is the mean of "
        "the draws of its default number, or of those that the time allows",
        "BayesianFactorizationMachine", inference="gibbs",
    ),
    *(Ours(solver) for solver in SOLVERS),
    Ours(kind="PolynomialNetwork"),
]  # fmt: skip
