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
    assert list(TableEncoder().fit(mixed).get_feature_names_out()) == ["m=1", "m=2.5", "m=True", "m=x"]


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
        (pd.to_timedelta(["1h", "2h"]), "'n' is of type timedelta64"),
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


# -- dates ------------------------------------------------------------------------------------------------------------

WHEN = pd.to_datetime(["2026-01-05 09:30", "2026-01-06 10:00", None, "1969-12-28 23:59"])  # Mon, Tue, -, Sun


def test_dates_become_days_and_the_parts_that_differ():
    table = pd.DataFrame({"when": WHEN, "day": WHEN.normalize()})
    found = encoded(TableEncoder().fit(table), table)
    days = WHEN.to_numpy().astype("datetime64[us]").astype(np.int64) / 86_400e6
    days[2] = np.median(days[[0, 1, 3]])
    assert_allclose(found["when"], standardised(days))
    assert_array_equal(found["when is missing"], [0, 0, 1, 0])
    assert_array_equal(found["when.month=1"], [1, 1, 0, 0])
    assert_array_equal(found["when.month=12"], [0, 0, 0, 1])
    for j, weekday in ((0, "Mon"), (1, "Tue"), (3, "Sun")):
        assert_array_equal(found[f"when.weekday={weekday}"], np.arange(4) == j)
    for j, hour in ((0, 9), (1, 10), (3, 23)):
        assert_array_equal(found[f"when.hour={hour}"], np.arange(4) == j)
    assert not any(name.startswith("day.hour") for name in found)  # all at midnight


@pytest.mark.parametrize(
    ("column", "dates"),
    [
        (WHEN.strftime("%Y-%m-%dT%H:%M:%S"), ["when"]),
        ([None if pd.isna(w) else f"{w:%Y-%m-%d %H:%M}:00.000+05:30" for w in WHEN], ["when"]),
        (WHEN.strftime("%d.%m.%Y %H:%M"), {"when": "%d.%m.%Y %H:%M"}),
        (pd.Series(list(WHEN.to_pydatetime()), dtype=object), None),
        (WHEN.tz_localize("Asia/Tokyo"), None),
        (WHEN.astype("datetime64[ns]"), None),
    ],
)
def test_dates_of_all_types_are_alike(column, dates):
    table = pd.DataFrame({"when": WHEN})
    other = pd.DataFrame({"when": pd.Series(column)})
    encoder = TableEncoder(dates=dates).fit(other)
    assert_array_equal(encoder.transform(other).toarray(), TableEncoder().fit_transform(table).toarray())
    assert_array_equal(encoder.transform(table).toarray(), encoder.transform(other).toarray())
    assert list(encoder.kinds_) == ["date"]


def test_days_without_a_time_are_dates():
    table = pd.DataFrame({"day": pd.Series([WHEN[0].date(), WHEN[1].date(), None], dtype=object)})
    assert list(encoded(TableEncoder().fit(table), table))[:2] == ["day.weekday=Mon", "day.weekday=Tue"]


def test_what_is_no_date_is_named():
    encoder = TableEncoder(dates=["when"]).fit(pd.DataFrame({"when": ["2026-01-05", "2026-01-06"]}))
    for column in (["soon", "later"], [5, 6]):
        with pytest.raises(ValueError, match="Column 'when' holds something that is no date, written as 2026-11-18"):
            encoder.transform(pd.DataFrame({"when": column}))
    with pytest.raises(ValueError, match=r"dates=\['then'\] are no columns"):
        TableEncoder(dates=["then"]).fit(TABLE)
    with pytest.raises(ValueError, match="in fields and in dates"):
        TableEncoder(dates=["genre"], fields=["genre"]).fit(TABLE)


# -- large vocabularies -----------------------------------------------------------------------------------------------


def test_rare_values_share_a_column_with_those_never_seen():
    table = pd.DataFrame({"g": ["a"] * 5 + ["b"] * 3 + ["c", "d"] + [None] * 2})
    encoder = TableEncoder(min_frequency=3).fit(table)
    assert list(encoder.get_feature_names_out()) == ["g=a", "g=b", "g is rare"]
    new = pd.DataFrame({"g": ["a", "c", "new", None]})
    assert_array_equal(encoder.transform(new).toarray(), [[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]])
    assert list(TableEncoder(min_frequency=0.2).fit(table).get_feature_names_out()) == ["g=a", "g=b", "g is rare"]
    assert list(TableEncoder(min_frequency=1).fit(table).get_feature_names_out())[-1] == "g is missing"
    for wrong in (0, 1.5, "often"):
        with pytest.raises(ValueError, match="min_frequency"):
            TableEncoder(min_frequency=wrong).fit(table)


