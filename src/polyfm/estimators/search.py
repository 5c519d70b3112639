"""The estimators with a search for beta built in, as scikit-learn's RidgeCV and LassoCV have for alpha."""

from polyfm.estimators.docstrings import documented_search
from polyfm.estimators.path_search import PathSearch
from polyfm.estimators.plain import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkClassifier,
    PolynomialNetworkRegressor,
)
from polyfm.estimators.targets import Classifier, Regressor


@documented_search
class FactorizationMachineRegressorCV(PathSearch, Regressor):
    _kernel = "anova"
    _plain = FactorizationMachineRegressor
    _parameter_constraints = PathSearch._constraints(Regressor)

    def __init__(
        self,
        *,
        betas=None,
        n_betas=8,
        degrees=None,
        ranks=None,
        cv=None,
        scoring=None,
        degree=2,
        n_components=10,
        loss="squared",
        alpha="auto",
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
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
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
        betas=None,
        n_betas=8,
        degrees=None,
        ranks=None,
        cv=None,
        scoring=None,
        degree=2,
        n_components=10,
        loss="logistic",
        alpha="auto",
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
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
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
        betas=None,
        n_betas=8,
        degrees=None,
        ranks=None,
        cv=None,
        scoring=None,
        degree=2,
        n_components=10,
        loss="squared",
        alpha="auto",
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
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
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
        betas=None,
        n_betas=8,
        degrees=None,
        ranks=None,
        cv=None,
        scoring=None,
        degree=2,
        n_components=10,
        loss="logistic",
        alpha="auto",
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
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
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
        self.max_iter = max_iter
        self.tol = tol
        self.gap_tol = gap_tol
        self.max_components = max_components
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
