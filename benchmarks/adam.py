"""AdaGrad, which `solver="sgd"` uses, against Adam: the objective after a few epochs for several lengths of step.

POLYFM_DATA=DIR python benchmarks/adam.py            (AdaGrad)
POLYFM_DATA=DIR POLYFM_CACHE=0 python benchmarks/adam.py adam

Adam is written out here alone, for the factors; weights and intercept keep AdaGrad's steps. It keeps two averages and a
count for each parameter where AdaGrad keeps one sum, updates only the features of a batch's rows (a "lazy" Adam), and
starts from the same point, with steps in the same natural units.
"""

import sys
import warnings
from typing import NamedTuple

import numpy as np
import solvers

from polyfm.loops.jit import compiled
from polyfm.loops.lanes import sqrt
from polyfm.solvers import SGD
from polyfm.solvers.sgd import STEP, tiled_permutation
from polyfm.solvers.tables import Tables
from polyfm.training.initial import initial_parameters

warnings.simplefilter("ignore")
STEPS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
EPOCHS = 10
DECAY, DECAY_SQUARES = 0.9, 0.999
KEPT = 5  # the parameter, two averages, and DECAY^n - 1 and DECAY_SQUARES^n - 1 after n steps


@compiled
class Adam(NamedTuple):
    """theta -= eta m / sqrt(v), m and v being averages of g and of g^2, less what their start at 0 adds."""

    eta: float

    def move(self, W, j, t, factors, s, g):
        m = DECAY * W[j, factors + t, s] + (1.0 - DECAY) * g
        v = DECAY_SQUARES * W[j, 2 * factors + t, s] + (1.0 - DECAY_SQUARES) * g * g
        left = DECAY * W[j, 3 * factors + t, s] - (1.0 - DECAY)
        left_squares = DECAY_SQUARES * W[j, 4 * factors + t, s] - (1.0 - DECAY_SQUARES)
        W[j, factors + t, s] = m
        W[j, 2 * factors + t, s] = v
        W[j, 3 * factors + t, s] = left
        W[j, 4 * factors + t, s] = left_squares
        W[j, t, s] += self.eta * m / left * sqrt(left_squares * -1.0) / (sqrt(v) + 1e-12)


class WithAdam(SGD):
    """Stochastic descent with Adam's steps for the factors."""

    factor_rule = Adam


def objective_after(task, step: float, adam: bool) -> float:
    """The lowest objective of a few epochs, relative to the start's."""
    solver = WithAdam() if adam else SGD()
    state = solver.init_state(task, initial_parameters(task, np.random.RandomState(0), 0.1))
    state.sizes[:-2] *= step / STEP  # weights and intercept keep the default step
    if adam:
        state.tables = Tables.of(state.parameters, None, task.design.dtype, KEPT)
    counts = np.maximum(np.diff(task.design.columns.indptr.astype(np.int64)), 1)
    n, best = task.design.shape[0], np.inf
    for epoch in range(EPOCHS):
        solver._pass(task, state, tiled_permutation(n, epoch), counts, n)
        value = task.objective(state.parameters)
        best = min(best, value if np.isfinite(value) else np.inf)
    return best


if __name__ == "__main__":
    adam = sys.argv[1:] == ["adam"]
    print(f"{'Adam' if adam else 'AdaGrad':<16}" + "".join(f"{step:>12g}" for step in STEPS))
    for name, (load, options) in solvers.SETS.items():
        X, _, y, _ = load()
        task = solvers.problem(X, y, **options, rows="shuffled")
        print(f"{name:<16}" + "".join(f"{objective_after(task, s, adam):>12.6g}" for s in STEPS), flush=True)
