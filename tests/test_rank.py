"""n_components="auto": the best model of any rank, proved to be it, whatever the start."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from problems import make_problem
from sklearn.exceptions import ConvergenceWarning

import polyfm
from polyfm import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    FactorizationMachineRegressorCV,
    PolynomialNetworkRegressor,
    certify,
)
from polyfm.core.design import Design
from polyfm.core.model import build_model
from polyfm.solvers import Staircase, registry, run, staircase
from polyfm.training.initial import nothing

AUTO = {"n_components": "auto", "alpha": 1.0, "beta": 2.0, "gap_tol": 1e-3}


def dense(rng, n=120, d=5):
    X = rng.standard_normal((n, d))
    return X, X[:, 0] + 2 * X[:, 1] * X[:, 2] - X[:, 0] * X[:, 3] + 0.3 * rng.standard_normal(n)


def one_hot(rng, n=600, sizes=(12, 9)):
    codes = [rng.randint(0, size, n) for size in sizes]
    columns = np.column_stack([codes[0], codes[1] + sizes[0]])
    X = sp.csr_matrix((np.ones(2 * n), columns.ravel(), np.arange(n + 1) * 2), shape=(n, sum(sizes)))
    effect = rng.standard_normal((sizes[0], 3)) @ rng.standard_normal((3, sizes[1]))
    return X, effect[codes[0], codes[1]] + 0.3 * rng.standard_normal(n)


@pytest.mark.parametrize(
    "model",
    [
        FactorizationMachineRegressor(**AUTO),
        FactorizationMachineRegressor(**AUTO, init_lambdas="random_signs"),
        FactorizationMachineRegressor(**AUTO, method="lifted"),
        FactorizationMachineRegressor(**AUTO, fit_lambdas=True),
        FactorizationMachineRegressor(**AUTO, fit_lower="augment", fit_linear=False),
        FactorizationMachineRegressor(**{**AUTO, "beta": [1.0, 2.0, 2.0, 4.0, 4.0]}),
        PolynomialNetworkRegressor(**AUTO),
        PolynomialNetworkRegressor(**AUTO, method="direct"),
    ],
)
def test_every_kind_of_model_is_trained_to_a_certified_optimum(rng, model):
    X, y = dense(rng)
    weight = rng.randint(0, 3, len(y)).astype(float)
    model.fit(X, y, sample_weight=weight)
    assert model.solver_ == "newton"
    assert 1 <= model.n_components_ == len(model.lambdas_) <= 7
    found = certify(model, X, y, sample_weight=weight)
    assert found.relative_gap <= model.duality_gap_ + 1e-6 < 1.1e-3
    assert found.objective == pytest.approx(model.objective_)
    assert found.rank == model.n_components_


def test_interactions_of_one_feature_with_itself_alone_are_found(rng):
    X = rng.standard_normal((100, 4))
    model = PolynomialNetworkRegressor(**AUTO, fit_lower=None).fit(X, 3 * X[:, 0] ** 2)
    assert model.score(X, 3 * X[:, 0] ** 2) > 0.9
    assert model.duality_gap_ <= 1e-3


def test_no_seed_matters(rng):
    X, y = dense(rng)
    models = [FactorizationMachineRegressor(**AUTO, random_state=seed).fit(X, y) for seed in (None, 0, 1)]
    for model in models[1:]:
        assert_array_equal(model.components_, models[0].components_)
        assert_array_equal(model.coef_, models[0].coef_)


def test_solvers_are_chosen_by_the_data_and_agree(rng):
    X, y = one_hot(rng)
    chosen = FactorizationMachineRegressor(**AUTO).fit(X, y)
    assert chosen.solver_ == "block"
    assert chosen.duality_gap_ <= 1e-3
    other = FactorizationMachineRegressor(**AUTO, solver="lbfgs").fit(X, y)
    assert other.objective_ == pytest.approx(chosen.objective_, rel=1e-3)
    long = sp.csr_matrix(np.hstack([X.toarray(), rng.uniform(size=(600, 4))]))
    of_text = FactorizationMachineRegressor(**{**AUTO, "gap_tol": 1e-2}).fit(long, y)
    assert of_text.solver_ == "lbfgs"
    assert of_text.duality_gap_ <= 1e-2


def test_many_bases_on_one_hot_fields_are_trained_by_another_solver_to_the_same_end(rng, monkeypatch):
    X, y = one_hot(rng)
    blocks = FactorizationMachineRegressor(**AUTO).fit(X, y)
    monkeypatch.setattr(registry, "MANY_BASES", 2)
    model, design = build_model("anova", "direct", 2, 1, None, True, True), Design(X)
    assert [registry.automatic_local(model, design, rank=rank) for rank in (1, 2)] == ["block", "lbfgs"]
    other = FactorizationMachineRegressor(**AUTO).fit(X, y)
    assert other.n_components_ >= 2
    assert other.duality_gap_ <= 1e-3
    assert other.objective_ == pytest.approx(blocks.objective_, rel=1e-3)


def test_many_features_take_no_matrix_of_all_pairs(rng, monkeypatch):
    from polyfm.core.spectrum import Curvature

    monkeypatch.delattr(Curvature, "dense")
    X, y = one_hot(rng, 3000, (600, 500))
    model = FactorizationMachineRegressor(n_components="auto", alpha=1.0, beta=2.5).fit(X, y)
    assert model.duality_gap_ <= 1e-2
    assert certify(model, X, y).relative_gap <= 1.2e-2


def test_classes_have_ranks_of_their_own(rng):
    X, y = dense(rng)
    classes = np.digitize(y, [-1.5, 1.0])
    model = FactorizationMachineClassifier(n_components="auto", alpha=1.0, beta=1.0).fit(X, classes)
    assert model.components_.shape == (3, model.n_components_, 5)
    found = certify(model, X, classes)
    assert found.relative_gap == pytest.approx(model.duality_gap_, abs=1e-6)
    assert model.duality_gap_ <= 1e-2


@pytest.mark.slow
def test_single_precision(rng):
    X, y = dense(rng)
    single = FactorizationMachineRegressor(**AUTO).fit(X.astype(np.float32), y)
    assert single.components_.dtype == np.float32
    assert single.duality_gap_ <= 1e-3


def test_a_strong_penalty_leaves_no_interactions(rng):
    X, y = dense(rng)
    strong = FactorizationMachineRegressor(**{**AUTO, "beta": 1e4}).fit(X, y)
    assert strong.n_components_ == 1
    assert not strong.components_.any()
    assert strong.duality_gap_ < 1e-9


def test_too_few_bases_are_told(rng):
    X, y = dense(rng)
    with pytest.warns(ConvergenceWarning, match="duality gap is .* with 1 bases"):
        model = FactorizationMachineRegressor(**{**AUTO, "beta": 0.5}, max_components=1).fit(X, y)
    assert model.n_components_ == 1
    assert model.duality_gap_ > 1e-2


def test_warm_starts_go_on_from_any_number_of_bases(rng):
    X, y = dense(rng)
    given = {"alpha": 1.0, "beta": 2.0, "tol": 1e-9, "max_iter": 500, "random_state": 0, "warm_start": True}
    model = FactorizationMachineRegressor(n_components=7, **given).fit(X, y)
    assert not hasattr(model, "n_components_")
    model.set_params(n_components="auto", gap_tol=0.5).fit(X, y)
    assert model.n_iter_ == 1
    assert model.n_components_ <= 5
    model.set_params(gap_tol=1e-5).fit(X, y)
    assert model.duality_gap_ <= 1e-5
    with pytest.raises(ValueError, match="other shapes"):
        model.fit(X[:, :4], y)


def test_progress_says_gap_and_rank(rng, capsys):
    X, y = dense(rng)
    FactorizationMachineRegressor(**AUTO, verbose=1).fit(X, y)
    assert "gap" in capsys.readouterr().out.splitlines()[-1]


def started(rng):
    X, y = dense(rng)
    problem, _ = make_problem(X, y, "anova", "direct", 2, k=10, alpha=1.0, beta=0.5)
    return problem, nothing(problem)


def test_stairs_go_down_and_a_stop_between_them_keeps_what_belongs_together(rng):
    problem, start = started(rng)
    solver = Staircase(gap_tol=1e-6)
    whole = run(solver, problem, start, max_iter=50, tol=0)
    assert whole.converged
    assert np.all(np.diff(whole.history) <= 1e-9 * whole.history[0])
    assert whole.learned["gap"][0] <= 1e-6 * whole.history[-1]

    def stop(monitor, state):
        raise KeyboardInterrupt

    halted = run(solver, problem, start, max_iter=50, tol=0, hooks=(stop,))
    assert halted.interrupted
    assert halted.history[-1] == pytest.approx(solver.value(problem, halted.parameters))
    assert halted.history[-1] - halted.learned["gap"][0] <= whole.history[-1]


def test_ctrl_c_within_a_stair_ends_all(rng, monkeypatch):
    problem, start = started(rng)
    inner = staircase.run_in_place
    monkeypatch.setattr(staircase, "run_in_place", lambda *a, **k: inner(*a, **k)._replace(interrupted=True))
    halted = run(Staircase(gap_tol=1e-6), problem, start, max_iter=50, tol=0)
    assert halted.interrupted
    assert halted.n_iter <= 1
    assert np.isfinite(halted.learned["gap"][0])


def test_a_search_along_beta_finds_a_rank(rng, tmp_path):
    X, y = dense(rng)
    search = FactorizationMachineRegressorCV(n_components="auto", alpha=1.0, cv=3, n_betas=3).fit(X, y)
    assert search.n_components_ == len(search.lambdas_)
    assert search.duality_gap_ <= 1e-2
    polyfm.save_model(search, tmp_path / "model.polyfm")
    loaded = polyfm.load_model(tmp_path / "model.polyfm")
    assert_array_equal(loaded.predict(X), search.predict(X))
    plain = FactorizationMachineRegressor(n_components="auto").fit(X, y)
    polyfm.save_model(plain, tmp_path / "plain.polyfm")
    loaded = polyfm.load_model(tmp_path / "plain.polyfm")
    assert loaded.n_components == "auto"
    assert loaded.n_components_ == plain.n_components_
    assert loaded.duality_gap_ == plain.duality_gap_


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"degree": 3}, "degree=2"),
        ({"solver": "sgd"}, "solver"),
        ({"early_stopping": True}, "early_stopping"),
        ({"checkpoint": "file"}, "checkpoint"),
        ({"init_lambdas": [1.0]}, "init_lambdas"),
        ({"beta": 0.0}, "beta > 0"),
        ({"alpha": 0.0}, "alpha > 0"),
        ({"n_components": "many"}, "n_components"),
        ({"gap_tol": 0.0}, "gap_tol"),
        ({"max_components": 0}, "max_components"),
    ],
)
def test_what_cannot_go_with_it_is_refused(rng, change, words):
    X, y = dense(rng)
    with pytest.raises(ValueError, match=words):
        FactorizationMachineRegressor(**{**AUTO, **change}).fit(X, y)
