"""
Direct and lifted: two ways to one model
========================================

A model of degree 2 is a matrix of weights, and a matrix can be written as a sum of squares or as a product of two
factors. Either form can express the same models. Does it matter, in training, which one is taken?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

from polyfm import PolynomialNetworkRegressor

X, y = load_diabetes(return_X_y=True)
X, y = scale(X), scale(y)

# %%
# Ten random starts of each. The squares of the direct form get signs at random, once and for all; the lifted form has
# none to choose.

settings = {"n_components": 6, "alpha": 1.0, "beta": 20.0, "tol": 1e-10, "max_iter": 300}
ways = {
    "direct": {"method": "direct", "solver": "lbfgs", "init_lambdas": "random_signs"},
    "lifted": {"method": "lifted", "solver": "cd"},
}
runs = {
    name: [PolynomialNetworkRegressor(**settings, **way, random_state=seed).fit(X, y) for seed in range(10)]
    for name, way in ways.items()
}
for name, models in runs.items():
    ends = [model.objective_ for model in models]
    print(f"{name}: objectives from {min(ends):.4f} to {max(ends):.4f}")

# %%
# A lifted model becomes a direct one with the same predictions, and back.

lifted = runs["lifted"][0]
direct = lifted.to_direct()
print(np.abs(direct.predict(X) - lifted.predict(X)).max())

# %%
# The picture: how far each run is above the lowest objective that any of them found, epoch by epoch.

best = min(model.objective_ for models in runs.values() for model in models)
figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
for (name, models), colour in zip(runs.items(), ("#e0a458", "#2f7fc1"), strict=True):
    for i, model in enumerate(models):
        above = np.maximum(model.history_ / best - 1, 1e-9)
        ax.semilogy(np.arange(1, len(above) + 1), above, color=colour, alpha=0.7, label=name if i == 0 else None)
ax.set(xlabel="epochs", ylabel="above the best, relative", xscale="log")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# All lifted runs end at the same objective. Where direct ones end depends on the signs that they were given, here by up
# to two percent; ``fit_lambdas=True`` would learn them. That is why networks are lifted by default.
