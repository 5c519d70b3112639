"""<w, x>."""

from typing import NamedTuple

from polyfm.loops.forms.base import form


@form
class Linear(NamedTuple):
    """<w, x>: the linear weights, as coordinate descent sees them."""

    degree_slots: tuple[float, ...] = (0.0,)

    n_slots = n_cached = 0

    def reset(self, S, i):
        pass

    def include(self, S, i, B, j, x):
        pass

    def partial(self, S, i, B, t, j, x):
        return x

    def update(self, S, i, B, t, j, x, delta):
        return x
