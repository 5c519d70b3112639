"""How the experiments are drawn. matplotlib is imported when a picture is made."""

import math
import re
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from polyfm.display.axes import COLOURS

Row = dict[str, Any]
MARKERS = "osD^vPX"
DASHES = ("-", "--", "-.", (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5, 1, 1.5)), (0, (8, 2)), (0, (2, 2)))
STYLE: Any = {
    "font.size": 12,
    "axes.titlesize": 12.5,
    "axes.labelsize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "axes.axisbelow": True,
    "legend.frameon": False,
}
N_MARKED = 8  # markers along a curve of many points


class Style(NamedTuple):
    colour: str
    marker: str
    dash: Any


def styles(names: Iterable[Hashable], levels: Container[Hashable] = ()) -> dict[Any, Style]:
    """A colour, a marker and a dash for each: no two are told apart by colour alone. Levels have no marker."""
    return {name: Style(COLOURS[i], "" if name in levels else MARKERS[i], DASHES[i]) for i, name in enumerate(names)}


def kernel(name: str) -> str:
    """A^2 or H^2, perhaps within words, as mathematics."""
    return re.sub(r"([AH])\^(\w)", r"$\\mathcal{\1}^\2$", name)


def panels(n_rows: int, n_columns: int, sharey: Any = False):
    """A figure and its axes, as an array of rows and columns."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with matplotlib.rc_context(STYLE):
        size = max(4.3 * n_columns, 9), 3.5 * n_rows + 1.3
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
        FigureCanvasAgg(figure)
        return figure, figure.subplots(n_rows, n_columns, squeeze=False, sharey=sharey)


def runs(rows: list[Row], **where) -> list[list[Row]]:
    """The rows at the given coordinates, one list a seed."""
    chosen = [row for row in rows if all(row[name] == value for name, value in where.items())]
    return [[row for row in chosen if row["seed"] == seed] for seed in dict.fromkeys(row["seed"] for row in chosen)]


def curve(ax, run: list[Row], x: str, y: str, style: Style, markers: bool = False) -> None:
    _line(ax, [row[x] for row in run], [row[y] for row in run], style, markers)


def band(ax, seeds: list[list[Row]], x: str, y: str, style: Style, markers: bool = False) -> None:
    """The median over seeds, point by point, and the range."""
    length = min(len(run) for run in seeds)
    xs = np.median([[row[x] for row in run[:length]] for run in seeds], axis=0)
    ys = np.array([[row[y] for row in run[:length]] for run in seeds])
    if len(ys) > 1:
        ax.fill_between(xs, ys.min(axis=0), ys.max(axis=0), color=style.colour, alpha=0.15, linewidth=0)
    _line(ax, xs, np.median(ys, axis=0), style, markers)


def level(ax, y: float, style: Style) -> None:
    """What does not depend on x."""
    ax.axhline(y, color=style.colour, linestyle=style.dash, linewidth=2)


def _line(ax, xs: Sequence[float], ys: Sequence[float], style: Style, every: bool) -> None:
    # Markers lie where the eye needs them: on every point of a short curve, evenly along a long one.
    mark = None if every else 1 / N_MARKED
    ax.plot(
        xs, ys, color=style.colour, linestyle=style.dash, linewidth=2, marker=style.marker, markersize=6.5,
        markeredgecolor="white", markeredgewidth=0.8, markevery=mark,
    )  # fmt: skip


def log_ticks(ax, ticks: Sequence[float]) -> None:
    """A logarithmic axis with plain numbers at the given places."""
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)


def times(ax) -> None:
    """Logarithmic axes with plain numbers: what solvers differ in happens early, and near the end in small steps."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    ax.set_xscale("log")
    for axis in (ax.xaxis, ax.yaxis) if ax.get_yscale() == "log" else (ax.xaxis,):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=9))
        axis.set_major_formatter(FuncFormatter("{:g}".format))
        axis.set_minor_locator(NullLocator())


def top_of(ax, scores: Sequence[float], depth: float) -> None:
    """Leave out scores so low that they would flatten the rest."""
    top = max(scores)
    floor = max(min(scores), top - depth)
    margin = 0.05 * (top - floor)
    ax.set_ylim(floor - margin, top + margin)


def finished(figure, title: str, series: Mapping[str, Style], note: str):
    """Title above, a note and one legend below."""
    import matplotlib
    from matplotlib.lines import Line2D

    with matplotlib.rc_context(STYLE):
        handles = [
            Line2D([], [], color=s.colour, linestyle=s.dash, marker=s.marker, linewidth=2, markersize=6.5, label=name)
            for name, s in series.items()
        ]
        figure.suptitle(title, fontsize=14)
        longest = max(len(re.sub(r"\$[^$]*\$", "xx", name)) for name in series)
        fitting = max(1, int(figure.get_figwidth() / (0.09 * longest + 0.9)))
        n_columns = math.ceil(len(series) / math.ceil(len(series) / fitting))  # lines of about equal length
        legend = figure.legend(
            handles=handles, loc="outside lower center", ncols=n_columns, handlelength=3.2, title=note,
            title_fontsize=10.5,
        )  # fmt: skip
        legend.get_title().set_color("#555555")
    return figure
