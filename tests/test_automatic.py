"""Penalties that the data choose: the parts they are made of against slow references, and what is promised of them."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import Ridge

from polyfm import (
    FactorizationMachineClassifier,
    FactorizationMachineClassifierCV,
    FactorizationMachineRegressor,
    FactorizationMachineRegressorCV,
    PolynomialNetworkRegressor,
    load_model,
    save_model,
)
from polyfm.core import linear
from polyfm.core.linear import Linear, fit_linear, response_of, slopes
from polyfm.core.parameters import Parameters
from polyfm.core.spectrum import beta_max
from polyfm.losses import as_loss
from polyfm.solvers import schedule
from polyfm.training import automatic
from polyfm.training.automatic import _beside
from polyfm.training.folds import ranks_by_content, row_hashes, sample_by_content

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Smooth:
    """A user's own loss: log cosh of the residual."""

    curvature = 1.0

    def value(self, y, f):
        r = abs(f - y)
        return r + np.log1p(np.exp(-2.0 * r)) - np.log(2.0)

    def derivative(self, y, f):
        return np.tanh(f - y)


@pytest.fixture(scope="module")
def interacting():
    """Three one-hot fields whose first two interact, and noise."""
    rng = np.random.RandomState(0)
    a, b, c = rng.randint(12, size=600), rng.randint(9, size=600), rng.randint(4, size=600)
    X = sp.csr_matrix(
        (np.ones(1800), np.column_stack([a, 12 + b, 21 + c]).ravel(), 3 * np.arange(601)), shape=(600, 25)
    )
    table = 1.5 * rng.standard_normal((12, 2)) @ rng.standard_normal((2, 9))
    return X, table[a, b] + 0.3 * c + 0.5 * rng.standard_normal(600)


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge", Smooth()])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_linear_model_is_the_minimum_of_its_objective(rng, loss, weighted):
    X, y = rng.standard_normal((80, 4)), np.sign(rng.standard_normal(80))
    weight = rng.uniform(0.5, 2, 80) if weighted else None
    response, alpha = response_of(as_loss(loss), y, weight), np.array([0.5, 1.0, 2.0, 3.0])
    found = fit_linear(X, response, alpha, True, rtol=1e-9)

    def objective(theta):
        f = X @ theta[:4] + theta[4]
        losses = [as_loss(loss).value(y_i, f_i) for y_i, f_i in zip(y, f, strict=True)]
        return np.dot(np.ones(80) if weight is None else weight, losses) + 0.5 * alpha @ theta[:4] ** 2

    best = minimize(objective, np.zeros(5), tol=1e-12)
    assert objective(np.append(found.coef, found.intercept)) <= best.fun * (1 + 1e-8)


def test_the_linear_model_of_the_squared_loss_is_ridge_regression(interacting):
    X, y = interacting
    found = fit_linear(X, response_of(as_loss("squared"), y, None), np.full(25, 2.0), True, rtol=1e-12)
    expected = Ridge(alpha=2.0, solver="svd").fit(X.toarray(), y)
    assert_allclose(found.coef, expected.coef_, atol=1e-6)
    assert_allclose(found.intercept, expected.intercept_, atol=1e-6)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_linear_model_that_starts_near_its_minimum_takes_fewer_products(interacting, loss, monkeypatch):
    X, y = interacting
    response, alpha, products = response_of(as_loss(loss), np.sign(y), None), np.full(25, 2.0), []
    conjugate = linear._conjugate_gradients

    def counted(product, *arguments):
        return conjugate(lambda v: products.append(1) or product(v), *arguments)

    monkeypatch.setattr(linear, "_conjugate_gradients", counted)
    exact = fit_linear(X, response, alpha, True, rtol=1e-10)
    counts, found = [], []
    for start in (None, fit_linear(X, response, 1.1 * alpha, True), exact):
        products.clear()
        found.append(fit_linear(X, response, alpha, True, start, of_constant=True).coef)
        counts.append(len(products))
    assert counts[0] > counts[1] > counts[2] == 0
    for coef in found:
        assert_allclose(coef, exact.coef, atol=0.01)