def test_large_vocabularies_are_hashed_into_as_many_columns_as_asked_for():
    table = pd.DataFrame({"few": ["a", "b"] * 50, "many": [f"v{i}" for i in range(99)] + [None]})
    encoder = TableEncoder(n_buckets=8).fit(table)
    names = list(encoder.get_feature_names_out())
    assert names == ["few=a", "few=b", *(f"many#{i}" for i in range(8)), "many is missing"]
    X = encoder.transform(table).toarray()
    assert_array_equal(X[:, 2:].sum(axis=1), 1)
    assert (X[:, 2:10].sum(axis=0) > 3).all()  # 99 values in 8 buckets
    assert_array_equal(X[:, 10], np.arange(100) == 99)
    new = encoder.transform(pd.DataFrame({"few": ["c"], "many": ["new"]})).toarray()
    assert (new[0, :2].sum(), new[0, 2:10].sum()) == (0, 1)


# -- frames of other libraries, and frames as output ------------------------------------------------------------------


def test_polars_is_read_and_written():
    pl = pytest.importorskip("polars")
    when = [None if pd.isna(w) else w.to_pydatetime() for w in WHEN]
    frame = pl.DataFrame(
        {
            "user": [3, None, 3, 2], "genre": pl.Series(["drama", None, "comedy", "drama"], dtype=pl.Categorical),
            "age": pl.Series([20, None, 40, 30], dtype=pl.Int8), "member": [True, None, True, False], "when": when,
            "price": pl.Series(["1.5", None, "2", "3"]).cast(pl.Decimal(10, 2)),
        }
    )  # fmt: skip
    same = pd.DataFrame(
        {
            "user": [3, None, 3, 2], "genre": ["drama", None, "comedy", "drama"], "age": [20, None, 40, 30],
            "member": pd.array([True, None, True, False], dtype="boolean"), "when": WHEN, "price": [1.5, None, 2, 3],
        }
    )  # fmt: skip
    encoder = TableEncoder(fields=["user"]).fit(frame)
    assert_array_equal(encoder.get_feature_names_out(), TableEncoder(fields=["user"]).fit(same).get_feature_names_out())
    expected = encoder.transform(same).toarray()
    assert_array_equal(encoder.transform(frame).toarray(), expected)
    for i in range(4):
        assert_array_equal(encoder.transform(frame[i : i + 1]).toarray()[0], expected[i])
    out = encoder.set_output(transform="polars").transform(frame)
    assert isinstance(out, pl.DataFrame)
    assert_array_equal(out.to_numpy(), expected)
    with pytest.raises(TypeError, match="collect"):
        encoder.transform(frame.lazy())


def test_pandas_comes_out_where_it_is_asked_for():
    encoder = TableEncoder(fields=["user"]).fit(TABLE)
    expected = encoder.transform(TABLE).toarray()
    table = TABLE.set_index(pd.Index(list("abcd")))
    out = encoder.set_output(transform="pandas").transform(table)
    assert list(out.columns) == list(encoder.get_feature_names_out())
    assert list(out.index) == list("abcd")
    assert_array_equal(out.to_numpy(), expected)


def test_every_encoded_column_has_its_field():
    table = pd.DataFrame({"g": ["a", "b"], "n": [1.0, None], "when": WHEN[:2]})
    encoder = TableEncoder().fit(table)
    fields = dict(zip(encoder.get_feature_names_out(), encoder.feature_fields_, strict=True))
    assert_array_equal(encoder.get_fields_out(), encoder.feature_fields_)
    assert fields == {
        "g=a": "g", "g=b": "g", "when.weekday=Mon": "when.weekday", "when.weekday=Tue": "when.weekday",
        "when.hour=9": "when.hour", "when.hour=10": "when.hour", "n": "n", "when": "when", "n is missing": "n",
    }  # fmt: skip


