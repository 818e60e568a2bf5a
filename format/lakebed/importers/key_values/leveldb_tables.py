"""The files of LevelDB, read without its library, which opens a database by writing to it.

CURRENT                     name of the manifest
MANIFEST-n, n.log           blocks of 32 KiB of records: u32 checksum, u16 length, u8 whole (1), first (2), middle (3),
                            last (4), content
    record of a manifest    changes: tables that are there and are not any more, number of the first log, order of keys
    record of a log         u64 number of the first change, u32 changes; of each u8 put (1) or deletion (0), key, value
n.ldb, n.sst                blocks; then 48 bytes: places of two blocks, the second that of the index, and u64 magic
    block                   content, u8 compression (0 none, 1 snappy), u32 checksum
    content                 of each entry how much of the key is that of the one before, how much is its own, and how
                            long the value is, all varints; key, value; at the end u32 places where keys are whole, and
                            u32 how many
    key                     the user's key, u64 number of the change and, in its last byte, put or deletion
    index                   value: varints offset and length of a block

The newest change of a key counts. Checksums are CRC-32C, turned and shifted.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from functools import cache
from heapq import merge
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError
from lakebed.importers.tfrecord.varints import unsnapped, varint

_MAGIC = 0xDB4775248B80FB57
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5
_LOG_BLOCK_BYTES = 32 << 10
_RECORD = struct.Struct("<IHB")
_BATCH = struct.Struct("<QI")
_ORDER = b"leveldb.BytewiseComparator"
# What is not in tables yet is held in memory; LevelDB does the same.
_MOST_LOG_BYTES = 2 << 30
_MOST_BLOCK_BYTES = 1 << 30
# More than snappy can.
_MOST_RATIO = 32
_CRC_BYTES = 4096


class Value(NamedTuple):
    """A value: its bytes, or where they are in the block of a table."""

    size: int
    data: bytes | None
    table: int = 0
    block: tuple[int, int] = (0, 0)
    at: int = 0


class Table(NamedTuple):
    """A table, and the first and last of its keys; those of a level above 0 share none."""

    level: int
    number: int
    size: int
    first: bytes
    last: bytes


class Change(NamedTuple):
    """A change of a key; None is a deletion."""

    key: bytes
    number: int
    value: Value | None


Read = Callable[[str], bytes]
ReadPart = Callable[[str, int, int], bytes]


class Folder:
    """A LevelDB database that is read.

    Parameters
    ----------
    files
        Size of each file.
    read
        Reads a file.
    read_part
        Reads bytes of a file from a place on; fewer at its end.

    Raises
    ------
    IngestionError
        If it is none, or its manifest is damaged.
    """

    def __init__(self, files: dict[str, int], read: Read, read_part: ReadPart) -> None:
        self._files, self._read, self._read_part = files, read, read_part
        manifest = _text(read("CURRENT") if files.get("CURRENT", 1 << 20) < 1 << 10 else b"")
        if not re.fullmatch(r"MANIFEST-[0-9]+\n?", manifest) or manifest.strip() not in files:
            raise IngestionError("CURRENT names no manifest")
        self.manifest = manifest.strip()
        self.tables: list[Table] = []
        self._first_log = self._previous_log = 0
        self._apply(read(self.manifest))
        names = {number: name for name in files if (number := _number(name, "ldb", "sst")) is not None}
        self._names = names
        logs = {number: name for name in files if (number := _number(name, "log")) is not None}
        self.logs = [
            name
            for number, name in sorted(logs.items())
            if number >= self._first_log or (number == self._previous_log != 0)
        ]

    @property
    def version(self) -> str:
        """What changes when it is written to."""
        return " ".join(f"{name}:{self._files[name]}" for name in (self.manifest, *self.logs))

    # -- what is in it -------------------------------------------------------------------------------------------

    def entries(self, start: bytes | None, stop: bytes | None) -> Iterator[tuple[bytes, Value] | str]:
        """Yield keys and their values from ``start`` on and before ``stop``, in order; at the end, what is damaged."""
        damage: list[str] = []
        sources: list[Iterator[Change]] = [iter(self._logged(start, stop, damage))]
        levels: dict[int, list[Table]] = {}
        for table in self.tables:
            if (start is None or table.last >= start) and (stop is None or table.first < stop):
                levels.setdefault(table.level or -table.number, []).append(table)
        sources += [self._level(of, start, stop, damage) for of in levels.values()]
        changes = merge(*sources, key=lambda change: (change.key, -change.number))
        for key, of in groupby(changes, key=lambda change: change.key):
            newest = next(of).value
            if newest is not None:
                yield key, newest
        yield from damage

    def value(self, value: Value) -> bytes:
        """Return the bytes of a value.

        Raises
        ------
        IngestionError
            If they are not there any more.
        """
        if value.data is not None:
            return value.data
        content = self._block(self._name(value.table), *value.block)
        return content[value.at : value.at + value.size]

    # -- manifest and logs ---------------------------------------------------------------------------------------

    def _apply(self, data: bytes) -> None:
        """Take the changes of the manifest.

        Raises
        ------
        IngestionError
            If it is damaged, or keys are in another order.
        """
        found: dict[int, Table] = {}
        damage: list[str] = []
        for record in _records(data, damage):
            at = 0
            while at < len(record):
                tag, at = varint(record, at)
                if tag == 1:
                    order, at = _part(record, at)
                    if order != _ORDER:
                        raise IngestionError(f"keys are in an order of the writer's own, {order[:100]!r}")
                elif tag in (2, 3, 4, 9):
                    number, at = varint(record, at)
                    self._first_log = number if tag == 2 else self._first_log
                    self._previous_log = number if tag == 9 else self._previous_log
                elif tag == 5:
                    _, at = varint(record, at)
                    _, at = _part(record, at)
                elif tag in (6, 7):
                    level, at = varint(record, at)
                    number, at = varint(record, at)
                    if tag == 6:
                        found.pop(number, None)
                        continue
                    size, at = varint(record, at)
                    first, at = _part(record, at)
                    last, at = _part(record, at)
                    found[number] = Table(level, number, size, first[:-8], last[:-8])
                else:
                    raise IngestionError(f"the manifest is damaged: it has a field {tag}")
        if damage:
            raise IngestionError(f"the manifest is damaged: {damage[0]}")
        self.tables = [found[number] for number in sorted(found)]

    def _logged(self, start: bytes | None, stop: bytes | None, damage: list[str]) -> list[Change]:
        """Return what is in logs and in no table yet, in order."""
        total = sum(self._files[name] for name in self.logs)
        if total > _MOST_LOG_BYTES:
            raise IngestionError(
                f"logs of {total:,} bytes are more than {_MOST_LOG_BYTES:,}: compact the database"
            )
        found: dict[bytes, Change] = {}
        for name in self.logs:
            lost: list[str] = []
            for record in _records(self._read(name), lost):
                try:
                    for change in _changes(record):
                        if (start is None or change.key >= start) and (stop is None or change.key < stop):
                            known = found.get(change.key)
                            if known is None or known.number <= change.number:
                                found[change.key] = change
                except IngestionError as error:
                    lost.append(f"{error}")
            damage += [f"{name}: {reason}" for reason in lost]
        return [found[key] for key in sorted(found)]

    # -- tables --------------------------------------------------------------------------------------------------

    def _name(self, number: int) -> str:
        if number not in self._names:
            raise IngestionError(f"the table {number} is missing")
        return self._names[number]

    def _level(
        self, tables: list[Table], start: bytes | None, stop: bytes | None, damage: list[str]
    ) -> Iterator[Change]:
        """Yield the changes of tables that follow each other, one table at a time."""
        for table in sorted(tables, key=lambda table: table.first):
            yield from self._table(table, start, stop, damage)

    def _table(
        self, table: Table, start: bytes | None, stop: bytes | None, damage: list[str]
    ) -> Iterator[Change]:
        """Yield the changes of a table, in order; blocks that are damaged are left out, and noted."""
        try:
            name = self._name(table.number)
            blocks = list(self._blocks(name))
        except IngestionError as error:
            damage.append(f"{error}")
            return
        last: tuple[bytes, int] | None = None
        for key, place in blocks:
            if start is not None and key < start:
                continue  # the key of a block is that of its last entry, or behind it
            try:
                content = self._block(name, *place)
                for user, number, is_put, at, size in _internal(content, last):
                    last = user, -number
                    if stop is not None and user >= stop:
                        return
                    if start is None or user >= start:
                        value = Value(size, content[at : at + size], table.number, place, at)
                        yield Change(user, number, value if is_put else None)
            except IngestionError as error:
                damage.append(f"{name}, block at {place[0]:,}: {error}")

    def _blocks(self, name: str) -> Iterator[tuple[bytes, tuple[int, int]]]:
        """Yield last key and place of the blocks of a table."""
        size = self._files[name]
        footer = self._read_part(name, size - _FOOTER_BYTES, _FOOTER_BYTES) if size >= _FOOTER_BYTES else b""
        if footer[40:] != _MAGIC.to_bytes(8, "little"):
            raise IngestionError(f"{name} is no table, or cut short")
        at, numbers = 0, []
        for _ in range(4):
            number, at = varint(footer, at)
            numbers.append(number)
        budget = size
        index = self._block(name, numbers[2], numbers[3])
        for key, start, length in _entries(index):
            offset, after = varint(index[start : start + length], 0)
            taken, _ = varint(index[start : start + length], after)
            budget -= taken + _TRAILER_BYTES
            if budget < 0:
                raise IngestionError(f"{name}: blocks are named more than once")
            yield key[:-8], (offset, taken)

    def _block(self, name: str, offset: int, length: int) -> bytes:
        """Return the content of a block.

        Raises
        ------
        IngestionError
            If it is not there or damaged.
        """
        if offset + length + _TRAILER_BYTES > self._files[name] or length > _MOST_BLOCK_BYTES:
            raise IngestionError(f"{name}: a block of {length:,} bytes at {offset:,} goes beyond the file")
        data = self._read_part(name, offset, length + _TRAILER_BYTES)
        if len(data) != length + _TRAILER_BYTES:
            raise IngestionError(f"{name} is cut short")
        if int.from_bytes(data[-4:], "little") != _masked(crc32c(data[:-4])):
            raise IngestionError("the checksum is another")
        return _unpacked(data[:length], data[length])


def _text(data: bytes) -> str:
    return data.decode("ascii", "replace")


def _number(name: str, *suffixes: str) -> int | None:
    found = re.fullmatch(rf"([0-9]{{1,18}})\.(?:{'|'.join(suffixes)})", name)
    return int(found[1]) if found else None


def _unpacked(data: bytes, compression: int) -> bytes:
    if compression == 0:
        return data
    if compression != 1:
        raise IngestionError(f"a block is compressed by method {compression}, and only snappy is read")
    return unsnapped(data, min(_MOST_RATIO * len(data) + _CRC_BYTES, _MOST_BLOCK_BYTES))


def _entries(content: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield key, place and length of the value of the entries of a block."""
    count = int.from_bytes(content[-4:], "little") if len(content) >= 4 else -1
    end = len(content) - 4 - 4 * count
    if count < 0 or end < 0:
        raise IngestionError("the restarts of a block lie beyond it")
    at, key = 0, b""
    while at < end:
        shared, at = varint(content, at)
        own, at = varint(content, at)
        size, at = varint(content, at)
        if shared > len(key) or at + own + size > end:
            raise IngestionError("an entry goes beyond its block")
        key = key[:shared] + content[at : at + own]
        yield key, at + own, size
        at += own + size


