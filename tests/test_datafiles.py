"""Readers: every text means the same in chunks, whole and compressed, and what is malformed is named with its line."""

import bz2
import gzip
import lzma
import os
import threading
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from polyfm.datafiles import DataFileError, iter_svmlight, iter_table, read_svmlight, read_table
from polyfm.files import atomic as files
from polyfm.files import svmlight, tables

COMPRESS = {"plain": bytes, "gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}


def written(tmp_path, data, name="data.txt"):
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return tmp_path / name


def reference(text):
    """Labels and rows of {index: value}, in slow and obvious words."""
    labels, rows = [], []
    for line in text.split("\n"):
        words = line.split("#")[0].split()
        if words:
            labels.append(float(words[0]))
            pairs = (word.split(":") for word in words[1:] if not word.startswith("qid:"))
            rows.append({int(index): float(value) for index, value in pairs})
    return labels, rows


def assert_rows(X, y, text, first=0):
    labels, rows = reference(text)
    assert_array_equal(y, labels)
    dense = np.zeros(X.shape)
    for i, row in enumerate(rows):
        for index, value in row.items():
            dense[i, index - first] = value
    assert_array_equal(X.toarray(), dense)
    assert X.has_canonical_format


TEXT = """# a comment
1 1:0.5 3:2   # another
-1 2:1e-1\t7:-3.25
\t
+2.5e3 qid:17 1:1 2:1 3:1
0
 4 5:7 2:8 #1:1

3 6:123456789012345678901234567890 7:.5
"""


# -- svmlight ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compress", COMPRESS.values(), ids=COMPRESS)
@pytest.mark.parametrize(
    "variant",
    [
        lambda text: text,
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text + "\n\n# the end, with an é",
    ],
)
def test_text_is_read_as_it_is_meant(variant, compress, tmp_path):
    X, y = read_svmlight(written(tmp_path, compress(variant(TEXT).encode())))
    assert X.shape == (6, 7)
    assert_rows(X, y, TEXT, first=1)


@pytest.mark.parametrize("block", [1, 2, 7, 64, 2**20])
@pytest.mark.parametrize("chunk_rows", [1, 2, 4, 6, 100])
def test_chunks_are_the_whole_file_in_pieces(block, chunk_rows, tmp_path, monkeypatch):
    monkeypatch.setattr(svmlight, "BLOCK", block)
    chunks = list(iter_svmlight(written(tmp_path, TEXT), chunk_rows=chunk_rows))
    assert [X.shape[0] for X, _ in chunks[:-1]] == [chunk_rows] * (len(chunks) - 1)
    assert {X.shape[1] for X, _ in chunks} == {7}
    assert_rows(sp.vstack([X for X, _ in chunks]).tocsr(), np.concatenate([y for _, y in chunks]), TEXT, first=1)


@pytest.mark.parametrize("zero_based", [True, False])
def test_agrees_with_scikit_learn(zero_based, tmp_path):
    rng = np.random.RandomState(0)
    X = sp.random(50, 20, density=0.2, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    dump_svmlight_file(X, rng.standard_normal(50), str(tmp_path / "data"), zero_based=zero_based, comment="é")
    ours, theirs = read_svmlight(tmp_path / "data"), load_svmlight_file(str(tmp_path / "data"))
    assert_array_equal(ours[0].toarray(), theirs[0].toarray())
    assert_array_equal(ours[1], theirs[1])


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(min_value=-(10**40), max_value=10**40).map(str),
    st.from_regex(r"[+-]?[0-9]{1,25}\.[0-9]{0,25}([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.from_regex(r"\.[0-9]{1,40}", fullmatch=True),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=30))
def test_numbers_are_rounded_as_python_rounds_them(texts):
    texts = [text for text in texts if np.isfinite(float(text))]
    block = "".join(f"{text} 1:{text}\n" for text in texts).encode()
    rows, _ = svmlight._parse("x", block, 0, svmlight.Bounds(0, 1))
    expected = np.array([float(text) for text in texts])
    assert rows.labels.tobytes() == rows.values.tobytes() == expected.tobytes()


def test_halfway_numbers_are_rounded_to_even():
    halfway = [(2 * m + 1) * 2**k for m in (2**52, 2**52 + 1, 2**53 - 1) for k in (0, 1, 11, 60)]
    texts = [str(n + d) for n in halfway for d in (-1, 0, 1)] + [
        "5e-324",
        "2.5e-324",
        "2.4703282292062328e-324",
        "1e-400",
    ]
    block = "".join(f"{text}\n" for text in texts).encode()
    rows, _ = svmlight._parse("x", block, 0, svmlight.Bounds(0, 1))
    assert rows.labels.tolist() == [float(text) for text in texts]


def test_first_index_is_found_or_given(tmp_path):
    from_one, from_zero = written(tmp_path, "1 1:5 3:6\n", "one"), written(tmp_path, "1 0:5 3:6\n", "zero")
    assert read_svmlight(from_one)[0].toarray().tolist() == [[5, 0, 6]]
    assert read_svmlight(from_zero)[0].toarray().tolist() == [[5, 0, 0, 6]]
    assert read_svmlight(from_one, zero_based=True)[0].toarray().tolist() == [[0, 5, 0, 6]]
    assert read_svmlight(from_one, n_features=5)[0].toarray().tolist() == [[5, 0, 6, 0, 0]]
    assert next(iter_svmlight(from_one, n_features=3, zero_based=False))[0].toarray().tolist() == [[5, 0, 6]]
    with pytest.raises(DataFileError, match="zero, line 1: '1 0:5 3:6' has index 0.*zero_based=True"):
        read_svmlight(from_zero, zero_based=False)


def test_first_index_is_the_same_for_all_chunks(tmp_path):
    path = written(tmp_path, "1 1:5\n" * 5 + "1 0:1\n")
    assert all(X.shape == (2, 2) for X, _ in iter_svmlight(path, chunk_rows=2))
    assert next(iter_svmlight(path, chunk_rows=2))[0].toarray().tolist() == [[0, 5], [0, 5]]


@pytest.mark.parametrize("options", [{"n_features": 2}, {"n_features": 3, "zero_based": True}])
def test_indices_beyond_the_features_are_refused(options, tmp_path):
    path = written(tmp_path, "1 1:1\n1 1:1 3:1\n")
    for read in (read_svmlight, lambda path, **options: list(iter_svmlight(path, **options))):
        with pytest.raises(DataFileError, match="(line 2: '1 1:1 3:1' has an index above|the largest index is 3)"):
            read(path, **options)


def test_float32_halves_the_values(tmp_path):
    X, y = read_svmlight(written(tmp_path, TEXT), dtype=np.float32)
    assert (X.dtype, y.dtype) == (np.float32, np.float64)
    with pytest.raises(DataFileError, match="too large for float32"):
        read_svmlight(written(tmp_path, "1 1:1e300\n"), dtype=np.float32)


@pytest.mark.parametrize(
    "options", [{"n_features": 0}, {"n_features": 2.5}, {"zero_based": "yes"}, {"dtype": np.int64}, {"chunk_rows": 0}]
)
def test_bad_options_are_named(options, tmp_path):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
        iter_svmlight(written(tmp_path, TEXT), **options)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("cat 1:1", "label"),
        ("nan 1:1", "label"),
        ("1e999 1:1", "not a finite number"),
        ("1,2 1:1", "label"),
        ("1:1 2:1", "label"),
        ("1 1:1 2", "not index:value"),
        ("1 1;1", "not index:value"),
        ("1 -1:1", "not index:value"),
        ("1 1.5:1", "not index:value"),
        ("1 a:1", "not index:value"),
        ("1 qi:1", "not index:value"),
        ("1 1qid:1", "not index:value"),
        ("1 :1", "not index:value"),
        ("1 1:", "not a finite number"),
        ("1 1: 2", "not a finite number"),
        ("1 1:1:1", "not a finite number"),
        ("1 1:x", "not a finite number"),
        ("1 1:1e", "not a finite number"),
        ("1 1:--1", "not a finite number"),
        ("1 1:1_0", "not a finite number"),
        ("1 1:nan", "not a finite number"),
        ("1 1:-inf", "not a finite number"),
        ("1 1:1e400", "not a finite number"),
        ("1 1:0x10", "not a finite number"),
        ("1 99999999999:1", "largest that is supported"),
        ("1 99999999999999999999999:1", "largest that is supported"),
        ("1 3:1 2:1 3:2", "index 3 comes twice"),
        ("1 1:1 1:1", "index 1 comes twice"),
        ("1 1:1\0", "not a finite number"),
        ("\0\0", "label"),
    ],
)
@pytest.mark.parametrize("block", [16, 2**20])
def test_malformed_lines_are_named_with_number_and_content(line, why, block, tmp_path, monkeypatch):
    monkeypatch.setattr(svmlight, "BLOCK", block)
    path = written(tmp_path, f"# comment\n1 1:1\n\n2 2:1\n{line}\n1 1:1\n")
    for read in (read_svmlight, lambda path: list(iter_svmlight(path))):
        with pytest.raises(DataFileError, match=why) as raised:
            read(path)
        assert "data.txt, line 5: " in str(raised.value)
        assert repr(line) in str(raised.value)


def test_bytes_that_are_not_text_are_shown_and_cut(tmp_path):
    with pytest.raises(DataFileError, match="line 2: '\ufffd\ufffdx+\\.\\.\\.' does not begin with a label"):
        read_svmlight(written(tmp_path, b"1 1:1\n\xff\xfe" + b"x" * 10_000))


@pytest.mark.parametrize("data", [b"", b"\n\n", b"# nothing\n", b"\xef\xbb\xbf"])
def test_files_without_rows_are_refused(data, tmp_path):
    with pytest.raises(DataFileError, match="holds no rows"):
        read_svmlight(written(tmp_path, data))


def test_endless_lines_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(svmlight, "LONGEST_LINE", 1000)
    monkeypatch.setattr(svmlight, "BLOCK", 100)
    with pytest.raises(DataFileError, match="line 2: is longer than"):
        read_svmlight(written(tmp_path, b"1 1:1\n" + bytes(5000)))


def test_streaming_takes_memory_for_a_chunk_only(tmp_path):
    line = "1 " + " ".join(f"{j}:0.{j}" for j in range(1, 41)) + "\n"
    path = written(tmp_path, gzip.compress((line * 40_000).encode(), 1))  # 12 MB of text, 19 MB as a matrix
    n = 0
    tracemalloc.start()
    try:
        for X, _ in iter_svmlight(path, chunk_rows=1000):
            n += X.nnz
        assert tracemalloc.get_traced_memory()[1] < 15_000_000
    finally:
        tracemalloc.stop()
    assert n == 40_000 * 40


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_pipes_are_read_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataFileError, match="only once.*n_features and zero_based"):
        iter_svmlight(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text(TEXT))
    writer.start()
    chunks = list(iter_svmlight(tmp_path / "pipe", n_features=7, zero_based=False, chunk_rows=4))
    writer.join()
    assert [X.shape for X, _ in chunks] == [(4, 7), (2, 7)]


