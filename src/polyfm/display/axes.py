"""What displays share: axes, colours, and what they read of estimators."""

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

# Blue, orange, green, ... of Okabe and Ito's palette, which people with any kind of colour vision can tell apart.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
STYLES = ["-", "--", ":", "-."]


def axes_for(ax, figsize=(6.4, 4.2)):
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


def last_step(estimator):
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def fitted_attribute(estimator, name: str, remedy: str):
    check_is_fitted(estimator)
    if not hasattr(estimator, name):
        raise AttributeError(f"This {type(estimator).__name__} has no `{name}`: {remedy}.")
    return getattr(estimator, name)
