"""Storage that writes a packed dataset: chunks are written to the file at once, other objects after them."""

from __future__ import annotations

import threading
import zipfile
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from lakebed.storage.base import Stat, Storage, StorageTraits, Tail, check_spans, pieces
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.packed import COMMENT, FIXED_HEADER, is_chunk, padding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakebed.storage.base import Data

# A constant date makes archives of the same objects identical.
_NO_DATE = (1980, 1, 1, 0, 0, 0)
# Id of the extra field that programs use to align members.
_PADDING_ID = (0xD935).to_bytes(2, "little")


class PackWriter(Storage):
    """A store that writes all its objects into one file; thread-safe.

    Chunks are written at once; other objects stay in memory until :meth:`finish`.

    Parameters
    ----------
    file
        A new file, open for reading and writing at its beginning.
    url
        Future address of the file.
    """

    traits = StorageTraits(local=True)

    def __init__(self, file: IO[bytes], url: str) -> None:
        self._url = url
        self._file = file
        self._archive = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self._documents = MemoryStorage()
        self._chunks: dict[str, zipfile.ZipInfo] = {}
        self._starts: dict[int, int] = {}  # offset of a member's content -> offset of its header
        self._mutex = threading.Lock()

    @property
    def url(self) -> str:
        """Address of the file."""
        return self._url

    def finish(self) -> None:
        """Write the other objects and the directory, sorted, so that the ends of files of equal datasets are equal."""
        with self._mutex:
            begin = self._file.tell()
            for key, stat in sorted(self._documents.list(), key=lambda entry: entry[0]):
                self._append(key, (self._documents.get(key),), stat.size, aligned=False)
            self._archive.comment = COMMENT.format(begin=begin).encode()
            self._archive.close()

    def close(self) -> None:
        """Release the file, which is unusable without :meth:`finish`."""
        with self._mutex, suppress(OSError):
            self._archive.close()

    def _append(
        self, key: str, parts: Iterable[bytes | memoryview], size: int, *, aligned: bool
    ) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(key, _NO_DATE)
        info.file_size = size
        base = self._file.tell() + FIXED_HEADER + len(key.encode())
        missing = padding(base, size) if aligned else 0
        if missing:
            info.extra = _PADDING_ID + (missing - 4).to_bytes(2, "little") + bytes(missing - 4)
        with self._archive.open(info, "w") as member:
            for part in parts:
                member.write(part)
        self._starts[info.header_offset] = self._file.tell() - size
        info.extra = b""  # the padding is only in the member's own header, not in the directory
        return info

    def put(self, key: str, data: Data) -> str:
        """Write an object, replacing an existing one, and return its etag."""
        if not is_chunk(key):
            return self._documents.put(key, data)
        parts = pieces(data)
        with self._mutex:
            self._drop(key)
            self._chunks[key] = self._append(key, parts, sum(part.nbytes for part in parts), aligned=True)
            return _etag(self._chunks[key])

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        """Write a document only if the present document has this etag."""
        return self._documents.put_if(key, data, etag)

    def delete(self, key: str) -> None:
        """Remove an object; the bytes of a chunk stay in the file without a name."""
        if not is_chunk(key):
            self._documents.delete(key)
        with self._mutex:
            self._drop(key)

    def _drop(self, key: str) -> None:
        info = self._chunks.pop(key, None)
        if info is not None:
            self._archive.infolist().remove(info)
            del self._archive.NameToInfo[key]

    def stat(self, key: str) -> Stat | None:
        """Return size and etag of an object, None if it does not exist."""
        info = self._chunks.get(key)
        return self._documents.stat(key) if info is None else Stat(info.file_size, _etag(info))

    def get(self, key: str) -> bytes:
        """Read a whole object."""
        info = self._chunks.get(key)
        return self._documents.get(key) if info is None else self._read(info, 0, info.file_size)

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (start, length) ranges of one object, in the given order."""
        info = self._chunks.get(key)
        if info is None:
            return self._documents.get_ranges(key, spans)
        check_spans(key, spans, info.file_size, self.url)
        return [self._read(info, start, length) for start, length in spans]

    def get_tail(self, key: str, length: int) -> Tail:
        """Read the last `length` bytes of an object, or the whole object if it is shorter."""
        info = self._chunks.get(key)
        if info is None:
            return self._documents.get_tail(key, length)
        length = min(length, info.file_size)
        return Tail(self._read(info, info.file_size - length, length), Stat(info.file_size, _etag(info)))

    def _read(self, info: zipfile.ZipInfo, start: int, length: int) -> bytes:
        with self._mutex:
            end = self._file.tell()
            self._file.seek(self._starts[info.header_offset] + start)
            data = self._file.read(length)
            self._file.seek(end)
        return data

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """Iterate over the objects whose keys start with `prefix`."""
        with self._mutex:
            chunks = [(key, info) for key, info in self._chunks.items() if key.startswith(prefix)]
        yield from self._documents.list(prefix)
        for key, info in chunks:
            yield key, Stat(info.file_size, _etag(info))


def _etag(info: zipfile.ZipInfo) -> str:
    return f"{info.header_offset:x}"
