"""Rows in parts: the ordinary models, whoever has which part."""

import functools
import itertools
import math
import pickle
import sys

import numpy as np
import pytest
from in_parts import FMClassifier, FMRegressor, PNRegressor, by_pickle, chunks_of, ratings
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import polyfm
from polyfm import FactorizationMachineClassifier, FactorizationMachineRegressor, PolynomialNetworkRegressor
from polyfm.distributed import block, penalties, tree
from polyfm.distributed.chunk import Chunk
from polyfm.distributed.engine import InProcess
from polyfm.training import checkpoint
from polyfm.training.recipe import Recipe

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
CUTS = (200, 201, 201, 900)  # one row alone, and none
FIXED = {"alpha": 1.0, "beta": 1.0, "n_components": 4, "max_iter": 8, "tol": 0.0, "random_state": 0}


def assert_same(found, expected, rtol=1e-9):
    assert_allclose(found.history_, expected.history_, rtol=rtol)
    scale = np.abs(expected.components_).max()
    assert_allclose(found.components_, expected.components_, rtol=rtol, atol=rtol * scale)
    assert_allclose(found.coef_, expected.coef_, rtol=rtol, atol=rtol * scale)


# -- sums -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7, 16, 21])
def test_sums_do_not_depend_on_who_adds_up_what(n_parts):
    values = np.random.RandomState(0).standard_normal((n_parts, 5)) * 10.0 ** np.arange(n_parts)[:, None]
    found = set()
    for seed in range(6):
        rng = np.random.RandomState(seed)
        owner, whole = rng.randint(4, size=n_parts), tree.Tree(n_parts, "sum")
        for worker in rng.permutation(4):
            own = tree.Tree(n_parts, "sum")
            own.put_all(((0, int(i)), values[i].copy()) for i in rng.permutation(np.flatnonzero(owner == worker)))
            whole.put_all(own.waiting.items())
        found.add(whole.root.tobytes())
        assert_allclose(whole.root, values.sum(axis=0))
    assert len(found) == 1


def test_fields_are_the_fewest_ranges_that_rows_have_one_feature_of():
    X, y = ratings(300)
    for columns in ([*range(54)], [*range(30), *range(34, 54), *range(30, 34)]):
        data = FMRegressor(cuts=(100, 250), **FIXED).fit(X[:, columns], y)
        design = polyfm.distributed.rows.RowsInParts(
            data, InProcess(chunks_of(X[:, columns], y, cuts=(100, 250)))
        ).design
        bounds = block.fields_of(design)
        dense = X[:, columns].toarray()
        for lo, hi in bounds:
            assert dense[:, lo:hi].sum(axis=1).max() == 1
        for (lo, hi), _ in itertools.pairwise(bounds):
            assert dense[:, lo : hi + 1].sum(axis=1).max() == 2  # none could be larger


# -- the same models --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["lbfgs", "block"])
@pytest.mark.parametrize(
    "options",
    [{}, {"fit_lambdas": True}, pytest.param({"fit_lower": "augment"}, marks=pytest.mark.slow)],
    ids=str,
)
def test_parts_give_the_model_of_all_rows(solver, options):
    X, y = ratings()
    options = {**FIXED, "solver": solver, **options}
    expected = FactorizationMachineRegressor(**options).fit(X, y)
    found = FMRegressor(cuts=CUTS, n_workers=2, **options).fit(X, y)
    assert_same(found, expected)
    again = FMRegressor(cuts=CUTS, n_workers=3, sent=lambda value: value, **options).fit(X, y)
    assert_array_equal(again.components_, found.components_)  # to the bit
    assert_array_equal(again.history_, found.history_)
    assert_allclose(found.predict(X), expected.predict(X))


def test_classes_weights_and_dense_rows_are_the_same_too():
    rng = np.random.RandomState(0)
    X, weight = rng.standard_normal((600, 6)), rng.uniform(0.5, 2, 600)
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] * X[:, 1] + X[:, 2], [-0.5, 0.5])]
    options = {**FIXED, "solver": "lbfgs", "class_weight": "balanced"}
    expected = FactorizationMachineClassifier(**options).fit(X, y, weight)
    found = FMClassifier(cuts=(100, 350), **options).fit(X, y, weight)
    assert_same(found, expected)
    assert_allclose(found.predict_proba(X), expected.predict_proba(X))
    assert found.classes_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("method", ["direct", pytest.param("lifted", marks=pytest.mark.slow)])
def test_networks_of_degree_3_are_the_same_too(method):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((400, 4))
    y = X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3] ** 2
    options = {**FIXED, "solver": "lbfgs", "degree": 3, "method": method}
    assert_same(
        PNRegressor(cuts=(100, 350), **options).fit(X, y), PolynomialNetworkRegressor(**options).fit(X, y), 1e-8
    )


class Huber:  # at the top of a module, and sent by value all the same where it is not
    curvature, residual = 1.0, True

    def value(self, y, f):
        r = abs(f - y)
        return 0.5 * r * r if r <= 1 else r - 0.5

    def derivative(self, y, f):
        return max(-1.0, min(1.0, f - y))


