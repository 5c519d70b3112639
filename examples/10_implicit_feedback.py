"""
Implicit feedback: what people did, not what they said
======================================================

A log of plays has no ratings, and nothing in it says what people do not like. What can be learned from it?
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from polyfm.recommend import Recommender, random_split

# %%
# A made-up log: four scenes of artists, and listeners who mostly stay in one or two of them.

rng = np.random.RandomState(0)
scenes = ["jazz", "metal", "folk", "techno"]
artists = [f"{scene}-{i}" for scene in scenes for i in range(30)]
scene_of = np.repeat(np.arange(4), 30)
fame = np.tile(np.exp(-np.arange(30) / 10), 4)
plays = []
for listener in range(250):
    taste = rng.dirichlet(np.full(4, 0.3))[scene_of] * fame + 1e-4
    chosen = rng.choice(len(artists), rng.randint(8, 25), replace=False, p=taste / taste.sum())
    plays += [(f"listener {listener}", artists[a]) for a in chosen]
log = pd.DataFrame(plays, columns=["listener", "artist"])

# %%
# A fifth of each listener's log is held out. Training looks at all pairs, the unseen ones with a small weight,
# ``omega``; nothing is sampled.

train, test = random_split(log, "listener", random_state=0)
rec = Recommender("listener", "artist", feedback="implicit", n_components=8, random_state=0).fit(train)
judged = rec.evaluate(test, k=10)
print(judged.round(3).T)
print(rec.similar_items("jazz-0", n=4))

# %%
# The picture: how rankings compare with what is simply popular, and a map of the artists that was made from the log
# alone.

vectors = rec.items_.X @ rec.factors_[1]
unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
spread = np.linalg.svd(unit - unit.mean(axis=0), full_matrices=False)
flat = spread[0][:, :2] * spread[1][:2]
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained", width_ratios=[1, 1.3])
measures = ["precision", "recall", "ndcg", "map"]
for i, (model, colour) in enumerate({"popularity": "#b8bcc4", "model": "#2f7fc1"}.items()):
    left.bar(np.arange(4) + 0.4 * (i - 0.5), judged.loc[model, measures], 0.38, color=colour, label=model)
left.set(xticks=range(4), xticklabels=measures, title="The first ten, judged by held-out plays")
left.legend(frameon=False)
left.spines[["top", "right"]].set_visible(False)
for scene, colour in zip(scenes, ("#e0a458", "#3b3b3b", "#4f9d69", "#8e6fb3"), strict=True):
    here = [artist.startswith(scene) for artist in rec.items_.values]
    right.scatter(*flat[here].T, s=22, color=colour, label=scene)
right.set(xticks=[], yticks=[], title="Artists, by whom they are heard")
right.legend(frameon=False)
plt.show()

# %%
# The scenes were never named in the log. The map found them, and the lists are more than twice as good as popularity's.
