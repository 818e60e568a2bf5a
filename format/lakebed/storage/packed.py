"""A dataset in one file, read-only: a ZIP archive whose members are the uncompressed objects.

The file begins with the chunks, each on a boundary of its own (see :func:`alignment`), and ends with all other objects
and the directory, so that two reads from the end open a dataset. The archive's comment tells where the other objects
begin. Archives of other programs are read, too, if their members are not compressed; the place of each member then
costs one read.

The layout of ZIP archives is that of PKWARE's APPNOTE 6.3.10, sections 4.3.7, 4.3.12 and 4.3.16.
"""

# Paths are strings throughout this package.
# ruff: noqa: PTH111
from __future__ import annotations

import os
import re
import stat as stat_module
import struct
import weakref
import zipfile
import zlib
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from lakebed.errors import (
    CorruptError,
    InvalidInputError,
    InvalidKeyError,
    KeyNotFound,
    StorageReadOnlyError,
)
from lakebed.errors.stores import storage_error
from lakebed.native import disk as native
from lakebed.storage.base import (
    Stat,
    Storage,
    StorageTraits,
    Tail,
    check_key,
    check_spans,
    is_viewed,
    place_of,
)
from lakebed.storage.files.disk import read_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakebed.storage.base import Data
    from lakebed.storage.stores.traffic import Traffic

COMMENT = "lakebed 1 {begin:020d}"
"""Comment of lakebed's archives: offset of the first object that is not a chunk."""

FIXED_HEADER = 30
"""Size of a member's own header before its name, in bytes."""

# Members of at least _LARGE bytes begin on a page; smaller members begin at a multiple of _SMALL_ALIGNMENT, which
# suits numbers of any type.
_PAGE = 4096
_LARGE = 65_536
_SMALL_ALIGNMENT = 64
# Size of an extra field without content.
_LEAST_PADDING = 4
# The offset of the content is computed for members below this size; for others it is read from their own header, which
# has an additional field.
_FOUND_BY_RULE = 1 << 30

_LOCAL_HEADER = struct.Struct("<4s22xHH")
_COMMENT = re.compile(rb"lakebed 1 ([0-9]{20})\Z")
# Size of the first read; opens most datasets in one request.
_TAIL = 131_072
# Size in bytes of the largest part without chunks that is kept in memory.
_MOST_KEPT = 64 << 20
_LARGEST_DIRECTORY = 1 << 30
_CHUNK = re.compile(r"(?:.*/)?chunks/[0-9a-f]{1,16}")


def is_chunk(key: str) -> bool:
    """Tell whether a key is that of a chunk."""
    return _CHUNK.fullmatch(key) is not None


def alignment(size: int) -> int:
    """Return the alignment of a chunk by its size."""
    return _PAGE if size >= _LARGE else _SMALL_ALIGNMENT


def padding(base: int, size: int) -> int:
    """Return the bytes of padding before a chunk, which are an extra field of its header.

    Parameters
    ----------
    base
        Offset of the chunk without padding.
    size
        Bytes of the chunk.
    """
    step = alignment(size)
    missing = -base % step
    return missing + step if 0 < missing < _LEAST_PADDING else missing


class _OpenFile:
    """A local file as the only object of a storage; it stays the same file if another file takes its name."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise storage_error(error, "open", path) from error
        self._close = weakref.finalize(self, os.close, self._fd)
        found = os.fstat(self._fd)
        if not stat_module.S_ISREG(found.st_mode):
            raise InvalidInputError(f"{path} is not a regular file")
        self._stat = Stat(found.st_size, f"{found.st_ino:x}-{found.st_mtime_ns:x}", found.st_mtime_ns)

    def get_range(self, _: str, start: int, length: int) -> bytes:
        """Read a range."""
        return read_at(self._fd, start, length, self.path)

    def get_ranges(self, _: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several ranges."""
        return [read_at(self._fd, start, length, self.path) for start, length in spans]

    def get_tail(self, key: str, length: int) -> Tail:
        """Read the end."""
        length = min(length, self._stat.size)
        return Tail(self.get_range(key, self._stat.size - length, length), self._stat)

    def map_range(self, start: int, length: int) -> memoryview:
        """Map a range into memory."""
        try:
            return native.mapped(self._fd, start, length)
        except OSError as error:
            raise storage_error(error, "map", self.path) from error


