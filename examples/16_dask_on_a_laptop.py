"""
Dask on a laptop
================

The rows are in parts: files of a log, chunks on a cluster. Does training on parts give the model that one machine would
have made of all rows?
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

from polyfm import FactorizationMachineRegressor
from polyfm.dask import DaskFactorizationMachineRegressor

# %%
# Rows that fit into memory, so that both ways can be compared.

rng = np.random.RandomState(0)
X = rng.standard_normal((4000, 12))
y = X[:, 0] + X[:, 1] * X[:, 2] - X[:, 3] * X[:, 4] + 0.1 * rng.standard_normal(4000)
settings = {"n_components": 4, "alpha": 1.0, "beta": 5.0, "solver": "lbfgs", "random_state": 0}
local = FactorizationMachineRegressor(**settings).fit(X, y)

# %%
# The same rows as Dask arrays of 2, 4, 8 and 16 parts. Rows stay with the workers; parameters and sums travel. Here the
# workers are threads of this process; ``Client("tcp://...")`` would be a cluster.

found = {}
with (
    LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
    Client(cluster),
):
    for parts in (2, 4, 8, 16):
        rows = len(X) // parts
        X_parts, y_parts = da.from_array(X, chunks=(rows, -1)), da.from_array(y, chunks=rows)
        model = DaskFactorizationMachineRegressor(**settings).fit(X_parts, y_parts)
        found[parts] = model.to_local()  # the ordinary estimator: save it, explain it, serve it
        print(parts, type(found[parts]).__name__, f"R² = {found[parts].score(X, y):.4f}")

# %%
# The picture: the objective, epoch by epoch, and how far predictions are from those of one machine.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
left.semilogy(local.history_, color="#b8bcc4", linewidth=6, label="one machine")
left.semilogy(found[8].history_, color="#2f7fc1", label="8 parts, 2 workers")
left.set(xlabel="epochs", ylabel="objective")
left.legend(frameon=False)
gaps = [np.abs(model.predict(X) - local.predict(X)).max() for model in found.values()]
right.bar([str(parts) for parts in found], gaps, color="#2f7fc1")
right.axhline(np.std(y), color="#d1495b", linestyle=":", label="size of the targets")
right.set(yscale="log", ylim=(1e-16, 10), xlabel="parts", ylabel="largest difference of a prediction")
right.legend(frameon=False, loc="center")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The curves are one curve. What differs is the order in which numbers are added up, in the last digits. On so few rows
# one machine is faster; the page on distributed training says from where on a cluster pays.
