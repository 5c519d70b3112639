"""Random numbers that belong to coordinates, and the sampler that draws them."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from problems import MULTILINEAR, make_problem
from scipy import stats

from polyfm.loops import elementary, philox
from polyfm.loops.jit import loop
from polyfm.loops.rule import Gibbs
from polyfm.solvers import run
from polyfm.solvers.block_descent import BlockDescent
from polyfm.solvers.coordinate_descent import CoordinateDescent

# (key, counter, words), as the authors of Random123 publish them for philox4x32-10.
KNOWN = [
    ([0, 0], [0, 0, 0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 2, [0xFFFFFFFF] * 4, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0xA4093822, 0x299F31D0],
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("key", "counter", "expected"), KNOWN)
def test_the_generator_gives_the_published_words(key, counter, expected):
    out = np.zeros(4, dtype=np.uint64)
    philox.words(np.array(key, dtype=np.uint64), np.array(counter, dtype=np.uint64), out)
    assert out.tolist() == expected


def test_numbers_are_standard_normal_and_depend_on_nothing_but_key_and_counter():
    z = np.empty(20_000)
    philox.normals(3, 5, 0, z)
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(z[1:], z[:-1])[0, 1]) < 4 / np.sqrt(len(z))
    part = np.empty(100)
    philox.normals(3, 5, 7_000, part)
    assert_array_equal(part, z[7_000:7_100])
    philox.normals(4, 5, 7_000, part)
    assert abs(np.corrcoef(part, z[7_000:7_100])[0, 1]) < 0.5


def linear_problem(form=("anova", "direct"), shared=0.0):
    """All that is unknown is linear: the posterior is a Gaussian that can be written down."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((30, 3)) * (rng.uniform(size=(30, 3)) < 0.8) + shared * rng.standard_normal((30, 1))
    y, weight = rng.standard_normal(30), rng.uniform(0.5, 2, 30)
    problem, start = make_problem(
        sp.csr_matrix(X), y, *form, 2, k=1, alpha=2.0, beta=1e12, weight=weight, intercept=False,
        order="given",
    )  # fmt: skip
    start.factors[0][:] = 0.0
    noise = 0.25
    precision = (X.T * weight) @ X / noise + 2.0 / noise * np.eye(3)
    mean = np.linalg.solve(precision, (X.T * weight) @ y / noise)
    return problem, start, noise, mean, np.linalg.inv(precision)


def worst_gap(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    """How far the draws' means and variances are from what they should be, in standard errors. Batches of draws are
    nearly independent, whatever single draws are."""
    centred = draws - mean
    statistics = np.hstack([centred, centred**2 - np.diag(covariance)])
    batches = statistics.reshape(50, -1, statistics.shape[1]).mean(axis=1)
    return float(np.abs(batches.mean(axis=0) / (batches.std(axis=0, ddof=1) / np.sqrt(len(batches)))).max())


@pytest.mark.parametrize("solver", [CoordinateDescent, BlockDescent])
@pytest.mark.parametrize("wrong", [1.0, 1.3])
def test_draws_follow_the_exact_posterior_and_wrong_ones_do_not(solver, wrong):
    problem, start, noise, mean, covariance = linear_problem()
    state = solver().init_state(problem, start)
    draws = np.empty((5000, 3))
    for i in range(len(draws)):
        solver(rule=Gibbs(9, 0, i, wrong * noise)).descend(problem, state)
        draws[i] = state.parameters.coef
    gap = worst_gap(draws, mean, covariance)
    assert gap < 4.5 if wrong == 1.0 else gap > 8


def test_linear_weights_have_a_number_of_their_own_in_every_turn():
    """Block steps visit the factors of a product of sums by turns, and the linear weights in each: weights that depend
    on each other would be drawn from something else with the same numbers again."""
    problem, start, noise, mean, covariance = linear_problem(("homogeneous", "lifted"), shared=2.0)
    state = BlockDescent().init_state(problem, start)
    draws = np.empty((5000, 3))
    for i in range(len(draws)):
        BlockDescent(rule=Gibbs(9, 0, i, noise)).descend(problem, state)
        draws[i] = state.parameters.coef
    assert worst_gap(draws, mean, covariance) < 4.5


def test_draws_do_not_depend_on_the_number_of_threads():
    """One-hot fields: features that never occur together are drawn at the same time."""
    rng = np.random.RandomState(0)
    n = 20_000
    columns = np.column_stack([rng.randint(300, size=n), 300 + rng.randint(200, size=n)])
    X = sp.csr_matrix((np.ones(2 * n), columns.ravel(), np.arange(0, 2 * n + 1, 2)), shape=(n, 500))
    y = rng.standard_normal(n)
    for solver, form in itertools.product((CoordinateDescent, BlockDescent), MULTILINEAR):
        found = []
        for n_threads in (1, 2, 3):
            problem, start = make_problem(X, y, *form, 2, k=8)
            sampler = solver(n_threads=n_threads, rule=Gibbs(9, 0, 1, 0.5))
            found.append(run(sampler, problem, start, max_iter=2, tol=0).parameters)
        for other in found[1:]:
            assert_array_equal(found[0].factors[0], other.factors[0])
            assert_array_equal(found[0].coef, other.coef)


@pytest.mark.parametrize("solver", [CoordinateDescent, BlockDescent])
def test_groups_of_bases_and_linear_weights_have_numbers_of_their_own(solver):
    """Features that no sample has are drawn from the prior: any two parameters of a feature are independent."""
    problem, start = make_problem(
        sp.csr_matrix((3, 400)), np.ones(3), "anova", "direct", 3, "explicit", k=1, alpha=1.0, beta=0.5
    )
    state = solver().init_state(problem, start)
    solver(rule=Gibbs(9, 0, 1, 1.0)).descend(problem, state)
    drawn = np.vstack([*(P[:, 0] for P in state.parameters.factors), state.parameters.coef])
    assert drawn.shape == (3, 400)
    assert np.abs(np.corrcoef(drawn) - np.eye(3)).max() < 4.5 / np.sqrt(400)


@loop
def logarithms_and_cosines(x, v, logs, cosines):
    for i in range(len(x)):
        logs[i] = elementary.log(x[i])
        cosines[i] = elementary.cosine(v[i])


def test_logarithm_and_cosine_are_those_of_the_library(rng):
    x = np.concatenate([rng.uniform(size=1000), 1 - 1e-9 * rng.uniform(size=99), 10.0 ** rng.uniform(-290, 290, 99)])
    x = np.concatenate([x, [2.0**-53, 0.5**0.5, 1.0, 2.0**0.5, 2.0]])
    v = np.concatenate([rng.uniform(size=len(x) - 5), [0.0, 0.25, 0.5, 0.75, 1.0]])
    logs, cosines = np.empty_like(x), np.empty_like(v)
    logarithms_and_cosines(x, v, logs, cosines)
    assert_allclose(logs, np.log(x), rtol=1e-15)
    assert_allclose(cosines, np.cos(2 * np.pi * v), rtol=0, atol=2e-15)
    assert_allclose([elementary.log(number) for number in x], logs, rtol=1e-15)  # uncompiled
    assert_allclose([elementary.cosine(number) for number in v], cosines, rtol=0, atol=2e-15)
