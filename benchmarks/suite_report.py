"""The pictures and pages of `suite.py`, from what it measured: `rows` of its table and `run`, what else is told."""

import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
AS_IT_COMES, LINEAR = "polyfm-default", "linear"
NEAR = 0.02  # the page tells when a contestant is within this part of the best score
BEGIN, END = "<!-- suite:begin -->", "<!-- suite:end -->"

# -- pictures ---------------------------------------------------------------------------------------------------------

# Colours that people with any kind of colour vision can tell apart (Okabe and Ito); ours are blue, and heavier.
OUR_LINES = (
    ("#0072B2", "-"), ("#0072B2", (0, (4, 1.5))), ("#0072B2", (0, (1, 1))), ("#56B4E9", "-"),
    ("#56B4E9", (0, (4, 1.5))), ("#56B4E9", (0, (1, 1))),
)  # fmt: skip
OUR_MARKERS = {"polyfm-default": "*", "polyfm-bayes": "v", "polyfm-gibbs": "o"}  # the others have a point an epoch
PEER_LINES = {
    "myfm": ("#D55E00", "o"), "myfm-variational": ("#D55E00", "v"), "fastfm": ("#CC79A7", "P"),
    "polylearn": ("#CC79A7", "X"), "libfm": ("#CC79A7", "D"), "xlearn": ("#CC79A7", "<"),
    "vowpalwabbit": ("#E69F00", "^"), "lightgbm": ("#009E73", "s"), "kernelridge": ("#444444", "o"),
    "nystroem": ("#777777", "D"), "countsketch": ("#777777", "x"), "polynomialfeatures": ("#444444", "*"),
    "linear": ("#000000", "+"),
}  # fmt: skip
SPREAD = 1.6  # a panel shows scores up to this many times the best one


def line_style(name: str, ours: list[str]) -> dict[str, Any]:
    if name in ours:
        if marker := OUR_MARKERS.get(name):
            size = 13 if marker == "*" else 5
            return {"color": "#0072B2", "marker": marker, "markersize": size, "linewidth": 1.0, "zorder": 5}
        drawn = [other for other in ours if other not in OUR_MARKERS]
        colour, dashes = OUR_LINES[drawn.index(name) % len(OUR_LINES)]
        return {"color": colour, "linestyle": dashes, "linewidth": 2.4, "zorder": 4}
    colour, marker = PEER_LINES.get(name, ("#000000", "."))
    return {
        "color": colour, "marker": marker, "markersize": 9 if marker == "*" else 4.5, "linewidth": 1.0, "alpha": 0.9,
        "zorder": 3,
    }  # fmt: skip


def traces(rows: Iterable[Row]) -> dict[tuple[str, str, int], list[Row]]:
    """Rows by data set, contestant and threads, in the order of time."""
    found: dict[tuple[str, str, int], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["seconds"]):
        found.setdefault((row["dataset"], row["contestant"], row["threads"]), []).append(row)
    return found


def draw(run: dict[str, Any], rows: list[Row], directory: Path) -> None:
    """Two pictures of what was measured with the fewest threads."""
    import matplotlib

    matplotlib.use("Agg")
    directory.mkdir(parents=True, exist_ok=True)
    fewest = min(row["threads"] for row in rows)
    rows = [row for row in rows if row["threads"] == fewest]
    panels(run, rows, draw_scores).savefig(directory / "scores.png", dpi=110)
    shared = [row for row in rows if row["objective"] is not None and row["contestant"] != "polyfm-pn"]
    if shared:
        panels(run, shared, draw_objectives).savefig(directory / "objectives.png", dpi=110)


