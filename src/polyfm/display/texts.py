"""Texts that fit into a picture."""

FONT, SMALLEST_FONT = 9.0, 5.0  # points
POINT = 1 / 72  # inches
CHARACTER = 0.6  # its width, in units of the size of its font


def inches(texts) -> float:
    """About the width of the longest."""
    return FONT * CHARACTER * POINT * max(map(len, texts))


def size_of(ax) -> tuple[float, float]:
    """Width and height of axes, in points, once everything around them has its place."""
    ax.figure.draw_without_rendering()
    box = ax.get_window_extent()
    return box.width / ax.figure.dpi / POINT, box.height / ax.figure.dpi / POINT


def fit_labels(ax, axis, n: int) -> None:
    """Make the labels of n ticks as small as it takes for one not to touch the next."""
    width, height = size_of(ax)
    size = min(FONT, 0.6 * width / n if axis is ax.xaxis else 0.85 * height / n)  # those of x are slanted
    for label in axis.get_ticklabels():
        label.set_fontsize(max(size, 1.0))


def literal(text) -> str:
    """A text in one line that matplotlib does not take for a formula."""
    return " ".join(str(text).split()).replace("$", r"\$")
