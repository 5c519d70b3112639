"""Pictures as SVG, drawn by hand: few lines, words where they belong, colours from the page's style sheet.

Colours are classes of the page's (`line`, `positive`, `negative`), so that pictures follow light, dark and print.
"""

import math
from collections.abc import Sequence

import numpy as np

from polyfm.estimators.summary import brief
from polyfm.estimators.summary import escaped as text
from polyfm.reading.labels import short_names

WIDTH, HEIGHT = 420, 260
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 14, 40  # around the axes
MOST_POINTS = 1200


def signed(value: float) -> str:
    """A number of four digits, with a minus that is as wide as a plus."""
    return brief(value).replace("-", "\N{MINUS SIGN}")


def _svg(inside: list[str], label: str, height: float = HEIGHT, width: float = WIDTH) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{text(label)}">'
        + "".join(inside) + "</svg>"
    )  # fmt: skip


def ticks(low: float, high: float, n: int = 4) -> list[float]:
    """Round numbers within a range."""
    if not high > low:
        return [low]
    raw = (high - low) / n
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * unit for unit in (1, 2, 2.5, 5, 10) if size * unit >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


class Axes:
    """A plane of numbers with its frame: positions of values, ticks, and names."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], x_name: str, y_name: str):
        self.x, self.y = _wide(x), _wide(y)
        self.parts: list[str] = []
        self._frame(x_name, y_name)

    def at(self, x: float, y: float) -> tuple[float, float]:
        (x0, x1), (y0, y1) = self.x, self.y
        return (
            LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - (y - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM),
        )

    def _frame(self, x_name: str, y_name: str) -> None:
        for value in ticks(*self.y):
            _, v = self.at(self.x[0], value)
            self.parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{v:.1f}" y2="{v:.1f}"/>')
            self.parts.append(
                f'<text class="tick" x="{LEFT - 6}" y="{v + 4:.1f}" text-anchor="end">{_tick(value)}</text>'
            )
        for value in ticks(*self.x):
            u, _ = self.at(value, self.y[0])
            self.parts.append(
                f'<text class="tick" x="{u:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{_tick(value)}</text>'
            )
        bottom = HEIGHT - BOTTOM
        self.parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>')
        middle = (LEFT + WIDTH - RIGHT) / 2
        self.parts.append(
            f'<text class="name" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{text(x_name)}</text>'
            f'<text class="name" transform="translate(12 {(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">'
            f"{text(y_name)}</text>"
        )

    def line(self, x: Sequence[float], y: Sequence[float], style: str) -> None:
        points = " ".join("{:.1f},{:.1f}".format(*self.at(u, v)) for u, v in zip(x, y, strict=True))
        self.parts.append(f'<polyline class="{style}" points="{points}"/>')

    def dot(self, x: float, y: float, style: str, radius: float, title: str = "") -> None:
        u, v = self.at(x, y)
        named = f"<title>{text(title)}</title>" if title else ""
        self.parts.append(f'<circle class="{style}" cx="{u:.1f}" cy="{v:.1f}" r="{radius:.1f}">{named}</circle>')

    def bar(self, x0: float, x1: float, y: float, style: str, title: str = "") -> None:
        (u0, v), (u1, bottom) = self.at(x0, y), self.at(x1, 0)
        self.parts.append(
            f'<rect class="{style}" x="{u0 + 0.5:.1f}" y="{v:.1f}" width="{max(u1 - u0 - 1, 0.5):.1f}" '
            f'height="{max(bottom - v, 0):.1f}"><title>{text(title)}</title></rect>'
        )

    def word(self, x: float, y: float, word: str, anchor: str = "start", dx: float = 0, dy: float = 0) -> None:
        u, v = self.at(x, y)
        self.parts.append(
            f'<text class="word" x="{u + dx:.1f}" y="{v + dy:.1f}" text-anchor="{anchor}">{text(word)}</text>'
        )

    def svg(self, label: str) -> str:
        return _svg(self.parts, label)


def _wide(bounds: tuple[float, float]) -> tuple[float, float]:
    low, high = bounds
    if high > low:
        return low, high
    margin = abs(low) * 0.1 or 1.0
    return low - margin, high + margin


def _tick(value: float) -> str:
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.2g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
    return f"{round(value, 10):,g}".replace("-", "\N{MINUS SIGN}")


# -- curves -----------------------------------------------------------------------------------------------------------


def curve(values: np.ndarray, name: str) -> str:
    """What training did, epoch by epoch; from the second epoch on, where the first would hide the rest."""
    n = len(values)
    values = np.asarray(values, dtype=np.float64)
    first = 1 if n > 3 and _range(values) > 20 * _range(values[1:]) > 0 else 0
    keep = np.unique(np.linspace(first, n - 1, min(n - first, 400)).astype(int))
    bounds = values[keep].min(), values[keep].max()
    axes = Axes((first + 1, n), _padded(bounds, 0.15), "epoch", name)
    axes.line((keep + 1).tolist(), values[keep].tolist(), "line")
    axes.dot(n, float(values[-1]), "dot", 3.5, brief(float(values[-1])))
    axes.word(n, float(values[-1]), brief(float(values[-1])), "end", -4, 16 if values[-1] <= values[first] else -8)
    return axes.svg(f"{name} by epoch, from {brief(float(values[0]))} to {brief(float(values[-1]))}")


def _range(values: np.ndarray) -> float:
    return float(values.max() - values.min())


def _padded(bounds: tuple[float, float], part: float = 0.08) -> tuple[float, float]:
    margin = part * (bounds[1] - bounds[0])
    return bounds[0] - margin, bounds[1] + margin


# -- regressors -------------------------------------------------------------------------------------------------------


def scatter(predicted: np.ndarray, y: np.ndarray) -> str:
    """Targets against predictions, with the line on which they are equal."""
    rows = np.arange(len(y))
    if len(y) > MOST_POINTS:
        rows = np.sort(np.random.RandomState(0).permutation(len(y))[:MOST_POINTS])
    u, v = predicted[rows], y[rows]
    low, high = float(min(u.min(), v.min())), float(max(u.max(), v.max()))
    axes = Axes(_padded((low, high), 0.03), _padded((low, high), 0.03), "predicted", "actual")
    axes.line([low, high], [low, high], "reference")
    radius = 1.6 if len(rows) > 400 else 2.6
    for a, b in zip(u.tolist(), v.tolist(), strict=True):
        axes.dot(a, b, "point", radius)
    return axes.svg("Actual targets against predictions")


def histogram(values: np.ndarray, name: str, zero: bool = False) -> str:
    """How often values occur; the outermost of a few far away are drawn in the last bars."""
    low, high = np.quantile(values, [0.005, 0.995]) if len(values) > 200 else (values.min(), values.max())
    if zero:
        low, high = min(-abs(low), -abs(high)), max(abs(low), abs(high))
    low, high = _wide((float(low), float(high)))
    n_bars = int(np.clip(np.sqrt(len(values)), 5, 30))
    counts, edges = np.histogram(np.clip(values, low, high), bins=n_bars, range=(low, high))
    axes = Axes((low, high), (0, float(counts.max()) * 1.05), name, "rows")
    for count, a, b in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        axes.bar(a, b, count, "bar", f"{brief(a)} to {brief(b)}: {count:,} rows")
    if zero:
        axes.line([0, 0], [0, float(counts.max()) * 1.05], "reference")
    return axes.svg(f"Histogram: {name}")


# -- classifiers ------------------------------------------------------------------------------------------------------


def calibration(bins: list[tuple[float, float, int]], name: str) -> str:
    """Bins of (mean probability, observed part, rows): on the diagonal, probabilities mean what they say."""
    axes = Axes((0, 1), (0, 1), name, "part of the rows")
    axes.line([0, 1], [0, 1], "reference")
    axes.line([p for p, _, _ in bins], [part for _, part, _ in bins], "line")
    most = max(n for *_, n in bins)
    for p, part, n in bins:
        title = f"said {p:.2f}, was {part:.2f}; {n:,} rows"
        axes.dot(p, part, "dot", 2 + 4 * math.sqrt(n / most), title)
    return axes.svg("Calibration: the part of the rows against the probability")


# -- strengths and networks -------------------------------------------------------------------------------------------


def bars(values: Sequence[float], names: Sequence[str], label: str, signs: bool = False) -> str:
    """Lying bars with names before and numbers behind them; where signs matter, in their colours."""
    row, begin, end = 22, 130, WIDTH - 60
    most = max(map(abs, values)) or 1.0
    short = short_names(map(str, names), 18)
    parts = []
    for i, (value, name) in enumerate(zip(values, names, strict=True)):
        y, width = i * row, abs(value) / most * (end - begin)
        style = "bar" if not signs else "positive" if value >= 0 else "negative"
        parts.append(
            f'<text class="word" x="{begin - 8}" y="{y + 15}" text-anchor="end">{text(short[str(name)])}</text>'
            f'<rect class="{style}" x="{begin}" y="{y + 4}" width="{max(width, 1):.1f}" height="{row - 8}"/>'
            f'<text class="tick" x="{begin + width + 6:.1f}" y="{y + 15}">{signed(value)}</text>'
        )
    return _svg(parts, label, height=row * len(values) + 4)


def network(edges: list[tuple[str, str, float]]) -> str:
    """Features on a circle, joined where they interact: thick is strong, the colour is the sign."""
    names = list(dict.fromkeys(name for a, b, _ in edges for name in (a, b)))
    names = _around(names, edges)
    short = short_names(names, 16)
    width, height = 520.0, 420.0
    place = {}
    for i, name in enumerate(names):
        angle = 2 * math.pi * i / len(names) - math.pi / 2
        place[name] = (width / 2 + 128 * math.cos(angle), height / 2 + 150 * math.sin(angle), angle)
    most = max(abs(weight) for *_, weight in edges) or 1.0
    parts = []
    for a, b, weight in sorted(edges, key=lambda edge: abs(edge[2])):
        (x0, y0, _), (x1, y1, _) = place[a], place[b]
        style = "positive" if weight >= 0 else "negative"
        size = (
            f'style="stroke-width:{0.8 + 5.2 * abs(weight) / most:.1f}px;opacity:{0.35 + 0.6 * abs(weight) / most:.2f}"'
        )
        title = f"<title>{text(a)} \N{MULTIPLICATION SIGN} {text(b)}: {brief(weight)}</title>"
        if a == b:
            parts.append(f'<circle class="edge {style}" {size} cx="{x0:.1f}" cy="{y0:.1f}" r="11">{title}</circle>')
            continue
        bend = 0.22  # towards the middle, so that edges along the circle can be told from it
        u = (x0 + x1) / 2 + bend * (width / 2 - (x0 + x1) / 2)
        v = (y0 + y1) / 2 + bend * (height / 2 - (y0 + y1) / 2)
        path = f"M{x0:.1f},{y0:.1f} Q{u:.1f},{v:.1f} {x1:.1f},{y1:.1f}"
        parts.append(f'<path class="edge {style}" {size} d="{path}">{title}</path>')
    for name in names:
        x, y, angle = place[name]
        cos, sin = math.cos(angle), math.sin(angle)
        anchor = "middle" if abs(cos) < 0.2 else "start" if cos > 0 else "end"
        parts.append(
            f'<circle class="node" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
            f'<text class="word" x="{x + 11 * cos:.1f}" y="{y + 11 * sin + 4 + 6 * sin:.1f}" text-anchor="{anchor}">'
            f"{text(short[name])}</text>"
        )
    return _svg(parts, "Network of the strongest interactions", height, width)


def _around(names: list[str], edges: list[tuple[str, str, float]]) -> list[str]:
    """An order in which those that interact strongly are neighbours: from each go to the strongest that is left."""
    pull: dict[str, dict[str, float]] = {name: {} for name in names}
    for a, b, weight in edges:
        if a != b:
            pull[a][b] = pull[b][a] = max(abs(weight), pull[a].get(b, 0.0))
    strength = {name: sum(pull[name].values()) for name in names}
    left = set(names)
    order: list[str] = []
    while left:
        near = [name for name in left if order and name in pull[order[-1]]]
        if near:
            best = max(near, key=lambda name: (pull[order[-1]][name], -names.index(name)))
        else:
            best = max(left, key=lambda name: (strength[name], -names.index(name)))
        order.append(best)
        left.remove(best)
    return order