class _Window:
    """The archive as a file for the ``zipfile`` module: its end is in memory, other parts are read by ranges."""

    def __init__(self, outer: Storage | _OpenFile, key: str, url: str) -> None:
        self._read, self._url = partial(outer.get_range, key), url
        tail = outer.get_tail(key, _TAIL)
        self.stat, self.data = tail.stat, tail.data
        self.begin = tail.stat.size - len(tail.data)
        self._at = 0
        told = _COMMENT.search(tail.data[-64:])
        self.documents = int(told[1]) if told else None
        """Offset of the objects that are not chunks; None in archives of other programs."""
        if self.documents is not None and self.stat.size - _MOST_KEPT < self.documents < self.begin:
            self.data = self._read(self.documents, self.begin - self.documents) + self.data
            self.begin = self.documents

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        at = offset + (0 if whence == os.SEEK_SET else self._at if whence == os.SEEK_CUR else self.stat.size)
        if at < 0:
            raise OSError("a seek to before the beginning")
        self._at = at
        return at

    def tell(self) -> int:
        return self._at

    def read(self, length: int = -1) -> bytes:
        left = max(0, self.stat.size - self._at)
        length = left if length < 0 else min(length, left)
        if length > _LARGEST_DIRECTORY:
            raise CorruptError(
                f"the directory of {self._url} has {length:,} bytes, which is too many",
                dataset=self._url,
            )
        found = self.peek(self._at, length)
        data = self._read(self._at, length) if found is None else bytes(found)
        self._at += length
        return data

    def peek(self, start: int, length: int) -> memoryview | None:
        """Return bytes from memory; None if they are not in memory."""
        first = start - self.begin
        return memoryview(self.data)[first : first + length] if first >= 0 else None


class PackedStorage(Storage):
    """The objects of one archive; safe to use from several threads and after a fork.

    Parameters
    ----------
    file
        Path of a file of this machine, or the storage and the key of an object.

    Raises
    ------
    KeyNotFound
        If the file does not exist.
    CorruptError
        If the file is not a ZIP archive, or its members contradict each other.
    InvalidInputError
        If its members are compressed or encrypted.
    """

    url: str = ""
    """Address of the file."""

    def __init__(self, file: str | tuple[Storage, str]) -> None:
        self._source = file
        self._outer: Storage | _OpenFile
        if isinstance(file, str):
            self.url = os.path.realpath(os.path.expanduser(file))
            self.place = self.url
            self._outer, self._key = _OpenFile(self.url), ""
        else:
            outer, self._key = file
            self._outer = outer
            self.url = f"{outer.url}/{self._key}"
            self.place = place_of(outer).replace(outer.url, self.url, 1)
            traffic = getattr(outer, "traffic", None)
            if traffic is not None:
                self.traffic: Traffic = traffic
        self._window = _Window(self._outer, self._key, self.url)
        self._members = _members(self._window, self.url)
        self._starts: dict[str, int] = {}
        is_local = isinstance(self._outer, _OpenFile)
        views = not isinstance(self._outer, _OpenFile) and is_viewed(self._outer)
        self.traits = StorageTraits(
            local=is_local, conditional=False, read_only=True, mappable=is_local, views=views
        )

    def __repr__(self) -> str:
        return f"PackedStorage({self.url!r})"

    def __reduce__(self) -> tuple[type[PackedStorage], tuple[str | tuple[Storage, str]]]:
        return PackedStorage, (self.url if isinstance(self._source, str) else self._source,)

    # -- reading ---------------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes:
        """Read a whole object."""
        member = self._member(key)
        start = self._start(member)
        kept = self._window.peek(start, member.file_size)
        data = self._outer.get_range(self._key, start, member.file_size) if kept is None else bytes(kept)
        # Do not check chunks here: their readers compare them with the checksums in the manifest.
        if (self._window.documents is None or not is_chunk(key)) and zlib.crc32(data) != member.CRC:
            raise CorruptError(
                f"{key!r} in {self.url} is damaged: its checksum is wrong; fetch or pack the file again",
                dataset=self.url,
            )
        return data

    def view(self, key: str) -> memoryview:
        """Read a whole object, as `get` does."""
        member = self._member(key)
        if self._window.documents is None or not is_chunk(key):
            return memoryview(self.get(key))
        return self.view_range(key, 0, member.file_size)

    def view_range(self, key: str, start: int, length: int) -> memoryview:
        """Read exactly `length` bytes from offset `start`, as `get_range` does."""
        outer = self._outer
        if not isinstance(outer, _OpenFile) and is_viewed(outer):
            first = self._first_of(key, ((start, length),))
            kept = self._window.peek(first + start, length)
            return outer.view_range(self._key, first + start, length) if kept is None else kept
        return memoryview(self.get_range(key, start, length))

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (start, length) ranges of one object, in the given order."""
        first = self._first_of(key, spans)
        places = [(first + start, length) for start, length in spans]
        kept = [self._window.peek(*place) for place in places]
        if all(part is not None for part in kept):
            return [bytes(part) for part in kept if part is not None]
        return self._outer.get_ranges(self._key, places)

    def get_tail(self, key: str, length: int) -> Tail:
        """Read the last `length` bytes of an object, or the whole object if it is shorter."""
        check_spans(key, ((0, length),))
        stat = self._stat(self._member(key))
        if length >= stat.size:
            return Tail(self.get(key), stat)
        return Tail(self.get_range(key, stat.size - length, length), stat)

    def map(self, key: str) -> memoryview:
        """Map a whole object into memory: pages are read when they are touched, writes stay private."""
        member = self._member(key)
        if isinstance(self._outer, _OpenFile):
            return self._outer.map_range(self._start(member), member.file_size)
        return memoryview(bytearray(self.get(key)))

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """Iterate over the objects whose keys start with `prefix`."""
        for key, member in self._members.items():
            if key.startswith(prefix):
                yield key, self._stat(member)

    def stat(self, key: str) -> Stat | None:
        """Return size and etag of an object, None if it does not exist."""
        member = self._members.get(check_key(key))
        return None if member is None else self._stat(member)

    def _member(self, key: str) -> zipfile.ZipInfo:
        try:
            return self._members[check_key(key)]
        except KeyError:
            raise KeyNotFound(f"{key!r} does not exist in {self.url}") from None

    def _stat(self, member: zipfile.ZipInfo) -> Stat:
        file = self._window.stat
        return Stat(member.file_size, f"{file.etag}-{member.header_offset:x}-{member.CRC:08x}", file.modified)

    def _first_of(self, key: str, spans: Sequence[tuple[int, int]]) -> int:
        """Return the offset of an object after checking that the ranges lie within it."""
        member = self._member(key)
        check_spans(key, spans, member.file_size, self.url)
        return self._start(member)

    def _start(self, member: zipfile.ZipInfo) -> int:
        """Return the offset of a member's content, after its own header."""
        begin, size = member.header_offset, member.file_size
        base = begin + FIXED_HEADER + len(member.filename.encode())
        documents = self._window.documents
        if documents is not None and size < _FOUND_BY_RULE:
            return base if begin >= documents else base + padding(base, size)
        start = self._starts.get(member.filename)
        if start is None:
            start = self._starts[member.filename] = begin + self._header_size(begin)
            if start + size > self._window.stat.size:
                raise self._damaged(f"{member.filename!r} extends beyond its end")
        return start

    def _header_size(self, begin: int) -> int:
        data = self._outer.get_range(self._key, begin, _LOCAL_HEADER.size)
        signature, name, extra = _LOCAL_HEADER.unpack(data)
        if signature != b"PK\3\4":
            raise self._damaged(f"no member begins at byte {begin}")
        return FIXED_HEADER + int(name) + int(extra)

    def _damaged(self, why: str) -> CorruptError:
        return CorruptError(f"{self.url} is damaged: {why}; fetch or pack it again", dataset=self.url)

    # -- writing is refused ----------------------------------------------------------------------------------

    def _refuse(self, doing: str) -> NoReturn:
        raise StorageReadOnlyError(
            f"cannot {doing}: {self.url} is a packed dataset, which is read-only. Unpack it and change the result: "
            f"lakebed.unpack({self.url!r}, DEST), or `lakebed unpack`. To remove it, remove the file"
        )

    def put(self, key: str, data: Data) -> str:  # noqa: ARG002
        """Refuse to write, because packed datasets are read-only."""
        self._refuse(f"write {key!r}")

    def put_if(self, key: str, data: Data, etag: str | None) -> str:  # noqa: ARG002
        """Refuse to write, because packed datasets are read-only."""
        self._refuse(f"write {key!r}")

    def delete(self, key: str) -> None:
        """Refuse to delete, because packed datasets are read-only."""
        self._refuse(f"remove {key!r}")


