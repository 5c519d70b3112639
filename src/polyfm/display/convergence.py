"""How training went: objectives, and losses on held-out rows, by epoch."""

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from polyfm.display.axes import COLOURS, STYLES, axes_for, fitted_attribute, last_step
from polyfm.estimators.summary import bound_of


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

    def __init__(self, histories: Any, *, names: Any = None, validation_losses: Any = None) -> None:
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
    def from_estimator(
        cls, estimator: Any, *, names: Any = None, relative: bool = False, ax: Any = None, **kwargs: Any
    ) -> Self:
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
        estimators = [last_step(one) for one in estimators]
        histories = [fitted_attribute(one, "history_", "fit it with one of polyfm's solvers") for one in estimators]
        histories = [-bound_of(history)[0] if isinstance(history, dict) else history for history in histories]
        losses = [getattr(one, "validation_losses_", None) for one in estimators]
        return cls(histories, names=names, validation_losses=losses).plot(relative=relative, ax=ax, **kwargs)

    def plot(self, *, relative: bool = False, ax: Any = None, **kwargs: Any) -> Self:
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
        self.figure_, self.ax_ = axes_for(ax)
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
