"""Readers of svmlight, libsvm and libFM text: ``label index:value index:value ...``, a row a line.

The text is read in blocks that end at line ends, each block is parsed by a compiled loop, and rows are regrouped into
chunks; memory is bounded by the block and the chunk, whatever the size of the file.
"""

import re
import warnings
from collections.abc import Iterator
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from polyfm.files.atomic import DataFileError, Path, is_pipe, reading_data, shown
from polyfm.loops import svmlight as loops

BLOCK = 2**20  # bytes; much larger blocks leave the processor's cache
LONGEST_LINE = 2**26
NUMBER = re.compile(rb"[0-9eE.+-]+")
FORM = "A line is `label index:value index:value ...`; what follows a # is ignored."

ZeroBased = bool | Literal["auto"]


class Rows(NamedTuple):
    """Some rows, with indices as they stand in the file."""

    labels: np.ndarray
    counts: np.ndarray
    indices: np.ndarray
    values: np.ndarray


class Bounds(NamedTuple):
    """What is allowed, or was found."""

    smallest: int
    largest: int


def read_svmlight(
    path: Path, *, n_features: int | None = None, zero_based: ZeroBased = "auto", dtype: Any = np.float64
) -> Any:
    """Read a whole svmlight, libsvm or libFM file, plain or compressed by gzip, bzip2 or xz.

    Parameters
    ----------
    path : str or path-like
        The file.
    n_features : int, default=None
        The number of columns of X. By default, what the largest index asks for; give it wherever several files must
        agree, such as training and test data.
    zero_based : {"auto", True, False}, default="auto"
        Whether the first feature has index 0 (libFM) or 1 (svmlight, libsvm). "auto" takes a file without any index 0
        to begin at 1; say True or False where the first feature may be absent. Where `n_features` does not settle it
        either, there is a warning.
    dtype : {np.float64, np.float32}, default=np.float64
        Of X; y is always float64.

    Returns
    -------
    X : csr_matrix of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)

    Raises
    ------
    DataFileError
        If there is no such file or it is malformed: with the number and the content of the line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from polyfm.datafiles import read_svmlight
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory) / "data.txt"
    ...     _ = path.write_text("1 1:0.5 3:2 # a comment\\n-1 2:1e-1\\n")
    ...     X, y = read_svmlight(path)
    >>> X.toarray()
    array([[0.5, 0. , 2. ],
           [0. , 0.1, 0. ]])
    >>> y
    array([ 1., -1.])
    """
    allowed = _allowed(n_features, zero_based)
    dtype = _checked_dtype(dtype)
    parts, found = [], Bounds(loops.LARGEST_INDEX, -1)
    for rows, seen in _parsed(path, allowed):
        parts.append(rows)
        found = _joint(found, seen)
    first, width = _first_and_width(path, found, n_features, zero_based)
    return _matrix(path, _joined(parts), first, width, dtype)


def iter_svmlight(
    path: Path,
    *,
    chunk_rows: int = 100_000,
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    dtype: Any = np.float64,
) -> Iterator[tuple[sp.csr_matrix, np.ndarray]]:
    """Read a svmlight, libsvm or libFM file some rows at a time, in bounded memory.

    All chunks have the same columns. Where `n_features` or `zero_based` are left open, the file is therefore gone
    through once before, to find them; give both to read it only once (or from a pipe).

    Parameters
    ----------
    path : str or path-like
        The file.
    chunk_rows : int, default=100_000
        Rows a chunk; the last one may have fewer.
    n_features, zero_based, dtype
        As in `read_svmlight`.

    Yields
    ------
    X : csr_matrix of shape (chunk_rows, n_features)
    y : ndarray of shape (chunk_rows,)

    Raises
    ------
    DataFileError
        If there is no such file or it is malformed: with the number and the content of the line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from polyfm.datafiles import iter_svmlight
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory) / "data.txt"
    ...     _ = path.write_text("5 0:1 7:1\\n3 1:1 8:1\\n4 0:1 8:1\\n")
    ...     [(X.shape, y.tolist()) for X, y in iter_svmlight(path, chunk_rows=2)]
    [((2, 9), [5.0, 3.0]), ((1, 9), [4.0])]
    """
    if not isinstance(chunk_rows, Integral) or chunk_rows < 1:
        raise ValueError(f"chunk_rows must be an integer >= 1, got {chunk_rows!r}.")
    allowed = _allowed(n_features, zero_based)
    dtype = _checked_dtype(dtype)
    if n_features is None or zero_based == "auto":
        if is_pipe(path):
            raise DataFileError(
                f"{path}: can be read only once, but its columns must be found first. Give n_features and zero_based."
            )
        found = Bounds(loops.LARGEST_INDEX, -1)
        for _, seen in _parsed(path, allowed):
            found = _joint(found, seen)
        first, width = _first_and_width(path, found, n_features, zero_based)
    else:
        first, width = int(not zero_based), n_features
    return (_matrix(path, rows, first, width, dtype) for rows in _regrouped(_parsed(path, allowed), int(chunk_rows)))


