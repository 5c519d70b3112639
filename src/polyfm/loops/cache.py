"""Compiled loops on disk: never stale, never mixed up, never a reason to fail.

numba's own cache numbers its files and keeps an index of them; two processes that start together can give one number to
two loops, and then load the wrong code. Here each specialisation has a file of its own, named after what it was
compiled from and for, with a sum over its bytes: a file that is damaged, or is not what its name says, is as good as
none, and the loop is compiled again.
"""

import hashlib
import os
import pickle
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import types

LOOPS = Path(__file__).parent
kept: set[str] = set()  # files that this process has read or written
DIGEST = hashlib.sha256().digest_size


@cache
def loops_stamp() -> str:
    """A hash of every file in this folder: a loop depends on losses and forms that other files define, and on nothing
    outside. Editing anything else compiles nothing anew."""
    return hash_of_sources(LOOPS)


def hash_of_sources(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def is_private(folder: str) -> bool:
    """Whether nobody but this user (and the administrator) can put code into a folder, as far as the system tells."""
    if not hasattr(os, "getuid"):
        return True
    while not os.path.exists(folder):  # it will be made where this one is
        folder = os.path.dirname(folder)
    found = os.stat(folder)
    return found.st_uid in (os.getuid(), 0) and not found.st_mode & stat.S_IWOTH


class CacheFiles:
    """The files of one loop, by the key of the specialisation."""

    def __init__(self, folder: str, base: str, dumps: Callable[[Any], bytes]):
        self.folder, self.base, self.dumps = Path(folder), base, dumps
        self.stamp = loops_stamp()[:12]

    def _path(self, key: Any) -> Path:
        name = hashlib.sha256(f"{numba.__version__} {loops_stamp()} {key}".encode()).hexdigest()
        return self.folder / f"{self.base}.{self.stamp}.{name[:24]}.nbc"

    def save(self, key: Any, data: Any) -> None:
        for path in self.folder.glob(f"{self.base}.*.nbc"):
            if self.stamp not in path.name:  # of other sources: nobody will ask for it again
                path.unlink(missing_ok=True)
        payload = self.dumps((key, data))
        path = self._path(key)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            temporary.write_bytes(hashlib.sha256(payload).digest() + payload)
            os.replace(temporary, path)
            kept.add(path.name)
        finally:
            temporary.unlink(missing_ok=True)

    def load(self, key: Any) -> Any:
        path = self._path(key)
        if not path.exists():
            return None
        content = path.read_bytes()
        if hashlib.sha256(content[DIGEST:]).digest() != content[:DIGEST]:
            return None
        found, data = pickle.loads(content[DIGEST:])
        if found != key:
            return None
        kept.add(path.name)
        return data

    def flush(self) -> None:
        for path in self.folder.glob(f"{self.base}.*.nbc"):
            path.unlink(missing_ok=True)


def _is_ours(numba_type: Any) -> bool:
    """Whether a type is built from the package's own classes alone, and so may be cached on disk."""
    cls = getattr(numba_type, "instance_class", None)
    ours = cls is None or cls.__module__.partition(".")[0] == __name__.partition(".")[0]
    inner = getattr(numba_type, "types", ()) if isinstance(numba_type, types.BaseTuple) else ()
    return ours and all(map(_is_ours, inner))


def enable_cache(dispatcher: Any, variant: str) -> None:
    """Cache a loop on disk. Where numba's hooks have moved, or others could write there, do without."""
    try:
        from numba.core.caching import FunctionCache
        from numba.core.serialize import dumps

        class PackageCache(FunctionCache):
            def __init__(self, py_func):
                super().__init__(py_func)
                self._cache_file = CacheFiles(self._cache_path, f"{self._impl.filename_base}-{variant}", dumps)

            def load_overload(self, sig, target_context):
                try:
                    return super().load_overload(sig, target_context) if all(map(_is_ours, sig)) else None
                except Exception:  # whatever is wrong with the file, the sources are there
                    return None

            def save_overload(self, sig, data):
                try:
                    if all(map(_is_ours, getattr(sig, "args", sig))):
                        super().save_overload(sig, data)
                except (OSError, pickle.PickleError):  # a full disk, say: what was compiled is in memory all the same
                    pass

        found = PackageCache(dispatcher.py_func)
        if is_private(found.cache_path):
            dispatcher._cache = found
    except (ImportError, AttributeError, TypeError, RuntimeError, OSError):
        pass
