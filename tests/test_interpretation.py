"""Tables of interactions and explanations, against sums over all monomials."""

import builtins
import math
import re
from itertools import combinations, combinations_with_replacement, permutations

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from untrained import untrained

from polyfm import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkClassifier,
    PolynomialNetworkRegressor,
)
from polyfm.interpretation import explain, interactions
from polyfm.reading.polynomial import Terms
from polyfm.reading.strongest import _Search, strongest

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
OPTIONS = {"n_components": 2, "max_iter": 3, "tol": 0, "random_state": 0, "beta": 0.1}
D = 5


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((40, D))
    return X, X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] * X[:, 4] + rng.standard_normal(40)


@pytest.fixture(scope="module")
def model(data):
    X, y = data
    return FactorizationMachineRegressor(degree=3, method="lifted", fit_lower="augment", **OPTIONS).fit(X, y)


@pytest.fixture(scope="module")
def network(data):
    return PolynomialNetworkRegressor(degree=3, **OPTIONS).fit(*data)


# -- the reference ----------------------------------------------------------------------------------------------------


def polynomial(estimator, target=None):
    """Every monomial of a fitted model and its weight, from the public attributes and the definitions: the dictionary
    {features in rising order: weight}, where dummy features, equal to 1, are left out of the monomial."""
    parts = estimator.components_, estimator.lambdas_, estimator.coef_, estimator.intercept_
    parts = parts if target is None else [part[target] for part in parts]
    components, lambdas, coef, intercept = (np.asarray(part, dtype=np.float64) for part in parts)
    repeats = isinstance(estimator, PolynomialNetworkRegressor | PolynomialNetworkClassifier)
    weights = {(): float(intercept)} | {(j,): float(w) for j, w in enumerate(coef)}
    D, everything = len(coef), range(components.shape[-1])
    for s, (degree, lam) in enumerate(zip(estimator.degrees_, lambdas, strict=True)):
        for js in (combinations_with_replacement if repeats else combinations)(everything, degree):
            orders = set(permutations(js))
            if estimator.method == "direct":
                W = np.prod(components[s, list(js)])
            else:
                W = np.mean([np.prod(components[range(degree), s, order]) for order in permutations(js)])
            monomial = tuple(j for j in js if j < D)
            weights[monomial] = weights.get(monomial, 0.0) + lam * W * (len(orders) if repeats else 1)
    return weights


def value(x, js):
    return float(np.prod([x[j] for j in js]))


def of_degree(weights, degree):
    return {js: w for js, w in weights.items() if len(js) == degree}


def as_dict(table):
    """{features: weight} of a table with default names."""
    columns = [c for c in table.columns if c != "weight"]
    return {tuple(int(name[1:]) for name in row[:-1]): row[-1] for row in table[[*columns, "weight"]].to_numpy()}


def assert_same_weights(found, expected):
    scale = max((abs(w) for w in expected.values()), default=1.0)
    assert found.keys() == expected.keys()
    for js, w in expected.items():
        assert_allclose(found[js], w, rtol=1e-9, atol=1e-11 * scale)


CASES = [
    (kind, method, degree, lower)
    for kind in (FactorizationMachineRegressor, PolynomialNetworkRegressor)
    for method in ("direct", "lifted")
    for degree, lower in [(2, None), (2, "augment"), (3, "explicit"), (3, "augment"), (4, "augment"), (4, None)]
]


def random_model(kind, method, degree, lower, *, fit_linear=True, classes=None, dtype=np.float64):
    """Random parameters in place of fitted ones: nothing is compiled, and no parameter is 0."""
    estimator = kind(degree=degree, method=method, fit_lower=lower, n_components=2, fit_linear=fit_linear)
    if method == "direct":
        n_bases = sum(group.n_bases for group in estimator._model().groups)
        estimator.set_params(init_lambdas=np.random.RandomState(1).standard_normal(n_bases))
    return untrained(estimator, n_features=D, classes=classes, dtype=dtype)


