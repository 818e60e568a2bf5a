"""Blocks of objects in the files of one folder, for any number of processes at the same time.

A read returns what was written, or nothing: a file that is torn, damaged, cut off, of another object or being written
counts as missing. If the folder cannot be written or the disk is full, this process stops writing with one warning and
still reads existing files.
"""

# Paths are strings, because this code runs for every read from a store and pathlib is slower.
# ruff: noqa: PTH103, PTH108, PTH116
from __future__ import annotations

import contextlib
import logging
import os
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from lakebed.errors import LakebedError
from lakebed.storage.cache.layout import (
    BLOCK,
    BLOCKS,
    HEAD,
    UNKNOWN,
    Entry,
    entries_in,
    entry_at,
    name_of,
    size_in,
    start_of,
    sum_of,
)
from lakebed.storage.cache.quota import Quota, on_disk
from lakebed.storage.files.disk import write_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lakebed.storage.base import Buffer

T = TypeVar("T")

_log = logging.getLogger(__name__)

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_WRITE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
# Minimum number of seconds between updates of a file's modification time, which records its last use.
_NOTED = 10.0


class Item(NamedTuple):
    """Name of an object in the cache.

    Parameters
    ----------
    place, key, identity
        See :func:`lakebed.storage.cache.layout.name_of`.
    """

    place: str
    key: str
    identity: str = ""

    def name(self, part: int) -> bytes:
        """Return the name of the file for one part of the object."""
        return name_of(self.place, self.key, self.identity, part)