def test_compressed_files_may_follow_one_another(tmp_path):
    for compress in (gzip.compress, bz2.compress, lzma.compress):
        X, _ = read_svmlight(written(tmp_path, compress(b"1 1:1\n") + compress(b"2 2:1\n")))
        assert X.shape == (2, 2)
    X, _ = read_svmlight(written(tmp_path, lzma.compress(b"1 1:1\n") + bytes(8) + lzma.compress(b"2 2:1\n") + bytes(4)))
    assert X.shape == (2, 2)


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "xz"])
def test_damaged_compressed_files_are_named(kind, tmp_path):
    whole = COMPRESS[kind](b"".join(b"%d 1:%d\n" % (i, i * i) for i in range(2000)))
    half = len(whole) // 2
    for damaged in (whole[:half], whole[:-3], whole[:half] + b"!!!!" + whole[half + 4 :]):
        with pytest.raises(DataFileError, match=f"the {kind} data are damaged"):
            read_svmlight(written(tmp_path, damaged))


def test_xz_files_that_ask_for_much_memory_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "XZ_MEMORY", 2**16)
    with pytest.raises(DataFileError, match="xz data.*[Mm]emory"):
        read_svmlight(written(tmp_path, lzma.compress(TEXT.encode())))


@pytest.mark.parametrize("read", [read_svmlight, iter_svmlight, read_table, iter_table])
def test_places_that_cannot_be_read_are_named(read, tmp_path, monkeypatch):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, why in [
        (tmp_path / "none", "no such file"),
        (tmp_path, "directory"),
        (tmp_path / "loop", "cannot be opened"),
    ]:
        with pytest.raises(DataFileError, match=why):
            read(path)
    path = written(tmp_path, "1 1:1\n")
    monkeypatch.setattr("builtins.open", lambda *args: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    with pytest.raises(DataFileError, match="you may not read it"):
        read(path)


# -- tables -----------------------------------------------------------------------------------------------------------

TABLE = pd.DataFrame({"user": ["007", "x", None], "n": [1, 2, 3], "r": [0.5, np.nan, 1e-3], "b": [True, False, True]})


def rows_of(table):
    """Values, None where missing: pandas has several words for that."""
    return [list(table.columns), *table.astype(object).where(table.notna(), None).to_numpy().tolist()]


@pytest.mark.parametrize("compress", COMPRESS.values(), ids=COMPRESS)
@pytest.mark.parametrize(("separator", "name"), [(",", "t.csv"), ("\t", "t.tsv"), (";", "t.csv")])
def test_text_tables_are_read(compress, separator, name, tmp_path):
    path = written(tmp_path, compress(TABLE.to_csv(index=False, sep=separator).encode()), name)
    given = {"separator": ";"} if separator == ";" else {}
    assert rows_of(read_table(path, **given)) == rows_of(TABLE)
    chunks = list(iter_table(path, chunk_rows=2, **given))
    assert [len(chunk) for chunk in chunks] == [2, 1]
    assert rows_of(pd.concat(chunks)) == rows_of(TABLE)


def test_columns_can_be_chosen_and_kept_as_text(tmp_path):
    path = written(tmp_path, "a,b,c\n01,2,3\n02,5,6\n")
    assert read_table(path, text=["a"])["a"].tolist() == ["01", "02"]
    assert list(read_table(path, columns=["b", "c"]).columns) == ["b", "c"]
    assert next(iter_table(path, columns=["c"])).to_dict("list") == {"c": [3, 6]}
    for option in ("columns", "text"):
        with pytest.raises(DataFileError, match="has no column 'z'. Its columns are 'a', 'b', 'c'"):
            read_table(path, **{option: ["z"]})


def test_decimals_encodings_and_repeated_names(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("a;a;a.1;é\n1,5;2;x;ü\n".encode("cp1252"))
    options = {"separator": ";", "decimal": ",", "encoding": "cp1252"}
    with pytest.raises(DataFileError, match="several columns named 'a'"):
        read_table(path, **options)
    for read in (read_table, lambda *args, **kwargs: next(iter_table(*args, **kwargs))):
        with pytest.warns(UserWarning, match="several columns named 'a'; from the second on, they are called 'a.1'"):
            table = read(path, **options, duplicates="rename")
        assert table.iloc[0].to_dict() == {"a": 1.5, "a.2": 2, "a.1": "x", "é": "ü"}
        with pytest.raises(DataFileError, match=r"line 1: .* is not UTF-8 .*encoding='cp1252', or --encoding cp1252"):
            read(path, separator=";")
        for wrong in ({"decimal": "::"}, {"encoding": "klingon"}, {"separator": ""}, {"duplicates": "drop"}):
            with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
                read(path, **wrong)


def test_columns_of_one_name_in_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = arrow.Table.from_arrays([arrow.array([i]) for i in range(3)], names=["a", "a", "b"])
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(DataFileError, match="several columns named 'a'"):
        read_table(tmp_path / "t.parquet")
    with pytest.warns(UserWarning, match="several columns named 'a'"):
        assert read_table(tmp_path / "t.parquet", duplicates="rename").iloc[0].to_dict() == {"a": 0, "a.1": 1, "b": 2}


def test_columns_mean_the_same_in_every_chunk(tmp_path, monkeypatch):
    """Text that looks like numbers in one chunk stays text, because the first rows said so."""
    monkeypatch.setattr(tables, "FIRST_ROWS", 4)
    path = written(tmp_path, "zip,n,flag\n01,1,True\nAB,2,False\n02,3,True\n03,,False\n04,,\n")
    chunks = list(iter_table(path, chunk_rows=2))
    assert [value for chunk in chunks for value in chunk["zip"]] == ["01", "AB", "02", "03", "04"]
    path = written(tmp_path, "n\n" + "1\n" * 6 + "many\n")
    with pytest.raises(DataFileError, match=r"column 'n' was numbers.*'many' in row 7.*text=\['n'\]"):
        list(iter_table(path, chunk_rows=4))
    assert list(iter_table(path, chunk_rows=4, text=["n"]))[1]["n"].tolist() == ["1", "1", "many"]
    path = written(tmp_path, "n\n3.5\n4\n" + "9" * 400 + "\n")
    with pytest.raises(DataFileError, match=r"column 'n' was numbers.*'999.*in row 3"):
        list(iter_table(path, chunk_rows=2))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "No columns"),
        (b"a,b\n", "no rows"),
        (b"a,b\n1,2\n1,2,3\n", "line 3, saw 3"),
        (b"a,b\n1,2,3\n4,5,6\n", "Expected 2 fields in line 2, saw 3"),
        (b"a,b\n0,1,2\n1,4,5\n", "Expected 2 fields in line 2, saw 3"),
        (b'a,b\n1,"2\n3,4\n', "EOF inside string"),
        (b"a,b\n1,2\n\xff\xfe,3\n", "line 3: .* is not UTF-8"),
        (b"a\xff,b\n1,2\n", "line 1: .* is not UTF-8"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-4], "gzip data are damaged"),
    ],
)
def test_malformed_tables_are_refused(data, why, tmp_path):
    path = written(tmp_path, data, "t.csv")
    for read in (read_table, lambda path: list(iter_table(path, chunk_rows=1))):
        with pytest.raises(DataFileError, match=why) as raised:
            read(path)
        assert "t.csv" in str(raised.value)


