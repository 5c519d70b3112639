"""The estimators with a search for beta built in, as scikit-learn's RidgeCV and LassoCV have for alpha."""

from typing import Any

from polyfm.estimators.docstrings import documented_search
from polyfm.estimators.path_search import PathSearch
from polyfm.estimators.plain import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkClassifier,
    PolynomialNetworkRegressor,
)
from polyfm.estimators.targets import Classifier, Regressor
from polyfm.estimators.validation import RandomState


@documented_search
class FactorizationMachineRegressorCV(PathSearch, Regressor):
    _kernel = "anova"
    _plain = FactorizationMachineRegressor
    _parameter_constraints = PathSearch._constraints(Regressor)

    def __init__(
        self,
        *,
        betas: Any = None,
        n_betas: int = 8,
        degrees: Any = None,
        ranks: Any = None,
        cv: Any = None,
        scoring: Any = None,
        degree: int = 2,
        n_components: int | str = 10,
        loss: Any = "squared",
        alpha: Any = "auto",
        groups: Any = None,
        clip: bool = False,
        method: str = "direct",
        fit_lower: str | None = "explicit",
        fit_linear: bool = True,
        fit_intercept: bool = True,
        init_lambdas: Any = "ones",
        fit_lambdas: bool = False,
        init_scale: float = 0.1,
        solver: str = "auto",
        batch_size: int | str = "auto",
        shares: int = 1,
        max_iter: int = 200,
        tol: float = 1e-3,
        gap_tol: float = 1e-2,
        max_components: int = 100,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.betas = betas
        self.n_betas = n_betas
        self.degrees = degrees
        self.ranks = ranks
        self.cv = cv
        self.scoring = scoring
        self.degree = degree
        self.n_components = n_components
        self.loss = loss
        self.alpha = alpha
        self.groups = groups
        self.clip = clip
        self.method = method
        self.fit_lower = fit_lower
        self.fit_linear = fit_linear
        self.fit_intercept = fit_intercept
        self.init_lambdas = init_lambdas
        self.fit_lambdas = fit_lambdas
        self.init_scale = init_scale
        self.solver = solver
        self.batch_size = batch_size
        self.shares = shares
        self.max_iter = max_iter
        self.tol = tol
        self.gap_tol = gap_tol
        self.max_components = max_components
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


@documented_search
class FactorizationMachineClassifierCV(PathSearch, Classifier):
    _kernel = "anova"
    _plain = FactorizationMachineClassifier
    _parameter_constraints = PathSearch._constraints(Classifier)

    def __init__(
        self,
        *,
        betas: Any = None,
        n_betas: int = 8,
        degrees: Any = None,
        ranks: Any = None,
        cv: Any = None,
        scoring: Any = None,
        degree: int = 2,
        n_components: int | str = 10,
        loss: Any = "logistic",
        alpha: Any = "auto",
        groups: Any = None,
        class_weight: Any = None,
        method: str = "direct",
        fit_lower: str | None = "explicit",
        fit_linear: bool = True,
        fit_intercept: bool = True,
        init_lambdas: Any = "ones",
        fit_lambdas: bool = False,
        init_scale: float = 0.1,
        solver: str = "auto",
        batch_size: int | str = "auto",
        shares: int = 1,
        max_iter: int = 200,
        tol: float = 1e-3,
        gap_tol: float = 1e-2,
        max_components: int = 100,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.betas = betas
        self.n_betas = n_betas
        self.degrees = degrees
        self.ranks = ranks
        self.cv = cv
        self.scoring = scoring
        self.degree = degree
        self.n_components = n_components
        self.loss = loss
        self.alpha = alpha
        self.groups = groups
        self.class_weight = class_weight
        self.method = method
        self.fit_lower = fit_lower
        self.fit_linear = fit_linear
        self.fit_intercept = fit_intercept
        self.init_lambdas = init_lambdas
        self.fit_lambdas = fit_lambdas
        self.init_scale = init_scale
        self.solver = solver
        self.batch_size = batch_size
        self.shares = shares
        self.max_iter = max_iter
        self.tol = tol
        self.gap_tol = gap_tol
        self.max_components = max_components
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


@documented_search
class PolynomialNetworkRegressorCV(PathSearch, Regressor):
    _kernel = "homogeneous"
    _plain = PolynomialNetworkRegressor
    _parameter_constraints = PathSearch._constraints(Regressor)

    def __init__(
        self,
        *,
        betas: Any = None,
        n_betas: int = 8,
        degrees: Any = None,
        ranks: Any = None,
        cv: Any = None,
        scoring: Any = None,
        degree: int = 2,
        n_components: int | str = 10,
        loss: Any = "squared",
        alpha: Any = "auto",
        groups: Any = None,
        clip: bool = False,
        method: str = "lifted",
        fit_lower: str | None = "augment",
        fit_linear: bool = False,
        fit_intercept: bool = True,
        init_lambdas: Any = "ones",
        fit_lambdas: bool = False,
        init_scale: float = 0.1,
        solver: str = "auto",
        batch_size: int | str = "auto",
        shares: int = 1,
        max_iter: int = 200,
        tol: float = 1e-3,
        gap_tol: float = 1e-2,
        max_components: int = 100,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.betas = betas
        self.n_betas = n_betas
        self.degrees = degrees
        self.ranks = ranks
        self.cv = cv
        self.scoring = scoring
        self.degree = degree
        self.n_components = n_components
        self.loss = loss
        self.alpha = alpha
        self.groups = groups
        self.clip = clip
        self.method = method
        self.fit_lower = fit_lower
        self.fit_linear = fit_linear
        self.fit_intercept = fit_intercept
        self.init_lambdas = init_lambdas
        self.fit_lambdas = fit_lambdas
        self.init_scale = init_scale
        self.solver = solver
        self.batch_size = batch_size
        self.shares = shares
        self.max_iter = max_iter
        self.tol = tol
        self.gap_tol = gap_tol
        self.max_components = max_components
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


@documented_search
class PolynomialNetworkClassifierCV(PathSearch, Classifier):
    _kernel = "homogeneous"
    _plain = PolynomialNetworkClassifier
    _parameter_constraints = PathSearch._constraints(Classifier)

    def __init__(
        self,
        *,
        betas: Any = None,
        n_betas: int = 8,
        degrees: Any = None,
        ranks: Any = None,
        cv: Any = None,
        scoring: Any = None,
        degree: int = 2,
        n_components: int | str = 10,
        loss: Any = "logistic",
        alpha: Any = "auto",
        groups: Any = None,
        class_weight: Any = None,
        method: str = "lifted",
        fit_lower: str | None = "augment",
        fit_linear: bool = False,
        fit_intercept: bool = True,
        init_lambdas: Any = "ones",
        fit_lambdas: bool = False,
        init_scale: float = 0.1,
        solver: str = "auto",
        batch_size: int | str = "auto",
        shares: int = 1,
        max_iter: int = 200,
        tol: float = 1e-3,
        gap_tol: float = 1e-2,
        max_components: int = 100,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.betas = betas
        self.n_betas = n_betas
        self.degrees = degrees
        self.ranks = ranks
        self.cv = cv
        self.scoring = scoring
        self.degree = degree
        self.n_components = n_components
        self.loss = loss
        self.alpha = alpha
        self.groups = groups
        self.class_weight = class_weight
        self.method = method
        self.fit_lower = fit_lower
        self.fit_linear = fit_linear
        self.fit_intercept = fit_intercept
        self.init_lambdas = init_lambdas
        self.fit_lambdas = fit_lambdas
        self.init_scale = init_scale
        self.solver = solver
        self.batch_size = batch_size
        self.shares = shares
        self.max_iter = max_iter
        self.tol = tol
        self.gap_tol = gap_tol
        self.max_components = max_components
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
