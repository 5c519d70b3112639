"""
Degrees: three features that act together
=========================================

A switch, a lamp and a power station: there is light only if all three work. Pairs do not tell. How does one find out
that a degree of two is not enough?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score

from polyfm import FactorizationMachineRegressor, interactions

# %%
# Eight features, a product of three of them, a pair, and a single one.

rng = np.random.RandomState(0)
X = rng.standard_normal((600, 8))
y = X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3] * X[:, 4] + X[:, 5] + 0.3 * rng.standard_normal(600)

# %%
# ``degree`` is the largest number of features that may act together. With ``fit_lower="explicit"``, the default, lower
# degrees have bases of their own.

degrees = [2, 3, 4, 5]
scores = [
    cross_val_score(FactorizationMachineRegressor(degree=m, n_components=4, random_state=0), X, y, cv=4)
    for m in degrees
]
for m, score in zip(degrees, scores, strict=True):
    print(f"degree {m}: R² = {score.mean():.2f}")

# %%
# The model of degree 3 names the product.

model = FactorizationMachineRegressor(degree=3, n_components=4, random_state=0).fit(X, y)
names = ["switch", "lamp", "station", "pan", "stove", "sun", "cat", "hat"]
strongest = interactions(model, top=6, feature_names=names)
print(strongest)

# %%
# The picture: scores by degree, and the strongest products of three.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
left.errorbar(degrees, [s.mean() for s in scores], [s.std() for s in scores], fmt="o-", color="#2f7fc1", capsize=4)
left.set(xlabel="degree", ylabel="R², 4 folds", xticks=degrees, title="A degree of 3 is what it takes")
labels = strongest[["feature_1", "feature_2", "feature_3"]].agg(" x ".join, axis=1)
right.barh(np.arange(6)[::-1], strongest["weight"], color=["#d1495b"] + ["#b8bcc4"] * 5)
right.set(yticks=np.arange(6)[::-1], yticklabels=labels, xlabel="weight", title="and one product stands out")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# A degree more than is needed does no harm here: penalties hold back what the data do not ask for, and only time is
# lost. To try degrees along with penalties, pass ``degrees=[2, 3, 4]`` to ``FactorizationMachineRegressorCV``.
