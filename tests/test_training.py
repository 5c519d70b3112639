"""Training that people can watch, stop and continue."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from polyfm import FactorizationMachineClassifier, FactorizationMachineRegressor, PolynomialNetworkRegressor
from polyfm.files import container
from polyfm.training import checkpoint as checkpoints
from polyfm.training.checkpoint import FORMAT, Checkpoint

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FIXED = {"random_state": 0, "tol": 0, "alpha": 1.0, "beta": 1.0}
ESTIMATORS = [
    FactorizationMachineRegressor(**FIXED),
    FactorizationMachineRegressor(degree=3, **FIXED),
    FactorizationMachineRegressor(fit_lambdas=True, **{**FIXED, "beta": 0.01}),
    FactorizationMachineRegressor(solver="sgd", **FIXED),
    FactorizationMachineRegressor(solver="sgd", shares=2, **FIXED),
    PolynomialNetworkRegressor(**FIXED),
    FactorizationMachineClassifier(**FIXED),
]


def target(estimator, y):
    return np.digitize(y, [-0.5, 0.5]) if isinstance(estimator, FactorizationMachineClassifier) else y


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_five_and_five_epochs_are_ten_bit_for_bit(small, estimator):
    X, y = small
    y = target(estimator, y)
    whole = clone(estimator).set_params(max_iter=10).fit(X, y)
    parts = clone(estimator).set_params(max_iter=5, warm_start=True).fit(X, y)
    first = parts.history_
    parts.fit(X, y)
    assert_array_equal(parts.components_, whole.components_)
    assert_array_equal(parts.coef_, whole.coef_)
    assert_array_equal(parts.intercept_, whole.intercept_)
    assert_array_equal(np.r_[first, parts.history_], whole.history_)


def test_warm_start_on_other_data_starts_from_the_parameters_alone(small):
    X, y = small
    model = FactorizationMachineRegressor(max_iter=5, warm_start=True, **FIXED).fit(X, y)
    expected = model.components_.copy()
    model.set_params(max_iter=1, beta=1e-9, alpha=1e-9).fit(X[:10], y[:10])
    assert np.all(np.isfinite(model.components_))
    assert not np.array_equal(model.components_, expected)
    assert_allclose(model.objective_, 0.5 * np.sum((model.predict(X[:10]) - y[:10]) ** 2), rtol=1e-4)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_training_resumes_from_a_checkpoint_to_the_same_result(small, estimator, tmp_path, monkeypatch):
    X, y = small
    y = target(estimator, y)
    path = tmp_path / "run.checkpoint"
    whole = clone(estimator).set_params(max_iter=9).fit(X, y)
    model = clone(estimator).set_params(max_iter=9, checkpoint=path, checkpoint_interval=2)
    calls = []

    class Killed(BaseException):
        pass

    write = Checkpoint.__call__

    def killed(self, monitor, state):
        write(self, monitor, state)
        calls.append(1)
        if len(calls) == 5:
            raise Killed
        return False

    monkeypatch.setattr(Checkpoint, "__call__", killed)
    with pytest.raises(Killed):
        model.fit(X, y)
    assert path.exists()
    assert os.listdir(tmp_path) == [path.name]  # nothing half-written lies about
    monkeypatch.setattr(Checkpoint, "__call__", write)
    again = clone(estimator).set_params(max_iter=9, checkpoint=str(path), checkpoint_interval=2).fit(X, y)
    assert_array_equal(again.components_, whole.components_)
    assert_array_equal(again.history_, whole.history_)
    assert not path.exists()  # training is complete


@pytest.mark.slow
def test_killed_process_resumes(tmp_path):
    """A real process, really killed."""
    script = textwrap.dedent("""
        import sys, warnings; import numpy as np; from polyfm import FactorizationMachineRegressor
        warnings.simplefilter("ignore")
        X = np.random.RandomState(0).standard_normal((2000, 30)); y = X[:, 0] * X[:, 1] + X[:, 2]
        path, epochs = sys.argv[1] or None, int(sys.argv[2])
        options = dict(checkpoint_interval=1, tol=0, max_iter=epochs, random_state=0)
        model = FactorizationMachineRegressor(checkpoint=path, **options).fit(X, y)
        print(repr(model.objective_), model.n_iter_)
    """)

    def start(path, epochs):
        return subprocess.Popen(
            [sys.executable, "-c", script, str(path), str(epochs)], stdout=subprocess.PIPE, text=True
        )

    path = tmp_path / "run"
    process = start(path, 100_000)
    deadline = time.time() + 60
    while not path.exists() and time.time() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert path.exists()
    _, arrays = container.read(path, FORMAT)
    done = len(arrays["0/history"]) - 1
    expected, _ = start("", done + 5).communicate()
    resumed, _ = start(path, done + 5).communicate()
    assert resumed == expected


def test_checkpoint_of_something_else_is_refused(small, tmp_path, monkeypatch):
    X, y = small
    path = tmp_path / "run"
    model = FactorizationMachineRegressor(checkpoint=path, **FIXED)
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match="is not a checkpoint that polyfm can read"):
        model.fit(X, y)
    path.unlink()
    other = clone(model).set_params(max_iter=3, checkpoint_interval=1)
    kept = tmp_path / "kept"
    write = checkpoints.write_checkpoint
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "write_checkpoint", lambda p, *args: write(kept, *args))
        other.fit(X, y)
    kept.rename(path)
    with pytest.raises(ValueError, match="checkpoint of other data, other parameters"):
        clone(model).set_params(beta=3.0).fit(X, y)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="is not a checkpoint"):
        clone(model).fit(X, y)


def test_interrupt_keeps_what_was_learned(small, monkeypatch):
    X, y = small
    from polyfm.solvers.coordinate_descent import CoordinateDescent

    update, calls = CoordinateDescent.update, []

    def interrupted(self, problem, state):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return update(self, problem, state)

    monkeypatch.setattr(CoordinateDescent, "update", interrupted)
    model = FactorizationMachineRegressor(max_iter=50, **FIXED)
    with pytest.warns(UserWarning, match="interrupted after 3 epoch"):
        model.fit(X, y)
    monkeypatch.setattr(CoordinateDescent, "update", update)
    expected = FactorizationMachineRegressor(max_iter=3, **FIXED).fit(X, y)
    assert_array_equal(model.predict(X), expected.predict(X))
    assert model.n_iter_ == 3


def test_interrupt_during_one_vs_rest_leaves_a_usable_classifier(small, monkeypatch):
    X, y = small
    from polyfm.solvers.coordinate_descent import CoordinateDescent

    update, calls = CoordinateDescent.update, []

    def interrupted(self, problem, state):
        calls.append(1)
        if len(calls) == 14:
            raise KeyboardInterrupt
        return update(self, problem, state)

    monkeypatch.setattr(CoordinateDescent, "update", interrupted)
    with pytest.warns(UserWarning, match="interrupted"):
        model = FactorizationMachineClassifier(max_iter=10, **FIXED).fit(X, np.digitize(y, [-0.5, 0.5]))
    assert model.predict_proba(X).shape == (30, 3)


def test_real_ctrl_c_stops_a_fit():
    script = textwrap.dedent("""
        import numpy as np; from polyfm import FactorizationMachineRegressor
        X = np.random.RandomState(0).standard_normal((20_000, 60)); y = X[:, 0] * X[:, 1] + X[:, 2]
        model = FactorizationMachineRegressor(alpha=1, beta=1, tol=0, max_iter=10**6, random_state=0, verbose=1)
        model.fit(X, y)
        print("score", model.score(X, y), model.n_iter_)
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in a shell's background it is ignored
    )  # fmt: skip
    assert process.stdout.readline().startswith("epoch")
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert "score 0.9" in out
    assert "interrupted" in err


