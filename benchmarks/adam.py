"""AdaGrad, which `solver="sgd"` uses, against Adam: the objective after a few epochs for several lengths of step.

POLYFM_DATA=DIR python benchmarks/adam.py            (AdaGrad)
POLYFM_DATA=DIR POLYFM_CACHE=0 python benchmarks/adam.py adam

Adam is written out here alone. It keeps two averages for each parameter where AdaGrad keeps one sum, updates only the
features of a batch's rows (a "lazy" Adam), and starts from the same point, with steps in the same natural units.
"""

import math
import sys
import warnings

import numpy as np
import solvers
from numba.extending import overload

from polyfm.loops import stochastic as _stochastic
from polyfm.solvers import SGD
from polyfm.solvers.sgd import STEP, tiled_permutation
from polyfm.training.initial import initial_parameters

warnings.simplefilter("ignore")
STEPS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
EPOCHS = 10
DECAY, DECAY_SQUARES = 0.9, 0.999


def _adam_step(tile, step, touched, n_touched, occurrences, counts, share):
    # H is here three arrays: averages of the gradients and of their squares, and how often a feature was touched.
    T, G, H = tile.bases.T, tile.G, step.H
    d = T.shape[0] - tile.bases.dummies
    for q in range(n_touched + tile.bases.dummies):
        j = touched[q] if q < n_touched else d + q - n_touched
        part = occurrences[j] / counts[j] if q < n_touched else share
        H[2, j, 0, 0] += 1.0
        n = H[2, j, 0, 0]
        rate = step.eta * math.sqrt(1.0 - DECAY_SQUARES**n) / (1.0 - DECAY**n)
        for t in range(T.shape[1]):
            for s in range(H.shape[3]):
                g = G[j, t, s] + part * step.prior.strength_of(s, j) * (T[j, t, s] - step.prior.mean_of(s, j))
                H[0, j, t, s] = DECAY * H[0, j, t, s] + (1.0 - DECAY) * g
                H[1, j, t, s] = DECAY_SQUARES * H[1, j, t, s] + (1.0 - DECAY_SQUARES) * g * g
                T[j, t, s] -= rate * H[0, j, t, s] / (math.sqrt(H[1, j, t, s]) + 1e-12)
                G[j, t, s] = 0.0


def adam_loops() -> None:
    """Have the stochastic loop take Adam's steps for the factors (weights and intercept keep AdaGrad's)."""
    _stochastic._step = _adam_step
    overload(_adam_step)(lambda tile, step, touched, n_touched, occurrences, counts, share: _adam_step)


def objective_after(task, step: float, adam: bool) -> float:
    """The lowest objective of a few epochs, relative to the start's."""
    solver = SGD()
    state = solver.init_state(task, initial_parameters(task, np.random.RandomState(0), 0.1))
    state.sizes[:-2] *= step / STEP  # weights and intercept keep the default step
    if adam:
        state.accumulators[:-2] = [np.zeros((3, *a.shape), dtype=a.dtype) for a in state.accumulators[:-2]]
    counts = np.maximum(np.diff(task.design.columns.indptr.astype(np.int64)), 1)
    n, best = task.design.shape[0], np.inf
    for epoch in range(EPOCHS):
        solver._pass(task, state, tiled_permutation(n, epoch), counts, n)
        value = task.objective(state.parameters)
        best = min(best, value if np.isfinite(value) else np.inf)
    return best


if __name__ == "__main__":
    adam = sys.argv[1:] == ["adam"]
    if adam:
        adam_loops()
    print(f"{'Adam' if adam else 'AdaGrad':<16}" + "".join(f"{step:>12g}" for step in STEPS))
    for name, (load, options) in solvers.SETS.items():
        X, _, y, _ = load()
        task = solvers.problem(X, y, **options, rows="shuffled")
        print(f"{name:<16}" + "".join(f"{objective_after(task, s, adam):>12.6g}" for s in STEPS), flush=True)