def test_a_loss_of_ones_own_goes_to_the_parts():
    X, y = ratings(300)
    options = {**FIXED, "solver": "lbfgs", "loss": Huber(), "max_iter": 3}
    expected = FactorizationMachineRegressor(**options).fit(X, y)
    assert_same(FMRegressor(cuts=(100,), **options).fit(X, y), expected)


def test_few_rows_choose_the_penalties_of_the_ordinary_estimator():
    X, y = ratings(600)
    options = {**FIXED, "alpha": "auto", "beta": "auto", "solver": "lbfgs"}
    expected = FactorizationMachineRegressor(**options).fit(X, y)
    found = FMRegressor(cuts=(100, 350), **options).fit(X, y)
    assert_allclose([found.alpha_, found.beta_], [expected.alpha_, expected.beta_], rtol=1e-6)
    assert_same(found, expected, 1e-6)


@pytest.mark.parametrize("classify", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_many_rows_choose_from_a_sample_and_from_sums(monkeypatch, classify):
    X, y = ratings(3000)
    y = y > 0 if classify else y
    kind, plain = (
        (FMClassifier, FactorizationMachineClassifier) if classify else (FMRegressor, FactorizationMachineRegressor)
    )
    options = {**FIXED, "alpha": "auto", "beta": "auto", "max_iter": 40, "tol": 1e-4}
    monkeypatch.setattr(penalties, "NONZEROS_OF_A_SAMPLE", X.nnz // 3)
    found = kind(cuts=CUTS, **options).fit(X, y)
    expected = plain(**options).fit(X, y)
    assert 0.1 < found.beta_ / expected.beta_ < 10
    assert found.score(X, y) > expected.score(X, y) - 0.05


def test_scales_from_sums_are_those_of_all_rows():
    X, y = ratings(600)
    seen = {}
    for n in (1, 3):
        model = FMRegressor(**{**FIXED, "alpha": "auto", "beta": "auto"}, cuts=(100, 350)[: n - 1])
        data = polyfm.distributed.rows.RowsInParts(model, InProcess(chunks_of(X, y, cuts=model.cuts)))
        recipe = model._recipe(54).with_penalties(1.0, None)
        whole = penalties.WholeInParts(recipe, data.design, 1, np.array([0]))
        linear = whole.linear_models(1.0, None)
        seen[n] = whole.mean_curvature(), linear[0], whole.penalty_scales(linear)[0]
    from polyfm.training import automatic, scales

    rows = scales.Rows(X, [y], None)
    plain = automatic.Whole(recipe.of_kind(Recipe), None, rows, np.array([0]))
    expected = plain.linear_models(1.0, None)
    for found in seen.values():
        assert_allclose(found[0], plain.mean_curvature())
        assert_allclose(found[1].coef, expected[0].coef, atol=1e-2 * np.abs(expected[0].coef).max())
        assert_allclose(found[2], plain.penalty_scales(expected)[0], rtol=0.03)


# -- the rest of a fit ------------------------------------------------------------------------------------------------


def test_rows_are_held_out_for_early_stopping_in_every_part():
    X, y = ratings()
    model = FMRegressor(cuts=CUTS, early_stopping=True, n_iter_no_change=2, **{**FIXED, "max_iter": 30}).fit(X, y)
    assert len(model.validation_losses_) == model.n_iter_
    judged = FMRegressor(cuts=CUTS, early_stopping=True, **FIXED).fit(
        X[:1200], y[:1200], X_val=X[1200:], y_val=y[1200:]
    )
    assert_allclose(
        min(judged.validation_losses_), 0.5 * np.mean((judged.predict(X[1200:]) - y[1200:]) ** 2), rtol=1e-9
    )


@pytest.mark.parametrize("solver", ["lbfgs", "block"])
def test_training_goes_on_from_a_checkpoint(tmp_path, monkeypatch, solver):
    X, y = ratings(600)
    options = {**FIXED, "cuts": (100, 350), "solver": solver}
    whole = FMRegressor(**options).fit(X, y)
    model = FMRegressor(checkpoint=tmp_path / "run", checkpoint_interval=1, **options)
    write, n_writes = checkpoint.write_checkpoint, []

    class Killed(BaseException):
        pass

    def killed(*arguments):
        write(*arguments)
        n_writes.append(1)
        if len(n_writes) == 3:
            raise Killed

    monkeypatch.setattr(checkpoint, "write_checkpoint", killed)
    with pytest.raises(Killed):
        model.fit(X, y)
    model = clone(model).fit(X, y)
    assert_array_equal(model.components_, whole.components_)
    assert not (tmp_path / "run").exists()


def test_ctrl_c_keeps_the_model_so_far(monkeypatch):
    X, y = ratings(600)
    asked, ask = [], InProcess.answers

    def interrupted(self, call):
        asked.append(call.method)
        if asked.count("loss_and_gradient") == 5:
            asked.append("loss_and_gradient")
            raise KeyboardInterrupt
        return ask(self, call)

    monkeypatch.setattr(InProcess, "answers", interrupted)
    with pytest.warns(UserWarning, match="interrupted"):
        model = FMRegressor(cuts=(100, 350), **FIXED).fit(X, y)
    assert 0 < model.n_iter_ < FIXED["max_iter"]
    assert_allclose(model.objective_, model.history_[-1])


def test_epochs_tell_rounds_and_bytes(capsys):
    X, y = ratings(300)
    FMRegressor(cuts=(100,), verbose=1, **{**FIXED, "max_iter": 2}).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert all("objective" in line and "round" in line and "MB" in line for line in lines)


def test_what_comes_back_is_the_ordinary_estimator(tmp_path):
    X, y = ratings(300)
    model = FMRegressor(cuts=(100,), **FIXED).fit(X, y)
    local = model.to_local()
    assert type(local) is FactorizationMachineRegressor
    polyfm.save_model(local, tmp_path / "model.polyfm")
    assert_array_equal(polyfm.load_model(tmp_path / "model.polyfm").predict(X), model.predict(X))


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_bad_values_are_named_by_partition_and_row():
    X, y = ratings(300)
    wrong = X.copy()
    wrong.data[3 * 210] = np.nan
    with pytest.raises(ValueError, match=r"Partition 1: row 110: X has a value that is not finite"):
        FMRegressor(cuts=(100,), **FIXED).fit(wrong, y)
    with pytest.raises(ValueError, match=r"Partition 1: row 5: y is not finite"):
        FMRegressor(cuts=(100,), **FIXED).fit(X, np.where(np.arange(300) == 105, np.inf, y))
    with pytest.raises(ValueError, match=r"Partition 0: row 7: the weight is -1"):
        FMRegressor(cuts=(100,), **FIXED).fit(X, y, np.where(np.arange(300) == 7, -1.0, 1.0))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "b", None, "a"], "Partition 1: row 0: y is missing"),
        (["a", "b", float("nan"), "a"], "Partition 1: row 0: y is missing"),
        (["a", "b", 1, "a"], "Partition 1: y has labels of several types: int, str"),
        (["a", "b", 1, 2], "Labels are texts in partition 0, and numbers in partition 1"),
    ],
)
def test_labels_that_are_none_are_refused(labels, message):
    model = FMClassifier(cuts=(2,), **FIXED)
    with pytest.raises(ValueError, match=message):
        model.fit(np.eye(4), np.array(labels, dtype=object))


