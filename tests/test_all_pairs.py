"""Implicit feedback: the objective is the sum over all pairs, and descent lowers it to where its gradient is zero."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from polyfm.recommend import all_pairs
from polyfm.recommend.all_pairs import AllPairs, AllPairsRecipe, Rows, as_parameters, fold_in
from polyfm.training.session import Samples, Session


def side(rng, n, n_ids, n_shared):
    """Rows with an id each (several rows may share one) and dense and sparse features."""
    ids = sp.csr_matrix((np.ones(n), (np.arange(n), np.arange(n) % n_ids)), shape=(n, n_ids)) if n_ids else None
    shared = sp.random(n, n_shared, 0.6, "csr", random_state=rng, data_rvs=rng.standard_normal)
    return Rows(sp.hstack([ids, shared], format="csr"), n_ids)


@pytest.fixture(
    params=[(12, 0, 9, 0, 2), (12, 3, 9, 2, 2), (6, 2, 0, 4, 2), (6, 2, 9, 3, 3), (12, 2, 0, 3, 4)],
    ids=["ids", "features", "no item ids", "degree 3", "degree 4"],
)
def problem(rng, request):
    n_user_ids, n_user_features, n_item_ids, n_item_features, degree = request.param
    contexts = side(rng, 12, n_user_ids, n_user_features)
    items = side(rng, 9, n_item_ids, n_item_features)
    seen = sp.random(12, 9, 0.3, "csr", random_state=rng)
    return AllPairs(contexts, items, seen, omega=0.3, reg=0.05, nu=0.7, degree=degree, n_components=3), seen


def descend(problem, max_iter, tol, seed, n_threads=1):
    session = Session(AllPairsRecipe(n_threads), max_iter, tol)
    result = session.run(Samples(problem, [np.empty(0)]), np.array([seed]))[0].result
    return result.parameters.factors, result.history


def score(degree, u, v, T):
    """Sums over sets of features that lie on both sides, three factors for each degree."""
    x, P = np.concatenate([u, v]), np.vstack(T)
    total = 0.0
    for d in range(2, degree + 1):
        for chosen in itertools.combinations(np.flatnonzero(x), d):
            if chosen[0] < len(u) <= chosen[-1]:
                chosen = list(chosen)
                total += np.prod(x[chosen, None] * P[chosen, 3 * (d - 2) : 3 * (d - 1)], axis=0).sum()
    return total


def by_brute_force(problem, seen, T):
    """The sum over all pairs, one after the other."""
    total, A = 0.0, seen.toarray()
    X = [rows.X.toarray() for rows in problem.sides]
    for c, i in np.ndindex(*A.shape):
        f = score(problem.degree, X[0][c], X[1][i], T)
        total += A[c, i] * (f - 1) ** 2 + problem.omega * f**2
    for x, t, counts, n in zip(X, T, ((A > 0).sum(1), (A > 0).sum(0)), A.shape[::-1], strict=True):
        for j in range(len(t)):
            total += 0.05 * (x[:, j] ** 2 @ (counts + 0.3 * n)) ** 0.7 * (t[j] @ t[j])
    return total


def test_the_objective_is_the_sum_over_all_pairs(rng, problem):
    problem, seen = problem
    T = tuple(rng.standard_normal((rows.X.shape[1], 3 * (problem.degree - 1))) for rows in problem.sides)
    assert_allclose(problem.objective(as_parameters(T)), by_brute_force(problem, seen, T), rtol=1e-10)


def test_descent_never_raises_the_objective_and_ends_where_the_gradient_is_zero(problem):
    problem, seen = problem
    T, history = descend(problem, 300, 0.0, seed=0)
    assert history[0] < problem.objective(as_parameters(tuple(0 * t for t in T)))
    assert np.all(np.diff(history) <= 1e-12 * history[0])
    assert_allclose(history[-1], problem.objective(as_parameters(T)), rtol=1e-12)
    for t in T:
        for at in [(0, 0), (len(t) - 1, 2)]:
            value, h = t[at], 1e-5
            t[at] = value + h
            up = by_brute_force(problem, seen, T)
            t[at] = value - h
            down = by_brute_force(problem, seen, T)
            t[at] = value
            assert abs(up - down) / (2 * h) < 1e-3 * history[0]


def test_threads_change_no_bit(problem):
    problem, _ = problem
    alone, together = (descend(problem, 5, 0.0, seed=1, n_threads=n)[0] for n in (1, 3))
    for a, b in zip(alone, together, strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize("degree", [2, 3])
def test_folding_in_is_what_descent_gives_with_the_rest_fixed(rng, monkeypatch, degree):
    contexts, items = side(rng, 12, 12, 3), side(rng, 9, 9, 2)
    seen = sp.random(12, 9, 0.4, "csr", random_state=rng)
    problem = AllPairs(contexts, items, seen, omega=0.3, reg=0.05, nu=0.7, degree=degree, n_components=3)
    T, _ = descend(problem, 4, 0.0, seed=0)
    Z, row, pen = problem.turned(1, T), seen[5], problem.penalties[0][5]
    without = (T[0].copy(), T[1])
    without[0][5] = 0
    found = fold_in(row, Z, 0.3 * Z.T @ Z, problem.parts(0, without)[[5]], pen, degree, 3)
    monkeypatch.setattr(all_pairs, "STEPS", 50)
    only_ids = AllPairs(Rows(contexts.X, 12), items, seen, 0.3, 0.05, 0.7, degree, 3)
    monkeypatch.setattr(all_pairs, "_solve_shared", lambda *_: None)
    solved = (T[0].copy(), T[1])
    with all_pairs.Team(1) as team:
        if degree == 2:
            all_pairs._sweep(only_ids, solved, 0, team)
        else:
            G, Q = 0.3 * Z.T @ Z, problem.parts(0, T)
            members = only_ids.sides[0].all_members
            all_pairs.loops.solve_features(
                problem.seen[0], Z, G, problem.penalties[0], members, solved[0], Q, 3, 3, 50, 5, 6
            )
    assert_allclose(found, solved[0][5], rtol=1e-7, atol=1e-9)