def _internal(content: bytes, last: tuple[bytes, int] | None) -> list[tuple[bytes, int, bool, int, int]]:
    """Return key, number, whether it is put, and place and length of the value of the entries of a block.

    Raises
    ------
    IngestionError
        If they are not in order behind the last entry before them.
    """
    found = []
    for key, at, size in _entries(content):
        if len(key) < 8:
            raise IngestionError("a key is cut short")
        tail = int.from_bytes(key[-8:], "little")
        here = key[:-8], -(tail >> 8)
        if last is not None and here < last:
            raise IngestionError("keys are out of order")
        last = here
        found.append((key[:-8], tail >> 8, bool(tail & 0xFF), at, size))
    return found


def _records(data: bytes, damage: list[str]) -> Iterator[bytes]:
    """Yield the records of a log; what is damaged is left out, and noted, as the rest of its block is."""
    parts: list[bytes] | None = None
    for start in range(0, len(data), _LOG_BLOCK_BYTES):
        block = data[start : start + _LOG_BLOCK_BYTES]
        at = 0
        while at + _RECORD.size <= len(block):
            checksum, length, kind = _RECORD.unpack_from(block, at)
            if kind == length == checksum == 0:
                break  # the file was made larger beforehand
            end = at + _RECORD.size + length
            if end > len(block):
                if start + len(block) < len(data):
                    damage.append("a record goes beyond its block")
                break  # the writer was killed here
            content = block[at + 6 : end]
            if checksum != _masked(crc32c(content)) or not 1 <= kind <= 4:
                damage.append("a record has another checksum")
                parts = None
                break
            content, at = content[1:], end
            if kind in (1, 2):
                parts = []
            if parts is None:
                continue  # the beginning of the record is damaged
            parts.append(content)
            if kind in (1, 4):
                yield b"".join(parts)
                parts = None


