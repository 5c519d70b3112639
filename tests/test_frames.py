"""Tables of pandas and polars go in wherever a table goes, and come out of the same kind; notebooks show facts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from untrained import untrained

from polyfm import (
    BayesianFactorizationMachineRegressor,
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    explain,
    interactions,
)
from polyfm.tabular import TableEncoder

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

VALUES = {"age": [1.0, 2.0, -1.0, 0.0], "dose": [0.5, -1.0, 2.0, 1.0], "site": [3.0, 0.0, 1.0, 2.0]}
FRAMES = {"pandas": pandas.DataFrame(VALUES), "polars": polars.DataFrame(VALUES)}


def model():
    fm = untrained(FactorizationMachineRegressor(n_components=2), n_features=3)
    fm.feature_names_in_ = np.array(list(VALUES), dtype=object)
    return fm


@pytest.mark.parametrize("kind", FRAMES)
def test_estimators_learn_names_and_check_them(kind):
    frame = FRAMES[kind]
    fm = FactorizationMachineRegressor(n_components=2, alpha=1.0, beta=1.0, max_iter=1, random_state=0)
    with pytest.warns(match="max_iter"):
        fm.fit(frame, frame["age"], sample_weight=frame["dose"] + 2)
    assert list(fm.feature_names_in_) == list(VALUES)
    assert_array_equal(fm.predict(frame), fm.predict(FRAMES["pandas"]))
    with pytest.raises(ValueError, match="feature names"):
        fm.predict(frame[["dose", "age", "site"]])


@pytest.mark.parametrize("kind", FRAMES)
def test_tables_come_out_of_the_kind_that_went_in(kind):
    fm, frame = model(), FRAMES[kind]
    encoder = TableEncoder().fit(frame)
    pipeline = make_pipeline(encoder, untrained(FactorizationMachineRegressor(n_components=2), n_features=3))
    for table in (interactions(fm, X=frame), explain(fm, frame[:1]), explain(pipeline, frame[:1])):
        assert type(table) is type(frame)
    expected = explain(fm, FRAMES["pandas"][:1])
    found = explain(fm, frame[:1])
    assert list(found.columns) == list(expected.columns)
    assert_array_equal(found["term"], expected["term"])
    assert_allclose(found["contribution"], expected["contribution"])


def test_what_scikit_learn_is_configured_for_is_what_comes_out():
    from polyfm.display import InteractionDisplay

    fm = model()
    assert isinstance(interactions(fm), pandas.DataFrame)
    with config_context(transform_output="polars"):
        table = interactions(fm)
        assert isinstance(table, polars.DataFrame)
        assert InteractionDisplay(table).table["weight"].tolist() == table["weight"].to_list()


def test_rows_with_names_are_found_by_them():
    fm, frame = model(), FRAMES["pandas"]
    expected = explain(fm, frame[:1])["contribution"]
    turned = frame.iloc[0][["site", "age", "dose"]]
    for row in (frame.iloc[0], turned, dict(turned), FRAMES["polars"].row(0, named=True), frame.iloc[0].to_numpy()):
        assert_allclose(explain(fm, row)["contribution"], expected)
    with pytest.raises(ValueError, match="x lacks 'dose'"):
        explain(fm, {"age": 1.0, "site": 2.0})
    del fm.feature_names_in_
    with pytest.raises(ValueError, match="by number alone"):
        explain(fm, dict(turned))


def test_notebooks_show_what_was_learned_above_the_diagram():
    fm = model()
    fm.alpha_, fm.beta_ = 0.25, 1234.5678
    page = fm._repr_mimebundle_()["text/html"]
    assert page.partition("</table>")[0] == fm._repr_html_().partition("</table>")[0]  # behind it, ids differ
    for said in ("Factorization machine of degree 2, direct", "3 features, rank 2, 9 parameters", "coordinate descent",
                 "alpha 0.25 (chosen), beta 1,235 (chosen)", "Objective", "sk-top-container"):  # fmt: skip
        assert said in page, said
    assert "Objective" not in FactorizationMachineRegressor()._repr_html_()  # nothing is fitted
    evil = untrained(FactorizationMachineClassifier(n_components=2), classes=["<script>alert(1)</script>", "b"])
    assert "<script>alert(1)" not in evil._repr_html_()
    assert "&lt;script&gt;alert(1)" in evil._repr_html_()


def test_bayesian_machines_show_their_own_facts(monkeypatch):
    from polyfm.estimators.summary import brief, facts

    bayes = untrained(BayesianFactorizationMachineRegressor(n_components=2), n_features=3)
    bayes._posterior, bayes.effective_rank_, bayes.solver_ = [], 1.5, "variational"
    monkeypatch.setattr(type(bayes), "noise_", 0.5)
    found = dict(facts(bayes))
    assert found["Model"].startswith("Bayesian factorization machine")
    assert found["Effective rank"] == "1.5"
    assert found["Noise"] == "standard deviation 0.5"
    assert [brief(v) for v in (0.0, 1234567.0, 0.00123456, 1e-9, -2.5, float("inf"))] == [
        "0", "1,234,567", "0.001235", "1e-09", "-2.5", "inf",
    ]  # fmt: skip
