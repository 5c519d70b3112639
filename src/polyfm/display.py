"""Pictures, in the manner of scikit-learn's displays: `from_estimator` computes and plots, `plot` plots again.

Each display keeps what it shows as attributes, and `ax_` and `figure_` after `plot`. matplotlib is imported by `plot`.
"""

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from polyfm.interpretation import interactions, monomial

# Blue, orange, green, ... of Okabe and Ito's palette, which people with any kind of colour vision can tell apart.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
STYLES = ["-", "--", ":", "-."]
DIVERGING = "RdBu_r"  # red above zero, blue below: safe for red-green colour blindness
POSITIVE, NEGATIVE = "#B2182B", "#2166AC"  # its ends
LARGEST_HEATMAP = 16  # features; more do not fit a page
WRITTEN = 10  # features up to which the weights are written into the cells


class ConvergenceDisplay:
    """The objective after each epoch, of one or several fits.

    Objectives compare where the data, the loss and the penalties are the same: seeds, initial scales, solvers.

    Parameters
    ----------
    histories : list of array-like of shape (n_iter,)
        Objectives after each epoch.
    names : list of str, default=None
        A name for each.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D

    Examples
    --------
    >>> import numpy as np
    >>> from polyfm import FactorizationMachineRegressor
    >>> from polyfm.display import ConvergenceDisplay
    >>> X = np.random.RandomState(0).standard_normal((100, 4))
    >>> y = X[:, 0] * X[:, 1]
    >>> fits = {f"seed {seed}": FactorizationMachineRegressor(random_state=seed).fit(X, y) for seed in range(2)}
    >>> display = ConvergenceDisplay.from_estimator(fits)
    """

    def __init__(self, histories, *, names=None):
        self.histories = [np.asarray(history, dtype=np.float64) for history in histories]
        self.names = names
        if names is not None and len(names) != len(self.histories):
            raise ValueError(f"names has {len(names)} names for {len(self.histories)} histories: pass one for each.")

    @classmethod
    def from_estimator(cls, estimator, *, names=None, relative=False, ax=None, **kwargs):
        """Plot the `history_` of fitted estimators.

        Parameters
        ----------
        estimator : object, list of objects, or dict of names and objects
            Fitted estimators of polyfm.
        names : list of str, default=None
            A name for each, where `estimator` is no dict.
        relative : bool, default=False
            See `plot`.
        ax : matplotlib Axes, default=None
            Where to plot; by default a new figure.
        **kwargs : dict
            For every line, passed to ``Axes.plot``.

        Returns
        -------
        display : ConvergenceDisplay
        """
        if isinstance(estimator, Mapping):
            names, estimators = list(estimator), list(estimator.values())
        else:
            estimators = list(estimator) if isinstance(estimator, list | tuple) else [estimator]
        histories = [_fitted_attribute(one, "history_", "fit it with one of polyfm's solvers") for one in estimators]
        return cls(histories, names=names).plot(relative=relative, ax=ax, **kwargs)

    def plot(self, *, relative=False, ax=None, **kwargs):
        """Plot.

        Parameters
        ----------
        relative : bool, default=False
            Show (objective - best) / |best| on a logarithmic axis, with the lowest of all objectives as the best. The
            point that is the best itself is then left out.
        ax : matplotlib Axes, default=None
            Where to plot; by default a new figure.
        **kwargs : dict
            For every line, passed to ``Axes.plot``.

        Returns
        -------
        display : ConvergenceDisplay
        """
        self.figure_, self.ax_ = _axes(ax)
        best = min((history.min() for history in self.histories if len(history)), default=0.0)
        self.lines_ = []
        for i, history in enumerate(self.histories):
            values = history
            if relative:
                values = np.where(history > best, (history - best) / (abs(best) or 1.0), np.nan)
            style = {"color": COLOURS[i % len(COLOURS)], "linestyle": STYLES[i // len(COLOURS) % len(STYLES)]}
            label = None if self.names is None else str(self.names[i])
            if len(history) < 30:
                style["marker"] = "."
            self.lines_ += self.ax_.plot(np.arange(1, len(history) + 1), values, **{**style, "label": label, **kwargs})
        if relative:
            self.ax_.set_yscale("log")
        self.ax_.set(
            xlabel="epoch",
            ylabel="(objective - lowest) / lowest" if relative else "objective (sum of losses + penalties)",
        )
        self.ax_.xaxis.get_major_locator().set_params(integer=True)
        self.ax_.grid(alpha=0.3)
        if self.names is not None:
            self.ax_.legend(frameon=False)
        return self


class InteractionDisplay:
    """The strongest interactions of a model: a heat map of pairs, or bars for any degree.

    Parameters
    ----------
    table : pandas.DataFrame
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

    def __init__(self, table, *, weight_name="weight of the product"):
        self.table = table
        self.weight_name = weight_name

    @classmethod
    def from_estimator(
        cls, estimator, *, degree=None, top=20, feature_names=None, scale=None, target=None, kind="auto", ax=None,
        **kwargs,
    ):  # fmt: skip
        """Plot the strongest interactions of a fitted estimator.

        Parameters
        ----------
        estimator : object
            A fitted estimator of polyfm.
        degree, top, feature_names, scale, target
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
        table = interactions(estimator, degree=degree, top=top, feature_names=feature_names, scale=scale, target=target)
        name = "weight" if table.shape[1] == 2 else "weight of the product"
        if scale is not None:
            name += " x spreads"
        if is_classifier(estimator):
            name += f", for class {estimator.classes_[1] if target is None else target}"
        return cls(table, weight_name=name).plot(kind=kind, ax=ax, **kwargs)

    def plot(self, *, kind="auto", ax=None, **kwargs):
        """Plot.

        Parameters
        ----------
        kind : {"auto", "heatmap", "bars"}, default="auto"
            A heat map serves pairs of a few features, where grey cells are pairs that the table does not list. Bars
            serve any degree and any number of features. "auto" takes a heat map for up to 16 features.
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
            kind = "heatmap" if degree == 2 and len(np.unique(names)) <= LARGEST_HEATMAP else "bars"
        if kind == "heatmap" and degree != 2:
            raise ValueError(f"kind='heatmap' shows pairs, but the table has degree {degree}: use kind='bars'.")
        if kind not in ("heatmap", "bars"):
            raise ValueError(f"kind must be 'auto', 'heatmap' or 'bars', got {kind!r}.")
        (self._heatmap if kind == "heatmap" else self._bars)(names, weights, ax, kwargs)
        return self

    def _heatmap(self, names, weights, ax, kwargs):
        strength = Counter()
        for pair, weight in zip(names, weights, strict=True):
            strength.update(dict.fromkeys(pair, abs(weight)))
        order = {name: i for i, (name, _) in enumerate(strength.most_common())}
        places = np.sort([[order[name] for name in pair] for pair in names], axis=1)[:, ::-1]  # each pair once
        rows, row = np.unique(places[:, 0], return_inverse=True)
        columns, column = np.unique(places[:, 1], return_inverse=True)
        W = np.full((len(rows), len(columns)), np.nan)
        W[row, column] = weights
        self.figure_, self.ax_ = _axes(ax, figsize=(2.5 + 0.55 * len(columns), 1.8 + 0.42 * len(rows)))
        unlisted = np.isnan(W) & (rows[:, None] >= columns + (0 if np.any(places[:, 0] == places[:, 1]) else 1))
        if np.any(unlisted):
            grey = np.where(unlisted, 0.5, np.nan)
            self.ax_.pcolormesh(grey, cmap="Greys", vmin=0, vmax=3, edgecolors="white", linewidth=1.5)
            self.ax_.set_xlabel(f"grey: weaker than the {len(weights)} listed", color="dimgrey")
        largest = np.abs(weights).max() or 1.0
        style = {"cmap": DIVERGING, "vmin": -largest, "vmax": largest, "edgecolors": "white", "linewidth": 1.5}
        mesh = self.ax_.pcolormesh(W, **style | kwargs)
        labels = np.array(list(order))
        self.ax_.set_xticks(
            np.arange(len(columns)) + 0.5, labels[columns], rotation=45, ha="right", rotation_mode="anchor"
        )
        self.ax_.set_yticks(np.arange(len(rows)) + 0.5, labels[rows])
        self.ax_.invert_yaxis()
        self.ax_.tick_params(length=0)
        self.ax_.spines[:].set_visible(False)
        self.figure_.colorbar(mesh, ax=self.ax_, label=self.weight_name)
        if len(columns) <= WRITTEN and 1e-3 < largest < 1e4:
            digits = max(0, 2 - math.floor(math.log10(largest)))
            for i, j, weight in zip(row, column, weights, strict=True):
                colour = "white" if abs(weight) > 0.6 * largest else "black"
                text = f"{round(weight, digits) + 0.0:.{digits}f}"
                self.ax_.text(j + 0.5, i + 0.5, text, ha="center", va="center", color=colour, fontsize="x-small")

    def _bars(self, names, weights, ax, kwargs):
        labels = [monomial(row.tolist()) for row in names]
        self.figure_, self.ax_ = _axes(ax, figsize=(6.5, 1.2 + 0.24 * len(labels)))
        style = {"color": np.where(weights > 0, POSITIVE, NEGATIVE)}
        self.ax_.barh(np.arange(len(labels)), weights, **style | kwargs)
        self.ax_.set_yticks(np.arange(len(labels)), labels)
        self.ax_.invert_yaxis()
        self.ax_.axvline(0, color="black", linewidth=0.8)
        self.ax_.set_xlabel(self.weight_name)
        self.ax_.grid(axis="x", alpha=0.3)
        self.ax_.set_axisbelow(True)
        self.ax_.spines[["top", "right", "left"]].set_visible(False)
        self.ax_.tick_params(axis="y", length=0)


class RegularizationPathDisplay:
    """Cross-validated scores against the penalty beta.

    Parameters
    ----------
    betas : array-like of shape (n_betas,)
    scores : array-like of shape (n_betas, n_folds)
        Higher is better.
    beta : float, default=None
        The chosen one, to be marked.
    score_name : str, default="score"

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The means.
    band_ : matplotlib collection
        One standard deviation over the folds, on both sides.

    Examples
    --------
    >>> from polyfm.display import RegularizationPathDisplay
    >>> display = RegularizationPathDisplay([1.0, 10.0, 100.0], [[0.4, 0.5], [0.5, 0.6], [0.3, 0.4]], beta=10.0)
    >>> display = display.plot()
    """

    def __init__(self, betas, scores, *, beta=None, score_name="score"):
        self.betas = np.asarray(betas, dtype=np.float64)
        self.scores = np.asarray(scores, dtype=np.float64)
        self.beta = beta
        self.score_name = score_name
        if self.betas.ndim != 1 or self.scores.ndim != 2 or len(self.scores) != len(self.betas):
            raise ValueError(
                f"betas has shape {self.betas.shape} and scores {self.scores.shape}: pass (n_betas,) and (n_betas, "
                "n_folds)."
            )
        if len(self.betas) == 0 or np.any(self.betas < 0) or not np.all(np.isfinite(self.betas)):
            raise ValueError(f"betas must be finite numbers >= 0, at least one, got {self.betas.tolist()}.")

    @classmethod
    def from_estimator(cls, estimator, *, score_name=None, ax=None, **kwargs):
        """Plot the scores of an estimator that has chosen beta by cross-validation.

        Parameters
        ----------
        estimator : object
            Fitted, with attributes `betas_`, `cv_scores_` of shape (n_betas, n_folds) and `beta_`.
        score_name : str, default=None
            By default the estimator's `scoring` or, without one, R2 or accuracy.
        ax : matplotlib Axes, default=None
            Where to plot; by default a new figure.
        **kwargs : dict
            For the line of means, passed to ``Axes.plot``.

        Returns
        -------
        display : RegularizationPathDisplay
        """
        remedy = "pass one that chooses beta by cross-validation, or the arrays themselves to RegularizationPathDisplay"
        betas, scores, beta = (_fitted_attribute(estimator, a, remedy) for a in ("betas_", "cv_scores_", "beta_"))
        if score_name is None:
            scoring = getattr(estimator, "scoring", None)
            default = "accuracy" if is_classifier(estimator) else "$R^2$"
            score_name = scoring.replace("_", " ") if isinstance(scoring, str) else "score" if scoring else default
        return cls(betas, scores, beta=beta, score_name=score_name).plot(ax=ax, **kwargs)

    def plot(self, *, ax=None, **kwargs):
        """Plot.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to plot; by default a new figure.
        **kwargs : dict
            For the line of means, passed to ``Axes.plot``.

        Returns
        -------
        display : RegularizationPathDisplay
        """
        self.figure_, self.ax_ = _axes(ax)
        order = np.argsort(self.betas)
        betas, scores = self.betas[order], self.scores[order]
        mean, spread = scores.mean(axis=1), scores.std(axis=1)
        folds = scores.shape[1]
        style = {"color": COLOURS[0], "marker": "o", "markersize": 4, "label": f"mean of {folds} folds"}
        (self.line_,) = self.ax_.plot(betas, mean, **style | kwargs)
        self.band_ = self.ax_.fill_between(
            betas, mean - spread, mean + spread, color=self.line_.get_color(), alpha=0.2, linewidth=0,
            label="one standard deviation",
        )  # fmt: skip
        if self.beta is not None:
            label = f"chosen: beta = {self.beta:.4g}"
            self.ax_.axvline(self.beta, color=COLOURS[1], linestyle="--", linewidth=1.2, label=label)
        positive = betas[betas > 0]
        if len(positive) == len(betas):
            self.ax_.set_xscale("log")
        elif len(positive):
            self.ax_.set_xscale("symlog", linthresh=positive[0])  # logarithmic, with room for beta = 0
            self.ax_.set_xlim(-0.2 * positive[0], 1.5 * positive[-1])
        self.ax_.set(xlabel="beta (penalty on the bases)", ylabel=f"{self.score_name} on held-out folds")
        self.ax_.grid(alpha=0.3)
        self.ax_.legend(fontsize="small", frameon=False)
        return self


def _axes(ax, figsize=(6.4, 4.2)):
    """The given axes and their figure, or new ones."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(
            'Plotting needs matplotlib, which is not installed. Install it with: pip install "polyfm[plot]"'
        ) from None
    if ax is None:
        figure, ax = plt.subplots(figsize=figsize, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    return ax.figure, ax


def _fitted_attribute(estimator, name: str, remedy: str):
    check_is_fitted(estimator)
    if not hasattr(estimator, name):
        raise AttributeError(f"This {type(estimator).__name__} has no `{name}`: {remedy}.")
    return getattr(estimator, name)