@pytest.mark.parametrize(("weight", "left"), [(None, "hold out"), (np.arange(40) == 3, "hold out")])
def test_early_stopping_needs_rows_to_judge_by(weight, left):
    X, y = ratings(40)
    model = FMRegressor(cuts=(10,), early_stopping=True, validation_fraction=1e-6, **FIXED)
    with pytest.raises(ValueError, match=f"Of 40 rows, no row that has a weight is left to {left}"):
        model.fit(X, y, weight)


def test_sparse_rows_of_any_format_are_told_apart(tmp_path):
    X, y = ratings(60)
    chunks = [Chunk(0, X.asformat(kind), y) for kind in ("csr", "coo", "lil")]
    assert len({chunk.digest() for chunk in chunks}) == 1
    assert all(sys.getsizeof(chunk) > 60 * 3 * 12 for chunk in chunks)
    assert Chunk(0, X[::-1].tocoo(), y).digest() != chunks[0].digest()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda chunks: chunks[1].__init__(1, chunks[1].X[:, :-1], chunks[1].y),
            "Partition 0 has 54 features, partition 1",
        ),
        (
            lambda chunks: chunks[1].__init__(1, chunks[1].X, chunks[1].y[1:]),
            "Partition 1: X has 200 rows, but y has 199",
        ),
        (lambda chunks: chunks.__setitem__(slice(None), chunks_of(*(a[:0] for a in ratings(9)))), "There are no rows"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(change, message):
    chunks = chunks_of(*ratings(300), cuts=(100,))
    change(chunks)
    with pytest.raises(ValueError, match=message):
        FMRegressor(**FIXED)._fit_parts(InProcess(chunks))


def test_what_needs_all_rows_in_one_place_is_refused():
    X, y = ratings(60)
    with pytest.raises(ValueError, match="solver='cd' needs all rows on one machine"):
        FMRegressor(solver="cd").fit(X, y)
    with pytest.raises(ValueError, match="n_components='auto' needs"):
        FMRegressor(n_components="auto").fit(X, y)
    with pytest.raises(ValueError, match="at least 2 classes"):
        FMClassifier(**FIXED).fit(X, np.ones(60))
    with pytest.raises(ValueError, match="one-hot fields"):
        FMRegressor(solver="block", **FIXED).fit(np.ones((60, 201)), y)
    assert isinstance(pickle.loads(pickle.dumps(FMRegressor(sent=by_pickle))), FMRegressor)
    assert math.isclose(functools.reduce(tree.add, [0.5, 0.25]), 0.75)
