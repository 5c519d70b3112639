"""Our solvers and every installed peer on the same data: test score and objective against time, and memory.

    POLYFM_DATA=DIR python benchmarks/suite.py [--data NAME ...] [--peer NAME ...] [--threads 1 2] [--seconds 30]
    python benchmarks/suite.py --quick      a minute on synthetic data
    python benchmarks/suite.py --report     only the pictures and the page, from the results there are

See benchmarks/README.md for the protocol and for how to add a peer or a data set.
"""

import argparse
import json
import os
import pickle
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from peers import chosen, contestants
from peers.base import Adapter, Dataset, Point, peak_mb
from suite_report import draw, write_page, write_settings
from suite_results import Results

HERE = Path(__file__).resolve().parent

# -- data -------------------------------------------------------------------------------------------------------------


def one_hot_fields(X) -> tuple[int, int]:
    """Widths of the two blocks of columns of `data.one_hot(a, b)`."""
    first = int(X.indices[::2].max()) + 1
    return first, X.shape[1] - first


def ratings(name: str, title: str, parts, rank: int) -> Dataset:
    return Dataset(name, title, "regression", *parts, rank=rank, fields=one_hot_fields(parts[0]))


def shuffled(X, X_test, y: np.ndarray, y_test: np.ndarray) -> tuple:
    """Training rows in a random order: some sets are sorted by class, which misleads those who learn row by row."""
    order = np.random.RandomState(0).permutation(len(y))
    return X[order], X_test, y[order], y_test


def datasets() -> dict[str, Callable[[], Dataset]]:
    """What to load, by name, from the directory that POLYFM_DATA names."""
    import data

    def small(name: str, degree: int) -> Callable[[], Dataset]:
        title = f"{name}, degree {degree}"
        return lambda: Dataset(f"{name}-{degree}", title, "regression", *data.dense(name), degree=degree, share=1 / 3)

    sets: dict[str, Callable[[], Dataset]] = {
        "movielens-1m": lambda: ratings("movielens-1m", "MovieLens 1M", data.movielens_1m(), 30),
        "lastfm": lambda: ratings("lastfm", "Last.fm", data.lastfm(), 10),
        "imdb": lambda: Dataset("imdb", "IMDB reviews", "regression", *shuffled(*data.imdb())),
        "a9a": lambda: Dataset("a9a", "a9a", "classification", *shuffled(*data.a9a())),
        "clicks": lambda: Dataset(
            "clicks", "Made-up clicks", "classification", *data.clicks(), rank=8, fields=(10_000,) * 20
        ),
    }
    return sets | {f"{name}-{m}": small(name, m) for name in ("cadata", "abalone", "cpusmall") for m in (2, 3)}


def quick_datasets() -> dict[str, Callable[[], Dataset]]:
    import data

    def made_ratings() -> Dataset:
        rng = np.random.RandomState(0)
        users, items = rng.randint(200, size=4000), rng.randint(100, size=4000)
        U, V = rng.standard_normal((200, 3)), rng.standard_normal((100, 3))
        y = np.clip(np.round(3 + U[users, 0] + V[items, 0] + np.sum(U[users] * V[items], axis=1) / 3), 1, 5)
        X = data.one_hot(users, items)
        return ratings("made-ratings", "Made-up ratings", (X[:3000], X[3000:], y[:3000], y[3000:]), 5)

    def made_classes() -> Dataset:
        X, X_test, y, y_test = data.synthetic_anova(degree=2, n=1600, d=10)
        labels = (np.where(targets > 0, 1.0, -1.0) for targets in (y, y_test))
        return Dataset("made-classes", "Made-up classes", "classification", X, X_test, *labels)

    return {"made-ratings": made_ratings, "made-classes": made_classes}


# -- one contestant in a process of its own ---------------------------------------------------------------------------


def work(job: dict[str, Any]) -> None:
    """What the subprocess does: train one contestant and write its points to a file, one a line."""
    from threadpoolctl import threadpool_limits

    if job["pin"] and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: job["threads"]])
    with open(job["dataset"], "rb") as file:
        dataset = pickle.load(file)
    adapter = contestants()[job["contestant"]]
    with open(job["points"], "w") as file:

        def tell(**line) -> None:
            print(json.dumps({**line, "peak_rss_mb": adapter.peak_mb or peak_mb()}), file=file, flush=True)

        with threadpool_limits(job["threads"]):
            try:
                adapter.trace(
                    dataset, job["seconds"], job["threads"], job["setting"], sink=lambda point: tell(point=point)
                )
                tell()
            except Exception as error:
                tell(note=f"{type(error).__name__}: {error}")


