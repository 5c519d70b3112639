"""Values that a model file holds: as JSON where JSON has them, and as tagged objects and arrays where not.

``{"array": name}``, ``{"strings": name, ...}``, ``{"list": [...]}``, ``{"dict": [[key, value], ...]}``,
``{"float": "inf"}``, ``{"dtype": "float32"}``.
"""

import math
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np

from polyfm.files.container import can_hold

LONGEST_LIST = 1000
LONGEST_TAIL = 2  # values without text at the end of texts: None and NaN
TYPES = {
    np.dtype(t).name: np.dtype(t).type
    for t in ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")
}  # fmt: skip


class UnstorableError(ValueError):
    """An object or value that a model file cannot hold."""


class Writer:
    """Collects arrays and notes while objects become records."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.notes: list[str] = []

    def array(self, name: str, array: np.ndarray) -> dict:
        if not can_hold(array):
            raise UnstorableError(f"an array of type {array.dtype}")
        self.arrays[name] = np.ascontiguousarray(array)
        return {"array": name}

    def strings(self, name: str, values: np.ndarray) -> dict:
        """Texts as their UTF-8 bytes and where each ends; a None at the end is a flag."""
        texts = list(values)
        none = bool(texts) and texts[-1] is None
        texts = texts[: len(texts) - none]
        if not all(isinstance(text, str) for text in texts):
            other = next(text for text in texts if not isinstance(text, str))
            raise UnstorableError(f"an array that holds {type(other).__name__} and is neither of numbers nor of text")
        parts = [text.encode("utf-8", "surrogatepass") for text in texts]
        kind = "U" if values.dtype.kind == "U" and _is_even(texts) else "object"
        self.array(f"{name}.text", np.frombuffer(b"".join(parts), dtype=np.uint8))
        self.array(f"{name}.ends", np.cumsum([len(part) for part in parts], dtype=np.int64))
        return {"strings": name, "kind": kind, "none": none, "count": len(values)}

    def objects(self, name: str, values: np.ndarray) -> dict:
        """An array of numbers; or one of objects that are all numbers, or texts with None or NaN at the end."""
        if values.dtype.kind != "O":
            return self.strings(name, values) if values.dtype.kind == "U" else self.array(name, values)
        items = values.tolist()
        n_texts = len(items)
        while (
            n_texts
            and n_texts > len(items) - LONGEST_TAIL
            and (items[n_texts - 1] is None or _is_nan(items[n_texts - 1]))
        ):
            n_texts -= 1
        tail = [self.value(name, item) for item in items[n_texts:]]
        if all(isinstance(item, str) for item in items[:n_texts]):
            return {"texts": self.strings(name, np.array(items[:n_texts], dtype=object)), "tail": tail}
        kinds = {type(item) for item in items[:n_texts]}
        if len(kinds) > 1 or not kinds <= {bool, int, float}:
            raise UnstorableError(f"an array that holds {', '.join(sorted(kind.__name__ for kind in kinds))}")
        return {"numbers": self.array(name, np.array(items[:n_texts])), "tail": tail}

    def value(self, name: str, value: Any) -> Any:
        """Any value that a record can hold; others raise `UnstorableError`."""
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real):
            number = float(value)
            return number if math.isfinite(number) else {"float": repr(number)}
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, (np.generic, float, int))):
            return {"dtype": np.dtype(value).name}
        if isinstance(value, dict) and len(value) <= LONGEST_LIST and all(isinstance(key, str) for key in value):
            return {"dict": [[key, self.value(f"{name}.{i}", item)] for i, (key, item) in enumerate(value.items())]}
        if isinstance(value, (list, tuple)) and len(value) <= LONGEST_LIST:
            simple = [self.value(name, item) for item in value]
            if not any(isinstance(item, dict) for item in simple):
                return {"list": simple, "tuple": isinstance(value, tuple)}
        if isinstance(value, (list, tuple)) or hasattr(value, "__array__"):
            array = np.asarray(value)
            return self.strings(name, array) if array.dtype.kind in "UOT" else self.array(name, array)
        raise UnstorableError(f"an object of type {type(value).__name__}")


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _is_even(texts: list[str]) -> bool:
    """Whether an array of fixed width, as long as the longest text, takes not much more memory than the texts."""
    return max(map(len, texts), default=0) * len(texts) <= 16 * sum(map(len, texts)) + 2**20


class Reader:
    """Gives values back. A record is of unknown origin: whatever is odd raises, as some kind of ValueError, KeyError,
    TypeError or AttributeError that the caller turns into one error."""

    def __init__(self, arrays: dict[str, np.ndarray]):
        self._arrays = dict(arrays)

    def array(self, name: str) -> np.ndarray:
        """Each array once: were one used for many values, a small file could take much memory."""
        return self._arrays.pop(name)

    def strings(self, record: dict) -> np.ndarray:
        text, ends = self.array(f"{record['strings']}.text"), self.array(f"{record['strings']}.ends")
        bounds = np.concatenate([[0], ends])
        if text.dtype != np.uint8 or ends.dtype != np.int64 or text.ndim != 1 or ends.ndim != 1:
            raise ValueError("texts of a wrong type")
        if np.any(np.diff(bounds) < 0) or bounds[-1] != len(text):
            raise ValueError("texts that do not end where they should")
        data = text.tobytes()
        texts: list = [data[lo:hi].decode("utf-8", "surrogatepass") for lo, hi in pairwise(bounds)]
        if record["kind"] == "U" and not record["none"]:
            if not _is_even(texts):
                raise ValueError("texts of too different lengths")
            return np.array(texts, dtype=np.str_)
        out = np.empty(len(texts) + bool(record["none"]), dtype=object)
        out[: len(texts)] = texts
        return out

    def objects(self, record: dict) -> np.ndarray:
        if "tail" not in record:
            found = self.value(record)
            if not isinstance(found, np.ndarray) or found.ndim != 1:
                raise ValueError("something else than a list of values")
            return found
        first = self.strings(record["texts"]) if "texts" in record else self.array(record["numbers"]["array"])
        tail = [self.value(item) for item in record["tail"]]
        if first.ndim != 1 or len(tail) > LONGEST_TAIL or not all(item is None or _is_nan(item) for item in tail):
            raise ValueError("values of unknown kinds")
        found = np.empty(len(first) + len(tail), dtype=object)
        found[: len(first)] = first.tolist()
        found[len(first) :] = tail
        return found

    def value(self, value: Any) -> Any:
        if not isinstance(value, dict):
            if isinstance(value, list):
                raise ValueError("a bare list")
            return value
        if "array" in value:
            return self.array(value["array"])
        if "strings" in value:
            return self.strings(value)
        if "list" in value:
            items = [self.value(item) for item in value["list"]]
            return tuple(items) if value["tuple"] else items
        if "dict" in value:
            return {str(key): self.value(item) for key, item in value["dict"]}
        if "float" in value:
            return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[value["float"]]
        return TYPES[value["dtype"]]
