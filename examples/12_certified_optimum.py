"""
A certified optimum
===================

Training has stopped. Is this the best model there is, or did it get stuck? For models of degree 2, polyfm can prove how
far it is from the best, over all ranks, seeds and solvers.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from polyfm import FactorizationMachineRegressor, certify

X, y = load_diabetes(return_X_y=True)
X, y = scale(X), scale(y)

# %%
# A model, and what is known about it.

settings = {"alpha": 1.0, "beta": 4.0, "random_state": 0}
print(certify(FactorizationMachineRegressor(**settings).fit(X, y), X, y))

# %%
# The same after more and more epochs. The objective comes down, and the bound, below which no model can be, comes up.

epochs = np.unique(np.geomspace(1, 400, 14).astype(int))
found = []
for n in epochs:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is stopped early on purpose
        model = FactorizationMachineRegressor(max_iter=int(n), tol=0, **settings).fit(X, y)
    found.append(certify(model, X, y))

# %%
# And with too few bases? One is not enough here, and the gap says so: it stays.

small = {k: certify(FactorizationMachineRegressor(n_components=k, tol=1e-9, max_iter=2000, **settings).fit(X, y), X, y)
         for k in range(1, 8)}  # fmt: skip
automatic = FactorizationMachineRegressor(n_components="auto", **settings).fit(X, y)
print(f"n_components='auto' takes {automatic.n_components_}, within {automatic.duality_gap_:.1%} of the best")

# %%
# The picture: objective and bound meet, where there are bases enough.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
upper, lower = [c.objective for c in found], [c.lower_bound for c in found]
left.plot(epochs, upper, "o-", color="#2f7fc1", label="objective of the model")
left.plot(epochs, lower, "o-", color="#d1495b", label="no model is below")
left.fill_between(epochs, lower, upper, color="#b8bcc4", alpha=0.4)
left.set(xscale="log", xlabel="epochs, 10 bases", ylabel="objective", ylim=(min(lower[-6:]) * 0.9, upper[0] * 1.02))
left.legend(frameon=False)
right.semilogy(list(small), [c.relative_gap for c in small.values()], "o-", color="#2f7fc1")
right.axvline(automatic.n_components_, color="#d1495b", linestyle=":", label="n_components='auto'")
right.set(xlabel="bases", ylabel="relative gap after training")
right.legend(frameon=False)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# With enough bases the gap closes: neither more bases, nor another seed, nor another solver would get any lower. The
# certificate is about the training objective; it does not say that the penalty was a good choice.