class CacheFiles:
    """Files of the cache in one folder.

    Parameters
    ----------
    folder
        The folder, which may be missing.
    bound
        Bytes that all files together may take.
    """

    def __init__(self, folder: str, bound: int) -> None:
        self.folder = folder
        self.bound = bound
        self._quota = Quota(folder, bound)
        self._is_writing = True

    def __reduce__(self) -> tuple[type[CacheFiles], tuple[str, int]]:
        return CacheFiles, (self.folder, self.bound)

    def _path(self, name: bytes) -> str:
        return f"{self._quota.shelf(name[0])}/{name.hex()}"

    # -- reading ---------------------------------------------------------------------------------------------

    def size(self, item: Item) -> int | None:
        """Return the size of an object, None if the cache does not know it."""
        name = item.name(0)
        try:
            fd = os.open(self._path(name), _READ)
        except OSError:
            return None
        try:
            size = size_in(os.pread(fd, HEAD, 0), name)
        except OSError:
            return None
        finally:
            os.close(fd)
        return None if size == UNKNOWN else size

    def run(self, item: Item, first: int, stop: int) -> bytes | None:
        """Read bytes of an object from the beginning of a block; None unless the cache holds all of them.

        Parameters
        ----------
        first
            Number of the first block.
        stop
            End of the bytes in the object.
        """
        pieces: list[bytes] = []
        for part, low, high, least in _parts(first, stop):
            data = self._read(item.name(part), low, high, least, _BlockRun.read)
            if data is None:
                return None
            pieces.append(data)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def run_into(self, item: Item, size: int, buffer: memoryview) -> bool:
        """Read a whole object of known size into the start of a buffer; False unless the cache holds all of it."""
        at = 0
        for part, low, high, least in _parts(0, size):
            done = self._read(
                item.name(part), low, high, least, partial(_BlockRun.read_into, buffer=buffer[at:])
            )
            if not done:
                return False
            at += done
        return at == size

    def _read(
        self, name: bytes, first: int, last: int, least: int, read: Callable[[_BlockRun], T | None]
    ) -> T | None:
        """Read a run of blocks of one file, at least `least` bytes of the last block; None if any bytes are missing."""
        try:
            fd = os.open(self._path(name), _READ)
        except OSError:  # the file is missing or not readable
            return None
        try:
            head = os.pread(fd, HEAD, 0)
            entries = [] if size_in(head, name) is None else entries_in(head, first, last)
            if not entries or not least <= entries[-1].length <= BLOCK:
                return None
            if any(entry.length != BLOCK for entry in entries[:-1]):
                return None
            found = read(_BlockRun(fd, name, first, entries, least))
            if found is not None:
                _note_use(fd)
        except OSError:  # a file on a failing disk counts as missing
            return None
        else:
            return found
        finally:
            os.close(fd)

    # -- writing ---------------------------------------------------------------------------------------------

    def keep(self, item: Item, blocks: Mapping[int, Buffer], size: int | None = None) -> None:
        """Write blocks of an object by their numbers; they replace existing blocks.

        Parameters
        ----------
        size
            Size of the object, if it is known.
        """
        if not self._is_writing:
            return
        parts: dict[int, dict[int, Buffer]] = {part: {} for part in ([0] if size is not None else [])}
        for block, data in blocks.items():
            parts.setdefault(block // BLOCKS, {})[block % BLOCKS] = data
        try:
            for part, inside in parts.items():
                self._keep_part(item.name(part), inside, UNKNOWN if size is None else size)
        except (OSError, LakebedError) as error:
            self._is_writing = False
            _log.warning(
                "nothing more is kept in the cache on this machine's disk: %s. Free some space there, or set "
                "LAKEBED_CACHE_DIR to another folder; until then more is read over the network",
                error,
            )

    def _keep_part(self, name: bytes, blocks: Mapping[int, Buffer], size: int) -> None:
        need = HEAD + on_disk(sum(len(data) for data in blocks.values()))
        with self._quota.writing(need) as ledger:
            if ledger is None:
                return
            path = self._path(name)
            os.makedirs(self._quota.shelf(name[0]), mode=0o700, exist_ok=True)
            fd = os.open(path, _WRITE, 0o600)
            try:
                before = os.fstat(fd).st_size
                _write(fd, name, blocks, size)
                ledger.used -= need - (on_disk(os.fstat(fd).st_size) - on_disk(before))
            finally:
                os.close(fd)

    def drop(self, item: Item) -> None:
        """Remove the blocks of an object."""
        size = self.size(item) or 1
        names = [item.name(part) for part in range((size - 1) // (BLOCKS * BLOCK) + 1)]
        paths = [path for path in map(self._path, names) if os.path.lexists(path)]
        if not paths:
            return
        with contextlib.suppress(OSError, LakebedError), self._quota.writing(0) as ledger:
            for path in paths:
                used = on_disk(os.stat(path, follow_symlinks=False).st_size)
                os.unlink(path)
                if ledger is not None:
                    ledger.used -= used


class _BlockRun(NamedTuple):
    """Consecutive blocks of an object in an open file; of the last block, only the first `least` bytes are needed."""

    fd: int
    name: bytes
    first: int
    entries: list[Entry]
    least: int

    def read(self) -> bytes | None:
        """Read the blocks; None if they are damaged."""
        pieces = [os.pread(self.fd, length, at) for at, length in _stretches(self.entries)]
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        spare = self.entries[-1].length - self.least
        if not self._is_sound(memoryview(data)):
            return None
        return data[: len(data) - spare] if spare else data

    def read_into(self, buffer: memoryview) -> int | None:
        """Read the blocks into the start of a buffer and return their length; None if damaged or too long."""
        size = sum(entry.length for entry in self.entries)
        if size > len(buffer) or self.entries[-1].length != self.least:
            return None
        filled = 0
        for at, length in _stretches(self.entries):
            if os.preadv(self.fd, [buffer[filled : filled + length]], at) != length:
                return None
            filled += length
        return size if self._is_sound(buffer[:size]) else None

    def _is_sound(self, data: memoryview) -> bool:
        at = 0
        for number, entry in enumerate(self.entries, self.first):
            part = data[at : at + entry.length]
            if len(part) != entry.length or sum_of(part, self.name, number) != entry.sum:
                return False
            at += entry.length
        return True


def _stretches(entries: list[Entry]) -> list[tuple[int, int]]:
    """Return offset and length of runs of adjacent blocks, which one call reads."""
    found: list[tuple[int, int]] = []
    for entry in entries:
        if found and sum(found[-1]) == entry.at:
            found[-1] = found[-1][0], found[-1][1] + entry.length
        else:
            found.append((entry.at, entry.length))
    return found


def _parts(first: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Split a run of blocks by files: number of the file, first and last block in it, needed bytes of that block."""
    last = (stop - 1) // BLOCK
    while first <= last:
        part = first // BLOCKS
        end = min(last, part * BLOCKS + BLOCKS - 1)
        yield part, first % BLOCKS, end % BLOCKS, min(BLOCK, stop - end * BLOCK)
        first = end + 1


def _note_use(fd: int) -> None:
    now = time.time()
    if abs(now - os.fstat(fd).st_mtime) > _NOTED:
        with contextlib.suppress(OSError):  # the user may lack the permission to set times
            os.utime(fd, (now, now))


def _write(fd: int, name: bytes, blocks: Mapping[int, Buffer], size: int) -> None:
    """Append blocks to a file, and then the table entries that refer to them.

    A file of another object, or a file that consists mostly of replaced blocks, is emptied first.
    """
    head, end = os.pread(fd, HEAD, 0), os.fstat(fd).st_size
    known = size_in(head, name)
    is_other = known not in (None, UNKNOWN, size) and size != UNKNOWN
    if known is None or is_other or end - HEAD > 2 * _held(head) + BLOCK:
        os.ftruncate(fd, 0)
        end = HEAD
        write_at(fd, start_of(name, size).ljust(HEAD, b"\0"), 0)
    elif size not in (UNKNOWN, known):
        write_at(fd, start_of(name, size), 0)
    for block, data in sorted(blocks.items()):
        # Append the block, never overwrite one: a damaged entry may point into another block.
        write_at(fd, data, end)
        offset, entry = entry_at(block, Entry(sum_of(data, name, block), end, len(data)))
        write_at(fd, entry, offset)
        end += len(data)


def _held(head: bytes) -> int:
    return sum(min(entry.length, BLOCK) for entry in entries_in(head, 0, BLOCKS - 1))
