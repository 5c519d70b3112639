"""Extrapolation: where epochs lead to, as the last few of them tell (Anderson's method, from new points each time).

Close to a minimum an epoch is about a linear map. Its steps become shorter slowly in some directions, and swing to and
fro in others. A mean of the points that they lead to, with weights that may be negative, has a step that is shorter
than theirs: where they cancel each other, the epochs would end. Where bases grow out of nothing, steps become longer,
and that mean lies behind: then it is the way ahead that is tried. Whether a point is lower, the objective has to say.
"""

from collections.abc import Iterator

import numpy as np

FIRST = 6  # epochs that are left alone: many fits need no more
STEPS = 3  # whose mean is taken; docs/decisions has the measurements
AHEAD = 4.0  # times as far as these steps have led
RIDGE = 1e-10  # of the mean square of steps: they may be multiples of each other


def extrapolated(points: list[np.ndarray], strength: np.ndarray) -> Iterator[np.ndarray]:
    """Points to try, the first before the second. Those given are used up: they may be large.

    Lengths of steps are those that the penalty gives them, sum_j strength_j u_j^2, and so the same in any units of X.
    Each point is the last point and a sum of steps, so that what has not changed stays as it is, to the last bit.
    """
    last, steps = points[-1].copy(), points[1:]
    for i in reversed(range(len(steps))):
        steps[i] -= points[i]
    products = np.array([[u @ scaled for u in steps] for scaled in (strength * v for v in steps)])
    size = np.trace(products) / len(steps)
    if not 0.0 < size < np.inf:
        return
    weights = np.linalg.solve(products / size + RIDGE * np.eye(len(steps)), np.ones(len(steps)))
    behind = np.cumsum(weights / np.sum(weights))[:-1]
    yield last - sum(part * step for part, step in zip(behind, steps[1:], strict=True))
    yield last + AHEAD * sum(steps)
