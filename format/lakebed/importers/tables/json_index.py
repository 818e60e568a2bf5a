"""An index of the objects of long arrays in a JSON file of any size: each object is parsed when it is needed.

The file is an object; the requested arrays stay in it, as :mod:`lakebed.native.json_arrays` finds them, and
all other values are read.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError
from lakebed.importers.core.packages import damaged
from lakebed.importers.core.source import Source
from lakebed.native import json_arrays
from lakebed.native.json_arrays import ArrayScanner, JsonTextError

# Limit of the total bytes of files that are held in memory; other files are mapped, and must not be truncated while
# they are read.
HELD_BYTES = 64 << 20

_BLOCK_BYTES = 4 << 20
# Number of elements that are scanned together.
_TOGETHER = 8192
_MARK = b"\xef\xbb\xbf"
_SPACE = re.compile(rb"[ \t\r\n]*")

Ints = NDArray[np.int64]


class Shape(NamedTuple):
    """Keys that objects share, and for each key the letter of its kind in :mod:`lakebed.native.json_arrays`."""

    keys: tuple[str, ...]
    kinds: bytes


@dataclass
class JsonArray:
    """Positions of the objects of an array.

    Parameters
    ----------
    starts, ends
        Position in the file of the start and of the end of each object: int64, shape (objects,).
    numbers
        Number of the shape of each object: int32, shape (objects,).
    members
        For each shape, the positions of its keys in the text.
    """

    starts: Ints
    ends: Ints
    numbers: NDArray[np.int32]
    shapes: list[Shape]
    members: list[list[int]]
    _told: dict[Any, Any] = field(default_factory=dict, repr=False)  # cache of answers

    def __len__(self) -> int:
        return len(self.starts)

    def placed(self, keys: Sequence[str]) -> Ints:
        """Return for each shape the number of the member of each key, -1 if it lacks the key: int64, (shapes, keys)."""
        asked = tuple(keys)
        found: Ints | None = self._told.get(asked)
        if found is None:
            found = np.full((len(self.shapes), len(asked)), -1, np.int64)
            for row, shape, members in zip(found, self.shapes, self.members, strict=True):
                at = dict(zip(shape.keys, members, strict=True))
                row[:] = [at.get(key, -1) for key in asked]
            self._told[asked] = found
        return found

    def kinds_of(self, key: str) -> NDArray[np.uint8]:
        """Return for each shape the letter of a key, 0 if it lacks the key: uint8, shape (shapes,)."""
        found: NDArray[np.uint8] | None = self._told.get(key)
        if found is None:
            letters = [dict(zip(*shape, strict=True)).get(key, 0) for shape in self.shapes]
            found = self._told[key] = np.array(letters, np.uint8)
        return found


@dataclass
class JsonFile:
    """A JSON file: its values at the top, and its long arrays; picklable.

    Parameters
    ----------
    path
        Local path of the file; for a file that is held in memory, its name.
    state
        Size of the file, and time of its last change.
    held
        Content of the file if it is small and held in memory; otherwise None.
    values
        Members of the file's object, except the requested arrays.
    arrays
        The requested arrays.
    """

    path: str
    state: tuple[int, int] = (0, 0)
    held: bytes | None = field(default=None, repr=False)
    values: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, JsonArray] = field(default_factory=dict)

    @property
    def text(self) -> bytes | mmap.mmap:
        """Content of the file.

        Raises
        ------
        IngestionError
            If the file has changed.
        """
        return _mapped(self.path, self.state) if self.held is None else self.held

    def elements(self, name: str, numbers: Sequence[int] | Ints) -> list[Any]:
        """Return some elements of an array.

        Raises
        ------
        IngestionError
            If one of them holds text that is not UTF-8.
        """
        of, at = self.arrays[name], np.asarray(numbers, np.int64)
        return self.between(of.starts[at], of.ends[at])

    def count(self, name: str, numbers: Sequence[int], key: str, kind: str) -> int:
        """Count elements whose value has a kind."""
        of = self.arrays[name]
        is_so = of.kinds_of(key) == ord(kind)
        return int(is_so[of.numbers[np.asarray(numbers, np.int64)]].sum()) if is_so.any() else 0

    def between(self, starts: Ints, ends: Ints) -> list[Any]:
        """Return the values between positions, None for negative positions; see :meth:`elements` for errors."""
        with damaged(f"{self.path} is not UTF-8, or has changed", ValueError):
            return json_arrays.values(self.text, np.ascontiguousarray(starts), np.ascontiguousarray(ends))

    def columns(
        self, name: str, numbers: Ints, keys: Sequence[str], kinds: bytes
    ) -> tuple[list[Any], NDArray[np.bool_]]:
        """Return some members of elements, as :func:`lakebed.native.json_arrays.columns`."""
        of = self.arrays[name]
        return json_arrays.columns(
            self.text,
            of.starts[numbers],
            of.ends[numbers],
            of.numbers[numbers].astype(np.int64),
            of.placed(keys),
            kinds,
        )


Found = dict[str, dict[str, list[Any]]]
"""Array -> key -> value of each of its elements, or None."""


def open_json(
    source: Source, name: str, wanted: Mapping[str, Sequence[str]], held_bytes: int = 0
) -> tuple[JsonFile, Found]:
    """Index a JSON file; a small file is held in memory.

    Parameters
    ----------
    source, name
        The file; a large one in a bucket is copied to the folder for temporary files.
    wanted
        Array whose elements stay in the file -> keys whose values are returned.
    held_bytes
        Total size of other files that are held in memory.

    Returns
    -------
    The file, and the values.

    Raises
    ------
    IngestionError
        If the file is not a JSON object, or not UTF-8.
    """
    called = name or source.name
    with damaged(f"{called} cannot be read", OSError):
        if held_bytes + source.files[called] <= HELD_BYTES:
            return _indexed(JsonFile(called, held=source.read(name)), called, wanted)
        path = source.path(name)
        if path is not None:
            return _indexed(JsonFile(path, _state(os.stat(path))), called, wanted)  # noqa: PTH116
        return _indexed_copy(source, name, called, wanted)


def _indexed(file: JsonFile, name: str, wanted: Mapping[str, Sequence[str]]) -> tuple[JsonFile, Found]:
    """Index a file; see :func:`open_json` for errors."""
    with damaged(f"{name} is not JSON in UTF-8", ValueError):
        try:
            return file, _gone_through(file, wanted)
        except JsonTextError as error:
            raise IngestionError(f"{name} is not JSON at byte {error.at:,}: {error.what}") from error


def _gone_through(file: JsonFile, wanted: Mapping[str, Sequence[str]]) -> Found:
    """Index the members of the object in a file."""
    found: Found = {}
    text = file.text
    at = _expected(text, len(_MARK) if text[: len(_MARK)] == _MARK else 0, b"{")
    while (following := _next(text, at)) != b"}":
        if file.values or file.arrays:
            at = _expected(text, at, b",")
            following = _next(text, at)
        if following != b'"':
            raise JsonTextError(_skipped(text, at), "a key was expected")
        key, at = _value(text, at)
        at = _expected(text, at, b":")
        if key in wanted and _next(text, at) == b"[":
            if key in file.arrays:
                raise JsonTextError(at, f"{key} occurs twice")
            file.arrays[key], found[key], at = _array(file, _skipped(text, at), wanted[key])
        else:
            file.values[key], at = _value(text, at)
    at = _skipped(text, _expected(text, at, b"}"))
    if at < len(text):
        raise JsonTextError(at, "more data follows the end of the object")
    return found


def _array(file: JsonFile, at: int, wanted: Sequence[str]) -> tuple[JsonArray, dict[str, list[Any]], int]:
    """Index an array; return its index, the wanted values, and its end.

    An element that is not an object counts as an object without keys.
    """
    text = file.text
    scanner = ArrayScanner(text, at, wanted)
    found: dict[str, list[Any]] = {of: [] for of in wanted}
    parts: list[tuple[Ints, Ints, NDArray[np.int32]]] = []
    while not scanner.is_over:
        starts, ends, numbers, places = scanner.next(_TOGETHER)
        for column, of in enumerate(wanted):
            inner = np.ascontiguousarray(places[:, column].T)
            found[of] += json_arrays.values(text, inner[0], inner[1])
        parts.append((starts, ends, numbers.astype(np.int32)))
    empty = np.zeros(0, np.int64)
    whole = [np.concatenate(of) for of in zip(*parts, strict=True)] or [empty, empty, empty.astype(np.int32)]
    shapes = [Shape(*(shape or ((), b""))) for shape in scanner.shapes]
    return JsonArray(whole[0], whole[1], whole[2], shapes, scanner.members), found, scanner.at


def _skipped(text: Any, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _next(text: Any, at: int) -> bytes:
    """Return the next byte that is not white space; empty at the end."""
    at = _skipped(text, at)
    return bytes(text[at : at + 1])


def _expected(text: Any, at: int, what: bytes) -> int:
    at = _skipped(text, at)
    if text[at : at + 1] != what:
        raise JsonTextError(at, f"'{what.decode()}' was expected")
    return at + 1


def _value(text: Any, at: int) -> tuple[Any, int]:
    """Return the next value, and its end."""
    start, end = json_arrays.value_span(text, at)
    return json.loads(bytes(text[start:end]).decode()), end


def _state(found: os.stat_result) -> tuple[int, int]:
    return found.st_size, found.st_mtime_ns


@lru_cache(8)
def _mapped(path: str, state: tuple[int, int]) -> mmap.mmap | bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - kept open by what is returned
        if _state(os.fstat(file.fileno())) != state:
            raise IngestionError(f"{path} changed while it was imported")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if state[0] else b""


def _indexed_copy(
    source: Source, name: str, called: str, wanted: Mapping[str, Sequence[str]]
) -> tuple[JsonFile, Found]:
    """Index a local copy of a file, which stays as long as the plan of this process: workers open it by its path."""
    with ExitStack() as undo:
        file: Any = tempfile.NamedTemporaryFile(prefix="lakebed-", suffix=".json", delete=False)  # noqa: SIM115
        undo.callback(_remove, file.name, os.getpid())
        with file, source.open(name) as other:
            shutil.copyfileobj(other, file, _BLOCK_BYTES)
        found, values = _indexed(JsonFile(file.name, _state(os.stat(file.name))), called, wanted)  # noqa: PTH116
        undo.pop_all()
    weakref.finalize(found, _remove, file.name, os.getpid())
    return found, values


def _remove(path: str, pid: int) -> None:
    """Remove a copy, unless this is a forked child: the parent still uses the copy."""
    if os.getpid() == pid:
        Path(path).unlink(missing_ok=True)
