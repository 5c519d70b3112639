"""Where a trained model stands among trainings from other starts."""

from typing import Any, Self

import numpy as np

from polyfm.diagnosis import Diagnosis, diagnose
from polyfm.display.axes import COLOURS, axes_for


class DiagnosisDisplay:
    """Objectives of trainings from several starts, beside that of a model, in percent of the lowest.

    Where interactions of degree 2 are proved to be able to gain so much at most, the others being fixed, an interval
    says so. Nothing tells how far the lowest is from the best.

    Parameters
    ----------
    diagnosis : Diagnosis
        As `polyfm.diagnose` returns it.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    points_ : matplotlib collection
        The restarts.
    line_ : matplotlib Line2D
        The model.

    Examples
    --------
    >>> import numpy as np
    >>> from polyfm import Diagnosis
    >>> from polyfm.display import DiagnosisDisplay
    >>> display = DiagnosisDisplay(Diagnosis(10.0, 1e-4, 0.0, np.array([10.1, 10.4]), None)).plot()
    """

    def __init__(self, diagnosis: Diagnosis) -> None:
        self.diagnosis = diagnosis

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        n_restarts: int = 5,
        random_state: Any = 0,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Diagnose a fitted estimator and plot what was found.

        Parameters
        ----------
        estimator, X, y, sample_weight, n_restarts, random_state
            As in `polyfm.diagnose`.
        ax : matplotlib Axes, default=None
            Where to plot; by default a new figure.
        **kwargs : dict
            For the points of restarts, passed to ``Axes.scatter``.

        Returns
        -------
        display : DiagnosisDisplay
        """
        found = diagnose(estimator, X, y, sample_weight, n_restarts=n_restarts, random_state=random_state)
        return cls(found).plot(ax=ax, **kwargs)

    def plot(self, *, ax: Any = None, **kwargs: Any) -> Self:
        """Plot.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to plot; by default a new figure.
        **kwargs : dict
            For the points of restarts, passed to ``Axes.scatter``.

        Returns
        -------
        display : DiagnosisDisplay
        """
        found = self.diagnosis
        self.figure_, self.ax_ = axes_for(ax)
        lowest = min([found.objective, *found.restarts])
        unit = abs(lowest) or 1.0
        restarts, own = (100 * (np.asarray(values) - lowest) / unit for values in (found.restarts, found.objective))
        style = {"color": COLOURS[0], "s": 36, "label": f"{len(restarts)} other starts", "zorder": 3}
        self.points_ = self.ax_.scatter(np.arange(1, len(restarts) + 1), np.sort(restarts), **style | kwargs)
        self.line_ = self.ax_.axhline(own, color=COLOURS[1], linewidth=1.5, label="this model")
        if found.conditional is not None:
            gain = 100 * found.conditional.gap / unit
            self.ax_.axhspan(
                own - gain, own, color=COLOURS[1], alpha=0.15, linewidth=0,
                label="what degree 2 could gain at most, the rest fixed",
            )  # fmt: skip
        kind = "a local minimum" if found.is_minimum else "no minimum yet"
        self.ax_.set_title(
            f"{kind}: gradient {found.gradient:.1e}, smallest curvature {found.curvature:.1e}", fontsize="medium"
        )
        self.ax_.set(xlabel="start, from the best to the worst", ylabel="objective above the lowest seen (%)")
        self.ax_.set_xticks(np.arange(1, len(restarts) + 1))
        self.ax_.grid(alpha=0.3)
        self.ax_.legend(fontsize="small", frameon=False)
        return self
