"""Bayesian machines as users see them: error bars that hold, groups, going on exactly, files, conventions."""

import pickle
import signal
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from polyfm import (
    BayesianFactorizationMachineRegressor,
    FactorizationMachineRegressor,
    FactorizationMachineRegressorCV,
    explain,
    interactions,
    load_model,
    save_model,
)
from polyfm.cli.main import cli
from polyfm.display import ConvergenceDisplay, CoverageDisplay
from polyfm.estimators import bayes
from polyfm.modelfile import ModelFileError, model_info
from polyfm.training.hooks import watching

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def regressor(**options):
    return BayesianFactorizationMachineRegressor(**{"n_components": 3, "random_state": 0, **options})


def ratings(n=1500, users=40, items=30, noise=0.4, seed=0):
    """Made of two fields, with two bases and noise that are known."""
    rng = np.random.RandomState(seed)
    u, i = rng.randint(users, size=n), users + rng.randint(items, size=n)
    P, w = rng.standard_normal((users + items, 2)), rng.standard_normal(users + items)
    clean = 3 + w[u] + w[i] + np.sum(P[u] * P[i], axis=1)
    X = sp.csr_matrix((np.ones(2 * n), np.column_stack([u, i]).ravel(), np.arange(0, 2 * n + 1, 2)))
    return X, clean + noise * rng.standard_normal(n), clean


@pytest.fixture(scope="module")
def fitted():
    X, y, _ = ratings()
    return regressor().fit(X[:1000], y[:1000])


def test_noise_rank_and_intervals_are_those_of_the_data(fitted):
    X, y, clean = ratings()
    assert 0.36 < fitted.noise_ < 0.48
    assert 1.5 < fitted.effective_rank_ < 2.5
    mean, std = fitted.predict(X[1000:], return_std=True)
    assert_array_equal(mean, fitted.predict(X[1000:]))
    assert np.all(std > fitted.noise_)
    for coverage in (0.5, 0.9):
        low, high = fitted.predict_interval(X[1000:], coverage)
        assert abs(np.mean((low < y[1000:]) & (y[1000:] < high)) - coverage) < 0.06
    # Where the model says that it knows less, it does.
    unsure, error = std > np.median(std), np.abs(mean - clean[1000:])
    assert error[unsure].mean() > 1.1 * error[~unsure].mean()


def test_history_has_a_bound_that_never_falls(fitted):
    history = fitted.history_
    assert set(history) == {"elbo", "noise", "effective_rank"}
    assert all(len(values) == fitted.n_iter_ for values in history.values())
    assert np.all(np.diff(history["elbo"]) > -1e-9 * np.abs(history["elbo"][1:]))
    assert fitted.objective_ == -history["elbo"][-1]
    assert (fitted.noise_, fitted.effective_rank_) == (history["noise"][-1], history["effective_rank"][-1])


def test_the_variance_of_predictions_is_that_of_drawn_parameters(fitted):
    X, _, _ = ratings(20, seed=1)
    rng, posterior, draws = np.random.RandomState(0), fitted._posterior[0], []
    for _ in range(4000):
        P, w = (
            mean + np.sqrt(variance) * rng.standard_normal(mean.shape)
            for mean, variance in ((fitted.components_, posterior.factors[0][:, 0]), (fitted.coef_, posterior.coef))
        )
        w0 = fitted.intercept_ + np.sqrt(posterior.intercept[0]) * rng.standard_normal()
        draws.append(w0 + X @ w + np.sum((X @ P.T) ** 2 - X @ P.T**2, axis=1) / 2)
    std = np.sqrt(np.var(draws, axis=0) + fitted.noise_**2)
    assert_allclose(fitted.predict(X, return_std=True)[1], std, rtol=0.03)


