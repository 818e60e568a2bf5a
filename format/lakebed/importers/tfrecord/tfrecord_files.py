"""TFRecord files: records behind their lengths and checksums, in files that may be compressed by gzip or zlib.

8     length of the data, little-endian
4     masked CRC-32C of these eight bytes
n     data
4     masked CRC-32C of the data
"""

from __future__ import annotations

import gzip
import io
import mmap
import re
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO, NamedTuple

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.source import Source, suffix_of
from lakebed.native.tfrecords import masked_crc32c, record_starts

NAMES = re.compile(
    r"\.(tfrecords?|tfrec|records?)(-\d+-of-\d+)?(\.gz|\.zlib)?$|-\d{5}-of-\d{5}(\.gz)?$", re.IGNORECASE
)
"""What names of files end with; whether one is of records, its first checksum tells."""

DAMAGE = (EOFError, OSError, zlib.error, LakebedError)
"""What reading a damaged file raises."""

_BESIDE = (".json", ".txt", ".pbtxt", ".md", ".csv", ".tsv", ".yaml", ".yml", ".idx", ".index")

# A worker takes about so many bytes of a file on this machine at a time; of others it takes files as a whole.
_ITEM_BYTES = 32 << 20
_MAX_RECORD_BYTES = 1 << 30
# What a compressed file may become, times its size: more than zlib can.
_MAX_RATIO = 1100
_HEAD = 12
_AROUND = 16
_BLOCK_BYTES = 1 << 20


class Item(NamedTuple):
    """Records of a file, from a byte on: those that start before another one."""

    name: str
    start: int
    stop: int | None

    def __str__(self) -> str:
        return self.name if self.stop is None else f"{self.name}, bytes {self.start:,} to {self.stop:,}"


def files_of(source: Source) -> list[str]:
    """Return the names of files of records."""
    return [name for name in source.files if NAMES.search(name) and suffix_of(name) not in _BESIDE]


def only_files(source: Source) -> bool:
    """Tell whether a source has files of records, and what is usual beside them, and nothing else."""
    others = [name for name in source.files if not NAMES.search(name) and suffix_of(name) not in _BESIDE]
    return not others and bool(files_of(source))


def items_of(source: Source, name: str) -> tuple[list[Item], int | None]:
    """Return what workers take of a file at a time, and how many records it has, if that is known."""
    path = source.path(name)
    if path is None or not source.files[name]:
        return [Item(name, 0, None)], None if path is None else 0
    with open(path, "rb") as file:  # noqa: PTH123 - it is mapped
        if _packing(file.read(12)):
            return [Item(name, 0, None)], None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            starts, count, _ = record_starts(whole, _ITEM_BYTES)
    begins = starts.tolist() or [0]
    return [Item(name, first, last) for first, last in zip(begins, [*begins[1:], None], strict=True)], count


def _packing(head: bytes) -> str:
    """Return how a file is compressed, by its first 12 bytes: ``gzip``, ``zlib``, or not."""
    if len(head) == 12 and masked_crc32c(head[:8]) == int.from_bytes(head[8:], "little"):
        return ""
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    return "zlib" if head[:1] == b"\x78" and int.from_bytes(head[:2], "big") % 31 == 0 else ""


class _Zlib(io.RawIOBase):
    """What a zlib stream unpacks to."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._unpacker = file, zlib.decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._unpacker.eof:
            packed = self._unpacker.unconsumed_tail or self._file.read(_BLOCK_BYTES)
            found = self._unpacker.decompress(packed, len(buffer))
            if found:
                buffer[: len(found)] = found
                return len(found)
            if not packed:
                raise EOFError("the stream ends before its end was marked")
        return 0


@contextmanager
def _opened(source: Source, name: str) -> Iterator[tuple[Any, int, bool]]:
    """Open a file; tell how many bytes it has at most, and whether it is compressed."""
    with ExitStack() as stack:
        file: Any = stack.enter_context(source.open(name))
        packing = _packing(file.read(12))
        file.seek(0)
        size = source.files[name]
        if packing == "gzip":
            file = stack.enter_context(gzip.GzipFile(fileobj=file))
        elif packing == "zlib":
            file = stack.enter_context(io.BufferedReader(_Zlib(file), _BLOCK_BYTES))
        yield file, size * _MAX_RATIO if packing else size, bool(packing)


def records_of(
    source: Source, name: str, start: int, stop: int | None = None
) -> Iterator[tuple[int, bytes | IngestionError]]:
    """Yield where records start, and their data, or why they have none.

    Raises
    ------
    IngestionError
        If it cannot be told where the next record starts.
    """
    with _opened(source, name) as (file, size, is_packed):
        at = start
        if start and not is_packed:
            file.seek(start)
        while stop is None or at < stop:
            head = file.read(12)
            if not head:
                return
            if len(head) < 12:
                raise IngestionError(f"the file ends inside of the head of a record at byte {at:,}")
            length = int.from_bytes(head[:8], "little")
            if masked_crc32c(head[:8]) != int.from_bytes(head[8:], "little"):
                raise IngestionError(f"the length of the record at byte {at:,} does not have its checksum")
            if length > min(_MAX_RECORD_BYTES, size):
                raise IngestionError(f"the record at byte {at:,} is said to have {length:,} bytes")
            data = file.read(length)
            tail = file.read(4)
            if len(data) < length or len(tail) < 4:
                raise IngestionError(f"the file ends inside of the record at byte {at:,}")
            if masked_crc32c(data) != int.from_bytes(tail, "little"):
                yield at, IngestionError("the record does not have its checksum: bytes of it are damaged")
            else:
                yield at, data
            at += length + _AROUND
