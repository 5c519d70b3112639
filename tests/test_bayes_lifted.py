"""Bayesian machines of lifted forms: networks with error bars that hold, going on exactly, files, conventions."""

import pickle
import signal

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from problems import MULTILINEAR, make_problem
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_bayes import ratings, regressor
from test_probit import expected_failures as of_latent_targets

from polyfm import (
    BayesianFactorizationMachineClassifier,
    BayesianFactorizationMachineOrdinal,
    BayesianPolynomialNetworkClassifier,
    BayesianPolynomialNetworkRegressor,
    PolynomialNetworkRegressor,
    explain,
    interactions,
    load_model,
    model_info,
    save_model,
)
from polyfm.core.fitted import Fitted
from polyfm.core.layout import expand
from polyfm.display import ConvergenceDisplay
from polyfm.export import to_c
from polyfm.solvers.variational import Variational, kinds_of
from polyfm.training.hooks import watching

FEW = {"n_components": 3, "max_iter": 40, "n_samples": 12, "thinning": 1, "random_state": 0}
LIFTED = {"method": "lifted", "inference": "gibbs"}


def table(n=900, noise=0.4, seed=0):
    """Dense rows, targets with squares and products, and what they are without noise."""
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 6))
    clean = X[:, 0] * X[:, 1] - X[:, 2] ** 2 + X[:, 3] + 0.5
    return X, clean + noise * rng.standard_normal(n), clean


@pytest.fixture(scope="module")
def fitted():
    X, y, _ = table()
    return BayesianPolynomialNetworkRegressor(**FEW | {"n_samples": 40}).fit(X[:600], y[:600])


def same(a, b, X):
    assert_array_equal(a.history_["noise"], b.history_["noise"])
    for one, other in zip(a.predict(X, return_std=True), b.predict(X, return_std=True), strict=True):
        assert_array_equal(one, other)


def test_a_network_learns_squares_and_its_intervals_cover_as_they_say(fitted):
    X, y, clean = table(4000, seed=1)
    assert fitted.score(X, clean) > 0.98
    assert 0.35 < fitted.noise_ < 0.45
    for coverage in (0.5, 0.9):
        low, high = fitted.predict_interval(X, coverage)
        assert abs(np.mean((low < y) & (y < high)) - coverage) < 0.05
    assert 1 <= fitted.effective_rank_ <= 3


@pytest.mark.parametrize("options", [{"degree": 3}, {"fit_lower": None, "fit_linear": True}, {"fit_linear": True}])
def test_networks_of_other_parts_learn_as_well(options):
    X, y, clean = table(1200)
    model = BayesianPolynomialNetworkRegressor(**FEW | {"max_iter": 200}, **options).fit(X[:900], y[:900])
    assert model.score(X[900:], clean[900:]) > 0.97


@pytest.mark.parametrize("options", [{}, {"degree": 3}, {"degree": 3, "fit_lower": "augment"}])
def test_lifted_machines_learn_what_direct_ones_do(options):
    X, y, clean = ratings()
    machine = regressor(**LIFTED, max_iter=100, **options).fit(X[:1000], y[:1000])
    assert machine.score(X[1000:], clean[1000:]) > 0.95


def test_the_model_is_the_mean_of_its_draws(fitted):
    X, _, _ = table(50, seed=2)
    assert fitted.components_.shape == (2, 40 * 3, 7)
    draws = [by_hand(p, X) for _, p in fitted._posterior[0].each(fitted._fitted.model, fitted._fitted.targets[0])]
    assert_allclose(fitted.predict(X), np.mean(draws, axis=0), rtol=1e-4, atol=1e-5)
    std = np.sqrt(np.var(draws, axis=0, ddof=1) + fitted.noise_**2)
    assert_allclose(fitted.predict(X, return_std=True)[1], std, rtol=1e-4)


def by_hand(p, X):
    """prod_t <u^t, x>, with a dummy feature of 1."""
    U = p.factors[0].astype(float)
    return p.intercept[0] + np.prod(np.column_stack([X, np.ones(len(X))]) @ U.transpose(1, 2, 0), axis=0).sum(axis=1)