# -- every weight and every term --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "method", "degree", "lower"), CASES)
def test_tables_hold_every_weight_of_the_polynomial(kind, method, degree, lower):
    model = random_model(kind, method, degree, lower)
    weights = polynomial(model)
    present = {None: {1, degree}, "augment": set(range(1, degree + 1)), "explicit": set(range(1, degree + 1))}[lower]
    for n in present:
        table = interactions(model, degree=n, top=1000)
        assert list(table.columns) == [f"feature_{t}" for t in range(1, n + 1)] + ["weight"]
        assert_same_weights(as_dict(table), of_degree(weights, n))
        assert np.all(np.diff(np.abs(table["weight"])) <= 0)
    for n in set(range(1, degree + 2)) - present:
        with pytest.raises(ValueError, match=f"degree={n}, but the model has terms of degree 1, .*{degree} only"):
            interactions(model, degree=n)


@pytest.mark.parametrize(("kind", "method", "degree", "lower"), CASES)
@pytest.mark.parametrize("listed", [100, 3, 0])
def test_terms_of_a_prediction_add_up_to_it(kind, method, degree, lower, listed):
    model = random_model(kind, method, degree, lower, fit_linear=False)
    weights = polynomial(model)
    x = np.array([1.5, -0.3, 0.0, 2.0, 0.7])
    table = explain(model, x, max_degree_terms=listed)
    assert_allclose(table["contribution"].sum(), reference.predict(model, x[None])[0], rtol=1e-10)
    for n, part in table.groupby("degree"):
        true = {js: w * value(x, js) for js, w in of_degree(weights, n).items() if 2 not in js}
        assert_allclose(part["contribution"].sum(), sum(true.values()), rtol=1e-9, atol=1e-12)
        own = part.dropna()
        assert_allclose(own["weight"] * own["value"], own["contribution"], rtol=1e-9, atol=1e-14)
        expected = sorted(map(abs, true.values()), reverse=True)[: listed if n > 1 else None]
        assert_allclose(own["contribution"].abs(), expected, rtol=1e-9, atol=1e-12)
        assert len(part) - len(own) == (len(true) > len(own))


@pytest.mark.parametrize("kind", [FactorizationMachineClassifier, PolynomialNetworkClassifier])
@pytest.mark.parametrize("method", ["direct", "lifted"])
@pytest.mark.parametrize("lower", ["explicit", "augment"])
def test_classes_have_their_own_weights_and_terms(kind, method, lower):
    model = random_model(kind, method, 3, lower, classes=["high", "low", "middle"])
    for c, label in enumerate(model.classes_):
        weights = polynomial(model, c)
        assert_same_weights(as_dict(interactions(model, target=label, top=99)), of_degree(weights, 3))
        x = np.array([1.5, -0.3, 0.0, 2.0, 0.7])
        expected = sum(w * value(x, js) for js, w in weights.items())
        assert_allclose(explain(model, x, target=label)["contribution"].sum(), expected, rtol=1e-10)
    with pytest.raises(ValueError, match="3 classes: pass one of 'high', 'low', 'middle' as target"):
        interactions(model)
    with pytest.raises(ValueError, match="target='none' is no class: pass one of 'high'"):
        explain(model, np.ones(D), target="none")


@pytest.mark.parametrize("kind", [FactorizationMachineClassifier, PolynomialNetworkClassifier])
def test_two_classes_have_one_set_of_weights(kind):
    model = random_model(kind, "lifted", 2, "augment", classes=[False, True])
    expected = of_degree(polynomial(model, 0), 2)
    assert_same_weights(as_dict(interactions(model, top=99)), expected)
    assert_same_weights(as_dict(interactions(model, top=99, target=True)), expected)
    with pytest.raises(ValueError, match="target=False: with two classes the model speaks for True"):
        interactions(model, target=False)


