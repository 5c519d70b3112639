"""Pictures, in the manner of scikit-learn's displays: `from_estimator` computes and plots, `plot` plots again.

Each display keeps what it shows as attributes, and `ax_` and `figure_` after `plot`. matplotlib is imported by `plot`.
"""

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from polyfm.interpretation import interactions, monomial
from polyfm.reading.labels import short_names

# Blue, orange, green, ... of Okabe and Ito's palette, which people with any kind of colour vision can tell apart.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
STYLES = ["-", "--", ":", "-."]
DIVERGING = "RdBu_r"  # red above zero, blue below: safe for red-green colour blindness
POSITIVE, NEGATIVE = "#B2182B", "#2166AC"  # its ends
LARGEST_HEATMAP = 12  # features; of more, a list of pairs is easier to read
SPARSEST_HEATMAP = 1 / 3  # of its cells filled
MOST_BARS = 100
WIDEST_NAME = 24  # characters
FONT, SMALLEST_FONT = 9.0, 5.0  # points
POINT = 1 / 72  # inches
CHARACTER = 0.6  # its width, in units of the size of its font


class ConvergenceDisplay:
    """The objective after each epoch, of one or several fits, and the loss on held-out rows where there were any.

    Objectives compare where the data, the loss and the penalties are the same: seeds, initial scales, solvers.

    Parameters
    ----------
    histories : list of array-like of shape (n_iter,)
        Objectives after each epoch.
    names : list of str, default=None
        A name for each.
    validation_losses : list of array-like of shape (n_iter,) or None, default=None
        For each, the loss on held-out rows after each epoch, or None where there is none.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D
    validation_ax_ : matplotlib Axes or None
        With an axis of its own, on the right.
    validation_lines_ : list of matplotlib Line2D

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

    def __init__(self, histories, *, names=None, validation_losses=None):
        self.histories = [np.asarray(history, dtype=np.float64) for history in histories]
        self.names = names
        if names is not None and len(names) != len(self.histories):
            raise ValueError(f"names has {len(names)} names for {len(self.histories)} histories: pass one for each.")
        if validation_losses is None:
            validation_losses = [None] * len(self.histories)
        if len(validation_losses) != len(self.histories):
            raise ValueError(
                f"validation_losses has {len(validation_losses)} entries for {len(self.histories)} histories: pass one "
                "for each, None where there is none."
            )
        self.validation_losses = [
            None if losses is None else np.asarray(losses, dtype=np.float64) for losses in validation_losses
        ]

    @classmethod
    def from_estimator(cls, estimator, *, names=None, relative=False, ax=None, **kwargs):
        """Plot the `history_` of fitted estimators, and their `validation_losses_` after early stopping.

        Parameters
        ----------
        estimator : object, list of objects, or dict of names and objects
            Fitted estimators of polyfm, or pipelines that end in them.
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
        estimators = [_last_step(one) for one in estimators]
        histories = [_fitted_attribute(one, "history_", "fit it with one of polyfm's solvers") for one in estimators]
        losses = [getattr(one, "validation_losses_", None) for one in estimators]
        return cls(histories, names=names, validation_losses=losses).plot(relative=relative, ax=ax, **kwargs)

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
            values = np.where(self._is_kept_model(i), np.nan, history)
            if relative:
                values = np.where(history > best, (values - best) / (abs(best) or 1.0), np.nan)
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
        self._plot_validation(kwargs)
        handles, style = [*self.lines_, *self.validation_lines_], {"edgecolor": "none", "fontsize": "small"}
        if self.validation_ax_ and ax is None:  # two axes leave no corner free
            self.figure_.legend(handles=handles, loc="outside upper center", ncols=2, **style)
        elif self.names is not None or self.validation_ax_:
            (self.validation_ax_ or self.ax_).legend(handles=handles, **style)
        return self

    def _is_kept_model(self, i: int) -> np.ndarray:
        """Which entry of a history is that of the model that was kept, an earlier one, and of no epoch of its own."""
        history, losses = self.histories[i], self.validation_losses[i]
        entries = np.zeros(len(history), dtype=bool)
        if losses is not None and len(losses) == len(history) > 0:
            best = int(np.argmin(losses))
            entries[-1] = best < len(history) - 1 and math.isclose(history[best], history[-1], rel_tol=1e-9)
        return entries

    def _plot_validation(self, kwargs):
        """Dashed, on an axis of their own: they are means over other rows, and have no penalties."""
        self.validation_ax_, self.validation_lines_ = None, []
        if all(losses is None for losses in self.validation_losses):
            return
        self.validation_ax_ = self.ax_.twinx()
        self.validation_ax_.set_ylabel("validation loss (mean over held-out rows)")
        for i, (line, losses) in enumerate(zip(self.lines_, self.validation_losses, strict=True)):
            if losses is None:
                continue
            label = "validation loss, lowest at the dot"
            if self.names is not None:
                label = f"{self.names[i]}, validation"
            else:
                line.set_label("objective")
            best = [] if len(losses) == 0 else [int(np.argmin(losses))]
            style = {"color": line.get_color(), "linestyle": "--", "marker": "o", "markersize": 4, "markevery": best}
            self.validation_lines_ += self.validation_ax_.plot(
                np.arange(1, len(losses) + 1), losses, **{**style, "linewidth": 1.2, **kwargs, "label": label}
            )


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
        cls, estimator, *, degree=None, top=20, feature_names=None, groups=None, X=None, impossible=False, scale=None,
        target=None, kind="auto", ax=None, **kwargs,
    ):  # fmt: skip
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
            name += f", for class {_literal(estimator.classes_[1] if target is None else target)}"
        return cls(table, weight_name=name).plot(kind=kind, ax=ax, **kwargs)

    def plot(self, *, kind="auto", ax=None, **kwargs):
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
        labels = np.array([_literal(short[name]) for name in order])
        room = FONT * CHARACTER * POINT * max(map(len, labels))  # inches
        self.figure_, self.ax_ = _axes(ax, figsize=(2.0 + room + 0.6 * len(columns), 1.2 + room + 0.45 * len(rows)))
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
            _fit_labels(self.ax_, axis, n)
        if 1e-3 < largest < 1e4:
            self._write_weights(row, column, weights, largest, W.shape)

    def _write_weights(self, row, column, weights, largest, shape):
        """Into the cells, where they fit."""
        digits = max(0, 2 - math.floor(math.log10(largest)))
        texts = [f"{round(weight, digits) + 0.0:.{digits}f}" for weight in weights]
        width, height = _size(self.ax_)
        size = min(FONT, 0.9 * width / shape[1] / (CHARACTER * max(map(len, texts))), 0.8 * height / shape[0])
        if size < SMALLEST_FONT:
            return
        for i, j, text, weight in zip(row, column, texts, weights, strict=True):
            colour = "white" if abs(weight) > 0.6 * largest else "black"
            self.ax_.text(j + 0.5, i + 0.5, text, ha="center", va="center", color=colour, fontsize=size)

    def _bars(self, names, short, weights, ax, kwargs):
        labels = [_literal(monomial([short[name] for name in row])) for row in names[:MOST_BARS].tolist()]
        room = FONT * CHARACTER * POINT * max(map(len, labels))  # inches
        self.figure_, self.ax_ = _axes(ax, figsize=(4.5 + room, 1.2 + 0.22 * len(labels)))
        n = min(len(labels), int(_size(self.ax_)[1] / SMALLEST_FONT))
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
        _fit_labels(self.ax_, self.ax_.yaxis, n)


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
            Fitted, with attributes `betas_`, `cv_scores_` of shape (n_betas, n_folds) and `beta_`; or a pipeline that
            ends in such a one.
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
        estimator = _last_step(estimator)
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


def _size(ax) -> tuple[float, float]:
    """Width and height of axes, in points, once everything around them has its place."""
    ax.figure.draw_without_rendering()
    box = ax.get_window_extent()
    return box.width / ax.figure.dpi / POINT, box.height / ax.figure.dpi / POINT


def _fit_labels(ax, axis, n: int) -> None:
    """Make the labels of n ticks as small as it takes for one not to touch the next."""
    width, height = _size(ax)
    size = min(FONT, 0.6 * width / n if axis is ax.xaxis else 0.85 * height / n)  # those of x are slanted
    for label in axis.get_ticklabels():
        label.set_fontsize(max(size, 1.0))


def _literal(text) -> str:
    """A text in one line that matplotlib does not take for a formula."""
    return " ".join(str(text).split()).replace("$", r"\$")


def _last_step(estimator):
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def _fitted_attribute(estimator, name: str, remedy: str):
    check_is_fitted(estimator)
    if not hasattr(estimator, name):
        raise AttributeError(f"This {type(estimator).__name__} has no `{name}`: {remedy}.")
    return getattr(estimator, name)
