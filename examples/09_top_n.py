"""
The best items for everyone
===========================

Predictions are numbers; a shop window needs a list. Which five recipes does each person get, at breakfast and in the
evening, and without what they have cooked already?
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from polyfm.recommend import Recommender

# %%
# Made-up ratings of recipes: four kinds of them, people who like some kinds, and a time of day that matters.

rng = np.random.RandomState(0)
kinds = np.array(["porridge", "pasta", "salad", "cake"])
n_people, n_recipes = 60, 40
kind = np.repeat(np.arange(4), 10)
liking = rng.standard_normal((n_people, 4))
hour = {"morning": np.array([1.5, -1.5, -0.5, 0.5]), "evening": np.array([-1.5, 1.5, 0.5, 0.0])}

u, r = rng.randint(n_people, size=2500), rng.randint(n_recipes, size=2500)
when = rng.choice(["morning", "evening"], 2500)
rating = 3 + liking[u, kind[r]] + np.array([hour[w][k] for w, k in zip(when, kind[r], strict=True)])
ratings = pd.DataFrame(
    {"person": u, "recipe": r, "when": when, "rating": rating + 0.3 * rng.standard_normal(2500)}
).drop_duplicates(["person", "recipe"])
recipes = pd.DataFrame({"recipe": np.arange(n_recipes), "kind": kinds[kind]})

# %%
# ``context`` names columns that belong to the situation rather than to the person or the recipe.

rec = Recommender("person", "recipe", n_components=6, random_state=0)
rec.fit(ratings, target="rating", context=["when"], items=recipes)
requests = pd.DataFrame({"person": [7, 7], "when": ["morning", "evening"]})
best = rec.recommend(context=requests, n=5)
print(best)

# %%
# Everyone at once, and only salads: ``filter`` sees the table of recipes.

print(rec.recommend([1, 2], n=2, filter=lambda table: table["kind"] == "salad"))

# %%
# The picture: of the top five of all people, how many are of each kind, by the time of day.

shares = {}
for time in ("morning", "evening"):
    top = rec.recommend(context=pd.DataFrame({"person": np.arange(n_people), "when": time}), n=5)
    shares[time] = top.merge(recipes.astype({"recipe": top["recipe"].dtype}), on="recipe")["kind"].value_counts()
figure, ax = plt.subplots(figsize=(8, 2.6), layout="constrained")
left = np.zeros(2)
for name, colour in zip(kinds, ("#e0a458", "#d1495b", "#4f9d69", "#8e6fb3"), strict=True):
    widths = np.array([shares[time].get(name, 0) / (5 * n_people) for time in shares])
    bars = ax.barh(list(shares), widths, left=left, color=colour, label=name)
    ax.bar_label(bars, [f"{w:.0%}" if w > 0.04 else "" for w in widths], label_type="center", color="white")
    left += widths
ax.set(xlim=(0, 1), xticks=[], title="What is recommended, by the time of day")
ax.legend(frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, 0))
ax.invert_yaxis()
ax.spines[["top", "right", "bottom"]].set_visible(False)
plt.show()

# %%
# Porridge in the morning and pasta in the evening, each for those who like it. The search is exact, over all recipes,
# and takes what has been cooked already out of the list.
