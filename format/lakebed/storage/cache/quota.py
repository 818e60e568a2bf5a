"""Bound on the disk space of the cache, which holds even if processes are killed.

Processes that write into a folder take turns, each for one write. The file that they lock records the used space:

    bytes   content
    8       magic "LBROOM01"
    8       u64 bound in bytes
    8       u64 bytes used
    8       u64 1 while a process writes
    16      boot id of the machine
    8       u64 xxh3-64 of the 48 bytes before

Data is counted before it is written: a process that dies in between leaves a count that is too high, and the mark of a
writer. The next process then counts again, as after a restart of the machine. All integers are little-endian.
"""

# Paths are strings, because this code runs for every read from a store and pathlib is slower.
# ruff: noqa: PTH103, PTH108
from __future__ import annotations

import contextlib
import os
import struct
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import xxhash

from lakebed.runtime import clock
from lakebed.runtime.machine import boot_id
from lakebed.storage.files.disk import LockedFile, lock_file

if TYPE_CHECKING:
    from collections.abc import Iterator

SHELVES = 32
"""Number of folders for the files."""
_PAGE = 4096
# Bytes that the folders and the file with the count take themselves.
_OVERHEAD = (SHELVES + 2) * _PAGE
# Number of files that are compared to find the least recently used ones.
_LOOKED_AT = 1_000
# Space that is freed at once: the first number is a share of the bound, the second limits it to a share of the compared
# files.
_FREED, _FREED_OF_SEEN = 1 / 64, 1 / 4
# If the compared files hold less than this share of what the count implies for their folders, the count is wrong.
_DOUBTFUL = 1 / 2
_PATIENCE = 0.05
_PAUSE = 0.001

_MAGIC = b"LBROOM01"
_STATE = struct.Struct("<8sQQQ16s")


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    used: float
    size: int


@dataclass(slots=True)
class Ledger:
    """Content of the file that records the used space, while that file is locked."""

    fd: int
    bound: int
    used: int

    def write(self, *, busy: bool) -> None:
        """Write the ledger to disk."""
        data = _STATE.pack(_MAGIC, self.bound, max(0, self.used), busy, boot_id())
        os.pwrite(self.fd, data + xxhash.xxh3_64_intdigest(data).to_bytes(8, "little"), 0)


def on_disk(size: int) -> int:
    """Return the bytes that a file of this size takes on disk."""
    return -(-size // _PAGE) * _PAGE


class Quota:
    """Bound on the space of one folder.

    The largest bound of all processes that wrote into the folder applies, so that a process with a smaller bound does
    not remove files of others. Removing the folder, which is safe at any time, resets the bound.

    Parameters
    ----------
    folder
        Folder of the cache, which may be missing.
    bound
        Bytes that the folder may take.
    """

    def __init__(self, folder: str, bound: int) -> None:
        self.folder = folder
        self._bound = bound
        self._start_afresh()

    def _start_afresh(self) -> None:
        self._mutex = threading.Lock()
        self._pid = os.getpid()

    def shelf(self, number: int) -> str:
        """Return the path of a folder for files."""
        return f"{self.folder}/{number % SHELVES:02x}"

    @contextlib.contextmanager
    def writing(self, need: int) -> Iterator[Ledger | None]:
        """Lock the whole folder for a write and reserve `need` bytes.

        The caller reduces `used` of the ledger by bytes that it did not write, or removed. Yields None if other
        processes write for too long, or if the bytes do not fit into the bound.

        Raises
        ------
        OSError, StorageError
            If the folder cannot be written.
        """
        if self._pid != os.getpid():
            self._start_afresh()
        if not self._mutex.acquire(timeout=_PATIENCE):
            yield None
            return
        try:
            file = self._locked()
            if file is None:
                yield None
                return
            try:
                ledger = self._opened(file.fd)
                most = ledger.bound - _OVERHEAD
                if ledger.used + need > most:
                    self._make_room(ledger, need, most)
                fits = ledger.used + need <= most
                if fits:
                    ledger.used += need
                    ledger.write(busy=True)
                yield ledger if fits else None
                ledger.write(busy=False)
            finally:
                file.unlock()
        finally:
            self._mutex.release()

    def _locked(self) -> LockedFile | None:
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        until = time.monotonic() + _PATIENCE
        while (file := lock_file(f"{self.folder}/room")) is None:
            if time.monotonic() > until:
                return None
            time.sleep(_PAUSE)
        return file

    def _opened(self, fd: int) -> Ledger:
        data = os.pread(fd, _STATE.size + 8, 0)
        ledger = Ledger(fd, self._bound, 0)
        if len(data) == _STATE.size + 8 and data[_STATE.size :] == xxhash.xxh3_64_intdigest(
            data[: _STATE.size]
        ).to_bytes(8, "little"):
            magic, bound, used, busy, boot = _STATE.unpack_from(data)
            if magic == _MAGIC:
                ledger.bound = max(bound, self._bound)
                # Count again if the boot id differs, because a power cut may have lost changes of the count. On
                # systems without boot ids, a wrong count stays until the next full count.
                if not busy and boot == boot_id():
                    ledger.used = used
                    return ledger
        for number in range(SHELVES):
            os.makedirs(self.shelf(number), mode=0o700, exist_ok=True)
        ledger.used = self._counted()
        ledger.write(busy=False)
        return ledger

    def _make_room(self, ledger: Ledger, need: int, most: int) -> None:
        """Remove the least recently used files among a sample of files that can be compared quickly."""
        ledger.write(busy=True)
        shelves = clock.chance().sample(range(SHELVES), SHELVES)
        while shelves and ledger.used + need > most:
            seen: list[_File] = []
            before = len(shelves)
            while shelves and len(seen) < _LOOKED_AT:
                seen += _files(self.shelf(shelves.pop()))
            size = sum(file.size for file in seen)
            if size * SHELVES < (before - len(shelves)) * ledger.used * _DOUBTFUL:
                # Somebody has removed files by hand, so count again.
                ledger.used = self._counted()
            wanted = max(ledger.used + need - most, min(int(most * _FREED), int(size * _FREED_OF_SEEN)))
            for file in sorted(seen, key=lambda file: file.used):
                if wanted <= 0:
                    break
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(file.path)
                wanted -= file.size
                ledger.used -= file.size

    def _counted(self) -> int:
        return sum(file.size for number in range(SHELVES) for file in _files(self.shelf(number)))


def _files(shelf: str) -> list[_File]:
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(shelf) as entries:
        for entry in entries:
            try:
                stat = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            found.append(_File(entry.path, stat.st_mtime, on_disk(stat.st_size)))
    return found
