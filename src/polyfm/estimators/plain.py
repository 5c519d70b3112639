"""The four estimators: factorization machines (ANOVA kernel) and polynomial networks (homogeneous kernel)."""

from typing import Any

from polyfm.estimators.docstrings import documented
from polyfm.estimators.targets import Classifier, Regressor
from polyfm.estimators.validation import RandomState
from polyfm.files.atomic import Path


@documented
class FactorizationMachineRegressor(Regressor):
    _kernel = "anova"

    def __init__(
        self,
        *,
        degree: int = 2,
        n_components: int | str = 10,
        loss: Any = "squared",
        alpha: Any = "auto",
        beta: Any = "auto",
        groups: Any = None,
        clip: bool | str = "auto",
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
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        checkpoint: Path | None = None,
        checkpoint_interval: int = 10,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.degree = degree
        self.n_components = n_components
        self.loss = loss
        self.alpha = alpha
        self.beta = beta
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
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.checkpoint = checkpoint
        self.checkpoint_interval = checkpoint_interval
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


@documented
class FactorizationMachineClassifier(Classifier):
    _kernel = "anova"

    def __init__(
        self,
        *,
        degree: int = 2,
        n_components: int | str = 10,
        loss: Any = "logistic",
        alpha: Any = "auto",
        beta: Any = "auto",
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
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        checkpoint: Path | None = None,
        checkpoint_interval: int = 10,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.degree = degree
        self.n_components = n_components
        self.loss = loss
        self.alpha = alpha
        self.beta = beta
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
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.checkpoint = checkpoint
        self.checkpoint_interval = checkpoint_interval
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


@documented
class PolynomialNetworkRegressor(Regressor):
    _kernel = "homogeneous"

    def __init__(
        self,
        *,
        degree: int = 2,
        n_components: int | str = 10,
        loss: Any = "squared",
        alpha: Any = "auto",
        beta: Any = "auto",
        groups: Any = None,
        clip: bool | str = "auto",
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
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        checkpoint: Path | None = None,
        checkpoint_interval: int = 10,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.degree = degree
        self.n_components = n_components
        self.loss = loss
        self.alpha = alpha
        self.beta = beta
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
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.checkpoint = checkpoint
        self.checkpoint_interval = checkpoint_interval
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


@documented
class PolynomialNetworkClassifier(Classifier):
    _kernel = "homogeneous"

    def __init__(
        self,
        *,
        degree: int = 2,
        n_components: int | str = 10,
        loss: Any = "logistic",
        alpha: Any = "auto",
        beta: Any = "auto",
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
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        checkpoint: Path | None = None,
        checkpoint_interval: int = 10,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.degree = degree
        self.n_components = n_components
        self.loss = loss
        self.alpha = alpha
        self.beta = beta
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
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.checkpoint = checkpoint
        self.checkpoint_interval = checkpoint_interval
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