@quiet
def test_no_unit_matters():
    """A posterior of a thousand times y, or of X in other units, is the same posterior."""
    X, y, _ = ratings()
    means, stds = zip(
        *(
            regressor(max_iter=30, tol=0, groups=None).fit(a * X, b * y).predict(a * X, return_std=True)
            for a, b in ((1, 1), (1, 1000), (0.01, 1))
        ),
        strict=True,
    )
    for other, unit in ((1, 1000), (2, 1)):
        assert_allclose(means[other] / unit, means[0], rtol=1e-3, atol=1e-3)
        assert_allclose(stds[other] / unit, stds[0], rtol=1e-3)


def test_training_has_converged_when_a_row_gains_less_than_tol():
    X, y, _ = ratings()
    model = regressor(tol=1e-3).fit(X, y)
    elbo, window, n = model.history_["elbo"], 8, len(y)
    assert elbo[-1] - elbo[-1 - window] <= 1e-3 * n < elbo[-2] - elbo[-2 - window]
    with pytest.warns(ConvergenceWarning, match="the last 8 raised the bound by"):
        regressor(max_iter=12, tol=1e-5).fit(X, y)


def test_groups_are_found_given_or_none():
    X, y, _ = ratings()
    options = {"max_iter": 15, "tol": 1.0}
    found = regressor(**options).fit(X, y)
    assert_array_equal(found.groups_, np.repeat([0, 1], [40, 30]))
    named = regressor(groups=["user"] * 40 + ["item"] * 30, **options).fit(X, y)
    assert_array_equal(named.groups_, np.repeat(["user", "item"], [40, 30]))
    assert_allclose(named.predict(X), found.predict(X), rtol=1e-10)
    alone = regressor(groups=None, **options).fit(X, y)
    assert not alone.groups_.any()
    assert not np.allclose(alone.predict(X), found.predict(X), rtol=1e-6)
    assert not regressor(**options).fit(X.toarray(), y).groups_.any()
    with pytest.raises(ValueError, match=r"groups has shape \(3,\); pass the field of each of the 70 features"):
        regressor(groups=[0, 1, 1]).fit(X, y)


def test_small_fields_are_one():
    rng = np.random.RandomState(0)
    sizes = [30, 4, 4, 12]
    blocks = [sp.csr_matrix(np.eye(size)[rng.randint(size, size=400)]) for size in sizes]
    model = regressor(max_iter=10, tol=1.0).fit(sp.hstack(blocks).tocsr(), rng.standard_normal(400))
    _, first = np.unique(model.groups_, return_index=True)
    assert_array_equal(np.sort(first), [0, 30, 38])
    assert len(set(model.groups_[30:38])) == 1


@quiet
def test_a_fit_goes_on_exactly_from_its_checkpoint_and_from_itself(tmp_path):
    X, y, _ = ratings()
    whole = regressor(max_iter=13, tol=0).fit(X, y)
    path = tmp_path / "checkpoint"

    class KilledError(Exception):
        pass

    def kill(progress):
        if progress.done == 9:
            raise KilledError

    model = regressor(max_iter=13, tol=0, checkpoint=path, checkpoint_interval=4)
    with watching(kill), pytest.raises(KilledError):
        model.fit(X, y)
    assert path.exists()
    model.fit(X, y)
    assert not path.exists()
    warm = regressor(max_iter=7, tol=0, warm_start=True).fit(X, y)
    warm.set_params(max_iter=6).fit(X, y)
    for other in (model, warm):
        assert_array_equal(other.history_["elbo"], whole.history_["elbo"])
        for a, b in zip(other.predict(X, return_std=True), whole.predict(X, return_std=True), strict=True):
            assert_array_equal(a, b)
    with watching(kill), pytest.raises(KilledError):
        model.fit(X, y)
    with pytest.raises(ValueError, match="other data, other parameters"):
        clone(model).set_params(groups=None).fit(X, y)


def test_ctrl_c_keeps_what_was_learned():
    X, y, _ = ratings()

    def interrupt(progress):
        if progress.done == 4:
            signal.raise_signal(signal.SIGINT)

    model = regressor(max_iter=50, tol=0)
    with watching(interrupt), pytest.warns(UserWarning, match="interrupted after 4 epoch"):
        model.fit(X, y)
    assert model.n_iter_ == 4
    assert np.isfinite(model.predict(X, return_std=True)[1]).all()


