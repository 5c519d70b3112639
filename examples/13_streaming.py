"""
A stream of clicks
==================

Rows come in by the minute, and never all at once. How soon does a model that sees each row only once become useful, and
what happens when the world changes?
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import roc_auc_score

from polyfm import FactorizationMachineClassifier

# %%
# Made-up clicks: a visitor's segment, a page and an advert, one-hot. Which advert works depends on the segment. In the
# middle of the stream the adverts change places.

rng = np.random.RandomState(0)
sizes = np.array([30, 20, 40])
offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
segments, adverts = rng.standard_normal((30, 2)), rng.standard_normal((40, 2))
swapped = adverts[rng.permutation(40)]


def batch(n, adverts):
    codes = np.column_stack([rng.randint(size, size=n) for size in sizes])
    score = 1.5 * np.sum(segments[codes[:, 0]] * adverts[codes[:, 2]], axis=1)
    clicked = rng.uniform(size=n) < 1 / (1 + np.exp(-score))
    indptr = np.arange(0, 3 * n + 1, 3)
    return sp.csr_matrix((np.ones(3 * n), (codes + offsets).ravel(), indptr), shape=(n, sizes.sum())), clicked


# %%
# Each batch is first predicted, then learned from: all scores are those of rows that were new.

machine = FactorizationMachineClassifier(solver="sgd", n_components=4, random_state=0)
linear = SGDClassifier(loss="log_loss", random_state=0)
models = {"linear model": linear, "factorization machine": machine}
scores = {name: [] for name in models}
for step in range(80):
    X, clicked = batch(500, adverts if step < 40 else swapped)
    for name, model in models.items():
        if step:
            scores[name].append(roc_auc_score(clicked, model.decision_function(X)))
        model.partial_fit(X, clicked, classes=[False, True])
print(f"{machine.n_samples_seen_} rows were seen, each once")

# %%
# The picture: how well clicks were foreseen, batch by batch.

figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
for (name, values), colour in zip(scores.items(), ("#b8bcc4", "#2f7fc1"), strict=True):
    ax.plot(np.arange(1, 80) * 500, values, color=colour, label=name, linewidth=2)
ax.axvline(20000, color="#d1495b", linestyle=":")
ax.text(20300, 0.91, "the adverts change places", color="#d1495b")
ax.set(xlabel="rows seen", ylabel="AUC on the next 500 rows", ylim=(0.4, 0.95))
ax.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# After some thousands of rows the machine foresees most of what can be foreseen. When the world changes it unlearns,
# and learns anew. The linear model has nothing to learn: no advert is better than another for everyone.
