"""What a user writes, for `mypy --strict`: it is checked, and not run."""

from typing import assert_type

import numpy as np
import pandas as pd

import polyfm
from polyfm import (
    BayesianFactorizationMachineRegressor,
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    FactorizationMachineRegressorCV,
    PolynomialNetworkClassifier,
    TableEncoder,
    certify,
    diagnose,
    explain,
    interactions,
    load_model,
    save_model,
)
from polyfm.conversion import direct_to_lifted, lifted_to_direct
from polyfm.datafiles import iter_svmlight, read_svmlight, read_table
from polyfm.display import ConvergenceDisplay, InteractionDisplay
from polyfm.export import register_converters, to_c, to_onnx
from polyfm.kernels import anova_kernel
from polyfm.libfm import export_libfm, import_libfm
from polyfm.losses import Loss
from polyfm.recommend import Recommender
from polyfm.reporting import Report

X = np.ones((10, 3))
y = np.ones(10)


class Huber:
    curvature = 1.0

    def value(self, y: float, f: float) -> float:
        return abs(f - y)

    def derivative(self, y: float, f: float) -> float:
        return float(np.sign(f - y))


loss: Loss = Huber()

fm = FactorizationMachineRegressor(degree=3, n_components="auto", loss=loss, beta={"user": 1.0}, random_state=0)
assert_type(fm.fit(X, y, sample_weight=y), FactorizationMachineRegressor)
assert_type(fm.partial_fit(X, y), FactorizationMachineRegressor)
assert_type(fm.predict(X), np.ndarray)
assert_type(fm.to_lifted(), FactorizationMachineRegressor)

classifier = FactorizationMachineClassifier(class_weight="balanced", fit_lower=None).fit(X, y > 0)
assert_type(classifier, FactorizationMachineClassifier)
assert_type(classifier.predict_proba(X), np.ndarray)
assert_type(classifier.decision_function(X), np.ndarray)
assert_type(PolynomialNetworkClassifier().fit(X, y).predict_log_proba(X), np.ndarray)
assert_type(FactorizationMachineRegressorCV(betas=[1.0, 2.0], cv=3).fit(X, y), FactorizationMachineRegressorCV)

bayes = BayesianFactorizationMachineRegressor(inference="gibbs", checkpoint="fit.polyfm").fit(X, y)
low, high = bayes.predict_interval(X, coverage=0.5)
assert_type(low, np.ndarray)
assert_type(bayes.noise_, float)

encoder = TableEncoder(fields=["user"], min_frequency=2).fit(pd.DataFrame({"user": ["a"]}))
assert_type(encoder, TableEncoder)
assert_type(encoder.get_feature_names_out(), np.ndarray)
encoder.transform({"user": "a"})

print(interactions(fm, top=3, degree=2), explain(fm, X[0]))
print(certify(fm, X, y).gap, diagnose(fm, X, y, n_restarts=2))
assert_type(polyfm.report(fm, X, y), Report)
polyfm.report(fm).save("report.html")

save_model(fm, "model.polyfm")
load_model("model.polyfm").predict(X)
export_libfm(fm, "model.txt")
import_libfm("model.txt", classes=[0, 1])
to_onnx(fm, "model.onnx", dtype=np.float64)
to_c(fm, "model.c", name="model")
register_converters()

read_table("table.csv")
read_svmlight("data.svm", n_features=3)
for rows, targets in iter_svmlight("data.svm", chunk_rows=100, n_features=3):
    fm.partial_fit(rows, targets)

lambdas, P = lifted_to_direct(np.ones((2, 3, 4)))
assert_type(direct_to_lifted(lambdas, P, 2), np.ndarray)
assert_type(anova_kernel(X, P, degree=2), np.ndarray)
assert_type(InteractionDisplay.from_estimator(fm, top=3), InteractionDisplay)
assert_type(ConvergenceDisplay.from_estimator({"a": fm}).plot(relative=True), ConvergenceDisplay)

recommender = Recommender("user", "item", feedback="implicit", random_state=0)
assert_type(recommender.fit(pd.DataFrame({"user": [1], "item": [2]})), Recommender)
recommender.recommend([1], n=5)
recommender.similar_items(2, n=3)
assert_type(polyfm.__version__, str)
