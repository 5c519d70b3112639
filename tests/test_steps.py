"""Large tables of one-hot fields, where "auto" stands for stochastic steps, as many as are best on held-out rows."""

import signal
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss

from polyfm import (
    FactorizationMachineClassifier,
    FactorizationMachineClassifierCV,
    FactorizationMachineOrdinal,
    FactorizationMachineRegressor,
)
from polyfm.core.design import Design
from polyfm.core.model import build_model
from polyfm.solvers import registry
from polyfm.solvers.monitor import Monitor
from polyfm.training.checkpoint import Checkpoint
from polyfm.training.hooks import EarlyStopping, watching

FIELDS, SIZE = 6, 12


def clicks(n: int, seed: int = 0):
    """One-hot fields, and classes drawn from a machine of rank 2 that is the same for all seeds."""
    rng, truth = np.random.RandomState(seed), np.random.RandomState(7)
    codes = rng.randint(SIZE, size=(n, FIELDS)) + SIZE * np.arange(FIELDS)
    X = sp.csr_matrix((np.ones(codes.size), codes.ravel(), np.arange(0, codes.size + 1, FIELDS)))
    P = 0.6 * truth.standard_normal((X.shape[1], 2))
    f = 0.5 * (np.square(X @ P) - X @ np.square(P)).sum(axis=1) + X @ (0.3 * truth.standard_normal(X.shape[1]))
    return X, np.where(rng.uniform(size=n) < 1 / (1 + np.exp(-f)), "yes", "no"), f


def ratings(n: int, size: float):
    """Two large fields and three small ones: mostly linear weights, and bases of this size for the large ones."""
    sizes, rng = (120, 100, 6, 5, 4), np.random.RandomState(0)
    codes = np.column_stack([rng.randint(s, size=n) for s in sizes]) + np.cumsum((0, *sizes[:-1]))
    X = sp.csr_matrix((np.ones(codes.size), codes.ravel(), np.arange(0, codes.size + 1, len(sizes))))
    P = size * rng.standard_normal((X.shape[1], 2))
    P[sum(sizes[:2]) :] = 0
    f = 0.5 * (np.square(X @ P) - X @ np.square(P)).sum(axis=1) + X @ (0.8 * rng.standard_normal(X.shape[1]))
    return X, f + rng.standard_normal(n)


@pytest.fixture
def few_are_many(monkeypatch):
    monkeypatch.setattr(registry, "MANY_NONZEROS", 2**12)


def machine(**options):
    return FactorizationMachineClassifier(**{"n_components": 4, "random_state": 0, "verbose": 0} | options)


def of_lengths(lengths) -> sp.csr_matrix:
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([np.arange(n) for n in lengths])
    return sp.csr_matrix((np.ones(len(indices)), indices, indptr), shape=(len(lengths), max(lengths)))


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([6] * 1000, True),
        ([5, 7] * 500, True),  # gaps
        ([6] * 100, False),  # few
        ([4] * 2000, False),  # ratings: block descent
        ([80] * 500, False),  # long rows: text
        ([1] * 400 + [40] * 200, False),  # rows of unequal lengths: text
    ],
)
def test_steps_are_for_many_rows_of_several_fields(few_are_many, lengths, expected):
    model, X = build_model("anova", "direct", 2, 3, None, True, True), of_lengths(lengths)
    for data in (X, X.tocsc(), sp.csr_array(X), Design(X, "shuffled")):
        assert registry.takes_steps(model, data) is expected
    assert not registry.takes_steps(model, X.toarray())
    assert not registry.takes_steps(build_model("homogeneous", "direct", 2, 3, None, False, True), X)


