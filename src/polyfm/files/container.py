"""Model files and checkpoints as containers: a zip archive of a JSON header, .npy arrays and their SHA-256 sums. No
pickle.

    header.json      {"format": "polyfm-model", "format_version": 1, "polyfm_version": ..., "notes": [...],
                      "object": {...}, "arrays": {name: {"dtype": ..., "shape": [...]}}}
    arrays/NAME.npy  numbers and booleans only
    SHA256SUMS       what ``sha256sum -c`` reads, over all of the above

Nothing is compressed, so that no array can be larger than the file, and sizes are compared before anything is read.
The same model gives the same bytes.
"""

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import numpy as np

from polyfm.files.atomic import ModelFileError, Path, reading, shown, writing

HEADER, SUMS = "header.json", "SHA256SUMS"
LARGEST_HEADER = 2**20  # bytes; long lists are arrays
LARGEST_DIRECTORY = 2**20  # bytes of the archive's list of members
MOST_DIMENSIONS = 8
NPY_HEADER = 2**14  # more than numpy writes before the numbers of such arrays
STORED_TYPES = {
    np.dtype(t).str.lstrip("<|=") for t in ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
}
AGAIN = "Copy or download it again, or save the model again."


class Format(NamedTuple):
    """What a container is for; the words are those of its error messages."""

    name: str
    version: int
    kind: str
    remedy: str


MODEL = Format("polyfm-model", 1, "model file", "Give a file that save_model has written.")


def can_hold(array: np.ndarray) -> bool:
    return array.dtype.str[1:] in STORED_TYPES


# -- writing ----------------------------------------------------------------------------------------------------------


def write(path: Path, header: dict[str, Any], arrays: dict[str, np.ndarray], kind: Format = MODEL) -> None:
    """Write a container, whole or not at all."""
    header = {
        "format": kind.name,
        "format_version": kind.version,
        **header,
        "arrays": {name: {"dtype": array.dtype.str, "shape": array.shape} for name, array in arrays.items()},
    }
    text = json.dumps(header, indent=1, allow_nan=False).encode()
    if len(text) > LARGEST_HEADER:
        raise ModelFileError(
            f"{path}: the model's parameters take {len(text)} bytes as JSON, more than {LARGEST_HEADER}. Shorten them."
        )
    with writing(path, ModelFileError) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        sums = [_add(archive, HEADER, lambda member: member.write(text))]
        for name, array in arrays.items():
            sums.append(_add(archive, _member(name), lambda member, a=array: np.save(member, a, allow_pickle=False)))
        _add(archive, SUMS, lambda member: member.write("".join(sums).encode()))


def _member(name: str) -> str:
    return f"arrays/{name}.npy"


class _Summed(io.RawIOBase):
    """Passes bytes on and keeps their sum."""

    def __init__(self, file: IO[bytes]):
        self._file, self.sum = file, hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.sum.update(data)
        return self._file.write(data)


def _add(archive: zipfile.ZipFile, name: str, write: Any) -> str:
    """Write a member; gives its line of SHA256SUMS. ZipInfo's own date, 1980, keeps the bytes the same."""
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o644 << 16
    with archive.open(info, "w", force_zip64=True) as member:
        summed = _Summed(member)
        write(summed)
    return f"{summed.sum.hexdigest()}  {name}\n"


# -- reading ----------------------------------------------------------------------------------------------------------


def read(path: Path, kind: Format = MODEL) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays, after all checks."""
    with _opened(path, kind) as archive:
        header = archive.header()
        return header, {name: archive.array(name, entry) for name, entry in header["arrays"].items()}


def read_header(path: Path) -> dict[str, Any]:
    """The header alone; the sizes of the arrays are checked, but they are not read."""
    with _opened(path, MODEL) as archive:
        return archive.header()


@contextmanager
def _opened(path: Path, kind: Format) -> Iterator["_Archive"]:
    with reading(path, ModelFileError, regular=True) as file:
        yield _Archive(os.fsdecode(os.fspath(path)), file, kind)


class _Limited:
    """A file to open an archive from: the list of members is read in one piece, which must not be large."""

    def __init__(self, file: IO[bytes], size: int):
        self._file, self._size, self.limit = file, size, LARGEST_DIRECTORY

    def read(self, n: int = -1) -> bytes:
        if n < 0:
            n = self._size - self._file.tell()
        if n > self.limit:
            raise zipfile.BadZipFile(f"{n} bytes asked for at once")
        return self._file.read(n)

    def seek(self, *args: int) -> int:
        return self._file.seek(*args)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True


def _is_sound(entry: Any) -> bool:
    """Whether an array's entry in a header names a type and a shape that we write."""
    if (
        not isinstance(entry, dict)
        or not isinstance(entry.get("dtype"), str)
        or not isinstance(entry.get("shape"), list)
    ):
        return False
    dtype, shape = entry["dtype"], entry["shape"]
    known = dtype[:1] in ("<", ">", "|") and dtype[1:] in STORED_TYPES and len(shape) <= MOST_DIMENSIONS
    return known and all(type(n) is int and n >= 0 for n in shape)


