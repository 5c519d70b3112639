"""C: what a compiler makes of the file predicts what the model does, to twelve digits and without a warning."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
import reference
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from untrained import untrained

from polyfm import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkClassifier,
    PolynomialNetworkRegressor,
)
from polyfm.export import ExportError, to_c

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
STRICT = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fPIC", "-shared"]
X = np.random.RandomState(0).standard_normal((6, 5))
X[:, 1] = 0
X[2] = 0


def compiled(models, folder):
    """Several models as one library; they are told apart by the names m0, m1, ..."""
    files = []
    for i, model in enumerate(models):
        files.append(str(folder / f"m{i}.c"))
        to_c(model, files[-1], name=f"m{i}")
    library = folder / "models.so"
    done = subprocess.run(
        [COMPILER, *STRICT, *files, "-lm", "-o", library], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return ctypes.CDLL(str(library))


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def dense(library, name, x, n_outputs=1):
    out = np.full(n_outputs, np.nan)
    x = np.ascontiguousarray(x)
    assert getattr(library, f"{name}_predict")(pointer(x), pointer(out)) == 0
    return out


def sparse(library, name, indices, values, n_outputs=1):
    out = np.full(n_outputs, np.nan)
    indices, values = np.asarray(indices, dtype=np.uint32), np.asarray(values, dtype=np.float64)
    arguments = ctypes.c_size_t(len(indices)), pointer(indices), pointer(values), pointer(out)
    return getattr(library, f"{name}_predict_sparse")(*arguments), out


@needs_compiler
def test_every_model_predicts_the_same_of_dense_and_sparse_rows(tmp_path):
    models = [
        untrained(cls(degree=degree, n_components=k, method=method, fit_lower=lower, **more))
        for cls in (FactorizationMachineRegressor, PolynomialNetworkRegressor)
        for method in ("direct", "lifted")
        for degree, lower, k, more in (
            (2, None, 3, {}), (3, "explicit", 35, {}), (3, "augment", 2, {"fit_linear": False}),
            (5, "augment", 1, {"fit_intercept": False}),
        )
    ]  # fmt: skip
    library = compiled(models, tmp_path)
    for i, model in enumerate(models):
        expected = reference.predict(model, X)
        found = [dense(library, f"m{i}", x)[0] for x in X]
        assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * abs(expected).max())
        of_sparse = [sparse(library, f"m{i}", np.flatnonzero(x), x[x != 0]) for x in X]
        assert_array_equal([code for code, _ in of_sparse], 0)
        assert_allclose([out[0] for _, out in of_sparse], found, rtol=1e-13)


@needs_compiler
def test_classifiers_have_labels_probabilities_and_names(tmp_path):
    odd = ['"quoted" \\ ??/', "a\nb", "ä*/"]
    models = [
        untrained(cls(n_components=2, loss=loss), classes=classes)
        for cls in (FactorizationMachineClassifier, PolynomialNetworkClassifier)
        for loss, classes in (("logistic", [0, 1]), ("logistic", odd), ("squared_hinge", [1, 2, 3]))
    ]
    models[0].feature_names_in_ = np.array(["<a>", "b", "c", "d", '"e\\'], dtype=object)
    library = compiled(models, tmp_path)
    known = (ctypes.c_char_p * 5).in_dll(library, "m0_features")
    assert [name.decode() for name in known] == models[0].feature_names_in_.tolist()
    del models[0].feature_names_in_  # arrays have none
    for i, model in enumerate(models):
        n = len(model.classes_)
        n_outputs = 1 if n == 2 else n
        names = (ctypes.c_char_p * n).in_dll(library, f"m{i}_classes")
        assert [name.decode() for name in names] == [str(label) for label in model.classes_]
        labels = model.predict(X)
        for x, label in zip(X, labels, strict=True):
            out = dense(library, f"m{i}", x, n_outputs)
            assert model.classes_[getattr(library, f"m{i}_label")(pointer(out))] == label
        if model.loss == "logistic":
            p = np.empty(n)
            getattr(library, f"m{i}_probabilities")(pointer(out), pointer(p))
            assert_allclose(p, model.predict_proba(X)[-1], rtol=1e-12)
        else:
            assert not hasattr(library, f"m{i}_probabilities")


@needs_compiler
def test_indices_that_cannot_be_are_refused_and_predictions_clipped(tmp_path):
    model = untrained(FactorizationMachineRegressor(n_components=2, clip=True))
    model.target_range_ = np.array([-0.25, 0.25])
    library = compiled([model], tmp_path)
    for indices in ([5], [2, 1], [1, 1], [2**32 - 1]):
        code, out = sparse(library, "m0", indices, np.ones(len(indices)))
        assert code == -1
        assert np.isnan(out[0])
    assert sparse(library, "m0", [], [])[0] == 0
    found = [dense(library, "m0", 3 * x)[0] for x in X]
    assert_allclose(found, np.clip(reference.predict(model, 3 * X), -0.25, 0.25), rtol=1e-12)


def test_what_cannot_be_written_is_named_with_a_remedy(tmp_path):
    model = untrained(FactorizationMachineRegressor(n_components=1))
    pipeline = make_pipeline(StandardScaler().fit(X), model)
    many = untrained(FactorizationMachineRegressor(degree=17, n_components=1, method="lifted"), n_features=1)
    named = untrained(FactorizationMachineClassifier(n_components=1), classes=["a", "b" * 5000])
    for what, options, words in (
        (pipeline, {}, "last step, to_c"),
        (many, {}, "method='direct'"),
        (named, {}, "Shorten it"),
        (model, {"name": "a b"}, "cannot begin names"),
        (model, {"name": "3d"}, "cannot begin names"),
    ):
        with pytest.raises(ExportError, match=words):
            to_c(what, tmp_path / "model.c", **options)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ExportError, match="cannot be written"):
        to_c(model, tmp_path / "nowhere" / "model.c")