@pytest.mark.filterwarnings("error")
def test_the_linear_model_follows_gradients_whose_squares_overflow(rng):
    X = 1e100 * rng.standard_normal((20, 2))
    response = response_of(as_loss("squared"), X @ [1.0, 2.0], None)
    assert_allclose(fit_linear(X, response, np.zeros(2), False).coef, [1, 2], rtol=1e-2)


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("n_features", [5, 80])  # decomposed as a whole, or by Lanczos
def test_beta_max_is_an_extreme_eigenvalue(rng, repeats, signed, n_features):
    X, g = rng.standard_normal((60, n_features)), rng.standard_normal(60)
    Z = np.column_stack([X, np.ones(60)])
    A = (Z.T * g) @ Z
    if not repeats:
        A = (A - np.diag(np.diag(A))) / 2
    values = np.linalg.eigvalsh(A)
    expected = np.abs(values).max() if signed else -values.min()
    assert_allclose(beta_max(X, g, repeats=repeats, n_dummies=1, signed=signed), expected, rtol=0.01)


@quiet
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_interactions_vanish_just_above_beta_max_and_not_far_below(rng, loss):
    X = rng.standard_normal((120, 5))
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(120)
    cls = FactorizationMachineRegressor if loss == "squared" else FactorizationMachineClassifier
    targets = y if loss == "squared" else np.where(y > 0, 1.0, -1.0)
    response = response_of(as_loss(loss), targets, None)
    linear = fit_linear(X, response, np.ones(5), True, rtol=1e-9)
    largest = beta_max(X, slopes(response, linear.predict(X))[0], repeats=False, n_dummies=0, signed=False)
    options = {"alpha": 1.0, "max_iter": 3000, "tol": 1e-10, "random_state": 0}
    above = cls(beta=1.02 * largest, **options).fit(X, targets)
    below = cls(beta=0.9 * largest, **options).fit(X, targets)
    assert np.abs(above.components_).max() < 1e-2 * np.abs(below.components_).max()


def test_equal_rows_have_equal_ranks_however_they_are_stored(rng):
    X = rng.standard_normal((40, 3)) * (rng.uniform(size=(40, 3)) < 0.7)
    X[20:] = X[:20]
    ranks = ranks_by_content(X, None, 7)
    assert_array_equal(ranks[:20], ranks[20:])
    assert sorted(set(ranks)) == list(range(len(np.unique(X, axis=0))))
    for other in (sp.csr_matrix(X), X * np.array([3.0, 0.1, 1e6])):
        assert_array_equal(ranks_by_content(other, None, 7), ranks)
    order = rng.permutation(40)
    assert_array_equal(ranks_by_content(X[order], None, 7), ranks[order])
    assert not np.array_equal(ranks_by_content(X, None, 8), ranks)


def test_classes_are_spread_over_all_folds_and_many_copies_are_told_apart(rng):
    X, strata = rng.standard_normal((100, 2)), np.repeat([0, 1], [90, 10])
    ranks = ranks_by_content(X, strata, 0)
    assert_array_equal(np.bincount(ranks[strata == 1] % 5), [2, 2, 2, 2, 2])
    few = np.tile(np.eye(3), (50, 1))  # three distinct rows: they must not be held out as wholes
    assert len(set(ranks_by_content(few, None, 0))) == 150


def test_a_sample_by_content_has_about_the_share_that_was_asked_for(rng):
    X = sp.random(20_000, 30, density=0.2, format="csr", random_state=rng)
    assert 0.28 < len(sample_by_content(X, 0.3, 0)) / 20_000 < 0.32
    assert len(np.unique(row_hashes(X, 0))) > 0.97 * 20_000


def test_defaults_find_interactions_where_there_are_some_and_none_in_noise(interacting):
    X, y = interacting
    train, test = np.arange(450), np.arange(450, 600)
    model = FactorizationMachineRegressor(random_state=0).fit(X[train], y[train])
    linear = Ridge(alpha=1.0).fit(X[train], y[train])
    assert model.score(X[test], y[test]) > linear.score(X[test], y[test]) + 0.3
    noise = np.random.RandomState(1).standard_normal(600)
    assert (
        abs(FactorizationMachineRegressor(random_state=0).fit(X[train], noise[train]).score(X[test], noise[test])) < 0.1
    )


