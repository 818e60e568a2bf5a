"""Where the elements of long arrays lie in a JSON file, so that a file of any size is read an element at a time.

The file is an object; the arrays that are asked for stay in it, and all other values are read. Text is taken as bytes
while it is looked through, so that positions of characters are those of bytes; what is kept is decoded as UTF-8.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import re
import tempfile
import threading
import weakref
from array import array
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.source import Source

# What is looked at in one go; an element may be larger, up to the second.
_WINDOW_BYTES = 4 << 20
_MOST_ELEMENT_BYTES = 256 << 20

# Files that are parsed at once and kept, so many bytes of all of them; the objects take about ten times as much.
HELD_BYTES = 28 << 20

# Elements that are handed out together.
_TOGETHER = 1024

_SPACE = re.compile(r"[ \t\r\n]*")
_decode = json.JSONDecoder().raw_decode

Seen = Callable[[str, int, list[Any]], object]
"""Takes neighbouring elements of an array: its name, the number of the first, and the elements."""


@dataclass
class JsonFile:
    """A JSON file: what it says at the top, and its long arrays, an element at a time; picklable.

    Parameters
    ----------
    path
        Where it lies on this machine.
    values
        Values at the top that are no arrays of those that were asked for.
    starts, ends
        Where the elements of each array lie, by its name; of files that are held in memory, empty.
    held
        The arrays, where the file is small.
    """

    path: str
    values: dict[str, Any] = field(default_factory=dict)
    starts: dict[str, Sequence[int]] = field(default_factory=dict)
    ends: dict[str, Sequence[int]] = field(default_factory=dict)
    held: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def arrays(self) -> frozenset[str]:
        """Names of the arrays that were asked for and are there."""
        return frozenset(self.starts) | frozenset(self.held)

    def element(self, name: str, number: int) -> Any:
        """Return an element of an array.

        Raises
        ------
        IngestionError
            If the file is no longer what was looked through.
        """
        if name in self.held:
            return self.held[name][number]
        return self.between(self.starts[name][number], self.ends[name][number])

    def elements(self, name: str, numbers: Sequence[int]) -> list[Any]:
        """Return some elements of an array; errors as of :meth:`element`."""
        held = self.held.get(name)
        if held is not None:
            return [held[number] for number in numbers]
        return [self.element(name, number) for number in numbers]

    def between(self, start: int, end: int) -> Any:
        """Return the value that lies between two positions; errors as of :meth:`element`."""
        try:
            return json.loads(_mapped(self.path)[start:end].decode())
        except (ValueError, RecursionError, OSError) as error:
            raise IngestionError(
                f"{self.path} changed while it was imported, or is no UTF-8: {error}"
            ) from error


def open_json(
    source: Source, name: str, arrays: Collection[str], seen: Seen, held_bytes: int = 0
) -> JsonFile:
    """Look through a JSON file, all of which is held if it is small.

    Parameters
    ----------
    source, name
        The file; of a bucket's a copy is made in the folder for temporary files.
    arrays
        Names of the arrays whose elements stay in the file.
    seen
        Called with all elements of them, some at a time. Text in them that is not ASCII is to be read from
        :meth:`JsonFile.element`.
    held_bytes
        Bytes of other files that are held.

    Raises
    ------
    IngestionError
        If it is no JSON object, or no UTF-8.
    """
    called = name or source.name
    try:
        if held_bytes + source.files[called] <= HELD_BYTES:
            return _held(source.read(name), called, arrays, seen)
        path = source.path(name)
        return (
            _scanned_copy(source, name, called, arrays, seen)
            if path is None
            else _Scanner(path, called).index(arrays, seen)
        )
    except RecursionError:
        raise IngestionError(f"{called} is nested too deeply") from None
    except OSError as error:
        if isinstance(error, LakebedError):
            raise
        raise IngestionError(f"{called} cannot be read: {error}") from error


def _held(data: bytes, name: str, arrays: Collection[str], seen: Seen) -> JsonFile:
    try:
        with _NO_CYCLES:
            whole = json.loads(data.decode("utf-8-sig"))
    except ValueError as error:
        raise IngestionError(f"{name} is no JSON: {error}") from error
    if not isinstance(whole, dict):
        raise IngestionError(f"{name} is no JSON object")
    found = JsonFile(name)
    for key, value in whole.items():
        if key in arrays and isinstance(value, list):
            found.held[key] = value
            for first in range(0, len(value), _TOGETHER):
                seen(key, first, value[first : first + _TOGETHER])
        else:
            found.values[key] = value
    return found


class _NoCycles:
    """``with`` it, the search for unreachable cycles rests: of JSON there are none, and it looks at all objects.

    It is as it was when the last of the threads that are inside leaves. What was made meanwhile is not young then, so
    that it is looked at once and not in each generation.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._inside = 0
        self._was_on = False

    def __enter__(self) -> None:
        with self._mutex:
            if not self._inside:
                self._was_on = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._mutex:
            self._inside -= 1
            if self._inside or not self._was_on:
                return
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