@pytest.mark.parametrize("form", MULTILINEAR)
@pytest.mark.parametrize("degree", [2, 3])
def test_the_start_knows_how_large_random_bases_are(form, degree, rng):
    """The mean square of interactions at standard normal factors, on which the scale of the prior rests."""
    X, y = rng.standard_normal((40, 5)), np.zeros(40)
    problem, start = make_problem(X, y, *form, degree, k=20_000, linear=False)
    (group,) = kinds_of(problem.model)
    values = expand(group, rng.standard_normal(start.factors[0].shape), problem.design)
    assert_allclose(Variational._mean_of_squares(problem, group), np.mean(values**2), rtol=0.1)


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
def test_units_change_nothing(scale):
    X, y, _ = table(200)
    one = BayesianPolynomialNetworkRegressor(**FEW).fit(X, y)
    other = BayesianPolynomialNetworkRegressor(**FEW).fit(X * scale, 8 * y)
    assert_allclose(other.predict(X * scale), 8 * one.predict(X), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("killed_after", [2, 20, 47])
def test_sampling_goes_on_exactly_from_its_checkpoint(tmp_path, killed_after):
    """While priors are held, before draws are kept, and then."""
    X, y, _ = table(200)
    whole = BayesianPolynomialNetworkRegressor(**FEW).fit(X, y)

    class KilledError(Exception):
        pass

    def kill(progress):
        if progress.done == killed_after:
            raise KilledError

    model = BayesianPolynomialNetworkRegressor(**FEW, checkpoint=tmp_path / "checkpoint", checkpoint_interval=2)
    with watching(kill), pytest.raises(KilledError):
        model.fit(X, y)
    same(model.fit(X, y), whole, X)
    assert whole.n_iter_ == 52


def test_a_warm_start_draws_more():
    X, y, _ = table(200)
    model = BayesianPolynomialNetworkRegressor(**FEW | {"n_samples": 5, "warm_start": True}).fit(X, y)
    same(model.set_params(n_samples=12).fit(X, y), BayesianPolynomialNetworkRegressor(**FEW).fit(X, y), X)


@pytest.mark.parametrize(("at", "n_draws"), [(44, 4), (7, 1)])
def test_ctrl_c_keeps_what_was_drawn(at, n_draws):
    """Or where the chain was, if nothing was to be kept yet."""
    X, y, _ = table(200)

    def interrupt(progress):
        if progress.done == at:
            signal.raise_signal(signal.SIGINT)

    with watching(interrupt), pytest.warns(UserWarning, match="interrupted after"):
        model = BayesianPolynomialNetworkRegressor(**FEW).fit(X, y)
    assert len(model._posterior[0].noise) == n_draws
    assert np.isfinite(model.predict(X, return_std=True)[1]).all()


@pytest.mark.parametrize(
    ("options", "at"),
    [
        ({}, 2),
        ({"inference": "gibbs"}, 2),
        ({"inference": "gibbs", "max_iter": 5}, 20),
        (LIFTED, 48),
        (None, 2),
        (None, 48),
    ],
)
def test_ctrl_c_keeps_classes_whose_turn_had_not_come(options, at):
    """Whether the first class had draws by then, or none."""
    X, y, _ = table(200)
    cls = BayesianPolynomialNetworkClassifier if options is None else BayesianFactorizationMachineClassifier

    def interrupt(progress):
        if progress.done == at:
            signal.raise_signal(signal.SIGINT)

    with watching(interrupt), pytest.warns(UserWarning, match="interrupted after"):
        model = cls(**FEW | (options or {})).fit(X, np.digitize(y, [0.0, 1.0]))
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert np.isfinite(model.effective_rank_)


@pytest.mark.parametrize("n_components", [2, 8])
def test_threads_change_no_bit(n_components):
    """By coordinate and by block steps."""
    X, y, _ = ratings(20_000, 300, 200)
    options = LIFTED | {"n_samples": 2, "max_iter": 3, "n_components": n_components}
    same(regressor(**options).fit(X, y), regressor(**options, n_jobs=2).fit(X, y), X[:100])


def test_files_and_pickles_give_the_same_model(fitted, tmp_path):
    X, _, _ = table()
    path = tmp_path / "model.polyfm"
    save_model(fitted, path)
    for other in (load_model(path), pickle.loads(pickle.dumps(fitted))):
        same(other, fitted, X)
        assert other.get_params() == fitted.get_params()
    info = model_info(path)
    assert info["class"] == "BayesianPolynomialNetworkRegressor"
    assert info["effective_rank"] == fitted.effective_rank_


def test_single_precision_is_close_to_double():
    X, y, _ = table(300)
    single, double = (BayesianPolynomialNetworkRegressor(**FEW).fit(X.astype(kind), y) for kind in ("f4", "f8"))
    assert single.predict(X.astype("f4")).dtype == np.float32
    assert_allclose(single.predict(X), double.predict(X), atol=0.02)


def test_weights_repeat_rows():
    X, y, _ = table(150)
    counts = np.random.RandomState(0).randint(3, size=150)
    weighted = BayesianPolynomialNetworkRegressor(**FEW).fit(X, y, sample_weight=counts)
    repeated = BayesianPolynomialNetworkRegressor(**FEW).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-5)


