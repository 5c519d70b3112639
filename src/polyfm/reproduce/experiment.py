"""What experiments share: cells that are computed once and recorded, the table, the circumstances and the picture.

A cell is one point of an experiment's grid, such as (data set, model, rank, seed). It is recorded in a file of its own
as soon as it is done, under a key made of everything that its result depends on: the coordinates, the fixed settings,
the data, and the versions of the libraries. What is on record is not computed again.
"""

import csv
import hashlib
import io
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

import polyfm
from polyfm.files.atomic import DataFileError, writing
from polyfm.reproduce.data import Data, read

Row = dict[str, Any]
Watch = Callable[[str, float, float], None]  # told the experiment's name, how much is done, and of how much


@dataclass(frozen=True)
class Experiment:
    """What is computed, and how it is drawn.

    `fixed` settings are part of every cell's key; those of the `grid` are lists, and a cell has one of each, so that a
    longer list computes only what is new. `quick` and `quick_grid` replace some of them in a quick run.
    """

    name: str
    title: str
    fixed: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]]
    quick: Mapping[str, Any]
    quick_grid: Mapping[str, Sequence[Any]]
    cells: Callable[[Mapping[str, Sequence[Any]]], Iterable[Row]]
    compute: Callable[[Row, Mapping[str, Any], Data], list[Row]]
    draw: Callable[[list[Row], Mapping[str, Any], Mapping[str, Data]], Any]
    finish: Callable[[list[Row]], list[Row]] = lambda rows: rows
    table: Callable[[list[Row]], list[Row]] = lambda rows: rows  # what is written of the rows that are drawn
    cost: Callable[[Row], float] = lambda cell: 1.0  # long cells start first, and a bar moves in its units
    otherwise: Mapping[str, str] | None = None  # sets to take in place of those that are not there
    alone: bool = False  # times are what is measured: one cell at a time
    notes: tuple[str, ...] = ()

    def settings(self, quick: bool = False) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """The fixed settings and the grid."""
        fixed = {**self.fixed, **(self.quick if quick else {})}
        grid = {**self.grid, **(self.quick_grid if quick else {})}
        return fixed, {name: list(values) for name, values in grid.items()}


def run(
    experiment: Experiment,
    data_home=None,
    out: str | os.PathLike[str] = "reproduced",
    *,
    quick: bool = False,
    n_jobs: int = 2,
    watch: Watch | None = None,
) -> list[Path]:
    """Compute the cells that are not on record, then write the table, the circumstances and the picture."""
    if find_spec("matplotlib") is None:
        raise ImportError("Pictures need matplotlib: pip install 'polyfm[plot]'.")
    folder = Path(out)
    fixed, grid = experiment.settings(quick)
    data = {}
    for name in grid["set"]:
        found = read(name, data_home, otherwise=(experiment.otherwise or {}).get(name), rows=fixed.get("rows"))
        data[found.name] = found
    grid["set"] = list(data)
    cells = list(experiment.cells(grid))
    described = {name: d.described() for name, d in data.items()}
    shared = {"experiment": experiment.name, "settings": fixed, "versions": versions()}
    keys = [_key({**shared, "cell": cell, "data": described[cell["set"]]}) for cell in cells]
    records = _computed(experiment, cells, keys, fixed, data, folder / "cells" / experiment.name, n_jobs, watch)

    rows = experiment.finish(
        [{**cell, **row} for cell, record in zip(cells, records, strict=True) for row in record["rows"]]
    )
    seconds = [record["seconds"] for record in records]
    circumstances = {
        "experiment": experiment.name,
        "title": experiment.title,
        "quick": quick,
        "settings": {**fixed, **grid},
        "seeds": grid["seed"],
        "data": described,
        "notes": list(experiment.notes),
        "versions": versions(),
        "cores": os.cpu_count(),
        "cells_at_a_time": 1 if experiment.alone else n_jobs,
        "seconds": {"all cells": sum(seconds), "longest cell": max(seconds)},
        "cells": [{**cell, "key": key, "seconds": s} for cell, key, s in zip(cells, keys, seconds, strict=True)],
    }
    paths = [folder / f"{experiment.name}.{suffix}" for suffix in ("csv", "json", "png")]
    _write(paths[0], _table(experiment.table(rows)))
    _write(paths[1], json.dumps(circumstances, indent=1).encode() + b"\n")
    picture = io.BytesIO()
    experiment.draw(rows, {**fixed, **grid}, data).savefig(picture, format="png", dpi=150)
    _write(paths[2], picture.getvalue())
    return paths


def versions() -> dict[str, str]:
    names = {"numpy": "numpy", "scipy": "scipy", "sklearn": "scikit-learn", "numba": "numba"}
    return {
        "python": platform.python_version(),
        **{name: version(package) for name, package in names.items()},
        "polyfm": polyfm.__version__,
    }


def _key(identity: Row) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:20]


def _computed(
    experiment: Experiment,
    cells: list[Row],
    keys: list[str],
    fixed: Mapping[str, Any],
    data: Mapping[str, Data],
    folder: Path,
    n_jobs: int,
    watch: Watch | None,
) -> list[Row]:
    """The records of all cells, in their order; those that are missing are computed, long ones first."""
    folder.mkdir(parents=True, exist_ok=True)
    records = {key: record for key in keys if (record := _record(folder / f"{key}.json")) is not None}
    costs = {key: experiment.cost(cell) for key, cell in zip(keys, cells, strict=True)}
    missing = [(key, cell) for key, cell in zip(keys, cells, strict=True) if key not in records]
    missing.sort(key=lambda item: -costs[item[0]])
    done, total = sum(costs[key] for key in records), sum(costs.values())

    def work(item: tuple[str, Row]) -> tuple[str, Row]:
        key, cell = item
        began = time.perf_counter()
        rows = experiment.compute(cell, fixed, data[cell["set"]])
        record = {"cell": cell, "rows": rows, "seconds": time.perf_counter() - began}
        _write(folder / f"{key}.json", json.dumps(record).encode())
        return key, record

    if watch is not None:
        watch(experiment.name, done, total)
    # Cells run beside the main thread even one at a time: solvers end a fit early on Ctrl-C, and what they return then
    # must not be recorded. Threads of a pool die with the process.
    with (
        warnings.catch_warnings(),
        threadpool_limits(1),
        ThreadPool(1 if experiment.alone else max(1, n_jobs)) as pool,
    ):
        warnings.simplefilter("ignore")
        for key, record in pool.imap_unordered(work, missing):
            records[key] = record
            done += costs[key]
            if watch is not None:
                watch(experiment.name, done, total)
    return [records[key] for key in keys]


def _record(path: Path) -> Row | None:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _write(path: Path, content: bytes) -> None:
    with writing(path, DataFileError) as file:
        file.write(content)


def _table(rows: list[Row]) -> bytes:
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, names, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue().encode()