_NO_CYCLES = _NoCycles()


class _Scanner:
    """Goes through the text of a file, of which it holds a window."""

    def __init__(self, path: str, name: str) -> None:
        self._path, self._name = path, name
        self._data = _mapped(path)
        self._size = len(self._data)
        self._base = 0  # where the window begins
        self._at = 0  # in the window
        self._text = ""
        self._load(0)

    def index(self, arrays: Collection[str], seen: Seen) -> JsonFile:
        found = JsonFile(self._path)
        if self._size >= 3 and self._data[:3] == b"\xef\xbb\xbf":
            self._at = 3
        self._expect("{")
        if self._peek() == "}":
            return found
        while True:
            key, _, _ = self._value()
            if not isinstance(key, str):
                raise self._wrong("a key was expected")
            self._expect(":")
            if key in arrays and self._peek() == "[":
                if key in found.starts:
                    raise self._wrong(f"{key} is there twice")
                found.starts[key], found.ends[key] = self._array(key, seen)
            else:
                _, start, end = self._value()
                found.values[key] = found.between(start, end)
            if self._next() == "}":
                return found

    def _array(self, key: str, seen: Seen) -> tuple[Sequence[int], Sequence[int]]:
        starts, ends = array("q"), array("q")
        together: list[Any] = []
        self._expect("[")
        if self._peek() == "]":
            self._at += 1
            return starts, ends
        while True:
            value, start, end = self._value()
            together.append(value)
            starts.append(start)
            ends.append(end)
            is_last = self._next("]") == "]"
            if is_last or len(together) == _TOGETHER:
                seen(key, len(starts) - len(together), together)
                together = []
            if is_last:
                return starts, ends

    def _value(self) -> tuple[Any, int, int]:
        """Return the next value, and where it begins and ends in the file."""
        self._peek()
        size = _WINDOW_BYTES
        while True:
            try:
                value, stop = _decode(self._text, self._at)
            except ValueError as error:
                problem = str(error)
            else:
                # A number at the end of the window may go on behind it.
                if stop < len(self._text) or self._base + len(self._text) == self._size:
                    start, self._at = self._base + self._at, stop
                    return value, start, self._base + stop
                problem = "cut"
            if self._base + len(self._text) == self._size or size > _MOST_ELEMENT_BYTES:
                raise self._wrong(problem.partition(":")[0])
            size *= 2 if self._at == 0 else 1
            self._load(self._base + self._at, size)

    def _peek(self) -> str:
        """Return the next character that is no space, and stay there."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if self._base + len(self._text) == self._size:
                raise self._wrong("the end is missing")
            self._load(self._base + self._at)

    def _expect(self, character: str) -> None:
        if self._peek() != character:
            raise self._wrong(f"{character!r} was expected")
        self._at += 1

    def _next(self, end: str = "}") -> str:
        found = self._peek()
        if found not in (",", end):
            raise self._wrong(f"',' or {end!r} was expected")
        self._at += 1
        return found

    def _load(self, start: int, size: int = _WINDOW_BYTES) -> None:
        self._text = self._data[start : start + size].decode("latin-1")
        self._base, self._at = start, 0

    def _wrong(self, problem: str) -> IngestionError:
        return IngestionError(f"{self._name} is no JSON at byte {self._base + self._at:,}: {problem}")


@lru_cache(8)
def _mapped(path: str) -> mmap.mmap | bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - kept open by what is returned
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _scanned_copy(source: Source, name: str, called: str, arrays: Collection[str], seen: Seen) -> JsonFile:
    """Look through a copy of a file, which stays as long as the plan of this process: workers open it by its path."""
    copy = _copied(source, name)
    try:
        found = _Scanner(copy, called).index(arrays, seen)
    except BaseException:
        _remove(copy, os.getpid())
        raise
    weakref.finalize(found, _remove, copy, os.getpid())
    return found


def _copied(source: Source, name: str) -> str:
    """Copy a file of a bucket to this machine."""
    with tempfile.NamedTemporaryFile(prefix="lakebed-", suffix=".json", delete=False) as file:
        with source.open(name) as other:
            while block := other.read(_WINDOW_BYTES):
                file.write(block)
        return str(Path(file.name))


def _remove(path: str, pid: int) -> None:
    """Remove a copy; a forked child, which has a copy of the plan, leaves it alone."""
    if os.getpid() == pid:
        Path(path).unlink(missing_ok=True)
