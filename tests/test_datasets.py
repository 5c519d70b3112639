"""Data sets: small files in the publishers' formats, read as the paper builds them; what is wrong is said."""

import bz2
import functools
import gzip
import http.server
import io
import lzma
import re
import sys
import tarfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from polyfm import datasets
from polyfm.datasets import _published

COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
FILES = {
    "abalone": b"15 1:1 2:0.455 3:2\n7 1:3 2:0.35\n9 1:2 2:0 3:1\n10 1:2 2:1 3:1\n",
    "E2006.train": b"-3.5 1:0.5 4:0.25 \n-4 2:1e-3 \n",
    "E2006.test": b"-2.5 3:0.125 \n",
    "a9a": b"-1 1:1 3:1 \n+1 2:1 \n",
    "a9a.t": b"+1 2:1 \n",
    "ml-1m/ratings.dat": b"1::1193::5::978300760\n1::661::3::978302109\n7::1193::1::978301968\n3::20::4::978300275\n",
    "hetrec2011-lastfm-2k/user_taggedartists.dat": b"userID\tartistID\ttagID\tday\tmonth\tyear\r\n"
    b"2\t52\t13\t1\t4\t2009\r\n2\t52\t15\t1\t4\t2009\r\n4\t52\t13\t1\t4\t2009\r\n4\t8\t15\t1\t4\t2009\r\n"
    b"9\t99\t13\t1\t4\t2009\r\n",
    "hetrec2011-lastfm-2k/artists.dat": b"id\tname\turl\tpictureURL\r\n"
    b"8\tBj\xc3\xb6rk\thttp://x\thttp://y\r\n52\t99\thttp://x\thttp://y\r\n",
    "aclImdb/imdb.vocab": b"the\nand\ngood\nrare\n",
    "aclImdb/train/labeledBow.feat": b"9 0:3 2:1\n2 0:1 1:1\n7 2:2\n",
    "aclImdb/test/labeledBow.feat": b"10 0:1 2:1\n1 3:4\n",
}
COUNTS = {
    "abalone": {"rows": 4, "features": 3, "nonzeros": 10},
    "E2006.train": {"rows": 2, "features": 4},
    "E2006.test": {"rows": 1},
    "a9a": {"rows": 2, "features": 3, "nonzeros": 3},
    "a9a.t": {"rows": 1, "nonzeros": 1},
    "ml-1m/ratings.dat": {"ratings": 4, "users": 3, "movies": 3},
    "hetrec2011-lastfm-2k/user_taggedartists.dat": {"assignments": 5, "pairs": 3, "artists": 2, "tags": 2},
    "aclImdb/train/labeledBow.feat": {"rows": 3},
    "aclImdb/test/labeledBow.feat": {"rows": 2},
}
FROM_FILES = ["abalone", "e2006", "movielens_1m", "lastfm", "a9a", "imdb"]


@pytest.fixture(autouse=True)
def small_counts(monkeypatch):
    """The counts of the small files in the place of the publishers'."""
    small = {
        name: [source._replace(files={file: COUNTS.get(file, {}) for file in source.files}) for source in sources]
        for name, sources in _published.SOURCES.items()
    }
    monkeypatch.setattr(_published, "SOURCES", small)
    monkeypatch.delenv("POLYFM_DATA_HOME", raising=False)


def write(home: Path, file: str, content: bytes) -> None:
    (home / file).parent.mkdir(parents=True, exist_ok=True)
    (home / file).write_bytes(content)


@pytest.fixture
def home(tmp_path):
    for file, content in FILES.items():
        write(tmp_path, file, content)
    return tmp_path


def load(name, home):
    return getattr(datasets, f"load_{name}")(home)


def set_of(file):
    """The name of the data set that a file belongs to, and the source of the file."""
    sets = _published.SOURCES.items()
    return next((name, source) for name, sources in sets for source in sources if file in source.files)


def assert_same(a, b):
    for one, other in zip(a, b, strict=True):
        assert_array_equal(one.toarray() if sp.issparse(one) else one, other.toarray() if sp.issparse(other) else other)


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


