"""Features that never occur together: how they are found, and that threads over them change no bit of the result."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from problems import make_problem

from polyfm import FactorizationMachineRegressor
from polyfm.core import row_order
from polyfm.core.design import NONZEROS_OF_A_SHORT_ROW, Design
from polyfm.loops import arrange
from polyfm.solvers import CoordinateDescent, run, schedule
from polyfm.solvers.schedule import Schedule


def one_hot(rng, n: int, sizes, shuffled: bool):
    """Rows with one feature of each field; with `shuffled`, the fields' columns are mixed."""
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    columns = np.column_stack([rng.randint(size, size=n) + start for size, start in zip(sizes, starts, strict=True)])
    if shuffled:
        columns = rng.permutation(sum(sizes))[columns]
    X = sp.csr_matrix((np.ones(columns.size), columns.ravel(), np.arange(0, columns.size + 1, len(sizes))))
    X.sort_indices()
    return X


@pytest.fixture
def threads_pay(monkeypatch):
    """Let even tiny groups be shared out."""
    monkeypatch.setattr(schedule, "NONZEROS_WORTH_A_THREAD", 1)


@pytest.fixture(params=["down columns", "piece by piece", "along samples"])
def way(request, monkeypatch):
    """All ways to go through X."""
    monkeypatch.setattr(row_order, "SAMPLES_BEYOND_CACHE", 1 if request.param == "along samples" else 10**9)
    monkeypatch.setattr(row_order, "BLOCKS_AT_ONCE", 8 if request.param == "piece by piece" else 10**6)
    monkeypatch.setattr(schedule, "SAMPLES_OF_A_RARE_FEATURE", 1)
    return request.param


@given(st.integers(0, 2**31 - 1), st.integers(1, 40), st.integers(1, 90), st.floats(0.0, 0.6))
@settings(max_examples=60, deadline=None)
def test_columns_of_one_colour_share_no_row(seed, n, d, density):
    X = sp.random(n, d, density=density, format="csc", random_state=np.random.RandomState(seed))
    colours = arrange.colour(*Design(X).columns[:2], n)
    present = X.toarray() != 0
    for c in np.unique(colours[colours < schedule.N_COLOURS]):
        assert present[:, colours == c].sum(axis=1).max(initial=0) <= 1
    for j in np.flatnonzero(present.any(axis=0)):  # greedy: no smaller colour was free
        neighbours = set(colours[:j][(present[:, :j] & present[:, [j]]).any(axis=0)])
        assert all(c in neighbours for c in range(colours[j]))


@pytest.mark.parametrize(("fields", "width"), [(1, 30), (2, 9), (5, 70), (64, 3), (65, 2)])
def test_fields_side_by_side_have_the_colours_of_the_greedy_colouring(rng, fields, width):
    codes = rng.randint(width, size=(50, fields)) + (width + 1) * np.arange(fields)  # many columns are empty
    X = sp.csr_matrix((np.ones(codes.size), codes.ravel(), np.arange(0, codes.size + 1, fields)))
    for Z in (X, X[:, ::-1].tocsr(), sp.vstack([X, X[:1] * 0]).tocsr()):
        design = Design(Z)
        colours = schedule.colours_of(design)
        assert_array_equal(colours, arrange.colour(*design.columns[:2], Z.shape[0]))
        assert colours.dtype == np.uint8


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_rows_lie_by_blocks_of_first_features_then_by_the_second(monkeypatch, rng, index):
    monkeypatch.setattr(row_order, "ROWS_A_BLOCK", 10)
    X = sp.random(300, 40, 0.06, format="csr", random_state=rng)  # rows without any feature among them
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    first, second = ([row.indices[k] if row.nnz > k else 0 for row in X] for k in (0, 1))
    before = np.array([np.sum(np.array(first) <= f) for f in first])
    block = (before - 1) * row_order.n_row_blocks(300) // 300
    order = row_order.locality_order(X)
    assert_array_equal(order, np.lexsort((first, second, block)))
    assert_array_equal(row_order.in_order(X, order, False).toarray(), X.toarray()[order])
    assert row_order.locality_order(X[order]) is None


