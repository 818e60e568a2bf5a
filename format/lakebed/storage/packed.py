"""A dataset in one file: a ZIP archive whose members are the objects, as they are, for reading.

The file begins with the chunks, each on a boundary of its own (see :func:`alignment`), and ends with all other objects
and the directory, so that two reads from the end open a dataset. The archive's comment tells where the other objects
begin. Archives that other programs made are read, too, as long as they store their members without compression; the
place of a member costs a read of its own then, once.

The layout of ZIP archives is that of PKWARE's APPNOTE 6.3.10, sections 4.3.7, 4.3.12 and 4.3.16.
"""

# Paths are strings throughout this package.
# ruff: noqa: PTH111
from __future__ import annotations

import mmap
import os
import re
import stat as stat_module
import struct
import weakref
import zipfile
import zlib
from typing import TYPE_CHECKING, NoReturn, Protocol

from lakebed.errors import (
    CorruptError,
    InvalidInputError,
    InvalidKeyError,
    KeyNotFound,
    StorageReadOnlyError,
    TruncatedReadError,
)
from lakebed.errors.stores import storage_error
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakebed.storage.base import Data
    from lakebed.storage.stores.traffic import Traffic

COMMENT = "lakebed 1 {begin:020d}"
"""Comment of archives of ours: where the first object that is no chunk begins, in bytes."""

FIXED_HEADER = 30
"""Bytes of a member's own header before its name."""

# Members of this size and more begin on a page; that of others keeps numbers of any type on their boundaries.
_PAGE = 4096
_LARGE = 65_536
_SMALL_ALIGNMENT = 64
# An extra field without content.
_LEAST_PADDING = 4
# Larger members have a field more in their own header: it is read.
_FOUND_BY_RULE = 1 << 30

_LOCAL_HEADER = struct.Struct("<4s22xHH")
_COMMENT = re.compile(rb"lakebed 1 ([0-9]{20})\Z")
# What is read to begin with: enough to open a dataset of a few hundred versions or tensors by one request.
_TAIL = 131_072
# What is not chunks stays in memory up to this size.
_MOST_KEPT = 64 << 20
_LARGEST_DIRECTORY = 1 << 30
_CHUNK = re.compile(r"(?:.*/)?chunks/[0-9a-f]{1,16}")


def is_chunk(key: str) -> bool:
    """Whether an object is a chunk by its name."""
    return _CHUNK.fullmatch(key) is not None


def alignment(size: int) -> int:
    """Return what the offset of a chunk of some size is a multiple of."""
    return _PAGE if size >= _LARGE else _SMALL_ALIGNMENT


def padding(base: int, size: int) -> int:
    """Return how many bytes of padding stand before a chunk, as an extra field of its header.

    Parameters
    ----------
    base
        Where it would begin without.
    size
        Its bytes.
    """
    step = alignment(size)
    missing = -base % step
    return missing + step if 0 < missing < _LEAST_PADDING else missing


class _File(Protocol):
    """The file that a dataset is packed in."""

    url: str
    place: str

    def tail(self, length: int) -> Tail: ...

    def read(self, start: int, length: int) -> bytes: ...

    def read_all(self, spans: Sequence[tuple[int, int]]) -> list[bytes]: ...


class _LocalFile:
    """A file of this machine; it stays the same file if another takes its name."""

    def __init__(self, path: str) -> None:
        self.url = self.place = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise storage_error(error, "open", path) from error
        self._close = weakref.finalize(self, os.close, self._fd)
        found = os.fstat(self._fd)
        if not stat_module.S_ISREG(found.st_mode):
            raise InvalidInputError(f"{path} is no regular file")
        self._stat = Stat(found.st_size, f"{found.st_ino:x}-{found.st_mtime_ns:x}", found.st_mtime_ns)

    def tail(self, length: int) -> Tail:
        length = min(length, self._stat.size)
        return Tail(self.read(self._stat.size - length, length), self._stat)

    def read(self, start: int, length: int) -> bytes:
        parts: list[bytes] = []
        done = 0
        while done < length:
            try:
                part = os.pread(self._fd, length - done, start + done)
            except OSError as error:
                raise storage_error(error, "read", self.url) from error
            if not part:
                raise TruncatedReadError(f"{self.url} ended at byte {start + done} while it was read")
            parts.append(part)
            done += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_all(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self.read(start, length) for start, length in spans]

    def map(self, start: int, length: int) -> memoryview:
        if not length:
            return memoryview(bytearray())
        before = start % mmap.ALLOCATIONGRANULARITY
        try:
            pages = mmap.mmap(self._fd, before + length, access=mmap.ACCESS_COPY, offset=start - before)
        except (OSError, ValueError) as error:
            why = error if isinstance(error, OSError) else OSError(str(error))
            raise storage_error(why, "map", self.url) from error
        return memoryview(pages)[before:]


