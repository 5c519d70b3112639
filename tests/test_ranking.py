"""Towers and the best candidates: equal to scoring every pair, whatever the model, the blocks and the threads."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from reference import predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from untrained import untrained

from polyfm import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkRegressor,
    TableEncoder,
)
from polyfm.recommend import ranking, top_n, towers

KINDS = {"anova": FactorizationMachineRegressor, "homogeneous": PolynomialNetworkRegressor}


def sides(rng, n_contexts=7, n_candidates=11, d=9):
    """Contexts of ids and numbers in the first features, candidates in the last, some of them alike."""
    U = np.zeros((n_contexts, d))
    U[np.arange(n_contexts), rng.randint(3, size=n_contexts)] = 1
    U[:, 3] = rng.standard_normal(n_contexts)
    V = np.zeros((n_candidates, d))
    V[np.arange(n_candidates), rng.randint(4, 7, size=n_candidates)] = 1
    V[:, 7:] = rng.standard_normal((n_candidates, d - 7))
    V[5] = V[2]
    return U, V


def all_pairs(U, V):
    return (U[:, None, :] + V[None, :, :]).reshape(-1, U.shape[1])


def by_brute_force(scores, n, excluded=None):
    """The best of each row by sorting all of it: the largest first and, of equal ones, the first."""
    items = np.full((len(scores), n), -1)
    best = np.full((len(scores), n), -np.inf)
    for c, row in enumerate(scores):
        order = [i for i in np.lexsort([np.arange(len(row)), -row]) if excluded is None or not excluded[c, i]][:n]
        items[c, : len(order)] = order
        best[c, : len(order)] = row[order]
    return items, best


@pytest.mark.parametrize("lower", ["explicit", "augment", None])
@pytest.mark.parametrize("degree", [2, 3, 4])
@pytest.mark.parametrize("method", ["direct", "lifted"])
@pytest.mark.parametrize("kernel", ["anova", "homogeneous"])
def test_inner_products_of_towers_are_the_predictions_of_all_pairs(rng, kernel, method, degree, lower):
    model = untrained(KINDS[kernel](degree=degree, n_components=3, method=method, fit_lower=lower), 9)
    U, V = sides(rng) if degree < 4 else sides(rng, 2, 6)  # the reference takes its time
    contexts, candidates = towers(model, sp.csr_matrix(U), sp.csr_matrix(V))
    expected = predict(model, all_pairs(U, V)).reshape(len(U), len(V))
    assert_allclose(contexts @ candidates.T, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())
    # BLAS adds up one column of a product in another order than the next, and tells candidates that are alike apart.
    scores = np.array([[math.fsum(u * v) for v in candidates] for u in contexts])
    assert_array_equal(top_n(contexts, candidates, 4)[0], by_brute_force(scores, 4)[0])


def test_a_vector_of_a_factorization_machine_is_short(rng):
    model = untrained(FactorizationMachineRegressor(degree=4, n_components=3, fit_lower=None), 9)
    assert towers(model, *sides(rng))[0].shape == (7, 2 + 3 * 3)


def test_dense_and_single_precision_rows_and_models_are_welcome(rng):
    model = untrained(FactorizationMachineRegressor(n_components=3), 9, dtype=np.float32)
    U, V = sides(rng)
    contexts, candidates = towers(model, U.astype(np.float32), sp.csc_array(V))
    assert contexts.dtype == candidates.dtype == np.float64
    assert_allclose((contexts @ candidates.T).ravel(), model.predict(all_pairs(U, V)), rtol=1e-5, atol=1e-5)


def test_of_a_classifier_it_is_the_decision_function(rng):
    model = untrained(FactorizationMachineClassifier(n_components=3), 9, classes=["a", "b", "c"])
    U, V = sides(rng)
    contexts, candidates = towers(model, U, V, target=1)
    expected = model.decision_function(all_pairs(U, V))[:, 1]
    assert_allclose((contexts @ candidates.T).ravel(), expected, rtol=1e-10, atol=1e-12)
    with pytest.raises(ValueError, match="each of its 3 classes"):
        towers(model, U, V)
    with pytest.raises(ValueError, match="target=3 is not one of"):
        towers(model, U, V, target=3)


def test_what_towers_cannot_take_is_said(rng):
    model = untrained(FactorizationMachineRegressor(n_components=3), 9)
    U, V = sides(rng)
    U[0, 8] = 1
    with pytest.raises(ValueError, match="Feature 8 is in contexts and in candidates"):
        towers(model, U, V)
    with pytest.raises(ValueError, match="candidates has 8 features, where the model has 9"):
        towers(model, U, V[:, :8])
    with pytest.raises(TypeError, match="pass the last step"):
        towers(make_pipeline(StandardScaler().fit(U), model), U, V)
    with pytest.raises(TypeError, match="TableEncoder"):
        towers(TableEncoder().fit(U), U, V)


# -- the best ----------------------------------------------------------------------------------------------------------


def whole_numbers(rng, n_contexts, n_candidates, k=5):
    """Vectors whose products are exact in any precision, with many ties."""
    return rng.randint(-3, 4, (n_contexts, k)).astype(float), rng.randint(-3, 4, (n_candidates, k)).astype(float)


@pytest.mark.parametrize("n", [1, 3, 20, 60])
def test_the_best_are_those_of_sorting_everything_ties_included(rng, n):
    U, V = whole_numbers(rng, 40, 60)
    excluded = rng.uniform(size=(40, 60)) < 0.3
    excluded[3] = True  # nothing is left
    excluded[4, 2:] = True
    items, scores = top_n(U, V, n, exclude=sp.csr_matrix(excluded))
    expected, best = by_brute_force(U @ V.T, n, excluded)
    assert_array_equal(items, expected)
    assert_array_equal(scores, best)
    assert_array_equal(top_n(U, V, n)[0], by_brute_force(U @ V.T, n)[0])


def test_blocks_tiles_and_threads_change_nothing(rng, monkeypatch):
    U, V = rng.standard_normal((700, 6)), rng.standard_normal((900, 6))
    V[100:400] = V[500:800]
    exclude = sp.random(700, 900, 0.1, "csr", random_state=rng)
    items, scores = top_n(U, V, 7, exclude=exclude)
    assert_array_equal(items, by_brute_force(np.round(U @ V.T, 12), 7, exclude.toarray() != 0)[0])
    monkeypatch.setattr(ranking, "CONTEXTS_AT_ONCE", 64)
    monkeypatch.setattr(ranking, "CANDIDATES_AT_ONCE", 37)
    for n_jobs in (1, 2):
        again = top_n(U, V, 7, exclude=exclude, n_jobs=n_jobs)
        assert_array_equal(again[0], items)
        assert_array_equal(again[1], scores)


def test_scores_that_single_precision_cannot_tell_apart_are_ranked_in_double(rng):
    U = np.ones((3, 1))
    V = 1 + 1e-12 * rng.permutation(500)[:, None]
    items, scores = top_n(U, V, 5)
    assert_array_equal(items[0], np.argsort(-V[:, 0])[:5])
    assert_array_equal(scores[0], V[items[0], 0])


@pytest.mark.parametrize("size", [2.0**-100, 2.0**70, 2.0**200])
def test_vectors_beyond_single_precision_are_ranked_in_double(rng, size):
    U, V = whole_numbers(rng, 8, 50)
    items, scores = top_n(size * U, size * V, 5)
    assert_array_equal(items, by_brute_force((size * U) @ (size * V).T, 5)[0])
    assert np.isfinite(scores).all()


def test_what_cannot_be_ranked_is_said(rng):
    U, V = whole_numbers(rng, 4, 6)
    with pytest.raises(ValueError, match="contexts have 5 numbers and candidates 4"):
        top_n(U, V[:, :4])
    with pytest.raises(ValueError, match="n=0 is not a number"):
        top_n(U, V, 0)
    with pytest.raises(ValueError, match=r"exclude has shape \(6, 4\)"):
        top_n(U, V, exclude=sp.csr_matrix((6, 4)))
    with pytest.raises(TypeError, match="exclude must be a sparse matrix"):
        top_n(U, V, exclude=[[0]])
    with pytest.raises(ValueError, match="NaN"):
        top_n(U * np.nan, V)
    bad = sp.csr_matrix(np.ones((4, 6)))
    bad.indices[3] = 99
    with pytest.raises(ValueError, match="exclude is malformed"):
        top_n(U, V, exclude=bad)