def test_files_and_pickles_give_the_same_model(fitted, tmp_path):
    X, _, _ = ratings()
    path = tmp_path / "model.polyfm"
    save_model(fitted, path)
    for other in (load_model(path), pickle.loads(pickle.dumps(fitted))):
        for a, b in zip(other.predict_interval(X), fitted.predict_interval(X), strict=True):
            assert_array_equal(a, b)
        assert other.get_params() == fitted.get_params()
        assert_array_equal(other.groups_, fitted.groups_)
        assert_array_equal(other.history_["elbo"], fitted.history_["elbo"])
    info = model_info(path)
    assert info["class"] == "BayesianFactorizationMachineRegressor"
    assert info["effective_rank"] == fitted.effective_rank_


@pytest.mark.parametrize("wrong", [-1.0, np.nan])
def test_a_file_with_impossible_variances_is_refused(fitted, tmp_path, wrong):
    model = pickle.loads(pickle.dumps(fitted))
    model._posterior[0].coef[3] = wrong
    save_model(model, tmp_path / "model.polyfm")
    with pytest.raises(ModelFileError, match="variances that are less|what is known of the parameters"):
        load_model(tmp_path / "model.polyfm")


@quiet
def test_weights_repeat_rows_and_zero_leaves_them_out():
    X, y, _ = ratings(400)
    counts = np.random.RandomState(0).randint(3, size=400)
    options = {"max_iter": 20, "tol": 0}
    weighted = regressor(**options).fit(X, y, sample_weight=counts)
    repeated = regressor(**options).fit(X[np.repeat(np.arange(400), counts)], np.repeat(y, counts))
    for a, b in zip(weighted.predict(X, return_std=True), repeated.predict(X, return_std=True), strict=True):
        assert_allclose(a, b, rtol=1e-6)


@quiet
def test_single_precision_is_close_to_double():
    X, y, _ = ratings()
    options = {"max_iter": 20, "tol": 0}
    single = regressor(**options).fit(X.astype(np.float32), y)
    double = regressor(**options).fit(X, y)
    mean, std = single.predict(X.astype(np.float32), return_std=True)
    assert mean.dtype == std.dtype == single.components_.dtype == np.float32
    assert_allclose(mean, double.predict(X), atol=1e-3)
    assert_allclose(std, double.predict(X, return_std=True)[1], rtol=1e-3)


def test_what_cannot_be_is_said(fitted):
    X, y, _ = ratings(100)
    with pytest.raises(ValueError, match=r"coverage must be a number between 0 and 1, such as 0.9, got 90"):
        fitted.predict_interval(X, 90)
    with pytest.raises(ValueError, match="has no lifted form"):
        fitted.to_lifted()
    with pytest.raises(ValueError, match=r"use BayesianFactorizationMachineRegressor\(inference='variational'\)"):
        FactorizationMachineRegressor(solver="variational").fit(X, y)
    assert not hasattr(fitted, "partial_fit")


def test_clip_keeps_means_and_intervals_in_range(fitted):
    X, y, _ = ratings()
    clipped = clone(fitted).set_params(clip=True).fit(X, y)
    low, high = clipped.predict_interval(X, 0.99)
    assert min(clipped.predict(X).min(), low.min()) == y.min()
    assert max(clipped.predict(X).max(), high.max()) == y.max()


