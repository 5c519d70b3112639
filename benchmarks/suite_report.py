"""The pictures and the page of `suite.py`, from what it measured: `rows` of its table and `run`, what else is told."""

import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
TARGETS = (0.05, 0.02, 0.005)  # the page tells when a contestant is within these parts of the best score
OWN_BEST = 0.001  # "its best" is reached within this part of it
BEGIN, END = "<!-- suite:begin -->", "<!-- suite:end -->"

# -- pictures ---------------------------------------------------------------------------------------------------------

# Colours that people with any kind of colour vision can tell apart (Okabe and Ito); ours are blue, and heavier.
OUR_LINES = (
    ("#0072B2", "-"), ("#0072B2", (0, (4, 1.5))), ("#0072B2", (0, (1, 1))), ("#56B4E9", "-"),
    ("#56B4E9", (0, (4, 1.5))), ("#56B4E9", (0, (1, 1))),
)  # fmt: skip
PEER_LINES = {
    "myfm": ("#D55E00", "o"), "myfm-variational": ("#D55E00", "v"), "fastfm": ("#CC79A7", "P"),
    "polylearn": ("#CC79A7", "X"), "libfm": ("#CC79A7", "D"), "xlearn": ("#CC79A7", "<"),
    "vowpalwabbit": ("#E69F00", "^"), "lightgbm": ("#009E73", "s"), "kernelridge": ("#444444", "o"),
    "nystroem": ("#777777", "D"), "countsketch": ("#777777", "x"), "polynomialfeatures": ("#444444", "*"),
}  # fmt: skip
SPREAD = 1.6  # a panel shows scores up to this many times the best one


def line_style(name: str, ours: list[str]) -> dict[str, Any]:
    if name in ours:
        colour, dashes = OUR_LINES[ours.index(name) % len(OUR_LINES)]
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


# -- the page ---------------------------------------------------------------------------------------------------------

PAGE = """\
# Performance

{begin}
{body}
{end}
"""

BODY = """\
polyfm beside its peers: the same rows, the same split, the same clipping, the same threads. All of this part was
written by `benchmarks/suite.py` from `benchmarks/results/results.csv`; [benchmarks/README.md](../benchmarks/README.md)
tells how to run it. For the speed of single parts see [Benchmarks](benchmarks.md).

**Machine.** {processor}. {software}. Measured on {date}.

## How to read this

- **Scores are errors: lower is better.** Ratings and other numbers: the root mean squared error (RMSE) on test rows,
  of predictions clipped to the range of the training targets (dense sets have standardised features and targets).
  Classes: 1 - AUC.
- **Seconds are of training alone.** Predictions for the test set stop the clock, and so does bringing the data into
  the form that a contestant reads: files, caches, bins. What it does with them inside its training call counts. Our
  loops were compiled beforehand, by a fit of one epoch: the first fit in a new environment takes some seconds longer.
  Others need no such thing.
- A contestant that cannot report on its way was trained anew with 1, 2, 5, 10, ... iterations, each run being a point.
- **Settings.** Everybody has its documented defaults, the rank of the data set, and one choice (mostly a penalty) from
  a small grid: the best score on a fifth of the training rows, each candidate having a third of the time. All that was
  set is written down below, with the number of candidates: those who learn row by row have more, as they need a
  learning rate too, and those who infer their penalties have none.
- Each run was one process of its own, on as many cores as it had threads, for as many seconds as the tables tell.
  *Peak memory* is that of the whole process, with Python, its libraries and the data.
- *Seconds to* a score: until the first point that is within {targets} of the best score of anybody; "-" where it did
  not get there in its time. *Its best* is reached within {own_best:.1%} of its own best score. Both look at test
  scores, for all contestants alike; they describe curves and do not select models.
- One run each, on one machine: run it again before making much of a small difference.
- Models differ. Trees and kernel methods are here to show what can be reached, not as the same model by other means;
  sampling (myFM, libFM) averages the predictions of many models.

![Test score against seconds of training, one panel for each data set](images/scores.png)

Ours are the blue lines. One thread; the time axis is logarithmic. Panels leave out what is far worse than the best.

![Objective of our solvers against seconds of training](images/objectives.png)

The same objective for all of our solvers, from the same start, relative to the lowest that any of them found.

## Results

{tables}

## What was set

{settings}

## Who was left out

{missing}
"""


