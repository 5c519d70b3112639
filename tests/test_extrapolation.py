"""Extrapolated epochs: sooner at the minimum, never higher, the same from a checkpoint and on any number of threads."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from problems import make_problem

from polyfm.solvers import CoordinateDescent, parabolas, run
from polyfm.solvers.extrapolation import AHEAD, FIRST, STEPS, extrapolated


def test_a_linear_map_of_few_directions_is_led_to_its_end(rng):
    """As many steps as directions and one more: the mean is the fixed point, to which the map alone takes long."""
    end, directions = rng.standard_normal(20), rng.standard_normal((2, 20))
    rates = np.array([0.95, -0.8])
    points = [end + rates**k @ directions for k in range(STEPS + 1)]
    kept = points[-1].copy()
    first, second = extrapolated(points, np.ones(20))
    assert_allclose(first, end, atol=1e-4)
    assert np.linalg.norm(kept - end) > 1
    assert_allclose(second, kept + AHEAD * (kept - end - directions.sum(axis=0)))


def test_what_does_not_move_stays_to_the_last_bit(rng):
    points = [rng.standard_normal(6) for _ in range(STEPS + 1)]
    for point in points:
        point[2] = 0.1
    assert [point[2] for point in extrapolated(points, np.ones(6))] == [0.1, 0.1]


@pytest.mark.parametrize("size", [0.0, np.inf, np.nan])
def test_steps_of_no_size_lead_nowhere(size):
    points = [np.full(3, size if k == STEPS else 0.0) for k in range(STEPS + 1)]
    with np.errstate(invalid="ignore", over="ignore"):  # as in training
        assert list(extrapolated(points, np.ones(3))) == []


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_it_takes_fewer_epochs_and_no_epoch_rises(small, loss, monkeypatch):
    X, y = small
    problem, start = make_problem(X, np.sign(y) if loss == "logistic" else y, "anova", "direct", 2, loss=loss, beta=0.3)
    ours = run(CoordinateDescent(), problem, start, max_iter=100, tol=-1.0)
    assert np.all(np.diff(ours.history) <= 1e-12 * ours.history[0])
    assert_allclose(ours.history[-1], problem.objective(ours.parameters), rtol=1e-9)
    monkeypatch.setattr(parabolas, "STEPS", 10**9)
    plain = run(CoordinateDescent(), problem, start, max_iter=100, tol=-1.0)
    close = min(ours.history[-1], plain.history[-1]) * (1 + 1e-5)
    assert np.argmax(ours.history < close) < 0.8 * np.argmax(plain.history < close)


@pytest.mark.parametrize("higher", [True, False])
def test_a_point_is_taken_only_where_the_objective_is_lower(small, higher, monkeypatch):
    X, y = small
    problem, start = make_problem(X, y, "anova", "direct", 2)
    method = CoordinateDescent()
    state = method.init_state(problem, start.copy())
    for _ in range(FIRST + STEPS - 1):
        method.update(problem, state)
    far = np.full_like(state.course[0], 10.0)
    near = state.course[-1]
    monkeypatch.setattr(parabolas, "extrapolated", lambda points, strength: iter([far] if higher else [far, near]))
    before = method.objective(problem, state)
    if not higher:
        before = state.value = 1.001 * before
    kept = state.parameters.copy()
    method.extrapolate(problem, state)
    assert_array_equal(state.parameters.coef, kept.coef)  # `near` is where we stand
    assert_array_equal(state.parameters.factors[0], kept.factors[0])
    assert method.objective(problem, state) == (before if higher else pytest.approx(problem.objective(kept)))
    assert_allclose(state.f, problem.shifted_predictions(kept), atol=1e-9)


def test_an_interruption_leaves_the_epoch_as_it_was(small, monkeypatch):
    X, y = small
    problem, start = make_problem(X, y, "anova", "direct", 2)
    method = CoordinateDescent()
    state = method.init_state(problem, start.copy())
    for _ in range(FIRST + STEPS - 1):
        before = method.update(problem, state)
    kept = state.parameters.copy()

    def interrupted(self, problem, state):
        raise KeyboardInterrupt

    monkeypatch.setattr(CoordinateDescent, "refresh", interrupted)
    state.course.append(state.course[-1] + 1.0)
    with pytest.raises(KeyboardInterrupt):
        method.extrapolate(problem, state)
    assert_array_equal(state.parameters.factors[0], kept.factors[0])
    assert method.objective(problem, state) == before
    assert_allclose(state.f, problem.shifted_predictions(kept), atol=1e-9)


@pytest.mark.parametrize("stopped", [1, *range(FIRST - 1, FIRST + STEPS + 2)])
def test_a_run_goes_on_with_the_course_of_the_one_before(small, stopped):
    X, y = small
    problem, start = make_problem(X, y, "anova", "direct", 2)
    whole = run(CoordinateDescent(), problem, start, max_iter=16, tol=-1.0)
    half = run(CoordinateDescent(), problem, start, max_iter=stopped, tol=-1.0)
    rest = run(
        CoordinateDescent(), problem, half.parameters, max_iter=16, tol=-1.0, resume=half.resume, first=1e9,
        history=list(half.history),
    )  # fmt: skip
    assert_array_equal(whole.history, rest.history)
    assert_array_equal(whole.parameters.factors[0], rest.parameters.factors[0])


def test_a_checkpoint_of_before_is_read_and_one_of_other_parameters_refused(small):
    X, y = small
    problem, start = make_problem(X, y, "anova", "direct", 2)
    half = run(CoordinateDescent(), problem, start, max_iter=FIRST + 1, tol=-1.0)
    options = {"max_iter": FIRST + 4, "tol": -1.0, "first": 1e9, "history": list(half.history)}
    older = {name: array for name, array in half.resume.items() if name != "course"}
    assert np.all(np.diff(run(CoordinateDescent(), problem, half.parameters, resume=older, **options).history) < 0)
    wrong = half.resume | {"course": half.resume["course"][:, 1:]}
    with pytest.raises(ValueError, match="'course' has .* parameters, where"):
        run(CoordinateDescent(), problem, half.parameters, resume=wrong, **options)


def test_more_parameters_than_nonzeros_are_left_alone(small):
    X, y = small
    problem, start = make_problem(X, y, "anova", "direct", 2, k=20)
    method = CoordinateDescent()
    state = method.init_state(problem, start)
    for _ in range(FIRST):
        method.update(problem, state)
    assert sum(P.size for P in start.factors) > X.nnz
    assert state.course == []
