"""TFRecord files: records with their lengths and checksums, in files that may be compressed by gzip or zlib.

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
from typing import Any, BinaryIO

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.plan import Stretch
from lakebed.importers.core.source import Source, suffix_of

NAMES = re.compile(
    r"\.(tfrecords?|tfrec|records?)(-\d+-of-\d+)?(\.gz|\.zlib)?$|-\d{5}-of-\d{5}(\.gz)?$", re.IGNORECASE
)
"""Endings of file names; the first checksum then shows whether a file has records."""

DAMAGE = (EOFError, OSError, zlib.error, LakebedError)
"""Errors of reading a damaged file."""

_BESIDE = (".json", ".txt", ".pbtxt", ".md", ".csv", ".tsv", ".yaml", ".yml", ".idx", ".index")

# Bytes of a local file that a worker reads at a time; other files are read as a whole.
_ITEM_BYTES = 32 << 20
_MAX_RECORD_BYTES = 1 << 30
_MAX_RATIO = 1100  # limit of decompressed bytes per byte; zlib never reaches it
_HEAD = 12
_TAIL = 4
_BLOCK_BYTES = 1 << 20


def files_of(source: Source) -> list[str]:
    """Return the names of record files."""
    return [name for name in source.files if NAMES.search(name) and suffix_of(name) not in _BESIDE]


def only_files(source: Source) -> bool:
    """Return whether a source has record files, files that usually accompany them, and no others."""
    others = [name for name in source.files if not NAMES.search(name) and suffix_of(name) not in _BESIDE]
    return not others and bool(files_of(source))


def items_of(source: Source, name: str) -> tuple[list[Stretch], int | None]:
    """Return the parts of a file that workers process, and its number of records if known."""
    path = source.path(name)
    if path is None or not source.files[name]:
        return [Stretch(name, 0, None)], None if path is None else 0
    with open(path, "rb") as file:  # noqa: PTH123 - it is mapped
        if _packing(file.read(_HEAD)):
            return [Stretch(name, 0, None)], None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            starts, count = _starts(whole)
    return [
        Stretch(name, first, last) for first, last in zip(starts, [*starts[1:], None], strict=True)
    ], count


def _starts(whole: mmap.mmap) -> tuple[list[int], int]:
    """Return the first byte of each item, and the number of records before the first damaged length."""
    starts, count, at = [0], 0, 0
    while at + _HEAD + _TAIL <= len(whole):
        head = whole[at : at + _HEAD]
        end = at + _HEAD + int.from_bytes(head[:8], "little") + _TAIL
        if end > len(whole) or not _is_head(head):
            break
        if at >= starts[-1] + _ITEM_BYTES:
            starts.append(at)
        count += 1
        at = end
    return starts, count


def masked_crc32c(data: bytes) -> int:
    """Return the CRC-32C of bytes, rotated and shifted, as TFRecord and LevelDB store it."""
    import google_crc32c

    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _is_head(head: bytes) -> bool:
    return masked_crc32c(head[:8]) == int.from_bytes(head[8:], "little")


def _packing(head: bytes) -> str:
    """Return the compression of a file by its first 12 bytes: ``gzip``, ``zlib`` or none."""
    if len(head) == _HEAD and _is_head(head):
        return ""
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    return "zlib" if head[:1] == b"\x78" and int.from_bytes(head[:2], "big") % 31 == 0 else ""


class _Zlib(io.RawIOBase):
    """An unpacking reader of a zlib stream."""

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
    """Open a file; return it with the maximum size to which it can unpack, and whether it is compressed."""
    with ExitStack() as stack:
        file: Any = stack.enter_context(source.open(name))
        packing = _packing(file.read(_HEAD))
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
    """Yield the position and the data of records, or an error in place of damaged data.

    Raises
    ------
    IngestionError
        If damage hides where the next record starts.
    """
    with _opened(source, name) as (file, size, is_packed):
        at = start
        if start and not is_packed:
            file.seek(start)
        while stop is None or at < stop:
            head = file.read(_HEAD)
            if not head:
                return
            if len(head) < _HEAD:
                raise IngestionError(f"the file ends inside the head of the record at byte {at:,}")
            if not _is_head(head):
                raise IngestionError(f"the length of the record at byte {at:,} does not match its checksum")
            length = int.from_bytes(head[:8], "little")
            if length > min(_MAX_RECORD_BYTES, size):
                raise IngestionError(
                    f"the record at byte {at:,} claims {length:,} bytes, which is impossible"
                )
            data = file.read(length)
            tail = file.read(_TAIL)
            if len(data) < length or len(tail) < _TAIL:
                raise IngestionError(f"the file ends inside the record at byte {at:,}")
            if masked_crc32c(data) != int.from_bytes(tail, "little"):
                error = "the record does not match its checksum: some of its bytes are damaged"
                yield at, IngestionError(error)
            else:
                yield at, data
            at += _HEAD + length + _TAIL