@quiet
@pytest.mark.parametrize(
    "estimator",
    [
        FactorizationMachineRegressor(),
        FactorizationMachineRegressor(degree=3, n_components=3),
        FactorizationMachineRegressor(fit_linear=False),
        FactorizationMachineRegressor(loss="squared", fit_lower="augment", degree=3, n_components=3),
        FactorizationMachineRegressor(method="lifted"),
    ],
)
def test_the_choice_follows_the_units_of_features_and_targets(interacting, estimator):
    X, y = interacting[0][:200], interacting[1][:200]
    if estimator.fit_lower == "augment":
        first, other = (clone(estimator).set_params(random_state=0).fit(X, unit * y) for unit in (1.0, 50.0))
        assert_allclose(other.predict(X), 50 * first.predict(X), rtol=1e-3, atol=1e-3)
        return
    first = clone(estimator).set_params(random_state=0).fit(X, y)
    other = clone(estimator).set_params(random_state=0).fit(0.02 * X, 50 * y)
    assert_allclose(other.alpha_, 0.0004 * first.alpha_, rtol=1e-6)
    assert_allclose(other.predict(0.02 * X), 50 * first.predict(X), rtol=1e-4, atol=1e-4)


@quiet
@pytest.mark.parametrize("kind", [FactorizationMachineRegressor, FactorizationMachineClassifier])
def test_a_weight_is_a_number_of_copies_in_any_order(interacting, kind):
    X, y = interacting[0][:150], interacting[1][:150]
    y = y if kind is FactorizationMachineRegressor else np.digitize(y, [-1.0, 1.0])
    weight = np.random.RandomState(3).randint(0, 4, size=150)
    rows = np.random.RandomState(4).permutation(np.repeat(np.arange(150), weight))
    weighted = kind(random_state=0).fit(X, y, sample_weight=weight)
    repeated = kind(random_state=0).fit(X[rows], y[rows])
    assert_allclose([repeated.alpha_, repeated.beta_], [weighted.alpha_, weighted.beta_], rtol=1e-6)
    assert_allclose(getattr(weighted, "decision_function", weighted.predict)(X),
                    getattr(repeated, "decision_function", repeated.predict)(X), rtol=1e-5, atol=1e-5)  # fmt: skip


def test_numbers_are_taken_as_they_are_and_each_penalty_is_chosen_alone(interacting):
    X, y = interacting
    given = FactorizationMachineRegressor(alpha=0.5, beta=2.0, random_state=0).fit(X, y)
    assert (given.alpha_, given.beta_) == (0.5, 2.0)
    both = FactorizationMachineRegressor(random_state=0).fit(X, y)
    alone = FactorizationMachineRegressor(beta=2.0, random_state=0).fit(X, y)
    assert alone.alpha_ == both.alpha_ != 0.5
    assert alone.beta_ == 2.0
    by_feature = FactorizationMachineRegressor(alpha=np.linspace(0.5, 1, 25), random_state=0).fit(X, y)
    assert_array_equal(by_feature.alpha_, np.linspace(0.5, 1, 25))
    assert 0 < by_feature.beta_ < 100


@quiet
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "squared", Smooth()])
def test_every_loss_of_classes_has_its_choice(interacting, loss):
    X, y = interacting
    model = FactorizationMachineClassifier(loss=loss, n_components=4, random_state=0).fit(X[:450], y[:450] > 0)
    assert model.score(X[450:], y[450:] > 0) > 0.75
    assert model.beta_ > 0


@quiet
def test_a_warm_start_and_a_stream_keep_what_was_chosen_first(interacting):
    X, y = interacting
    warm = FactorizationMachineRegressor(degree=3, n_components=2, warm_start=True, max_iter=2, random_state=0)
    chosen = warm.fit(X, y).beta_.copy()
    assert_array_equal(warm.fit(X[:300], y[:300]).beta_, chosen)
    stream = FactorizationMachineRegressor(solver="sgd", random_state=0).partial_fit(X[:300], y[:300])
    first = stream.beta_
    assert stream.partial_fit(X[300:], 100 * y[300:]).beta_ == first
    assert stream.fit(X, 100 * y).beta_ != first


