"""libFM's model files: what libFM would read is what the model predicts, and what libFM writes is understood."""

import os

import numpy as np
import pytest
import reference
from numpy.testing import assert_allclose, assert_array_equal
from untrained import untrained

from polyfm import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    FactorizationMachineRegressorCV,
    PolynomialNetworkRegressor,
)
from polyfm.libfm import export_libfm, import_libfm
from polyfm.modelfile import ModelFileError

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def read_as_libfm_does(path, d):
    """libFM's loader in slow words: it trusts the order of lines and splits at single blanks, of which it needs one."""
    lines = iter(path.read_text().split("\n"))
    next(lines)
    w0 = float(next(lines))
    next(lines)
    w = np.array([float(next(lines)) for _ in range(d)])
    next(lines)
    rows = [next(lines).split(" ") for _ in range(d)]
    assert all(len(row) == len(rows[0]) > 1 for row in rows)
    assert [line for line in lines if line] == []
    return w0, w, np.array(rows, dtype=float)


def predict_as_libfm_does(w0, w, V, X):
    squares = (X @ V) ** 2 - (X**2) @ (V**2)
    return w0 + X @ w + 0.5 * squares.sum(axis=1)


X = np.random.RandomState(0).standard_normal((8, 5))


def made(cls=FactorizationMachineRegressor, classes=None, dtype=np.float64, **parameters):
    return untrained(cls(**{"n_components": 3, **parameters}), classes=classes, dtype=dtype)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"n_components": 1},
        {"fit_lower": "augment"},
        {"fit_lower": None, "fit_linear": False, "fit_intercept": False},
        {"init_lambdas": [0.5, 2.0, 0.0]},
        {"fit_lower": "augment", "fit_linear": False, "init_lambdas": [0.5, 2.0, 3.0]},
    ],
    ids=str,
)
def test_exported_model_predicts_the_same_in_libfm(parameters, tmp_path):
    model = made(**parameters)
    export_libfm(model, tmp_path / "model.txt")
    parts = read_as_libfm_does(tmp_path / "model.txt", 5)
    assert_allclose(predict_as_libfm_does(*parts, X), reference.predict(model, X), rtol=1e-10)
    assert_allclose(import_libfm(tmp_path / "model.txt").predict(X), reference.predict(model, X), rtol=1e-10)