@pytest.mark.usefixtures("threads_pay")
def test_one_hot_fields_are_groups(rng):
    X = one_hot(rng, 200, [11, 7, 5], shuffled=False)
    groups = Schedule(Design(X)).groups
    assert groups.order is None
    assert_array_equal(groups.bounds, [0, 11, 18, 23])
    mixed = Schedule(Design(one_hot(rng, 200, [11, 7, 5], shuffled=True))).groups
    assert_array_equal(np.sort(mixed.order), np.arange(23))


@pytest.mark.usefixtures("threads_pay")
def test_text_and_dense_data_have_no_groups(rng):
    text = sp.random(300, 200, density=0.3, format="csr", random_state=rng)
    assert Schedule(Design(text)).groups is None
    assert Schedule(Design(text.toarray())).groups is None


@pytest.mark.usefixtures("threads_pay")
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_shares_are_all_columns_once_and_about_equal(rng, n):
    view = Schedule(Design(one_hot(rng, 5000, [300, 200], shuffled=True)))
    sizes = np.diff(view.design.columns.indptr.astype(int))[view.groups.order]
    shares = view.shares(n)
    assert_array_equal(shares[:, 0], view.groups.bounds[:-1])
    assert_array_equal(shares[:, -1], view.groups.bounds[1:])
    for group in shares:
        loads = [sizes[a:b].sum() for a, b in itertools.pairwise(group)]
        assert max(loads) - min(loads) <= 2 * sizes.max()


