"""Hostile files: whatever bytes a model file, a checkpoint, a libFM model or a data file has, reading it gives a result
or an error that names the file, soon and in little memory."""

import bz2
import contextlib
import copy
import gzip
import hashlib
import io
import json
import lzma
import random
import re
import resource
import shutil
import struct
import time
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from untrained import untrained

from attack.common import Child, Failed, check, refused, say, temporary
from polyfm import FactorizationMachineClassifier, FactorizationMachineRegressor, PolynomialNetworkRegressor
from polyfm.datafiles import DataFileError, iter_svmlight, iter_table, read_svmlight, read_table
from polyfm.files import container
from polyfm.libfm import export_libfm, import_libfm
from polyfm.modelfile import ModelFileError, load_model, model_info, save_model
from polyfm.solvers import SOLVERS
from polyfm.tabular import TableEncoder
from polyfm.training.checkpoint import FORMAT, read_checkpoint
from polyfm.training.hooks import watching

Use = Callable[[], Any]
LONGEST = 5.0  # seconds
MEMORY = 100 * 2**20  # bytes beside what the process has
SHARES = {"model": 30, "archive": 14, "checkpoint": 14, "resume": 4, "svmlight": 20, "packed": 6, "libfm": 11, "csv": 1}
NUMBERS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)
WORDS = (
    "nan", "inf", "-1", "1e999", "9" * 400, "0:1", "1:1", "2147483647:1", "99999999999:1", "1:2:3", "qid:3", "#", ":",
    "\n", "\r\n", " ", "\t", ",", '"', "\0", "\ufeff", "é", "1.5", "1e5", "a", "", ",,,", "\n\n", "1e-320", "+", "0x1",
)  # fmt: skip
LEAVES = (
    None, True, 0, 1, -1, 2, 7, 2**31, 2**63, 10**400, 0.5, 1e308, "", "regressor", "Pipeline", "lifted", "<f8", "|O",
    "<f4", [], [1], [2, 3], {}, {"array": "coef"}, {"list": [1], "tuple": True}, {"float": "nan"}, {"dtype": "float32"},
    {"strings": "classes_", "kind": "U", "none": False}, {"loss": "Own", "numbers": {}, "own": True}, "passthrough",
)  # fmt: skip
home = Path()
seeds: dict[str, list[bytes]] = {}
originals: list[str] = []  # what the seeds of models predict
checkpoints: list[tuple[Any, str]] = []  # for each seed of a checkpoint, what wrote it, and its key
ROWS = np.random.RandomState(0).standard_normal((12, 4))
LABELS = np.arange(12) % 3


@cache
def prepare() -> None:
    """Small files of every kind, and whatever reading them compiles."""
    global home
    home = temporary()
    path = home / "seed"
    table = pd.DataFrame({"user": [1, 2, 3], "genre": ["a", None, "b"], "age": [1.0, np.nan, 3.0]})
    encoder = TableEncoder(fields=["user"]).fit(table)
    width = encoder.transform(table).shape[1]
    models = [
        untrained(FactorizationMachineRegressor(degree=3, n_components=2), 4),
        untrained(FactorizationMachineClassifier(n_components=2), 4, ["a", "b", "c"]),
        untrained(PolynomialNetworkRegressor(n_components=2), 4, dtype=np.float32),
        FactorizationMachineRegressor(n_components=2, solver="sgd", random_state=0).partial_fit(ROWS, LABELS),
        make_pipeline(encoder, untrained(FactorizationMachineRegressor(n_components=2), width)),
    ]
    for model in models:
        save_model(model, path)
        seeds.setdefault("model", []).append(path.read_bytes())
        originals.append(harmless(path))
        for use in hostile(path):
            use()
    export_libfm(models[3], path)
    seeds["libfm"] = [path.read_bytes(), b"#unary interactions Wj\n1\n2\n#pairwise interactions Vj,f\n1 3\n2 1\n"]
    lines = b"".join(b"%d 1:%d 3:0.5 %d:1e-3 # c\n" % (i % 2, i, i + 4) for i in range(12))
    seeds["svmlight"] = [lines, b"1 qid:3 0:1 2:1\n\n-1 7:1\n", b"# nothing\n3.5 1:1\r\n"]
    seeds["packed"] = [pack(lines) for pack in (gzip.compress, bz2.compress, lzma.compress)]
    seeds["csv"] = [b"user,item,rating\n007,12,3.5\n008,,4\nada,1e5,-2\n", b'a,b\n"x, y",1\n"",2\n', b"a\n1\n2\n"]
    for solver in SOLVERS:
        write_checkpoint(path, solver, {"early_stopping": True, "validation_fraction": 0.4} if solver == "cd" else {})
    for name in ("svmlight", "packed", "libfm", "csv"):
        for data in seeds[name]:
            path.write_bytes(data)
            READERS[name](path)
    seeds["archive"], seeds["resume"] = seeds["model"], seeds["checkpoint"]


