"""The benchmark suite: its clock, its adapters (those of missing peers against fakes), its files and its page; and that
the other scripts still fit the package."""

import ast
import csv
import importlib
import json
import os
import pickle
import subprocess
import sys
import time
import types
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
if not (BENCHMARKS / "suite.py").exists():
    pytest.skip("the benchmarks are not part of this copy", allow_module_level=True)
sys.path.insert(0, str(BENCHMARKS))

import peers  # noqa: E402
import suite  # noqa: E402
import suite_report  # noqa: E402
import suite_results  # noqa: E402
from peers.base import Adapter, Dataset, Point, Trace  # noqa: E402

OTHERS = ("fastfm", "polylearn", "libfm", "xlearn")


@pytest.fixture(scope="module")
def ratings() -> Dataset:
    return suite.quick_datasets()["made-ratings"]()


@pytest.fixture(scope="module")
def classes() -> Dataset:
    return suite.quick_datasets()["made-classes"]()


@pytest.fixture
def line() -> Dataset:
    X = np.arange(8.0)[:, None]
    return Dataset("line", "A line", "regression", X[:4], X[4:], X[:4, 0], X[4:, 0])


def constant_error(dataset: Dataset) -> float:
    return dataset.score(np.full(len(dataset.y_test), dataset.y_train.mean()))


# -- data and scores


def test_regression_scores_clip_predictions_to_the_range_of_the_training_targets(line):
    assert line.clipping == (0.0, 3.0)
    assert line.score(np.full(4, 1e9)) == pytest.approx(np.sqrt(np.mean((3.0 - line.y_test) ** 2)))


def test_classification_scores_need_only_an_order(classes):
    assert classes.score(1000 * classes.y_test) == 0.0
    assert classes.score(-classes.y_test) == 1.0
    assert np.isnan(classes.score(np.full(len(classes.y_test), np.nan)))


def test_validation_rows_come_from_the_training_rows_alone(ratings):
    part = ratings.validation()
    assert len(part.y_train) + len(part.y_test) == len(ratings.y_train)
    assert len(part.y_test) == len(ratings.y_train) // 5
    assert (part.rank, part.fields) == (ratings.rank, ratings.fields)


def test_the_widths_of_one_hot_fields_are_found(ratings):
    assert ratings.fields == (200, 100)
    assert sum(ratings.fields) == ratings.X_train.shape[1]


def test_shuffling_keeps_rows_and_targets_together():
    X, y = np.arange(50.0)[:, None], np.arange(50.0)
    mixed, _, targets, _ = suite.shuffled(X, X, y, y)
    assert np.array_equal(mixed[:, 0], targets)
    assert not np.array_equal(targets, y)


# -- the clock


def test_evaluation_stops_the_training_clock(line):
    trace = Trace(line, 10.0)
    trace.start()

    def slow_prediction():
        time.sleep(0.2)
        return np.zeros(4)

    assert not trace.point(1, slow_prediction)
    trace.point(2, slow_prediction, always=True)
    assert trace.points[-1].seconds < 0.1


def test_points_are_spaced_by_time_and_the_last_one_is_always_there(line):
    trace = Trace(line, 0.05)
    trace.start()
    n = 1
    while not trace.point(n, lambda: np.zeros(4)):
        n += 1
    assert len(trace.points) < 150 < n
    assert trace.points[-1].iteration == n