@given(st.integers(0, 2**31 - 1), st.integers(1, 60), st.integers(1, 30), st.floats(0.0, 0.5), st.booleans())
@settings(max_examples=60, deadline=None)
def test_rows_are_sorted_by_block_and_second_feature(seed, n, d, density, binary):
    X = sp.random(n, d, density=density, format="csr", random_state=np.random.RandomState(seed))
    X.data[:] = 1.0 if binary else X.data
    padded = [[*X.indices[lo:hi], 0, 0] for lo, hi in itertools.pairwise(X.indptr)]  # 0 for what a row lacks
    first, second = (np.array([row[place] for row in padded]) for place in (0, 1))
    last_of = np.array([np.sum(first <= j) - 1 for j in range(d)])  # the last row of each first feature
    block = np.array([last_of[j] * row_order.n_row_blocks(n) // n for j in first])
    expected = np.lexsort((first, second, block))  # the first key last
    view = Design(X, "sorted")
    order = np.arange(n) if view.order is None else view.order
    if X.nnz > 0 and (binary or X.nnz <= NONZEROS_OF_A_SHORT_ROW * n):
        assert_array_equal(order, expected)
    indptr, indices, data = view.rows
    by_row = sp.csr_matrix((np.ones(X.nnz) if data is None else data, indices, indptr), (n, d))
    assert_array_equal(by_row.toarray(), X.toarray()[order])
    assert_array_equal(view.columns.indptr, np.append(0, np.cumsum((X != 0).sum(axis=0))))


@pytest.mark.usefixtures("threads_pay")
def test_features_of_a_piece_occur_in_it_alone(rng, monkeypatch):
    monkeypatch.setattr(row_order, "ROWS_A_BLOCK", 64)
    X = one_hot(rng, 1000, [40, 30], shuffled=False)[:, 1:]  # some rows have no feature of the first field
    X.data[(X.indices >= 20) & (X.indices < 25)] = 0  # and some features no row
    X.eliminate_zeros()
    view = Design(X, "sorted")
    groups, (rows, columns, _) = Schedule(view).groups, Schedule(view).plan()
    assert len(rows) > 4
    assert (rows[0], rows[-1]) == (0, 1000)
    assert (columns[0], columns[-1]) == (0, groups.bounds[1])
    for p, (lo, hi) in enumerate(itertools.pairwise(rows)):
        for c in range(columns[p], columns[p + 1]):
            j = c if groups.order is None else groups.order[c]
            entries = view.columns.indices[view.columns.indptr[j] : view.columns.indptr[j + 1]]
            assert np.all((entries >= lo) & (entries < hi))


@pytest.mark.usefixtures("threads_pay")
@pytest.mark.parametrize(
    ("kernel", "method", "loss", "degree", "lower", "shuffled"),
    [
        ("anova", "direct", "squared", 2, "explicit", False),
        ("anova", "direct", "squared", 2, "explicit", True),
        ("anova", "lifted", "logistic", 2, "augment", True),
        ("homogeneous", "lifted", "logistic", 3, "augment", False),
    ],
)
def test_threads_change_no_bit(rng, way, kernel, method, loss, degree, lower, shuffled):
    X = one_hot(rng, 400, [12, 9, 6], shuffled)
    y, weight = np.sign(rng.standard_normal(400)), rng.uniform(0.5, 2, 400)
    problem, start = make_problem(X, y, kernel, method, degree, lower, loss=loss, weight=weight)
    plan = problem.design.derived(Schedule)
    assert plan.groups is not None
    assert (plan.fields is not None) == (way == "along samples")
    if not shuffled:
        assert (plan.plan().columns[-1] > 0) == (way == "piece by piece")
    results = [run(CoordinateDescent(n_threads=n), problem, start, max_iter=3, tol=0.0) for n in (1, 2, 20)]
    for one, other in itertools.pairwise(results):
        assert_array_equal(one.history, other.history)
        for a, b in zip(one.parameters.factors, other.parameters.factors, strict=True):
            assert_array_equal(a, b)
        assert_array_equal(one.parameters.coef, other.parameters.coef)
    assert np.all(np.diff(results[0].history) <= 0)


@pytest.mark.usefixtures("threads_pay")
@pytest.mark.parametrize(
    ("kernel", "method", "degree", "loss", "dtype", "gaps"),
    [
        ("anova", "direct", 2, "squared", np.float64, True),
        ("anova", "direct", 3, "squared", np.float32, False),
        ("anova", "lifted", 2, "logistic", np.float64, False),
        ("homogeneous", "lifted", 3, "logistic", np.float64, True),
    ],
)
def test_along_samples_is_down_columns(rng, monkeypatch, kernel, method, degree, loss, dtype, gaps):
    """The same updates in another order of memory; with gaps and values, or full and all ones."""
    X = one_hot(rng, 400, [12, 9, 6], shuffled=True).astype(dtype)
    if gaps:
        X.data = rng.uniform(-1, 1, X.nnz).astype(dtype)
        X.data[rng.uniform(size=X.nnz) < 0.2] = 0.0
        X.eliminate_zeros()
    y = np.sign(rng.standard_normal(400)).astype(dtype)
    histories = []
    for streams in (1, 10**9):
        monkeypatch.setattr(row_order, "SAMPLES_BEYOND_CACHE", streams)
        monkeypatch.setattr(schedule, "SAMPLES_OF_A_RARE_FEATURE", 1)
        problem, start = make_problem(X, y, kernel, method, degree, "augment", loss=loss, order="given")
        assert (problem.design.derived(Schedule).fields is None) == (streams > 400)
        histories.append(run(CoordinateDescent(), problem, start, max_iter=3, tol=0.0).history)
    assert_allclose(*histories, rtol=1e-12 if dtype == np.float64 else 1e-5)
    assert np.all(np.diff(histories[0]) < 0)


@pytest.mark.usefixtures("threads_pay")
def test_n_jobs_of_an_estimator_changes_no_bit(rng):
    X = one_hot(rng, 500, [20, 15], shuffled=False)
    y = rng.standard_normal(500)
    one, two = (FactorizationMachineRegressor(n_jobs=n, max_iter=5, random_state=0).fit(X, y) for n in (1, 2))
    assert_array_equal(one.components_, two.components_)
    assert_array_equal(one.predict(X), two.predict(X))
