"""`TableEncoder`: what is learned of a table, and how tables and single rows are encoded by it."""

from collections.abc import Mapping
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from polyfm.estimators._sklearn import Interval, RealNotInt, fit_context, output_config
from polyfm.tabular import columns
from polyfm.tabular.blocks import Block, block_of, counts_of
from polyfm.tabular.columns import CATEGORY, DATE, NUMBER, PARTS
from polyfm.tabular.plan import Plan, is_row, listed

MOST_BUCKETS = 2**24


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode a table as a sparse matrix that the estimators can learn from.

    - Text and categorical columns, and those named in `fields`, become one column for each value seen (one-hot). A
      missing value is a category of its own; a value that was not seen in `fit` gives zeros. Values are compared as
      text, so that 7, 7.0 and "7" are the same user.
    - Numbers (and True and False, as 1 and 0) are standardised to mean 0 and variance 1; missing ones become the
      median. Columns with missing numbers in `fit` get a column that flags them.
    - Dates become a number, the days since 1970, treated as other numbers are; and month, weekday and hour, one-hot,
      as far as they differ in `fit`. They are read by the clock that they were written by: offsets from UTC are left
      out.

    Tables are pandas' or polars' DataFrames, pyarrow's tables or arrays. A row may also be a mapping from column names
    to values, in any order and with others beside them: this is the quick way to serve single rows. What a row becomes
    does not depend on the rows around it.

    Parameters
    ----------
    fields : list of str, default=None
        Columns to one-hot encode even where they hold numbers, such as identifiers of users and items. For arrays
        without column names, their positions.
    dtype : {np.float64, np.float32}, default=np.float64
        Of the output.
    dates : list of str or dict, default=None
        Columns of text that hold dates, written as ISO 8601 has them (2026-11-18, or 2026-11-18 13:05:00); or a dict
        from columns to their layout in the signs of `strptime`, such as "%d.%m.%Y". Columns that are of a type for
        dates need not be named.
    min_frequency : int or float, default=None
        Values of a one-hot column that occur in fewer rows (or a smaller fraction of them) share one column, and so do
        values that were not seen in `fit`.
    n_buckets : int, default=None
        One-hot columns with more values than this are hashed into this many columns: none of the values is kept, and
        those not seen in `fit` have a place, too.

    Attributes
    ----------
    kinds_ : ndarray of shape (n_features_in_,)
        What each column is taken for: "category", "number" or "date".
    categorical_ : ndarray of shape (n_features_in_,)
        Whether each column is a category.
    categories_ : list of ndarray
        The values, as text, of each one-hot block of the output; None, where it is, is the missing value.
    sources_, parts_ : ndarray of shape (n_blocks,)
        The column that each block comes from; the part, where it is a date ("month", "weekday" or "hour").
    rare_, buckets_ : ndarray of shape (n_blocks,)
        Whether a block has a column for rare values; how many columns its values are hashed into.
    medians_, means_, scales_ : ndarray of shape (n_numbers,)
        What fills, centres and scales each column of numbers or dates.
    flagged_ : ndarray of shape (n_numbers,)
        Whether missing values of a column of numbers or dates are flagged.
    feature_fields_ : ndarray of str objects, of shape (n_encoded,)
        The field of each column of the output, as `get_fields_out` gives them: `groups` of the estimators, for
        penalties by field.
    n_features_in_ : int
        Number of columns of the table.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where they have any.

    Examples
    --------
    >>> import pandas as pd
    >>> from polyfm.tabular import TableEncoder
    >>> table = pd.DataFrame({"user": [7, 8, 7], "genre": ["drama", None, "comedy"], "age": [20.0, None, 40.0]})
    >>> encoder = TableEncoder(fields=["user"]).fit(table)
    >>> list(encoder.get_feature_names_out())
    ['user=7', 'user=8', 'genre=comedy', 'genre=drama', 'genre is missing', 'age', 'age is missing']
    >>> encoder.transform(table).toarray().round(1)
    array([[ 1. ,  0. ,  0. ,  1. ,  0. , -1.2,  0. ],
           [ 0. ,  1. ,  0. ,  0. ,  1. ,  0. ,  1. ],
           [ 1. ,  0. ,  1. ,  0. ,  0. ,  1.2,  0. ]])
    >>> encoder.transform({"user": 8, "age": 40, "genre": "drama", "more": "ignored"}).toarray().round(1)
    array([[0. , 1. , 0. , 1. , 0. , 1.2, 0. ]])
    """

    _parameter_constraints: dict = {
        "fields": ["array-like", None],
        "dtype": "no_validation",
        "dates": ["array-like", dict, None],
        "min_frequency": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="neither"),
            None,
        ],
        "n_buckets": [Interval(Integral, 1, MOST_BUCKETS, closed="both"), None],
    }

    def __init__(
        self,
        fields: Any = None,
        dtype: Any = np.float64,
        *,
        dates: Any = None,
        min_frequency: int | float | None = None,
        n_buckets: int | None = None,
    ) -> None:
        self.fields = fields
        self.dtype = dtype
        self.dates = dates
        self.min_frequency = min_frequency
        self.n_buckets = n_buckets

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the categories, medians, means and scales.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_columns)
            The table.
        y : ignored
            It is there for pipelines.

        Returns
        -------
        self : object
        """
        if np.dtype(self.dtype) not in (np.float64, np.float32):
            raise ValueError(f"dtype must be float64 or float32, got {self.dtype!r}.")
        table = self._table(X, reset=True)
        self.kinds_ = self._find_kinds(table)
        self.categorical_ = self.kinds_ == CATEGORY
        least = self.min_frequency or 1
        least = least if isinstance(least, Integral) else int(np.ceil(least * len(table)))
        blocks: list[Block] = []
        numbers: list[np.ndarray] = []
        for j, (kind, layout) in enumerate(zip(self.kinds_, self._layouts(table.columns), strict=True)):
            column = table.iloc[:, j]
            if kind == CATEGORY:
                blocks.append(block_of(j, counts_of(*columns.texts(column)), least, self.n_buckets))
            elif kind == NUMBER:
                numbers.append(columns.numbers(column))
            else:
                when = columns.moments(column, layout)
                numbers.append(columns.days(when))
                for part, texts in PARTS.items():
                    counts = counts_of(columns.part(when, part), texts)
                    del counts[None]
                    if len(counts) > 1:
                        blocks.append(block_of(j, counts, least, None, part))
        self._keep_blocks(blocks)
        self._keep_numbers(np.column_stack(numbers) if numbers else np.empty((len(table), 0)))
        self._make_plan()
        return self

    def _keep_blocks(self, blocks: list[Block]) -> None:
        self.categories_ = [block.values for block in blocks]
        self.sources_ = np.array([block.source for block in blocks], dtype=np.int64)
        self.parts_ = np.array([block.part for block in blocks], dtype=object)
        self.rare_ = np.array([block.rare for block in blocks], dtype=bool)
        self.buckets_ = np.array([block.n_buckets for block in blocks], dtype=np.int64)

    def _keep_numbers(self, numbers: np.ndarray) -> None:
        self.medians_ = self.means_ = self.scales_ = np.empty(0)
        self.flagged_ = np.isnan(numbers).any(axis=0)
        if numbers.shape[1]:
            imputer, scaler = SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler()
            scaler.fit(imputer.fit_transform(numbers))
            self.medians_, self.means_, self.scales_ = imputer.statistics_, scaler.mean_, scaler.scale_

    def transform(self, X: Any) -> Any:
        """Encode a table with the columns that `fit` saw.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_columns), mapping or list of mappings
            The table, one row, or several.

        Returns
        -------
        X : csr_matrix of shape (n_samples, n_encoded)
            One-hot columns first, then numbers, then flags of missing numbers. After ``set_output(transform="pandas")``
            or ``"polars"``, a DataFrame.
        """
        if not hasattr(self, "_plan"):
            check_is_fitted(self)
        row = self._plan.single_row(X)
        encoded = self._plan.of_table(self._table(X, reset=False)) if row is None else self._plan.of_row(row)
        return encoded if output_config("transform", self)["dense"] == "default" else encoded.toarray()

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the encoded columns: ``column=value``, ``column`` and ``column is missing``.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns, where `fit` saw none.

        Returns
        -------
        names : ndarray of str objects
        """
        names = self._names_in(input_features)
        one_hot = [name for block in self._plan.blocks for name in block.names(self._field(block, names))]
        numbers = names[~self.categorical_]
        return np.array([*one_hot, *numbers, *(f"{name} is missing" for name in numbers[self.flagged_])], dtype=object)

    def get_fields_out(self, input_features: Any = None) -> np.ndarray:
        """The field of each encoded column: the column that it comes from, or ``column.part`` of a date.

        Of the one-hot columns of a field, a row has at most one. A flag of missing numbers is in its number's field.

        Parameters
        ----------
        input_features : array-like of str, default=None
            As in `get_feature_names_out`.

        Returns
        -------
        fields : ndarray of str objects
        """
        names = self._names_in(input_features)
        one_hot = [self._field(block, names) for block in self._plan.blocks for _ in range(block.size)]
        numbers = names[~self.categorical_]
        return np.array([*one_hot, *numbers, *numbers[self.flagged_]], dtype=object)

    @property
    def feature_fields_(self) -> np.ndarray:
        """What `get_fields_out` gives."""
        return self.get_fields_out()

    def _names_in(self, input_features) -> np.ndarray:
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = input_features if input_features is not None else [f"x{j}" for j in range(self.n_features_in_)]
        elif input_features is not None and list(input_features) != list(names):
            raise ValueError("input_features is not equal to feature_names_in_.")
        if len(names) != self.n_features_in_:
            raise ValueError(f"input_features should have length {self.n_features_in_}, got {len(names)}.")
        return np.asarray(names, dtype=object)

    @staticmethod
    def _field(block: Block, names: np.ndarray) -> str:
        return f"{names[block.source]}.{block.part}" if block.part else str(names[block.source])

    # -- the table ----------------------------------------------------------------------------------------------------

    def _table(self, X, reset: bool):
        """X as a DataFrame with checked columns."""
        pandas = columns.pandas_for_tables()
        X = columns.as_pandas(self._from_mappings(X, reset))
        if not isinstance(X, pandas.DataFrame):
            X = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False)
            return pandas.DataFrame(X).infer_objects()
        if not X.columns.is_unique:
            raise ValueError(
                f"The table has several columns named {X.columns[X.columns.duplicated()][0]!r}; rename them."
            )
        try:
            validate_data(self, X, reset=reset, skip_check_array=True)
        except ValueError as problem:
            if reset or "feature names" not in str(problem):
                raise
            raise ValueError(
                f"{problem}\nPass the columns that `fit` saw, in that order: table[list(encoder.feature_names_in_)]."
            ) from problem
        for what, n in (("sample", X.shape[0]), ("feature", X.shape[1])):
            if n == 0:
                raise ValueError(f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is required.")
        return X

    def _from_mappings(self, X, reset: bool):
        """Rows that are mappings, as a DataFrame of the columns that `fit` saw."""
        rows = [X] if is_row(X) else X
        if not (isinstance(rows, list) and rows and all(map(is_row, rows))):
            return X
        pandas = columns.pandas_for_tables()
        if reset:
            if is_row(X):
                raise TypeError("A mapping is one row; `fit` needs a table. Pass a DataFrame, or a list of mappings.")
            return pandas.DataFrame(rows)
        values = [self._plan.values(row) for row in rows]
        return pandas.DataFrame({name: [row[j] for row in values] for j, name in enumerate(self.feature_names_in_)})

    def _find_kinds(self, table) -> np.ndarray:
        fields = [] if self.fields is None else list(self.fields)
        dates = [] if self.dates is None else list(self.dates)
        for parameter, names in (("fields", fields), ("dates", dates)):
            if unknown := [name for name in names if name not in table.columns]:
                raise ValueError(
                    f"{parameter}={unknown} are no columns of the table, which has {listed(table.columns)}."
                )
        if both := [name for name in dates if name in fields]:
            raise ValueError(f"{both} are in fields and in dates. Decide.")
        return np.array(
            [columns.kind_of(column, name in fields, name in dates) for name, column in table.items()], dtype=object
        )

    def _layouts(self, names) -> list[str | None]:
        """How text that holds dates is laid out, for each column."""
        return [self.dates.get(name) if isinstance(self.dates, Mapping) else None for name in names]

    # -- what is derived from the plain arrays ------------------------------------------------------------------------

    def _make_plan(self) -> None:
        blocks = [
            Block(source, part, values, rare, n_buckets)
            for source, part, values, rare, n_buckets in zip(
                self.sources_.tolist(), self.parts_.tolist(), self.categories_, self.rare_.tolist(),
                self.buckets_.tolist(), strict=True,
            )
        ]  # fmt: skip
        names = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        layouts = self._layouts(names if names is not None else range(self.n_features_in_))
        scaling = (self.medians_, self.means_, self.scales_, self.flagged_)
        self._plan = Plan(self.kinds_, names, layouts, blocks, *scaling, np.dtype(self.dtype))

    def add_values(self, block: int, texts: list[str]) -> None:
        """Columns for values that `fit` has not seen, behind the others of a one-hot block.

        Parameters
        ----------
        block : int
            The position of the block in `categories_`.
        texts : list of str
            The new values.
        """
        self.categories_[block] = np.concatenate([self.categories_[block], np.array(texts, dtype=object)])
        self._make_plan()

    def _restore(self) -> None:
        """Go on from plain arrays that were read from a file: they are of unknown origin."""
        if not hasattr(self, "kinds_"):  # a file of polyfm 0.1
            self.kinds_ = np.where(self.categorical_, CATEGORY, NUMBER).astype(object)
            self._keep_blocks(
                [
                    Block(j, "", v, False, 0)
                    for j, v in zip(np.flatnonzero(self.categorical_).tolist(), self.categories_, strict=True)
                ]
            )
        check_plain_arrays(self)
        self._make_plan()

    def __getstate__(self):
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_plan"}

    def __setstate__(self, state):
        super().__setstate__(state)
        if hasattr(self, "kinds_"):
            self._make_plan()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def check_plain_arrays(encoder: TableEncoder) -> None:
    """Refuse arrays, of unknown origin, that do not belong together."""
    n = encoder.n_features_in_
    n_numbers = int(np.sum(~encoder.categorical_))
    n_blocks = len(encoder.categories_)
    numbers = [encoder.medians_, encoder.means_, encoder.scales_]
    of_blocks = (encoder.sources_, encoder.parts_, encoder.rare_, encoder.buckets_)
    if encoder.kinds_.shape != (n,) or not set(encoder.kinds_.tolist()) <= {CATEGORY, NUMBER, DATE}:
        raise ValueError("an encoder of unknown kinds of columns")
    if encoder.categorical_.dtype != bool or encoder.flagged_.dtype != bool or encoder.rare_.dtype != bool:
        raise ValueError("an encoder of wrong types")
    if not np.array_equal(encoder.categorical_, encoder.kinds_ == CATEGORY):
        raise ValueError("an encoder whose kinds of columns contradict each other")
    if [a.shape for a in (*numbers, encoder.flagged_)] != [(n_numbers,)] * 4:
        raise ValueError("an encoder whose numbers do not belong together")
    if any(a.dtype != np.float64 for a in numbers):
        raise ValueError("an encoder of wrong types")
    if not np.all(np.isfinite(numbers)) or np.any(encoder.scales_ <= 0):
        raise ValueError("an encoder whose numbers cannot be")
    if [a.shape for a in of_blocks] != [(n_blocks,)] * 4 or encoder.sources_.dtype.kind != "i":
        raise ValueError("an encoder without its categories")
    if encoder.buckets_.dtype.kind != "i" or np.any((encoder.buckets_ < 0) | (encoder.buckets_ > MOST_BUCKETS)):
        raise ValueError("an encoder with impossible buckets")
    seen = []
    for source, part, values, rare, n_buckets in zip(
        encoder.sources_.tolist(),
        encoder.parts_.tolist(),
        encoder.categories_,
        encoder.rare_,
        encoder.buckets_,
        strict=True,
    ):
        kind = encoder.kinds_[source] if 0 <= source < n else None
        if (kind, bool(part)) not in ((CATEGORY, False), (DATE, True)) or (part and part not in PARTS):
            raise ValueError("an encoder with blocks of no column")
        if not len(values) + rare + n_buckets or len(set(values.tolist())) < len(values):
            raise ValueError("an encoder without its categories, or with one of them twice")
        seen.append((source, part))
    if len(set(seen)) < len(seen) or {source for source, part in seen if not part} != set(
        np.flatnonzero(encoder.categorical_).tolist()
    ):
        raise ValueError("an encoder without its categories, or with blocks of no column")