@parametrize_with_checks([BayesianFactorizationMachineRegressor(n_components=2, random_state=0)])
def test_estimator_follows_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("inference", ["variational", "gibbs"])
def test_weights_and_contributions_come_with_standard_deviations(inference):
    X, y, _ = ratings(600)
    model = regressor(inference=inference, n_samples=8, max_iter=30, tol=0.1).fit(X, y)
    fitted, posterior, rng = model._fitted, model._posterior[0], np.random.RandomState(0)
    if inference == "gibbs":
        drawn = [(p.factors[0][:, 0], p.coef) for _, p in posterior.each(fitted.model, fitted.targets[0])]
    else:
        pairs = (model.components_, posterior.factors[0][:, 0]), (model.coef_, posterior.coef)
        drawn = [[m + np.sqrt(v) * rng.standard_normal(m.shape) for m, v in pairs] for _ in range(3000)]
    table = interactions(model, top=3)
    assert list(table) == ["feature_1", "feature_2", "weight", "std"]
    for row in table.itertuples():
        i, j = int(row.feature_1[1:]), int(row.feature_2[1:])
        weights = [P[:, i] @ P[:, j] for P, _ in drawn]
        assert_allclose(row.std, np.std(weights, ddof=1), rtol=0.06)
    linear = explain(model, 2 * X[0])
    at = int(linear["term"][1][1:])
    assert_allclose(linear["std"][1], 2 * np.std([w[at] for _, w in drawn], ddof=1), rtol=0.06)
    assert linear["std"].notna().all()
    assert "std" not in interactions(FactorizationMachineRegressor(alpha=1.0, beta=1.0).fit(X, y), top=3)


def test_displays_show_the_bound_and_the_coverage(fitted):
    X, y, _ = ratings()
    shown = ConvergenceDisplay.from_estimator(fitted)
    assert_array_equal(shown.histories[0], -fitted.history_["elbo"])
    display = CoverageDisplay.from_estimator(fitted, X[1000:], y[1000:], n_levels=9)
    assert np.abs(display.observed - display.predicted).max() < 0.08
    with pytest.raises(TypeError, match="has no intervals"):
        CoverageDisplay.from_estimator(FactorizationMachineRegressor(), X, y)


def test_a_shell_fits_and_predicts_with_standard_deviations(tmp_path):
    def polyfm(*arguments, code=0):
        result = CliRunner().invoke(cli, [str(a) for a in arguments])
        assert result.exit_code == code, result.output
        return result.output

    rng = np.random.RandomState(0)
    u, i = rng.randint(12, size=300), rng.randint(10, size=300)
    table = pd.DataFrame({"user": u, "item": i, "rating": rng.standard_normal((12, 10))[u, i]})
    table.to_csv(tmp_path / "ratings.csv", index=False)
    data, model = tmp_path / "ratings.csv", tmp_path / "m.polyfm"
    fields = ["--target", "rating", "--field", "user", "--field", "item", "--random-state", "0"]
    told = polyfm("fit", data, *fields, "--bayes", "--model", model, "--n-components", "2")
    assert "effective rank" in told
    assert "noise" in told
    assert "alpha" not in told
    polyfm("predict", model, data, "--out", tmp_path / "out.csv")
    found = pd.read_csv(tmp_path / "out.csv")
    assert list(found) == ["prediction", "std"]
    assert (found["std"] > 0).all()
    for options, message in (
        (["--bayes", "--beta", "1"], "--beta does not go with --bayes"),
        (["--bayes", "--cv"], "--cv does not go with --bayes"),
        (["--bayes", "--kind", "pn"], "--bayes is for factorization machines"),
        (["--inference", "gibbs"], "--inference is for --bayes"),
    ):
        assert message in polyfm("fit", data, *fields, *options, code=2)


@quiet
def test_counts_with_a_heavy_tail_are_told_of_their_logarithms(rng):
    X, y, _ = ratings()
    counts = np.floor(np.exp(2 * rng.standard_normal(len(y))))
    counts[0] = 30_000
    model = regressor(max_iter=1)
    with pytest.warns(UserWarning, match="log1p"):
        model.fit(X, counts)
    tails = np.exp(rng.standard_normal(len(y))), rng.poisson(1, len(y)), np.eye(len(y))[0]  # not so far, or for ever
    for targets in (y, np.log1p(counts), -counts, *tails):
        with warnings.catch_warnings(record=True) as told:
            model.fit(X, targets)
        assert not any("log1p" in str(warning.message) for warning in told)


