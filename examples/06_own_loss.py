"""
Your own loss
=============

One measurement in ten is wrong, by far. The squared loss bends the whole model towards these. Huber's loss forgives
them, and polyfm does not have it. What does it take to add it?
"""

import matplotlib.pyplot as plt
import numpy as np

from polyfm import FactorizationMachineRegressor

# %%
# One small class: the loss, its derivative, and a bound on the second derivative. It is checked once, and compiled into
# the same loops as the losses that come with polyfm.


class Huber:
    curvature = 1.0
    residual = True  # it depends on f - y alone

    def __init__(self, delta=1.0):
        self.delta = delta

    def value(self, y, f):
        r = abs(f - y)
        return 0.5 * r * r if r <= self.delta else self.delta * (r - 0.5 * self.delta)

    def derivative(self, y, f):
        return max(-self.delta, min(self.delta, f - y))


# %%
# Clean targets are a single feature and a product; every tenth is 20 too high.

rng = np.random.RandomState(0)
X = rng.standard_normal((400, 8))
clean = X[:, 0] * X[:, 1] + X[:, 2]
y = clean + 0.1 * rng.standard_normal(400)
wrong = np.arange(400) % 10 == 0
y[wrong] += 20

fits = {
    "squared loss": FactorizationMachineRegressor(random_state=0).fit(X, y),
    "Huber's loss": FactorizationMachineRegressor(loss=Huber(0.5), random_state=0).fit(X, y),
}

# %%
# The picture: predictions for new rows against what they should be.

new = rng.standard_normal((300, 8))
truth = new[:, 0] * new[:, 1] + new[:, 2]
figure, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained", sharey=True, sharex=True)
for ax, (name, model) in zip(axes, fits.items(), strict=True):
    ax.axline((0, 0), slope=1, color="#b8bcc4", zorder=0)
    ax.scatter(truth, model.predict(new), s=12, color="#2f7fc1", alpha=0.7)
    ax.set(title=f"{name}: R² = {model.score(new, truth):.2f}", xlabel="truth")
axes[0].set_ylabel("prediction")
plt.show()

# %%
# Nothing but the loss was changed. Penalties were chosen by the same loss, too: held-out rows that are wrong do not
# count for much.
