import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
import reference
from numpy.testing import assert_allclose

from polyfm import FactorizationMachineClassifier, FactorizationMachineRegressor
from polyfm.losses import LOSSES, as_loss

GRID = np.linspace(-4, 4, 41)


class Huber:
    curvature = 1.0

    def __init__(self, delta=1.0):
        self.delta = delta

    def value(self, y, f):
        r = abs(f - y)
        return 0.5 * r * r if r <= self.delta else self.delta * (r - 0.5 * self.delta)

    def derivative(self, y, f):
        return max(-self.delta, min(self.delta, f - y))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_loss_is_the_papers(name, y):
    loss, h = as_loss(name), 1e-6
    for f in GRID + 0.01:
        assert_allclose(loss.value(y, f), reference.LOSSES[name](y, f), rtol=1e-12)
        assert_allclose(loss.derivative(y, f), (loss.value(y, f + h) - loss.value(y, f - h)) / (2 * h), atol=1e-5)
        bend = (loss.derivative(y, f + h) - loss.derivative(y, f - h)) / (2 * h)
        assert -1e-6 <= bend <= loss.curvature + 1e-6


@pytest.mark.parametrize(("name", "curvature"), [("squared", 1), ("squared_hinge", 2), ("logistic", 0.25)])
def test_smoothness_constants_are_the_papers(name, curvature):
    assert as_loss(name).curvature == curvature


def test_logistic_loss_never_overflows():
    loss = as_loss("logistic")
    assert loss.value(1.0, -1e5) == 1e5
    assert loss.value(1.0, 1e5) == 0.0
    assert loss.derivative(-1.0, 1e5) == 1.0


def test_users_loss_trains_and_resists_outliers(rng):
    X = rng.standard_normal((120, 5))
    clean = 2 * X[:, 0] * X[:, 1] + X[:, 2]
    y = clean.copy()
    y[::10] += 50
    huber = FactorizationMachineRegressor(loss=Huber(0.5), alpha=0.1, beta=0.1, random_state=0).fit(X, y)
    squared = FactorizationMachineRegressor(alpha=0.1, beta=0.1, random_state=0).fit(X, y)
    assert np.all(np.diff(huber.history_) <= 0)
    assert huber.score(X, clean) > 0.95 > squared.score(X, clean)


def test_users_loss_agrees_with_the_built_in_one(rng):
    class MyLogistic(NamedTuple):
        curvature: float = 0.25

        def value(self, target, prediction):
            return math.log1p(math.exp(-target * prediction))

        def derivative(self, target, prediction):
            return -target / (1 + math.exp(target * prediction))

    X = rng.standard_normal((60, 5))
    y = X[:, 0] * X[:, 1] > 0
    ours = FactorizationMachineClassifier(random_state=0).fit(X, y)
    mine = FactorizationMachineClassifier(loss=MyLogistic(), random_state=0).fit(X, y)
    assert_allclose(mine.components_, ours.components_, rtol=1e-6, atol=1e-9)
    assert hasattr(ours, "predict_proba")
    assert not hasattr(mine, "predict_proba")


@dataclass
class Malformed:
    curvature: float = 1.0

    def value(self, y, f):
        return 0.5 * (f - y) ** 2

    def derivative(self, y, f):
        return f - y


def with_members(**members):
    return type("Malformed", (Malformed,), members)()


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (Malformed(curvature=-1.0), "curvature must be a positive number"),
        (Malformed(curvature="big"), "must be a number, got 'big'"),
        (Malformed(curvature=0.5), "more than curvature=0.5"),
        (with_members(derivative=lambda self, y, f: y - f), "must be that of the value"),
        (with_members(derivative=lambda self, f: f), r"arguments \(self, y, f\)"),
        (with_members(value=lambda self, y, f: math.log(f - y)), "failed on y=-1.0, f=-2.3"),
        (with_members(value=lambda self, y, f: float("inf")), "is not finite"),
        (with_members(value=lambda self, y, f: -f * f, derivative=lambda self, y, f: -2 * f), "not convex"),
        (Huber, "is a class; pass an instance"),
    ],
)
def test_malformed_loss_gets_a_clear_error(loss, message):
    with pytest.raises((TypeError, ValueError), match=message):
        as_loss(loss)


def test_loss_without_a_member_is_named():
    class NoValue:
        curvature = 1.0

        def derivative(self, y, f):
            return f - y

    with pytest.raises(TypeError, match="has no 'value'"):
        as_loss(NoValue())
    with pytest.raises(ValueError, match="Unknown loss 'hinge'"):
        as_loss("hinge")
