"""Contestants by name: one adapter a file, `ADAPTERS` in each. A new peer is one file and one word here."""

from importlib import import_module

from peers.base import Adapter

FILES = (
    "polyfm", "linear", "myfm", "fastfm", "polylearn", "libfm", "xlearn", "vowpalwabbit", "lightgbm", "kernel_ridge",
    "nystroem", "count_sketch", "polynomial_features",
)  # fmt: skip


def contestants() -> dict[str, Adapter]:
    """All of them, installed or not, ours first."""
    adapters = [adapter for file in FILES for adapter in import_module(f"peers.{file}").ADAPTERS]
    return {adapter.name: adapter for adapter in adapters}


def chosen(names: list[str] | None) -> dict[str, Adapter]:
    """Those whose name, or its first word, is among `names`: "polyfm" stands for all of ours."""
    everyone = contestants()
    if not names:
        return everyone
    known = set(everyone) | {name.split("-")[0] for name in everyone}
    if unknown := sorted(set(names) - known):
        raise SystemExit(f"No contestant is called {unknown[0]!r}. There are: {', '.join(everyone)}.")
    return {name: a for name, a in everyone.items() if name in names or name.split("-")[0] in names}
