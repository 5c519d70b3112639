"""Bayesian polynomial networks: products of sums, of which draws are taken, as they have no other posterior."""

from typing import Any

from polyfm.estimators.bayes import Bayesian, BayesianRegressor
from polyfm.estimators.bayes_classes import BayesianClassifier
from polyfm.estimators.bayes_docstrings import documented_bayes
from polyfm.estimators.targets import Regressor
from polyfm.estimators.validation import RandomState
from polyfm.files.atomic import Path

SETTLED = {"method", "inference", "tol"}


class BayesianNetwork(Bayesian):
    """What is settled where there is one way to infer."""

    _kernel = "homogeneous"
    method, inference, tol = "lifted", "gibbs", 0.0
    alpha = beta = "auto"  # for `clip`: the data choose


@documented_bayes
class BayesianPolynomialNetworkRegressor(BayesianNetwork, BayesianRegressor):
    _parameter_constraints = {
        name: allowed for name, allowed in BayesianRegressor._parameter_constraints.items() if name not in SETTLED
    } | {"clip": Regressor._parameter_constraints["clip"]}

    def __init__(
        self,
        *,
        degree: int = 2,
        n_components: int = 10,
        groups: Any = "auto",
        n_samples: int = 50,
        thinning: int = 2,
        clip: bool | str = "auto",
        fit_lower: str | None = "augment",
        fit_linear: bool = False,
        fit_intercept: bool = True,
        max_iter: int = 200,
        checkpoint: Path | None = None,
        checkpoint_interval: int = 10,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.degree = degree
        self.n_components = n_components
        self.groups = groups
        self.n_samples = n_samples
        self.thinning = thinning
        self.clip = clip
        self.fit_lower = fit_lower
        self.fit_linear = fit_linear
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.checkpoint = checkpoint
        self.checkpoint_interval = checkpoint_interval
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


@documented_bayes
class BayesianPolynomialNetworkClassifier(BayesianNetwork, BayesianClassifier):
    _parameter_constraints = {
        name: allowed for name, allowed in BayesianClassifier._parameter_constraints.items() if name not in SETTLED
    }

    def __init__(
        self,
        *,
        degree: int = 2,
        n_components: int = 10,
        groups: Any = "auto",
        n_samples: int = 50,
        thinning: int = 2,
        class_weight: Any = None,
        fit_lower: str | None = "augment",
        fit_linear: bool = False,
        fit_intercept: bool = True,
        max_iter: int = 200,
        checkpoint: Path | None = None,
        checkpoint_interval: int = 10,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.degree = degree
        self.n_components = n_components
        self.groups = groups
        self.n_samples = n_samples
        self.thinning = thinning
        self.class_weight = class_weight
        self.fit_lower = fit_lower
        self.fit_linear = fit_linear
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.checkpoint = checkpoint
        self.checkpoint_interval = checkpoint_interval
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
