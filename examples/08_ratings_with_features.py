"""
Ratings with features: films that nobody has rated yet
======================================================

Ids tell everything about films with many ratings, and nothing about a new one. Its genre is known, though. How much
does it help, and for whom?
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from polyfm.recommend import Recommender

# %%
# Made-up ratings: people like genres, and each film has something of its own. Some films have a hundred ratings, some
# have none.

rng = np.random.RandomState(0)
n_users, n_films = 300, 240
genre = rng.randint(6, size=n_films)
liking = rng.standard_normal((n_users, 6))
own = 0.5 * rng.standard_normal(n_films)
popularity = np.exp(-np.arange(n_films) / 50)
popularity[-60:] = 0  # not released yet
pairs = [
    (u, f) for u in range(n_users) for f in rng.choice(n_films, 30, replace=False, p=popularity / popularity.sum())
]
u, f = np.array(pairs).T


def rate(u, f):
    return 3 + liking[u, genre[f]] + own[f] + 0.3 * rng.standard_normal(len(u))


ratings = pd.DataFrame({"user": u, "film": f, "rating": rate(u, f)})
films = pd.DataFrame({"film": np.arange(n_films), "genre": [f"genre {g}" for g in genre]})

# %%
# The same recommender with ids alone, and with a table of films beside the ratings.

plain = Recommender(item="film", n_components=8, random_state=0).fit(ratings, target="rating")
rich = Recommender(item="film", n_components=8, random_state=0).fit(ratings, target="rating", items=films)

# %%
# Both are judged by new ratings of all films. A film without ratings is unknown to the first, for which the mean of all
# ratings has to do.

u, f = rng.randint(n_users, size=20000), rng.randint(n_films, size=20000)
later = pd.DataFrame({"user": u, "film": f, "rating": rate(u, f)})
counts = np.bincount(ratings["film"], minlength=n_films)[f]
known = counts > 0
guess = np.full(len(later), ratings["rating"].mean())
guess[known] = plain.predict(later.loc[known, ["user", "film"]])
errors = {"ids": guess - later["rating"], "ids and genres": rich.predict(later[["user", "film"]]) - later["rating"]}

# %%
# The picture: the error by how often a film was rated.

edges = [0, 1, 10, 30, 60, 1000]
labels = ["none", "1 to 9", "10 to 29", "30 to 59", "60 and more"]
figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
for i, (name, colour) in enumerate({"ids": "#b8bcc4", "ids and genres": "#2f7fc1"}.items()):
    heights = [np.sqrt(np.mean(errors[name][(counts >= low) & (counts < high)] ** 2)) for low, high in pairwise(edges)]
    bars = ax.bar(np.arange(5) + 0.4 * (i - 0.5), heights, 0.38, color=colour, label=name)
    ax.bar_label(bars, fmt="%.2f", fontsize=9)
ax.set(xticks=range(5), xticklabels=labels, xlabel="ratings of the film in training", ylabel="error (RMSE)")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Features help most where ids know least. ``add_items`` takes in films that come later, by their features alone.