def seconds_to(rows: list[Row], score: float) -> float | None:
    return next((row["seconds"] for row in rows if row["score"] <= score), None)


def duration(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.3f}" if seconds < 1 else f"{seconds:.3g}"


def table(run: dict[str, Any], name: str, lines: dict[tuple[str, int], list[Row]]) -> str:
    """One data set: who reached what, and when."""
    about, ours, labels = (run[key] for key in ("datasets", "ours", "labels"))
    own = {key: min(row["score"] for row in rows) for key, rows in lines.items()}
    best = min(own.values())
    targets = [best * (1 + part) for part in TARGETS]
    text = [
        f"### {about[name]['title']}", "", f"{about[name]['text']}. Scores are {about[name]['metric']}.", "",
        "| | threads | chosen | best | seconds to its best | " + " | ".join(f"to {t:.4g}" for t in targets)
        + " | peak MB |",
        "|---|---|---|---|---|" + "---|" * (len(targets) + 1),
    ]  # fmt: skip
    for key in sorted(lines, key=lambda key: (own[key], key)):
        (contestant, threads), rows = key, lines[key]
        label = f"**{labels[contestant]}**" if contestant in ours else labels[contestant]
        times = [seconds_to(rows, own[key] * (1 + OWN_BEST)), *(seconds_to(rows, t) for t in targets)]
        cells = [label, str(threads), rows[0]["setting"], f"{own[key]:.4g}", *map(duration, times)]
        text.append("| " + " | ".join([*cells, f"{rows[0]['peak_rss_mb']:.0f}"]) + " |")
    notes = [(n[1], n[2], n[3]) for n in run["notes"] if n[0] == name]
    text += [""] + [f"- {labels.get(c, c)}, {t} thread(s): {note}" for c, t, note in notes if "left out" not in note]
    if outside := [
        f"{labels.get(c, c)} (needs {note.split('needs ')[1]})" for c, _, note in notes if "left out" in note
    ]:
        text.append("- Left out: " + ", ".join(outside) + ".")
    return "\n".join(text).rstrip()


def candidates(n: int) -> str:
    return f"{n} candidates." if n > 1 else "Nothing to choose."


def write_page(run: dict[str, Any], rows: list[Row], page: Path) -> None:
    """Write the part between the markers; what people have written around it stays."""
    by_set: dict[str, dict[tuple[str, int], list[Row]]] = {}
    for (name, contestant, threads), line in traces(rows).items():
        by_set.setdefault(name, {})[contestant, threads] = line
    order = [name for name in run["datasets"] if name in by_set]
    labels, present = run["labels"], {row["contestant"]: row["version"] for row in rows}
    body = BODY.format(
        **run["machine"],
        targets=", ".join(f"{part:.1%}".replace(".0%", "%") for part in TARGETS),
        own_best=OWN_BEST,
        tables="\n\n".join(table(run, name, by_set[name]) for name in order),
        settings="\n".join(
            f"- **{labels[name]}** {present[name]}: {text}. {candidates(run['candidates'][name])}"
            for name, text in run["settings"].items() if name in present
        ),
        missing="\n".join(
            f"- {labels[name]}: {reason}. It would get: {run['settings'][name]}."
            for name, reason in run["missing"].items() if name not in present
        ) or "Nobody.",
    )  # fmt: skip
    generated = f"{BEGIN}\n{body.rstrip()}\n{END}"
    if page.exists() and BEGIN in (old := page.read_text()) and END in old:
        text = old[: old.index(BEGIN)] + generated + old[old.index(END) + len(END) :]
    elif page.exists():
        text = page.read_text().rstrip() + f"\n\n{generated}\n"
    else:
        text = PAGE.format(begin=BEGIN, body=body.rstrip(), end=END)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text)