def test_the_same_seed_gives_the_same_choice_and_verbose_shows_it(interacting, capsys):
    X, y = interacting
    first = FactorizationMachineRegressor(random_state=5, verbose=1).fit(X, y)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("choosing penalties")]
    assert any("alpha" in line for line in lines)
    assert any("beta" in line for line in lines)
    again = FactorizationMachineRegressor(random_state=5, n_jobs=2).fit(X, y)
    assert_array_equal(first.components_, again.components_)


def test_a_checkpoint_goes_on_with_the_same_choice(interacting, tmp_path, monkeypatch):
    X, y = interacting
    model = FactorizationMachineRegressor(
        checkpoint=tmp_path / "run", checkpoint_interval=1, tol=0, max_iter=6, random_state=0
    )
    whole = clone(model).set_params(checkpoint=None)
    with pytest.warns(match="Not converged"):
        whole.fit(X, y)
    monkeypatch.setattr("pathlib.Path.unlink", lambda *_, **__: None)
    with pytest.warns(match="Not converged"):
        clone(model).set_params(max_iter=3).fit(X, y)
    monkeypatch.undo()
    with pytest.warns(match="Not converged"):
        resumed = clone(model).fit(X, y)
    assert_array_equal(resumed.components_, whole.components_)
    assert_array_equal(resumed.history_, whole.history_)


@pytest.mark.parametrize("y", [np.zeros(6), np.arange(6.0)])
def test_hardly_any_data_have_a_choice_too(y):
    for X in (np.eye(6), np.ones((6, 1)), np.zeros((6, 2))):
        model = FactorizationMachineRegressor(n_components=2, random_state=0).fit(X, y)
        assert np.isfinite(model.predict(X)).all()
        assert np.isfinite([model.alpha_, model.beta_]).all()
    assert PolynomialNetworkRegressor(n_components=2).fit(np.ones((1, 2)), [3.0]).predict(np.ones((1, 2))) > 0


# -- searches ---------------------------------------------------------------------------------------------------------


@quiet
def test_a_search_starts_where_interactions_vanish_and_goes_on_while_the_end_is_best(interacting):
    X, y = interacting
    search = FactorizationMachineRegressorCV(n_betas=4, cv=3, n_components=4, random_state=0).fit(X, y)
    options = {"alpha": search.alpha_, "tol": 1e-8, "max_iter": 2000, "random_state": 0}
    above = FactorizationMachineRegressor(beta=1.05 * search.betas_[0], **options).fit(X, y)
    assert np.abs(above.components_).max() < 1e-2
    noisy = y + 3 * np.random.default_rng(0).standard_normal(len(y))
    within = FactorizationMachineRegressorCV(n_betas=4, cv=3, n_components=4, random_state=0).fit(X, noisy)
    steps = -np.diff(np.log10(within.betas_))  # 3.5 / 3, and half of that beside the best of them
    assert_allclose(np.unique(steps.round(9)), [3.5 / 6, 3.5 / 3])
    assert within.best_score_ == within.cv_scores_.mean(axis=1).max()
    noiseless = X[:, 0].toarray().ravel() * X[:, 12].toarray().ravel()
    far = FactorizationMachineRegressorCV(alpha=1e-3, n_betas=4, cv=3, n_components=4, random_state=0)
    with pytest.warns(match="The weakest penalty of the path"):
        far.fit(X, noiseless)
    assert len(far.betas_) > 4
    assert far.cv_scores_.shape == (len(far.betas_), 3)


def test_a_search_over_classes_is_for_probabilities(interacting):
    X, y = interacting
    search = FactorizationMachineClassifierCV(n_betas=4, cv=3, n_components=4, random_state=0).fit(X, y > 0)
    assert np.all(search.cv_scores_ < 0)  # logarithms of probabilities
    by_accuracy = FactorizationMachineClassifierCV(
        n_betas=4, cv=3, n_components=4, scoring="accuracy", random_state=0
    ).fit(X, y > 0)
    assert np.all(by_accuracy.cv_scores_ > 0)


# -- weights of classes, validation rows, clipping --------------------------------------------------------------------


