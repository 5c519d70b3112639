"""``polyfm export``: from a model file to ONNX and C."""

import shutil

import numpy as np
import pytest

pytest.importorskip("click")
from test_cli import polyfm
from untrained import untrained

from polyfm import FactorizationMachineClassifier, FactorizationMachineRegressor
from polyfm.modelfile import save_model
from polyfm.tabular import TableEncoder


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "m.polyfm"
    save_model(untrained(FactorizationMachineClassifier(n_components=2), classes=["a", "b"]), path)
    return path


def test_a_model_becomes_c_and_replaces_nothing_else(model, tmp_path):
    out = tmp_path / "m.c"
    polyfm("export", model, "--c", out, "--name", "m")
    assert "m_probabilities" in out.read_text()
    polyfm("export", model, "--c", out, "--raw-scores")  # what it has written it may replace
    assert "probabilities" not in out.read_text()
    out.write_text("int main(void) { return 0; }\n")
    assert "not a C file of polyfm" in polyfm("export", model, "--c", out, code=2).output
    assert out.read_text().startswith("int main")
    assert "would be destroyed" in polyfm("export", model, "--c", model, code=2).output


def test_what_makes_no_sense_is_refused(model, tmp_path):
    for options, words in (
        ([], "--onnx FILE, --c FILE"),
        (["--onnx", tmp_path / "m.onnx", "--name", "m"], "--name is for --c"),
        (["--c", tmp_path / "m.c", "--double"], "--double is for --onnx"),
        (["--c", tmp_path / "m.c", "--name", "a-b"], "cannot begin names"),
    ):
        assert words in polyfm("export", model, *options, code=2).output
    pandas = pytest.importorskip("pandas")
    from sklearn.pipeline import make_pipeline

    encoder = TableEncoder().fit(pandas.DataFrame({"a": ["x", "y"]}))
    piped = make_pipeline(encoder, untrained(FactorizationMachineRegressor(n_components=2), n_features=2))
    save_model(piped, tmp_path / "t.polyfm")
    said = polyfm("export", tmp_path / "t.polyfm", "--c", tmp_path / "m.c", code=2).output
    assert "not written as C" in said
    assert not (tmp_path / "m.c").exists()


def test_a_pipeline_becomes_onnx(tmp_path):
    for needed in ("skl2onnx", "onnxruntime"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    pandas = pytest.importorskip("pandas")
    import onnxruntime
    from sklearn.pipeline import make_pipeline

    table = pandas.DataFrame({"a": ["x", "y", "x"], "b": [1.0, 2.0, np.nan]})
    encoder = TableEncoder().fit(table)
    piped = make_pipeline(encoder, untrained(FactorizationMachineRegressor(n_components=2), n_features=4))
    save_model(piped, tmp_path / "t.polyfm")
    for _ in range(2):
        said = polyfm("export", tmp_path / "t.polyfm", "--onnx", tmp_path / "t.onnx", "--double").output
    assert "inputs: a, b; outputs: variable" in " ".join(said.split())
    session = onnxruntime.InferenceSession(tmp_path / "t.onnx")
    inputs = {"a": table[["a"]].to_numpy(dtype=object), "b": table[["b"]].to_numpy()}
    np.testing.assert_allclose(session.run(None, inputs)[0][:, 0], piped.predict(table), rtol=1e-10)
    shutil.copy(tmp_path / "t.polyfm", tmp_path / "u.onnx")
    assert "not an ONNX model" in polyfm("export", tmp_path / "t.polyfm", "--onnx", tmp_path / "u.onnx", code=2).output