def test_parquet_is_read(tmp_path):
    pytest.importorskip("pyarrow")
    TABLE.to_parquet(tmp_path / "t.parquet", index=False)
    assert rows_of(read_table(tmp_path / "t.parquet")) == rows_of(TABLE)
    chunks = list(iter_table(tmp_path / "t.parquet", chunk_rows=2, columns=["user", "n"]))
    assert [len(chunk) for chunk in chunks] == [2, 1]
    assert list(chunks[0].columns) == ["user", "n"]
    with pytest.raises(DataFileError, match="has no column 'z'"):
        read_table(tmp_path / "t.parquet", columns=["z"])
    TABLE[:0].to_parquet(tmp_path / "empty.parquet", index=False)
    whole = (tmp_path / "t.parquet").read_bytes()
    for data, why in [(whole[:100], "damaged"), (whole[:-9] + whole[-8:], "damaged"), (b"PAR1", "damaged")]:
        with pytest.raises(DataFileError, match=f"Parquet data are {why}"):
            read_table(written(tmp_path, data))
    with pytest.raises(DataFileError, match="no rows"):
        read_table(tmp_path / "empty.parquet")


def test_what_is_not_installed_is_named(tmp_path, monkeypatch):
    path = written(tmp_path, "a\n1\n")
    monkeypatch.setattr(tables, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    with pytest.raises(ImportError, match=r"Reading tables needs pandas: pip install 'polyfm\[table\]'"):
        read_table(path)