def test_early_stopping_keeps_the_best_on_held_out_rows(rng):
    X = rng.standard_normal((200, 10))
    y = X[:, 0] * X[:, 1] + 2 * rng.standard_normal(200)
    options = {"n_components": 20, "max_iter": 200, **FIXED, "alpha": 0.0, "beta": 0.0}
    plain = FactorizationMachineRegressor(**options).fit(X[:150], y[:150])
    stopped = FactorizationMachineRegressor(early_stopping=True, **options).fit(X[:150], y[:150])
    assert stopped.n_iter_ < 200
    assert stopped.validation_losses_.argmin() == stopped.n_iter_ - 1 - 5
    assert stopped.score(X[150:], y[150:]) > plain.score(X[150:], y[150:])
    classifier = FactorizationMachineClassifier(early_stopping=True, validation_fraction=0.3, **FIXED)
    assert classifier.fit(X, y > 0).validation_losses_.shape == (classifier.n_iter_,)


def test_warm_start_after_early_stopping_goes_on_from_the_best_parameters(rng):
    """The last epoch's predictions do not belong to them."""
    X, y = rng.standard_normal((150, 6)), rng.standard_normal(150)
    model = FactorizationMachineRegressor(
        early_stopping=True, warm_start=True, n_iter_no_change=3, **{**FIXED, "beta": 1e-6}
    )
    model.fit(X, y)
    assert np.argmin(model.validation_losses_) < len(model.validation_losses_) - 1
    other = pickle.loads(pickle.dumps(model))  # does not carry over what lets a solver go on
    for again in (model, other):
        again.set_params(max_iter=1).fit(X, y)
    assert_array_equal(model.components_, other.components_)


