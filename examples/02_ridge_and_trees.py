"""
Against ridge regression and boosted trees
==========================================

When is a factorization machine the right model, and when is it not? Three problems, three models, everybody's default
settings.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from polyfm import FactorizationMachineRegressor

# %%
# The problems: who likes what (two columns of ids), a medical table (ten numbers), and a made-up surface with waves and
# a step.

rng = np.random.RandomState(0)

person, film = rng.randint(120, size=4000), rng.randint(80, size=4000)
tastes, traits = rng.standard_normal((120, 2)), rng.standard_normal((80, 2))
rating = np.sum(tastes[person] * traits[film], axis=1) + 0.3 * rng.standard_normal(4000)

Z = rng.uniform(-2, 2, (2000, 4))
surface = np.sin(3 * Z[:, 0]) + (Z[:, 1] > 0.5) + 0.2 * rng.standard_normal(2000)

diabetes = load_diabetes(return_X_y=True)
problems = {
    "ratings": (np.column_stack([person, film]), rating),
    "diabetes": diabetes,
    "waves and steps": (Z, surface),
}

# %%
# Ids are one-hot for ridge regression and the factorization machine, categories for the trees; numbers are
# standardised.


def models(is_ids):
    encoder = OneHotEncoder(handle_unknown="ignore") if is_ids else StandardScaler()
    return {
        "ridge": make_pipeline(encoder, RidgeCV(np.logspace(-2, 3, 11))),
        "trees": HistGradientBoostingRegressor(categorical_features=[0, 1] if is_ids else None, random_state=0),
        "polyfm": make_pipeline(encoder, FactorizationMachineRegressor(random_state=0)),
    }


scores = {}
for name, (X, y) in problems.items():
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    for model, estimator in models(name == "ratings").items():
        scores[name, model] = estimator.fit(X_train, y_train).score(X_test, y_test)
        print(f"{name:16} {model:7} {scores[name, model]:.2f}")

# %%
# The picture: R² on rows that no model has seen.

figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
colours = {"ridge": "#b8bcc4", "trees": "#e0a458", "polyfm": "#2f7fc1"}
for i, (model, colour) in enumerate(colours.items()):
    heights = [max(scores[name, model], 0) for name in problems]
    bars = ax.bar(np.arange(3) + 0.27 * (i - 1), heights, 0.25, color=colour, label=model)
    ax.bar_label(bars, [f"{scores[name, model]:.2f}" for name in problems], fontsize=9)
ax.set(xticks=range(3), xticklabels=problems, ylabel="R² on test rows", ylim=(0, 1.05))
ax.legend(frameon=False, ncols=3, loc="upper left", bbox_to_anchor=(0, 1.15))
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# On ids, what matters is which person meets which film, and most pairs were never seen: only a model with hidden traits
# predicts them. On a small table of numbers all three are close. Waves and steps belong to trees.
