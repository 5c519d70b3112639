"""Modules that need an extra are left alone where it is missing: their tests are skipped, with a line that says so."""

import sys
from importlib.util import find_spec

import pytest

collect_ignore = [] if find_spec("dask") and find_spec("distributed") else ["src/polyfm/dask"]
collect_ignore += [] if find_spec("pyspark") and find_spec("pyarrow") else ["src/polyfm/spark"]


@pytest.fixture(autouse=True)
def _closed_figures():
    """Figures of tests and examples stay open until somebody closes them, and matplotlib warns of many."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