def test_fitted_models_are_explained_as_they_predict(data, model, network):
    X, y = data
    three = FactorizationMachineClassifier(**OPTIONS).fit(X, np.digitize(y, [-0.5, 0.5]))
    two = FactorizationMachineClassifier(**OPTIONS).fit(X, y > 0)
    for x in X[:3]:
        for fitted in (model, network):
            assert_allclose(explain(fitted, x)["contribution"].sum(), fitted.predict(x[None])[0], rtol=1e-10)
        totals = [explain(three, x, target=c)["contribution"].sum() for c in range(3)]
        assert_allclose(totals, three.decision_function(x[None])[0], rtol=1e-10)
        assert_allclose(explain(two, x)["contribution"].sum(), two.decision_function(x[None])[0], rtol=1e-10)


def test_parameters_in_float32_are_read_in_double_precision():
    model = random_model(FactorizationMachineRegressor, "direct", 3, "augment", dtype=np.float32)
    assert model.components_.dtype == np.float32
    assert_same_weights(as_dict(interactions(model, top=99)), of_degree(polynomial(model), 3))


def test_factors_of_very_different_norms_lose_no_digits():
    model = random_model(FactorizationMachineRegressor, "lifted", 3, None)
    expected = as_dict(interactions(model, top=99))
    U = model._fitted.targets[0].factors[0]
    U *= np.array([1e8, 1e-3, 1e-5])[:, None]
    assert_same_weights(as_dict(interactions(model, top=99)), expected)
    U[:] = 0.0
    assert np.all(interactions(model, top=99)["weight"] == 0)


# -- the search -------------------------------------------------------------------------------------------------------


def brute_force(terms):
    """Magnitudes of all weights, largest first."""
    choose = combinations_with_replacement if terms.repeats else combinations
    weights = []
    for js in choose(range(len(terms.P)), terms.degree):
        orders = math.factorial(terms.degree) / math.prod(math.factorial(js.count(j)) for j in set(js))
        weights.append(abs(terms.lam @ np.prod(terms.P[list(js)], axis=0)) * (orders if terms.repeats else 1))
    return np.sort(weights)[::-1]


@st.composite
def searches(draw):
    degree = draw(st.integers(2, 4))
    d = draw(st.integers(degree, {2: 40, 3: 16, 4: 10}[degree]))
    k = draw(st.integers(1, 5))
    rng = np.random.RandomState(draw(st.integers(0, 2**31)))
    P = rng.standard_normal((d, k)) * np.exp(draw(st.sampled_from([0.0, 1.0, 8.0])) * rng.standard_normal((d, 1)))
    if draw(st.booleans()):
        P = np.round(P)  # many ties and zeros
    return Terms(degree, draw(st.booleans()), rng.standard_normal(k), P), draw(st.integers(1, 30))


@pytest.fixture
def tiny_blocks(monkeypatch):
    """Small problems go through several blocks, as large ones do."""
    for name, size in [("ROWS", 4), ("COLUMNS", 7), ("LEADS", 3)]:
        monkeypatch.setattr(f"polyfm.reading.strongest.{name}", size)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(searches())
def test_search_finds_exactly_the_strongest(tiny_blocks, case):
    terms, top = case
    features, weights, bound = strongest(terms, top, None)
    expected = brute_force(terms)[:top]
    assert bound is None
    assert_allclose(np.abs(weights), expected, rtol=1e-9, atol=1e-13 * expected[0])
    assert len(np.unique(features, axis=0)) == len(features)
    assert np.all(np.diff(features, axis=1) >= (0 if terms.repeats else 1))
    assert_allclose(weights, terms.weights(features))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(searches(), st.floats(1, 4))
