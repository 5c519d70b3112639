"""Data in: svmlight, libsvm and libFM text; CSV, TSV and Parquet tables; whole or in chunks of bounded memory."""

from polyfm.files.atomic import DataFileError
from polyfm.files.svmlight import iter_svmlight, read_svmlight
from polyfm.files.tables import iter_table, read_table

__all__ = ["DataFileError", "iter_svmlight", "iter_table", "read_svmlight", "read_table"]
