"""What a file system was told, in order: the log that a recorder writes and the model of a disk reads.

Files and folders have serial numbers, because a file keeps its content when its name changes; 0 is the recorded folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

ROOT = 0


@dataclass(frozen=True, slots=True)
class Link:
    """A new name of a new file or folder."""

    folder: int
    name: str
    node: int
    is_folder: bool


@dataclass(frozen=True, slots=True)
class Unlink:
    """A name that goes, of a file or an empty folder."""

    folder: int
    name: str


@dataclass(frozen=True, slots=True)
class Rename:
    """A name that becomes another, in one step."""

    folder: int
    name: str
    to_folder: int
    to_name: str
    node: int


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes at an offset of a file."""

    node: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """Another length of a file."""

    node: int
    length: int


@dataclass(frozen=True, slots=True)
class Sync:
    """fsync(2) of a file or folder that succeeded."""

    node: int


@dataclass(frozen=True, slots=True)
class LostSync:
    """fsync(2) of a file or folder that failed: what it should have forced will never reach the disk."""

    node: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A word of the recorded program, not of the file system."""

    word: str


Event: TypeAlias = Link | Unlink | Rename | Write | Truncate | Sync | LostSync | Mark
_KINDS = {kind.__name__: kind for kind in (Link, Unlink, Rename, Write, Truncate, Sync, LostSync, Mark)}


def to_line(event: Event) -> str:
    """Write an event as a line of JSON."""
    values = [getattr(event, name) for name in event.__slots__]
    plain = [value.decode("latin-1") if isinstance(value, bytes) else value for value in values]
    return json.dumps([type(event).__name__, *plain])


def from_lines(lines: Iterable[str]) -> Iterator[Event]:
    """Read what :func:`to_line` wrote."""
    for line in lines:
        kind, *values = json.loads(line)
        if kind == "Write":
            values[2] = values[2].encode("latin-1")
        yield _KINDS[kind](*values)


def read_log(path: Path) -> list[Event]:
    """Read a log that a recorder wrote to a file."""
    with path.open(encoding="utf-8") as file:
        return list(from_lines(file))
