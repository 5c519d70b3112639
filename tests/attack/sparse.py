"""Malformed sparse matrices: compiled loops trust indices, so whatever takes a matrix must not. Each attack runs in a
child of its own: a write beyond an array may only kill the next one."""

from functools import cache

import numpy as np
import scipy.sparse as sp

import polyfm
from attack.common import Child, Failed, check, refused, say
from polyfm import FactorizationMachineClassifier, FactorizationMachineRegressor, PolynomialNetworkRegressor, kernels
from polyfm.solvers import SOLVERS

N, D = 12, 5
FAR = (D, 10**6, 2**31 - 1, -1, -(2**31))  # indices that no column has
models: dict = {}


def base(seed: int = 0) -> np.ndarray:
    rng = np.random.RandomState(seed)
    return rng.standard_normal((N, D)) * (rng.uniform(size=(N, D)) < 0.6)


@cache
def prepare() -> None:
    """Compile what the children will run."""
    X, y = sp.csr_matrix(base()), np.arange(N) % 3 - 1.0
    for solver in SOLVERS:
        model = FactorizationMachineRegressor(n_components=2, max_iter=2, solver=solver, random_state=0)
        models[solver] = model.fit(X, y)
    models["classes"] = FactorizationMachineClassifier(n_components=2, max_iter=2, solver="cd", random_state=0)
    models["network"] = PolynomialNetworkRegressor(n_components=2, max_iter=2, solver="cd", random_state=0)
    models["classes"].fit(X, y > 0)
    models["network"].fit(X, y)
    models["sgd"].partial_fit(X, y)
    for name, use in USES.items():
        rows = 1 if name == "explain" else N
        use(X[:rows], y[:rows])
        use(X[:rows].toarray(), y[:rows])


USES = {
    **{f"fit {name}": lambda X, y, m=name: fitted(m, X, y) for name in (*SOLVERS, "classes", "network")},
    "partial_fit": lambda X, y: FactorizationMachineRegressor(
        n_components=2, solver="sgd", random_state=0
    ).partial_fit(X, y).predict(base()),
    "predict": lambda X, y: models["cd"].predict(X),
    "decision_function": lambda X, y: models["classes"].decision_function(X),
    "predict network": lambda X, y: models["network"].predict(X),
    "anova_kernel": lambda X, y: kernels.anova_kernel(X, base()[:2]),
    "homogeneous_kernel": lambda X, y: kernels.homogeneous_kernel(X, base()[:2]),
    "bases": lambda X, y: kernels.anova_kernel(base()[:2], X),
    "explain": lambda X, y: polyfm.explain(models["cd"], X).weight.to_numpy(),
}  # fmt: skip


def fitted(name: str, X, y) -> np.ndarray:
    y = y > 0 if name == "classes" else y
    return type(models[name])(**models[name].get_params()).fit(X, y).predict(base())


def corrupt(rng, X) -> tuple[str, str]:
    """Make X malformed, or only odd; what was done, and whether it must be refused, may be, or is legal."""
    if X.format == "coo":
        ends = {"row": N, "col": D}
        axis = ("row", "col")[rng.randint(2)]
        at = getattr(X, axis).copy()
        at[rng.randint(len(at))] = rng.choice([ends[axis], 10**6, -1, 2**31 - 1])
        X.coords = tuple(at if name == axis else getattr(X, name) for name in ("row", "col"))
        return f"{axis} out of range", "must"
    kind = rng.randint(15)
    last, e = len(X.indptr) - 1, rng.randint(max(len(X.indices), 1))
    X.indices, X.indptr, X.data = X.indices.copy(), X.indptr.copy(), X.data.copy()
    n_minor = X.shape[1] if X.format == "csr" else X.shape[0]
    if kind == 0:
        X.indices[e] = rng.choice(FAR) if X.format == "csr" else 10**6
        return "an index out of range", "must"
    if kind == 1:
        X.indices[e] = -1 - rng.randint(n_minor)
        return "a negative index", "must"
    if kind == 2:
        i = rng.randint(1, last) if last > 1 else 1
        X.indptr[i] = X.indptr[-1] + rng.choice([1, 100, 10**6, 2**30])
        return "indptr beyond the data, and falling", "must"
    if kind == 3:
        X.indptr[rng.randint(1, last + 1)] = -1
        return "a negative indptr", "must"
    if kind == 4:
        X.indptr = X.indptr[: rng.randint(last + 1)]
        return "indptr too short", "must"
    if kind == 5:
        X.indptr[0] = rng.choice([1, 3, -1, 10**6])
        return "indptr does not start at 0", "must"
    if kind == 6:
        X.indptr[-1] += rng.choice([1, 5, 1000, 10**8])
        return "indptr longer than the data", "must"
    if kind == 7:
        X.data = X.data[: rng.randint(len(X.data))]
        return "data too short", "must"
    if kind == 8:
        X.indices = X.indices[: rng.randint(len(X.indices))]
        return "indices too short", "must"
    if kind == 9:
        X.indices, X.indptr = X.indices.astype(">i4"), X.indptr.astype(rng.choice([">i4", "<i4", ">i8"]))
        return "big-endian indices", "may"
    if kind == 10:
        X.data = X.data.astype(rng.choice([">f8", ">f4"]))
        return "big-endian data", "may"  # scipy itself knows none
    if kind == 11:
        dtype = rng.choice(["f8", "u1", "u4", "i2", "u8", "O", "c16"])
        X.indices = X.indices.astype(dtype)
        return f"indices of type {dtype}", "may"
    if kind == 12:
        X.data = X.data.astype(rng.choice(["c16", "O", "U32"]))
        return f"data of type {X.data.dtype}", "may"
    if kind == 13:
        X.indices, X.indptr = X.indices.astype("i8"), X.indptr.astype("i8")
        return "long indices", "legal"
    if X.format != "bsr":
        X.data, X.indices = np.r_[X.data, 9.0, 9.0], np.r_[X.indices, 0, 0]
    return "more data than indptr asks for", "legal"


def attempt(seed: int) -> list[str]:
    rng = np.random.RandomState(seed % 2**32)
    use = list(USES)[rng.randint(len(USES))]
    make = [sp.csr_matrix, sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_matrix, sp.bsr_matrix][rng.randint(6)]
    rows = 1 if use == "explain" else N
    dense, y = base(1)[:rows], (np.arange(N) % 3 - 1.0)[:rows]
    dense[0, 0] = 1.0  # something to spoil
    X = make(dense)
    what, verdict = corrupt(rng, X)
    say(f"{use} of a {type(X).__name__}: {what} ({verdict} be refused)")

    def work(ready):
        try:
            got = USES[use](X, y)
        except Exception as error:
            return refused(error)
        check(verdict != "must", f"{use} takes a {X.format} matrix with {what}")
        close = np.allclose(got, USES[use](dense, y), atol=1e-6) if "fit" not in use else np.isfinite(got)
        check(np.all(close), f"{use} is wrong for a {X.format} matrix with {what}")
        return "accepted"

    number, label = Child(work).end()
    if number:
        raise Failed(f"{use} of a {X.format} matrix with {what}: the process died by signal {number}")
    check(verdict != "legal" or label == "accepted", f"{use} refuses a {X.format} matrix with {what}: {label}")
    return [label]