# -- single rows ------------------------------------------------------------------------------------------------------

MIXED = pd.DataFrame(
    {
        "user": pd.array([2**60 + 1, None, 3, 3], dtype="Int64"),
        "genre": ["drama", None, "é", ""],
        "object": pd.Series([1, True, "1", 2.5], dtype=object),
        "float": [0.1, -0.0, 1e100, 3],
        "single": np.array([0.1, 0.2, np.nan, 0.3], dtype=np.float32),
        "whole": [1, 2**62 + 1, -5, 0],
        "flag": pd.array([True, False, None, True], dtype="boolean"),
        "when": WHEN,
        "text": ["2026-01-05", None, "2025-12-31 10:00", "1931-02-03"],
        "category": pd.Categorical(["x", "y", None, "x"]),
        "bucket": list("abcd"),
    }
)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_row_alone_is_what_it_is_in_the_table_bit_for_bit(dtype):
    encoder = TableEncoder(["user"], dtype, dates=["text"], n_buckets=3, min_frequency=1).fit(MIXED[:3])
    whole = encoder.transform(MIXED)
    assert whole.dtype == dtype
    for i in range(len(MIXED)):
        frame = MIXED[i : i + 1]
        row = {name: MIXED[name].iloc[i] for name in reversed(MIXED.columns)} | {"more": object()}
        for one in (row, [row], frame, frame.astype(object)):
            X = encoder.transform(one)
            assert X.shape == (1, whole.shape[1])
            assert X.dtype == dtype
            assert_array_equal(X.indices, whole[i].indices)
            assert X.data.tobytes() == whole[i].data.tobytes()
    rows = [{name: MIXED[name].iloc[i] for name in MIXED.columns} for i in range(len(MIXED))]
    assert_array_equal(encoder.transform(rows).toarray(), whole.toarray())


def test_the_numbers_of_a_row_may_be_written_as_text():
    encoder = TableEncoder().fit(pd.DataFrame({"n": [1.0, 2.0]}))
    expected = encoder.transform(pd.DataFrame({"n": [1.5]})).toarray()
    for value in ("1.5", np.float32(1.5), np.float64(1.5)):
        assert_array_equal(encoder.transform({"n": value}).toarray(), expected)
    for value, why in ((np.inf, "infinity"), ("x", "was numbers"), (10**400, "infinity|was numbers"), ([1], "was num")):
        with pytest.raises(ValueError, match=f"Column 'n' .*({why})"):
            encoder.transform({"n": value})


def test_rows_that_do_not_fit_say_why():
    encoder = TableEncoder().fit(TABLE)
    with pytest.raises(ValueError, match="The row lacks 'genre', 'age'. Pass None"):
        encoder.transform({"user": 1, "rank": 2, "member": True})
    with pytest.raises(TypeError, match="Column 'genre' holds values that are neither text nor numbers"):
        encoder.transform({**TABLE.iloc[0], "genre": b"x"})
    with pytest.raises(ValueError, match="without column names"):
        TableEncoder().fit([[1.0, 2.0]]).transform({"a": 1})
    with pytest.raises(TypeError, match="A mapping is one row"):
        TableEncoder().fit({"a": 1})


def test_a_pickled_encoder_goes_on():
    import pickle

    encoder = TableEncoder(dates=["text"]).fit(MIXED)
    again = pickle.loads(pickle.dumps(encoder))
    assert_array_equal(again.transform(MIXED).toarray(), encoder.transform(MIXED).toarray())


def test_large_tables_are_encoded_in_pieces(monkeypatch):
    encoder = TableEncoder(fields=["user"]).fit(TABLE)
    whole = encoder.transform(TABLE).toarray()
    monkeypatch.setattr("polyfm.tabular.plan.ROWS", 3)
    assert_array_equal(encoder.transform(TABLE).toarray(), whole)


def test_rows_do_not_depend_on_the_other_rows():
    encoder = TableEncoder(fields=["user"]).fit(TABLE)
    whole = encoder.transform(TABLE).toarray()
    for i in range(len(TABLE)):
        assert_array_equal(encoder.transform(TABLE[i : i + 1]).toarray()[0], whole[i])
    assert_array_equal(clone(encoder).fit_transform(TABLE).toarray(), whole)
