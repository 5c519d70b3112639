"""Files that commands write: refused before any work where they could not be written, or would destroy another."""

import csv
import io
import os
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from polyfm.files.atomic import DataFileError, check_writable

HEAD = 4096  # bytes that tell what a file is
PICTURES: dict[str, tuple[bytes, ...]] = {  # how files of the formats begin that are drawn
    "png": (b"\x89PNG",), "pdf": (b"%PDF",), "svg": (b"<?xml", b"<svg"), "svgz": (b"\x1f\x8b",),
    "jpg": (b"\xff\xd8",), "jpeg": (b"\xff\xd8",), "webp": (b"RIFF",), "tif": (b"II*\0", b"MM\0*"),
    "tiff": (b"II*\0", b"MM\0*"), "eps": (b"%!PS",), "ps": (b"%!PS",), "pgf": (b"%% Creator",),
}  # fmt: skip
REPORTS = {".html", ".htm"}
NOT_CSV = {".parquet", ".pq", ".tsv", ".tab", ".json", ".gz", ".bz2", ".xz", ".zip", ".xlsx", *REPORTS}


class OutputFile(click.Path):
    """The type of an option that names a file to be written."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name = os.fspath(value)
        if name.startswith("-") or os.path.basename(name) in ("", ".", ".."):
            hint = f" If it is, say ./{name}" if name.startswith("-") else ""
            self.fail(f"{name!r} is not the name of a file.{hint}", param, ctx)
        return super().convert(value, param, ctx)


def output_option(*names: str, help: str) -> Callable:
    """An option that names a file to be written, once."""
    return click.option(*names, type=OutputFile(), multiple=True, callback=_only, help=help)


def _only(ctx: click.Context, param: click.Parameter, values: tuple[Path, ...]) -> Path | None:
    if len(values) > 1:
        raise click.BadParameter("it was given more than once, and one file is written.")
    return values[0] if values else None


def check_outputs(inputs: dict[str, Path | None], **outputs: Path | None) -> None:
    """Refuse outputs, named by their options, that are an input or each other, cannot be written, or hold something
    that polyfm has not written."""
    given_in = {name: path for name, path in inputs.items() if path is not None}
    given_out = {name: path for name, path in outputs.items() if path is not None}
    for name, path in given_in.items():
        if _is_standard_output(path):
            raise click.UsageError(f"Standard output goes into {name}, {path}: it would be destroyed.")
        for option, out in given_out.items():
            if _same(path, out):
                raise click.UsageError(
                    f"--{option} is {name} itself, {path}: it would be destroyed. Name another file."
                )
    pairs = list(given_out.items())
    for i, (option, path) in enumerate(pairs):
        for other, second in pairs[:i]:
            if _same(path, second) or _same_when_new(path, second):
                raise click.UsageError(f"--{option} and --{other} are one file, {path}. Name two.")
    for option, path in given_out.items():
        check_writable(path, DataFileError)
        _check_replaced(option, path)


def _check_replaced(option: str, path: Path) -> None:
    """What an output replaces must be of its kind, or empty."""
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD)
    except OSError:  # there is none, or it may be written but not read
        return
    what, is_ours = OURS[option](path)
    if head and not is_ours(head):
        raise click.UsageError(
            f"--{option} would replace {path}, which is not {what}. Name another file, or remove it."
        )


def _container(name: str) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(b"PK") and f'"{name}"'.encode() in head


def _is_predictions(head: bytes) -> bool:
    """Whether the first line names predictions or probabilities, behind columns that were kept."""
    text = head.decode("utf-8", "ignore")
    names = next(csv.reader(io.StringIO(text, newline="")), [])
    first = next((i for i, name in enumerate(names) if name == "prediction" or name.startswith("p(")), len(names))
    whole = len(head) < HEAD or "\n" in text[:-1]
    return first < len(names) and all(name.startswith("p(") for name in names[first + 1 :][: None if whole else -1])


def _is_recommendations(head: bytes) -> bool:
    names = next(csv.reader(io.StringIO(head.decode("utf-8", "ignore"), newline="")), [])
    return names[-2:] == ["score", "rank"]


OURS: dict[str, Callable[[Path], tuple[str, Callable[[bytes], bool]]]] = {
    "model": lambda path: ("a polyfm model file", _container("polyfm-model")),
    "checkpoint": lambda path: ("a checkpoint of polyfm", _container("polyfm-checkpoint")),
    "out": lambda path: (
        ("a report of polyfm's", lambda head: b'<meta name="generator" content="polyfm' in head)
        if path.suffix.lower() in REPORTS
        else (
            "a file of predictions or recommendations",
            lambda head: _is_predictions(head) or _is_recommendations(head),
        )
    ),
    "onnx": lambda path: ("an ONNX model of polyfm's", lambda head: b"\x06polyfm" in head[:64]),
    "c": lambda path: ("a C file of polyfm's", lambda head: head.startswith(b"/* A ") and b"written by polyfm" in head),
    "plot": lambda path: (
        f"a {picture_format(path)} picture",
        lambda head: head.startswith(PICTURES[picture_format(path)]),
    ),
}


def picture_format(path: Path) -> str:
    """The format that a picture's name asks for."""
    asked = path.suffix[1:].lower() or "png"
    if asked not in PICTURES:
        raise click.UsageError(f"--plot {path}: pictures are written as {', '.join(PICTURES)}.")
    return asked


def check_csv_name(path: Path | None) -> None:
    if path is not None and path.suffix.lower() in NOT_CSV:
        raise click.UsageError(f"--out {path}: predictions are written as plain CSV. Choose a name that says so.")


def check_folder(option: str, path: Path) -> None:
    """Refuse a folder that could not be made or written into."""
    there = path
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise click.UsageError(f"--{option} {path}: {there} is not a directory. Name another.")
    check_writable(there / "file", DataFileError)


# -- one file or two --------------------------------------------------------------------------------------------------


def _same(a: Path, b: Path) -> bool:
    """Whether two names, through links or another spelling, are one file."""
    try:
        return os.path.samefile(a, b)
    except (OSError, ValueError):  # one is not there
        return False


def _same_when_new(a: Path, b: Path) -> bool:
    """The same of files that are not there yet; names that differ in case alone are one on some systems."""
    first, second = Path(os.path.realpath(a)), Path(os.path.realpath(b))
    return _folded(first.name) == _folded(second.name) and _same(first.parent, second.parent)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _is_standard_output(path: Path) -> bool:
    try:
        return os.path.isfile(path) and os.path.samestat(os.stat(path), os.fstat(1))
    except (OSError, ValueError):
        return False
