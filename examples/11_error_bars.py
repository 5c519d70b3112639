"""
Error bars that hold
====================

A prediction of 4.1 stars may rest on a hundred ratings or on one. A Bayesian machine says which. Can its error bars be
trusted?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import OneHotEncoder

from polyfm import BayesianFactorizationMachineRegressor
from polyfm.display import CoverageDisplay

# %%
# Made-up ratings; some people have rated a lot, others hardly anything.

rng = np.random.RandomState(0)
n_users, n_items, n_rows = 150, 60, 4000
weight = np.exp(-np.arange(n_users) / 25)
users = rng.choice(n_users, n_rows, p=weight / weight.sum())
items = rng.randint(n_items, size=n_rows)
tastes, traits = rng.standard_normal((n_users, 2)), rng.standard_normal((n_items, 2))
y = 3 + np.sum(tastes[users] * traits[items], axis=1) + 0.4 * rng.standard_normal(n_rows)

encoder = OneHotEncoder(categories=[np.arange(n_users), np.arange(n_items)])
X = encoder.fit_transform(np.column_stack([users, items]))
train, test = slice(0, 3000), slice(3000, None)

# %%
# There are no penalties to choose. The rank may be too large: bases that the data do not ask for die out.

fm = BayesianFactorizationMachineRegressor(n_components=6, random_state=0).fit(X[train], y[train])
mean, std = fm.predict(X[test], return_std=True)
print(f"noise {fm.noise_:.2f} (truly 0.4), effective rank {fm.effective_rank_:.1f} (truly 2)")

# %%
# The picture: predictions are less sure for people who have rated little; and of intervals that should hold a share of
# the ratings, about that share does.

counts = np.bincount(users[train], minlength=n_users)[users[test]]
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
left.scatter(np.maximum(counts, 0.7), std, s=8, alpha=0.4, color="#2f7fc1")
left.axhline(fm.noise_, color="#d1495b", linestyle="--", label="noise alone")
left.set(xscale="log", xlabel="ratings of that person in training", ylabel="standard deviation of a prediction")
left.set_ylim(bottom=0)
left.legend(frameon=False)
CoverageDisplay.from_estimator(fm, X[test], y[test], ax=right)
plt.show()

# %%
# The more is known of somebody, the nearer the error comes to the noise, which no model can predict.
