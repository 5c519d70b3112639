"""scikit-learn's own checks, for every estimator; none is expected to fail."""

from sklearn.utils.estimator_checks import parametrize_with_checks

import polyfm

ESTIMATORS = [
    polyfm.FactorizationMachineRegressor(random_state=0),
    polyfm.FactorizationMachineRegressor(degree=3, fit_lower="augment", fit_lambdas=True),
    polyfm.FactorizationMachineClassifier(random_state=0),
    polyfm.FactorizationMachineClassifier(loss="squared_hinge", method="lifted"),
    polyfm.PolynomialNetworkRegressor(random_state=0),
    polyfm.PolynomialNetworkClassifier(random_state=0),
]


@parametrize_with_checks(ESTIMATORS)
def test_estimator_follows_scikit_learn_convention(estimator, check):
    check(estimator)