def test_growing_budgets_end_with_one_that_fills_the_time(line, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    trace = Trace(line, 4.0)

    def fit(budget: int):
        now[0] += 0.1 * budget
        return lambda: np.zeros(4)

    trace.in_budgets(fit)
    assert [point.iteration for point in trace.points] == [1, 2, 5, 10, 20, 40]
    assert [point.seconds for point in trace.points] == pytest.approx([0.1, 0.2, 0.5, 1.0, 2.0, 4.0])


# -- adapters


def test_every_contestant_says_what_it_is_and_what_was_set():
    everyone = peers.contestants()
    assert len({adapter.label for adapter in everyone.values()}) == len(everyone)
    for adapter in everyone.values():
        assert adapter.settings
        assert adapter.grid
        assert adapter.available() is None or isinstance(adapter.available(), str)


def test_our_solvers_are_those_of_the_package():
    from polyfm.solvers import SOLVERS

    assert {f"polyfm-{name}" for name in SOLVERS} <= set(peers.chosen(["polyfm"]))


def test_an_unknown_contestant_is_named_with_those_there_are():
    with pytest.raises(SystemExit, match="'nobody'.*polyfm-cd"):
        peers.chosen(["nobody"])


@pytest.mark.parametrize(
    "name",
    ["polyfm-default", "polyfm-gibbs", "polyfm-cd", "polyfm-pn", "kernelridge", "nystroem", "countsketch"],
)
def test_contestants_that_are_always_there_learn_classes(name, classes):
    points = peers.contestants()[name].trace(classes, 0.2, 1)
    assert min(point.score for point in points) < 0.6 * constant_error(classes)
    assert all(a.seconds > 0 and a.iteration > 0 for a in points)


def test_the_linear_model_learns_what_features_tell_alone(ratings, classes):
    linear = peers.contestants()["linear"]
    assert linear.trace(ratings, 0.1, 1)[0].score < 0.95 * constant_error(ratings)
    assert linear.trace(classes, 0.1, 1)[0].score == pytest.approx(0.5, abs=0.05)


def test_our_objectives_fall_and_are_reported(ratings):
    points = peers.contestants()["polyfm-cd"].trace(ratings, 0.1, 1)
    objectives = [point.objective for point in points]
    assert objectives[-1] < objectives[0]


@pytest.mark.parametrize("name", ["myfm", "myfm-variational", "vowpalwabbit", "lightgbm"])
@pytest.mark.parametrize("kind", ["ratings", "classes"])
def test_installed_peers_beat_a_constant(name, kind, request):
    adapter = peers.contestants()[name]
    if reason := adapter.available():
        pytest.skip(reason)
    dataset = request.getfixturevalue(kind)
    points = adapter.trace(dataset, 0.5, 1)
    assert min(point.score for point in points) < constant_error(dataset)


def test_vowpal_wabbit_reads_fields_as_namespaces_and_values_as_they_are(ratings, line):
    from peers.vowpalwabbit import as_text, interactions

    first = as_text(ratings.X_train[:1], ratings.y_train[:1], ratings.fields)
    user, item = ratings.X_train[:1].indices
    assert first == f"{ratings.y_train[0]:g} |a {user} |b {item}\n"
    assert as_text(sp.csr_matrix(line.X_train[2:3]), line.y_train[2:3], ()) == "2 |a 0:2\n"
    assert interactions(ratings) == ["--lrq", "ab5"]
    assert interactions(line) == ["--interactions", "aa"]


def test_lightgbm_gets_fields_as_categories(ratings):
    from peers.lightgbm import codes

    table = codes(ratings.X_train, ratings.fields)
    assert table.shape == (len(ratings.y_train), 2)
    assert table[:, 0].max() < 200
    assert table.min() == 0
    assert table[:, 1].max() < 100


# -- adapters of peers that may be missing, against fakes with their documented interfaces


class FakeModel:
    """Predicts the mean of the targets, nudged towards the first feature by each iteration."""

    def fit(self, X, y):
        assert sp.isspmatrix_csc(X) or (isinstance(X, np.ndarray) and X.flags.f_contiguous)
        self.mean = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(X.shape[0], self.mean)

    def scores(self, X):
        column = X[:, [0]]
        return np.asarray(column.toarray() if sp.issparse(column) else column).ravel()


def fake_fastfm() -> dict[str, types.ModuleType]:
    class FMRegression(FakeModel):
        def __init__(self, n_iter=100, init_stdev=0.1, rank=8, random_state=123, l2_reg_w=0.1, l2_reg_V=0.1, l2_reg=0):
            assert n_iter > 0
            assert rank > 0

    class FMClassification(FMRegression):
        def fit(self, X, y):
            assert set(np.unique(y)) == {-1.0, 1.0}
            return super().fit(X, y)

        predict_proba = FakeModel.scores

    package, als = types.ModuleType("fastFM"), types.ModuleType("fastFM.als")
    als.FMRegression, als.FMClassification, package.als = FMRegression, FMClassification, als
    return {"fastFM": package, "fastFM.als": als}


def fake_polylearn() -> dict[str, types.ModuleType]:
    class FactorizationMachineRegressor(FakeModel):
        def __init__(
            self, degree=2, n_components=2, alpha=1, beta=1, tol=1e-6, fit_lower="explicit", fit_linear=True,
            warm_start=False, init_lambdas="ones", max_iter=10000, verbose=False, random_state=None,
        ):  # fmt: skip
            assert degree in (2, 3)

    class FactorizationMachineClassifier(FakeModel):
        def __init__(
            self, degree=2, loss="squared_hinge", n_components=2, alpha=1, beta=1, tol=1e-6, fit_lower="explicit",
            fit_linear=True, warm_start=False, init_lambdas="ones", max_iter=10000, verbose=False, random_state=None,
        ):  # fmt: skip
            assert loss == "logistic"

        decision_function = FakeModel.scores

    module = types.ModuleType("polylearn")
    module.FactorizationMachineRegressor = FactorizationMachineRegressor
    module.FactorizationMachineClassifier = FactorizationMachineClassifier
    return {"polylearn": module}


def fake_xlearn() -> dict[str, types.ModuleType]:
    class XLearn:
        def setTrain(self, path):
            self.train = path

        def setTest(self, path):
            self.test = path

        def setQuiet(self):
            pass

        def disableNorm(self):
            pass

        def fit(self, param, model_path):
            assert set(param) <= {"task", "metric", "opt", "lr", "k", "lambda", "init", "epoch", "nthread"}
            _, y = load_svmlight_file(self.train)
            assert param["task"] == "reg" or set(np.unique(y)) == {0.0, 1.0}
            Path(model_path).write_text(str(y.mean()))

        def predict(self, model_path, out_path):
            X, y = load_svmlight_file(self.test)
            classifies = set(np.unique(y)) == {0.0, 1.0}
            shown = X[:, 0].toarray().ravel() if classifies else np.full(len(y), float(Path(model_path).read_text()))
            np.savetxt(out_path, shown)

    module = types.ModuleType("xlearn")
    module.create_fm = XLearn
    return {"xlearn": module}


FAKE_LIBFM = """#!{python}
import sys
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
print("  Version: 1.4.4")
if "-train" in words:
    assert words["-task"] in "rc" and words["-dim"].startswith("1,1,") and words["-method"] in ("mcmc", "als")
    assert words["-method"] == "mcmc" or len(words["-regular"].split(",")) == 3
    train = [float(line.split()[0]) for line in open(words["-train"])]
    test = [line.split() for line in open(words["-test"])]
    print("Loading meta data...", flush=True)
    for i in range(int(words["-iter"])):
        print(f"#Iter={{i:3d}}\\tTrain=1\\tTest=1", flush=True)
    with open(words["-out"], "w") as file:
        for row in test:
            features = dict(pair.split(":") for pair in row[1:])
            print(features.get("0", 0) if words["-task"] == "c" else sum(train) / len(train), file=file)
"""


@pytest.fixture
def fakes(monkeypatch, tmp_path):
    for name, module in (fake_fastfm() | fake_polylearn() | fake_xlearn()).items():
        monkeypatch.setitem(sys.modules, name, module)
    program = tmp_path / "libFM"
    program.write_text(FAKE_LIBFM.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.usefixtures("fakes")
def test_adapters_speak_the_documented_interface(name, ratings, classes):
    adapter = peers.contestants()[name]
    points = adapter.trace(ratings, 0.05, 1)
    assert points[0].score == pytest.approx(constant_error(ratings), abs=1e-6)
    assert [point.iteration for point in points] == sorted(point.iteration for point in points)
    for setting in adapter.grid:
        last = adapter.trace(classes, 0.02, 1, setting)[-1]
        assert last.score == pytest.approx(classes.score(classes.X_test[:, 0]), abs=1e-6)


@pytest.mark.usefixtures("fakes")
def test_libfm_tells_its_version_and_its_own_peak_memory(ratings):
    adapter = peers.contestants()["libfm"]
    assert adapter.available() is None
    assert adapter.version() == "1.4.4"
    adapter.trace(ratings, 0.05, 1)
    assert adapter.peak_mb is not None


def test_a_missing_program_is_a_reason_and_no_error(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert "not on the PATH" in peers.contestants()["libfm"].available()


@pytest.mark.parametrize("name", OTHERS)
def test_degree_two_is_what_the_older_peers_can_do(name, line):
    degrees = [m for m in (2, 3, 4) if peers.contestants()[name].suits(Dataset(**{**vars(line), "degree": m}))]
    assert degrees == ([2, 3] if name == "polylearn" else [2])


# -- runs, choices and files


def test_a_contestant_that_fails_is_a_note_and_not_the_end(tmp_path, line):
    path = tmp_path / "line"
    path.write_bytes(pickle.dumps(Dataset(**{**vars(line), "y_train": line.y_train * np.nan})))
    points, peak, note = suite.run("polynomialfeatures", path, 0.1, 1, {})
    assert points == []
    assert peak > 0
    assert note.startswith("ValueError: ")


def test_a_contestant_that_takes_too_long_is_stopped_and_keeps_its_points(tmp_path, monkeypatch):
    class Stuck(subprocess.Popen):
        def __init__(self, command, **options):
            job = json.loads(command[-1])
            Path(job["points"]).write_text('{"point": [0.1, 1, 0.5, null], "peak_rss_mb": 7}\n')
            super().__init__([sys.executable, "-c", "import time; time.sleep(60)"], **options)

        def wait(self, timeout=None):
            return super().wait(0.2 if timeout else None)

    monkeypatch.setattr(subprocess, "Popen", Stuck)
    points, peak, note = suite.run("polyfm-cd", tmp_path, 1.0, 1, {})
    assert points == [Point(0.1, 1, 0.5)]
    assert peak == 7
    assert "stopped after" in note


def test_tuning_takes_the_best_validation_score_and_leaves_out_failures(monkeypatch):
    class Contestant(Adapter):
        name, grid = "any", ({"beta": 1}, {"beta": 2}, {"beta": 3})

    scores = {1: [0.5], 2: [0.9, 0.3, 0.8], 3: []}
    monkeypatch.setattr(
        suite, "run", lambda name, data, s, t, setting, pin: ([Point(1, 1, x) for x in scores[setting["beta"]]], 1, "")
    )
    with ThreadPoolExecutor(1) as pool:
        setting, tried = suite.tune(Contestant(), Path("none"), 1.0, pool)
        assert setting == {"beta": 2}
        assert tried == [0.5, 0.3, None]


def test_choices_are_kept_in_a_file_and_shared_by_our_solvers(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(suite, "tune", lambda *arguments: calls.append(1) or ({"beta": 30.0}, [None] * 5))
    options, everyone = Namespace(quick=False), peers.contestants()
    for name in ("polyfm-cd", "polyfm-sgd"):
        results = suite.Results(tmp_path)
        assert suite.choice(results, everyone[name], "line", tmp_path, 1.0, options, None) == {"beta": 30.0}
    assert len(calls) == 1


@pytest.fixture
def results(tmp_path) -> suite.Results:
    results = suite.Results(tmp_path / "results")
    names = ("polyfm-cd", "polyfm-lbfgs", "lightgbm")
    everyone = peers.contestants()
    results.run |= {
        "datasets": {"line": {"title": "A line", "metric": "RMSE", "text": "4 x 1; at most 30 seconds"}},
        "machine": {"processor": "A processor", "software": "Some software", "date": "a day"},
        "missing": {"xlearn": "xlearn is not installed"},
        "settings": {name: everyone[name].settings for name in (*names, "xlearn")},
        "candidates": {name: len(everyone[name].grid) for name in (*names, "xlearn")},
        "labels": {name: everyone[name].label for name in (*names, "xlearn")},
        "ours": list(names[:2]),
    }
    for name, scores in zip(names, ([0.9, 0.5, 0.41], [0.8, 0.6, 0.4], [0.9, 0.85, 0.8]), strict=True):
        rows = [
            {
                "dataset": "line", "contestant": name, "version": "1", "threads": 1, "setting": "beta=1",
                "iteration": i + 1, "seconds": 0.1 * 2**i, "score": score, "peak_rss_mb": 100.0,
                "objective": score if name.startswith("polyfm") else None,
            }
            for i, score in enumerate(scores)
        ]  # fmt: skip
        results.put("line", name, 1, rows, "")
    return results


def test_results_survive_a_round_trip_and_a_new_run_replaces_the_old(results):
    again = suite.Results(results.csv.parent)
    assert again.rows == results.rows
    again.put("line", "lightgbm", 1, [], "crashed")
    assert {row["contestant"] for row in again.rows} == {"polyfm-cd", "polyfm-lbfgs"}
    assert again.run["notes"] == [["line", "lightgbm", 1, "crashed"]]


def test_the_page_tells_lowest_errors_and_when_they_are_near(results, tmp_path):
    page = tmp_path / "performance.md"
    slower = {**results.rows[0], "threads": 2, "score": 0.1}
    near = {**results.rows[0], "contestant": "lightgbm", "seconds": 0.05, "score": 0.407}
    suite_report.write_page(results.run, [*results.rows, slower, near], page)
    text = page.read_text()
    assert "| | A line |\n|---|---|\n" in text
    assert "| **polyfm cd** | 0.41 |" in text
    assert "| **polyfm lbfgs** | **0.4** (0.400) |" in text
    assert "| LightGBM | 0.407 (0.050) |" in text
    assert "xLearn" not in text
    assert "on 1 thread(s)" in text
    assert "| A line |  | lbfgs **0.4** (0.400) | LightGBM 0.407 (0.050) |  |" in text
    assert text.count("\n- **") <= 5
    assert "How to read" in text


def test_settings_of_all_and_who_is_missing_are_beside_the_results(results, tmp_path):
    results.put("line", "myfm", 1, [], "left out: it needs degree 2")
    results.run["labels"]["myfm"] = "myFM (Gibbs)"
    suite_report.write_settings(results.run, results.rows, tmp_path / "settings.md")
    text = (tmp_path / "settings.md").read_text()
    assert "- A line: 4 x 1; at most 30 seconds. Scores are RMSE." in text
    assert f"- **LightGBM** 1: {peers.contestants()['lightgbm'].settings}. 5 candidates." in text
    assert "- xLearn: xlearn is not installed. It would get: `create_fm`" in text
    assert "- myFM (Gibbs) on A line: left out: it needs degree 2." in text


def test_results_keep_of_long_curves_what_the_page_and_the_pictures_need(results):
    common = {**results.rows[0], "contestant": "polyfm-cd"}
    scores = np.concatenate((np.geomspace(4.0, 0.39, 800), np.linspace(0.39, 0.5, 200)))
    rows = [
        {**common, "threads": threads, "iteration": i, "seconds": 0.01 * i, "score": float(score), "objective": 9.0 - i}
        for threads in (1, 2) for i, score in enumerate(scores, 1)
    ]  # fmt: skip
    rows.append({**common, "iteration": 9999, "seconds": 99.0, "score": float("nan")})
    results.rows = everything = [row for row in results.rows if row["contestant"] != "polyfm-cd"] + rows
    results.write()
    again = suite.Results(results.csv.parent)
    assert len(again.rows) == len(results.rows)
    assert suite_results.pruned(again.rows) == again.rows
    for threads, most in ((1, 35), (2, 10)):
        kept = [row for row in results.rows if (row["contestant"], row["threads"]) == ("polyfm-cd", threads)]
        whole = [row for row in rows if row["threads"] == threads and row["score"] == row["score"]]
        assert len(kept) <= most
        assert kept[0] is whole[0]
        assert kept[-1] is whole[-1]
        for name in ("score", "objective"):
            assert min(row[name] for row in kept) == min(row[name] for row in whole)
        for goal in (0.39 * 1.05, 0.39 * 1.02, 0.39 * 1.005, 0.39 * 1.001):
            assert suite_report.seconds_to(kept, goal) == suite_report.seconds_to(whole, goal)
    finite = [row for row in everything if row["score"] == row["score"]]
    kept, whole = (suite_report.Scores(results.run, rows, 1) for rows in (results.rows, finite))
    assert kept.tables() == whole.tables()
    assert kept.winners() == whole.winners()


def test_the_results_in_the_tree_are_pruned_and_the_page_is_made_of_them(tmp_path):
    committed = suite.Results(BENCHMARKS / "results")
    assert suite_results.pruned(committed.rows) == committed.rows
    page, settings = BENCHMARKS.parent / "docs" / "performance.md", BENCHMARKS / "results" / "settings.md"
    for path, write in ((page, suite_report.write_page), (settings, suite_report.write_settings)):
        copy = tmp_path / path.name
        copy.write_text(path.read_text())
        write(committed.run, committed.rows, copy)
        assert copy.read_text() == path.read_text()


def test_text_around_the_markers_survives_regeneration(results, tmp_path):
    page = tmp_path / "performance.md"
    suite_report.write_page(results.run, results.rows, page)
    written = page.read_text()
    page.write_text(written.replace(suite_report.BEGIN, f"Before.\n\n{suite_report.BEGIN}") + "\nAfter.\n")
    results.run["machine"]["processor"] = "Another processor"
    suite_report.write_page(results.run, results.rows, page)
    text = page.read_text()
    assert "Before." in text
    assert text.endswith("After.\n")
    assert "Another processor" in text
    assert "A processor" not in text
    assert text.count(suite_report.BEGIN) == text.count(suite_report.END) == 1


def test_pictures_are_drawn(results, tmp_path):
    pytest.importorskip("matplotlib")
    suite_report.draw(results.run, results.rows, tmp_path)
    assert {path.name for path in tmp_path.glob("*.png")} == {"scores.png", "objectives.png"}


def test_one_command_measures_and_writes_everything(tmp_path):
    pytest.importorskip("matplotlib")
    environment = {name: value for name, value in os.environ.items() if name != "POLYFM_DATA"}
    done = subprocess.run(
        [
            sys.executable, str(BENCHMARKS / "suite.py"), "--quick", "--peer", "polyfm-cd", "polynomialfeatures",
            "--data", "made-classes", "--seconds", "0.1", "--threads", "1", "--out", str(tmp_path),
        ],
        capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == suite_results.COLUMNS
    assert {row["contestant"] for row in rows} == {"polyfm-cd", "polynomialfeatures"}
    assert all(float(row["peak_rss_mb"]) > 50 for row in rows)
    for page in ("performance.md", "settings.md"):
        assert "polyfm cd" in (tmp_path / page).read_text()
    assert (tmp_path / "images" / "scores.png").exists()


# -- the other scripts

SCRIPTS = sorted([*BENCHMARKS.glob("*.py"), *BENCHMARKS.glob("peers/*.py")])


def names_of_polyfm(tree: ast.AST) -> set[tuple[str, str]]:
    """What a script takes from polyfm, wherever it imports it: pairs of a module and a name ("" is the module)."""
    found, modules = set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "polyfm":
            found |= {(node.module, alias.name) for alias in node.names}
            modules |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            ours = [alias for alias in node.names if alias.name.split(".")[0] == "polyfm"]
            found |= {(alias.name, "") for alias in ours}
            modules |= {alias.asname or "polyfm": alias.name if alias.asname else "polyfm" for alias in ours}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            found.add((modules[node.value.id], node.attr))
    return found


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_import_and_what_they_take_from_polyfm_is_there(path):
    importlib.import_module(".".join(path.relative_to(BENCHMARKS).with_suffix("").parts).removesuffix(".__init__"))
    for module, name in sorted(names_of_polyfm(ast.parse(path.read_text()))):
        if module.startswith("polyfm.dask"):
            pytest.importorskip("distributed", reason="needs Dask: pip install -e '.[dask]'")
        if module.startswith("polyfm.spark"):
            pytest.importorskip("pyspark", reason="needs Spark: pip install -e '.[spark]'")
        try:
            owner = importlib.import_module(module)
        except ModuleNotFoundError:  # a class, or a module's name, that was imported by name
            parent, _, last = module.rpartition(".")
            owner = getattr(importlib.import_module(parent), last)
        if name and not hasattr(owner, name):
            importlib.import_module(f"{module}.{name}")


def test_what_scripts_share_trains_on_made_up_rows(monkeypatch, classes):
    import adam
    import data
    import foundation
    import second_order
    import solvers

    X, y = classes.X_train[:60], classes.y_train[:60]
    assert foundation.epochs(X, y, k=2)() > 0
    for name, rows in (("cd", "sorted"), ("sgd", "shuffled")):
        times, history = solvers.trace(solvers.problem(X, y, k=2, rows=rows), name, 0.01)
        assert len(times) == len(history) >= 1
    monkeypatch.setattr(adam, "EPOCHS", 2)
    task = solvers.problem(X, y, k=2, rows="shuffled")
    assert adam.objective_after(task, 0.3, adam=False) < task.objective(adam.initial_parameters(task, 0, 0.1))
    monkeypatch.setattr(data, "dense", lambda name: (X, X, y, y))
    times, history = second_order.trace(
        second_order.problem("made-up", **second_order.FM2, k=2), solvers.SOLVERS["cd"], 3, 0
    )
    assert len(times) == len(history) == 3


def test_a_first_step_of_adam_is_as_long_as_its_rate():
    import adam

    W = np.zeros((9, 2 * adam.KEPT, 8))
    before = W.copy()
    for j, slope in ((4, 3.0), (7, -0.01)):
        adam.Adam(0.25).move(W, j, 1, 2, slice(0, 8), np.full(8, slope))
    moved = before - W
    np.testing.assert_allclose(moved[4, 1], 0.25)
    np.testing.assert_allclose(moved[7, 1], -0.25)
    assert np.count_nonzero(moved[:, :2]) == 16


def test_rows_are_served_as_in_the_batch(monkeypatch, capsys):
    serving = __import__("serving")
    monkeypatch.setattr(serving, "N_ROWS", 200)
    monkeypatch.setattr(serving, "N_SERVED", 20)
    serving.main()
    assert capsys.readouterr().out.count("bit-equal to the batch") >= 2