class _Archive:
    """An open container of unknown origin. All problems are raised as `ModelFileError`."""

    def __init__(self, name: str, file: IO[bytes], kind: Format):
        self.name, self.kind = name, kind
        self.size = file.seek(0, os.SEEK_END)
        file.seek(0)
        first = file.read(4)
        file.seek(0)
        if first != b"PK\3\4":
            what = "is empty" if not self.size else f"begins with {shown(first)}"
            raise self.error(f"is not a polyfm {kind.kind}: it {what}", kind.remedy)
        limited = _Limited(file, self.size)
        try:
            self._zip = zipfile.ZipFile(limited)  # type: ignore[arg-type]
        except Exception as problem:  # damaged archives raise many kinds
            raise self.error(f"is damaged or cut short ({problem})", AGAIN) from problem
        limited.limit = self.size
        self.members = {info.filename: info for info in self._zip.infolist()}
        if len(self.members) < len(self._zip.infolist()):
            raise self.error("is altered: two members have one name", AGAIN)
        if HEADER not in self.members or SUMS not in self.members:
            raise self.error(f"is a zip archive without {HEADER}", kind.remedy)
        if any(info.compress_type != zipfile.ZIP_STORED for info in self.members.values()):
            raise self.error("is altered: it holds compressed members", AGAIN)
        if sum(info.file_size for info in self.members.values()) > self.size:
            raise self.error("is damaged or altered: its members are larger than the file", AGAIN)
        lines = [line.split("  ", 1) for line in self._small(SUMS).decode("utf-8", "replace").splitlines()]
        self.sums = {line[1]: line[0] for line in lines if len(line) == 2}

    def error(self, what: str, remedy: str) -> ModelFileError:
        return ModelFileError(f"{self.name}: {what}. {remedy}")

    def _small(self, name: str) -> bytes:
        if self.members[name].file_size > LARGEST_HEADER:
            raise self.error(f"is altered: {shown(name)} has {self.members[name].file_size} bytes", AGAIN)
        return self._bytes(name)

    def _bytes(self, name: str) -> bytes:
        try:
            data = self._zip.read(self.members[name])
        except Exception as problem:  # as above
            raise self.error(f"is damaged: {shown(name)} cannot be read ({problem})", AGAIN) from problem
        if name != SUMS and hashlib.sha256(data).hexdigest() != self.sums.get(name):
            raise self.error(f"is damaged or altered: {shown(name)} does not have its SHA-256 sum", AGAIN)
        return data

    def header(self) -> dict[str, Any]:
        try:
            header = json.loads(self._small(HEADER).decode())
        except ModelFileError:
            raise
        except (ValueError, RecursionError) as problem:
            raise self.error(f"has a header that is not JSON ({problem})", AGAIN) from problem
        if not isinstance(header, dict) or header.get("format") != self.kind.name:
            raise self.error(f"is not a polyfm {self.kind.kind}", self.kind.remedy)
        version = header.get("format_version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise self.error(f"has no sound format version ({shown(str(version))})", AGAIN)
        if version > self.kind.version:
            raise self.error(
                f"was written by polyfm {shown(str(header.get('polyfm_version')))} in format {version}, newer than "
                f"format {self.kind.version} that is known here",
                "Update polyfm: pip install --upgrade polyfm",
            )
        self._check_arrays(header.get("arrays"))
        return header

    def _check_arrays(self, arrays: Any) -> None:
        """Declared types and shapes are plausible, and agree with the sizes of the members."""
        if not isinstance(arrays, dict):
            raise self.error("has a header without arrays", AGAIN)
        if {HEADER, SUMS, *map(_member, arrays)} != set(self.members):
            raise self.error("is altered: its members are not those that its header lists", AGAIN)
        for name, entry in arrays.items():
            if not _is_sound(entry):
                raise self.error(f"declares an impossible array {shown(name)}", AGAIN)
            declared = math.prod(entry["shape"]) * np.dtype(entry["dtype"]).itemsize
            if not 0 <= self.members[_member(name)].file_size - declared <= NPY_HEADER:
                raise self.error(f"declares {declared} bytes for array {shown(name)}, but holds another number", AGAIN)

    def array(self, name: str, entry: dict[str, Any]) -> np.ndarray:
        data = self._bytes(_member(name))
        stream = io.BytesIO(data)
        try:
            read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
            shape, by_columns, dtype = read[np.lib.format.read_magic(stream)[0]](stream)
            if (dtype.str, list(shape)) != (entry["dtype"], entry["shape"]):
                raise ValueError(f"{dtype.str} {shape} instead of {entry['dtype']} {entry['shape']}")
            flat = np.frombuffer(data, dtype=dtype, offset=stream.tell())
            array = flat.reshape(shape, order="F" if by_columns else "C")
        except Exception as problem:  # numpy, too, raises many kinds
            raise self.error(f"is altered: array {shown(name)} is not what it was ({problem})", AGAIN) from problem
        return array.astype(dtype.newbyteorder("="), order="C")  # a copy of our own, that can be written to