def _changes(record: bytes) -> Iterator[Change]:
    """Yield the changes of a record of a log."""
    if len(record) < _BATCH.size:
        raise IngestionError("a change is cut short")
    number, count = _BATCH.unpack_from(record)
    at = _BATCH.size
    for one in range(count):
        if at >= len(record):
            raise IngestionError("a change is cut short")
        kind = record[at]
        key, at = _part(record, at + 1)
        if kind == 0:
            yield Change(key, number + one, None)
        elif kind == 1:
            value, at = _part(record, at)
            yield Change(key, number + one, Value(len(value), value))
        else:
            raise IngestionError(f"a change is of an unknown kind {kind}")


def _part(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = varint(data, at)
    if at + length > len(data):
        raise IngestionError("a key or value is cut short")
    return data[at : at + length], at + length


# -- checksums -----------------------------------------------------------------------------------------------------


def _masked(checksum: int) -> int:
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of bytes.

    Examples
    --------
    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    table = _tables()
    state = 0xFFFFFFFF
    for start in range(0, len(data), _CRC_BYTES):
        part = np.frombuffer(data, np.uint8, min(_CRC_BYTES, len(data) - start), start)
        if len(part) < 4:
            for byte in part.tolist():
                state = state >> 8 ^ int(table[0, (state ^ byte) & 0xFF])
            continue
        part = part.copy()
        part[:4] ^= np.frombuffer(state.to_bytes(4, "little"), np.uint8)
        state = int(np.bitwise_xor.reduce(table[np.arange(len(part) - 1, -1, -1), part]))
    return state ^ 0xFFFFFFFF


@cache
def _tables() -> NDArray[np.uint32]:
    """Return what a byte adds to the checksum by how many bytes are behind it."""
    first: NDArray[np.uint32] = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = (first >> 1 ^ (first & 1) * np.uint32(0x82F63B78)).astype(np.uint32)
    found = np.empty((_CRC_BYTES, 256), np.uint32)
    found[0] = first
    for at in range(1, _CRC_BYTES):
        found[at] = found[at - 1] >> 8 ^ first[found[at - 1] & 0xFF]
    return found


def held(value: Value) -> Any:
    """Return a value without its bytes, if they can be read again."""
    return value if value.table == 0 else value._replace(data=None)