class _RemoteFile:
    """An object of a store."""

    def __init__(self, storage: Storage, key: str) -> None:
        self.storage, self.key = storage, key
        self.url = f"{storage.url}/{key}"
        self.place = place_of(storage).replace(storage.url, self.url, 1)

    def tail(self, length: int) -> Tail:
        return self.storage.get_tail(self.key, length)

    def read(self, start: int, length: int) -> bytes:
        return self.storage.get_range(self.key, start, length)

    def read_all(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        return self.storage.get_ranges(self.key, spans)


class _Window:
    """The archive as the ``zipfile`` module reads it: what is in memory from there, the rest by ranges."""

    def __init__(self, file: _File) -> None:
        self._file = file
        tail = file.tail(_TAIL)
        self.stat, self.data = tail.stat, tail.data
        self.begin = tail.stat.size - len(tail.data)
        self._at = 0
        told = _COMMENT.search(tail.data[-64:])
        self.documents = int(told[1]) if told else None
        """Where the objects begin that are no chunks; None in archives of other programs."""
        if self.documents is not None and self.stat.size - _MOST_KEPT < self.documents < self.begin:
            self.data = file.read(self.documents, self.begin - self.documents) + self.data
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
                f"the directory of {self._file.url} has {length:,} bytes, which is beyond all reason",
                dataset=self._file.url,
            )
        found = self.peek(self._at, length)
        data = self._file.read(self._at, length) if found is None else bytes(found)
        self._at += length
        return data

    def peek(self, start: int, length: int) -> memoryview | None:
        """Return bytes that are in memory; None if they are not."""
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
        If there is no such file.
    CorruptError
        If it is no ZIP archive, or one whose members contradict each other.
    InvalidInputError
        If its members are compressed or encrypted.
    """

    def __init__(self, file: str | tuple[Storage, str]) -> None:
        self._source = file
        self._file: _LocalFile | _RemoteFile
        if isinstance(file, str):
            self._file = _LocalFile(os.path.realpath(os.path.expanduser(file)))
        else:
            self._file = _RemoteFile(*file)
            traffic = getattr(file[0], "traffic", None)
            if traffic is not None:
                self.traffic: Traffic = traffic
        self._window = _Window(self._file)
        self._members = _members(self._window, self.url)
        self._starts: dict[str, int] = {}
        remote = self._file if isinstance(self._file, _RemoteFile) else None
        self.traits = StorageTraits(
            local=remote is None,
            conditional=False,
            read_only=True,
            mappable=remote is None,
            views=remote is not None and is_viewed(remote.storage),
        )

    @property
    def url(self) -> str:
        """Address of the file."""
        return self._file.url

    @property
    def place(self) -> str:
        """The url, and the server's address."""
        return self._file.place

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
        data = self._file.read(start, member.file_size) if kept is None else bytes(kept)
        # Manifests hold checksums of chunks, which readers compare themselves.
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
        file = self._file
        if isinstance(file, _RemoteFile) and is_viewed(file.storage):
            first = self._first_of(key, ((start, length),))
            kept = self._window.peek(first + start, length)
            return file.storage.view_range(file.key, first + start, length) if kept is None else kept
        return memoryview(self.get_range(key, start, length))

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (start, length) ranges of one object, in the order given."""
        first = self._first_of(key, spans)
        places = [(first + start, length) for start, length in spans]
        kept = [self._window.peek(*place) for place in places]
        if all(part is not None for part in kept):
            return [bytes(part) for part in kept if part is not None]
        return self._file.read_all(places)

    def get_tail(self, key: str, length: int) -> Tail:
        """Read the last `length` bytes of an object, or all of it if it is shorter."""
        check_spans(key, ((0, length),))
        stat = self._stat(self._member(key))
        if length >= stat.size:
            return Tail(self.get(key), stat)
        return Tail(self.get_range(key, stat.size - length, length), stat)

    def map(self, key: str) -> memoryview:
        """Map a whole object into memory: its pages are read when they are touched, and writes to them stay private."""
        member = self._member(key)
        if isinstance(self._file, _LocalFile):
            return self._file.map(self._start(member), member.file_size)
        return memoryview(bytearray(self.get(key)))

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """Iterate over the objects whose keys start with `prefix`."""
        for key, member in self._members.items():
            if key.startswith(prefix):
                yield key, self._stat(member)

    def stat(self, key: str) -> Stat | None:
        """Size and etag of an object, None if there is none."""
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
        """Return where an object begins, all of whose ranges are within it."""
        member = self._member(key)
        check_spans(key, spans, member.file_size, self.url)
        return self._start(member)

    def _start(self, member: zipfile.ZipInfo) -> int:
        """Return where the content of a member begins, behind its own header."""
        begin, size = member.header_offset, member.file_size
        base = begin + FIXED_HEADER + len(member.filename.encode())
        documents = self._window.documents
        if documents is not None and size < _FOUND_BY_RULE:
            return base if begin >= documents else base + padding(base, size)
        start = self._starts.get(member.filename)
        if start is None:
            start = self._starts[member.filename] = begin + self._header_size(begin)
            if start + size > self._window.stat.size:
                raise self._damaged(f"{member.filename!r} leads beyond its end")
        return start

    def _header_size(self, begin: int) -> int:
        data = self._file.read(begin, _LOCAL_HEADER.size)
        signature, name, extra = _LOCAL_HEADER.unpack(data)
        if signature != b"PK\3\4":
            raise self._damaged(f"no member begins at byte {begin}")
        return FIXED_HEADER + int(name) + int(extra)

    def _damaged(self, why: str) -> CorruptError:
        return CorruptError(f"{self.url} is damaged: {why}; fetch or pack it again", dataset=self.url)

    # -- writing: not here -----------------------------------------------------------------------------------

    def _refuse(self, doing: str) -> NoReturn:
        raise StorageReadOnlyError(
            f"cannot {doing}: {self.url} is a packed dataset, which is for reading only. Unpack it and change that: "
            f"lakebed.unpack({self.url!r}, DEST), or `lakebed unpack`. To remove it, remove the file"
        )

    def put(self, key: str, data: Data) -> str:  # noqa: ARG002
        """Refuse."""
        self._refuse(f"write {key!r}")

    def put_if(self, key: str, data: Data, etag: str | None) -> str:  # noqa: ARG002
        """Refuse."""
        self._refuse(f"write {key!r}")

    def delete(self, key: str) -> None:
        """Refuse."""
        self._refuse(f"remove {key!r}")

    def delete_prefix(self, prefix: str) -> None:
        """Refuse."""
        self._refuse(f"remove {prefix or 'everything'!r}")


def _members(window: _Window, url: str) -> dict[str, zipfile.ZipInfo]:
    """Read the directory of an archive, and refuse what cannot be read in place or contradicts itself."""
    try:
        with zipfile.ZipFile(window) as archive:
            infos = archive.infolist()
    except CorruptError:
        raise
    except (zipfile.BadZipFile, struct.error, UnicodeDecodeError, NotImplementedError, OSError) as error:
        raise CorruptError(
            f"{url} is no packed dataset, or cut short: {error}; fetch or pack it again", dataset=url
        ) from error
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        if info.is_dir():
            continue
        try:
            check_key(info.filename)
        except InvalidKeyError as error:
            raise CorruptError(f"{url} is no packed dataset: {error}", dataset=url) from error
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise InvalidInputError(
                f"{info.filename!r} in {url} is compressed or encrypted, so that it cannot be read in place: unzip the "
                "archive and open the folder, or pack that with lakebed.pack"
            )
        end = info.header_offset + FIXED_HEADER + info.file_size
        if info.compress_size != info.file_size or end > window.stat.size:
            raise CorruptError(
                f"{url} is damaged or cut short: {info.filename!r} leads beyond its end; fetch or pack it again",
                dataset=url,
            )
        if info.filename in members:
            raise CorruptError(f"{url} holds {info.filename!r} twice", dataset=url)
        info.extra = b""
        members[info.filename] = info
    begins = min((info.header_offset for info in infos if not is_chunk(info.filename)), default=None)
    if window.documents is not None and begins is not None and begins != window.documents:
        raise CorruptError(f"{url} is damaged: its beginning is cut off, or was added to", dataset=url)
    return members
