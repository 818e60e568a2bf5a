"""A storage that caches chunks and manifests of a remote storage on this machine's disk.

Contents
    Chunk files and manifests, which no writer changes once others can see them, except Deep Lake 3.9.52, which rewrites
    chunks of an uncommitted head in place. Never the version file, locks or refs, and never data that is written
    through this storage.

Identity
    Chunk ids are random, but a dataset may be deleted and created again at the same address from the same source, and
    other programs keep no promises. So objects are cached under the address of the server, the key, and the size and
    etag that the origin returns when it is asked, once per object and storage. Readers that know checksums use
    `trusted`, which does not ask, and `forget` objects that turn out to be wrong. Readers of objects that may change
    use `origin`.

Blocks
    Objects are cached in blocks of 256 KiB from their beginning: reads are extended to whole blocks as far as the size
    of the object is known, and always to the beginning of the first block. Threads that want the same block wait for
    one download, without holding a lock. Failures of the cache are no errors of a read.
"""

# Paths are strings throughout this package.
# ruff: noqa: PTH100, PTH111
from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakebed.storage.base import Storage, check_key, check_spans, place_of, traits_of
from lakebed.storage.cache.files import CacheFiles, Item
from lakebed.storage.cache.layout import BLOCK
from lakebed.storage.cache.singleflight import SingleFlight
from lakebed.storage.files import orphan_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lakebed.storage.base import Buffer, Data, Stat, Tail

_KEPT = re.compile(r"(?:.*/)?(?:chunks/[0-9a-f]{1,16}|\.lakebed/(?:manifest-|pages/)[^/]+)")
# Maximum number of objects whose identity is remembered.
_REMEMBERED = 65_536
# Values that mean that the server has no etags.
_NO_ETAG = frozenset(("", "None"))
_WHOLE = -1

_downloads = SingleFlight()


def is_kept(key: str) -> bool:
    """Tell whether objects of this name never change."""
    return _KEPT.fullmatch(key) is not None


def cached(origin: Storage, bound: int) -> Storage:
    """Return a remote storage with the cache of this user on this machine.

    Parameters
    ----------
    bound
        Bytes that the cache of all storages may take; a larger bound of another process has priority.
    """
    return CachedStorage(origin, CacheFiles(folder(), bound))


def folder() -> str:
    """Return the folder of the cache: `LAKEBED_CACHE_DIR`, or one in the user's folder for caches."""
    given = os.environ.get("LAKEBED_CACHE_DIR")
    if given:
        return os.path.abspath(os.path.expanduser(given))
    usual = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    return f"{os.path.expanduser(os.environ.get('XDG_CACHE_HOME') or usual)}/lakebed/blocks"


