"""The Gibbs sampler: it leaves the prior as it is, wrong ones do not; estimators that draw, go on and are stored."""

import signal

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from problems import make_problem
from scipy import stats
from test_bayes import ratings, regressor

from polyfm import load_model, save_model
from polyfm.core.hyper import Groups, Hyper, Tied
from polyfm.solvers.gibbs import Chain, GibbsSampling, State
from polyfm.solvers.likelihood import CUT_PRECISION, folded, generator
from polyfm.solvers.monitor import Monitor
from polyfm.solvers.variational import Part, kinds_of
from polyfm.training.hooks import watching

# -- the sampler proper


def prior_state(sampler, problem, start, rng, wrong):
    """Hyper-parameters, parameters and noise from the prior; targets given these."""
    n = problem.design.shape[0]
    begun = sampler.start._blank(problem, start)
    hypers, thetas, tau = [], [], rng.gamma(0.5) * 2
    for group in kinds_of(problem.model):
        part: Part = sampler.start._part(problem, group, 1.0, 1.0)
        if isinstance(part.hyper, Tied):
            hypers.append(part.hyper)
            z = rng.standard_normal((group.n_bases, group.form.n_factors, part.mean.shape[-1]))
            thetas.append(z / np.sqrt(part.hyper.strength * tau))
            continue
        shape = part.hyper.rate.shape
        lam = rng.gamma(0.5, size=shape) * 2 / part.hyper.b0
        mu = rng.standard_normal(shape) / np.sqrt(lam)
        hypers.append(part.hyper._replace(rate=part.hyper.shape / lam, mean=mu))
        of = part.hyper.groups.of
        z = rng.standard_normal((group.form.n_factors, len(of), group.n_bases))
        thetas.append((mu[of] + z / np.sqrt(lam[of])).transpose(2, 0, 1))
    parameters = start.copy()
    if problem.model.fit_linear:
        parameters.coef[:] = thetas[0][0, 0]
    for P, theta in zip(parameters.factors, thetas[problem.model.fit_linear :], strict=True):
        P[:] = theta
    parameters.intercept[:] = 0.0
    f, z = problem.model.predict(parameters, problem.design), rng.standard_normal(n)
    if sampler.likelihood == "gaussian":
        begun.likelihood.tie(sum(hyper.n_tied for hyper in hypers))
        begun.likelihood.s2, begun.likelihood.rate = 1.0, begun.likelihood.shape / tau
        begun.likelihood.z = f + wrong * z / np.sqrt(tau * problem.response.weight)
    else:
        begun.likelihood.z = f + wrong * z
        if sampler.likelihood == "ordered":
            begun.likelihood.cuts = folded(rng.standard_normal(2) / np.sqrt(CUT_PRECISION))
        inner = begun.likelihood.cuts[1:-1]
        begun.likelihood.codes = np.searchsorted(inner, begun.likelihood.z).astype(np.uint32)
    state = State(begun, Monitor(0.0, 1, 0.0))
    state.chain = Chain(sampler._steps(None).init_state(problem, parameters), hypers)
    sampler._refresh(problem, state)
    return state


def numbers(state):
    """What is compared: noise, precisions, means and parameters, and products that tell how they go together."""
    parameters, hypers = state.parameters, state.chain.hypers
    p, q = parameters.factors[0][0, [0, -1]]  # one and the same where bases are direct
    f = state.chain.residuals + state.start.likelihood.z
    learned = [h for h in hypers if isinstance(h, Hyper)]
    found = [state.start.likelihood.tau, *(h.precision[0, 0] for h in learned), *(h.mean[0, 0] for h in learned)]
    cuts = getattr(state.start.likelihood, "cuts", np.zeros(2))[1:-1]
    lifted = [q[2], p[0] * q[0], p[0] * q[1]] if parameters.factors[0].shape[1] > 1 else []
    return [*found, *cuts, *p[:3], *parameters.coef[:2], p[0] * p[1], *lifted, f[0], np.abs(f).max()]


def smallest_p_value(
    degree, lower, steps, wrong=1.0, replicates=1000, iterations=4, likelihood="gaussian", tied=False,
    form=("anova", "direct"),
):  # fmt: skip
    """Parameters and data from the prior, some iterations with the data as they are: parameters must still be as the
    prior has them. The smallest p-value of all numbers, times how many there are."""
    X = np.random.RandomState(0).standard_normal((7, 4)) * (np.random.RandomState(1).uniform(size=(7, 4)) < 0.8)
    # As many in all as rows: a weight of 2 stands for two rows.
    weight = np.linspace(0.5, 1.5, 7) if likelihood == "gaussian" else np.ones(7)
    X = sp.csr_matrix(X)
    problem, start = make_problem(X, np.arange(7) % 3.0, *form, degree, lower, k=2, weight=weight, intercept=False)
    before, after = [], []
    for i in range(replicates):
        rng = np.random.RandomState(i)
        sampler = GibbsSampling(seed=i, groups=np.array([0, 0, 1, 1]), likelihood=likelihood, steps=steps, tied=tied)
        before.append(numbers(prior_state(sampler, problem, start, np.random.RandomState(replicates + i), 1.0)))
        state = prior_state(sampler, problem, start, rng, wrong)
        for _ in range(iterations):
            sampler.draw(problem, state)
        after.append(numbers(state))
    pairs = zip(np.transpose(before), np.transpose(after), strict=True)
    values = [stats.ks_2samp(a, b).pvalue for a, b in pairs]
    return min(values) * len(values)