def write_checkpoint(path: Path, solver: str, more: dict) -> None:
    """A checkpoint as a killed process would leave it: the watcher sees that of the epoch before."""
    model = FactorizationMachineClassifier(
        solver=solver, n_components=2, max_iter=4, tol=0.0, random_state=0, checkpoint_interval=1, **more
    )
    kept = home / "kept"
    model.set_params(checkpoint=path)
    path.unlink(missing_ok=True)
    with watching(lambda progress: shutil.copy(path, kept) and None if path.exists() else None):
        model.fit(ROWS, LABELS)
    header, _ = container.read(kept, FORMAT)
    checkpoints.append((model, header["key"]))
    seeds.setdefault("checkpoint", []).append(kept.read_bytes())
    shutil.copy(kept, path)
    model.fit(ROWS, LABELS)


def enter() -> None:
    """In the worker: what asks for much memory fails, even where it is never touched."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.RLIM_INFINITY))


# -- mutations --------------------------------------------------------------------------------------------------------


def mutated(rng: random.Random, data: bytes, words: bool) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        size = len(out)
        at, to = rng.randrange(size + 1), rng.randrange(size + 1)
        length = min(rng.choice((1, 2, 4, 8, 30, 200)), size)
        kind = rng.randrange(11 if words else 9)
        if kind <= 1 and at < size:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del out[at:]
        elif kind == 3:
            out[at:at] = rng.randbytes(length)
        elif kind == 4:
            del out[at : at + length]
        elif kind == 5:  # swap
            first, second = bytes(out[at : at + length]), bytes(out[to : to + length])
            out[at : at + length], out[to : to + length] = second, first
        elif kind == 6:
            out[to:to] = out[at : at + length] * rng.choice((1, 2, 50))
        elif kind == 7:  # a claim about sizes
            width = rng.choice((1, 2, 4, 8))
            out[at : at + width] = (rng.choice(NUMBERS) % 256**width).to_bytes(width, "little")
        elif kind == 8:
            out[at : at + length] = rng.choice((b"\0", b"\xff", b"9", b" ")) * length
        else:
            out[at : at + rng.choice((0, 1, 5))] = rng.choice(WORDS).encode()
    return bytes(out)


def leaves(tree, path=()):
    yield path
    if isinstance(tree, dict | list):
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            yield from leaves(tree[key], (*path, key))


def other_array(rng: random.Random, data: bytes) -> bytes:
    """An array of another type, shape or content."""
    try:
        a, kind = np.load(io.BytesIO(data)), rng.randrange(8)
    except Exception:  # it was altered before
        return data[::-1]
    if kind == 0:
        with np.errstate(all="ignore"):
            a = a.astype(rng.choice(("i1", "f4", "f8", ">f8", "u8", "?", "i8")))
    elif kind == 1:
        a = a.reshape(a.shape[::-1])
    elif kind == 2:
        a = a.reshape(-1)[: rng.randrange(a.size + 1)]
    elif kind == 3:
        a = np.concatenate([a, a]) if a.ndim else a[None]
    elif kind == 4:
        a = np.asfortranarray(a)
    elif kind == 5 and a.size and a.dtype.kind == "f":
        a.flat[rng.randrange(a.size)] = rng.choice((np.nan, np.inf, -1e38, 0.0))
    elif kind == 6 and a.size and a.dtype.kind in "iu":
        a.flat[rng.randrange(a.size)] = rng.choice((0, 1, 100, 127))
    else:
        a = a.reshape((1,) * rng.randrange(1, 7) + a.shape)
    out = io.BytesIO()
    np.save(out, a)
    return out.getvalue()


@cache
def members_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rebuilt(rng: random.Random, data: bytes) -> bytes:
    """A container altered by someone who knows the format: its sums and its list of arrays are right, mostly."""
    members = dict(members_of(data))
    header, arrays = json.loads(members["header.json"]), [name for name in members if name.startswith("arrays/")]
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind, name = rng.randrange(10), rng.choice(arrays)
        if kind <= 3:
            *way, last = rng.choice([path for path in leaves(header) if path])
            at = header
            for key in way:
                at = at[key]
            at[last] = copy.deepcopy(rng.choice(LEAVES))
        elif kind <= 6 and name in members:
            members[name] = other_array(rng, members[name])
        elif kind == 7 and name in members:
            members[name] = mutated(rng, members[name], words=False)
        elif kind == 8:
            members.pop(name, None)
        else:
            members[rng.choice(("x", "arrays/x.npy", "../x", name + "/"))] = b"x" * rng.randrange(100)
        if isinstance(header.get("arrays"), dict) and name in members and rng.randrange(8):
            with contextlib.suppress(Exception):  # an array that numpy cannot read has no entry to correct
                a = np.load(io.BytesIO(members[name]))
                header["arrays"][name[7:-4]] = {"dtype": a.dtype.str, "shape": a.shape}
    members["header.json"] = json.dumps(header).encode()
    if rng.randrange(20):
        sums = (f"{hashlib.sha256(m).hexdigest()}  {n}\n" for n, m in members.items() if n != "SHA256SUMS")
        members["SHA256SUMS"] = "".join(sums).encode()
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", rng.choice((0, 0, 0, 8))) as archive:
        for name, member in members.items():
            archive.writestr(zipfile.ZipInfo(name), member)
            if not rng.randrange(100):
                warnings.simplefilter("ignore")  # zipfile's, about two members of one name
                archive.writestr(zipfile.ZipInfo(name), member)
    return claimed(rng, out.getvalue()) if not rng.randrange(4) else out.getvalue()


def claimed(rng: random.Random, data: bytes) -> bytes:
    """An archive whose lists of members claim other sizes, places or ways of packing."""
    out = bytearray(data)
    signature, fields = rng.choice(((b"PK\1\2", 46), (b"PK\3\4", 30), (b"PK\5\6", 22)))
    places = [found.start() for found in re.finditer(re.escape(signature), data)]
    at = rng.choice(places) + rng.randrange(4, fields)
    form = rng.choice("BHI")
    if at + struct.calcsize(form) <= len(out):
        struct.pack_into(f"<{form}", out, at, rng.choice(NUMBERS) % 256 ** struct.calcsize(form))
    return bytes(out)


# -- readers ----------------------------------------------------------------------------------------------------------


def prediction(model) -> str:
    """What predictions depend on, and that they can be made."""
    last = model[-1] if hasattr(model, "steps") else model
    return repr([getattr(last, name, None) for name in ("components_", "coef_", "intercept_", "lambdas_")])


def harmless(path: Path) -> str:
    info, model = model_info(path), load_model(path)
    check(isinstance(info, dict), "model_info gives no dict")
    return prediction(model)


def hostile(path: Path) -> list[Use]:
    """A model that a stranger has made, and what one would do with it."""
    model_info(path)
    model = load_model(path)
    last = model[-1] if hasattr(model, "steps") else model
    prediction(model)
    if not hasattr(last, "_fitted") or last.n_features_in_ > 1000:
        return []
    X = np.ones((2, last.n_features_in_), last._fitted.targets[0].coef.dtype)
    streams = getattr(last, "_stream", None) is not None and last.solver == "sgd" and last.loss == "squared"
    return [lambda: last.predict(X), *([lambda: last.partial_fit(X, [0, 1])] if streams else [])]


def resumed(path: Path, index: int) -> list[Use]:
    model, key = checkpoints[index]
    read_checkpoint(path, key)
    sizes = [sizes_in(path)]
    path.with_name("seed").write_bytes(seeds["checkpoint"][index])
    sizes.append(sizes_in(path.with_name("seed")))

    def use() -> None:
        type(model)(**{**model.get_params(), "checkpoint": path}).fit(ROWS, LABELS)
        check(sizes[0].items() <= sizes[1].items(), "training goes on from parameters of other types or shapes")

    return [use]


def sizes_in(path: Path) -> dict:
    header, arrays = container.read(path, FORMAT)
    read = {
        "seeds",
        *(str(i) for i in range(len(header["targets"]))),
    }  # of targets that are not listed, nothing is read
    return {
        name: (array.dtype, array.shape)
        for name, array in arrays.items()
        # What solvers go on from is checked by them, when they do.
        if "/resume/" not in name
        and name.partition("/")[0] in read
        and name.rpartition("/")[2].startswith(("factors", "lambdas", "coef", "intercept", "seeds", "accumulator"))
    }


def apart(use: Use) -> None:
    """Compiled loops trust shapes: what a stranger has made may crash them, now or a little later. In a child it is
    known who did it."""

    def work(ready) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)  # other types are compiled for
        try:
            use()
        except Failed:
            raise
        except Exception as error:
            refused(error)

    number, _ = Child(work).end()
    check(not number, f"the process died by signal {number}")


def lines(path: Path) -> None:
    X, y = read_svmlight(path)
    check(np.all(np.isfinite(X.data)) and np.all(np.isfinite(y)), "read_svmlight gives numbers that are not finite")
    check(X.nnz == 0 or X.indices.max() < X.shape[1], "read_svmlight gives indices out of range")
    n = sum(len(part) for _, part in iter_svmlight(path, chunk_rows=3))
    check(n == len(y) == X.shape[0], "iter_svmlight gives another number of rows")


def table(path: Path) -> None:
    whole = read_table(path)
    check(sum(map(len, iter_table(path, chunk_rows=2))) == len(whole), "iter_table gives another number of rows")


READERS = {"svmlight": lines, "packed": lines, "libfm": import_libfm, "csv": table}


def judged(kind: str, index: int, data: bytes) -> list[str]:
    """Read bytes as a file of a kind that was made from its seed `index`."""
    path = home / "hostile"
    path.write_bytes(data)
    errors = (DataFileError,) if kind in ("svmlight", "packed", "csv") else (ModelFileError,)
    uses: list[Use] = []
    began, label = time.perf_counter(), "read"
    try:
        if kind == "model":
            got = harmless(path)
            check(index < 0 or got == originals[index], "a damaged file gives another model")
        elif kind == "archive":
            uses = hostile(path)
        elif kind == "checkpoint":
            errors = (ValueError,)
            read_checkpoint(path, checkpoints[index][1])
        elif kind == "resume":
            errors = (ValueError,)
            uses = resumed(path, index)
        else:
            READERS[kind](path)
    except Exception as error:
        check(not isinstance(_root(error), MemoryError), f"{kind}: too much memory is asked for")
        label = refused(error, errors)
        check(path.name in str(error), f"{kind}: does not name the file: {error}")
    seconds = time.perf_counter() - began
    check(seconds < LONGEST, f"{kind}: took {seconds:.1f} s")
    for use in uses:
        apart(use)
    return [f"{kind} {label}"]


def _root(error: BaseException) -> BaseException:
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return error


def made(seed: int) -> tuple[str, int, bytes]:
    rng = random.Random(seed)
    kind = rng.choices(list(SHARES), list(SHARES.values()))[0]
    index = rng.randrange(len(seeds[kind]))
    data = seeds[kind][index]
    if kind in ("archive", "resume") or (kind == "checkpoint" and rng.randrange(2)):
        data = rebuilt(rng, data)
    elif kind == "model" and not rng.randrange(4):
        data = claimed(rng, data)
    else:
        data = mutated(rng, data, words=kind in ("svmlight", "csv", "libfm"))
    return kind, index, data


def attempt(seed: int) -> list[str]:
    kind, index, data = made(seed)
    say(f"{kind}, from seed {index}: {len(data)} bytes", data[:2000])
    return judged(kind, index, data)
