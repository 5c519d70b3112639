"""The command line, from files to models and back."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("click")
from click.testing import CliRunner

from polyfm.cli.main import cli
from polyfm.estimators import FactorizationMachineRegressor


def polyfm(*arguments, code=0):
    result = CliRunner().invoke(cli, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same interacting data as a table and as svmlight."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.RandomState(0)
    X = rng.standard_normal((300, 3))
    y = X[:, 0] * X[:, 1] + X[:, 2]
    color = rng.choice(["red", "blue"], 300)
    with open(folder / "table.csv", "w") as file:
        file.write("a,b,c,color,y,label\n")
        for row, shade, target in zip(X, color, y, strict=True):
            file.write(",".join([*map(str, row), shade, str(target), "up" if target > 0 else "down"]) + "\n")
    for name, targets in (("regression", y), ("classes", np.where(y > 0, 1, -1))):
        with open(folder / f"{name}.svm", "w") as file:
            for row, target in zip(X, targets, strict=True):
                file.write(f"{target} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row)) + "\n")
    return folder


def test_table_to_model_to_predictions(files, tmp_path):
    model, out = tmp_path / "m.polyfm", tmp_path / "p.csv"
    options = ["--target", "y", "--beta", "0.1", "--random-state", "0", "--field", "color"]
    # The label gives the answer away, so it is left out of the table.
    lines = (files / "table.csv").read_text().splitlines()
    (tmp_path / "t.csv").write_text("\n".join(line.rsplit(",", 1)[0] for line in lines))
    result = polyfm("fit", tmp_path / "t.csv", *options, "--model", model, "--json")
    summary = json.loads(result.stdout)
    assert summary["held-out_R2"] > 0.9
    assert summary["rows"] == 300
    assert summary["rows_held_out"] == 60
    scores = json.loads(polyfm("evaluate", model, tmp_path / "t.csv", "--target", "y", "--json").stdout)
    assert scores["R2"] > 0.9
    polyfm("predict", model, tmp_path / "t.csv", "--target", "y", "--out", out)
    predictions = np.loadtxt(out, skiprows=1)
    truth = np.loadtxt(tmp_path / "t.csv", delimiter=",", skiprows=1, usecols=4)
    assert np.corrcoef(predictions, truth)[0, 1] > 0.95
    assert "FactorizationMachineRegressor" in polyfm("info", model).output
    explained = polyfm("explain", model, "--top", "3", "--plot", tmp_path / "i.png").output
    assert "a" in explained
    assert (tmp_path / "i.png").stat().st_size > 1000
    parts = json.loads(
        polyfm("explain", model, "--data", tmp_path / "t.csv", "--target", "y", "--row", "7", "--json").stdout
    )
    assert abs(sum(part["contribution"] for part in parts) - predictions[7]) < 1e-6


def test_svmlight_classification_with_probabilities(files, tmp_path):
    model = tmp_path / "m.polyfm"
    result = polyfm("fit", files / "classes.svm", "--beta", "0.1", "--model", model, "--json", "--random-state", "0")
    summary = json.loads(result.stdout)
    assert summary["model"] == "FactorizationMachineClassifier"
    assert summary["held-out_ROC_AUC"] > 0.9
    output = polyfm("predict", model, files / "classes.svm", "--proba").stdout.splitlines()
    assert output[0] == "p(-1.0),p(1.0)"
    assert len(output) == 301


def test_stream_is_learned_in_bounded_memory(files, tmp_path):
    model = tmp_path / "m.polyfm"
    options = ["--solver", "sgd", "--max-iter", "20", "--beta", "0.1", "--random-state", "0"]
    summary = json.loads(polyfm("fit", files / "regression.svm", *options, "--json", "--model", model).stdout)
    assert summary["solver"] == "sgd"
    scores = json.loads(polyfm("evaluate", model, files / "regression.svm", "--json").stdout)
    assert scores["R2"] > 0.9


def test_progressive_scores_are_those_of_all_rows():
    from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

    from polyfm.cli.scores import Progressive

    rng = np.random.RandomState(0)
    y, p = 100 + rng.standard_normal(1000), 100 + rng.standard_normal(1000)
    regression, classes = Progressive(False), Progressive(True)
    assert regression.scores() == {}
    for rows in np.split(np.arange(1000), [10, 300, 999]):
        regression.add(y[rows], p[rows])
        classes.add(y[rows] > 100, p[rows] > 100)
    scores = regression.scores()
    assert np.isclose(scores["R2"], r2_score(y, p))
    assert np.isclose(scores["RMSE"], root_mean_squared_error(y, p))
    assert np.isclose(scores["MAE"], mean_absolute_error(y, p))
    assert classes.scores()["accuracy"] == np.mean((y > 100) == (p > 100))


def test_beta_is_searched_on_request(files, tmp_path):
    result = polyfm("fit", files / "regression.svm", "--cv", "--json", "--random-state", "0", "--kind", "pn")
    assert json.loads(result.stdout)["beta_chosen"] > 0


def test_no_data_means_the_embedded_set_said_aloud():
    result = polyfm("fit")
    assert "embedded diabetes set" in result.output
    assert "held-out R2" in result.output


def test_every_parameter_is_an_option_with_help():
    text = polyfm("fit", "--help").output
    for name in FactorizationMachineRegressor().get_params():
        if name not in ("warm_start", "verbose", "groups"):
            assert "--" + name.replace("_", "-") in text
    assert "Penalty on the interactions" in text
    order = [
        "--target",
        "--field",
        "--drop",
        "--model",
        "--degree",
        "--beta",
        "--sep",
        "--solver",
        "--init-scale",
        "--help",
    ]
    places = [text.index(f"  {option} ") if option != "--help" else text.index("--help") for option in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "missing.svm"], "missing.svm"),
        (["fit", "{table}"], "--target"),
        (["fit", "{table}", "--target", "z"], "There is no column 'z' to predict. Its columns are 'a', 'b'"),
        (["fit", "{svm}", "--field", "user"], "--field is for the columns of a table"),
        (["fit", "{svm}", "--cv", "--beta", "1"], "--cv does not go with --beta"),
        (["fit", "{svm}", "--degree", "1"], "degree"),
        (["fit", "{svm}", "--batch-size", "few"], "--batch-size"),
        (["fit", "{bad}"], "line 2"),
        (["predict", "{svm}", "{svm}"], "not"),
        (["info", "missing.polyfm"], "missing.polyfm"),
        (["explain", "{svm}"], "not"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(files, tmp_path, arguments, message):
    (tmp_path / "bad.svm").write_text("1 1:2\n1 1:x\n")
    places = {"{table}": files / "table.csv", "{svm}": files / "regression.svm", "{bad}": tmp_path / "bad.svm"}
    result = polyfm(*(places.get(a, a) for a in arguments), code=2)
    assert message in result.output
    assert not result.stdout.strip()


def test_interrupt_saves_what_was_learned(files, tmp_path):
    model = tmp_path / "m.polyfm"
    rng = np.random.RandomState(0)
    with open(tmp_path / "big.svm", "w") as file:
        for row in rng.standard_normal((2000, 20)):
            file.write(f"{row[0] * row[1]} " + " ".join(f"{j + 1}:{v:.4f}" for j, v in enumerate(row)) + "\n")
    options = ["--max-iter", "1000000", "--tol", "0", "--beta", "0", "--alpha", "0", "--n-components", "30"]
    options += ["--checkpoint", str(tmp_path / "check"), "--checkpoint-interval", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "polyfm", "fit", str(tmp_path / "big.svm"), "--model", str(model), *options],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in a shell's background it is ignored
    )  # fmt: skip
    deadline = time.time() + 120
    while not (tmp_path / "check").exists() and time.time() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted" in err
    assert "Traceback" not in err
    assert json.loads(polyfm("evaluate", model, tmp_path / "big.svm", "--json").stdout)["R2"] > 0.5
