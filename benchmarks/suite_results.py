"""What `suite.py` has measured, in three files: points of all runs, chosen settings, and what else the page tells."""

import csv
import json
import math
from pathlib import Path
from typing import Any

from suite_report import NEAR, Row, traces

COLUMNS = (
    "dataset", "contestant", "version", "threads", "setting", "iteration", "seconds", "score", "objective",
    "peak_rss_mb",
)  # fmt: skip
POINTS = 20  # of a curve that is drawn, evenly in the logarithm of time
NEAR_ANYBODYS_BEST, NEAR_ITS_OWN = (0.05, NEAR, 0.005), (NEAR, 0.001)  # parts of a score at which a curve keeps a point


class Results:
    """The rows of the table, the settings and the rest, read from a directory and written to it."""

    def __init__(self, directory: Path):
        directory.mkdir(parents=True, exist_ok=True)
        self.csv, self.settings_file, self.run_file = (
            directory / name for name in ("results.csv", "settings.json", "run.json")
        )
        self.rows: list[Row] = []
        if self.csv.exists():
            with open(self.csv, newline="") as file:
                self.rows = [parsed(row) for row in csv.DictReader(file)]
        self.settings: dict[str, dict[str, Any]] = read_json(self.settings_file)
        self.run: dict[str, Any] = read_json(self.run_file) or {"datasets": {}, "missing": {}, "notes": []}

    def put(self, dataset: str, contestant: str, threads: int, rows: list[Row], note: str) -> None:
        """Put a run in the place of an earlier one of the same contestant."""
        key = (dataset, contestant, threads)
        self.rows = [row for row in self.rows if (row["dataset"], row["contestant"], row["threads"]) != key] + rows
        self.run["notes"] = [n for n in self.run["notes"] if tuple(n[:3]) != key] + ([[*key, note]] if note else [])
        self.write()

    def write(self) -> None:
        self.rows = pruned(self.rows)
        with open(self.csv, "w", newline="") as file:
            table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            table.writeheader()
            table.writerows({name: shown(row[name]) for name in COLUMNS} for row in self.rows)
        lines = (f"{json.dumps(name)}: {json.dumps(chosen)}" for name, chosen in sorted(self.settings.items()))
        self.settings_file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        self.run_file.write_text(json.dumps(self.run, indent=1) + "\n")


def pruned(rows: list[Row]) -> list[Row]:
    """What the page and the pictures need of each curve: its ends, its lowest score and objective, where it comes near
    its own best and anybody's, and, with the fewest threads, which is what pictures show, some points in between."""
    rows = [row for row in rows if math.isfinite(row["score"])]
    fewest = min((row["threads"] for row in rows), default=0)
    best: dict[str, float] = {}  # of those that the page compares
    for row in rows:
        if row["threads"] == fewest:
            best[row["dataset"]] = min(best.get(row["dataset"], math.inf), row["score"])
    kept: set[int] = set()
    for (name, _, threads), curve in traces(rows).items():
        lowest = min(curve, key=lambda row: row["score"])
        minima = [row for row in curve if row["objective"] is not None]
        goals = [lowest["score"] * (1 + p) for p in NEAR_ITS_OWN]
        goals += [best.get(name, 0) * (1 + p) for p in NEAR_ANYBODYS_BEST]
        chosen = [curve[0], curve[-1], lowest, *sorted(minima, key=lambda row: row["objective"])[:1]]
        chosen += [row for goal in goals if (row := next((r for r in curve if r["score"] <= goal), None))]
        chosen += spaced(curve) if threads == fewest else []
        kept |= set(map(id, chosen))
    return [row for row in rows if id(row) in kept]


def spaced(curve: list[Row]) -> list[Row]:
    """Some of the points of a curve, evenly in the logarithm of time. Of those that it gives, it gives all again."""
    first, last = (max(curve[end]["seconds"], 1e-6) for end in (0, -1))
    ratio, due, chosen = (last / first) ** (1 / POINTS), first, []
    for row in curve:
        if row["seconds"] >= due:
            chosen.append(row)
            due = row["seconds"] * ratio
    return chosen


def parsed(row: dict[str, str]) -> Row:
    numbers = {name: float(row[name]) if row[name] else None for name in ("seconds", "score", "objective")}
    return {
        **row, **numbers, "threads": int(row["threads"]), "iteration": int(row["iteration"]),
        "peak_rss_mb": float(row["peak_rss_mb"]),
    }  # fmt: skip


def shown(value) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}