def _members(window: _Window, url: str) -> dict[str, zipfile.ZipInfo]:
    """Read the directory of an archive; refuse members that cannot be read in place or contradict each other."""
    try:
        with zipfile.ZipFile(window) as archive:
            infos = archive.infolist()
    except CorruptError:
        raise
    except (zipfile.BadZipFile, struct.error, UnicodeDecodeError, NotImplementedError, OSError) as error:
        raise CorruptError(
            f"{url} is not a packed dataset, or truncated: {error}; fetch or pack it again", dataset=url
        ) from error
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        if info.is_dir():
            continue
        try:
            check_key(info.filename)
        except InvalidKeyError as error:
            raise CorruptError(f"{url} is not a packed dataset: {error}", dataset=url) from error
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise InvalidInputError(
                f"{info.filename!r} in {url} is compressed or encrypted, so it cannot be read in place: unzip the "
                "archive and open the folder, or pack the folder with lakebed.pack"
            )
        end = info.header_offset + FIXED_HEADER + info.file_size
        if info.compress_size != info.file_size or end > window.stat.size:
            raise CorruptError(
                f"{url} is damaged or truncated: {info.filename!r} extends beyond its end; fetch or pack it again",
                dataset=url,
            )
        if info.filename in members:
            raise CorruptError(f"{url} holds {info.filename!r} twice", dataset=url)
        info.extra = b""
        members[info.filename] = info
    begins = min((info.header_offset for info in infos if not is_chunk(info.filename)), default=None)
    if window.documents is not None and begins is not None and begins != window.documents:
        raise CorruptError(
            f"{url} is damaged: bytes are missing, or were added, at its beginning", dataset=url
        )
    return members