@pytest.mark.parametrize("cls", [BayesianFactorizationMachineClassifier, BayesianPolynomialNetworkClassifier])
@pytest.mark.parametrize("cuts", [[0.0], [-1.0, 0.7]])
def test_classes_have_probabilities_that_hold(cls, cuts):
    X, y, _ = table(1500)
    machine = cls is BayesianFactorizationMachineClassifier
    labels = np.digitize(y + X[:, 2] ** 2 if machine else y, cuts)
    model = cls(**FEW | {"max_iter": 100}, **LIFTED if machine else {}).fit(X[:1000], labels[:1000])
    p = model.predict_proba(X[1000:])
    assert_allclose(p.sum(axis=1), 1.0)
    assert model.score(X[1000:], labels[1000:]) > (0.85 if len(cuts) == 1 else 0.7)
    if len(cuts) == 1:  # of several, each is learned against the rest, with too little certainty
        assert abs(p.max(axis=1).mean() - model.score(X[1000:], labels[1000:])) < 0.06


def test_ordered_classes_are_drawn_too():
    X, y, _ = table(900)
    stars = np.digitize(y + X[:, 2] ** 2, [-1.0, 0.5, 2.0])
    model = BayesianFactorizationMachineOrdinal(**FEW, **LIFTED).fit(X[:600], stars[:600])
    assert model.score(X[600:], stars[600:]) > 0.6


@pytest.mark.parametrize("options", [{}, {"degree": 3}, {"fit_lower": None, "fit_linear": True}])
def test_weights_come_with_standard_deviations_of_draws(options):
    """Those of dummy features and of squares, too: they are read of each draw as of any model."""
    X, y, _ = table(400)
    model = BayesianPolynomialNetworkRegressor(**FEW, **options).fit(X, y)
    found = interactions(model, degree=2, top=3)
    single = PolynomialNetworkRegressor(
        alpha=1.0, beta=1.0, max_iter=1, **{name: model.get_params()[name] for name in ("degree", "fit_lower")},
        fit_linear=model.fit_linear, tol=1.0,
    ).fit(X, y)  # fmt: skip
    weights = []
    for one, p in model._posterior[0].each(model._fitted.model, model._fitted.targets[0]):
        single._fitted = Fitted(one, [p])
        every = interactions(single, degree=2, top=21)
        weights.append({(r.feature_1, r.feature_2): r.weight for r in every.itertuples()})
    for row in found.itertuples():
        drawn = [w[row.feature_1, row.feature_2] for w in weights]
        assert_allclose(row.weight, np.mean(drawn), rtol=1e-3, atol=1e-5)
        assert_allclose(row.std, np.std(drawn, ddof=1), rtol=1e-3, atol=1e-6)
    assert explain(model, X[0])["std"].notna().all()


def test_the_mean_is_exported_and_shown(fitted, tmp_path):
    to_c(fitted, tmp_path / "model.c")
    assert (tmp_path / "model.c").read_text().startswith("/*")
    shown = ConvergenceDisplay.from_estimator(fitted)
    assert_array_equal(shown.histories[0], -fitted.history_["log_likelihood"])
    assert "elbo" not in fitted.history_


def test_predictions_stay_near_the_range_of_targets():
    X, y, _ = table(300)
    far = 30 * X
    quarter = 0.25 * (y.max() - y.min())
    for clip, beyond in (("auto", quarter), (True, 0.0)):
        model = BayesianPolynomialNetworkRegressor(**FEW, clip=clip).fit(X, y)
        low, high = model.predict_interval(far)
        assert_allclose([model.predict(far).min(), low.min()], y.min() - beyond)
        assert_allclose([model.predict(far).max(), high.max()], y.max() + beyond)
    assert BayesianPolynomialNetworkRegressor(**FEW, clip=False).fit(X, y).predict(far).min() < y.min() - quarter


def test_what_cannot_be_is_said(fitted):
    X, y, _ = table(100)
    with pytest.raises(ValueError, match=r"inference='variational' is for method='direct', got method='lifted'. Pass"):
        regressor(method="lifted").fit(X, y)
    with pytest.raises(ValueError, match="has no direct form: a posterior is over the bases"):
        fitted.to_direct()
    assert_array_equal(fitted.to_lifted().predict(X), fitted.predict(X))
    with pytest.raises(ValueError, match="method='other' is not known"):
        regressor(method="other", inference="gibbs").fit(X, y)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Features are up to")
@parametrize_with_checks(
    [
        BayesianPolynomialNetworkRegressor(n_components=2, n_samples=5, max_iter=20, random_state=0),
        BayesianPolynomialNetworkClassifier(n_components=2, n_samples=5, max_iter=20, random_state=0),
    ],
    expected_failed_checks=lambda estimator: {} if hasattr(estimator, "clip") else of_latent_targets(estimator),
)
def test_estimators_follow_scikit_learn_conventions(estimator, check):
    check(estimator)
