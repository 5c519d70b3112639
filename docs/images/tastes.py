"""The README's picture: ratings as they are, as a model sees them while it learns, and as three models see them.

python docs/images/tastes.py [tastes.png]
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from polyfm.cli.demo_problems import TREES, score, tastes


def draw(path: Path) -> None:
    ratings = tastes()
    problem = ratings.problem
    train, _ = problem.split()
    seen = np.full(ratings.truth.shape, np.nan)
    seen[ratings.person[train], ratings.film[train]] = ratings.rating[train]
    panels = {"the truth": ratings.truth, f"what is seen: {len(train) / seen.size:.0%}, with noise": seen}
    for name, (model, X) in problem.contestants().items():
        label = f"{name}: R² = {score(problem, model, X):.2f}"
        panels[label] = ratings.predicted(model.predict, table=name == TREES)

    low, high = np.quantile(ratings.truth, (0.005, 0.995))
    colours = plt.get_cmap("RdBu_r").with_extremes(bad="#e4e4e4")
    figure, axes = plt.subplots(1, len(panels), figsize=(13.5, 3.1), layout="constrained")
    for axis, (name, panel) in zip(axes, panels.items(), strict=True):
        image = axis.imshow(panel.T, cmap=colours, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
        axis.set_title(name, fontsize=10)
        axis.set(xticks=[], yticks=[], xlabel=f"{panel.shape[0]} people")
    axes[0].set_ylabel(f"{ratings.truth.shape[1]} films")
    figure.colorbar(image, ax=axes, label="rating", shrink=0.9, pad=0.01)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))