@pytest.mark.parametrize("times", [0, 1, 50])
def test_heavy_tails_are_looked_for_by_weight(times):
    y, weight = np.exp(np.random.RandomState(0).standard_normal(2000)), np.ones(2000)
    y[0], weight[0] = 30_000, times
    expected = bayes.has_heavy_tail(np.repeat(y, weight.astype(int)), None)
    assert bayes.has_heavy_tail(y, weight) is expected
    assert expected is (times == 1)  # what is not there is not far off, and what is common is not either
    X = sp.csr_matrix((np.ones(2000), (np.arange(2000), np.arange(2000) % 7)))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        regressor(max_iter=2).fit(X, y, weight)
    assert any("log1p" in str(warning.message) for warning in told) is expected


def made_up_counts(n=4000, seed=0):
    """Counts with far more variance than their mean: a few are hundreds of times as large as most."""
    rng = np.random.RandomState(seed)
    u = np.minimum((rng.pareto(1.0, n) * 6).astype(int), 119)
    i = np.minimum((rng.pareto(1.0, n) * 5).astype(int), 79)
    a, b, base = rng.standard_normal((120, 2)), rng.standard_normal((80, 2)), 0.5 * rng.standard_normal(120)
    f = 0.5 * np.sum(a[u] * b[i], axis=1) + base[u]
    y = rng.negative_binomial(0.3, 0.3 / (0.3 + np.exp(np.minimum(1.5 * f, 6)))).astype(float)
    columns = np.column_stack([u, 120 + i]).ravel()
    return sp.csr_matrix((np.ones(2 * n), columns, np.arange(0, 2 * n + 1, 2)), shape=(n, 200)), y


@quiet
@pytest.mark.filterwarnings("ignore:The targets are never negative")
@pytest.mark.parametrize("inference", ["variational", "gibbs"])
def test_counts_are_predicted_as_well_as_by_a_penalty_that_was_tuned(inference, monkeypatch):
    errors = []
    for seed in range(3):
        X, y = made_up_counts(seed=seed)

        def error(model, X=X, y=y):
            return np.sqrt(np.mean((model.fit(X[:3000], y[:3000]).predict(X[3000:]) - y[3000:]) ** 2))

        errors.append([error(FactorizationMachineRegressorCV(n_components=3, random_state=0))])
        errors[-1].append(error(regressor(inference=inference)))
        with monkeypatch.context() as patch:
            patch.setattr(bayes, "has_heavy_tail", lambda y, weight: False)
            errors[-1].append(error(regressor(inference=inference)))
    tuned, ours, learned = np.transpose(errors)
    assert np.mean(ours / tuned) < 1.01
    assert np.mean(ours / tuned) < np.mean(learned / tuned)


@quiet
@pytest.mark.filterwarnings("ignore:The targets are never negative")
@pytest.mark.parametrize("inference", ["variational", "gibbs"])
def test_a_fit_to_counts_goes_on_exactly_and_is_stored(inference, tmp_path):
    X, y = made_up_counts()
    options = {"inference": inference, "max_iter": 6, "tol": 0, "n_samples": 4, "thinning": 1}
    whole = regressor(**options).fit(X, y)
    assert np.all(np.diff(whole.history_["elbo"]) >= -1e-9 * abs(whole.history_["elbo"][-1]))

    class KilledError(Exception):
        pass

    def kill(progress):
        if progress.done == (4 if inference == "variational" else 19):
            raise KilledError

    model = regressor(**options, checkpoint=tmp_path / "checkpoint", checkpoint_interval=2)
    with watching(kill), pytest.raises(KilledError):
        model.fit(X, y)
    model.fit(X, y)
    warm = regressor(
        **options | {"warm_start": True, "max_iter": 4 if inference == "variational" else 6, "n_samples": 2}
    )
    warm.fit(X, y).set_params(max_iter=2 if inference == "variational" else 6, n_samples=4).fit(X, y)
    save_model(whole, tmp_path / "model.polyfm")
    others = load_model(tmp_path / "model.polyfm"), pickle.loads(pickle.dumps(whole)), regressor(**options, n_jobs=2)
    for other in (model, warm, *others[:2], others[2].fit(X, y)):
        assert_array_equal(other.history_["elbo"], whole.history_["elbo"])
        for a, b in zip(other.predict(X, return_std=True), whole.predict(X, return_std=True), strict=True):
            assert_array_equal(a, b)


