"""The two formulas that a factorization machine in ONNX can have, power sums and a recursion: their digits and time.

Models are made up. Errors are relative to the median prediction, and to `predict` in double precision. Times are CPU
seconds of one thread, the least of several runs.
"""

import time

import numpy as np

from polyfm import FactorizationMachineRegressor
from polyfm.core.fitted import Fitted
from polyfm.core.parameters import Parameters
from polyfm.export import operators, to_onnx

FORMULAS = {"power sums": True, "recursion": False}


def made(degree: int, d: int, k: int = 10) -> FactorizationMachineRegressor:
    model = FactorizationMachineRegressor(degree=degree, n_components=k, fit_lower=None)
    model.n_features_in_ = d
    factors = np.random.RandomState(0).standard_normal((k, 1, d))
    model._set_fitted(Fitted(model._model(), [Parameters((factors,), (np.ones(k),), np.zeros(d), np.zeros(1))]))
    return model


def session(model, by_power_sums: bool):
    import onnxruntime

    operators.takes_power_sums = lambda degree, d: by_power_sums
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    exported = to_onnx(model, dtype=np.float64).SerializeToString()
    return onnxruntime.InferenceSession(exported, options, providers=["CPUExecutionProvider"])


def digits() -> None:
    print("error, 20 features, 10 bases; the first feature is larger by a factor")
    for factor in (1, 1e3, 1e5):
        for degree in (2, 3, 4, 6):
            model, X = made(degree, 20), np.random.RandomState(1).standard_normal((200, 20))
            X[:, 0] *= factor
            expected = model.predict(X)
            errors = {
                name: np.max(np.abs(session(model, chosen).run(None, {"X": X})[0][:, 0] - expected))
                / np.median(np.abs(expected))
                for name, chosen in FORMULAS.items()
            }
            print(f"  x {factor:g}, degree {degree}: " + ", ".join(f"{name} {e:.0e}" for name, e in errors.items()))


def times() -> None:
    print("milliseconds, 10 bases")
    for degree in (2, 3, 4):
        for d, n in ((10, 1), (10, 1000), (100, 1), (100, 1000), (1000, 1), (1000, 1000), (10000, 1), (10000, 100)):
            model, X = made(degree, d), np.random.RandomState(1).standard_normal((n, d))
            sessions = {name: session(model, chosen) for name, chosen in FORMULAS.items()}
            best = dict.fromkeys(sessions, np.inf)
            for _ in range(5):
                for name, one in sessions.items():
                    begin = time.process_time()
                    one.run(None, {"X": X})
                    best[name] = min(best[name], time.process_time() - begin)
            print(f"  degree {degree}, {d} features, {n} rows: ", end="")
            print(", ".join(f"{name} {1000 * seconds:.2f}" for name, seconds in best.items()), flush=True)


if __name__ == "__main__":
    digits()
    times()
