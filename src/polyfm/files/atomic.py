"""Opening files of unknown origin, and writing files whole or not at all."""

import bz2
import gzip
import io
import lzma
import os
import secrets
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, TypeAlias

Path: TypeAlias = str | os.PathLike[str]

XZ_MEMORY = 256 * 2**20  # xz files can ask for 4 GB to be read; those that `xz -9` writes need 65 MB
LONGEST_SHOWN = 120


class ModelFileError(ValueError):
    """A model file that cannot be read or written: the message names the file, what is wrong and what to do."""


class DataFileError(ValueError):
    """A data file that cannot be read: the message names the file, the line where there is one, and what to do."""


def shown(text: bytes | str) -> str:
    """Text of unknown origin, quoted and cut for a message."""
    if isinstance(text, bytes):
        text = text[: 4 * LONGEST_SHOWN].decode("utf-8", errors="replace")
    return repr(text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "...")


def _open(path: Path, error: type[ValueError], regular: bool) -> tuple[str, IO[bytes]]:
    name = os.fsdecode(os.fspath(path))
    try:
        # Looked at before it is opened: opening a pipe waits until somebody writes into it.
        mode = os.stat(name).st_mode
        if stat.S_ISDIR(mode):
            raise error(f"{name}: is a directory. Give the path of a file in it.")
        if regular and not stat.S_ISREG(mode):
            raise error(f"{name}: is a pipe or a device. Copy its content to a file first.")
        return name, open(name, "rb")
    except FileNotFoundError as problem:
        raise error(f"{name}: there is no such file. Check the path.") from problem
    except PermissionError as problem:
        raise error(f"{name}: you may not read it. Ask its owner, or change its permissions.") from problem
    except (OSError, ValueError) as problem:
        if isinstance(problem, error):
            raise
        raise error(f"{name!r}: cannot be opened ({problem}). Check the path.") from problem


@contextmanager
def reading(path: Path, error: type[ValueError], *, regular: bool = False) -> Iterator[IO[bytes]]:
    """Open a file to read; whatever the system has against it is raised as `error`."""
    name, file = _open(path, error, regular)
    with file:
        try:
            yield file
        except OSError as problem:
            raise error(f"{name}: reading failed ({problem}). Check the disk, or copy the file again.") from problem


def is_pipe(path: Path) -> bool:
    """Whether there is something that can be read, but only once."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


# -- compressed data --------------------------------------------------------------------------------------------------


class _Xz(io.RawIOBase):
    """lzma.LZMAFile with a limit on memory."""

    def __init__(self, file: IO[bytes]):
        self._file = file
        self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while True:
            if self._decoder.eof:  # xz files may follow one another, with zeros between them
                rest = self._decoder.unused_data.lstrip(b"\0") or self._file.read(io.DEFAULT_BUFFER_SIZE).lstrip(b"\0")
                if not rest:
                    return 0
                self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
            elif self._decoder.needs_input:
                rest = self._file.read(io.DEFAULT_BUFFER_SIZE)
                if not rest:
                    raise EOFError("the end is missing")
            else:
                rest = b""
            data = self._decoder.decompress(rest, len(target))
            if data:
                target[: len(data)] = data
                return len(data)


class _Checked(io.RawIOBase):
    """A file whose reading problems, of whatever kind, are raised as a `DataFileError`."""

    def __init__(self, name: str, file: Any, kind: str):
        self._name, self._file, self._kind = name, file, kind

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        try:
            data = self._file.read(len(target))
        except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as problem:
            raise DataFileError(
                f"{self._name}: the {self._kind} data are damaged or cut short ({problem}). Copy or download the file "
                "again."
            ) from problem
        target[: len(data)] = data
        return len(data)


_COMPRESSED: dict[bytes, tuple[str, Callable[[IO[bytes]], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda file: gzip.GzipFile(fileobj=file)),
    b"BZh": ("bzip2", bz2.BZ2File),
    b"\xfd7zXZ\0": ("xz", _Xz),
}


@contextmanager
def reading_data(path: Path) -> Iterator[IO[bytes]]:
    """Open a data file, plain or compressed by gzip, bzip2 or xz. Its first bytes say which, not its name."""
    with reading(path, DataFileError) as file:
        first = file.peek(6)  # type: ignore[attr-defined]
        for magic, (kind, decoded) in _COMPRESSED.items():
            if first.startswith(magic):
                yield io.BufferedReader(_Checked(os.fsdecode(os.fspath(path)), decoded(file), kind), 2**16)
                return
        yield file


# -- writing ----------------------------------------------------------------------------------------------------------


def check_writable(path: Path, error: type[ValueError]) -> None:
    """Refuse, before any work, a path that `writing` could not write to."""
    *_, temporary, _, handle = _new_file(path, error)
    os.close(handle)
    os.unlink(temporary)


@contextmanager
def writing(path: Path, error: type[ValueError]) -> Iterator[IO[bytes]]:
    """Write a file whole or not at all.

    The bytes go to a temporary file in the same directory, are forced to disk, and only then take the name. A process
    that is killed before leaves the old file as it was (and perhaps a hidden `.polyfm-*.tmp` beside it). A symbolic
    link is followed; permissions are those of the file that is replaced, or the usual ones for new files.
    """
    name, target, directory, temporary, mode, handle = _new_file(path, error)
    try:
        try:
            with open(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if mode is not None:
                os.chmod(temporary, stat.S_IMODE(mode))
            os.replace(temporary, target)
        except OSError as problem:
            raise error(f"{name}: cannot be written ({problem}). Nothing was changed; is the disk full?") from problem
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _force_directory(directory)


def _new_file(path: Path, error: type[ValueError]) -> tuple[str, str, str, str, int | None, int]:
    """Where a file is to go: its name, target, directory, an open temporary file there, and the mode of the file that
    it will replace."""
    name = os.fsdecode(os.fspath(path))
    mode = None
    try:
        target = os.path.realpath(name)
        directory = os.path.dirname(target)
        temporary = os.path.join(directory, f".polyfm-{secrets.token_hex(8)}.tmp")
        with suppress(FileNotFoundError):  # but not a name that is too long, or goes through a file
            mode = os.stat(target).st_mode
        if mode is not None:
            if not stat.S_ISREG(mode):
                raise error(f"{name}: is a directory, a pipe or a device. Give the path of a file.")
            if not os.access(target, os.W_OK):
                raise error(f"{name}: exists and is read-only. Choose another name, or make it writable.")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        handle = os.open(temporary, flags, 0o666)  # the system takes the user's mask off
    except (OSError, ValueError) as problem:
        if isinstance(problem, error):
            raise
        why = getattr(problem, "strerror", None) or problem
        raise error(
            f"{name!r}: cannot be written ({why}). Check that the directory exists and that you may write into it."
        ) from problem
    return name, target, directory, temporary, mode, handle


def _force_directory(directory: str) -> None:
    """Make the new name last through a power cut, where the system can."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
