"""Which interactions can occur, and models at the end of pipelines, in their users' words."""

import re
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, MaxAbsScaler, OneHotEncoder, StandardScaler
from untrained import untrained

from polyfm import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkClassifier,
    PolynomialNetworkRegressor,
)
from polyfm.interpretation import explain, interactions
from polyfm.reading.labels import short_names
from polyfm.reading.polynomial import Terms
from polyfm.reading.strongest import strongest
from polyfm.reading.subject import Subject
from polyfm.reading.together import Together
from polyfm.tabular import TableEncoder

pd = pytest.importorskip("pandas")


# -- the search among what can occur ----------------------------------------------------------------------------------


def possible_monomials(d, degree, repeats, fields, X):
    """By definition: no two features of one field, and a row of X that has them all."""
    found = []
    for js in (combinations_with_replacement if repeats else combinations)(range(d), degree):
        distinct = sorted(set(js))
        in_fields = fields is None or len({fields[j] for j in distinct}) == len(distinct)
        if in_fields and (X is None or np.any(np.all(X[:, distinct] != 0, axis=1))):
            found.append(js)
    return np.array(found, dtype=int).reshape(-1, degree)


@st.composite
def searches(draw):
    degree = draw(st.integers(1, 4))
    d = draw(st.integers(degree, {1: 20, 2: 30, 3: 14, 4: 9}[degree]))
    k = draw(st.integers(1, 4))
    rng = np.random.RandomState(draw(st.integers(0, 2**31)))
    P = rng.standard_normal((d, k)) * np.exp(draw(st.sampled_from([0.0, 1.0, 4.0])) * rng.standard_normal((d, 1)))
    if draw(st.booleans()):
        P = np.round(P)  # many ties and zeros
    fields = rng.randint(0, max(2, d // 2), d) if draw(st.booleans()) else None
    X = None
    if fields is None or draw(st.booleans()):
        X = (rng.uniform(size=(rng.randint(1, 12), d)) < draw(st.sampled_from([0.2, 0.5, 0.9]))) * 1.5
    return Terms(degree, draw(st.booleans()), rng.standard_normal(k), P), draw(st.integers(1, 40)), fields, X


@pytest.fixture
def tiny_blocks(monkeypatch):
    """Small problems go through several blocks, as large ones do."""
    for name, size in [("ROWS", 4), ("COLUMNS", 7), ("LEADS", 3)]:
        monkeypatch.setattr(f"polyfm.reading.strongest.{name}", size)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(searches(), st.one_of(st.none(), st.floats(1, 4)))
def test_search_finds_the_strongest_that_can_occur(tiny_blocks, case, log_budget):
    terms, top, fields, X = case
    d, degree, repeats = len(terms.P), terms.degree, terms.repeats
    together = Together.of(fields, X if X is None else sp.csr_matrix(X))
    possible = possible_monomials(d, degree, repeats, fields, X)
    found, weights, bound = strongest(terms, top, None if log_budget is None else 10**log_budget, together)
    assert set(map(tuple, found)) <= set(map(tuple, possible))
    assert len(np.unique(found, axis=0)) == len(found)
    expected = np.sort(np.abs(terms.weights(possible)))[::-1][:top]
    certain = len(expected) if bound is None else np.count_nonzero(np.abs(weights) >= bound)
    assert len(weights) == len(expected) or bound is not None
    assert_allclose(np.abs(weights)[:certain], expected[:certain], rtol=1e-9, atol=1e-13 * expected.max(initial=0))
    if together is not None:
        most = together.most_monomials(degree, repeats)
        assert most == len(possible) if X is None else most >= len(possible)


def test_many_users_are_searched_in_a_moment():
    """20,000 features of two fields: 2e8 pairs, half of them within a field, the strongest ones among them."""
    rng = np.random.RandomState(0)
    P = 0.1 * rng.standard_normal((20_000, 10)) * np.exp(0.5 * rng.standard_normal((20_000, 1)))
    P[:50] *= 20  # users
    together = Together.of(np.repeat([0, 1], 10_000), None)
    found, _, bound = strongest(Terms(2, False, np.ones(10), P), 5, 1e11, together)
    W = np.abs(P[:50] @ P[10_000:].T)
    expected = np.argsort(-W, axis=None)[:5]
    assert bound is None
    assert found.tolist() == [[e // 10_000, 10_000 + e % 10_000] for e in expected.tolist()]


# -- interactions -----------------------------------------------------------------------------------------------------


GROUPS = ["sex", "sex", "age", None, None, "sex"]
CASES = [
    (kind, method, degree, lower)
    for kind in (FactorizationMachineRegressor, PolynomialNetworkRegressor)
    for method in ("direct", "lifted")
    for degree, lower in [(2, "explicit"), (3, "augment"), (4, "augment")]
]


def model_of(kind=FactorizationMachineRegressor, n_features=6, classes=None, **options):
    return untrained(kind(n_components=2, **options), n_features=n_features, classes=classes)


def pairs_of(table):
    return {tuple(row) for row in table.drop(columns="weight").to_numpy().tolist()}


def is_possible(row):
    """Whether a row of names x0 .. x5 keeps to GROUPS."""
    distinct = {int(name[1:]) for name in row}
    fields = [GROUPS[j] for j in distinct if GROUPS[j] is not None]
    return len(set(fields)) == len(fields)


def rows_that_can_occur(table):
    names = table.drop(columns="weight").to_numpy().tolist()
    return table[[is_possible(row) for row in names]].reset_index(drop=True)


@pytest.mark.parametrize(("kind", "method", "degree", "lower"), CASES)
def test_products_within_a_field_are_left_out(kind, method, degree, lower):
    model = model_of(kind, method=method, degree=degree, fit_lower=lower)
    for n in range(1, degree + 1):
        if n == 1 and lower == "explicit" and not model.fit_linear:
            continue
        everything = interactions(model, degree=n, top=1000)
        possible = interactions(model, degree=n, top=1000, groups=GROUPS)
        pd.testing.assert_frame_equal(possible, rows_that_can_occur(everything))
        pd.testing.assert_frame_equal(interactions(model, degree=n, top=4, groups=GROUPS), possible[:4])
        both = interactions(model, degree=n, top=1000, groups=GROUPS, impossible=True)
        pd.testing.assert_frame_equal(both, everything)


@pytest.mark.parametrize(("kind", "method", "degree", "lower"), CASES)
def test_products_that_no_row_has_are_left_out(kind, method, degree, lower):
    model = model_of(kind, method=method, degree=degree, fit_lower=lower)
    X = np.array([[1.0, 0, 2, 0, 1, 5], [0, 3, 0, -1, 0, 0], [0, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0]])
    repeats = kind is PolynomialNetworkRegressor
    for n in range(2, degree + 1):
        everything = interactions(model, degree=n, top=1000)
        seen = {tuple(f"x{j}" for j in js) for js in possible_monomials(6, n, repeats, None, X)}
        expected = everything[[tuple(row) in seen for row in everything.drop(columns="weight").to_numpy().tolist()]]
        for data in (X, sp.csr_matrix(X), sp.csc_array(X), X.astype(np.float32)):
            found = interactions(model, degree=n, top=1000, X=data)
            pd.testing.assert_frame_equal(found, expected.reset_index(drop=True))


@pytest.mark.parametrize("kind", [FactorizationMachineClassifier, PolynomialNetworkClassifier])
def test_each_class_has_interactions_that_can_occur(kind):
    model = model_of(kind, classes=["a", "b", "c"])
    for target in "abc":
        everything = interactions(model, top=1000, target=target)
        found = interactions(model, top=1000, target=target, groups=GROUPS)
        pd.testing.assert_frame_equal(found, rows_that_can_occur(everything))


def test_groups_of_the_estimator_are_fields_unless_data_say_otherwise():
    model = model_of(groups=GROUPS)
    everything = interactions(model, top=1000, impossible=True)
    assert len(everything) == 15
    assert len(interactions(model, top=1000)) == 12  # not the three pairs of sexes
    assert len(interactions(model, top=1000, groups=[None] * 6)) == 15
    assert len(interactions(model, top=1000, X=np.ones((2, 6)))) == 15  # all of them were seen
    assert len(interactions(model, top=1000, X=np.ones((2, 6)), groups=GROUPS)) == 12
    assert len(interactions(model, top=1000, X=np.eye(6))) == 0


def test_weights_of_features_that_never_occur_are_left_out():
    table = interactions(model_of(), degree=1, X=np.array([[1.0, 0, 0, 2, 0, 0]]))
    assert set(table["feature_1"]) == {"x0", "x3"}


# -- pipelines --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    """Every value of sex with every value of town, rare ones among them, and numbers that are never 0."""
    cells = list(product(["F", "M", "I"], ["Rome", "Oslo", "Bonn", "Lima"])) * 4
    frame = pd.DataFrame(cells, columns=["sex", "town"])
    rng = np.random.RandomState(0)
    frame["age"], frame["dose"] = rng.uniform(1, 2, len(frame)), rng.uniform(1, 2, len(frame))
    return frame


class Nameless(TransformerMixin, BaseEstimator):
    """A step that says nothing about its output."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X


def ending_in_a_model(steps, X, kind=FactorizationMachineRegressor, **options):
    """A pipeline as after `fit`, with a model of random parameters at its end."""
    encoded = steps.fit(X, np.arange(len(X)) % 2).transform(X)
    return make_pipeline(steps, model_of(kind, n_features=encoded.shape[1], **options)), encoded


ONE_HOT = OneHotEncoder()
NUMBERS = ["age", "dose"]
ENCODERS = {
    "table": TableEncoder(),
    "columns": make_column_transformer((ONE_HOT, ["sex", "town"]), (StandardScaler(), NUMBERS)),
    "one column": make_column_transformer((ONE_HOT, ["sex"]), (ONE_HOT, ["town"]), remainder="passthrough"),
    "places": ColumnTransformer([("o", OneHotEncoder(), [0, -3]), ("n", MaxAbsScaler(), slice(2, None))]),
    "slices of names": ColumnTransformer(
        [("n", MaxAbsScaler(), slice("age", "dose")), ("o", ONE_HOT, slice("sex", "town"))]
    ),
    "mask": ColumnTransformer([("o", OneHotEncoder(), [True, True, False, False])]),
    "selector": make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include=float)),
        (OneHotEncoder(sparse_output=False), make_column_selector(dtype_exclude=float)),
        verbose_feature_names_out=False,
    ),
    "drop": make_column_transformer((OneHotEncoder(drop="first"), ["town"]), (ONE_HOT, ["sex"])),
    "infrequent": make_column_transformer((OneHotEncoder(max_categories=3, drop="if_binary"), ["town", "sex"])),
    "scaled": make_pipeline(make_column_transformer((ONE_HOT, ["sex", "town"])), MaxAbsScaler(), TfidfTransformer()),
    "nested": make_pipeline(
        make_column_transformer((make_pipeline(ONE_HOT, "passthrough", MaxAbsScaler()), ["town", "sex"])),
        VarianceThreshold(),
        SelectKBest(k=5),
    ),
    "union": make_pipeline(
        ColumnTransformer([("o", OneHotEncoder(), ["sex"]), ("b", KBinsDiscretizer(3), ["dose"])]),
        FeatureUnion([("same", "passthrough"), ("none", "drop")]),
    ),
    "imputed": make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="most_frequent"), ONE_HOT), ["sex"]), (SimpleImputer(), ["age"]),
        ("drop", ["town"]),
    ),
    "unknown step first": make_pipeline(Nameless(), TableEncoder()),
}  # fmt: skip


@pytest.mark.parametrize("name", ENCODERS)
def test_fields_of_pipelines_are_what_never_occurs_together(table, name):
    """Every value of one column is seen with every value of every other: only pairs within a field are not."""
    steps = ENCODERS[name]
    pipeline, encoded = ending_in_a_model(steps, table)
    found, seen = interactions(pipeline, top=1000), interactions(pipeline[-1], top=1000, X=encoded)
    names = (steps[-1] if name == "unknown step first" else steps).get_feature_names_out()
    assert pairs_of(found) == {(names[int(i[1:])], names[int(j[1:])]) for i, j in pairs_of(seen)}
    assert 0 < len(found) < len(interactions(pipeline, top=1000, impossible=True))
    pd.testing.assert_frame_equal(interactions(pipeline, top=1000, X=table), found)


def test_a_number_and_the_flag_of_its_gaps_are_one_field(table):
    gaps = table.copy()
    gaps.loc[3, "age"], gaps.loc[5, "town"] = np.nan, None
    pipeline, _ = ending_in_a_model(TableEncoder(), gaps)
    pairs = pairs_of(interactions(pipeline, top=1000))
    assert ("age", "age is missing") not in pairs
    assert ("town=Rome", "town is missing") not in pairs
    assert ("town is missing", "age is missing") in pairs


class InParts(TableEncoder):
    """An encoder that says which fields it makes, and makes two of one column."""

    def transform(self, X):
        return sp.hstack([super().transform(X), np.ones((len(X), 1))]).tocsr()

    def get_feature_names_out(self, input_features=None):
        return np.append(super().get_feature_names_out(input_features), "age is odd")

    def get_fields_out(self, input_features=None):
        return [name.partition("=")[0] for name in super().get_feature_names_out(input_features)] + ["age.oddity"]


def test_encoders_may_say_their_fields(table):
    pipeline, _ = ending_in_a_model(InParts(), table)
    pairs = pairs_of(interactions(pipeline, top=1000))
    assert ("sex=F", "sex=M") not in pairs
    assert ("age", "age is odd") in pairs
    parts = explain(pipeline, table.iloc[0]).set_index("term")
    assert parts["input"]["sex=F x age is odd"] == f"sex = F, age = {table['age'][0]:.6g}"
    assert parts["input"]["age x age is odd"] == f"age = {table['age'][0]:.6g}"


def test_fields_of_the_caller_come_before_those_of_the_pipeline(table):
    pipeline, encoded = ending_in_a_model(TableEncoder(), table)
    d = encoded.shape[1]
    assert len(interactions(pipeline, top=1000, groups=[None] * d)) == d * (d - 1) // 2
    assert len(interactions(pipeline, top=1000, groups=["all"] * d)) == 0


@pytest.mark.parametrize("hashed", [True, False])
def test_steps_without_names_leave_what_is_known_elsewhere(table, hashed):
    if hashed:
        hasher = make_pipeline(SimpleImputer(strategy="most_frequent"), FeatureHasher(4, input_type="string"))
        steps = ColumnTransformer([("h", hasher, ["town"]), ("o", OneHotEncoder(), ["sex"])], sparse_threshold=1)
        names = {"h__0", "h__1", "h__2", "h__3", "o__sex_F", "o__sex_I", "o__sex_M"}
    else:
        steps = make_pipeline(OneHotEncoder(), Nameless())
        names = {f"x{j}" for j in range(7)}
    pipeline, _ = ending_in_a_model(steps, table[["sex", "town"]])
    found = interactions(pipeline, top=1000)
    assert set(found["feature_1"]) | set(found["feature_2"]) == names
    assert len(found) == 21 - (3 if hashed else 0)  # the hasher's buckets may occur together, for all that is known


@pytest.mark.parametrize("kind", [FactorizationMachineRegressor, PolynomialNetworkRegressor])
@pytest.mark.parametrize("encoder", ["table", "columns", "selector", "imputed", "union"])
def test_rows_of_a_table_are_explained_in_its_columns(table, kind, encoder):
    pipeline, encoded = ending_in_a_model(ENCODERS[encoder], table, kind, degree=3)
    expected = reference.predict(pipeline[-1], np.atleast_2d(sp.csr_matrix(encoded).toarray())[7:8])[0]
    parts = explain(pipeline, table.iloc[7], max_degree_terms=4)
    assert_allclose(parts["contribution"].sum(), expected, rtol=1e-9)
    for x in (table.iloc[7:8], table.iloc[7].to_dict(), table[["dose", "age", "town", "sex"]].iloc[7]):
        if encoder != "table" or list(x) == list(table):
            pd.testing.assert_frame_equal(explain(pipeline, x, max_degree_terms=4), parts)
    sex = parts[parts["term"].str.fullmatch(r"(\w*__)?sex[=_]\w")]
    assert sex["input"].tolist() == [f"sex = {table['sex'][7]}"]
    assert sex["term"].iloc[0].endswith(table["sex"][7])
    assert parts["input"][0] == ""


def test_inputs_are_the_numbers_that_the_user_gave(table):
    pipeline, _ = ending_in_a_model(ENCODERS["columns"], table)
    parts = explain(pipeline, {"sex": "F", "town": "Rome", "age": 1.25, "dose": 1.5}).set_index("term")
    product_of_two = "onehotencoder__town_Rome x standardscaler__age"
    assert parts["input"][product_of_two] == "town = Rome, age = 1.25"
    assert parts["value"][product_of_two] == pytest.approx((1.25 - table["age"].mean()) / table["age"].std(ddof=0))
    encoder, _ = ending_in_a_model(TableEncoder(), table.assign(age=table["age"].where(table["age"] > 1.1)))
    parts = explain(encoder, {"sex": "F", "town": None, "age": np.nan, "dose": 1.5}).set_index("term")
    assert parts["input"]["age is missing"] == "age = missing"


def test_arrays_and_texts_are_explained_as_they_are():
    X = np.random.RandomState(0).standard_normal((20, 3))
    pipeline, encoded = ending_in_a_model(StandardScaler(), X)
    expected = reference.predict(pipeline[-1], encoded[4:5])[0]
    parts = explain(pipeline, X[4])
    assert_allclose(parts["contribution"].sum(), expected)
    assert parts["input"][1] == f"{parts['term'][1]} = {X[4, int(parts['term'][1][1:])]:.6g}"
    for x in (X[4:5], X[4].tolist(), X[4:5].tolist()):
        pd.testing.assert_frame_equal(explain(pipeline, x), parts)
    assert "input" not in explain(pipeline, X[4], feature_names=list("abc"))
    assert "input" not in explain(pipeline[-1], X[4])

    rows = [{"user": "ann", "age": 3.0}, {"user": "bob", "age": 4.0}]
    pipeline, _ = ending_in_a_model(DictVectorizer(), rows)
    assert set(explain(pipeline, rows[1])["term"]) == {"intercept", "age", "user=bob", "age x user=bob"}
    assert ("user=ann", "user=bob") not in pairs_of(interactions(pipeline, X=rows))

    texts = ["good film", "bad film", "good good plot", "plot of a bad film"]
    pipeline, encoded = ending_in_a_model(TfidfVectorizer(), texts)
    parts = explain(pipeline, "good plot")
    assert set(parts["term"]) == {"intercept", "good", "plot", "good x plot"}
    pd.testing.assert_frame_equal(explain(pipeline, ["good plot"]), parts)
    assert ("bad", "good") in pairs_of(interactions(pipeline))
    assert ("bad", "good") not in pairs_of(interactions(pipeline, X=texts))

    frame = pd.DataFrame({"film": texts, "sex": ["F", "M", "F", "M"]})
    steps = make_column_transformer((TfidfVectorizer(), "film"), (OneHotEncoder(), ["sex"]))
    pipeline, _ = ending_in_a_model(steps, frame)
    parts = explain(pipeline, frame.iloc[0]).set_index("term")
    assert parts["input"]["tfidfvectorizer__film x onehotencoder__sex_F"] == "sex = F"  # the word film, not the column
    assert ("onehotencoder__sex_F", "onehotencoder__sex_M") not in pairs_of(interactions(pipeline, top=100))


def test_classes_of_a_pipeline_are_explained(table):
    pipeline, encoded = ending_in_a_model(TableEncoder(), table, FactorizationMachineClassifier, classes=list("abc"))
    model = pipeline[-1]
    row = encoded[2:3].toarray()
    for c, target in enumerate("abc"):
        one = untrained(FactorizationMachineRegressor(n_components=2), n_features=row.shape[1])
        one._set_fitted(type(one._fitted)(model._fitted.model, [model._fitted.targets[c]]))
        total = explain(pipeline, table.iloc[2], target=target)["contribution"].sum()
        assert_allclose(total, reference.predict(one, row)[0])


def test_pipelines_within_pipelines_are_read(table):
    pipeline, encoded = ending_in_a_model(StandardScaler(), table[NUMBERS])
    outer = Pipeline([("first", make_pipeline("passthrough")), ("last", pipeline)])
    pd.testing.assert_frame_equal(interactions(outer), interactions(pipeline))
    assert_allclose(
        explain(outer, table[NUMBERS].iloc[0])["contribution"], explain(pipeline[-1], encoded[0])["contribution"]
    )


def test_several_rows_are_refused(table):
    pipeline, _ = ending_in_a_model(TableEncoder(), table)
    with pytest.raises(ValueError, match=re.escape("x has 2 rows, but one was expected: explain one row at a time")):
        explain(pipeline, table[:2])
    with pytest.raises(TypeError, match="got Pipeline that ends in StandardScaler"):
        interactions(make_pipeline(StandardScaler()))


# -- names ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.text(alphabet="ab_", max_size=12), max_size=20), st.integers(3, 12))
def test_short_names_stay_distinct(names, width):
    short = short_names(names, width)
    assert list(short) == list(dict.fromkeys(names))
    assert len(set(short.values())) == len(short)


def test_names_are_no_longer_than_they_need_to_be():
    short = short_names([f"the very long name of feature {j}" for j in range(30)], 12)
    assert max(map(len, short.values())) == 12
    assert short["the very long name of feature 7"] == "the ve…ure 7"
    assert short_names(["num__age", "cat__age"], 24) == {"num__age": "num__age", "cat__age": "cat__age"}


def test_a_model_alone_has_no_fields():
    subject = Subject.of(model_of())
    assert subject.fields is None
    assert list(subject.features.names) == [f"x{j}" for j in range(6)]
