"""Losses l(y, f) of a target y and a prediction f: scalars, nothing about X or the model.

A loss has three members (the paper's Table of losses in appendix D):

- ``curvature``: a bound mu on the second derivative in f (the loss is mu-smooth),
- ``value(y, f)`` and ``derivative(y, f)``, the latter with respect to f,

and may state facts that make training faster or a model more useful:

- ``residual = True``: the loss depends on f - y alone. Training then keeps one number less for a sample.
- ``quadratic = True``: its second derivative is constant, and so equal to `curvature`.
- ``second_derivative(y, f)``: for Gauss-Newton steps, which otherwise take differences of the first.
- ``conjugate(y, u)``, of arrays: sup_f u f - l(y, f), infinite where there is none. `polyfm.certify` then bounds the
  objective more tightly.
- ``probability(f)``, of an array: the probability of the class 1. Classifiers then have `predict_proba`.
- ``tasks``: ("regression",), ("classification",) or both, for losses that estimators know by name.

A user's own loss is one such class, and needs no registration; see `as_loss`. A loss that comes with polyfm is one
class in `polyfm.loops.losses` and one line in `LOSSES`.
"""

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from polyfm.loops.jit import compiled
from polyfm.loops.losses import CumulativeLogit, Logistic, Squared, SquaredHinge

__all__ = ["LOSSES", "CumulativeLogit", "Logistic", "Loss", "Squared", "SquaredHinge", "as_loss", "losses_for"]

#: The losses that estimators know by name.
LOSSES: dict[str, type] = {"squared": Squared, "squared_hinge": SquaredHinge, "logistic": Logistic}


class Loss(Protocol):
    """What every loss provides."""

    @property
    def curvature(self) -> float:
        """A bound on the second derivative in f."""

    def value(self, y: float, f: float) -> float:
        """The loss of a prediction.

        Parameters
        ----------
        y, f : float
            The target and the prediction.
        """

    def derivative(self, y: float, f: float) -> float:
        """Its derivative with respect to f.

        Parameters
        ----------
        y, f : float
            The target and the prediction.
        """


FACTS = ("residual", "quadratic")  # False where a loss does not say
OPTIONAL_METHODS = ("second_derivative", "probability", "conjugate")


def losses_for(task: str) -> list[str]:
    """The names of the losses for a task.

    Parameters
    ----------
    task : {"regression", "classification"}
        What the loss is for.
    """
    return [name for name, cls in LOSSES.items() if task in cls.tasks]  # type: ignore[attr-defined]


def states(loss: Any, fact: str) -> bool:
    """Whether a loss (or its name) states one of `FACTS` or has one of the `OPTIONAL_METHODS`."""
    loss = LOSSES.get(loss) if isinstance(loss, str) else loss
    return bool(getattr(loss, fact, False))


def as_loss(loss: Any) -> Loss:
    """A registered loss by its name, or a user's own loss made ready for compiled loops.

    A user's loss is an object with a number ``curvature`` and methods ``value(self, y, f)`` and
    ``derivative(self, y, f)`` on scalars, written with arithmetic, comparisons and `math`. Its other numeric
    attributes are parameters. It is checked here, in Python, where errors can be read.

    Parameters
    ----------
    loss : str or object
        One of `LOSSES`, or a loss.
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
    own = {name: getattr(cls, name) for name in OPTIONAL_METHODS if hasattr(cls, name)}
    for member in ("value", "derivative", *({"second_derivative"} & set(own))):
        function = getattr(cls, member, None)
        if getattr(getattr(function, "__code__", None), "co_argcount", None) != 3:
            raise TypeError(
                f"{cls.__name__}.{member} must be a method with the arguments (self, y, f): a scalar target and a "
                "scalar prediction."
            )
    facts = {name: bool(getattr(loss, name, False)) for name in FACTS}
    names = getattr(cls, "_fields", None) or tuple(vars(loss))
    fields = {name: getattr(loss, name) for name in {"curvature": None, **dict.fromkeys(names)} if name not in FACTS}
    for name, number in fields.items():
        if isinstance(number, bool) or not isinstance(number, (int, float, np.integer, np.floating)):
            raise TypeError(f"{cls.__name__}.{name} must be a number, got {number!r}; loops cannot use other types.")
    if not (math.isfinite(fields["curvature"]) and fields["curvature"] > 0):
        raise ValueError(
            f"{cls.__name__}.curvature must be a positive number that bounds the second derivative of the loss, got "
            f"{fields['curvature']!r}."
        )
    _check_values(loss)
    key = cls, (*fields, *(name for name, true in facts.items() if true))
    if key not in _adopted:
        base = NamedTuple(cls.__name__, [(name, float) for name in fields])  # type: ignore[misc]
        methods = {"value": cls.value, "derivative": cls.derivative, **own}
        _adopted[key] = compiled(
            type(cls.__name__, (base,), {**methods, **facts, "__module__": cls.__module__, "__slots__": ()})
        )
    return _adopted[key](**{name: float(number) for name, number in fields.items()})


def _check_values(loss: Any) -> None:
    """Check, on a few points, that the derivative is that of the value and is as smooth as the curvature says, and that
    the facts that the loss states are true."""
    name, step = type(loss).__name__, 1e-5
    for y in (-1.0, 1.0):
        for f in (-2.3, -0.4, 0.0, 0.7, 3.1):
            try:
                value, slope = float(loss.value(y, f)), float(loss.derivative(y, f))
                numeric = (loss.value(y, f + step) - loss.value(y, f - step)) / (2 * step)
                bend = (loss.derivative(y, f + step) - loss.derivative(y, f - step)) / (2 * step)
                shifted = value, slope
                if states(loss, "residual"):
                    shifted = float(loss.value(0.0, f - y)), float(loss.derivative(0.0, f - y))
                second = loss.curvature
                if states(loss, "second_derivative"):
                    second = float(loss.second_derivative(y, f))
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
            if not np.allclose(shifted, (value, slope)):
                raise ValueError(
                    f"{name} says residual=True, but its value or derivative at y={y}, f={f} differs from that at "
                    f"y=0, f={f - y:g}. Leave `residual` out unless the loss depends on f - y alone."
                )
            if states(loss, "quadratic") and abs(bend - loss.curvature) > 1e-3 * loss.curvature:
                raise ValueError(
                    f"{name} says quadratic=True, but bends at the rate {bend:.6g} at y={y}, f={f}, where its "
                    f"curvature is {loss.curvature!r}. Leave `quadratic` out unless the second derivative is constant."
                )
            if states(loss, "conjugate"):
                _check_conjugate(loss, y, f, slope * f - value, slope)
            if not 0 <= second <= loss.curvature * (1 + 1e-9):
                raise ValueError(
                    f"{name}.second_derivative({y}, {f}) is {second:.6g}; it must lie between 0 and "
                    f"curvature={loss.curvature!r}."
                )


def _check_conjugate(loss: Any, y: float, f: float, expected: float, slope: float) -> None:
    """Fenchel and Young: l*(y, u) = u f - l(y, f) where u is the derivative at f, and no less where it is not."""
    name = type(loss).__name__
    try:
        found = float(np.asarray(loss.conjugate(np.array([y]), np.array([slope])))[0])
    except Exception as error:
        raise TypeError(f"{name}.conjugate failed on arrays, at y={y}, u={slope:.6g}: {error}.") from error
    if not abs(found - expected) <= 1e-6 * (1 + abs(expected)):
        raise ValueError(
            f"{name}.conjugate({y}, {slope:.6g}) is {found:.6g}, but must be {expected:.6g}: u f - value(y, f) at "
            f"f={f}, where the derivative is u."
        )