LASTFM = {name.split("/")[1]: content for name, content in FILES.items() if name.startswith("hetrec")}
ARCHIVES = {
    "movielens_1m": ("ml-1m.zip", zipped({"ml-1m/": b"", "ml-1m/ratings.dat": FILES["ml-1m/ratings.dat"]})),
    "lastfm": ("hetrec2011-lastfm-2k.zip", zipped({"readme.txt": b"", **LASTFM})),
    "imdb": (
        "aclImdb_v1.tar.gz",
        tarred({"aclImdb/README": b"", **{name: text for name, text in FILES.items() if name.startswith("aclImdb")}}),
    ),
}


# -- values -----------------------------------------------------------------------------------------------------------


def test_dense_sets_are_arrays_as_published(home):
    X, y = datasets.load_abalone(home)
    assert_array_equal(X, [[1, 0.455, 2], [3, 0.35, 0], [2, 0, 1], [2, 1, 1]])
    assert_array_equal(y, [15, 7, 9, 10])
    assert type(X) is np.ndarray
    assert X.dtype == y.dtype == np.float64


@pytest.mark.parametrize("name", ["cadata", "cpusmall"])
def test_the_other_dense_sets_are_read_from_their_own_files(tmp_path, monkeypatch, name):
    monkeypatch.setattr(_published, "SOURCES", {name: [_published.Source("x/" + name, {name: {"rows": 1}})]})
    write(tmp_path, name, b"2.5 1:3 2:4\n")
    assert_same(load(name, tmp_path), (np.array([[3, 4]]), np.array([2.5])))


def test_diabetes_needs_no_file():
    X, y = datasets.load_diabetes()
    assert X.shape == (442, 10)
    assert y.mean() == pytest.approx(152.13348)


@pytest.mark.parametrize("name", ["e2006", "a9a"])
def test_sets_split_by_the_publisher_share_their_columns(home, name):
    split = load(name, home)
    expected = {
        "e2006": ([[0.5, 0, 0, 0.25], [0, 1e-3, 0, 0]], [[0, 0, 0.125, 0]], [-3.5, -4], [-2.5]),
        "a9a": ([[1, 0, 1], [0, 1, 0]], [[0, 1, 0]], [-1, 1], [1]),
    }[name]
    assert_same(split, map(np.array, expected))
    assert isinstance(split, datasets.Split)
    assert split.X_train.format == "csr"


def test_movielens_is_one_hot_users_then_movies(home):
    X, y = datasets.load_movielens_1m(home)
    # Users 1, 3, 7 and movies 20, 661, 1193.
    assert_array_equal(X.toarray(), [[1, 0, 0, 0, 0, 1], [1, 0, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1], [0, 1, 0, 1, 0, 0]])
    assert_array_equal(y, [5, 3, 1, 4])
    assert X.format == "csr"
    assert X.dtype == y.dtype == np.float64
    assert X.has_canonical_format


def test_lastfm_counts_the_tags_of_listed_artists(home):
    X, y = datasets.load_lastfm(home)
    # Artists 8, 52 and tags 13, 15; artist 99 is not listed, though an artist has that name.
    assert_array_equal(X.toarray(), [[1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]])
    assert_array_equal(y, [1, 2, 1])
    assert X.format == "csr"
    assert X.dtype == y.dtype == np.float64


def test_imdb_is_tfidf_with_the_idf_of_the_training_part(home):
    split = datasets.load_imdb(home)
    idf = np.log((1 + 3) / (1 + np.array([2, 1, 2, 0]))) + 1

    def normalised(counts):
        return counts * idf / np.linalg.norm(counts * idf, axis=1, keepdims=True)

    assert_allclose(split.X_train.toarray(), normalised(np.array([[3, 0, 1, 0], [1, 1, 0, 0], [0, 0, 2, 0]])))
    assert_allclose(split.X_test.toarray(), normalised(np.array([[1, 0, 1, 0], [0, 0, 0, 4]])))
    assert_array_equal(split.y_train, [9, 2, 7])
    assert_array_equal(split.y_test, [10, 1])


