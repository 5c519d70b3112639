"""What a new user waits for: imports, and the first fit with nothing compiled, from the cache on disk, and the second.

    python benchmarks/first_fit.py [PATH ...] [--defaults] [--list] [--rounds 3]

Each figure is of a new process with a cache of its own; seconds are the processor's and, in brackets, the clock's; the
lowest of the rounds counts. --defaults: with the penalties that are the default, where the data choose; otherwise
alpha = beta = 1. --list: what was compiled, with its own seconds.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

PATHS = {
    "block": "machine, two one-hot fields, block",
    "cd": "machine, sparse, cd",
    "dense": "machine, dense, cd",
    "classes": "classifier, sparse, cd",
    "network": "network, dense, lifted, cd",
    "newton": "network, dense, direct, newton",
    "sgd": "classifier, ten one-hot fields, sgd",
}


def problem(path: str, given: dict[str, Any]) -> tuple:
    """An estimator, X and y: small, so that next to nothing is spent on training."""
    import numpy as np
    import scipy.sparse as sp

    import polyfm

    rng = np.random.RandomState(0)
    n = 40_000 if path == "block" else 2000  # block descent is chosen where there are enough samples of a feature

    def one_hot(fields: int):
        columns = rng.randint(20, size=(n, fields)) + 20 * np.arange(fields)
        return sp.csr_matrix((np.ones(columns.size), columns.ravel(), np.arange(0, columns.size + 1, fields)))

    y = rng.standard_normal(n)
    given = {"max_iter": 3, "random_state": 0} | given
    if path == "block":
        return polyfm.FactorizationMachineRegressor(n_components=30, **given), one_hot(2), y
    if path == "sgd":
        return polyfm.FactorizationMachineClassifier(n_components=8, solver="sgd", **given), one_hot(10), y > 0
    if path in ("cd", "classes"):
        X = sp.random(n, 60, 0.2, format="csr", random_state=0)
        if path == "cd":
            return polyfm.FactorizationMachineRegressor(n_components=10, **given), X, y
        return polyfm.FactorizationMachineClassifier(n_components=10, **given), X, y > 0
    X = rng.standard_normal((n, 8))
    if path == "dense":
        return polyfm.FactorizationMachineRegressor(n_components=10, **given), X, y
    if path == "network":
        return polyfm.PolynomialNetworkRegressor(n_components=5, **given), X, y
    return polyfm.PolynomialNetworkRegressor(n_components=5, method="direct", solver="newton", **given), X, y


def seconds(call: Callable[[], Any]) -> tuple[float, float]:
    clock, processor = time.perf_counter(), time.process_time()
    call()
    return time.process_time() - processor, time.perf_counter() - clock


def compilations() -> list[tuple[str, float]]:
    """A list that fills with what numba compiles: a name, and seconds without those of what it calls."""
    from numba.core import event

    found: list[tuple[str, float]] = []

    class Listener(event.Listener):
        inner: list[float]

        def __init__(self):
            self.began, self.inner = [], []

        def on_start(self, of):
            self.began.append(time.process_time())
            self.inner.append(0.0)

        def on_end(self, of):
            took, inner = time.process_time() - self.began.pop(), self.inner.pop()
            if self.inner:
                self.inner[-1] += took
            function = of.data["dispatcher"].py_func
            found.append((f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}", took - inner))

    event.register("numba:compile", Listener())
    return found


def child(path: str, given: dict[str, Any], listing: bool) -> None:
    warnings.simplefilter("ignore")
    found = compilations() if listing else []
    model, X, y = problem(path, given)
    first, second = seconds(lambda: model.fit(X, y)), seconds(lambda: model.fit(X, y))
    print(json.dumps({"first": first, "second": second, "solver": model.solver_, "compiled": found}))


def lowest(samples: list) -> str:
    return f"{min(s[0] for s in samples):5.2f} ({min(s[1] for s in samples):.2f})"


def new_process(code: str, environment: dict[str, str] | None = None) -> tuple[float, float]:
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | (environment or {}))
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return cpu, after.elapsed - before.elapsed


def imports(rounds: int) -> None:
    codes = {
        "sklearn.base": "import sklearn.base",
        "numba": "import numba",
        "both": "import sklearn.base, numba",
        "polyfm": "import polyfm",
        "FactorizationMachineRegressor": "from polyfm import FactorizationMachineRegressor",
    }
    samples: dict[str, list] = {name: [] for name in codes}
    with tempfile.TemporaryDirectory() as bytecode:  # which users have, whatever the environment here says
        environment = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": bytecode}
        for _ in range(max(rounds, 3)):
            for name, code in codes.items():
                samples[name].append(new_process(code, environment))
    print("A new process that imports")
    for name in codes:
        print(f"  {name:<36}{lowest(samples[name])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATH", help=", ".join(PATHS))
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    given = {} if options.defaults else {"alpha": 1.0, "beta": 1.0}
    if options.child:
        child(options.child, given, options.list)
        return
    if not options.paths:
        imports(options.rounds)
    print(f"{'first fit':<36}{'nothing cached':<16}{'from the cache':<16}{'second fit':<16}")
    for path in options.paths or PATHS:
        samples: dict[str, list] = defaultdict(list)
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as cache:
                environment = os.environ | {"NUMBA_CACHE_DIR": cache}
                arguments = [sys.executable, __file__, "--child", path]
                arguments += ["--defaults"] * options.defaults + ["--list"] * options.list
                for kind in ("cold", "cached"):
                    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True)
                    answer = json.loads(done.stdout)
                    samples[kind].append(answer["first"])
                    if kind == "cold":
                        compiled = answer["compiled"]
                samples["second"].append(answer["second"])
        row = [lowest(samples[kind]) for kind in ("cold", "cached", "second")]
        print(f"{PATHS[path]:<36}{row[0]:<16}{row[1]:<16}{row[2]:<16}{answer['solver']}", flush=True)
        if options.list:
            sums: dict[str, list[float]] = defaultdict(list)
            for name, took in compiled:
                sums[name].append(took)
            for name, all_of_it in sorted(sums.items(), key=lambda item: -sum(item[1])):
                print(f"    {sum(all_of_it):6.3f} s in {len(all_of_it):2}  {name}")


if __name__ == "__main__":
    main()
