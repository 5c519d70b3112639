"""Whether intervals cover as many targets as they say."""

from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from polyfm.display.axes import COLOURS, axes_for


class CoverageDisplay:
    """The part of targets within intervals, against the part that the intervals are for. On the diagonal a model knows
    how sure it is; below, it is too sure of itself.

    Parameters
    ----------
    predicted : array-like of shape (n_levels,)
        What the intervals are for, from 0 to 1.
    observed : array-like of shape (n_levels,)
        The part of the targets that they hold.
    effective_rank : float, default=None
        To be named in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from polyfm import BayesianFactorizationMachineRegressor
    >>> from polyfm.display import CoverageDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BayesianFactorizationMachineRegressor(n_components=3, random_state=0).fit(scale(X)[:300], y[:300])
    >>> display = CoverageDisplay.from_estimator(model, scale(X)[300:], y[300:])
    """

    def __init__(self, predicted: Any, observed: Any, *, effective_rank: Any = None) -> None:
        self.predicted = np.asarray(predicted, dtype=np.float64)
        self.observed = np.asarray(observed, dtype=np.float64)
        self.effective_rank = effective_rank
        if self.predicted.ndim != 1 or self.predicted.shape != self.observed.shape:
            raise ValueError(
                f"predicted has shape {self.predicted.shape} and observed {self.observed.shape}: pass one level and "
                "one part for each."
            )

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, n_levels: int = 19, ax: Any = None, **kwargs: Any
    ) -> Self:
        """Plot the coverage of intervals of a fitted model on data, which should not be those it was fitted on.

        Parameters
        ----------
        estimator : object
            A fitted `BayesianFactorizationMachineRegressor`, or a pipeline that ends in one.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            The true targets.
        n_levels : int, default=19
            Levels, evenly spaced between 0 and 1.
        ax : matplotlib Axes, default=None
            Where to plot; by default a new figure.
        **kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        display : CoverageDisplay
        """
        if not isinstance(n_levels, Integral) or n_levels < 1:
            raise ValueError(f"n_levels must be a whole number of at least 1, got {n_levels!r}.")
        y = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"), warn=True)
        check_consistent_length(X, y)
        model = estimator[-1] if hasattr(estimator, "steps") else estimator
        if not hasattr(model, "predict_interval"):
            raise TypeError(f"{type(model).__name__} has no intervals: pass a BayesianFactorizationMachineRegressor.")
        X = estimator[:-1].transform(X) if hasattr(estimator, "steps") and len(estimator.steps) > 1 else X
        predicted = np.arange(1, n_levels + 1) / (n_levels + 1)
        observed = []
        for level in predicted:
            low, high = model.predict_interval(X, float(level))
            observed.append(np.mean((low <= y) & (y <= high)))
        return cls(predicted, observed, effective_rank=model.effective_rank_).plot(ax=ax, **kwargs)

    def plot(self, *, ax: Any = None, **kwargs: Any) -> Self:
        """Plot.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to plot; by default a new figure.
        **kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        display : CoverageDisplay
        """
        self.figure_, self.ax_ = axes_for(ax)
        label = None if self.effective_rank is None else f"effective rank {self.effective_rank:.1f}"
        self.ax_.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle="--")
        style = {"color": COLOURS[0], "marker": ".", "label": label, **kwargs}
        (self.line_,) = self.ax_.plot(self.predicted, self.observed, **style)
        self.ax_.set(xlabel="probability of the interval", ylabel="targets within", xlim=(0, 1), ylim=(0, 1))
        self.ax_.grid(alpha=0.3)
        if style["label"] is not None:
            self.ax_.legend(edgecolor="none", fontsize="small")
        return self