def test_plain_models_come_back_bit_for_bit(tmp_path):
    model = made()
    export_libfm(model, tmp_path / "model.txt")
    back = import_libfm(tmp_path / "model.txt")
    for name in ("components_", "lambdas_", "coef_", "intercept_", "degrees_", "n_features_in_"):
        assert_array_equal(getattr(back, name), getattr(model, name))
    export_libfm(back, tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_bytes() == (tmp_path / "model.txt").read_bytes()


def test_float32_models_are_exported_with_all_their_digits(tmp_path):
    model = made(dtype=np.float32)
    export_libfm(model, tmp_path / "model.txt")
    assert_array_equal(import_libfm(tmp_path / "model.txt").components_, model.components_.astype(np.float64))


def test_binary_classifiers_go_out_and_come_back(tmp_path):
    model = made(FactorizationMachineClassifier, classes=["no", "yes"])
    export_libfm(model, tmp_path / "model.txt")
    parts = read_as_libfm_does(tmp_path / "model.txt", 5)
    assert_allclose(predict_as_libfm_does(*parts, X), model.decision_function(X), rtol=1e-10)
    back = import_libfm(tmp_path / "model.txt", classes=["no", "yes"])
    assert_array_equal(back.predict(X), model.predict(X))
    assert_allclose(back.predict_proba(X), model.predict_proba(X))
    assert_allclose(import_libfm(tmp_path / "model.txt").predict(X), model.decision_function(X))
    for wrong in (["a"], ["a", "a"], [0, 1, 2]):
        with pytest.raises(ValueError, match="two different labels"):
            import_libfm(tmp_path / "model.txt", classes=wrong)


def test_of_a_search_the_chosen_model_is_exported(tmp_path):
    model = FactorizationMachineRegressorCV(n_betas=2, cv=2, max_iter=3, random_state=0).fit(X, X[:, 0] * X[:, 1])
    export_libfm(model, tmp_path / "model.txt")
    assert_allclose(import_libfm(tmp_path / "model.txt").predict(X), model.predict(X))


def test_imported_model_can_be_trained_on(tmp_path):
    y = X[:, 0] + X[:, 1] * X[:, 2]
    model = FactorizationMachineRegressor(alpha=1.0, beta=1.0, max_iter=3, random_state=0).fit(X, y)
    export_libfm(model, tmp_path / "model.txt")
    back = import_libfm(tmp_path / "model.txt").set_params(alpha=1.0, beta=1.0, warm_start=True, max_iter=1)
    assert back.fit(X, y).objective_ <= model.objective_ * (1 + 1e-12)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: made(degree=3), "degree is 3"),
        (lambda: made(method="lifted"), "it is lifted"),
        (lambda: made(init_lambdas=[1.0, -1.0, 1.0]), "1 of its 3 lambdas are negative.*init_lambdas"),
        (lambda: made(FactorizationMachineClassifier, classes=[0, 1, 2]), "3 classes"),
        (lambda: made(PolynomialNetworkRegressor), "PolynomialNetworkRegressor"),
    ],
)
def test_what_libfm_cannot_hold_is_refused_with_the_reason(make, why, tmp_path):
    with pytest.raises(ModelFileError, match=f"model.txt: libFM's format cannot hold.*{why}"):
        export_libfm(make(), tmp_path / "model.txt")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "w0", "w", "V"),
    [
        # As libFM writes them: six digits, a heading for what is used, a blank between (older versions: after) values.
        ("#global bias W0\n3.52\n#unary interactions Wj\n0.1\n-2e-05\n#pairwise interactions Vj,f\n1 2\n3 4\n",
         3.52, [0.1, -2e-5], [[1, 2], [3, 4]]),
        ("#unary interactions Wj\n0.1\n-2\n#pairwise interactions Vj,f\n1 2 \n3 4 \n", 0, [0.1, -2], [[1, 2], [3, 4]]),
        ("#pairwise interactions Vj,f\n1\n3\n", 0, [0, 0], [[1], [3]]),
        ("#global bias W0\n1\n#unary interactions Wj\n5\n6\n#pairwise interactions Vj,f\n\n\n", 1, [5, 6], [[0], [0]]),
        ("#global bias W0\r\n1\r\n#pairwise interactions Vj,f\r\n1 2\r\n3 4\r\n\r\n", 1, [0, 0], [[1, 2], [3, 4]]),
    ],
)  # fmt: skip
def test_files_that_libfm_writes_are_understood(text, w0, w, V, tmp_path):
    (tmp_path / "model.txt").write_text(text, newline="")
    model = import_libfm(tmp_path / "model.txt")
    assert (model.intercept_, model.n_features_in_) == (w0, 2)
    assert_array_equal(model.coef_, w)
    assert_array_equal(model.components_, np.transpose(V))
    assert_allclose(model.predict([[1.0, 2.0]]), w0 + np.dot(w, [1, 2]) + 2 * np.dot(V[0], V[1]))


GOOD = "#global bias W0\n1\n#unary interactions Wj\n5\n6\n#pairwise interactions Vj,f\n1 2\n3 4\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "cut short"),
        ("1 1:2\n", "line 1: '1 1:2' comes before any of the headings"),
        (GOOD.replace("6\n", ""), "1 of w and 2 lines of V"),
        (GOOD.replace("3 4\n", ""), "2 of w and 1 lines of V"),
        (GOOD.replace("3 4", "3"), "line 8: '3' has 1 values, but lines before it have 2"),
        (GOOD.replace("5\n", "5 5\n"), "line 4: '5 5' has 2 values"),
        (GOOD.replace("5\n", "five\n"), "line 4: 'five' holds something that is not a number"),
        (GOOD.replace("5\n", "-nan\n"), "line 4: '-nan' is not finite.*diverged"),
        (GOOD.replace("3 4\n", "\n3 4\n"), "line 9: '3 4' has 2 values"),
        (GOOD.replace("#unary", "#global target range"), "line 3: .* is not one of libFM's headings"),
        (GOOD + GOOD, "line 9: .* out of order"),
        (GOOD.replace("1\n", "1\n2\n", 1), "2 values of w0"),
        (GOOD[:-1], "line 8: '3 4' has no line end.*cut short"),
        ("#global bias W0\n1\n", "cut short"),
        ("\xff\xfe#\0g\0", "line 1"),
    ],
)
def test_malformed_files_are_refused_with_line_and_content(text, why, tmp_path):
    (tmp_path / "model.txt").write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelFileError, match=why) as raised:
        import_libfm(tmp_path / "model.txt")
    assert "model.txt" in str(raised.value)


def test_endless_line_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("polyfm.libfm.LONGEST_LINE", 1000)
    (tmp_path / "model.txt").write_text("#pairwise interactions Vj,f\n" + "1 " * 1000)
    with pytest.raises(ModelFileError, match="line 2: .* is longer than"):
        import_libfm(tmp_path / "model.txt")


def test_missing_file_is_a_clear_error(tmp_path):
    with pytest.raises(ModelFileError, match="there is no such file"):
        import_libfm(tmp_path / "none")
