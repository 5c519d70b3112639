"""
Text with metadata
==================

Is "long" a good word? Of a battery's life it is, of a queue it is not. A model of words alone cannot know; one of words
and topics, each by itself, cannot either. Words *times* topics can.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from polyfm import FactorizationMachineClassifier, interactions

# %%
# Made-up reviews: some words are good or bad wherever they stand, others depend on what is reviewed.

rng = np.random.RandomState(0)
topics = ["battery", "queue", "film", "coffee"]
everywhere = {"great": 2, "poor": -2, "fine": 1, "awful": -2}
depends = {
    "long": {"battery": 2, "queue": -2, "film": -1, "coffee": 0},
    "short": {"battery": -2, "queue": 2, "film": 1, "coffee": 0},
    "cold": {"battery": 0, "queue": 0, "film": -1, "coffee": -2},
    "unpredictable": {"battery": -2, "queue": -1, "film": 2, "coffee": -1},
    "bitter": {"battery": 0, "queue": 0, "film": 0, "coffee": 1},
}
fillers = ["the", "it", "was", "and", "very", "quite", "really", "this", "one", "again"]

rows = []
for _ in range(1500):
    topic = rng.choice(topics)
    words = list(rng.choice([*everywhere, *depends], 3)) + list(rng.choice(fillers, 5))
    mood = sum(everywhere.get(word, 0) + depends.get(word, {}).get(topic, 0) for word in words)
    rows.append((" ".join(rng.permutation(words)), topic, mood + rng.standard_normal() > 0))
reviews = pd.DataFrame(rows, columns=["text", "topic", "liked"])
print(reviews.head(4).to_string(index=False))

# %%
# A ``ColumnTransformer`` makes features of both columns, as for any scikit-learn model.


def pipeline(model):
    columns = make_column_transformer((CountVectorizer(), "text"), (OneHotEncoder(), ["topic"]))
    return make_pipeline(columns, model)


table, liked = reviews[["text", "topic"]], reviews["liked"]
accuracy = {
    name: np.mean(cross_val_predict(pipeline(model), table, liked, cv=4) == liked)
    for name, model in {
        "logistic regression": LogisticRegression(),
        "factorization machine": FactorizationMachineClassifier(random_state=0),
    }.items()
}
print({name: f"{share:.1%}" for name, share in accuracy.items()})

# %%
# What did it learn? The pipeline knows the names, and which products can occur.

fitted = pipeline(FactorizationMachineClassifier(random_state=0)).fit(table, liked)
found = interactions(fitted, top=200, X=table)
names = found[["feature_1", "feature_2"]].replace({r".*__": "", "topic_": ""}, regex=True)
weights = {frozenset(pair): w for pair, w in zip(names.to_numpy().tolist(), found["weight"], strict=True)}

# %%
# The picture: the weight of each word times each topic.

words = list(depends)
grid = np.array([[weights.get(frozenset((word, topic)), 0.0) for topic in topics] for word in words])
most = np.abs(grid).max()
figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
image = ax.imshow(grid, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
for i in range(len(words)):
    for j in range(len(topics)):
        shade = "white" if abs(grid[i, j]) > 0.6 * most else "black"
        ax.text(j, i, f"{grid[i, j]:+.1f}", ha="center", va="center", color=shade)
ax.set(xticks=range(4), xticklabels=topics, yticks=range(len(words)), yticklabels=words)
ax.set_title(" and ".join(f"{name} {share:.0%}" for name, share in accuracy.items()), fontsize=10)
figure.colorbar(image, ax=ax, label="weight of word x topic")
plt.show()

# %%
# A long battery life is praise and a long queue a complaint, and nobody had to say so.
