"""Summaries of parts of a table: what `TableEncoder` learns of all of it."""

import functools

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from polyfm.tabular import TableEncoder, summary
from polyfm.tabular.summary import Numbers, Summary, fit_to_summary, kinds_of


def table_of(n=400, seed=0):
    rng = np.random.RandomState(seed)
    table = pd.DataFrame(
        {
            "user": rng.zipf(1.5, n) % 50,
            "genre": rng.choice(["drama", "comedy", None], n),
            "age": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.randint(18, 80, n)),
            "price": rng.lognormal(size=n),
            "same": 3.0,
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.randint(0, 10**7, n), unit="s"),
        }
    )
    table.loc[5, "day"] = pd.NaT
    return table


def fitted_in_parts(encoder, table, cuts):
    empty = kinds_of(encoder, table.iloc[:0])
    summaries = []
    for rows in np.split(np.arange(len(table)), cuts):
        part = Summary(empty.kinds, empty.layouts)
        for some in np.array_split(rows, 3):
            part.add(table.iloc[some])
        summaries.append(part.close())
    return fit_to_summary(encoder, list(table.columns), functools.reduce(Summary.merged, summaries))


@pytest.mark.parametrize("options", [{}, {"min_frequency": 3}, {"min_frequency": 0.02}, {"n_buckets": 8}], ids=str)
def test_parts_teach_what_the_whole_table_does(options):
    table = table_of()
    expected = TableEncoder(fields=["user"], **options).fit(table)
    found = fitted_in_parts(TableEncoder(fields=["user"], **options), table, [1, 2, 150])
    assert_array_equal(found.get_feature_names_out(), expected.get_feature_names_out())
    assert_array_equal(found.medians_, expected.medians_)
    assert_allclose(found.means_, expected.means_, rtol=1e-13)
    assert_allclose(found.scales_, expected.scales_, rtol=1e-12)
    assert_allclose(found.transform(table).toarray(), expected.transform(table).toarray(), atol=1e-11)


def test_a_column_without_numbers_is_as_in_the_whole_table():
    table = pd.DataFrame({"none": np.full(6, np.nan), "one": [1.0, np.nan, 2.0, 4.0, np.nan, 1.0]})
    expected = TableEncoder().fit(table)
    found = fitted_in_parts(TableEncoder(), table, [2])
    assert_array_equal(found.medians_, expected.medians_)
    assert_allclose(found.transform(table).toarray(), expected.transform(table).toarray(), atol=1e-14)


def test_many_values_give_a_median_near_the_true_one(monkeypatch):
    monkeypatch.setattr(summary, "MOST_VALUES", 256)
    values = np.random.RandomState(0).lognormal(size=(16, 2000))
    found = functools.reduce(Numbers.merged, map(Numbers.of, values))
    assert len(found.values) <= 256
    assert found.counts.sum() == found.n == values.size
    assert abs(np.mean(values < found.median) - 0.5) < 16 / 512
    assert_allclose([found.mean, found.squares / found.n], [values.mean(), values.var()], rtol=1e-12)


def test_the_order_of_rows_within_a_part_changes_no_bit():
    numbers = np.random.RandomState(0).standard_normal(1000)
    one, other = Numbers.of(numbers), Numbers.of(numbers[::-1])
    assert (one.mean, one.squares) == (other.mean, other.squares)
