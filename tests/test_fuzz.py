"""Bad input is tried, not imagined: whatever a file holds, reading it gives a result or a clear error, soon and in
bounded memory, and never another kind of exception."""

import bz2
import contextlib
import gzip
import json
import lzma
import math
import tempfile
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from test_modelfile import rewritten
from untrained import untrained

from polyfm import FactorizationMachineClassifier, FactorizationMachineRegressor
from polyfm.datafiles import DataFileError, iter_svmlight, iter_table, read_svmlight, read_table
from polyfm.libfm import export_libfm, import_libfm
from polyfm.modelfile import ModelFileError, load_model, model_info, save_model
from polyfm.recommend import Recommender
from polyfm.tabular import TableEncoder

pytestmark = pytest.mark.slow
MOST_MEMORY = 40_000_000  # bytes, for files of a few kB
fuzz = settings(max_examples=150, deadline=5000, suppress_health_check=[HealthCheck.function_scoped_fixture])
damage = st.lists(
    st.one_of(
        st.tuples(st.just("flip"), st.integers(0, 10**6), st.integers(0, 7)),
        st.tuples(st.just("cut"), st.integers(0, 10**6), st.just(0)),
        st.tuples(st.just("insert"), st.integers(0, 10**6), st.binary(max_size=40)),
        st.tuples(st.just("remove"), st.integers(0, 10**6), st.integers(1, 40)),
    ),
    min_size=1,
    max_size=3,
)


def damaged(data, changes):
    data = bytearray(data)
    for kind, position, what in changes:
        at = position % (len(data) + 1)
        if kind == "flip" and at < len(data):
            data[at] ^= 1 << what
        elif kind == "cut":
            del data[at:]
        elif kind == "insert":
            data[at:at] = what
        elif kind == "remove":
            del data[at : at + what]
    return bytes(data)


@pytest.fixture(scope="module")
def home():
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "first"
        path.write_text("1 1:1\n")
        read_svmlight(path)  # compiles
        yield Path(directory)


def attempt(read, path, error):
    """The result, or None where the clear error came, naming the file. Anything else fails the test."""
    result, said = None, path.name
    tracemalloc.start()
    try:
        result = read(path)
    except error as problem:
        said = str(problem)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert path.name in said
    assert peak < MOST_MEMORY
    return result


# -- model files ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models(home):
    table = pd.DataFrame({"user": [1, 2, 3], "genre": ["a", None, "b"], "age": [1.0, np.nan, 3.0]})
    encoder = TableEncoder(fields=["user"]).fit(table)
    width = encoder.transform(table).shape[1]
    columns = make_column_transformer(
        (OneHotEncoder(min_frequency=1), ["user"]), (SimpleImputer(add_indicator=True), ["age"]),
        (TfidfVectorizer(token_pattern=r"\w+"), "genre"), remainder=StandardScaler(),
    )  # fmt: skip
    columns.fit(table.assign(genre=["a", "b c", "b"], more=1.0))
    dated = TableEncoder(n_buckets=1, dates=["genre"]).fit(table.assign(genre=["2026-01-01", None, "2026-02-07"]))
    made = {
        "columns": make_pipeline(columns, untrained(FactorizationMachineRegressor(n_components=2), n_features=8)),
        "dates": make_pipeline(dated, untrained(FactorizationMachineRegressor(n_components=2), n_features=9)),
        "regressor": untrained(FactorizationMachineRegressor(degree=3, n_components=2)),
        "classifier": untrained(FactorizationMachineClassifier(n_components=2), classes=["a", "b", "c"]),
        "table": make_pipeline(encoder, untrained(FactorizationMachineRegressor(n_components=2), n_features=width)),
        "recommender": Recommender(item="song", feedback="implicit", n_components=2, random_state=0).fit(
            pd.DataFrame({"user": [1, 2, 3], "song": ["a", "b", "a"], "hour": [1, 5, 5]}), context=["hour"], users=table
        ),
    }
    for name, model in made.items():
        save_model(model, home / name)
    return {name: (home / name).read_bytes() for name in made}


def fingerprint(model):
    """Everything that predictions depend on."""
    if isinstance(model, Recommender):
        return repr([[T.tolist() for T in model.factors_], model.users_.X.toarray().tolist(), model.items_.values])
    last = model[-1] if hasattr(model, "steps") else model
    table = hasattr(model, "steps") and isinstance(model[0], TableEncoder)
    first = [model[0].categories_, model[0].means_.tolist()] if table else []
    return repr([last.components_.tolist(), last.coef_.tolist(), np.ravel(last.intercept_).tolist(), first])