def test_search_that_ends_early_bounds_what_it_missed(tiny_blocks, case, log_budget):
    terms, top = case
    features, weights, bound = strongest(terms, top, 10**log_budget)
    everything = brute_force(terms)
    assert len(np.unique(features, axis=0)) == len(features)
    assert np.all(np.diff(features, axis=1) >= (0 if terms.repeats else 1))
    if bound is None:
        assert_allclose(np.abs(weights), everything[:top], rtol=1e-9, atol=1e-13 * everything[0])
        return
    certain = np.count_nonzero(np.abs(weights) >= bound)
    assert_allclose(np.abs(weights)[:certain], everything[:certain], rtol=1e-9)
    n_missing = len(everything) - len(weights)
    missed = list(everything)
    for w in np.abs(weights):  # take each listed one out of all
        missed.pop(int(np.argmin(np.abs(np.array(missed) - w))))
    assert len(missed) == n_missing
    if missed and len(weights) < top:
        assert max(missed) <= bound * (1 + 1e-9)
    elif missed:
        assert max(missed) <= max(bound, np.abs(weights).min()) * (1 + 1e-9)


def test_single_precision_loses_nothing():
    """Pairs whose weights differ by less than single precision can tell are still in the right order."""
    rng = np.random.RandomState(0)
    P = np.ones((600, 1)) + 1e-9 * rng.permutation(600)[:, None]
    _, weights, _ = strongest(Terms(2, False, np.ones(1), P), 50, None)
    i, j = np.triu_indices(600, 1)
    assert_allclose(weights, np.sort((P @ P.T)[i, j])[::-1][:50], rtol=1e-14)


@pytest.mark.parametrize(("degree", "repeats"), [(2, False), (3, False), (2, True), (3, True)])
def test_large_models_are_searched_in_seconds(degree, repeats):
    """75,000 features: 2.8e9 pairs and 7e13 triples, of which the search looks at few. Planted ones are found."""
    rng = np.random.RandomState(0)
    P = 0.1 * rng.standard_normal((75_000, 30)) * np.exp(0.5 * rng.standard_normal((75_000, 1)))
    planted = np.sort(rng.choice(75_000, degree, replace=False))
    P[planted, 3] = 30.0
    search = _Search(Terms(degree, repeats, np.ones(30), P), 5, 1e11)
    found = np.sort(search.run(), axis=1)
    assert search.bound is None
    assert search.left > 0.9e11
    assert planted.tolist() in found.tolist()


# -- the face ---------------------------------------------------------------------------------------------------------


