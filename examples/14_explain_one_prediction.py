"""
Explain one prediction
======================

Somebody asks why the model expects that their disease will progress fast. What exactly went into that number?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polyfm import FactorizationMachineRegressor, explain

data = load_diabetes(as_frame=True, scaled=False)
model = make_pipeline(StandardScaler(), FactorizationMachineRegressor(random_state=0)).fit(data.data, data.target)

# %%
# ``explain`` takes a prediction apart into terms that add up to it: the intercept, single features, and products. These
# are no estimates: a factorization machine is a polynomial, and this is the polynomial.

patient = data.data.iloc[[model.predict(data.data).argmax()]]
parts = explain(model, patient.iloc[0], max_degree_terms=100)
print(parts.head(16).to_string(index=False))
print(f"sum {parts['contribution'].sum():.3f}, prediction {model.predict(patient)[0]:.3f}")

# %%
# The picture: from the mean of everyone, term by term, to this patient.

intercept = parts["contribution"].iloc[0]
terms = parts.iloc[1:]
largest = terms.reindex(terms["contribution"].abs().sort_values(ascending=False).index).head(11)
others = terms["contribution"].sum() - largest["contribution"].sum()
names = [str(name) for name in largest.iloc[:, 0]] + ["all others"]
steps = np.append(largest["contribution"], others)
starts = intercept + np.concatenate([[0], np.cumsum(steps)[:-1]])
figure, ax = plt.subplots(figsize=(8, 4.4), layout="constrained")
colours = np.where(steps > 0, "#d1495b", "#2f7fc1")
places = np.arange(len(steps))
ax.barh(places, steps, left=starts, color=colours)
for place, start, step in zip(places, starts, steps, strict=True):
    ax.text(max(start, start + step) + 1, place, f"{step:+.1f}", va="center", fontsize=9)
ax.axvline(intercept, color="#b8bcc4", linestyle=":", zorder=0)
ax.axvline(starts[-1] + steps[-1], color="#333333", linestyle=":", zorder=0)
ax.set(
    yticks=places, yticklabels=names, xlabel=f"from {intercept:.0f}, the intercept, to {steps.sum() + intercept:.0f}"
)
ax.invert_yaxis()
ax.margins(x=0.1)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Red terms raise the prediction, blue ones lower it. Names with an "x" are two measurements that act together.