class CachedStorage(Storage):
    """A remote storage with a cache; safe to use from several threads and after a fork.

    Parameters
    ----------
    origin
        The remote storage.
    files
        Files of the cache.
    place
        Name that identifies the storage among all storages; `storage.base.place_of` if not given.
    asks
        Whether to ask the origin if an object was replaced.
    kept
        Tells whether objects of a key are cached.
    """

    def __init__(
        self,
        origin: Storage,
        files: CacheFiles,
        place: str | None = None,
        *,
        asks: bool = True,
        kept: Callable[[str], bool] = is_kept,
    ) -> None:
        self.origin = origin
        self.inner = origin
        self.traits = traits_of(origin).of_wrapper(bulk_delete=True, cache=True)
        self._files = files
        self._place = place
        self._asks = asks
        self._is_kept = kept
        self._known: dict[str, Stat] = {}
        # Number of calls of `forget`; answers of the origin from before the last call are not remembered.
        self._forgotten = 0
        self._hits = 0
        self._trusted = CachedStorage(origin, files, place, asks=False, kept=kept) if asks else None

    @property
    def trusted(self) -> Storage:
        """The same objects without asking the origin, for readers that know checksums."""
        return self._trusted or self

    @property
    def hits(self) -> int:
        """Number of reads that the cache answered alone, including those of `trusted`."""
        return self._hits + (0 if self._trusted is None else self._trusted.hits)

    @property
    def url(self) -> str:
        """Address of the origin."""
        return self.origin.url

    @property
    def place(self) -> str:
        """Name that identifies the origin among all storages."""
        return place_of(self.origin)

    def __repr__(self) -> str:
        return f"CachedStorage({self.origin!r}, {self._files.folder!r})"

    def __reduce__(self) -> tuple[type[CachedStorage], tuple[Storage, CacheFiles, str | None]]:
        return CachedStorage, (self.origin, self._files, self._place)

    def forget(self, key: str) -> None:
        """Drop the copy of an object."""
        self._forgotten += 1
        stat = self._known.pop(key, None)
        if self._is_kept(key):
            self._files.drop(self._named(key))
            if stat is not None:
                self._files.drop(self._named(key, stat))

    # -- identity --------------------------------------------------------------------------------------------

    def _item(self, key: str) -> tuple[Item, int | None] | None:
        """Return the name of an object in the cache, and its size if known; None if it is not cached."""
        check_key(key)
        if not self._is_kept(key):
            return None
        if not self._asks:
            return self._named(key), None
        stat = self._known.get(key) or self.stat(key)
        if stat is None or stat.etag in _NO_ETAG:
            return None
        return self._named(key, stat), stat.size

    def _named(self, key: str, stat: Stat | None = None) -> Item:
        if self._place is None:
            self._place = place_of(self.origin)
        return Item(self._place, key, "" if stat is None else f"{stat.etag}/{stat.size}")

    def stat(self, key: str) -> Stat | None:
        """Return size and etag of an object, None if it does not exist."""
        before = self._forgotten
        stat = self.origin.stat(key)
        if stat is None:
            self._known.pop(key, None)
        elif self._asks and self._is_kept(key) and self._forgotten == before:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = stat
        return stat

    # -- reading ---------------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes:
        """Read a whole object."""
        found = self._item(key)
        if found is None:
            return self.origin.get(key)
        item, size = found
        while True:
            data = self._whole(item, size)
            if data is not None:
                self._hits += 1
                return data
            mine, others = _downloads.join([(item, _WHOLE)])
            for download in others.values():
                brought = download.result()
                if brought is not None:
                    return bytes(brought)
            if mine:
                try:
                    # Another thread may have fetched the object in the meantime.
                    data = self._whole(item, size)
                    if data is None:
                        data = self.origin.get(key)
                        self._files.keep(item, _split(data), len(data))
                finally:
                    _downloads.finish(mine, {} if data is None else dict.fromkeys(mine, data))
                return data

    def _whole(self, item: Item, size: int | None) -> bytes | None:
        size = self._files.size(item) if size is None else size
        return None if size is None else self._files.run(item, 0, size) if size else b""

    def get_into(self, key: str, buffer: memoryview) -> int:
        """Read a whole object into the start of a writable byte buffer and return its length."""
        found = self._item(key)
        if found is None:
            return self.origin.get_into(key, buffer)
        item = found[0]
        size = self._files.size(item) if found[1] is None else found[1]
        if size and size <= len(buffer) and self._files.run_into(item, size, buffer):
            return size
        return super().get_into(key, buffer)

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (start, length) ranges of one object, in the given order."""
        check_spans(key, spans)
        found = self._item(key)
        if found is None:
            return self.origin.get_ranges(key, spans)
        item, size = found
        if any(not length or (size is not None and start + length > size) for start, length in spans):
            return self.origin.get_ranges(key, spans)  # let the origin answer or refuse these ranges
        results = [self._here(item, start, length) for start, length in spans]
        missing = [span for span, data in zip(spans, results, strict=True) if data is None]
        if not missing:
            self._hits += 1
            return [data for data in results if data is not None]
        if size is None:
            # Use the known size only if all ranges lie within it, because it may be outdated.
            size = self._files.size(item)
            size = None if size is None or any(start + length > size for start, length in spans) else size
        blocks = self._bring(item, key, _wanted(missing, size))
        return [
            _cut(blocks, *span) if data is None else data for span, data in zip(spans, results, strict=True)
        ]

    def _here(self, item: Item, start: int, length: int) -> bytes | None:
        first = start // BLOCK
        data = self._files.run(item, first, start + length)
        before = start - first * BLOCK
        return data[before:] if data is not None and before else data

    def _bring(self, item: Item, key: str, wanted: Mapping[int, int]) -> dict[int, Buffer]:
        """Get blocks from the cache, other threads and the origin; `wanted` maps blocks to the needed bytes of each."""
        whole = _downloads.found((item, _WHOLE))
        data = None if whole is None else whole.result()
        if data is not None:
            parts = _split(data)
            if all(len(parts.get(block, b"")) >= length for block, length in wanted.items()):
                return parts
        blocks: dict[int, Buffer] = {}
        while missing := {block: length for block, length in wanted.items() if block not in blocks}:
            mine, others = _downloads.join((item, block) for block in missing)
            if mine:
                brought: dict[int, Buffer] = {}
                try:
                    own = {block: length for block, length in missing.items() if (item, block) in mine}
                    brought = self._fetch(item, key, own)
                finally:
                    _downloads.finish(mine, {(item, block): data for block, data in brought.items()})
                blocks |= brought
            for name, download in others.items():
                (_, block), data = name, download.result()
                if data is not None and len(data) >= missing[block]:
                    blocks[block] = data
        return blocks

    def _fetch(self, item: Item, key: str, wanted: Mapping[int, int]) -> dict[int, Buffer]:
        """Get blocks from the cache, to which another process may have added them meanwhile, or from the origin."""
        blocks: dict[int, Buffer] = {}
        for block, length in wanted.items():
            data = self._files.run(item, block, block * BLOCK + length)
            if data is not None:
                blocks[block] = data
        runs: list[tuple[int, int]] = []
        for block in sorted(wanted.keys() - blocks.keys()):
            start, stop = block * BLOCK, block * BLOCK + wanted[block]
            if runs and start == runs[-1][0] + runs[-1][1]:
                runs[-1] = runs[-1][0], stop - runs[-1][0]
            else:
                runs.append((start, stop - start))
        fresh: dict[int, Buffer] = {}
        for (start, _), data in zip(runs, self.origin.get_ranges(key, runs) if runs else (), strict=True):
            fresh |= {start // BLOCK + number: part for number, part in _split(data).items()}
        if fresh:
            self._files.keep(item, fresh)
        return blocks | fresh

    def get_tail(self, key: str, length: int) -> Tail:
        """Read the last `length` bytes of an object from the origin, or the whole object if it is shorter."""
        return self.origin.get_tail(key, length)

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """Iterate over the objects of the origin whose keys start with `prefix`."""
        return self.origin.list(prefix)

    # -- writing ---------------------------------------------------------------------------------------------

    @contextmanager
    def _forgetting(self, keys: Iterable[str]) -> Iterator[None]:
        """Forget objects after a change, whether it succeeded or not."""
        try:
            yield
        finally:
            for key in keys:
                self.forget(key)

    def put(self, key: str, data: Data) -> str:
        """Write an object to the origin, replacing an existing one, and return its etag."""
        with self._forgetting([key]):
            return self.origin.put(key, data)

    def put_many(self, items: Iterable[tuple[str, Data]], *, durable: bool = True) -> None:
        """Write a batch of objects to the origin."""
        keys: list[str] = []

        def noted() -> Iterator[tuple[str, Data]]:
            for key, data in items:
                keys.append(key)
                yield key, data

        with self._forgetting(keys):
            self.origin.put_many(noted(), durable=durable)

    def copy(self, source: str, target: str, *, durable: bool = True) -> None:
        """Let the origin create an object with the content of another."""
        with self._forgetting([target]):
            self.origin.copy(source, target, durable=durable)

    def sync(self, keys: Iterable[str]) -> None:
        """Make objects that the origin wrote without `durable` survive a power cut."""
        self.origin.sync(keys)

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        """Write an object to the origin only if the existing object has this etag (None: only if no object exists)."""
        with self._forgetting([key]):
            return self.origin.put_if(key, data, etag)

    def delete(self, key: str) -> None:
        """Remove an object from the origin; a missing object is no error."""
        with self._forgetting([key]):
            self.origin.delete(key)

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove objects from the origin; missing objects are no error. A failure leaves any subset."""
        with self._forgetting(keys):
            orphan_files.remove(self.origin, keys)

    def delete_prefix(self, prefix: str) -> None:
        """Remove every object of the origin whose key starts with `prefix`."""
        try:
            self.origin.delete_prefix(prefix)
        finally:
            self._forgotten += 1
            self._known.clear()


def _split(data: Buffer) -> dict[int, Buffer]:
    view = memoryview(data)
    return {at // BLOCK: view[at : at + BLOCK] for at in range(0, len(view), BLOCK)}


def _wanted(spans: Iterable[tuple[int, int]], size: int | None) -> dict[int, int]:
    """Return the blocks that hold the spans, with the bytes needed from the beginning of each."""
    wanted: dict[int, int] = {}
    for start, length in spans:
        stop = start + length
        for block in range(start // BLOCK, (stop - 1) // BLOCK + 1):
            end = stop if size is None else size
            wanted[block] = max(wanted.get(block, 0), min(BLOCK, end - block * BLOCK))
    for block in wanted:
        if block + 1 in wanted:
            wanted[block] = BLOCK
    return wanted


def _cut(blocks: Mapping[int, Buffer], start: int, length: int) -> bytes:
    stop = start + length
    pieces = [
        memoryview(blocks[block])[max(0, start - block * BLOCK) : stop - block * BLOCK]
        for block in range(start // BLOCK, (stop - 1) // BLOCK + 1)
    ]
    return b"".join(pieces)
