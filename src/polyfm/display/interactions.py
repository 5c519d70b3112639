"""The strongest interactions: a heat map or bars, legible whatever their number and their names."""

import math
from collections import Counter
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier

from polyfm.display.axes import axes_for
from polyfm.display.texts import CHARACTER, FONT, SMALLEST_FONT, fit_labels, inches, literal, size_of
from polyfm.interpretation import interactions, monomial
from polyfm.reading.labels import short_names
from polyfm.tabular.columns import as_pandas

DIVERGING = "RdBu_r"  # red above zero, blue below: safe for red-green colour blindness
POSITIVE, NEGATIVE = "#B2182B", "#2166AC"  # its ends
LARGEST_HEATMAP = 12  # features; of more, a list of pairs is easier to read
SPARSEST_HEATMAP = 1 / 3  # of its cells filled
MOST_BARS = 100
WIDEST_NAME = 24  # characters


class InteractionDisplay:
    """The strongest interactions of a model: a heat map of pairs, or bars for any degree.

    Parameters
    ----------
    table : DataFrame
        As `interactions` gives it.
    weight_name : str, default="weight of the product"
        What the weights are, for the axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    See Also
    --------
    polyfm.interpretation.interactions : The numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from polyfm import FactorizationMachineRegressor
    >>> from polyfm.display import InteractionDisplay
    >>> X = np.random.RandomState(0).standard_normal((100, 4))
    >>> fm = FactorizationMachineRegressor(random_state=0).fit(X, X[:, 0] * X[:, 1])
    >>> display = InteractionDisplay.from_estimator(fm, top=5)
    """

    def __init__(self, table: Any, *, weight_name: Any = "weight of the product") -> None:
        self.table = as_pandas(table)
        self.weight_name = weight_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        degree: int | None = None,
        top: int = 20,
        feature_names: Any = None,
        groups: Any = None,
        X: Any = None,
        impossible: bool = False,
        scale: Any = None,
        target: Any = None,
        kind: str = "auto",
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the strongest interactions of a fitted estimator.

        Parameters
        ----------
        estimator : object
            A fitted estimator of polyfm, or a fitted `Pipeline` that ends in one.
        degree, top, feature_names, groups, X, impossible, scale, target
            See `polyfm.interpretation.interactions`.
        kind : {"auto", "heatmap", "bars"}, default="auto"
            See `plot`.
        ax : matplotlib Axes, default=None
            Where to plot; by default a new figure.
        **kwargs : dict
            Passed to ``Axes.pcolormesh`` or ``Axes.barh``.

        Returns
        -------
        display : InteractionDisplay
        """
        table = interactions(
            estimator, degree=degree, top=top, feature_names=feature_names, groups=groups, X=X, impossible=impossible,
            scale=scale, target=target,
        )  # fmt: skip
        name = "weight" if table.shape[1] == 2 else "weight of the product"
        if scale is not None:
            name += " x spreads"
        if is_classifier(estimator):
            name += f", for class {literal(estimator.classes_[1] if target is None else target)}"
        return cls(table, weight_name=name).plot(kind=kind, ax=ax, **kwargs)

    def plot(self, *, kind: str = "auto", ax: Any = None, **kwargs: Any) -> Self:
        """Plot.

        Parameters
        ----------
        kind : {"auto", "heatmap", "bars"}, default="auto"
            A heat map serves pairs of a few features, where grey cells are pairs that the table does not list. Bars
            serve any degree and any number of features. "auto" takes a heat map for pairs of up to 12 features, where
            a third of all their pairs are listed. Long names are shortened. Weights are written into cells that have
            room for them; of more bars than there is room for, the strongest are shown.
        ax : matplotlib Axes, default=None
            Where to plot; by default a new figure.
        **kwargs : dict
            Passed to ``Axes.pcolormesh`` or ``Axes.barh``.

        Returns
        -------
        display : InteractionDisplay
        """
        if len(self.table) == 0:
            raise ValueError("There is nothing to plot: the table of interactions has no rows.")
        degree = self.table.shape[1] - 1
        names = self.table.drop(columns="weight").to_numpy().astype(str)
        weights = self.table["weight"].to_numpy(dtype=np.float64)
        if kind == "auto":
            n = len(np.unique(names))
            dense = degree == 2 and len(weights) >= SPARSEST_HEATMAP * n * (n - 1) / 2
            kind = "heatmap" if dense and n <= LARGEST_HEATMAP else "bars"
        if kind == "heatmap" and degree != 2:
            raise ValueError(f"kind='heatmap' shows pairs, but the table has degree {degree}: use kind='bars'.")
        if kind not in ("heatmap", "bars"):
            raise ValueError(f"kind must be 'auto', 'heatmap' or 'bars', got {kind!r}.")
        short = short_names(names.ravel().tolist(), WIDEST_NAME)
        (self._heatmap if kind == "heatmap" else self._bars)(names, short, weights, ax, kwargs)
        return self

    def _heatmap(self, names, short, weights, ax, kwargs):
        strength = Counter()
        for pair, weight in zip(names, weights, strict=True):
            strength.update(dict.fromkeys(pair, abs(weight)))
        order = {name: i for i, (name, _) in enumerate(strength.most_common())}
        places = np.sort([[order[name] for name in pair] for pair in names], axis=1)[:, ::-1]  # each pair once
        rows, row = np.unique(places[:, 0], return_inverse=True)
        columns, column = np.unique(places[:, 1], return_inverse=True)
        W = np.full((len(rows), len(columns)), np.nan)
        W[row, column] = weights
        labels = np.array([literal(short[name]) for name in order])
        room = inches(labels)
        self.figure_, self.ax_ = axes_for(ax, figsize=(2.0 + room + 0.6 * len(columns), 1.2 + room + 0.45 * len(rows)))
        unlisted = np.isnan(W) & (rows[:, None] >= columns + (0 if np.any(places[:, 0] == places[:, 1]) else 1))
        if np.any(unlisted):
            grey = np.where(unlisted, 0.5, np.nan)
            self.ax_.pcolormesh(grey, cmap="Greys", vmin=0, vmax=3, edgecolors="white", linewidth=1.5)
            self.ax_.set_xlabel(f"grey: not among the {len(weights)} listed", color="dimgrey")
        largest = np.abs(weights).max() or 1.0
        style = {"cmap": DIVERGING, "vmin": -largest, "vmax": largest, "edgecolors": "white", "linewidth": 1.5}
        mesh = self.ax_.pcolormesh(W, **style | kwargs)
        slanted = {"rotation": 45, "ha": "right", "rotation_mode": "anchor", "fontsize": FONT}
        self.ax_.set_xticks(np.arange(len(columns)) + 0.5, labels[columns], **slanted)
        self.ax_.set_yticks(np.arange(len(rows)) + 0.5, labels[rows], fontsize=FONT)
        self.ax_.invert_yaxis()
        self.ax_.tick_params(length=0)
        self.ax_.spines[:].set_visible(False)
        self.figure_.colorbar(mesh, ax=self.ax_, label=self.weight_name)
        for axis, n in ((self.ax_.xaxis, len(columns)), (self.ax_.yaxis, len(rows))):
            fit_labels(self.ax_, axis, n)
        if 1e-3 < largest < 1e4:
            self._write_weights(row, column, weights, largest, W.shape)

    def _write_weights(self, row, column, weights, largest, shape):
        """Into the cells, where they fit."""
        digits = max(0, 2 - math.floor(math.log10(largest)))
        texts = [f"{round(weight, digits) + 0.0:.{digits}f}" for weight in weights]
        width, height = size_of(self.ax_)
        size = min(FONT, 0.9 * width / shape[1] / (CHARACTER * max(map(len, texts))), 0.8 * height / shape[0])
        if size < SMALLEST_FONT:
            return
        for i, j, text, weight in zip(row, column, texts, weights, strict=True):
            colour = "white" if abs(weight) > 0.6 * largest else "black"
            self.ax_.text(j + 0.5, i + 0.5, text, ha="center", va="center", color=colour, fontsize=size)

    def _bars(self, names, short, weights, ax, kwargs):
        labels = [literal(monomial([short[name] for name in row])) for row in names[:MOST_BARS].tolist()]
        room = inches(labels)
        self.figure_, self.ax_ = axes_for(ax, figsize=(4.5 + room, 1.2 + 0.22 * len(labels)))
        n = min(len(labels), int(size_of(self.ax_)[1] / SMALLEST_FONT))
        style = {"color": np.where(weights[:n] > 0, POSITIVE, NEGATIVE)}
        self.ax_.barh(np.arange(n), weights[:n], **style | kwargs)
        self.ax_.set_yticks(np.arange(n), labels[:n], fontsize=FONT)
        self.ax_.set_ylim(n - 0.4, -0.6)
        self.ax_.axvline(0, color="black", linewidth=0.8)
        fewer = f"\nthe strongest {n} of {len(weights)}" if n < len(weights) else ""
        self.ax_.set_xlabel(self.weight_name + fewer)
        self.ax_.grid(axis="x", alpha=0.3)
        self.ax_.set_axisbelow(True)
        self.ax_.spines[["top", "right", "left"]].set_visible(False)
        self.ax_.tick_params(axis="y", length=0)
        fit_labels(self.ax_, self.ax_.yaxis, n)