def run(
    contestant: str, dataset: Path, seconds: float, threads: int, setting: dict[str, Any], pin: bool = True
) -> tuple[list[Point], float, str]:
    """Points, peak memory and a note where something went wrong: a crash ends the subprocess alone."""
    with tempfile.TemporaryDirectory() as directory:
        job = {
            "contestant": contestant, "dataset": str(dataset), "seconds": seconds, "threads": threads,
            "setting": setting, "pin": pin, "points": str(Path(directory, "points")),
        }  # fmt: skip
        libraries = ("OMP", "OPENBLAS", "MKL", "NUMBA")
        limits = {f"{library}_NUM_THREADS": str(threads) for library in libraries}
        with open(Path(directory, "log"), "w+") as log:
            process = subprocess.Popen(
                [sys.executable, __file__, "--job", json.dumps(job)], stdout=log, stderr=subprocess.STDOUT,
                env=os.environ | limits | {"TMPDIR": directory}, start_new_session=True,
            )  # fmt: skip
            limit, note = 120 + 5 * seconds, ""
            try:
                if code := process.wait(limit):
                    log.seek(0)
                    note = f"ended with code {code}: {' '.join(log.read().split()[-30:])}"
            except subprocess.TimeoutExpired:
                note = f"stopped after {limit:.0f} seconds in all"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        written = Path(job["points"])
        lines = [json.loads(line) for line in written.read_text().splitlines()] if written.exists() else []
    points = [Point(*line["point"]) for line in lines if "point" in line]
    peak = max((line["peak_rss_mb"] for line in lines), default=0.0)
    return points, peak, next((line["note"] for line in lines if "note" in line), note)


def tune(
    adapter: Adapter, dataset: Path, seconds: float, pool: ThreadPoolExecutor
) -> tuple[dict[str, Any], list[float | None]]:
    """The setting of the grid with the best score on validation rows, and the scores of all."""

    def best(setting: dict[str, Any]) -> float | None:
        points, _, _ = run(adapter.name, dataset, seconds, 1, setting, pin=False)
        scores = [point.score for point in points if np.isfinite(point.score)]
        return min(scores, default=None)

    scores = list(pool.map(best, adapter.grid))
    finite = [(score, i) for i, score in enumerate(scores) if score is not None]
    return adapter.grid[min(finite)[1] if finite else 0], scores


# -- all of them ------------------------------------------------------------------------------------------------------


def machine() -> dict[str, str]:
    """What the figures depend on, without names of anybody's computer."""
    processor, memory = platform.machine(), ""
    cpuinfo, meminfo = Path("/proc/cpuinfo"), Path("/proc/meminfo")
    if cpuinfo.exists():
        models = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        processor = models[0] if models else processor
    if meminfo.exists():
        memory = f", {int(meminfo.read_text().split()[1]) / 2**20:.0f} GiB of memory"
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn", "numba"))
    return {
        "processor": f"{processor}, {os.cpu_count()} cores{memory}",
        "software": f"Python {platform.python_version()} on {platform.system()}, {libraries}",
        "date": time.strftime("%Y-%m-%d"),
    }


def measure(results: Results, makers: dict[str, Callable[[], Dataset]], adapters: dict[str, Adapter], options) -> None:
    present = {name: adapter for name, adapter in adapters.items() if adapter.available() is None}
    results.run["machine"] = machine()
    results.run["missing"] = {a.name: reason for a in contestants().values() if (reason := a.available())}
    results.run["settings"] = {a.name: a.settings for a in contestants().values()}
    results.run["labels"] = {a.name: a.label for a in contestants().values()}
    results.run["candidates"] = {a.name: len(a.grid) for a in contestants().values()}
    results.run["ours"] = [a.name for a in contestants().values() if a.ours]
    for name in (name for name in adapters if name not in present):
        say(f"{name} is left out: {results.run['missing'][name]}")
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, make in makers.items():
            dataset = make()
            seconds = options.seconds * dataset.share
            results.run["datasets"][name] = described(dataset, seconds)
            if options.retune:
                results.settings.pop(name, None)
            whole, part = Path(directory, "whole"), Path(directory, "part")
            whole.write_bytes(pickle.dumps(dataset))
            part.write_bytes(pickle.dumps(dataset.validation()))
            for adapter in present.values():
                if not adapter.suits(dataset):
                    results.put(name, adapter.name, 1, [], f"left out: it needs {adapter.needs}")
                    continue
                setting = choice(results, adapter, name, part, seconds, options, pool)
                for threads in (t for t in options.threads if t == 1 or adapter.threaded):
                    points, peak, note = run(adapter.name, whole, seconds, threads, setting)
                    if points and not any(np.isfinite(point.score) for point in points):
                        note = note or "none of its predictions was finite"
                    common = {
                        "dataset": name, "contestant": adapter.name, "version": adapter.version(), "threads": threads,
                        "setting": in_words(setting), "peak_rss_mb": peak,
                    }  # fmt: skip
                    rows = [{**common, **point._asdict()} for point in points]
                    results.put(name, adapter.name, threads, rows, note)
                    best = min((point.score for point in points), default=float("nan"))
                    say(
                        f"{name:<14}{adapter.name:<20}{threads} thread(s)  best {best:<10.5g}{len(points):>3} points "
                        f"{peak:>7.0f} MB  {common['setting']}  {note}"
                    )


