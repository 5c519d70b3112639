"""TableEncoder: columns of all kinds, with gaps and surprises, become the right numbers or a clear error."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from polyfm.tabular import TableEncoder


@parametrize_with_checks([TableEncoder()])
def test_encoder_follows_scikit_learn_convention(estimator, check):
    check(estimator)


TABLE = pd.DataFrame(
    {
        "user": [3, 1, 3, 2],
        "genre": ["drama", None, "comedy", "drama"],
        "age": [20.0, np.nan, 40.0, 30.0],
        "rank": [1, 2, 3, 4],
        "member": [True, False, True, True],
    }
)


def encoded(encoder, table):
    """The encoded table as a dictionary from names to columns."""
    X = encoder.transform(table)
    assert sp.issparse(X)
    assert X.format == "csr"
    return dict(zip(encoder.get_feature_names_out(), X.toarray().T, strict=True))


def standardised(values):
    return (np.asarray(values) - np.mean(values)) / np.std(values)


def test_columns_become_what_their_kind_asks_for():
    columns = encoded(TableEncoder(fields=["user"]).fit(TABLE), TABLE)
    expected = {
        "user=1": [0, 1, 0, 0],
        "user=2": [0, 0, 0, 1],
        "user=3": [1, 0, 1, 0],
        "genre=comedy": [0, 0, 1, 0],
        "genre=drama": [1, 0, 0, 1],
        "genre is missing": [0, 1, 0, 0],
        "age": standardised([20, 30, 40, 30]),  # 30 is the median
        "rank": standardised([1, 2, 3, 4]),
        "member": standardised([1, 0, 1, 1]),
        "age is missing": [0, 1, 0, 0],
    }
    assert list(columns) == list(expected)
    for name, values in expected.items():
        assert_allclose(columns[name], values, err_msg=name)


def test_integers_are_numbers_unless_named_as_fields():
    assert "user" in encoded(TableEncoder().fit(TABLE), TABLE)
    assert "rank=4" in encoded(TableEncoder(fields=["user", "rank"]).fit(TABLE), TABLE)


def test_unseen_values_and_new_gaps_are_taken_in_stride():
    encoder = TableEncoder(fields=["user"]).fit(TABLE)
    new = pd.DataFrame(
        {"user": [99, None], "genre": ["war", None], "age": [None, 25.0], "rank": [None, 2], "member": [1, 0]}
    )
    columns = encoded(encoder, new)
    assert sum(columns[name].sum() for name in columns if name.startswith(("user=", "genre="))) == 0
    assert_array_equal(columns["genre is missing"], [0, 1])
    assert_array_equal(columns["age is missing"], [1, 0])
    assert_allclose(columns["rank"][0], 0)  # the median of 1, 2, 3, 4 is also their mean
    assert "rank is missing" not in columns


@pytest.mark.parametrize(
    "same", [[3, 1], [3.0, 1.0], ["3", "1"], np.array([3, 1], dtype=object), pd.array([3, 1], dtype="Int64")]
)
def test_values_are_compared_as_text_whatever_their_type(same):
    encoder = TableEncoder(fields=["user"]).fit(TABLE[["user"]])
    assert_array_equal(encoder.transform(pd.DataFrame({"user": same})).toarray(), [[0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize("dtype", ["object", "string", "category"])
def test_all_kinds_of_text_are_alike(dtype):
    table = pd.DataFrame({"g": pd.Series(["b", None, "a"]).astype(dtype)})
    encoder = TableEncoder().fit(table)
    assert list(encoder.get_feature_names_out()) == ["g=a", "g=b", "g is missing"]
    assert_array_equal(encoder.transform(table).toarray(), [[0, 1, 0], [0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize(
    "values", [pd.array([1, None, 3], dtype="Int64"), pd.array([True, None, False], dtype="boolean")]
)
def test_nullable_columns_are_numbers_with_gaps(values):
    encoder = TableEncoder().fit(pd.DataFrame({"n": values}))
    assert list(encoder.get_feature_names_out()) == ["n", "n is missing"]
    assert_array_equal(encoder.transform(pd.DataFrame({"n": values})).toarray()[:, 1], [0, 1, 0])


def test_columns_without_any_value_or_variety_work():
    table = pd.DataFrame({"empty": [np.nan] * 3, "none": [None] * 3, "same": [5.0] * 3})
    columns = encoded(TableEncoder(fields=["none"]).fit(table), table)
    assert_array_equal(columns["none is missing"], [1, 1, 1])
    assert_array_equal(columns["empty"], [0, 0, 0])
    assert_array_equal(columns["same"], [0, 0, 0])


def test_arrays_and_mixed_lists_work():
    rows = np.array([[1, "a", 2.5], [2, "b", None], [1, "a", 3.5]], dtype=object)
    encoder = TableEncoder(fields=[0]).fit(rows)
    assert list(encoder.get_feature_names_out()) == ["x0=1", "x0=2", "x1=a", "x1=b", "x2", "x2 is missing"]
    assert encoder.get_feature_names_out(["u", "v", "w"])[0] == "u=1"
    assert encoder.transform(rows.tolist()).shape == (3, 6)
    mixed = pd.DataFrame({"m": pd.Series([1, "1", 2.5, True, "x"], dtype=object)})
    assert list(TableEncoder().fit(mixed).get_feature_names_out()) == ["m=1", "m=2.5", "m=x"]


def test_frames_of_other_libraries_are_converted():
    arrow = pytest.importorskip("pyarrow")
    table = arrow.Table.from_pandas(TABLE)
    encoder = TableEncoder(fields=["user"]).fit(table)
    assert_array_equal(encoder.feature_names_in_, TABLE.columns)
    assert_array_equal(encoder.transform(table).toarray(), encoder.transform(TABLE).toarray())


@pytest.mark.parametrize("dtype", [np.float32, np.float64, "float32"])
def test_output_has_the_type_that_was_asked_for(dtype):
    X = TableEncoder(dtype=dtype).fit_transform(TABLE)
    assert X.dtype == np.dtype(dtype)
    with pytest.raises(ValueError, match="dtype must be float64 or float32"):
        TableEncoder(dtype=int).fit(TABLE)


def test_missing_extra_and_reordered_columns_are_named():
    encoder = TableEncoder(fields=["user"]).fit(TABLE)
    for table, why in [
        (TABLE.drop(columns="age"), "now missing:\n- age"),
        (TABLE.assign(more=1), "unseen at fit time:\n- more"),
        (TABLE[TABLE.columns[::-1]], "same order"),
    ]:
        with pytest.raises(ValueError, match=f"(?s){why}.*Pass the columns that `fit` saw.*feature_names_in_"):
            encoder.transform(table)
    with pytest.raises(ValueError, match=r"fields=\['item'\] are no columns of the table, which has 'user', 'genre'"):
        TableEncoder(fields=["item"]).fit(TABLE)
    with pytest.raises(ValueError, match="several columns named 'a'"):
        TableEncoder().fit(pd.DataFrame([[1, 2]], columns=["a", "a"]))


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ([1.0, np.inf], "'n' holds infinity"),
        (["x", "y"], "'n' was numbers in `fit`, but now holds something else"),
        ([{"a": 1}, {}], "'n' was numbers"),
        (pd.to_datetime(["2020-01-01", "2021-01-01"]), "'n' was numbers.*datetime64"),
    ],
)
def test_numbers_that_are_none_are_refused(column, why):
    encoder = TableEncoder().fit(pd.DataFrame({"n": [1.0, 2.0]}))
    with pytest.raises(ValueError, match=f"Column {why}"):
        encoder.transform(pd.DataFrame({"n": column}))


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (pd.to_datetime(["2020-01-01", "2021-01-01"]), "'n' is of type datetime64"),
        (pd.Series([{"a": 1}, {}], dtype=object), "'n' holds values that are neither text nor numbers"),
        (pd.Series([b"a", b"b"], dtype=object), "'n' holds values that are neither text nor numbers .found bytes"),
        ([1 + 2j, 3], "'n' is of type complex"),
    ],
)
def test_columns_of_other_kinds_are_refused(column, why):
    with pytest.raises((ValueError, TypeError), match=f"Column {why}"):
        TableEncoder().fit(pd.DataFrame({"n": column}))


def test_empty_tables_are_refused():
    for table in (TABLE[:0], TABLE[[]]):
        with pytest.raises(ValueError, match="minimum of 1 is required"):
            TableEncoder().fit(table)
    with pytest.raises(NotFittedError):
        TableEncoder().transform(TABLE)


def test_names_given_for_the_output_must_fit():
    encoder = TableEncoder(fields=["user"]).fit(TABLE)
    with pytest.raises(ValueError, match="input_features is not equal"):
        encoder.get_feature_names_out(list("abcde"))
    with pytest.raises(ValueError, match="should have length 2"):
        TableEncoder().fit([[1.0, 2.0]]).get_feature_names_out(["a"])


def test_rows_do_not_depend_on_the_other_rows():
    encoder = TableEncoder(fields=["user"]).fit(TABLE)
    whole = encoder.transform(TABLE).toarray()
    for i in range(len(TABLE)):
        assert_array_equal(encoder.transform(TABLE[i : i + 1]).toarray()[0], whole[i])
    assert_array_equal(clone(encoder).fit_transform(TABLE).toarray(), whole)