@fuzz
@given(name=st.sampled_from(["regressor", "classifier", "table", "columns", "dates", "recommender"]), changes=damage)
def test_damaged_model_files_are_refused_or_unharmed(home, models, name, changes):
    path = home / "damaged"
    path.write_bytes(damaged(models[name], changes))
    loaded = attempt(load_model, path, ModelFileError)
    attempt(model_info, path, ModelFileError)
    if loaded is not None:
        assert fingerprint(loaded) == fingerprint(load_model(home / name))


def leaves(tree, path=()):
    """Every place in a header."""
    yield path
    if isinstance(tree, dict | list):
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            yield from leaves(tree[key], (*path, key))


WORDS = ["regressor", "Pipeline", "passthrough", "lifted", "homogeneous", "coef", "<f8", "|O", "inf"]
TAGS = ["array", "strings", "list", "float", "dtype", "loss", "own", "numbers", "class", "kind", "none", "dict", "tail"]
HUGE = [2**31, 2**63, 10**12, 10**400, -(10**12), 1e308, 5e-324]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 12) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6) | st.sampled_from([*WORDS, *HUGE]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(TAGS), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@fuzz
@given(data=st.data(), name=st.sampled_from(["regressor", "classifier", "table", "columns", "dates", "recommender"]))
def test_hostile_headers_with_sound_sums_give_a_model_or_a_clear_error(home, models, data, name):
    def change(header):
        for _ in range(data.draw(st.integers(1, 2))):
            place = data.draw(st.sampled_from(list(leaves(header))))
            value = data.draw(JSON)
            if not place:
                return value
            at = header
            for key in place[:-1]:
                at = at[key]
            at[place[-1]] = value
        return header

    path = rewritten(home / name, home / "hostile", change)
    attempt(model_info, path, ModelFileError)
    loaded = attempt(load_model, path, ModelFileError)
    if isinstance(loaded, Recommender):
        with contextlib.suppress(ValueError, TypeError):  # and nothing worse
            loaded.recommend(n=2)


@fuzz
@given(st.dictionaries(st.sampled_from(["header.json", "SHA256SUMS", "arrays/a.npy", "x"]), st.binary(max_size=200)))
@example({"header.json": b"[" * 100_000})
@example({"header.json": b'{"a":' * 50_000})
@example({"header.json": b"1" * 100_000})
@example({"header.json": b'{"format": "polyfm-model", "format_version": 1e400}'})
@example({"header.json": b'{"format": "polyfm-model", "format_version": 1, "arrays": {}}'})
def test_other_archives_are_refused(home, members):
    path = home / "archive"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("first", b"")
    rewritten(path, path, change_members=lambda _: dict(members))
    assert attempt(load_model, path, ModelFileError) is None
    assert attempt(model_info, path, ModelFileError) is None


# -- libFM models -----------------------------------------------------------------------------------------------------


@fuzz
@given(changes=damage)
def test_damaged_libfm_models_give_a_model_or_a_clear_error(home, changes):
    export_libfm(untrained(FactorizationMachineRegressor(n_components=2)), home / "libfm")
    path = home / "libfm-damaged"
    path.write_bytes(damaged((home / "libfm").read_bytes(), changes))
    model = attempt(import_libfm, path, ModelFileError)
    if model is not None:
        assert np.all(np.isfinite(model.components_))


@fuzz
@given(st.binary(max_size=300))
def test_any_bytes_give_a_clear_error_from_libfm_models(home, data):
    path = home / "libfm-bytes"
    path.write_bytes(data)
    attempt(import_libfm, path, ModelFileError)


# -- svmlight ---------------------------------------------------------------------------------------------------------

GOOD = ["1", "-1", "0", "+1", "1e3", "1:1", "2:0.5", "3:-1e-3", "0:1", "qid:3", "#", "7:7#", "6:1e5", "2147483646:1"]
BAD = [
    "nan",
    "inf",
    "1,2",
    "5:",
    ":5",
    "qid:",
    "99999999999:1",
    "2147483647:1",
    "-3:1",
    "1:1e999",
    "a:b",
    "é",
    "1.5:2",
    "1:2:3",
    "6:1e",
    "6:.e5",
    "\x00",
    "\ufeff",
]
LONG = ["4:" + "9" * 300, "4:" + "9" * 400, "4:0." + "0" * 400 + "1"]
TOKENS = st.sampled_from([*GOOD, *GOOD, *BAD, *LONG, " ", "\t", "\r\n", *["\n"] * 8])


@fuzz
@given(tokens=st.lists(TOKENS, max_size=40), joint=st.sampled_from(["", " "]), chunk_rows=st.integers(1, 5))
@example(["1", "99999999999:1"], " ", 1)
@example(["1", "-1:1"], " ", 1)
@example(["1", "3:1", "3:1"], " ", 1)
@example([], "", 1)
def test_any_line_is_read_or_named_alike_whole_and_in_chunks(home, tokens, joint, chunk_rows):
    path = home / "lines"
    path.write_bytes(joint.join(tokens).encode())
    whole = attempt(read_svmlight, path, DataFileError)
    chunks = attempt(lambda path: list(iter_svmlight(path, chunk_rows=chunk_rows)), path, DataFileError)
    assert (whole is None) == (chunks is None)
    if whole is not None:
        X, y = whole
        assert np.all(np.isfinite(X.data))
        assert np.all(np.isfinite(y))
        X.check_format(full_check=True)
        assert sum(len(part) for _, part in chunks) == len(y) == X.shape[0]
        assert sum(part.nnz for part, _ in chunks) == X.nnz


@fuzz
@given(st.binary(max_size=300))
@example(b"\x1f\x8b\x08\x00")
@example(b"BZh9")
@example(b"\xfd7zXZ\0")
@example(b"1 1:1\n\xff\xfe\n")
def test_any_bytes_are_read_or_named(home, data):
    path = home / "bytes"
    path.write_bytes(data)
    attempt(read_svmlight, path, DataFileError)


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_damaged_compressed_files_are_read_or_named(home, module):
    whole = module.compress(b"".join(b"%d %d:%d\n" % (i, i, i * i) for i in range(1, 200)))

    @settings(fuzz, max_examples=60)
    @given(damage)
    def check(changes):
        path = home / "compressed"
        path.write_bytes(damaged(whole, changes))
        attempt(read_svmlight, path, DataFileError)

    check()


def test_bombs_are_streamed_in_bounded_memory(home, monkeypatch):
    """A kB or two of gzip can hold MBs: one endless line, or as many short rows."""
    monkeypatch.setattr("polyfm.files.svmlight.LONGEST_LINE", 2**20)
    path = home / "bomb"
    path.write_bytes(gzip.compress(b"1 " + b" " * 2**24))
    tracemalloc.start()
    try:
        with pytest.raises(DataFileError, match="line 1: is longer than 1 MiB"):
            next(iter_svmlight(path, n_features=10, zero_based=True))
        path.write_bytes(gzip.compress(b"1 1:1\n" * 10**6))
        tracemalloc.reset_peak()
        assert sum(len(y) for _, y in iter_svmlight(path, chunk_rows=10**4, n_features=2, zero_based=True)) == 10**6
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()


# -- tables -----------------------------------------------------------------------------------------------------------


def tabulated(path):
    """Read whole and in chunks, and encode: what a table can do wrong, it does here."""
    whole = read_table(path)
    assert sum(map(len, iter_table(path, chunk_rows=2))) == len(whole)
    said = "column"
    try:
        TableEncoder().fit_transform(whole)
    except (ValueError, TypeError) as problem:
        said = str(problem).lower()
    assert "column" in said or "feature" in said
    return whole


CELLS = st.sampled_from([*',,,\n\n\r\0\t"aé', "1", "2.5", "", "NA", '"x"', "inf", "1e999", "\ufeff"])


@fuzz
@given(st.lists(CELLS, max_size=40).map("".join))
@example("a,a\n1,2\n")
@example("a\n" + "9" * 400 + "\n")
def test_any_text_table_is_read_or_named(home, text):
    path = home / "table.csv"
    path.write_bytes(text.encode())
    attempt(tabulated, path, DataFileError)


@fuzz
@given(st.binary(max_size=200))
def test_any_bytes_as_a_table_are_read_or_named(home, data):
    path = home / "bytes.csv"
    path.write_bytes(data)
    attempt(tabulated, path, DataFileError)


def test_damaged_parquet_files_are_read_or_named(home):
    pytest.importorskip("pyarrow")
    path = home / "table.parquet"
    table = pd.DataFrame({"a": np.arange(50), "b": list("abcde") * 10, "c": np.linspace(0, 1, 50)})
    table.to_parquet(path, index=False, write_page_checksum=True)
    whole = path.read_bytes()

    @settings(fuzz, max_examples=150)
    @given(damage)
    def check(changes):
        path.write_bytes(damaged(whole, changes))
        attempt(read_table, path, DataFileError)

    check()


def test_fingerprints_tell_models_apart(home, models):
    """The comparison above can fail."""
    other = untrained(FactorizationMachineRegressor(degree=3, n_components=2), seed=1)
    assert fingerprint(other) != fingerprint(load_model(home / "regressor"))
    assert math.isfinite(json.loads(json.dumps(model_info(home / "regressor")["objective"])))