def choice(results: Results, adapter: Adapter, name: str, part: Path, seconds: float, options, pool) -> dict[str, Any]:
    """The setting for a data set: from the file, or chosen now and written to it."""
    if len(adapter.grid) == 1 or options.quick:
        return adapter.grid[0]
    settings = results.settings.setdefault(name, {})
    if adapter.tuned_as not in settings:
        settings[adapter.tuned_as], scores = tune(adapter, part, seconds / 3, pool)
        results.write()
        tried = (f"{in_words(s)}: {score}" for s, score in zip(adapter.grid, scores, strict=True))
        say(f"{name:<14}{adapter.name:<20}validation scores  {', '.join(tried)}")
    return settings[adapter.tuned_as]


def in_words(setting: dict[str, Any]) -> str:
    return " ".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in setting.items()
    )


def described(dataset: Dataset, seconds: float) -> dict[str, Any]:
    n, d = dataset.X_train.shape
    kind = f"{dataset.X_train.nnz:,} non-zeros" if dataset.is_sparse else "dense"
    text = f"{n:,} x {d:,}, {kind}, {len(dataset.y_test):,} test rows; rank {dataset.rank}, degree {dataset.degree}; "
    text += f"at most {seconds:.3g} seconds"
    return {"title": dataset.title, "metric": dataset.metric, "text": text}


def say(text: str) -> None:
    print(text, flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", metavar="NAME", help="data sets (default: all)")
    parser.add_argument("--peer", nargs="+", metavar="NAME", help="contestants (default: all that are installed)")
    parser.add_argument("--threads", nargs="+", type=int, help="(default: 1 2, or 1 with --quick)")
    parser.add_argument("--seconds", type=float, help="of training for a run (default: 30, or 0.5 with --quick)")
    parser.add_argument("--out", type=Path, help="directory of the results (default: benchmarks/results)")
    parser.add_argument("--page", type=Path, help="page to write (default: docs/performance.md)")
    parser.add_argument("--quick", action="store_true", help="synthetic data, default settings, into a new directory")
    parser.add_argument("--retune", action="store_true", help="choose settings anew")
    parser.add_argument("--report", action="store_true", help="measure nothing: pictures and page from the results")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.job:
        return work(json.loads(options.job))
    if options.seconds is None:
        options.seconds = 0.5 if options.quick else 30.0
    options.threads = options.threads or ([1] if options.quick else [1, 2])
    if options.out is None:
        options.out = Path(tempfile.mkdtemp(prefix="polyfm-suite-")) if options.quick else HERE / "results"
    if options.page is None:
        options.page = options.out / "performance.md" if options.quick else HERE.parent / "docs" / "performance.md"
    results = Results(options.out)
    if not options.report:
        makers = quick_datasets() if options.quick else datasets()
        if unknown := sorted(set(options.data or []) - set(makers)):
            raise SystemExit(f"No data set is called {unknown[0]!r}. There are: {', '.join(makers)}.")
        makers = {name: make for name, make in makers.items() if not options.data or name in options.data}
        measure(results, makers, chosen(options.peer), options)
    if not results.rows:
        raise SystemExit(f"There are no results in {options.out}.")
    draw(results.run, results.rows, options.page.parent / "images")
    write_page(results.run, results.rows, options.page)
    write_settings(results.run, results.rows, options.out / "settings.md")
    say(f"Wrote {results.csv} and {options.page}")


if __name__ == "__main__":
    main()
