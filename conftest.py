"""Modules that need an extra are left alone where it is missing: their tests are skipped, with a line that says so."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("dask") and find_spec("distributed") else ["src/polyfm/dask"]
collect_ignore += [] if find_spec("pyspark") and find_spec("pyarrow") else ["src/polyfm/spark"]