def test_weights_of_classes_multiply_those_of_samples(interacting):
    X, y = interacting
    labels = np.where(y > 2, "much", "little")
    options = {"alpha": 1.0, "beta": 1.0, "random_state": 0}
    given = FactorizationMachineClassifier(class_weight={"much": 3.0, "little": 1.0}, **options).fit(X, labels)
    expected = FactorizationMachineClassifier(**options).fit(X, labels, sample_weight=np.where(y > 2, 3.0, 1.0))
    assert_array_equal(given.components_, expected.components_)
    share = np.mean(y > 2)
    balanced = FactorizationMachineClassifier(class_weight="balanced", **options).fit(X, labels)
    weight = np.where(y > 2, 0.5 / share, 0.5 / (1 - share))
    expected = FactorizationMachineClassifier(**options).fit(X, labels, sample_weight=weight)
    assert_allclose(balanced.decision_function(X), expected.decision_function(X), rtol=1e-6)
    stream = FactorizationMachineClassifier(class_weight="balanced", solver="sgd", **options)
    with pytest.raises(ValueError, match="needs all rows at once"):
        stream.partial_fit(X, labels, classes=["little", "much"])


def test_early_stopping_can_be_judged_by_rows_of_the_users_own(interacting):
    X, y = interacting
    options = {"alpha": 1e-3, "beta": 1e-3, "tol": 0, "early_stopping": True, "random_state": 0}
    model = FactorizationMachineRegressor(**options).fit(X[:400], y[:400], X_val=X[400:], y_val=y[400:])
    best = model.validation_losses_.min()
    assert_allclose(np.mean((model.predict(X[400:]) - y[400:]) ** 2) / 2, best, rtol=1e-8)
    plain = FactorizationMachineRegressor(alpha=1.0, beta=1.0)
    with pytest.raises(ValueError, match="set early_stopping=True"):
        plain.fit(X, y, X_val=X, y_val=y)
    with pytest.raises(ValueError, match="X_val and y_val go together"):
        model.fit(X, y, X_val=X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y, X_val=X, y_val=y[:5])
    labels = np.digitize(y, [-1, 1])
    classes = FactorizationMachineClassifier(**options).fit(X[:400], labels[:400], X_val=X[400:], y_val=labels[400:])
    assert classes.n_iter_ < 200
    with pytest.raises(ValueError, match="y_val has the label '7'"):
        classes.fit(X, labels, X_val=X[:2], y_val=[0, 7])


def test_steep_polynomials_stay_where_held_out_rows_were_judged(interacting, tmp_path):
    X, y = interacting
    low, high = y.min(), y.max()
    options = {"n_components": 2, "max_iter": 5, "tol": 1, "random_state": 0}
    far = 100 * X
    for model in (FactorizationMachineRegressor(degree=3, **options), PolynomialNetworkRegressor(**options)):
        model.fit(X, y)
        f = model.predict(far)
        assert f.min() >= low - 0.25 * (high - low) - 1e-9
        assert f.max() <= high + 0.25 * (high - low) + 1e-9
        assert np.ptp(clone(model).set_params(clip=False).fit(X, y).predict(far)) > 100 * np.ptp(f)
        save_model(model, tmp_path / "m.polyfm")
        assert_array_equal(load_model(tmp_path / "m.polyfm").predict(far), f)
    for given in ({}, {"degree": 3, "alpha": 1.0, "beta": 1.0}):
        model = FactorizationMachineRegressor(**given, **options).fit(X, y)
        assert_array_equal(model.predict(far), model._raw_predict(far)[0])


def test_clipped_predictions_stay_within_the_targets_and_survive_a_file(interacting, tmp_path):
    X, y = interacting
    model = FactorizationMachineRegressor(alpha=1e-6, beta=1e-6, clip=True, random_state=0).fit(X[:60], y[:60])
    f = model.predict(X)
    assert f.min() == y[:60].min() or f.max() == y[:60].max()
    assert_allclose(
        f, np.clip(clone(model).set_params(clip=False).fit(X[:60], y[:60]).predict(X), *model.target_range_)
    )
    save_model(model, tmp_path / "m.polyfm")
    assert_array_equal(load_model(tmp_path / "m.polyfm").predict(X), f)


