"""The paper's experiments in their quick form: the files, going on where they were left, and that they make sense."""

import csv
import json
import threading
from dataclasses import replace

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

pytest.importorskip("matplotlib")
pytest.importorskip("click")
from click.testing import CliRunner

from polyfm.cli.main import cli
from polyfm.core.design import Design
from polyfm.core.problem import Problem
from polyfm.datasets import Split
from polyfm.losses import Squared
from polyfm.reproduce import COMMANDS, Experiment, figure2, run, search, traces
from polyfm.reproduce.data import read, scaled, stand_in
from polyfm.reproduce.experiment import versions

EXPERIMENTS = {experiment.name: experiment for group in COMMANDS.values() for experiment in group}
# Each solver, kernel and loss is compiled for some seconds: of the quick grids, what no other test here covers.
TESTED = {
    "figure2": {"kernel": ["A^2"], "method": ["lifted cd", "direct cd"]},
    "figure3-one-penalty": {"bases": [4], "model": ["A^2 (linear combination)"]},
    "figure4": {"model": ["H^m", "Nystroem", "random selection", "kernel ridge"]},
    "theorem2": {"set": ["diabetes"], "kernel": ["A^2"]},
    "beyond-degrees": {"model": ["Nystroem", "kernel ridge"]},
    "beyond-classes": {"model": ["FM", "linear", "Nystroem"]},
}
COLUMNS = {
    "figure1": {"set", "kernel", "lambdas", "seed", "epoch", "seconds", "objective", "relative_objective"},
    "figure2": {"set", "kernel", "method", "seed", "epoch", "seconds", "objective", "relative_objective"},
    "figure3": {"set", "model", "bases", "seed", "beta", "cv_rmse", "test_rmse", "epochs"},
    "figure3-one-penalty": {"set", "model", "bases", "seed", "beta", "cv_rmse", "test_rmse", "epochs"},
    "figure4": {"set", "degree", "model", "bases", "seed", "beta", "cv_r2", "test_r2", "epochs"},
    "theorem2": {
        "set",
        "kernel",
        "objective",
        "part",
        "seed",
        "beta",
        "minimum",
        "lower_bound",
        "relative_gap",
        "rank",
        "null",
        "above_bound",
    },
    "beyond-degrees": {"set", "degree", "model", "bases", "seed", "beta", "cv_r2", "test_r2"},
    "beyond-classes": {"set", "loss", "model", "bases", "seed", "beta", "cv_auc", "accuracy", "auc", "log_loss"},
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Rows and circumstances of each experiment's quick run, without any data files."""
    folder = tmp_path_factory.mktemp("reproduced")
    results = {}

    def output(name):
        if name not in results:
            experiment = EXPERIMENTS[name]
            experiment = replace(experiment, quick_grid={**experiment.quick_grid, **TESTED.get(name, {})})
            table, circumstances, picture = run(experiment, folder, folder, quick=True)
            with open(table, newline="") as file:
                results[name] = list(csv.DictReader(file)), json.loads(circumstances.read_text()), picture
        return results[name]

    return output


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_writes_a_table_its_circumstances_and_a_picture(outputs, name):
    rows, circumstances, picture = outputs(name)
    assert set(rows[0]) == COLUMNS[name]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000
    assert circumstances["quick"] is True
    assert circumstances["versions"] == versions()
    assert circumstances["seeds"] == circumstances["settings"]["seed"]
    assert circumstances["cores"] >= 1
    assert 0 < circumstances["seconds"]["longest cell"] <= circumstances["seconds"]["all cells"]
    made_up = [d["label"].startswith("synthetic stand-in") for d in circumstances["data"].values()]
    assert all(made_up) == (name not in ("figure1", "theorem2"))
    assert str(picture.parent) not in json.dumps(circumstances)


def test_the_objective_of_coordinate_descent_never_increases_and_times_do_not_run_back(outputs):
    for name, kernels in (("figure1", ("kernel", "lambdas", "seed")), ("figure2", ("kernel", "method", "seed"))):
        curves: dict[tuple, list] = {}
        for row in outputs(name)[0]:
            curves.setdefault(tuple(row[c] for c in kernels), []).append(row)
        for coordinates, curve in curves.items():
            objectives = np.array([float(row["objective"]) for row in curve])
            times = np.array([float(row["seconds"]) for row in curve])
            epochs = [int(row["epoch"]) for row in curve]
            assert epochs[:5] == [0, 1, 2, 3, 4]
            assert np.all(np.diff(epochs) > 0)
            assert times[0] == 0
            assert np.all(np.diff(times) > 0)
            assert objectives[-1] < objectives[0]
            if coordinates[0] == "A^2":
                assert np.all(np.diff(objectives) <= 1e-9 * objectives[:-1]), coordinates


def test_tables_of_curves_are_short_and_keep_how_runs_end_and_when_they_come_near_the_lowest():
    curves = {0: [100 / (1 + epoch) for epoch in range(1000)], 1: [50 + epoch / 7 for epoch in range(5)]}
    rows = [
        {"kernel": "A^2", "seed": seed, "epoch": epoch, "seconds": epoch / 3, "objective": objective}
        for seed, curve in curves.items() for epoch, objective in enumerate(curve)
    ]  # fmt: skip
    table = traces.thinned(rows)
    assert len(table) < 30
    runs = {seed: [row for row in table if row["seed"] == seed] for seed in curves}
    assert [row["epoch"] for row in runs[1]] == [0, 1, 2, 3, 4]
    assert [row["epoch"] for row in runs[0]][:13] == [0, 1, 2, 3, 4, 6, 10, 16, 25, 40, 63, 100, 158]
    assert [row["epoch"] for row in runs[0]][-1] == 999
    for part in (0.1, 0.02):
        first = next(row for row in rows if row["objective"] <= (1 + part) * curves[0][-1])
        assert first["epoch"] in [row["epoch"] for row in runs[0]]
    assert runs[0][1] == {"kernel": "A^2", "seed": 0, "epoch": 1, "seconds": 0.333333, "objective": 50.0}


def test_relative_objectives_start_at_one(outputs):
    for name in ("figure1", "figure2"):
        start = [float(row["relative_objective"]) for row in outputs(name)[0] if row["epoch"] == "0"]
        assert max(start) == 1
        assert min(start) > 0.9


def test_fitting_lambda_helps_the_homogeneous_kernel_on_diabetes(outputs):
    last = {row["lambdas"]: float(row["objective"]) for row in outputs("figure1")[0] if row["kernel"] == "H^2"}
    assert last["fit"] < 0.95 * last["ones"]


def test_models_that_are_compared_learn_something(outputs):
    ratings = [row for row in outputs("figure3")[0] if row["bases"] == "4"]
    deviation = np.std(stand_in("lastfm", 400).y_test)
    assert all(float(row["test_rmse"]) < 0.7 * deviation for row in ratings)
    assert max(float(row["test_r2"]) for row in outputs("figure4")[0] if row["model"] == "H^m") > 0.6
    assert all(float(row["test_r2"]) > 0.8 for row in outputs("figure4")[0] if row["model"] == "kernel ridge")
    auc = {row["model"]: float(row["auc"]) for row in outputs("beyond-classes")[0]}
    assert auc["FM"] > auc["linear"] > 0.6


def test_three_objectives_have_one_minimum(outputs):
    rows = outputs("theorem2")[0]
    assert {row["objective"] for row in rows} == {"nuclear norm", "lifted", "direct"}
    for row in rows:
        assert -1e-9 < float(row["above_bound"]) < 2e-4, row
        if row["objective"] == "nuclear norm":
            assert (float(row["part"]) > 1) == (row["rank"] == "0"), row


def test_the_settings_of_full_runs_are_the_papers():
    expected = {
        "figure1": {"set": ["diabetes"], "degree": 2, "beta": 10, "n_bases": 4, "init_variance": 0.01},
        "figure2": {"set": ["e2006"], "degree": 2, "beta": 100, "rank": 10, "n_dummies": 1, "init_variance": 0.01},
        "figure3": {"set": ["lastfm", "movielens_1m"], "degree": 2, "folds": 5},
        "figure4": {"set": ["abalone", "cadata", "cpusmall"], "degree": [3], "folds": 5, "anova": "lifted"},
    }
    for name, values in expected.items():
        fixed, grid = EXPERIMENTS[name].settings()
        assert {key: {**fixed, **grid}[key] for key in values} == values
    for name, exponent in (("figure3", 3), ("figure4", 4)):
        np.testing.assert_allclose(EXPERIMENTS[name].fixed["betas"], np.logspace(-exponent, exponent, 10))
    assert EXPERIMENTS["figure1"].grid["lambdas"] == ["fit", "ones", "signs"]
    methods = [(cell["kernel"], cell["method"]) for cell in figure2.cells(EXPERIMENTS["figure2"].settings()[1])]
    assert ("A^2", "direct cd") in methods
    assert ("H^2", "direct cd") not in methods
    assert all(EXPERIMENTS[name].alone for name in ("figure1", "figure2"))


@pytest.mark.parametrize("kernel", ["A^2", "H^2"])
def test_direct_and_lifted_runs_start_from_the_same_model(kernel):
    X, _, y, _ = stand_in("e2006", 50)
    settings = {**figure2.EXPERIMENT.fixed, "rank": 3}
    design = Design(X)
    problems = {
        form: (Problem.with_target(design, model, Squared(), y, None, 0.0, settings["beta"]), start)
        for form, (model, start) in figure2.starts(kernel, settings, X.shape[1], 0).items()
    }
    lifted, direct = (problem.shifted_predictions(start) for problem, start in problems.values())
    np.testing.assert_allclose(lifted, direct)
    start = problems["direct"][1]
    assert len(start.lambdas[0]) == 2 * settings["rank"]
    assert set(start.lambdas[0]) == {-1.0, 1.0}


class Counting:
    """An experiment whose cells are trivial, and counted."""

    def __init__(self, long=False, **fixed):
        self.computed: list[dict] = []
        self.long, self.over = long, threading.Event()  # cells that take forever
        self.experiment = Experiment(
            name="counting", title="Counting", fixed={"power": 2, **fixed},
            grid={"set": ["diabetes"], "x": [1, 2, 3, 4], "seed": [0]}, quick={}, quick_grid={},
            cells=lambda grid: [{"set": "diabetes", "x": x, "seed": 0} for x in grid["x"]],
            compute=self.compute, draw=self.draw, alone=True,
        )  # fmt: skip

    def compute(self, cell, settings, data):
        if cell["x"] == settings.get("fails"):
            raise ArithmeticError("no")
        if self.long and cell["x"] >= 3:
            self.over.wait(60)
            raise ArithmeticError("the run is over")
        self.computed.append(cell["x"])
        return [{"y": cell["x"] ** settings["power"]}]

    def draw(self, rows, settings, data):
        from matplotlib.figure import Figure

        return Figure()


def interrupt(name, done, total):
    if done >= 2:
        raise KeyboardInterrupt


def test_an_interrupted_run_goes_on_from_the_cells_that_are_done(tmp_path):
    first = Counting(long=True)
    with pytest.raises(KeyboardInterrupt):
        run(first.experiment, out=tmp_path, watch=interrupt)
    first.over.set()
    recorded = {json.loads(p.read_text())["cell"]["x"] for p in (tmp_path / "cells" / "counting").glob("*.json")}
    assert recorded == {1, 2}
    assert not (tmp_path / "counting.csv").exists()

    second = Counting()
    progress: list[tuple] = []
    run(second.experiment, out=tmp_path, watch=lambda name, done, total: progress.append((done, total)))
    assert second.computed == [3, 4]
    assert progress[0] == (2, 4)
    assert progress[-1] == (4, 4)
    assert (tmp_path / "counting.csv").read_text().splitlines()[1:] == [f"diabetes,{x},0,{x * x}" for x in (1, 2, 3, 4)]

    third = Counting()
    run(third.experiment, out=tmp_path)
    assert third.computed == []


def test_other_settings_are_other_cells_and_a_longer_grid_computes_what_is_new(tmp_path):
    run(Counting().experiment, out=tmp_path)
    other = Counting(power=3)
    run(other.experiment, out=tmp_path)
    assert other.computed == [1, 2, 3, 4]
    longer = Counting()
    run(replace(longer.experiment, grid={**longer.experiment.grid, "x": [4, 5, 1]}), out=tmp_path)
    assert longer.computed == [5]


def test_a_cell_that_fails_stops_the_run_and_keeps_the_others(tmp_path):
    with pytest.raises(ArithmeticError):
        run(Counting(fails=3).experiment, out=tmp_path)
    again = Counting(fails=3)
    with pytest.raises(ArithmeticError):
        run(again.experiment, out=tmp_path)
    assert not {1, 2} & set(again.computed)


def test_a_record_that_cannot_be_read_is_computed_again(tmp_path):
    run(Counting().experiment, out=tmp_path)
    next((tmp_path / "cells" / "counting").glob("*.json")).write_text('{"rows": [')
    again = Counting()
    run(again.experiment, out=tmp_path)
    assert len(again.computed) == 1


@pytest.mark.parametrize(("rows", "degree"), [(300, 3), (40, 3)])
def test_kernel_ridge_is_scikit_learns_in_both_spaces(rows, degree):
    split = scaled(stand_in("abalone", rows))
    fit = search.on_kernel(degree)
    for beta, ours in zip((0.01, 1.0), fit(split.X_train, split.y_train, split.X_test, (0.01, 1.0)), strict=True):
        theirs = KernelRidge(alpha=beta, kernel="polynomial", degree=degree, gamma=1, coef0=1)
        expected = theirs.fit(split.X_train, split.y_train).predict(split.X_test)
        np.testing.assert_allclose(ours, expected, atol=1e-8)


def test_as_many_landmarks_as_rows_are_kernel_ridge():
    split = scaled(stand_in("abalone", 30))
    (exact,) = search.on_kernel(2)(split.X_train, split.y_train, split.X_test, [0.1])
    (nystroem,) = search.nystroem(2, 30, 0)(split.X_train, split.y_train, split.X_test, [0.1])
    np.testing.assert_allclose(nystroem, exact, atol=1e-6)


def test_scaling_looks_at_the_training_part_alone():
    X = np.array([[0.0, 5.0], [10.0, 5.0], [20.0, 5.0]])
    split = scaled(Split(X, np.array([[40.0, 6.0]]), np.array([1.0, 2.0, 3.0]), np.array([2.0])))
    np.testing.assert_allclose(split.X_train, [[-1, 0], [0, 0], [1, 0]])
    np.testing.assert_allclose(split.X_test, [[3, 1]])
    np.testing.assert_allclose(split.y_test, [0])


def test_full_runs_do_not_make_data_up(tmp_path):
    with pytest.raises(FileNotFoundError):
        read("abalone", tmp_path)
    assert read("abalone", tmp_path, rows=40).label == "synthetic stand-in for abalone"
    assert read("diabetes", tmp_path, rows=50).label == "diabetes, 50 rows"


def test_the_command_writes_files_and_says_where_and_what_is_missing(tmp_path):
    def command(*arguments):
        return CliRunner().invoke(cli, ["reproduce", *map(str, arguments), "--data-home", str(tmp_path)])

    result = command("figure1", "--quick", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert {p.name for p in (tmp_path / "out").glob("figure1.*")} == {"figure1.csv", "figure1.json", "figure1.png"}
    result = command("figure4", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "abalone" in result.output
    assert "Traceback" not in result.output