def test_names_come_from_the_frame_or_the_caller(data, model):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcde"))
    named = FactorizationMachineRegressor(degree=3, method="lifted", fit_lower="augment", **OPTIONS).fit(frame, y)
    for table in (interactions(named, top=1), interactions(model, top=1, feature_names=list("abcde"))):
        js = next(iter(as_dict(interactions(model, top=1))))
        assert table.iloc[0, :3].tolist() == ["abcde"[j] for j in js]
    expected = explain(model, X[0], feature_names=list("abcde"))
    for x in (frame.iloc[0], frame.iloc[:1], X[0], X[:1], list(X[0]), sp.csr_matrix(X[:1]), sp.csc_array(X[:1])):
        pd.testing.assert_frame_equal(explain(named, x), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        explain(named, frame.iloc[:1, ::-1])
    assert "a x b x c" in set(expected["term"])


def test_powers_have_a_readable_name(network):
    terms = set(explain(network, [1.0, 2.0, 0, 0, 0], feature_names=["age", "dose", *"abc"])["term"])
    powers = {"age^3", "age^2 x dose", "age x dose^2", "dose^3"}
    assert terms == {"intercept", "age", "dose", "age^2", "age x dose", "dose^2"} | powers


def test_spreads_multiply_weights(data, model):
    scale = np.array([1.0, 10.0, 0.1, 2.0, 0.0])
    plain, scaled = (as_dict(interactions(model, top=99, scale=s)) for s in (None, scale))
    assert_same_weights(scaled, {js: w * np.prod(scale[list(js)]) for js, w in plain.items()})
    with pytest.raises(ValueError, match=re.escape("scale='std': a fitted model does not keep its data")):
        interactions(model, scale="std")
    with pytest.raises(ValueError, match=re.escape("scale must be 5 finite numbers, one for each feature")):
        interactions(model, scale=[1.0, 2.0])


def test_rows_of_zeros_are_the_intercept(network):
    table = explain(network, np.zeros(D))
    assert table["term"].tolist() == ["intercept"]
    assert_allclose(table["contribution"], network.predict(np.zeros((1, D))))
    assert table["contribution"][0] != network.intercept_  # the dummy feature adds to it


def test_remainder_says_how_many_terms_it_holds(data, model):
    table = explain(model, data[0][0], max_degree_terms=4)
    assert table["term"][table["weight"].isna()].tolist() == [
        "all 6 other interactions of degree 2",
        "all 6 other interactions of degree 3",
    ]


def test_budget_is_kept_with_a_warning_that_says_what_is_certain(model):
    with pytest.warns(UserWarning, match=r"ended after budget=1 multiply-adds.*weighs at most .*: the first"):
        table = interactions(model, budget=1)
    assert 0 < len(table) <= 20
    assert len(interactions(model, budget=None)) == 10


def test_products_need_as_many_features_as_their_degree(data):
    X, y = data
    narrow = FactorizationMachineRegressor(degree=3, method="lifted", fit_lower="augment", **OPTIONS).fit(X[:, :2], y)
    assert len(interactions(narrow)) == 0
    assert_allclose(explain(narrow, X[0, :2])["contribution"].sum(), narrow.predict(X[:1, :2])[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"feature_names": ["a", "b"]}, "feature_names has 2 names, but the model was fitted on 5 features"),
        ({"top": 0}, "top must be an integer >= 1, got 0"),
        ({"top": 2.5}, "top must be an integer >= 1, got 2.5"),
        ({"degree": 4}, "degree=4, but the model has terms of degree 1, 2, 3 only"),
        ({"degree": 0}, "degree=0, but"),
        ({"degree": "high"}, "degree='high', but"),
        ({"target": 1}, "target=1 is for classifiers"),
        ({"groups": ["a", "b"]}, "groups has 2 labels, but the model was fitted on 5 features"),
        ({"X": np.ones((3, 4))}, "X has 4 features, but FactorizationMachineRegressor is expecting 5"),
        ({"budget": 0}, "budget must be a number > 0 or None for no limit, got 0"),
    ],
)
def test_bad_arguments_are_named(model, arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        interactions(model, **arguments)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.ones(4), "x has shape (4,), but one row of 5 features was expected"),
        (np.ones((2, 5)), "x has shape (2, 5), but one row"),
        (sp.csr_matrix(np.ones((1, 6))), "x has shape (1, 6), but one row"),
        ([1, 2, np.nan, 4, 5], "x has a value that is not a finite number, in feature 2"),
    ],
)
def test_bad_rows_are_named(model, x, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        explain(model, x)


def test_only_fitted_estimators_of_polyfm_can_be_read(data, model):
    X, _ = data
    with pytest.raises(NotFittedError, match="not fitted yet"):
        interactions(FactorizationMachineRegressor())
    with pytest.raises(TypeError, match="got Pipeline that ends in StandardScaler. Pass a fitted"):
        interactions(make_pipeline(StandardScaler(), StandardScaler()))
    with pytest.raises(TypeError, match="got StandardScaler. Pass a fitted FactorizationMachine"):
        explain(StandardScaler(), X[0])
    with pytest.raises(ValueError, match="max_degree_terms must be an integer >= 0, got -1"):
        explain(model, X[0], max_degree_terms=-1)


def test_missing_pandas_is_named_with_its_remedy(data, model, monkeypatch):
    real = builtins.__import__

    def without_pandas(name, *args, **kwargs):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(ImportError, match=re.escape('pip install "polyfm[table]"')):
        interactions(model)
    with pytest.raises(ImportError, match="explain returns a pandas DataFrame"):
        explain(model, data[0][0])
