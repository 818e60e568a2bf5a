"""Files of LevelDB, read without its library, which writes to a database on opening; plyvel has no recent wheels.

CURRENT                     name of the manifest
MANIFEST-n, n.log           blocks of 32 KiB of records: u32 checksum, u16 length, u8 whole (1), first (2), middle (3),
                            last (4), content
    record of a manifest    changes: added and deleted tables, number of the first log, order of keys
    record of a log         u64 number of the first change, u32 number of changes; for each u8 put (1) or deletion (0),
                            key, value
n.ldb, n.sst                blocks; then 48 bytes: places of two blocks, of which the second is the index, and u64 magic
    block                   content, u8 compression (0 none, 1 snappy), u32 checksum
    content                 for each entry three varints: number of bytes that its key shares with the previous key,
                            number of other bytes of the key, number of bytes of the value; then these other bytes and
                            the value. At the end u32 places of entries with whole keys, and u32 number of these places
    key                     the user's key, u64 number of the change; its lowest byte is put or deletion
    index                   value: varints offset and length of a block

The newest change of a key counts. Checksums are CRC-32C, masked as in TFRecord files.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from functools import partial
from heapq import merge
from itertools import chain, groupby
from operator import attrgetter
from typing import NamedTuple, Self

from lakebed.errors import IngestionError
from lakebed.importers.core.source import Source, check_size
from lakebed.importers.key_values.key_scans import Database
from lakebed.importers.shards.open_files import OpenFiles
from lakebed.importers.shards.snappy import unsnapped, varint
from lakebed.importers.tfrecord.tfrecord_files import masked_crc32c

_MAGIC = 0xDB4775248B80FB57
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5
_LOG_BLOCK_BYTES = 32 << 10
_RECORD = struct.Struct("<IHB")
_BATCH = struct.Struct("<QI")
_ORDER = b"leveldb.BytewiseComparator"
_MOST_LOG_BYTES = 2 << 30  # logs are held in memory, as LevelDB does
_MOST_BLOCK_BYTES = 1 << 30
_MOST_UNPACKED = 32  # limit of the decompressed size, as a multiple of a block; more than snappy can compress
_LEAST_UNPACKED = 4096
# Maximum size of all entries, as a multiple of the size of the files; stored keys share prefixes, so files are smaller.
_MOST_ENTRIES_BYTES = 1024


class Value(NamedTuple):
    """A value: its bytes, or, if these are None, its place in the block of a table."""

    size: int
    data: bytes | None
    table: int = 0
    block: tuple[int, int] = (0, 0)
    at: int = 0


class _Table(NamedTuple):
    """A table with its first and last key; tables of a level above 0 share no keys."""

    level: int
    number: int
    first: bytes
    last: bytes


class _Change(NamedTuple):
    """A change of a key: the new value, or None for a deletion."""

    key: bytes
    number: int
    value: Value | None


class Folder:
    """A LevelDB database, open for reading.

    Parameters
    ----------
    source, name
        The folder of the database in a source; "" for the source itself.

    Raises
    ------
    IngestionError
        If the folder is not a database, or its manifest is damaged.
    """

    def __init__(self, source: Source, name: str) -> None:
        self._source = source
        self._before = f"{name}/" if name else ""
        self._files = {
            one.removeprefix(self._before): size
            for one, size in source.files.items()
            if one.startswith(self._before) and "/" not in one.removeprefix(self._before)
        }
        self._open = OpenFiles(source)
        current = self._read("CURRENT") if self._files.get("CURRENT", 1 << 20) < 1 << 10 else b""
        manifest = current.decode("ascii", "replace").removesuffix("\n")
        if not re.fullmatch(r"MANIFEST-[0-9]+", manifest) or manifest not in self._files:
            raise IngestionError("CURRENT names no manifest")
        self._tables, first_log, previous_log = _manifest(self._read(manifest))
        self._names = self._numbered("ldb", "sst")
        logs = sorted(self._numbered("log").items())
        self._logs = [name for number, name in logs if number >= first_log or number == previous_log != 0]
        self.version = " ".join(f"{name}:{self._files[name]}" for name in (manifest, *self._logs))
        self.limit = _MOST_ENTRIES_BYTES * sum(self._files.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.__exit__()

    def database(self, name: str) -> Database:
        """Return the only database."""
        return Database(name, None, None)

    def entries(
        self,
        database: Database,  # noqa: ARG002 - there is one
        start: bytes | None,
        stop: bytes | None,
        *,
        with_values: bool = True,
    ) -> Iterator[tuple[bytes, Value] | str]:
        """Yield keys and values from ``start`` on and before ``stop``, in order; then yield descriptions of damage."""
        damage: list[str] = []
        levels: dict[int, list[_Table]] = {}
        for table in sorted(self._tables, key=attrgetter("first")):
            if (start is None or table.last >= start) and (stop is None or table.first < stop):
                levels.setdefault(table.level or -table.number, []).append(table)
        # Tables of a level share no keys: they are read one after the other.
        read = partial(self._table, start=start, damage=damage)
        sources = [chain.from_iterable(map(read, of)) for of in levels.values()]
        changes = merge(
            self._logged(start, stop, damage), *sources, key=lambda change: (change.key, -change.number)
        )
        for key, of in groupby(changes, key=lambda change: change.key):
            if stop is not None and key >= stop:
                break
            value = next(of).value
            if value is not None and (start is None or key >= start):
                # Keep a value from the log: it cannot be read again from a block of a table.
                yield key, value if with_values or not value.table else value._replace(data=None)
        yield from damage

    def read(self, value: Value) -> bytes:
        """Return the bytes of a value.

        Raises
        ------
        IngestionError
            If the block of the value is damaged.
        """
        if value.data is not None:
            return value.data
        return self._block(self._name(value.table), *value.block)[value.at : value.at + value.size]

    # -- files ---------------------------------------------------------------------------------------------------

    def _read(self, name: str) -> bytes:
        return self._source.document(self._before + name)

    def _part(self, name: str, start: int, length: int) -> bytes:
        return self._open.read(self._before + name, start, length)

    def _numbered(self, *suffixes: str) -> dict[int, str]:
        """Return the files whose names are a number and one of some suffixes."""
        pattern = re.compile(rf"([0-9]{{1,18}})\.(?:{'|'.join(suffixes)})")
        return {int(found[1]): name for name in self._files if (found := pattern.fullmatch(name))}

    def _name(self, number: int) -> str:
        if number not in self._names:
            raise IngestionError(f"the table {number} is missing")
        return self._names[number]

    # -- logs and tables -----------------------------------------------------------------------------------------

    def _logged(self, start: bytes | None, stop: bytes | None, damage: list[str]) -> list[_Change]:
        """Return the changes that are in logs and in no table yet, in order; each worker holds only its range."""
        total = sum(self._files[name] for name in self._logs)
        check_size("a log, which compacting the database makes smaller,", total, _MOST_LOG_BYTES)
        found: dict[bytes, _Change] = {}
        for name in self._logs:
            lost: list[str] = []
            for record in _records(self._read(name), lost):
                try:
                    for change in _changes(record):
                        is_inside = (start or b"") <= change.key and (stop is None or change.key < stop)
                        known = found.get(change.key)
                        if is_inside and (known is None or known.number <= change.number):
                            found[change.key] = change
                except IngestionError as error:
                    lost.append(f"{error}")
            damage += [f"{name}: {reason}" for reason in lost]
        return [found[key] for key in sorted(found)]

    def _table(self, table: _Table, start: bytes | None, damage: list[str]) -> Iterator[_Change]:
        """Yield the changes of a table in order; skip blocks before `start`, and damaged blocks, which are recorded."""
        try:
            name = self._name(table.number)
            blocks = list(self._blocks(name))
        except IngestionError as error:
            damage.append(f"{error}")
            return
        last: tuple[bytes, int] | None = None
        for key, place in blocks:
            if start is not None and key < start:
                # All entries of this block precede `start`: the index's key of a block is not before its last entry.
                continue
            try:
                content = self._block(name, *place)
                for user, number, is_put, at, size in _internal(content, last):
                    last = user, -number
                    value = Value(size, content[at : at + size], table.number, place, at)
                    yield _Change(user, number, value if is_put else None)
            except IngestionError as error:
                damage.append(f"{name}, block at {place[0]:,}: {error}")

    def _blocks(self, name: str) -> Iterator[tuple[bytes, tuple[int, int]]]:
        """Yield the last key and the place of each block of a table."""
        size = self._files[name]
        footer = self._part(name, size - _FOOTER_BYTES, _FOOTER_BYTES) if size >= _FOOTER_BYTES else b""
        if footer[40:] != _MAGIC.to_bytes(8, "little"):
            raise IngestionError(f"{name} is not a table, or is cut short")
        at, numbers = 0, []
        for _ in range(4):
            number, at = varint(footer, at)
            numbers.append(number)
        index = self._block(name, numbers[2], numbers[3])
        for key, start, length in _entries(index):
            offset, after = varint(index[start : start + length], 0)
            taken, _ = varint(index[start : start + length], after)
            size -= taken + _TRAILER_BYTES
            if size < 0:
                raise IngestionError(f"{name}: its index names blocks more than once")
            yield key[:-8], (offset, taken)

    def _block(self, name: str, offset: int, length: int) -> bytes:
        """Return the content of a block.

        Raises
        ------
        IngestionError
            If the block is damaged.
        """
        if offset + length + _TRAILER_BYTES > self._files[name] or length > _MOST_BLOCK_BYTES:
            raise IngestionError(f"{name}: a block of {length:,} bytes at {offset:,} goes beyond the file")
        data = self._part(name, offset, length + _TRAILER_BYTES)
        if int.from_bytes(data[-4:], "little") != masked_crc32c(data[:-4]):
            raise IngestionError("the checksum does not match")
        content, compression = data[:length], data[length]
        if compression > 1:
            raise IngestionError(
                f"a block is compressed by method {compression}, but only snappy can be read"
            )
        limit = min(_MOST_UNPACKED * length + _LEAST_UNPACKED, _MOST_BLOCK_BYTES)
        return unsnapped(content, limit) if compression else content


def _manifest(data: bytes) -> tuple[list[_Table], int, int]:
    """Return the tables, the number of the first log, and the number of the previous log (0 for none).

    Raises
    ------
    IngestionError
        If the manifest is damaged, or keys are not sorted by their bytes.
    """
    found: dict[int, _Table] = {}
    logs = {2: 0, 9: 0}
    damage: list[str] = []
    for record in _records(data, damage):
        at = 0
        while at < len(record):
            tag, at = varint(record, at)
            if tag == 1:
                order, at = _part(record, at)
                if order != _ORDER:
                    raise IngestionError(
                        f"the keys are sorted by a custom comparator, {order[:100]!r}, which is not supported"
                    )
            elif tag in (2, 3, 4, 9):
                logs[tag], at = varint(record, at)
            elif tag == 5:
                _, at = varint(record, at)
                _, at = _part(record, at)
            elif tag in (6, 7):
                level, at = varint(record, at)
                number, at = varint(record, at)
                found.pop(number, None)
                if tag == 7:
                    _, at = varint(record, at)
                    first, at = _part(record, at)
                    last, at = _part(record, at)
                    found[number] = _Table(level, number, first[:-8], last[:-8])
            else:
                raise IngestionError(f"the manifest is damaged: it has the unknown field {tag}")
    if damage:
        raise IngestionError(f"the manifest is damaged: {damage[0]}")
    return [found[number] for number in sorted(found)], logs[2], logs[9]


def _entries(content: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield the key of each entry of a block, and the place and the length of its value."""
    count = int.from_bytes(content[-4:], "little") if len(content) >= 4 else -1
    end = len(content) - 4 - 4 * count
    if count < 0 or end < 0:
        raise IngestionError("a block is too short for its restart positions")
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
    """Return for each entry of a block its key, number, whether it is a put, and the place and length of its value.

    Raises
    ------
    IngestionError
        If entries are not in order, or do not come after the last entry of the previous blocks.
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
    """Yield the records of a log; damage is added to `damage`, and the remaining part of its block is skipped."""
    parts: list[bytes] | None = None
    for start in range(0, len(data), _LOG_BLOCK_BYTES):
        block = data[start : start + _LOG_BLOCK_BYTES]
        at = 0
        while at + _RECORD.size <= len(block):
            checksum, length, kind = _RECORD.unpack_from(block, at)
            if kind == length == checksum == 0:
                break  # the rest of the block is allocated but not written
            end = at + _RECORD.size + length
            if end > len(block):
                if start + len(block) < len(data):
                    damage.append("a record goes beyond its block")
                break  # the log ends here, because the writer was killed
            content = block[at + 6 : end]
            if checksum != masked_crc32c(content) or not 1 <= kind <= 4:
                damage.append("the checksum of a record does not match")
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


def _changes(record: bytes) -> Iterator[_Change]:
    """Yield the changes of a record of a log."""
    if len(record) < _BATCH.size:
        raise IngestionError("a change in the log is cut short")
    number, count = _BATCH.unpack_from(record)
    at = _BATCH.size
    for one in range(number, number + count):
        if at >= len(record):
            raise IngestionError("a change in the log is cut short")
        kind = record[at]
        key, at = _part(record, at + 1)
        if kind > 1:
            raise IngestionError(f"a change in the log is of the unknown kind {kind}")
        value = None
        if kind:
            data, at = _part(record, at)
            value = Value(len(data), data)
        yield _Change(key, one, value)


def _part(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = varint(data, at)
    if at + length > len(data):
        raise IngestionError("a key or value is cut short")
    return data[at : at + length], at + length