# -- where files are found --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
@pytest.mark.parametrize("name", FROM_FILES)
def test_compressed_files_are_the_same_data(home, tmp_path_factory, name, suffix):
    packed = tmp_path_factory.mktemp("packed")
    for file, content in FILES.items():
        write(packed, file + suffix, COMPRESS[suffix](content))
    assert_same(load(name, packed), load(name, home))


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives_are_the_same_data_and_unpacked_once(home, tmp_path_factory, name):
    packed = tmp_path_factory.mktemp("packed")
    archive, content = ARCHIVES[name]
    write(packed, archive, content)
    assert_same(load(name, packed), load(name, home))
    (packed / archive).unlink()
    assert_same(load(name, packed), load(name, home))


def test_the_directory_is_the_argument_then_the_variable_then_a_cache(home, monkeypatch):
    assert datasets.data_home() == Path.home() / ".cache" / "polyfm"
    monkeypatch.setenv("POLYFM_DATA_HOME", str(home))
    assert datasets.data_home() == home
    assert len(datasets.load_abalone()[1]) == 4
    assert datasets.data_home(home / "other") == home / "other"
    with pytest.raises(FileNotFoundError):
        datasets.load_abalone(home / "other")


# -- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FROM_FILES)
def test_missing_files_are_named_with_their_address_and_place(tmp_path, name):
    with pytest.raises(FileNotFoundError) as error:
        load(name, tmp_path)
    message, source = str(error.value), _published.SOURCES[name][0]
    for said in (str(tmp_path), source.url, "download=True", "POLYFM_DATA_HOME"):
        assert said in message
    for file in source.files:
        for suffix in COMPRESS:
            assert file + suffix in message
    assert not source.is_archive or f"as {source.download}," in message


def test_only_the_file_that_is_missing_is_asked_for(home):
    (home / "a9a.t").unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no a9a\.t\. Fetch \S*/binary/a9a\.t and"):
        datasets.load_a9a(home)


@pytest.mark.parametrize("file", [file for file in FILES if COUNTS.get(file)])
def test_a_file_that_lacks_its_last_line_is_refused(home, file):
    lines = FILES[file].splitlines(keepends=True)
    write(home, file, b"".join(lines[:-1]))
    name, source = set_of(file)
    with pytest.raises(ValueError, match=re.escape(f"Fetch {source.url} and put it into {home} as")) as error:
        load(name, home)
    assert str(home / file) in str(error.value)


@pytest.mark.parametrize(("file", "what"), [(file, what) for file, counts in COUNTS.items() for what in counts])
def test_every_count_is_verified(home, file, what):
    name, source = set_of(file)
    expected = COUNTS[file][what]
    source.files[file] = {what: 1_000 * expected}
    with pytest.raises(ValueError, match=f"has {expected} {what} instead of {expected},000;"):
        load(name, home)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"1::1193::5::978300760\n1::661::3", "does not hold 4 numbers"),
        (b"1::1193::5::978300760\n1::661::3.5::978302109\n", "not a whole number"),
        (b"<html>404</html>", "not a whole number"),
        (b"\n", "has 0 ratings"),
    ],
)
def test_ratings_that_are_not_numbers_in_fours_are_refused(home, content, what):
    write(home, "ml-1m/ratings.dat", content)
    with pytest.raises(ValueError, match=rf"ratings\.dat: .*{what}.*Fetch http"):
        datasets.load_movielens_1m(home)


def test_a_malformed_line_is_named_with_what_to_fetch(home):
    write(home, "abalone", b"15 1:1\n<html>\n")
    with pytest.raises(ValueError, match=r"abalone, line 2: .*Fetch http"):
        datasets.load_abalone(home)


