"""Tables to features: a scikit-learn transformer for columns of text, categories and numbers, with gaps."""

from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from polyfm.estimators._sklearn import fit_context
from polyfm.files.tables import required

__all__ = ["TableEncoder"]


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode a table as a sparse matrix that the estimators can learn from.

    - Text and categorical columns, and those named in `fields`, become one column for each value seen (one-hot). A
      missing value is a category of its own; a value that was not seen in `fit` gives zeros. Values are compared as
      text, so that 7, 7.0 and "7" are the same user.
    - Numbers (and True and False, as 1 and 0) are standardised to mean 0 and variance 1; missing ones become the
      median. Columns with missing numbers in `fit` get a column that flags them.

    Parameters
    ----------
    fields : list of str, default=None
        Columns to one-hot encode even where they hold numbers, such as identifiers of users and items. For arrays
        without column names, their positions.
    dtype : {np.float64, np.float32}, default=np.float64
        Of the output.

    Attributes
    ----------
    categorical_ : ndarray of shape (n_features_in_,)
        Whether each column is one-hot encoded.
    categories_ : list of ndarray
        The values, as text, of each categorical column; None, where it is, is the missing value.
    medians_, means_, scales_ : ndarray of shape (n_numbers,)
        What fills, centres and scales each column of numbers.
    flagged_ : ndarray of shape (n_numbers,)
        Whether missing values of a column of numbers are flagged.
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
    """

    _parameter_constraints: dict = {"fields": ["array-like", None], "dtype": "no_validation"}

    def __init__(self, fields=None, dtype=np.float64):
        self.fields = fields
        self.dtype = dtype

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Learn the categories, medians, means and scales.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_columns)
        y : ignored

        Returns
        -------
        self : object
        """
        if np.dtype(self.dtype) not in (np.float64, np.float32):
            raise ValueError(f"dtype must be float64 or float32, got {self.dtype!r}.")
        table = self._table(X, reset=True)
        self.categorical_ = self._find_categorical(table)
        self._make_parts()
        texts, numbers = self._split(table)
        if texts.shape[1]:
            self._one_hot.fit(texts)
        if numbers.shape[1]:
            self._scaler.fit(self._imputer.fit_transform(numbers))
            self._indicator.fit(numbers)
        self._keep()
        return self

    def transform(self, X):
        """Encode a table with the columns that `fit` saw.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_columns)

        Returns
        -------
        X : csr_matrix of shape (n_samples, n_encoded)
            One-hot columns first, then numbers, then flags of missing numbers.
        """
        check_is_fitted(self)
        texts, numbers = self._split(self._table(X, reset=False))
        blocks = []
        if texts.shape[1]:
            blocks.append(self._one_hot.transform(texts))
        if numbers.shape[1]:
            blocks.append(sp.csr_matrix(self._scaler.transform(self._imputer.transform(numbers))))
            if np.any(self.flagged_):
                blocks.append(sp.csr_matrix(self._indicator.transform(numbers)))
        return sp.csr_matrix(sp.hstack(blocks, format="csr", dtype=self.dtype))

    def get_feature_names_out(self, input_features=None):
        """The names of the encoded columns: ``column=value``, ``column`` and ``column is missing``.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns, where `fit` saw none.

        Returns
        -------
        names : ndarray of str objects
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = input_features if input_features is not None else [f"x{j}" for j in range(self.n_features_in_)]
        elif input_features is not None and list(input_features) != list(names):
            raise ValueError("input_features is not equal to feature_names_in_.")
        if len(names) != self.n_features_in_:
            raise ValueError(f"input_features should have length {self.n_features_in_}, got {len(names)}.")
        names = np.asarray(names, dtype=object)
        one_hot = [
            f"{name} is missing" if value is None else f"{name}={value}"
            for name, values in zip(names[self.categorical_], self.categories_, strict=True)
            for value in values
        ]
        numbers = names[~self.categorical_]
        return np.array([*one_hot, *numbers, *(f"{name} is missing" for name in numbers[self.flagged_])], dtype=object)

    # -- the table ----------------------------------------------------------------------------------------------------

    def _table(self, X, reset: bool):
        """X as a DataFrame with checked columns."""
        pandas = required("pandas", "table", "TableEncoder")
        if not isinstance(X, pandas.DataFrame) and hasattr(X, "to_pandas"):
            X = X.to_pandas()  # polars, pyarrow
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

    def _find_categorical(self, table) -> np.ndarray:
        pandas = required("pandas", "table", "TableEncoder")
        fields = [] if self.fields is None else list(self.fields)
        if unknown := [name for name in fields if name not in table.columns]:
            raise ValueError(f"fields={unknown} are no columns of the table, which has {_listed(table.columns)}.")
        categorical = []
        for name, dtype in table.dtypes.items():
            is_number = pandas.api.types.is_numeric_dtype(dtype) and not pandas.api.types.is_complex_dtype(dtype)
            is_text = isinstance(dtype, pandas.CategoricalDtype) or pandas.api.types.is_string_dtype(dtype)
            if name not in fields and not is_number and not is_text and dtype.kind != "O":
                raise ValueError(
                    f"Column {name!r} is of type {dtype}, which is neither text nor numbers. Convert it, for instance "
                    "dates to days since a date, or drop it."
                )
            categorical.append(name in fields or not is_number)
        return np.array(categorical)

    def _split(self, table) -> tuple[np.ndarray, np.ndarray]:
        """The categorical columns as text, and the others as numbers."""
        n = len(table)
        texts = [_texts(table.iloc[:, j]) for j in np.flatnonzero(self.categorical_)]
        numbers = [_numbers(table.iloc[:, j]) for j in np.flatnonzero(~self.categorical_)]
        return (
            np.column_stack(texts) if texts else np.empty((n, 0), dtype=object),
            np.column_stack(numbers) if numbers else np.empty((n, 0)),
        )

    # -- the parts that scikit-learn has ------------------------------------------------------------------------------

    def _make_parts(self, categories: Any = "auto") -> None:
        self._one_hot = OneHotEncoder(categories=categories, handle_unknown="ignore", dtype=self.dtype)
        self._imputer = SimpleImputer(strategy="median", keep_empty_features=True)
        self._indicator = MissingIndicator(error_on_new=False)
        self._scaler = StandardScaler()

    def _keep(self) -> None:
        """What was learned, as plain arrays."""
        has_numbers = not np.all(self.categorical_)
        self.categories_ = list(self._one_hot.categories_) if np.any(self.categorical_) else []
        self.medians_ = self._imputer.statistics_ if has_numbers else np.empty(0)
        self.means_ = self._scaler.mean_ if has_numbers else np.empty(0)
        self.scales_ = self._scaler.scale_ if has_numbers else np.empty(0)
        self.flagged_ = np.zeros(len(self.medians_), dtype=bool)
        if has_numbers:
            self.flagged_[self._indicator.features_] = True

    def _restore(self) -> None:
        """The parts from the plain arrays: fitted on two rows made to give what is known, then set to it."""
        n_numbers = int(np.sum(~self.categorical_))
        shapes = [
            self.categorical_.shape,
            *(a.shape for a in (self.medians_, self.means_, self.scales_, self.flagged_)),
        ]
        if shapes != [(self.n_features_in_,)] + [(n_numbers,)] * 4:
            raise ValueError("an encoder whose numbers do not belong together")
        if self.categorical_.dtype != bool or self.flagged_.dtype != bool:
            raise ValueError("an encoder of wrong types")
        if not np.all(np.isfinite([self.medians_, self.means_, self.scales_])) or np.any(self.scales_ <= 0):
            raise ValueError("an encoder whose numbers cannot be")
        if len(self.categories_) != self.n_features_in_ - n_numbers or not all(map(len, self.categories_)):
            raise ValueError("an encoder without its categories")
        self._make_parts(self.categories_ or "auto")
        if self.categories_:
            self._one_hot.fit(np.array([[values[0] for values in self.categories_]], dtype=object))
        if n_numbers:
            numbers = np.array([self.medians_, np.where(self.flagged_, np.nan, self.medians_)])
            self._scaler.fit(self._imputer.fit_transform(numbers))
            self._indicator.fit(numbers)
            self._scaler.mean_, self._scaler.scale_ = self.means_, self.scales_
            self._scaler.var_ = self.scales_**2

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _listed(names) -> str:
    return ", ".join(map(repr, names[:20])) + (" ..." if len(names) > 20 else "")


def _texts(column) -> np.ndarray:
    """A column as text, None where it is missing. Only distinct values are converted."""
    pandas = required("pandas", "table", "TableEncoder")
    try:
        codes, values = pandas.factorize(column)
        texts = [_text(value) for value in values]
    except TypeError as problem:
        raise TypeError(
            f"Column {column.name!r} holds values that are neither text nor numbers ({problem}). Convert or drop it."
        ) from problem
    return np.array([*texts, None], dtype=object)[codes]  # the code of a missing value is -1


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    raise TypeError(f"found {type(value).__name__}")


def _numbers(column) -> np.ndarray:
    """A column as float64, NaN where it is missing."""
    pandas = required("pandas", "table", "TableEncoder")
    try:
        if column.dtype.kind in "mM":
            raise TypeError(f"{column.dtype}")  # pandas would count nanoseconds
        numbers = pandas.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as problem:
        raise ValueError(
            f"Column {column.name!r} was numbers in `fit`, but now holds something else ({problem}). Correct it, or "
            "name the column in `fields` when fitting."
        ) from problem
    if np.any(np.isinf(numbers)):
        raise ValueError(f"Column {column.name!r} holds infinity. Replace it by a number or leave it missing.")
    return numbers
