"""`TableEncoder` on Dask DataFrames."""

from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from polyfm.dask.collections import is_frame, partitions_of
from polyfm.dask.engine import PATIENCE, result_of
from polyfm.dask.estimators import client_of
from polyfm.distributed.engine import PartitionError
from polyfm.tabular import TableEncoder
from polyfm.tabular.summary import Summary, fit_to_summary, kinds_of

AT_ONCE = 8  # summaries that one task merges


class DaskTableEncoder(TransformerMixin, BaseEstimator):
    """`TableEncoder` on Dask DataFrames: text, categories, numbers and dates become sparse features.

    What is learned is what a `TableEncoder` learns of all rows: values are counted on the workers, and the counts are
    merged. Medians are exact up to some 16,000 different values, and beyond that those of values next to the median.
    What a column is depends on its type alone: name columns of text that hold dates in `dates`.

    Parameters
    ----------
    fields : list of str, default=None
        Columns to one-hot encode even where they hold numbers.
    dtype : {np.float64, np.float32}, default=np.float64
        Of the output.
    dates : list of str or dict, default=None
        Columns of text that hold dates, or a dict from columns to their layout.
    min_frequency : int or float, default=None
        Values of a one-hot column that occur less often share one column.
    n_buckets : int, default=None
        One-hot columns with more values than this are hashed into this many columns.
    client : distributed.Client, default=None
        The cluster; None is the current client.

    Attributes
    ----------
    encoder_ : TableEncoder
        The ordinary encoder, fitted.
    """

    def __init__(
        self, fields=None, dtype=np.float64, *, dates=None, min_frequency=None, n_buckets=None, client=None
    ):  # fmt: skip
        self.fields = fields
        self.dtype = dtype
        self.dates = dates
        self.min_frequency = min_frequency
        self.n_buckets = n_buckets
        self.client = client

    def fit(self, X, y=None):
        """Learn the categories, medians, means and scales.

        Parameters
        ----------
        X : Dask DataFrame
            The table. Its partitions are read once.
        y : ignored
            It is there for pipelines.

        Returns
        -------
        self : object
        """
        _check_frame(X)
        client = client_of(self)
        plain = TableEncoder(
            self.fields, self.dtype, dates=self.dates, min_frequency=self.min_frequency, n_buckets=self.n_buckets
        )
        names = [str(name) for name in X.columns]
        empty = kinds_of(plain, X._meta)  # errors about options come before any work
        look, add = dask.delayed(_summary, pure=False), dask.delayed(_merged, pure=False)
        level = [look(i, empty, part) for i, part in enumerate(partitions_of(X))]
        while len(level) > 1:
            level = [add(level[i : i + AT_ONCE]) for i in range(0, len(level), AT_ONCE)]
        self.encoder_ = fit_to_summary(plain, names, result_of(client, level[0], getattr(self, "_patience", PATIENCE)))
        self.n_features_in_, self.feature_names_in_ = plain.n_features_in_, plain.feature_names_in_
        return self

    def transform(self, X):
        """Encode a table with the columns that `fit` saw.

        Parameters
        ----------
        X : Dask DataFrame, or a table in memory
            With the columns that `fit` saw.

        Returns
        -------
        X : Dask array of CSR chunks, of shape (n_samples, n_encoded)
            Not computed yet; of a table in memory, a CSR matrix.
        """
        check_is_fitted(self)
        if not is_frame(X):
            return self.encoder_.transform(X)
        width, dtype = self.encoder_._plan.n_encoded, np.dtype(self.dtype)
        encoder, meta = dask.delayed(self.encoder_, traverse=False, pure=False), sp.csr_matrix((0, 0), dtype=dtype)
        encode = dask.delayed(_encode, pure=False)
        parts = [encode(i, encoder, part) for i, part in enumerate(partitions_of(X))]
        blocks = [da.from_delayed(part, (np.nan, width), dtype, meta=meta) for part in parts]
        return da.concatenate(blocks, allow_unknown_chunksizes=True)

    def get_feature_names_out(self, input_features=None):
        """The names of the encoded columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            As of `TableEncoder`.

        Returns
        -------
        names : ndarray of str objects
        """
        check_is_fitted(self)
        return self.encoder_.get_feature_names_out(input_features)

    def to_local(self) -> TableEncoder:
        """The ordinary encoder, fitted.

        Returns
        -------
        encoder : TableEncoder
            For tables in memory and single rows.
        """
        check_is_fitted(self)
        return self.encoder_

    def __getstate__(self):
        return {**super().__getstate__(), "client": None}

    def __sklearn_clone__(self):
        return type(self)(**self.get_params(deep=False))


def _check_frame(X: Any) -> None:
    if not is_frame(X) or not hasattr(X, "columns"):
        raise TypeError(f"X is of type {type(X).__name__}; pass a Dask DataFrame. For others there is TableEncoder.")


def _summary(index: int, empty: Summary, table: Any) -> Summary:
    found = Summary(empty.kinds, empty.layouts)
    try:
        found.add(table)
        return found.close()
    except (TypeError, ValueError) as problem:
        raise PartitionError(f"Partition {index}: {problem}") from problem


def _merged(parts: list[Summary]) -> Summary:
    total = Summary(parts[0].kinds, parts[0].layouts)
    for part in parts:
        total.merged(part)
    return total


def _encode(index: int, encoder: TableEncoder, table: Any) -> sp.csr_matrix:
    if not len(table):
        return sp.csr_matrix((0, encoder._plan.n_encoded), dtype=encoder.dtype)
    try:
        return encoder.transform(table)
    except (TypeError, ValueError) as problem:
        raise PartitionError(f"Partition {index}: {problem}") from problem
