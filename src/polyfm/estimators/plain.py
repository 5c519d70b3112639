"""The four estimators: factorization machines (ANOVA kernel) and polynomial networks (homogeneous kernel)."""

from polyfm.estimators.docstrings import documented
from polyfm.estimators.targets import Classifier, Regressor


@documented
class FactorizationMachineRegressor(Regressor):
    _kernel = "anova"

    def __init__(
        self,
        *,
        degree=2,
        n_components=10,
        loss="squared",
        alpha="auto",
        beta="auto",
        groups=None,
        clip=False,
        method="direct",
        fit_lower="explicit",
        fit_linear=True,
        fit_intercept=True,
        init_lambdas="ones",
        fit_lambdas=False,
        init_scale=0.1,
        solver="auto",
        batch_size="auto",
        max_iter=200,
        tol=1e-3,
        gap_tol=1e-2,
        max_components=100,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        checkpoint=None,
        checkpoint_interval=10,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
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
        degree=2,
        n_components=10,
        loss="logistic",
        alpha="auto",
        beta="auto",
        groups=None,
        class_weight=None,
        method="direct",
        fit_lower="explicit",
        fit_linear=True,
        fit_intercept=True,
        init_lambdas="ones",
        fit_lambdas=False,
        init_scale=0.1,
        solver="auto",
        batch_size="auto",
        max_iter=200,
        tol=1e-3,
        gap_tol=1e-2,
        max_components=100,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        checkpoint=None,
        checkpoint_interval=10,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
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
        degree=2,
        n_components=10,
        loss="squared",
        alpha="auto",
        beta="auto",
        groups=None,
        clip=False,
        method="lifted",
        fit_lower="augment",
        fit_linear=False,
        fit_intercept=True,
        init_lambdas="ones",
        fit_lambdas=False,
        init_scale=0.1,
        solver="auto",
        batch_size="auto",
        max_iter=200,
        tol=1e-3,
        gap_tol=1e-2,
        max_components=100,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        checkpoint=None,
        checkpoint_interval=10,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
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
        degree=2,
        n_components=10,
        loss="logistic",
        alpha="auto",
        beta="auto",
        groups=None,
        class_weight=None,
        method="lifted",
        fit_lower="augment",
        fit_linear=False,
        fit_intercept=True,
        init_lambdas="ones",
        fit_lambdas=False,
        init_scale=0.1,
        solver="auto",
        batch_size="auto",
        max_iter=200,
        tol=1e-3,
        gap_tol=1e-2,
        max_components=100,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        checkpoint=None,
        checkpoint_interval=10,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
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
