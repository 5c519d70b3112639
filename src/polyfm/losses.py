"""Losses l(y, f) of a target y and a prediction f: scalars, nothing about X or the model.

A loss has three members (the paper's Table of losses in appendix D):

- ``curvature``: a bound mu on the second derivative in f (the loss is mu-smooth),
- ``value(y, f)`` and ``derivative(y, f)``, the latter with respect to f.

A user's own loss is one such class; see `as_loss`.
"""

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from polyfm.loops.jit import compiled


class Loss(Protocol):
    """What every loss provides."""

    @property
    def curvature(self) -> float: ...

    def value(self, y: float, f: float) -> float: ...

    def derivative(self, y: float, f: float) -> float: ...


@compiled
class Squared(NamedTuple):
    """l = (f - y)^2 / 2, for real targets."""

    curvature: float = 1.0

    def value(self, y, f):
        return 0.5 * (f - y) * (f - y)

    def derivative(self, y, f):
        return f - y


@compiled
class SquaredHinge(NamedTuple):
    """l = max(1 - y f, 0)^2, for targets -1 and 1."""

    curvature: float = 2.0

    def value(self, y, f):
        margin = max(1.0 - y * f, 0.0)
        return margin * margin

    def derivative(self, y, f):
        return -2.0 * y * max(1.0 - y * f, 0.0)


@compiled
class Logistic(NamedTuple):
    """l = log(1 + exp(-y f)), for targets -1 and 1. Neither branch can overflow."""

    curvature: float = 0.25

    def value(self, y, f):
        z = y * f
        if z > 0.0:
            return math.log1p(math.exp(-z))
        return math.log1p(math.exp(z)) - z

    def derivative(self, y, f):
        z = y * f
        if z > 0.0:
            e = math.exp(-z)
            return -y * e / (1.0 + e)
        return -y / (1.0 + math.exp(z))


LOSSES: dict[str, type] = {"squared": Squared, "squared_hinge": SquaredHinge, "logistic": Logistic}
REGRESSION_LOSSES = ("squared",)
CLASSIFICATION_LOSSES = ("logistic", "squared_hinge", "squared")


def as_loss(loss: Any) -> Loss:
    """A registered loss by its name, or a user's own loss made ready for compiled loops.

    A user's loss is an object with a number ``curvature`` and methods ``value(self, y, f)`` and
    ``derivative(self, y, f)`` on scalars, written with arithmetic, comparisons and `math`. Its other numeric
    attributes are parameters. It is checked here, in Python, where errors can be read.
    """
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ValueError(f"Unknown loss {loss!r}; use one of {sorted(LOSSES)} or a loss object.")
        return LOSSES[loss]()
    if hasattr(type(loss), "_compiled_methods"):
        return loss
    if isinstance(loss, type):
        raise TypeError(f"loss={loss.__name__} is a class; pass an instance: loss={loss.__name__}().")
    return _adopt(loss)


_adopted: dict[tuple[type, tuple[str, ...]], type] = {}


def _adopt(loss: Any) -> Loss:
    """Turn a plain object, dataclass or named tuple into a compiled named tuple with the same methods."""
    cls = type(loss)
    for member in ("curvature", "value", "derivative"):
        if not hasattr(loss, member):
            raise TypeError(
                f"The loss {cls.__name__} has no {member!r}. A loss needs a number `curvature` and the methods "
                "`value(self, y, f)` and `derivative(self, y, f)`."
            )
    for member in ("value", "derivative"):
        function = getattr(cls, member, None)
        if getattr(getattr(function, "__code__", None), "co_argcount", None) != 3:
            raise TypeError(
                f"{cls.__name__}.{member} must be a method with the arguments (self, y, f): a scalar target and a "
                "scalar prediction."
            )
    names = getattr(cls, "_fields", None) or tuple(vars(loss))
    fields = {name: getattr(loss, name) for name in {"curvature": None, **dict.fromkeys(names)}}
    for name, number in fields.items():
        if isinstance(number, bool) or not isinstance(number, (int, float, np.integer, np.floating)):
            raise TypeError(f"{cls.__name__}.{name} must be a number, got {number!r}; loops cannot use other types.")
    if not (math.isfinite(fields["curvature"]) and fields["curvature"] > 0):
        raise ValueError(
            f"{cls.__name__}.curvature must be a positive number that bounds the second derivative of the loss, got "
            f"{fields['curvature']!r}."
        )
    _check_values(loss)
    key = cls, tuple(fields)
    if key not in _adopted:
        base = NamedTuple(cls.__name__, [(name, float) for name in fields])  # type: ignore[misc]
        methods = {"value": cls.value, "derivative": cls.derivative, "__module__": cls.__module__, "__slots__": ()}
        _adopted[key] = compiled(type(cls.__name__, (base,), methods))
    return _adopted[key](**{name: float(number) for name, number in fields.items()})


def _check_values(loss: Any) -> None:
    """Check, on a few points, that the derivative is that of the value and is as smooth as the curvature says."""
    name, step = type(loss).__name__, 1e-5
    for y in (-1.0, 1.0):
        for f in (-2.3, -0.4, 0.0, 0.7, 3.1):
            try:
                value, slope = float(loss.value(y, f)), float(loss.derivative(y, f))
                numeric = (loss.value(y, f + step) - loss.value(y, f - step)) / (2 * step)
                bend = (loss.derivative(y, f + step) - loss.derivative(y, f - step)) / (2 * step)
            except Exception as error:
                raise TypeError(f"{name} failed on y={y}, f={f}: {error}.") from error
            if not (math.isfinite(value) and math.isfinite(slope)):
                raise ValueError(f"{name} is not finite at y={y}, f={f}: value {value}, derivative {slope}.")
            allowance = 1e-3 * (1 + abs(slope)) + 2 * step * loss.curvature
            if abs(numeric - slope) > allowance:
                raise ValueError(
                    f"{name}.derivative({y}, {f}) is {slope:.6g}, but {name}.value changes at the rate {numeric:.6g}. "
                    "The derivative must be that of the value with respect to f."
                )
            if bend > loss.curvature * 1.01 + 1e-6:
                raise ValueError(
                    f"{name} bends at the rate {bend:.6g} at y={y}, f={f}, more than curvature={loss.curvature!r}. "
                    "Raise the curvature to a bound on the second derivative; a smaller one makes training diverge."
                )
            if bend < -1e-6:
                raise ValueError(f"{name} is not convex: its derivative falls at y={y}, f={f}.")