def panels(run: dict[str, Any], rows: list[Row], draw_panel: Callable[..., tuple[dict, str]]):
    """One panel a data set and one legend for all."""
    import matplotlib.pyplot as plt

    lines, labels = traces(rows), run["labels"]
    names = [name for name in run["datasets"] if any(key[0] == name for key in lines)]
    wide = min(len(names), 3 if len(names) < 10 else 4)
    high, legend_wide = -(-len(names) // wide), (2, 3, 5, 6)[wide - 1]
    legend = 0.2 * -(-len({key[1] for key in lines}) // legend_wide) + 0.15
    height = 2.75 * high + legend
    style = {
        "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#888888",
        "xtick.color": "#555555", "ytick.color": "#555555", "axes.grid": True, "grid.color": "#e6e6e6",
        "axes.axisbelow": True, "grid.linewidth": 0.6,
    }  # fmt: skip
    with plt.rc_context(style):
        figure, axes = plt.subplots(high, wide, figsize=((3.9 if wide < 4 else 3.5) * wide, height), squeeze=False)
        handles: dict[str, Any] = {}
        for i, axis in enumerate(axes.flat):
            if i >= len(names):
                axis.remove()
                continue
            about = run["datasets"][names[i]]
            mine = {key[1]: points for key, points in lines.items() if key[0] == names[i]}
            drawn, below = draw_panel(axis, mine, about["metric"], run["ours"], labels)
            handles |= drawn
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter("{x:g}")
            axis.xaxis.set_minor_formatter("")
            lines_below = textwrap.wrap(below, 62)
            axis.set_title(about["title"], loc="left", fontsize=10, fontweight="bold", pad=6 + 8.5 * len(lines_below))
            note = axis.annotate(
                "\n".join(lines_below), (0, 1), xytext=(0, 4), xycoords="axes fraction", textcoords="offset points",
                va="bottom", fontsize=6.5, color="#555555",
            )  # fmt: skip
            note.set_in_layout(False)
            if i + wide >= len(names):
                axis.set_xlabel("seconds of training")
        order = [name for name in labels if name in handles]
        figure.legend(
            [handles[name] for name in order], [labels[name] for name in order], loc="lower center",
            ncols=legend_wide, frameon=False, handlelength=3.2, fontsize=8.5,
        )  # fmt: skip
        figure.tight_layout(rect=(0, legend / height, 1, 1), h_pad=1.6, w_pad=1.2)
    return figure


def draw_scores(axis, lines, metric: str, ours: list[str], labels: dict[str, str]) -> tuple[dict, str]:
    """Scores against time; those who stay above the panel are named under its title."""
    own = {name: min(row["score"] for row in rows) for name, rows in lines.items()}
    best, worst = min(own.values()), max(own.values())
    top = min(SPREAD * best, worst + 0.25 * (worst - best) + 0.02 * best)
    handles = {}
    for name, rows in lines.items():
        points = [row["seconds"] for row in rows], [row["score"] for row in rows]
        every = None if len(rows) < 12 else 0.12  # of the panel's diagonal
        (handles[name],) = axis.plot(*points, markevery=every, **line_style(name, ours))
    axis.set_ylim(best - 0.06 * (top - best), top)
    axis.set_ylabel(metric)
    above = [f"{labels[name]} {score:.3g}" for name, score in own.items() if score > top]
    return handles, f"above the panel: {', '.join(above)}" if above else ""


def draw_objectives(axis, lines, metric: str, ours: list[str], labels: dict[str, str]) -> tuple[dict, str]:
    """How far a solver is above the lowest objective that any of them found."""
    best = min(row["objective"] for rows in lines.values() for row in rows)
    handles = {}
    for name, rows in lines.items():
        points = [row["seconds"] for row in rows], [max(row["objective"] / best - 1, 1e-12) for row in rows]
        (handles[name],) = axis.plot(*points, **line_style(name, ours))
    axis.set_yscale("log")
    axis.set_ylim(1e-6, 2)
    axis.set_ylabel("objective / lowest - 1")
    return handles, ""


# -- the pages --------------------------------------------------------------------------------------------------------

PAGE = """\
# Performance

{begin}
{body}
{end}
"""

BODY = """\
The same rows, split, clipping and threads for everybody. `benchmarks/suite.py` wrote this part from
`benchmarks/results/results.csv`; [benchmarks/README.md](../benchmarks/README.md) has the protocol, and
[what was set](../benchmarks/results/settings.md) the data sets, all settings, and who was left out. For the speed of
single parts see [Benchmarks](benchmarks.md).

**Machine.** {processor}. {software}. Measured on {date}, on {threads} thread(s).

## Who wins where

The lowest test error in the given time, and in parentheses the seconds of training until it was within {near:.0%} of
that error. Bold is the lowest of a row.

{winners}

![Test score against seconds of training, one panel for each data set](images/scores.png)

Ours are blue, the star is polyfm as it comes. The time axis is logarithmic. Panels leave out what is far worse than the
best.

## How to read this

- **Errors: lower is better.** The root mean squared error (RMSE) on test rows, of predictions clipped to the range of
  the training targets (dense sets are standardised); for classes 1 - AUC.
- **Seconds of training alone.** Predictions for the test set stop the clock; data are converted, and our loops
  compiled, before it starts. The first fit in a new environment takes some seconds longer.
- **Settings** are everybody's documented defaults, the rank of the data set, and one choice (mostly a penalty) by
  validation rows, which the clock leaves out. "polyfm as it comes" chooses for itself, on the clock.
- **One run each, on one machine:** run it again before making much of a small difference.
- **Models differ.** Trees and kernel methods show what can be reached; sampling averages many models.

## Everybody

In parentheses the seconds until the test error was within {near:.0%} of anybody's lowest, if it came so near. Bold is
the lowest of all; empty is left out.

{tables}

## The objective

![Objective of our solvers against seconds of training](images/objectives.png)

The same objective for all of our solvers, from the same start, relative to the lowest that any of them found.
"""


def seconds_to(rows: list[Row], score: float) -> float | None:
    return next((row["seconds"] for row in rows if row["score"] <= score), None)


def duration(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.3g}"


class Scores:
    """Everybody's curves with so many threads."""

    def __init__(self, run: dict[str, Any], rows: list[Row], threads: int):
        self.run = run
        self.lines = {key[:2]: line for key, line in traces(rows).items() if key[2] == threads}
        measured = {key[0] for key in self.lines}
        self.titles = {name: about["title"] for name, about in run["datasets"].items() if name in measured}

    def lowest(self, dataset: str, names: Iterable[str]) -> tuple[float, str] | None:
        """The lowest score of these contestants, and whose it is."""
        found = [(min(row["score"] for row in self.lines[dataset, n]), n) for n in names if (dataset, n) in self.lines]
        return min(found, default=None)

    def everybody(self, titles: dict[str, str]) -> str:
        """Everybody's lowest score on these data sets, and when it came near the lowest of all."""
        labels = self.run["labels"]
        best = {name: score for name in titles if (found := self.lowest(name, labels)) for score in found[:1]}

        def cell(name: str, contestant: str) -> str:
            if (line := self.lines.get((name, contestant))) is None:
                return ""
            own, near = min(row["score"] for row in line), seconds_to(line, best[name] * (1 + NEAR))
            text = f"**{own:.4g}**" if own == best[name] else f"{own:.4g}"
            return text if near is None else f"{text} ({duration(near)})"

        text = ["| | " + " | ".join(titles.values()) + " |", "|---" * (len(titles) + 1) + "|"]
        for contestant, label in labels.items():
            cells = [cell(name, contestant) for name in titles]
            if any(cells):
                text.append(
                    f"| {f'**{label}**' if contestant in self.run['ours'] else label} | " + " | ".join(cells) + " |"
                )
        return "\n".join(text)

    def tables(self) -> str:
        """`everybody`, a table for sparse data and one for dense."""
        of_kinds: dict[bool, dict[str, str]] = {}
        for name, title in self.titles.items():
            of_kinds.setdefault("dense" in self.run["datasets"][name]["text"], {})[name] = title
        return "\n\n".join(self.everybody(titles) for titles in of_kinds.values())

    def winners(self) -> str:
        """A line a data set: polyfm as it comes and at its best, the best of the others, and the linear model."""
        ours, labels = self.run["ours"], self.run["labels"]
        others = [name for name in labels if name not in ours and name != LINEAR]
        text = [
            "| | polyfm as it comes | polyfm at its best | the best of the others | the linear model |",
            "|---" * 5 + "|",
        ]
        for name, title in self.titles.items():
            found = [self.lowest(name, names) for names in ((AS_IT_COMES,), ours, others, (LINEAR,))]
            least = min(f for f in found if f)[0]
            cells = []
            for each in found:
                if each is None:
                    cells.append("")
                    continue
                near = seconds_to(self.lines[name, each[1]], each[0] * (1 + NEAR))
                shown = f"**{each[0]:.4g}**" if each[0] == least else f"{each[0]:.4g}"
                whose = "" if each[1] in (AS_IT_COMES, LINEAR) else labels[each[1]].removeprefix("polyfm ") + " "
                cells.append(f"{whose}{shown} ({duration(near)})" if near is not None else f"{whose}{shown}")
            text.append(f"| {title} | " + " | ".join(cells) + " |")
        return "\n".join(text)


def write_page(run: dict[str, Any], rows: list[Row], page: Path) -> None:
    """Write the part between the markers; what people have written around it stays."""
    fewest = min(row["threads"] for row in rows)
    scores = Scores(run, rows, fewest)
    body = BODY.format(**run["machine"], threads=fewest, near=NEAR, winners=scores.winners(), tables=scores.tables())
    generated = f"{BEGIN}\n{body.rstrip()}\n{END}"
    if page.exists() and BEGIN in (old := page.read_text()) and END in old:
        text = old[: old.index(BEGIN)] + generated + old[old.index(END) + len(END) :]
    elif page.exists():
        text = page.read_text().rstrip() + f"\n\n{generated}\n"
    else:
        text = PAGE.format(begin=BEGIN, body=body.rstrip(), end=END)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text)


SETTINGS = """\
# What was set

Written by `benchmarks/suite.py`. The value that was chosen for each data set is in [settings.json](settings.json).

## Data sets

{datasets}

## Contestants

{settings}

## Left out, and trouble

{missing}
"""


def write_settings(run: dict[str, Any], rows: list[Row], page: Path) -> None:
    """What the page leaves out: the data sets, the settings of all contestants, and who is missing where."""
    labels, present = run["labels"], {row["contestant"]: row["version"] for row in rows}
    told: dict[tuple[str, str], list[str]] = {}
    for name, contestant, threads, note in run["notes"]:
        where = run["datasets"][name]["title"] + ("" if threads == 1 else f" ({threads} threads)")
        told.setdefault((labels.get(contestant, contestant), note), []).append(where)
    missing = [
        f"- {labels[name]}: {reason}. It would get: {run['settings'][name]}."
        for name, reason in run["missing"].items() if name not in present
    ]  # fmt: skip
    missing += [f"- {label} on {'; '.join(where)}: {note}." for (label, note), where in told.items()]
    text = SETTINGS.format(
        datasets="\n".join(f"- {d['title']}: {d['text']}. Scores are {d['metric']}." for d in run["datasets"].values()),
        settings="\n".join(
            f"- **{labels[name]}** {present[name]}: {text}. {candidates(run['candidates'][name])}"
            for name, text in run["settings"].items() if name in present
        ),
        missing="\n".join(missing) or "Nobody, and none.",
    )  # fmt: skip
    page.write_text(text)


def candidates(n: int) -> str:
    return f"{n} candidates." if n > 1 else "Nothing to choose."