def test_a_tail_is_heavy_in_any_unit():
    y = np.floor(np.exp(1.6 * np.random.RandomState(1).standard_normal(3000)))
    y[0] = 5000
    assert [bayes.has_heavy_tail(y * unit, None) for unit in (1e-9, 1e-3, 1.0, 1e6)] == [True] * 4


def test_targets_far_from_0_are_learned_as_well(rng):
    X = rng.standard_normal((200, 6))
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.standard_normal(200)
    noise = [regressor(n_components=5).fit(X, y + shift).noise_ for shift in (0.0, 1e7, 1e8)]
    assert_allclose(noise[1:], noise[0], rtol=0.01)


@quiet
def test_draws_of_a_field_without_data_stay_near_what_is_expected(rng):
    X = np.column_stack([rng.standard_normal((300, 5)), np.zeros((300, 3))])
    y = X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(300)
    new = np.column_stack([X[:, :5], np.eye(3)[rng.randint(3, size=300)]])
    model = regressor(inference="gibbs", groups=[0] * 5 + [1] * 3, n_samples=200).fit(X, y)
    mean, std = model.predict(new, return_std=True)
    assert np.median(std) < 1.5
    assert np.abs(mean - model.predict(X)).max() < 2


@pytest.mark.parametrize("rank", ["auto", 0, 1.5])
def test_the_rank_is_a_number(rank, rng):
    with pytest.raises(ValueError, match="'n_components' parameter .* must be an int"):
        regressor(n_components=rank).fit(rng.standard_normal((9, 2)), np.arange(9.0))


def test_features_far_from_0_are_told_of(rng):
    X = rng.standard_normal((50, 3)) + np.array([0, 0, 8])
    with pytest.warns(UserWarning, match="standard deviations away from 0.*StandardScaler"):
        regressor(max_iter=2, tol=10.0).fit(X, X[:, 0])
    binary = np.column_stack([X[:, :2], np.ones(50) - np.eye(50)[0]])
    with warnings.catch_warnings(record=True) as told:
        regressor(max_iter=2, tol=10.0).fit(binary, X[:, 0])
    assert not any("away from 0" in str(warning.message) for warning in told)


def test_groups_may_be_named_and_not(rng):
    X = rng.standard_normal((50, 4))
    first = regressor(groups=["a", None, "b", None]).fit(X, X[:, 0])
    assert_array_equal(first.predict(X), regressor(groups=[0, 1, 2, 1]).fit(X, X[:, 0]).predict(X))


def test_coverage_takes_a_column_and_refuses_what_is_no_target(fitted):
    X, y, _ = ratings()
    flat = CoverageDisplay.from_estimator(fitted, X[1000:], y[1000:])
    with pytest.warns(UserWarning, match="column-vector y"):
        column = CoverageDisplay.from_estimator(fitted, X[1000:], y[1000:, None])
    assert_array_equal(flat.observed, column.observed)
    for wrong, message in ((np.full(500, np.nan), "NaN"), (y[:3], "inconsistent numbers of samples")):
        with pytest.raises(ValueError, match=message):
            CoverageDisplay.from_estimator(fitted, X[1000:], wrong)
    with pytest.raises(ValueError, match="n_levels must be a whole number of at least 1, got 0"):
        CoverageDisplay.from_estimator(fitted, X[1000:], y[1000:], n_levels=0)


def test_an_interval_for_nearly_all_is_finite(fitted):
    X, _, _ = ratings()
    assert np.all(np.isfinite(fitted.predict_interval(X[:5], 1 - 1e-16)))