@pytest.mark.parametrize(("degree", "lower", "steps"), [(2, None, "cd"), (2, None, "block"), (3, "explicit", "cd")])
def test_iterations_leave_the_prior_as_it_is(degree, lower, steps):
    assert smallest_p_value(degree, lower, steps, replicates=500) > 0.01


@pytest.mark.parametrize(("degree", "lower", "steps"), [(2, "augment", "cd"), (2, None, "block")])
def test_tied_precisions_leave_the_prior_as_it_is(degree, lower, steps):
    assert smallest_p_value(degree, lower, steps, replicates=500, tied=True) > 0.01


def test_a_noise_that_forgets_what_is_tied_to_it_is_noticed(monkeypatch):
    monkeypatch.setattr(Tied, "tied_squares", lambda self, means, variances: 0.0)
    assert smallest_p_value(2, None, "cd", replicates=500, tied=True) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("degree", "lower", "steps"),
    [(2, None, "cd"), (2, "augment", "cd"), (3, "explicit", "cd"), (2, None, "block"), (3, "explicit", "block")],
)
def test_many_iterations_leave_the_prior_as_it_is(degree, lower, steps):
    assert smallest_p_value(degree, lower, steps, replicates=4000, iterations=6) > 0.01


@pytest.mark.parametrize("steps", ["cd", "block"])
@pytest.mark.parametrize("degree", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kernel", ["anova", "homogeneous"])
def test_iterations_of_lifted_forms_leave_the_prior_as_it_is(kernel, degree, steps):
    assert smallest_p_value(degree, None, steps, replicates=500, form=(kernel, "lifted")) > 0.005


@pytest.mark.slow
@pytest.mark.parametrize("steps", ["cd", "block"])
@pytest.mark.parametrize(("degree", "lower"), [(2, None), (3, None), (4, None), (2, "augment"), (3, "explicit")])
@pytest.mark.parametrize("kernel", ["anova", "homogeneous"])
def test_many_iterations_of_lifted_forms_leave_the_prior_as_it_is(kernel, degree, lower, steps):
    form = kernel, "lifted"
    assert smallest_p_value(degree, lower, steps, replicates=4000, iterations=6, form=form) > 0.005


@pytest.mark.slow
@pytest.mark.parametrize(("likelihood", "tied"), [("probit", False), ("gaussian", True)])
def test_lifted_forms_leave_other_priors_as_they_are(likelihood, tied):
    options = {"replicates": 500, "likelihood": likelihood, "tied": tied, "form": ("homogeneous", "lifted")}
    assert smallest_p_value(2, "augment", "cd", **options) > 0.005


@pytest.mark.parametrize("steps", ["cd", "block"])
@pytest.mark.parametrize("kernel", [pytest.param("anova", marks=pytest.mark.slow), "homogeneous"])
def test_noise_of_lifted_forms_that_is_larger_is_noticed(kernel, steps):
    assert smallest_p_value(2, None, steps, wrong=2.0, replicates=500, form=(kernel, "lifted")) < 1e-4


@pytest.mark.slow
def test_a_prior_that_counts_one_factor_of_a_lifted_basis_is_noticed(monkeypatch):
    whole = Groups.from_labels
    monkeypatch.setattr(Groups, "from_labels", lambda labels, occurs, n_factors: whole(labels, occurs))
    assert smallest_p_value(3, None, "cd", replicates=1200, form=("homogeneous", "lifted")) < 1e-4


@pytest.mark.parametrize("steps", ["cd", "block"])
def test_noise_that_is_larger_is_noticed(steps):
    assert smallest_p_value(2, None, steps, wrong=2.0, replicates=500) < 1e-4


def test_a_sampler_that_forgets_the_means_is_noticed(monkeypatch):
    """The rate of a precision without what the mean takes from it, as some libraries have it."""

    def wrong(self, means, variances):
        squares = self.groups.sums(means**2)
        return self._replace(rate=(self.b0 + squares) / 2, mean=self.groups.sums(means) / self.kappa)

    monkeypatch.setattr(Hyper, "given", wrong)
    assert smallest_p_value(2, None, "cd", replicates=1200) < 1e-4


def test_generators_depend_on_all_that_they_are_for():
    drawn = {generator(*what).integers(2**60) for what in [(0, 1, 2), (1, 1, 2), (0, 2, 2), (0, 1, 1)]}
    assert len(drawn) == 4


# -- estimators

GIBBS = {"inference": "gibbs", "n_samples": 12, "thinning": 1, "max_iter": 20, "tol": 0.1}


@pytest.fixture(scope="module")
def drawn():
    X, y, _ = ratings()
    return regressor(**GIBBS | {"n_samples": 40}).fit(X[:1000], y[:1000])


def test_intervals_cover_as_they_say(drawn):
    X, y, clean = ratings()
    assert 0.36 < drawn.noise_ < 0.48
    for coverage in (0.5, 0.9):
        low, high = drawn.predict_interval(X[1000:], coverage)
        assert abs(np.mean((low < y[1000:]) & (y[1000:] < high)) - coverage) < 0.06
    assert drawn.score(X[1000:], clean[1000:]) > 0.97


def test_the_model_is_the_mean_of_its_draws(drawn):
    """So whatever reads models reads this one."""
    X, _, _ = ratings(50, seed=1)
    assert drawn.components_.shape == (40 * 3, 70)
    assert drawn.components_.dtype == np.float32
    posterior, fitted = drawn._posterior[0], drawn._fitted
    values = []
    for _, p in posterior.each(fitted.model, fitted.targets[0]):
        P = p.factors[0][:, 0].astype(float)
        values.append(p.intercept[0] + X @ p.coef + np.sum((X @ P.T) ** 2 - X @ P.T**2, axis=1) / 2)
    assert_allclose(drawn.predict(X), np.mean(values, axis=0), rtol=1e-5)
    std = np.sqrt(np.var(values, axis=0, ddof=1) + np.mean(posterior.noise**2))
    assert_allclose(drawn.predict(X, return_std=True)[1], std, rtol=1e-4)


@pytest.mark.parametrize(("unit", "shift"), [(1e-60, 0.0), (1e60, 0.0), (1.0, 1e8 + 3)])
def test_draws_hold_targets_of_any_size_and_place(unit, shift):
    """Single precision knows neither 1e60 nor 1e8 + 3."""
    X, y, _ = ratings(300)
    plain, other = (regressor(**GIBBS).fit(X, target).predict(X) for target in (y, y * unit + shift))
    assert_allclose((other - shift) / unit, plain, atol=0.1)


def test_history_tells_the_start_from_the_draws(drawn):
    history = drawn.history_
    assert len(history["elbo"]) + len(history["log_likelihood"]) == len(history["noise"]) == drawn.n_iter_
    assert len(history["log_likelihood"]) == 50


def same(a, b, X):
    assert_array_equal(a.history_["noise"], b.history_["noise"])
    for one, other in zip(a.predict(X, return_std=True), b.predict(X, return_std=True), strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("killed_after", [5, 20, 27])
def test_sampling_goes_on_exactly_from_its_checkpoint(tmp_path, killed_after):
    X, y, _ = ratings()
    whole = regressor(**GIBBS).fit(X, y)

    class KilledError(Exception):
        pass

    def kill(progress):
        if progress.done == killed_after:
            raise KilledError

    model = regressor(**GIBBS, checkpoint=tmp_path / "checkpoint", checkpoint_interval=2)
    with watching(kill), pytest.raises(KilledError):
        model.fit(X, y)
    same(model.fit(X, y), whole, X)


def test_a_warm_start_draws_more():
    X, y, _ = ratings()
    model = regressor(**GIBBS | {"n_samples": 5, "warm_start": True}).fit(X, y)
    same(model.set_params(n_samples=12).fit(X, y), regressor(**GIBBS).fit(X, y), X)


@pytest.mark.parametrize(("at", "n_draws"), [(26, 4), (5, None)])
def test_ctrl_c_keeps_what_was_drawn(at, n_draws):
    X, y, _ = ratings()
    starting = len(regressor(**GIBBS).fit(X, y).history_["elbo"])

    def interrupt(progress):
        if progress.done == (at if n_draws is None else starting + 10 + n_draws):
            signal.raise_signal(signal.SIGINT)

    with watching(interrupt), pytest.warns(UserWarning, match="interrupted after"):
        model = regressor(**GIBBS).fit(X, y)
    if n_draws:
        assert len(model._posterior[0].noise) == n_draws
    assert np.isfinite(model.predict(X, return_std=True)[1]).all()


def test_threads_change_no_bit():
    X, y, _ = ratings(20_000, 300, 200)
    options = GIBBS | {"n_samples": 2, "max_iter": 3, "n_components": 8}
    same(regressor(**options).fit(X, y), regressor(**options, n_jobs=2).fit(X, y), X[:100])


def test_files_hold_the_draws(drawn, tmp_path):
    X, _, _ = ratings()
    save_model(drawn, tmp_path / "model.polyfm")
    same(load_model(tmp_path / "model.polyfm"), drawn, X)