def test_words_outside_the_vocabulary_are_refused(home):
    write(home, "aclImdb/imdb.vocab", b"the\nand\ngood\n")
    with pytest.raises(ValueError, match=r"test.labeledBow\.feat, line 2: .*Fetch http"):
        datasets.load_imdb(home)


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives_cut_short_are_refused_and_leave_nothing(tmp_path, name):
    archive, content = ARCHIVES[name]
    write(tmp_path, archive, content[: len(content) // 2])
    with pytest.raises(ValueError, match=rf"{archive}: is damaged or cut short.*Fetch http"):
        load(name, tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [archive]


def test_archives_without_the_file_are_refused(tmp_path):
    write(tmp_path, "ml-1m.zip", zipped({"ml-1m/movies.dat": b""}))
    with pytest.raises(ValueError, match=r"ml-1m\.zip: does not hold ml-1m/ratings\.dat\. .*Fetch http"):
        datasets.load_movielens_1m(tmp_path)


# -- splits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FROM_FILES)
def test_splits_are_the_publishers_or_three_quarters(home, name):
    split, data = datasets.train_test(name, home), load(name, home)
    if isinstance(data, datasets.Split):
        assert_same(split, data)
    else:
        n_test = -(-len(data[1]) // 4)
        assert split.X_test.shape == (n_test, data[0].shape[1])
        assert split.X_train.shape[0] == len(data[1]) - n_test
        assert sorted([*split.y_train, *split.y_test]) == sorted(data[1])


def test_the_seed_fixes_the_split_and_rows_keep_their_targets():
    split = datasets.train_test("diabetes")
    assert [len(part) for part in split] == [331, 111, 331, 111]
    assert_same(split, datasets.train_test("diabetes", random_state=0))
    assert not np.array_equal(split.y_test, datasets.train_test("diabetes", random_state=1).y_test)
    X, y = datasets.load_diabetes()
    target = {row.tobytes(): value for row, value in zip(X, y, strict=True)}
    assert [target[row.tobytes()] for row in split.X_test] == list(split.y_test)


def test_names_are_those_of_the_loaders():
    assert set(datasets.NAMES) == {name.removeprefix("load_") for name in datasets.__all__ if name.startswith("load_")}
    with pytest.raises(ValueError, match="no data set 'iris'.*diabetes, abalone"):
        datasets.train_test("iris")


# -- downloads --------------------------------------------------------------------------------------------------------


def test_a_download_without_pooch_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r'pip install "polyfm\[datasets\]".*Fetch http'):
        datasets.load_abalone(tmp_path, download=True)


def test_nothing_is_downloaded_where_the_files_are(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    for name in FROM_FILES:
        datasets.train_test(name, home, download=True)


@pytest.mark.parametrize("name", ARCHIVES)
def test_nothing_is_downloaded_where_the_archive_is(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "pooch", None)
    write(tmp_path, *ARCHIVES[name])
    datasets.train_test(name, tmp_path, download=True)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def publisher(tmp_path, monkeypatch):
    """A server in the publishers' place, and the directory that it serves."""
    pytest.importorskip("pooch")
    (tmp_path / "served").mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path / "served"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for sources in _published.SOURCES.values():
        sources[:] = [
            source._replace(url=f"http://127.0.0.1:{server.server_port}/{source.download}", checksum=None)
            for source in sources
        ]
    yield tmp_path / "served"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", FROM_FILES)
def test_files_that_are_missing_are_fetched_once(publisher, home, name):
    for source in _published.SOURCES[name]:
        if source.is_archive:
            write(publisher, *ARCHIVES[name])
        else:
            (file,) = source.files
            write(publisher, source.download, COMPRESS[source.download.removeprefix(file)](FILES[file]))
    cache = home / "cache"
    loader = getattr(datasets, f"load_{name}")
    assert_same(loader(cache, download=True), load(name, home))
    for file in publisher.iterdir():
        file.unlink()
    assert_same(loader(cache, download=True), load(name, home))


def test_a_download_with_another_checksum_is_refused(publisher, tmp_path):
    write(publisher, "abalone", FILES["abalone"])
    sources = _published.SOURCES["abalone"]
    sources[:] = [sources[0]._replace(checksum="md5:" + 32 * "0")]
    with pytest.raises(ValueError, match=r"/abalone: the download is not what it should be.*Fetch http"):
        datasets.load_abalone(tmp_path, download=True)
    assert not (tmp_path / "abalone").exists()


def test_a_download_that_fails_says_what_to_fetch(publisher, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"/abalone cannot be downloaded into .*404.*Fetch http"):
        datasets.load_abalone(tmp_path, download=True)