# -- from bytes to rows -----------------------------------------------------------------------------------------------


def _parsed(path: Path, allowed: Bounds) -> Iterator[tuple[Rows, Bounds]]:
    """The rows of each block that has any, with the range of their indices."""
    n_lines, empty = 0, True
    for block in _blocks(path):
        rows, found = _parse(path, block, n_lines, allowed)
        n_lines += block.count(b"\n")
        if len(rows.labels):
            empty = False
            yield rows, found
    if empty:
        raise DataFileError(f"{path}: holds no rows, only {n_lines} empty lines or comments. {FORM}")


def _blocks(path: Path) -> Iterator[bytes]:
    """The file's bytes, cut after newlines; a last line without a newline gets one."""
    with reading_data(path) as file:
        rest, n_lines = file.read(3).removeprefix(b"\xef\xbb\xbf"), 0
        while data := file.read(BLOCK):
            cut = data.rfind(b"\n") + 1
            if cut:
                block = rest + data[:cut]
                n_lines += block.count(b"\n")
                yield block
                rest = data[cut:]
            else:
                rest += data
            if len(rest) > LONGEST_LINE:
                raise DataFileError(
                    f"{path}, line {n_lines + 1}: is longer than {LONGEST_LINE // 2**20} MiB: {shown(rest)}. Is this a "
                    f"svmlight, libsvm or libFM file? {FORM}"
                )
    if rest:
        yield rest + b"\n"


def _parse(path: Path, block: bytes, lines_before: int, allowed: Bounds) -> tuple[Rows, Bounds]:
    n_rows, n_entries = block.count(b"\n"), block.count(b":")
    labels, values = np.empty(n_rows), np.empty(n_entries)
    indptr, indices = np.empty(n_rows + 1, dtype=np.int64), np.empty(n_entries, dtype=np.int32)
    hard = np.empty((n_rows + n_entries, 2), dtype=np.int64)
    problem, line, begin, n_rows, n_entries, n_hard, smallest, largest, ordered = loops.parse(
        np.frombuffer(block, dtype=np.uint8), loops.POWERS, *allowed, labels, indptr, indices, values, hard
    )
    if problem != loops.OK:
        raise _error(path, lines_before + line + 1, block[begin : block.find(b"\n", begin)], problem, allowed)
    for which, begin in hard[:n_hard]:
        number = float(NUMBER.match(block, begin)[0])  # type: ignore[index]
        if not np.isfinite(number):
            line = block.count(b"\n", 0, begin)
            content = block[block.rfind(b"\n", 0, begin) + 1 : block.find(b"\n", begin)]
            raise _error(path, lines_before + line + 1, content, loops.BAD_VALUE, allowed)
        if which < 0:
            labels[-1 - which] = number
        else:
            values[which] = number
    counts = np.diff(indptr[: n_rows + 1])
    rows = Rows(labels[:n_rows], counts, indices[:n_entries], values[:n_entries])
    if not ordered:
        rows = _sorted(path, rows, block, lines_before)
    return rows, Bounds(int(smallest), int(largest))


def _sorted(path: Path, rows: Rows, block: bytes, lines_before: int) -> Rows:
    """The same rows with increasing indices; an index that comes twice in a row is refused."""
    of_row = np.repeat(np.arange(len(rows.counts)), rows.counts)
    order = np.lexsort((rows.indices, of_row))
    indices = rows.indices[order]
    twice = np.flatnonzero((indices[1:] == indices[:-1]) & (of_row[1:] == of_row[:-1]))
    if len(twice):
        number, content = _line_of_row(block, of_row[twice[0]])
        raise DataFileError(
            f"{path}, line {lines_before + number}: index {indices[twice[0]]} comes twice: {shown(content)}. Give each "
            "feature at most one value in a row."
        )
    return rows._replace(indices=indices, values=rows.values[order])


def _line_of_row(block: bytes, row: int) -> tuple[int, bytes]:
    """The number, from 1, and the content of the line that holds a row."""
    lines = enumerate(block.split(b"\n"), 1)
    rows = ((number, line) for number, line in lines if line.partition(b"#")[0].strip(b" \t\r"))
    return next(pair for i, pair in enumerate(rows) if i == row)