def test_fitted_attributes_stay_when_another_batch_comes(small):
    X, y = small
    model = FactorizationMachineRegressor(solver="sgd", **FIXED).partial_fit(X, y)
    components, copy = model.components_, model.components_.copy()
    model.partial_fit(X, y)
    assert_array_equal(components, copy)
    assert not np.array_equal(model.components_, copy)
    with pytest.raises(ValueError, match="read-only"):
        components[0, 0] = 1.0


def test_verbose_line_shows_the_validation_loss(small, capsys):
    X, y = small
    FactorizationMachineRegressor(early_stopping=True, verbose=1, max_iter=3, **FIXED).fit(X, y)
    line = capsys.readouterr().out.splitlines()[0]
    for part in ("epoch", "objective", "change", " s", "validation loss"):
        assert part in line


def test_callbacks_see_every_epoch_and_can_stop(small):
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")
    X, y = small
    seen = []

    class Watcher:
        def setup(self, estimator, context):
            seen.append("setup")

        def teardown(self, estimator, context):
            seen.append("teardown")

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if context.task_name == "epoch":
                seen.append(float(np.sum((fitted_estimator.predict(X) - y) ** 2)))
            return context.task_name == "epoch" and len(seen) > 4

    assert isinstance(Watcher(), callback.FitCallback)
    model = FactorizationMachineRegressor(max_iter=50, **FIXED).set_callbacks(Watcher()).fit(X, y)
    assert model.n_iter_ == 4
    assert seen[0] == "setup"
    assert seen[-1] == "teardown"
    assert_allclose(seen[-2], np.sum((model.predict(X) - y) ** 2))
    # A classifier with several classes reports as well.
    FactorizationMachineClassifier(max_iter=2, **FIXED).set_callbacks(callback.ProgressBar()).fit(
        X, np.digitize(y, [-0.5, 0.5])
    )


