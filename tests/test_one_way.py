"""Fits, searches, streams and paths go one way: what holds for one of them holds for all, whatever the solver."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_array_equal
from sklearn.base import clone

from polyfm import (
    FactorizationMachineClassifier,
    FactorizationMachineClassifierCV,
    FactorizationMachineRegressor,
    FactorizationMachineRegressorCV,
)
from polyfm.cli.main import cli
from polyfm.solvers import SGD, SOLVERS
from polyfm.solvers.coordinate_descent import CoordinateDescent
from polyfm.training.checkpoint import Checkpoint
from polyfm.training.hooks import watching

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FIXED = {"random_state": 0, "alpha": 0.1, "beta": 0.01, "n_components": 3}


@pytest.fixture
def data(rng):
    X = rng.standard_normal((120, 6))
    return X, X[:, 0] * X[:, 1] + X[:, 2] + rng.standard_normal(120)


class Killed(BaseException):
    pass


def killed_after(n_writes: int, monkeypatch) -> None:
    """Training dies once so many checkpoints have been written."""
    write, calls = Checkpoint.__call__, []

    def die(self, monitor, state):
        write(self, monitor, state)
        calls.append(1)
        if len(calls) == n_writes:
            raise Killed
        return False

    monkeypatch.setattr(Checkpoint, "__call__", die)


def interrupted_at(n_updates: int, monkeypatch) -> list:
    """Ctrl-C comes in an epoch of coordinate descent; the list grows with every epoch."""
    update, calls = CoordinateDescent.update, []

    def interrupt(self, problem, state):
        calls.append(1)
        if len(calls) == n_updates:
            raise KeyboardInterrupt
        return update(self, problem, state)

    monkeypatch.setattr(CoordinateDescent, "update", interrupt)
    return calls


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_command_line_offers_every_solver(data, tmp_path, solver):
    X, y = data
    table = tmp_path / "t.csv"
    np.savetxt(table, np.column_stack([X, y]), delimiter=",", header="a,b,c,d,e,f,y", comments="")
    words = ["fit", str(table), "--target", "y", "--solver", solver, "--max-iter", "3", "--json", "--beta", "0.1"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["solver"] == solver


@pytest.mark.parametrize("solver", SOLVERS)
def test_folds_of_a_search_are_trained_as_the_refit_is(data, solver):
    X, y = data
    train, test = np.arange(90), np.arange(90, 120)
    options = {"solver": solver, "max_iter": 5, "random_state": 3, "alpha": 0.1}
    search = FactorizationMachineRegressorCV(betas=[0.1], cv=[(train, test)], **options).fit(X, y)
    plain = FactorizationMachineRegressor(beta=0.1, **options)
    assert search.cv_scores_[0, 0] == clone(plain).fit(X[train], y[train]).score(X[test], y[test])
    assert_array_equal(search.components_, clone(plain).fit(X, y).components_)
    assert search.solver_ == solver


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_stops_a_search_and_keeps_the_best_model_so_far(data, monkeypatch, n_jobs):
    X, y = data
    calls = interrupted_at(40, monkeypatch)
    search = FactorizationMachineRegressorCV(
        n_betas=3, cv=5, max_iter=5, tol=0, random_state=0, n_jobs=n_jobs, solver="cd"
    )
    with pytest.warns(UserWarning, match=r"The search was interrupted after \d+ of 15 fits. The best model so far"):
        search.fit(X, y)
    assert len(calls) == 40 if n_jobs == 1 else len(calls) < 75  # nobody went on to the end
    known = np.isfinite(search.cv_scores_)
    assert 0 < known.sum() < 15
    assert search.best_score_ == np.nanmean(search.cv_scores_[search.betas_ == search.beta_])
    assert np.nanmax(search.cv_scores_) == np.nanmax(search.cv_scores_[search.betas_ == search.beta_])
    assert search.score(X, y) > 0
    assert search.n_iter_ == 5  # a whole fit, not the half one


def test_ctrl_c_before_there_is_anything_to_keep_is_raised(data, monkeypatch):
    interrupted_at(2, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        FactorizationMachineRegressorCV(n_betas=3, cv=3, solver="cd", random_state=0).fit(*data)


@pytest.mark.parametrize("kind", [FactorizationMachineRegressorCV, FactorizationMachineClassifierCV])
def test_whoever_watches_a_search_sees_it_move(data, kind):
    X, y = data
    y = y if kind is FactorizationMachineRegressorCV else np.digitize(y, [-0.5, 0.5])
    seen = []
    with watching(seen.append):
        search = kind(n_betas=3, cv=3, max_iter=3, random_state=0).fit(X, y)
    searching = [step for step in seen if step.stage == "searching"]
    done = [step.done for step in searching]
    assert done == sorted(done)
    assert len(set(done)) >= 9
    assert round(done[-1], 9) == searching[-1].total == search.cv_scores_.size
    assert seen[-1].stage == "training"  # the refit


def test_whoever_watches_a_fit_can_stop_it(data):
    seen = []

    def watch(progress):
        seen.append((progress.done, progress.objective))
        return len(seen) == 3

    with watching(watch):
        model = FactorizationMachineRegressor(tol=0, max_iter=50, **FIXED).fit(*data)
    assert model.n_iter_ == 3
    assert seen == list(zip([1, 2, 3], model.history_, strict=True))


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("solver", SOLVERS)
def test_early_stopping_survives_a_checkpoint_to_the_same_bits(data, tmp_path, monkeypatch, solver, classes):
    X, y = data
    y = np.digitize(y, [-0.5, 0.5]) if classes else y
    kind = FactorizationMachineClassifier if classes else FactorizationMachineRegressor
    options = {**FIXED, "solver": solver, "early_stopping": True, "n_iter_no_change": 2, "max_iter": 12, "tol": 1e-9}
    whole = kind(**options).fit(X, y)
    path = tmp_path / "run"
    for n_writes in (1, 2, 4, 7, 11):
        model = kind(checkpoint=path, checkpoint_interval=1, **options)
        with monkeypatch.context() as patch:
            killed_after(n_writes, patch)
            try:
                model.fit(X, y)
            except Killed:
                model = clone(model).fit(X, y)
        assert_array_equal(model.components_, whole.components_)
        assert_array_equal(model.history_, whole.history_)
        assert_array_equal(model.validation_losses_, whole.validation_losses_)
        assert not path.exists()


def test_nothing_stays_behind_from_an_earlier_fit(data):
    X, y = data
    model = FactorizationMachineRegressor(early_stopping=True, **FIXED).fit(X, y)
    assert hasattr(model, "validation_losses_")
    model.set_params(early_stopping=False).fit(X, y)
    assert not hasattr(model, "validation_losses_")
    model.set_params(solver="sgd").partial_fit(X, y)
    assert not hasattr(model, "history_")
    assert not hasattr(model, "objective_")
    assert (model.n_iter_, model.n_samples_seen_) == (1, 120)
    model.fit(X, y)
    assert not hasattr(model, "n_samples_seen_")
    model.partial_fit(X, y)
    assert model.n_samples_seen_ == 120


def test_validation_losses_are_those_of_all_classes(data):
    X, y = data
    model = FactorizationMachineClassifier(early_stopping=True, max_iter=3, tol=0, **FIXED)
    several = model.fit(X, np.digitize(y, [-0.5, 0.5])).validation_losses_
    binary = clone(model).fit(X, y > 0).validation_losses_
    assert several.shape == binary.shape
    assert several[0] > 1.5 * binary[0]  # a sum over three problems, as `history_` is


def test_a_batch_that_is_interrupted_leaves_the_model_of_the_last_whole_one(data, monkeypatch):
    X, y = data
    codes = np.digitize(y, [-0.5, 0.5])
    model = FactorizationMachineClassifier(solver="sgd", **FIXED).partial_fit(X, codes, classes=[0, 1, 2])
    before, stream, calls = model.predict_proba(X), SGD.stream, []

    def interrupt(self, problem, state):
        stream(self, problem, state)
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(SGD, "stream", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, codes)
    assert_array_equal(model.predict_proba(X), before)
    monkeypatch.setattr(SGD, "stream", stream)
    assert model.partial_fit(X, codes).n_iter_ == 1


def test_a_batch_is_never_larger_than_the_data(data):
    FactorizationMachineRegressor(solver="sgd", batch_size=10**15, max_iter=1, **FIXED).fit(*data)
