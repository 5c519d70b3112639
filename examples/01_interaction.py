"""
What is an interaction?
=======================

Does coffee taste better with sugar? It depends on who drinks it. That is an interaction: the effect of one feature
depends on another, and no sum of single effects can say so.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge

from polyfm import FactorizationMachineRegressor, interactions

# %%
# Two numbers, and a target that is their product. Where both are high or both are low, it is high.

rng = np.random.RandomState(0)
X = rng.uniform(-1, 1, (400, 2))
y = X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(400)

linear = Ridge().fit(X, y)
machine = FactorizationMachineRegressor(n_components=2, init_lambdas="random_signs", random_state=0).fit(X, y)

# %%
# The linear model has a slope for each feature, and draws a plane. The factorization machine has a weight for their
# product as well, here close to 1, as it should be.

print(interactions(machine, feature_names=["coffee", "sugar"]))

# %%
# The picture: the truth, and what either model makes of it.

grid = np.stack(np.meshgrid(np.linspace(-1, 1, 60), np.linspace(-1, 1, 60)), axis=-1).reshape(-1, 2)
panels = {
    "the truth": grid[:, 0] * grid[:, 1],
    f"linear: R² = {linear.score(X, y):.2f}": linear.predict(grid),
    f"factorization machine: R² = {machine.score(X, y):.2f}": machine.predict(grid),
}
figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.2), layout="constrained", sharey=True)
for ax, (title, values) in zip(axes, panels.items(), strict=True):
    image = ax.imshow(values.reshape(60, 60), cmap="RdBu_r", vmin=-1, vmax=1, extent=(-1, 1, -1, 1), origin="lower")
    ax.set(title=title, xlabel="coffee")
axes[0].set_ylabel("sugar")
figure.colorbar(image, ax=axes, label="taste", shrink=0.9)
plt.show()

# %%
# A plane cannot rise in two opposite corners. The next examples have thousands of features, of which nobody knows
# beforehand which ones interact.