def _error(path: Path, line: int, content: bytes, problem: int, allowed: Bounds) -> DataFileError:
    what = {
        loops.BAD_LABEL: f"does not begin with a label that is a finite number. {FORM}",
        loops.BAD_ENTRY: f"has something that is not index:value with a whole, non-negative index. {FORM}",
        loops.BAD_VALUE: f"has a value that is not a finite number. {FORM}",
        loops.TOO_LOW: "has index 0, but zero_based=False says that indices begin at 1. Use zero_based=True.",
        loops.TOO_HIGH: f"has an index above {allowed.largest}, "
        + (
            "the largest that is supported. Number the features from 0 or 1 without gaps."
            if allowed.largest == loops.LARGEST_INDEX
            else "the last that n_features allows. Raise n_features, or check zero_based."
        ),
    }[problem]
    return DataFileError(f"{path}, line {line}: {shown(content)} {what}")


# -- from rows to matrices --------------------------------------------------------------------------------------------


def _allowed(n_features: int | None, zero_based: ZeroBased) -> Bounds:
    if not (isinstance(zero_based, (bool, np.bool_)) or zero_based == "auto"):
        raise ValueError(f"zero_based must be True, False or 'auto', got {zero_based!r}.")
    lowest = 0 if zero_based == "auto" else int(not zero_based)
    if n_features is None:
        return Bounds(lowest, loops.LARGEST_INDEX)
    if not isinstance(n_features, Integral) or not 1 <= n_features <= loops.LARGEST_INDEX:
        raise ValueError(f"n_features must be an integer from 1 to {loops.LARGEST_INDEX}, got {n_features!r}.")
    # Undecided, an index equal to n_features is the last feature of a file that begins at 1.
    return Bounds(lowest, int(n_features) - 1 + (1 if zero_based == "auto" else lowest))


def _checked_dtype(dtype: Any) -> np.dtype:
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}.")
    return np.dtype(dtype)


def _joint(a: Bounds, b: Bounds) -> Bounds:
    return Bounds(min(a.smallest, b.smallest), max(a.largest, b.largest))


def _first_and_width(path: Path, found: Bounds, n_features: int | None, zero_based: ZeroBased) -> tuple[int, int]:
    """The index of the first feature, and how many features there are."""
    first = int(found.smallest > 0 and found.largest >= 0) if zero_based == "auto" else int(not zero_based)
    needed = found.largest + 1 - first if found.largest >= 0 else 0
    if n_features is not None and needed > n_features:
        raise DataFileError(
            f"{path}: the largest index is {found.largest} and the smallest {found.smallest}, which makes {needed} "
            f"features, more than n_features={n_features}. Raise n_features."
        )
    if n_features is None:
        return first, needed
    if zero_based == "auto" and first and found.largest < n_features:
        warnings.warn(
            f"{path}: has neither the index 0 nor {n_features}, so that it may count its {n_features} features from 0 "
            "or 1; it was taken to count from 1. Say which: zero_based=True or False (--zero-based, --one-based).",
            stacklevel=3,
        )
    return first, int(n_features)


def _matrix(path: Path, rows: Rows, first: int, width: int, dtype: Any) -> tuple[sp.csr_matrix, np.ndarray]:
    indptr = np.concatenate([[0], np.cumsum(rows.counts)])
    indices = rows.indices - np.int32(first) if first else rows.indices
    with np.errstate(over="ignore"):
        values = rows.values.astype(dtype, copy=False)
    if values is not rows.values and not np.all(np.isfinite(values)):
        raise DataFileError(f"{path}: has values too large for {dtype}. Use dtype=np.float64, or scale the values.")
    X = sp.csr_matrix((values, indices, indptr), shape=(len(rows.labels), width))
    X.has_sorted_indices = X.has_canonical_format = True
    return X, rows.labels


def _joined(parts: list[Rows]) -> Rows:
    return parts[0] if len(parts) == 1 else Rows(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _regrouped(parsed: Iterator[tuple[Rows, Bounds]], chunk_rows: int) -> Iterator[Rows]:
    """Chunks of exactly `chunk_rows` rows (the last may have fewer), whatever the blocks held."""
    waiting: list[Rows] = []
    n_waiting = 0
    for rows, _ in parsed:
        waiting.append(rows)
        n_waiting += len(rows.labels)
        if n_waiting >= chunk_rows:
            rows = _joined(waiting)
            ends = np.concatenate([[0], np.cumsum(rows.counts)])
            full = n_waiting // chunk_rows * chunk_rows
            for lo in range(0, full, chunk_rows):
                yield _cut(rows, ends, lo, lo + chunk_rows)
            waiting = [_cut(rows, ends, full, n_waiting)] if full < n_waiting else []
            n_waiting -= full
    if waiting:
        yield _joined(waiting)


def _cut(rows: Rows, ends: np.ndarray, lo: int, hi: int) -> Rows:
    entries = slice(ends[lo], ends[hi])
    return Rows(
        *(
            array.copy()
            for array in (rows.labels[lo:hi], rows.counts[lo:hi], rows.indices[entries], rows.values[entries])
        )
    )
