"""scikit-learn's own checks, for every estimator; none is expected to fail but for the reason given."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import polyfm

ESTIMATORS = [
    polyfm.FactorizationMachineRegressor(random_state=0),
    polyfm.FactorizationMachineClassifier(random_state=0),
    polyfm.PolynomialNetworkRegressor(random_state=0),
    polyfm.FactorizationMachineRegressor(solver="sgd", random_state=0),
    polyfm.FactorizationMachineRegressorCV(n_betas=2, n_components=2, cv=3, random_state=0),
]
OTHERS = [  # which compile for minutes, and differ from these in loops more than in conventions
    polyfm.FactorizationMachineRegressor(degree=3, fit_lower="augment", fit_lambdas=True),
    polyfm.FactorizationMachineClassifier(loss="squared_hinge", method="lifted"),
    polyfm.PolynomialNetworkClassifier(random_state=0),
    polyfm.FactorizationMachineClassifier(solver="sgd", random_state=0),
    polyfm.PolynomialNetworkRegressor(solver="lbfgs", method="direct", random_state=0),
    polyfm.PolynomialNetworkClassifierCV(n_betas=2, n_components=2, cv=3, random_state=0),
]


def expected_failures(estimator) -> dict[str, str]:
    """Stochastic steps take rows one by one: a weight of 2 is one longer step and not two. scikit-learn's own
    stochastic estimators are exempt for the same reason."""
    if getattr(estimator, "solver", None) != "sgd":
        return {}
    reason = "a stochastic step on a row of weight 2 is not two steps"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_estimator_follows_scikit_learn_convention(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(OTHERS, expected_failed_checks=expected_failures)
def test_other_estimators_follow_scikit_learn_conventions(estimator, check):
    check(estimator)
