"""The publishers' files: where they come from, what they must hold, and finding them on disk or fetching them."""

import gzip
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from polyfm.files.atomic import DataFileError, writing

SUFFIXES = ("", ".gz", ".bz2", ".xz")
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
GROUPLENS = "https://files.grouplens.org/datasets/"


class Source(NamedTuple):
    """What an address offers: a file, or an archive of files, with the counts that each file must have.

    The checksum is None where none is known for certain; the counts are verified in any case.
    """

    url: str
    files: dict[str, dict[str, int]]
    checksum: str | None = None

    @property
    def download(self) -> str:
        return self.url.rpartition("/")[2]

    @property
    def is_archive(self) -> bool:
        return self.download.endswith((".zip", ".tar.gz"))


SOURCES = {
    "abalone": [Source(LIBSVM + "regression/abalone", {"abalone": {"rows": 4_177, "features": 8, "nonzeros": 33_414}})],
    "cadata": [Source(LIBSVM + "regression/cadata", {"cadata": {"rows": 20_640, "features": 8, "nonzeros": 165_120}})],
    "cpusmall": [Source(LIBSVM + "regression/cpusmall", {"cpusmall": {"rows": 8_192, "features": 12}})],
    "e2006": [
        Source(LIBSVM + "regression/E2006.train.bz2", {"E2006.train": {"rows": 16_087, "features": 150_360}}),
        Source(LIBSVM + "regression/E2006.test.bz2", {"E2006.test": {"rows": 3_308}}),
    ],
    "a9a": [
        Source(LIBSVM + "binary/a9a", {"a9a": {"rows": 32_561, "features": 123, "nonzeros": 451_592}}),
        Source(LIBSVM + "binary/a9a.t", {"a9a.t": {"rows": 16_281, "nonzeros": 225_731}}),
    ],
    "movielens_1m": [
        Source(
            GROUPLENS + "movielens/ml-1m.zip",
            {"ml-1m/ratings.dat": {"ratings": 1_000_209, "users": 6_040, "movies": 3_706}},
            "md5:c4d9eecfca2ab87c1945afe126590906",
        )
    ],
    "lastfm": [
        Source(
            GROUPLENS + "hetrec2011/hetrec2011-lastfm-2k.zip",
            {
                "hetrec2011-lastfm-2k/user_taggedartists.dat": {
                    "assignments": 186_479,
                    "pairs": 108_437,
                    "artists": 12_133,
                    "tags": 9_718,
                },
                "hetrec2011-lastfm-2k/artists.dat": {},
            },
            "sha256:6738f48195667ff03caaab4d32ca9a3133d8cc026b7c3cdaf6ce1010e913c59c",
        )
    ],
    "imdb": [
        Source(
            "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
            {
                "aclImdb/train/labeledBow.feat": {"rows": 25_000},
                "aclImdb/test/labeledBow.feat": {"rows": 25_000},
                "aclImdb/imdb.vocab": {},
            },
            "md5:7c2ac02c03563afcf9b574c7e56c153a",
        )
    ],
}


class File(NamedTuple):
    """A publisher's file on disk, and the counts that it must have."""

    path: Path
    expected: dict[str, int]

    def check(self, **counts: int) -> None:
        for what, expected in self.expected.items():
            if counts[what] != expected:
                found = f"has {counts[what]:,} {what} instead of {expected:,}"
                raise DataFileError(f"{self.path}: {found}; it is cut short or another file.")


def data_home(data_home: str | os.PathLike[str] | None = None) -> Path:
    """The directory of the data sets: the one given, or POLYFM_DATA_HOME, or ``~/.cache/polyfm``.

    Parameters
    ----------
    data_home : str or path-like, default=None
        A directory.
    """
    return Path(data_home or os.environ.get("POLYFM_DATA_HOME") or "~/.cache/polyfm").expanduser()


@contextmanager
def published(name: str, home: str | os.PathLike[str] | None, download: bool) -> Iterator[list[File]]:
    """The files of a data set, to read and check; whatever is wrong with them is said with what to do."""
    home = data_home(home)
    try:
        yield [file for source in SOURCES[name] for file in _files(name, source, home, download)]
    except DataFileError as problem:
        advice = " ".join(_advice(source, home) for source in SOURCES[name])
        raise DataFileError(f"{problem} Delete it. {advice}") from problem


def _files(name: str, source: Source, home: Path, download: bool) -> list[File]:
    def absent() -> list[str]:
        return [file for file in source.files if not _found(home, file)]

    archive = home / source.download
    if absent() and download and not archive.is_file():
        _download(source, home)
    if absent() and source.is_archive and archive.is_file():
        _unpack(archive, absent(), home)
    if missing := absent():
        raise FileNotFoundError(
            f"The data set {name!r} is not in {home}: there is no {' and no '.join(missing)}. {_advice(source, home)} "
            "Or pass download=True, or name another directory by data_home or the environment variable "
            "POLYFM_DATA_HOME."
        )
    return [File(_found(home, file)[0], expected) for file, expected in source.files.items()]


def _found(home: Path, file: str) -> list[Path]:
    return [path for suffix in SUFFIXES if (path := home / (file + suffix)).is_file()]


def _advice(source: Source, home: Path) -> str:
    names = [f"{file} (or {', '.join(file + suffix for suffix in SUFFIXES[1:])})" for file in source.files]
    unpacked = " and ".join(names)
    place = f"{source.download}, or unpacked as {unpacked}" if source.is_archive else unpacked
    return f"Fetch {source.url} and put it into {home} as {place}."


def _download(source: Source, home: Path) -> None:
    try:
        import pooch
    except ImportError:
        raise ImportError(
            'Downloading needs pooch, which is not installed. Install it with: pip install "polyfm[datasets]". '
            + _advice(source, home)
        ) from None
    try:
        pooch.retrieve(source.url, source.checksum, fname=source.download, path=home)
    except OSError as problem:
        raise FileNotFoundError(
            f"{source.url} cannot be downloaded into {home} ({problem}). {_advice(source, home)}"
        ) from problem
    except ValueError as problem:
        raise DataFileError(f"{source.url}: the download is not what it should be ({problem}).") from problem


def _unpack(archive: Path, files: list[str], home: Path) -> None:
    """Write files of an archive beside it, where they are found the next time."""
    missing = set(files)
    try:
        for member, read in _members(archive):
            # The last part of the path will do: HetRec's archive has no directory of its own.
            for file in [file for file in missing if f"/{file}".endswith(f"/{member}")]:
                content = read()
                (home / file).parent.mkdir(parents=True, exist_ok=True)
                with writing(home / file, DataFileError) as target:
                    target.write(content)
                missing.remove(file)
            if not missing:
                return
    except (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as problem:
        raise DataFileError(f"{archive}: is damaged or cut short ({problem}).") from problem
    raise DataFileError(f"{archive}: does not hold {' and '.join(sorted(missing))}.")


def _members(archive: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """The names of the files in an archive, and how to read each."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as members:
            for name in members.namelist():
                yield name, partial(members.read, name)
    else:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                if content := tar.extractfile(member):
                    yield member.name, content.read