def test_a_large_table_is_learned_by_steps_that_are_better_than_the_linear_model_and_descent(few_are_many):
    (X, y, _), (X_test, y_test, _) = clicks(6000), clicks(4000, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fm = machine().fit(X, y)
    assert fm.solver_ == "sgd"
    assert 1 <= fm.n_iter_ <= 10
    linear = LogisticRegression().fit(X, y)
    descent = machine(solver="cd").fit(X, y)
    loss, others = log_loss(y_test, fm.predict_proba(X_test)), (linear, descent)
    assert loss < min(log_loss(y_test, other.predict_proba(X_test)) for other in others) + 0.005
    assert loss < log_loss(y_test, linear.predict_proba(X_test)) - 0.02
    assert_array_equal(machine(n_jobs=2).fit(X, y).components_, fm.components_)


def test_epochs_are_counted_for_given_penalties_and_max_iter_is_still_the_most(few_are_many):
    X, y, _ = clicks(6000)
    weak = machine(alpha=0.01, beta=0.01).fit(X, y)
    to_the_end = machine(alpha=0.01, beta=0.01, solver="sgd", max_iter=200).fit(X, y)
    assert weak.n_iter_ < to_the_end.n_iter_
    X_test, y_test, _ = clicks(4000, 1)
    assert log_loss(y_test, weak.predict_proba(X_test)) < log_loss(y_test, to_the_end.predict_proba(X_test))
    with pytest.warns(match="Not converged after max_iter=1") if weak.n_iter_ > 1 else warnings.catch_warnings():
        assert machine(alpha=0.01, beta=0.01, max_iter=1).fit(X, y).n_iter_ == 1
    one = machine(beta=5.0).fit(X, y)
    assert (one.solver_, one.beta_) == ("sgd", 5.0)


def test_progress_is_of_the_epochs_that_were_chosen(few_are_many):
    X, y, _ = clicks(1500)
    seen = []
    with watching(seen.append):
        model = machine().fit(X, y)
    assert [(p.done, p.total) for p in seen if p.stage == "training"][-1] == (model.n_iter_, model.n_iter_)


def test_targets_are_regressed_with_weights_and_numbers_beside_the_fields(few_are_many):
    X, _, f = clicks(6000)
    rng = np.random.RandomState(3)
    numbers = rng.standard_normal((X.shape[0], 2))
    y = f + numbers[:, 0] * numbers[:, 1] + 0.3 * rng.standard_normal(X.shape[0])
    wide = sp.hstack([X, sp.csr_matrix(numbers)]).tocsr()
    weight = rng.uniform(0.5, 2, X.shape[0])
    fm = FactorizationMachineRegressor(n_components=6, random_state=0).fit(wide[:5000], y[:5000], weight[:5000])
    assert fm.solver_ == "sgd"
    assert fm.score(wide[5000:], y[5000:]) > 0.8


def test_features_of_very_different_sizes_are_learned_by_descent(few_are_many):
    X, y, _ = clicks(2000)
    year = sp.csr_matrix(np.random.RandomState(3).randint(1990, 2020, (X.shape[0], 1)).astype(float))
    wide, alike = sp.hstack([X, year]).tocsr(), sp.hstack([X, year / 100]).tocsr()
    with pytest.warns(UserWarning, match="Features differ in size"):
        assert machine(alpha=1.0, beta=1.0).fit(wide, y).solver_ == "cd"
    assert machine(alpha=1.0, beta=1.0).fit(alike, y).solver_ == "sgd"


def test_nobody_is_warned_of_steps_that_were_only_tried(few_are_many):
    X, _, f = clicks(3000)
    numbers = np.exp(1.5 * np.random.RandomState(0).standard_normal((X.shape[0], 2)))
    wide = sp.hstack([X, sp.csr_matrix(numbers)]).tocsr()
    fm = FactorizationMachineRegressor(degree=3, alpha=0.0, beta=0.0, n_components=10, random_state=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fm.fit(wide, f)
    halved = [warning for warning in told if "halved" in str(warning.message)]
    assert len(halved) <= (fm.solver_ == "sgd")  # by the fit itself


def test_several_classes_have_their_own_epochs(few_are_many):
    X, _, f = clicks(6000)
    y = np.digitize(f, np.quantile(f, [0.3, 0.7]))
    fm = machine().fit(X, y)
    assert fm.solver_ == "sgd"
    assert fm.score(X, y) > 0.7


def test_early_stopping_holds_out_its_own_rows(few_are_many):
    X, y, _ = clicks(6000)
    fm = machine(alpha=1.0, beta=2.0, early_stopping=True, n_iter_no_change=2).fit(X, y)
    assert fm.solver_ == "sgd"
    assert len(fm.validation_losses_) == fm.n_iter_
    assert np.argmin(fm.validation_losses_) == fm.n_iter_ - 3 or fm.n_iter_ < 4


def test_a_stopped_fit_goes_on_to_the_same_bits(few_are_many, tmp_path, monkeypatch):
    X, y, _ = clicks(6000)
    expected = machine(beta=2.0).fit(X, y)
    assert expected.n_iter_ > 1
    path, write = tmp_path / "fit", Checkpoint.__call__

    def dies(self, monitor, state):
        write(self, monitor, state)
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "__call__", dies)
        with pytest.raises(MemoryError):
            machine(beta=2.0, checkpoint=path, checkpoint_interval=1).fit(X, y)
    assert path.exists()
    again = machine(beta=2.0, checkpoint=path, checkpoint_interval=1).fit(X, y)
    assert_array_equal(again.components_, expected.components_)
    assert again.n_iter_ == expected.n_iter_


def test_a_warm_start_goes_on_and_keeps_what_was_chosen(few_are_many):
    X, y, _ = clicks(6000)
    fm = machine(warm_start=True).fit(X, y)
    beta, n_iter, objective = fm.beta_, fm.n_iter_, fm.objective_
    fm.fit(X, y)
    assert (fm.solver_, fm.beta_, fm.n_iter_) == ("sgd", beta, n_iter)
    assert fm.objective_ <= objective
    assert fm.set_params(solver="cd", tol=1e-6).fit(X, y).n_iter_ > n_iter  # whose epochs are others


def test_a_warm_start_with_new_rows_does_not_learn_their_noise(few_are_many):
    (X, y, _), (X_new, y_new, _), (X_test, y_test, _) = (clicks(6000, seed) for seed in range(3))
    fm = machine(alpha=1.0, beta=0.5, warm_start=True).fit(X, y)
    first = log_loss(y_test, fm.predict_proba(X_test))
    assert log_loss(y_test, fm.fit(X_new, y_new).predict_proba(X_test)) < first + 0.005


def test_a_warm_start_after_early_stopping_counts_epochs_anew(few_are_many):
    X, y, _ = clicks(6000)
    fm = machine(alpha=0.01, beta=0.01, early_stopping=True, n_iter_no_change=3, warm_start=True).fit(X, y)
    assert fm.n_iter_ > 3
    expected = machine(alpha=0.01, beta=0.01).fit(X, y).n_iter_
    assert fm.set_params(early_stopping=False).fit(X, y).n_iter_ == expected


def test_where_held_out_rows_want_the_linear_model_they_get_it(few_are_many):
    X, y = ratings(6000, size=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fm = FactorizationMachineRegressor(n_components=4, random_state=0, warm_start=True).fit(X, y)
    linear = Ridge(alpha=fm.alpha_).fit(X, y)
    assert_allclose(fm.predict(X), linear.predict(X), atol=0.05)
    assert fm.solver_ == fm.fit(X, y).solver_ == "cd"


def test_steps_that_begin_worse_than_the_linear_model_are_tried_at_weaker_penalties(few_are_many):
    X, y = ratings(12000, size=0.7)
    fm = FactorizationMachineRegressor(n_components=2, random_state=0).fit(X[:9000], y[:9000])
    linear = Ridge(alpha=fm.alpha_).fit(X[:9000], y[:9000])
    assert fm.score(X[9000:], y[9000:]) > linear.score(X[9000:], y[9000:]) + 0.05


def test_what_compares_minima_descends(few_are_many):
    X, y, _ = clicks(2000)
    search = FactorizationMachineClassifierCV(n_components=2, n_betas=2, cv=2, random_state=0).fit(X, y)
    assert search.solver_ == "cd"
    assert machine(fit_lambdas=True, max_iter=20).fit(X, y).solver_ != "sgd"
    assert machine(n_components="auto", max_components=3, gap_tol=0.5).fit(X, y).solver_ != "sgd"
    assert FactorizationMachineOrdinal(n_components=2, random_state=0).fit(X, y).solver_ != "sgd"


def test_equal_rows_are_held_out_too_and_without_rows_to_hold_out_there_are_no_steps(few_are_many):
    X = clicks(10)[0]
    same = sp.vstack([X[:1]] * 5000).tocsr()  # which no hash tells from each other
    fields = np.tile(np.arange(10) * 2, (4, 1))
    fields[2:, 0], fields[1::2, 1] = 1, 3
    fours = sp.csr_matrix((np.ones(40), fields.ravel(), np.arange(0, 41, 10)), shape=(4, 20))
    labels = np.resize(["no", "yes", "yes", "no"], 5000)
    assert machine(alpha=1.0, beta=1.0).fit(sp.vstack([fours] * 1250).tocsr(), labels).solver_ == "sgd"
    one = FactorizationMachineRegressor(alpha=1.0, beta=1.0, random_state=0)
    assert one.fit(same, np.arange(5000.0), np.arange(5000) == 7).solver_ == "cd"


def test_enough_epochs_are_enough_whatever_the_objective_does():
    monitor = Monitor(1.0, 100, 0.5, window=1, enough=3)
    for objective in (0.99, 0.98):
        assert not monitor(objective, None)
    assert monitor(0.97, None)
    assert monitor.converged
    assert Monitor(1.0, 100, 0.5, history=[0.99, 0.98, 0.97], enough=3).done
    assert Monitor(1.0, 2, 0.5, history=[0.99, 0.98], enough=3).done


def test_early_stopping_may_ask_for_a_gain():
    class Judge:
        def __init__(self, losses):
            self.losses = iter(losses)

        def mean_loss(self, parameters):
            return next(self.losses)

    class State:
        parameters = np.zeros(1)

    monitor = Monitor(1.0, 100, 0.0)
    stopping = EarlyStopping(Judge([1.0, 0.9, 0.899, 0.5]), patience=1, gain=0.01)
    assert [stopping(monitor, State) for _ in range(3)] == [False, False, True]
    assert stopping.best == 0.899  # too small a gain ends it, and is kept


def test_early_stopping_waits_longer_until_a_goal_is_reached():
    class Judge:
        def __init__(self, losses):
            self.losses = iter(losses)

        def mean_loss(self, parameters):
            return next(self.losses)

    class State:
        parameters = np.zeros(1)

    def epochs(losses):
        stopping, monitor = EarlyStopping(Judge(losses), patience=1, goal=0.8, longer=3), Monitor(1.0, 100, 0.0)
        return next(n for n in range(1, 100) if stopping(monitor, State))

    assert epochs([0.9, 1.0, 1.1, 0.7, 0.71]) == 5
    assert epochs([0.9, 1.0, 1.1, 1.2]) == 4


def test_steps_that_first_lead_away_are_given_time_and_left_where_they_lead_nowhere(few_are_many):
    # Nothing but products of two features: held-out losses get worse for some epochs before they fall.
    rng = np.random.RandomState(3)
    codes, signs = rng.randint(300, size=(12_000, 5)), rng.choice([-1.0, 1.0], (2, 300))
    X = sp.csr_matrix((np.ones(codes.size), (codes + 300 * np.arange(5)).ravel(), np.arange(0, codes.size + 1, 5)))
    y = signs[0][codes[:, 0]] * signs[1][codes[:, 1]] > 0
    chosen = machine(n_components=8).fit(X[:11_000], y[:11_000])
    assert chosen.solver_ == "sgd"
    assert chosen.score(X[11_000:], y[11_000:]) > 0.95
    nothing = machine(n_components=8, alpha=0.5, beta=0.5).fit(X[:11_000], rng.uniform(size=11_000) > 0.5)
    assert nothing.solver_ == "cd"  # constants were better than all epochs


def test_products_of_three_features_are_left_to_descent(few_are_many):
    X, _, f = clicks(2000)
    options = {"n_components": 2, "alpha": 1.0, "beta": 1.0, "max_iter": 2, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert FactorizationMachineRegressor(**options).fit(X, f).solver_ == "sgd"
        assert FactorizationMachineRegressor(degree=3, **options).fit(X, f).solver_ == "cd"


def test_a_choice_that_was_cut_short_is_made_anew(few_are_many):
    X, y, _ = clicks(3000)
    looks = []

    def look(progress):
        looks.append(progress)
        if progress.stage == "searching" and sum(p.stage == "searching" for p in looks) == 9:
            signal.raise_signal(signal.SIGINT)

    model = machine(warm_start=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with watching(look):
            model.fit(X, y)
        assert model.beta_ != machine().fit(X, y).beta_
        assert model.fit(X, y).beta_ == machine().fit(X, y).beta_
