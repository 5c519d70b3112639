"""Scores of a search along a path of penalties."""

from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier

from polyfm.display.axes import COLOURS, axes_for, fitted_attribute, last_step


class RegularizationPathDisplay:
    """Cross-validated scores against the penalty beta.

    Parameters
    ----------
    betas : array-like of shape (n_betas,)
        The penalties.
    scores : array-like of shape (n_betas, n_folds)
        Higher is better.
    beta : float, default=None
        The chosen one, to be marked.
    score_name : str, default="score"
        What the scores are called.

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

    def __init__(self, betas: Any, scores: Any, *, beta: Any = None, score_name: Any = "score") -> None:
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
    def from_estimator(cls, estimator: Any, *, score_name: Any = None, ax: Any = None, **kwargs: Any) -> Self:
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
        estimator = last_step(estimator)
        betas, scores, beta = (fitted_attribute(estimator, a, remedy) for a in ("betas_", "cv_scores_", "beta_"))
        if score_name is None:
            scoring = getattr(estimator, "scoring", None)
            default = "accuracy" if is_classifier(estimator) else "$R^2$"
            score_name = scoring.replace("_", " ") if isinstance(scoring, str) else "score" if scoring else default
        return cls(betas, scores, beta=beta, score_name=score_name).plot(ax=ax, **kwargs)

    def plot(self, *, ax: Any = None, **kwargs: Any) -> Self:
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
        self.figure_, self.ax_ = axes_for(ax)
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