def test_a_checkpoint_that_cannot_be_written_is_said_before_training(small, tmp_path, monkeypatch):
    X, y = small
    (tmp_path / "folder").mkdir()
    for path, message in [(tmp_path / "missing" / "run", "cannot be written"), (tmp_path / "folder", "is a directory")]:
        with monkeypatch.context() as patch:
            patch.setattr(
                "polyfm.solvers.coordinate_descent.CoordinateDescent.update", lambda *_: pytest.fail("trained")
            )
            with pytest.raises(ValueError, match=message):
                FactorizationMachineRegressor(checkpoint=path, solver="cd", **FIXED).fit(X, y)
    usage = type("Usage", (), {"free": 10})
    monkeypatch.setattr(checkpoints.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(ValueError, match="a checkpoint takes about .* MB, and its disk has 1e-05 MB left"):
        FactorizationMachineRegressor(checkpoint=tmp_path / "run", **FIXED).fit(X, y)
    assert os.listdir(tmp_path) == ["folder"]


def test_a_disk_that_fills_up_never_ends_training(small, tmp_path, monkeypatch):
    X, y = small

    def full(*_):
        raise checkpoints.ModelFileError("run: cannot be written (No space left on device).")

    monkeypatch.setattr(checkpoints, "write_checkpoint", full)
    model = FactorizationMachineRegressor(checkpoint=tmp_path / "run", checkpoint_interval=1, max_iter=5, **FIXED)
    with pytest.warns(UserWarning, match="No checkpoint was written, and training goes on: .*No space left") as caught:
        model.fit(X, y)
    assert sum("No checkpoint" in str(warning.message) for warning in caught) == 1
    assert model.n_iter_ == 5


@pytest.mark.slow
def test_a_checkpoint_of_an_own_loss_is_resumed_in_another_process(tmp_path):
    """What tells the loss is its code, not where it lies in memory."""
    script = textwrap.dedent("""
        import sys, os, warnings; import numpy as np; from polyfm import FactorizationMachineRegressor
        from polyfm.training.checkpoint import Checkpoint
        warnings.simplefilter("ignore")

        class Mine:
            curvature = 2.0
            def value(self, y, f):
                return (f - y) ** 2
            def derivative(self, y, f):
                return 2 * (f - y)

        X = np.random.RandomState(0).standard_normal((50, 5)); y = X[:, 0] * X[:, 1] + X[:, 2]
        path, killed = sys.argv[1] or None, sys.argv[2] == "killed"
        write = Checkpoint.__call__
        def die(self, monitor, state):
            write(self, monitor, state)
            if len(monitor.history) == 4:
                os._exit(7)
        if killed:
            Checkpoint.__call__ = die
        options = dict(checkpoint_interval=1, tol=0, max_iter=9, random_state=0, solver="cd", n_components=2)
        print(repr(FactorizationMachineRegressor(loss=Mine(), checkpoint=path, **options).fit(X, y).history_.tolist()))
    """)

    def start(*words):
        return subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)

    path = str(tmp_path / "run")
    assert start(path, "killed").returncode == 7
    assert os.path.exists(path)
    resumed, whole = start(path, "").stdout, start("", "").stdout
    assert resumed == whole != ""
    assert not os.path.exists(path)


@pytest.mark.parametrize("solver", ["cd", "block", "newton", "lbfgs", "sgd"])
def test_a_checkpoint_with_right_sums_and_wrong_arrays_is_refused(small, tmp_path, monkeypatch, solver):
    X, y = small
    path = tmp_path / "run"
    model = FactorizationMachineRegressor(
        checkpoint=path, checkpoint_interval=1, max_iter=5, solver=solver, early_stopping=True, **FIXED
    )
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.unlink", lambda *args, **kw: None)  # as if it had been killed at the end
        model.fit(X, y)
    header, arrays = container.read(path, FORMAT)
    bad = {"polyfm_version", "format", "format_version", "arrays"}
    header = {name: value for name, value in header.items() if name not in bad}
    for name, array in arrays.items():
        if name.endswith("history") or array.size < 2:
            continue
        for wrong in (array.ravel()[:1], np.full(array.shape, np.nan)):
            container.write(path, header, {**arrays, name: wrong}, FORMAT)
            with pytest.raises(ValueError, match="checkpoint"):
                clone(model).set_params(max_iter=9).fit(X, y)
    container.write(path, header, arrays, FORMAT)
    whole = clone(model).set_params(max_iter=9, checkpoint=None).fit(X, y)
    assert_array_equal(clone(model).set_params(max_iter=9).fit(X, y).components_, whole.components_)


def test_ctrl_c_is_answered_between_two_epochs_and_the_second_at_once(small, monkeypatch):
    from polyfm.solvers import interrupts
    from polyfm.solvers.coordinate_descent import CoordinateDescent

    X, y = small
    update, calls = CoordinateDescent.update, []
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)

    def pressed(self, problem, state):
        calls.append(1)
        if len(calls) >= 3:
            signal.raise_signal(signal.SIGINT)
        return update(self, problem, state)

    try:
        monkeypatch.setattr(CoordinateDescent, "update", pressed)
        with pytest.warns(UserWarning, match="interrupted after 3 epoch"):
            model = FactorizationMachineRegressor(max_iter=50, solver="cd", **FIXED).fit(X, y)
        assert model.n_iter_ == 3
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert not interrupts.interrupted()
        with interrupts.deferred_interrupts():
            signal.raise_signal(signal.SIGINT)
            assert interrupts.interrupted()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, previous)
