"""The layout of a cache file: blocks of one object, or of a part of a large one, in the order of their arrival.

    bytes     content
    8         magic "LBCACHE1"
    16        name of the object, see `name_of`
    8         u64 size of the object in bytes; 2^64 - 1 = unknown
    8         u64 xxh3-64 of the 32 bytes before
    24        zero
    252 x 16  table: u64 xxh3-64 of the block's bytes, u32 offset in this file, u32 length; length 0 = missing
    ...       blocks

Block n of an object begins at its byte n x 262,144; manifests hold checksums of the same blocks. The file may hold only
the beginning of a block. The checksum is seeded with the name of the file, the place and the length, so that neither a
torn block nor one of another file passes. All integers are little-endian.
"""

from __future__ import annotations

import hashlib
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import xxhash

if TYPE_CHECKING:
    from lakebed.storage.base import Buffer

BLOCK = 1 << 18
BLOCKS = 252
"""Number of blocks in one file."""
HEAD = 4096
UNKNOWN = (1 << 64) - 1

_MAGIC = b"LBCACHE1"
_START = struct.Struct("<8s16sQQ")
_ENTRY = struct.Struct("<QII")
_TABLE = HEAD - BLOCKS * _ENTRY.size


class Entry(NamedTuple):
    """Position of a block in its file, and its checksum."""

    sum: int
    at: int
    length: int


@lru_cache(4096)
def name_of(place: str, key: str, identity: str, part: int) -> bytes:
    """Return the name of a file: 16 bytes that cannot be made to collide with the name of another object's file.

    Parameters
    ----------
    place
        Address of the storage and of its server.
    identity
        Identity of the object among all objects that ever had this key; empty if readers compare checksums.
    part
        Number of the file, if a large object has several files of `BLOCKS` blocks.
    """
    text = "\0".join((place, key, identity, str(part)))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def start_of(name: bytes, size: int) -> bytes:
    """Return the beginning of a file, up to its table."""
    data = _START.pack(_MAGIC, name, size, 0)[:-8]
    return data + xxhash.xxh3_64_intdigest(data).to_bytes(8, "little")


def size_in(head: bytes, name: bytes) -> int | None:
    """Return the size of the object, or `UNKNOWN`, from a file's head; None if the head is of another file."""
    if len(head) != HEAD:
        return None
    magic, found, size, checksum = _START.unpack_from(head)
    if magic != _MAGIC or found != name or checksum != xxhash.xxh3_64_intdigest(head[: _START.size - 8]):
        return None
    return int(size)


def entries_in(head: bytes, first: int, last: int) -> list[Entry]:
    """Return the table's entries of the blocks `first` to `last`, counted within the file."""
    table = memoryview(head)[_TABLE + first * _ENTRY.size : _TABLE + (last + 1) * _ENTRY.size]
    return [Entry._make(fields) for fields in _ENTRY.iter_unpack(table)]


def entry_at(block: int, entry: Entry) -> tuple[int, bytes]:
    """Return the offset of an entry in its file, and its bytes."""
    return _TABLE + block * _ENTRY.size, _ENTRY.pack(entry.sum, entry.at, entry.length)


def sum_of(data: Buffer, name: bytes, block: int) -> int:
    """Return the checksum of a block, counted within its file."""
    seed = int.from_bytes(name[:8], "little") ^ (block << 32 | len(data))
    return xxhash.xxh3_64_intdigest(data, seed)