def test_features_of_very_different_sizes_are_said_aloud(rng):
    X = rng.standard_normal((100, 3))
    options = {"alpha": 1.0, "beta": 1.0, "random_state": 0}
    with pytest.warns(match="differ in size by a factor of .*StandardScaler"):
        FactorizationMachineRegressor(**options).fit(X * np.array([1.0, 1.0, 1e4]), X[:, 0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_raw_numbers_beside_categories_are_said_aloud_and_rare_categories_are_not(rng):
    category = np.eye(50)[rng.randint(50, size=30_000)]
    category[:, 0], category[0, 0] = 0.0, 1.0  # seen once
    options = {"alpha": 1.0, "beta": 1.0, "n_components": 1, "max_iter": 1, "tol": 0.5, "random_state": 0}
    y = category[:, 1]
    for convert in (np.asarray, sp.csr_array, sp.csc_array):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Features differ")
            FactorizationMachineRegressor(**options).fit(convert(category), y)
        priced = np.column_stack((category, 1e4 * (1 + rng.uniform(size=len(y)))))
        with pytest.warns(match="differ in size by a factor of 1"):
            FactorizationMachineRegressor(**options).fit(convert(priced), y)


def test_a_linear_model_that_single_precision_does_not_hold_is_no_start():
    parameters = Parameters((), (), np.zeros(2, dtype=np.float32), np.zeros(1, dtype=np.float32))
    found = _beside(parameters, Linear(np.array([1e300, 2.0]), -1e300))
    assert_array_equal(found.coef, np.array([0.0, 2.0], dtype=np.float32))
    assert found.intercept == 0
    assert found.coef.dtype == found.intercept.dtype == np.float32


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("target", [0.0, 3.0, -1e6])
@pytest.mark.parametrize("n_features", [30, 600])
def test_targets_that_are_all_the_same_ask_for_no_interactions(n_features, target):
    X = sp.random(2000, n_features, 0.1, format="csr", random_state=0)
    fm = FactorizationMachineRegressor(n_components=2, random_state=0).fit(X, np.full(2000, target))
    assert fm.beta_ > 0
    assert fm.n_iter_ < 30
    assert_allclose(fm.predict(X), target, rtol=1e-9, atol=1e-9)


@quiet
@pytest.mark.parametrize("n_rare", [1, 2])
def test_a_class_of_one_row_leaves_the_others_alone(interacting, n_rare):
    """Rows to train on are without it where it is held out, and say nothing of where to start from all of them."""
    X, y = interacting
    classes = (y > 0).astype(int)
    classes[:n_rare] = 2
    P = FactorizationMachineClassifier(n_components=2, random_state=0).fit(X, classes).predict_proba(X)
    of_two = FactorizationMachineClassifier(n_components=2, random_state=0).fit(X, y > 0).predict_proba(X)
    assert 1e-4 < np.median(P[n_rare:, 2]) < 0.02
    assert np.mean(np.abs(P[n_rare:, 1] - of_two[n_rare:, 1])) < 0.05


def test_a_start_that_is_worse_than_the_best_constant_is_none(rng):
    X = rng.standard_normal((50, 3))
    response = response_of(as_loss("logistic"), np.where(np.arange(50) == 7, 1.0, -1.0), None)
    alpha = np.full(3, 1e-3)
    wanted = fit_linear(X, response, alpha, True, rtol=1e-8)
    found = fit_linear(X, response, alpha, True, Linear(np.zeros(3), -1024.0), rtol=1e-8, of_constant=True)
    assert_allclose(found.coef, wanted.coef, rtol=1e-4)


@quiet
def test_folds_are_trained_by_the_solver_of_all_rows(monkeypatch, rng):
    """Though a fold alone would have too few rows for it."""
    monkeypatch.setattr(schedule, "NONZEROS_WORTH_A_THREAD", 900)
    solvers, begin = [], automatic.Path.__init__

    def noted(self, recipe, solver, *given):
        solvers.append(solver)
        begin(self, recipe, solver, *given)

    monkeypatch.setattr(automatic.Path, "__init__", noted)
    codes = rng.randint(20, size=(1000, 2)) + np.array([0, 20])
    X = sp.csr_matrix((np.ones(2000), codes.ravel(), np.arange(0, 2001, 2)))
    model = FactorizationMachineRegressor(n_components=8, max_iter=1).fit(X, rng.standard_normal(1000))
    assert model.solver_ == "block"
    assert set(solvers) == {"block"}
    assert len(solvers) > 1
