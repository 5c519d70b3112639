"""Objective, held-out R2 and seconds of solvers with default parameters on the dense sets: a lower objective is not yet
a better model.

POLYFM_DATA=DIR OMP_NUM_THREADS=1 python benchmarks/held_out.py [abalone cadata cpusmall]
"""

import sys
import time
import warnings

import data

from polyfm import FactorizationMachineRegressor, PolynomialNetworkRegressor

DIRECT = {"method": "direct", "init_lambdas": "random_signs"}
CASES = [
    *((f"A^{m}", FactorizationMachineRegressor, {"degree": m}, ("cd", "newton")) for m in (2, 3)),
    *((f"lifted H^{m}", PolynomialNetworkRegressor, {"degree": m}, ("cd", "newton")) for m in (2, 3)),
    *((f"direct H^{m}", PolynomialNetworkRegressor, {"degree": m, **DIRECT}, ("lbfgs", "newton")) for m in (2, 3)),
]

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or ("abalone", "cadata", "cpusmall"):
        X, X_test, y, y_test = data.dense(name)
        for title, kind, options, solvers in CASES:
            for solver in solvers:
                model = kind(solver=solver, random_state=0, **options).fit(X, y)  # compiles
                began = time.perf_counter()
                model.fit(X, y)
                seconds = time.perf_counter() - began
                print(
                    f"{name:<10}{title:<14}{solver:<8}objective {model.objective_:9.1f}   R2 "
                    f"{model.score(X_test, y_test):.4f}   {model.n_iter_:4d} epochs   {seconds:.2f} s",
                    flush=True,
                )
