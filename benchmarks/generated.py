"""Datasets of any size that are true but for their payload: chunk files are made from their names when they are read.

A small dataset is written as users write one. Its chunk index is then repeated until it has the rows that are wanted,
under new chunk ids, and published by the library's own writers: the metadata, its checksums included, is what a
dataset of that size has. Chunk files repeat those of the small dataset. Of a column of integers each repetition goes
on where the last one ended, so that every value is the number of its row.

    FOLDER/files       metadata, and everything that is written later
    FOLDER/patterns    chunk files of the small dataset: <tensor>/<n>, and patterns.json
    FOLDER/pages       the first page of the chunk index of a tensor of very many chunks, and the entries of all: the
                       other pages are made of it when they are read

"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

import lakebed
from lakebed.documents.indexes import pages
from lakebed.documents.indexes.chunk_ids import ChunkIds
from lakebed.documents.layouts import Layouts, joined
from lakebed.documents.manifest import ChunkPlaces, block_sums
from lakebed.documents.version_tree import new_id
from lakebed.errors import KeyNotFound
from lakebed.session.handle import Handle
from lakebed.session.session import Session
from lakebed.storage.base import (
    Data,
    Stat,
    Storage,
    StorageTraits,
    Tail,
    check_key,
    check_spans,
    pieces,
)
from lakebed.storage.local import LocalStorage
from lakebed.versions.chunk_table import ArrayTable, empty_table, folder_of
from lakebed.versions.create import create
from lakebed.versions.derive import as_commit
from lakebed.versions.page_tree import PageStore, PageTree
from lakebed.versions.paged import IndexFile, PagedTable
from lakebed.versions.state import Snapshot, TensorState
from lakebed.versions.write_pages import with_lists

_MARK = 0x6C616B << 40
_LISTED = 1000
"""Keys that a store lists by one request."""
_PAGE = 256
"""Chunks of a page that is made."""
_MOST_ARRAYS = 1 << 22
"""Pages of tensors with more chunks are made."""


@dataclass(frozen=True)
class Pattern:
    """The chunk files of one tensor, which are repeated.

    Parameters
    ----------
    version
        The version in whose folder the chunks are.
    files
        Distinct files.
    chunks
        Chunks that are made of them.
    step
        Added to every value of an int64 tensor with each chunk; 0 repeats the files as they are.
    data_at
        Place of the values in the file, if there is a step.
    """

    version: str
    files: int
    chunks: int
    step: int = 0
    data_at: int = 0

    def content(self, path: Path, number: int, start: int, length: int) -> bytes:
        """Return a range of a chunk, given its file."""
        at = self.data_at
        shift = self.step * number
        first = at + max(0, start - at) // 8 * 8 if shift else start  # whole values
        stop = at + -(-max(0, start + length - at) // 8) * 8 if shift else start + length
        with path.open("rb") as file:
            file.seek(start)
            head = file.read(max(0, min(at, start + length) - start)) if shift else b""
            file.seek(first)
            data = file.read(stop - first)
        if not shift:
            return data
        values = (np.frombuffer(data, "<i8") + shift).tobytes()
        skipped = max(0, start - first)
        return head + values[skipped : skipped + length - len(head)]


class Pages:
    """The pages of a tensor, which differ in the ids of their chunks only.

    Parameters
    ----------
    first
        The first page.
    count
        How many there are.
    """

    def __init__(self, first: bytes, count: int) -> None:
        self._first = first
        self._ids_at = first.index((np.arange(_PAGE, dtype="<u8") | np.uint64(_MARK)).tobytes())
        self.count = count

    def content(self, number: int) -> bytes:
        """Return a page."""
        ids = (np.arange(_PAGE, dtype="<u8") + np.uint64(number * _PAGE)) | np.uint64(_MARK)
        body = self._first[16 : self._ids_at] + ids.tobytes() + self._first[self._ids_at + ids.nbytes :]
        return self._first[:8] + xxhash.xxh3_64_intdigest(body).to_bytes(8, "little") + body

    def entries(self, samples: int) -> NDArray[np.void]:
        """Return the entries of all pages, whose random bytes are their numbers."""
        found = np.zeros(self.count, pages.ENTRY)
        for number in range(self.count):
            writer = (_MARK | number).to_bytes(8, "big")
            found[number] = pages.entry_of(self.content(number), _PAGE, samples, writer)
        return found


class GeneratedStorage(Storage):
    """A store, as if behind a network, whose chunk files are made from their names.

    Attributes
    ----------
    requests
        Number of requests so far; each byte range of an object, and each 1,000 keys of a listing, are one.
    received, sent
        Bytes so far.
    """

    traits = StorageTraits()

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = LocalStorage(folder / "files")
        self._lock = threading.Lock()
        self._deleted: set[str] = set()
        self.requests = self.received = self.sent = 0

    @property
    def url(self) -> str:
        """Address of the folder."""
        return f"generated://{self._folder}"

    @cached_property
    def _patterns(self) -> Mapping[str, Pattern]:
        path = self._folder / "patterns/patterns.json"
        found = json.loads(path.read_text()) if path.exists() else {}
        return {key: Pattern(**pattern) for key, pattern in found.items()}

    @cached_property
    def _pages(self) -> Pages | None:
        place = self._folder / "pages"
        return Pages((place / "first").read_bytes(), len(self._entries)) if place.exists() else None

    @cached_property
    def _entries(self) -> NDArray[np.void]:
        return np.memmap(self._folder / "pages/entries", pages.ENTRY, "r")

    def _page(self, key: str) -> bytes | None:
        """Return a page that is made; None for other objects."""
        if not key.startswith(pages.FOLDER) or self._pages is None:
            return None
        number = int(key.rpartition("-")[2], 16) ^ _MARK
        if number >= self._pages.count or key in self._deleted:
            return None
        return self._pages.content(number)

    @property
    def metadata_bytes(self) -> int:
        """Bytes of all objects but chunks."""
        made = int(self._entries["nbytes"].sum()) if self._pages is not None else 0
        return made + sum(stat.size for key, stat in self._files.list("") if "/chunks/" not in key)

    def _count(self, *, received: int = 0, sent: int = 0, requests: int = 1) -> None:
        with self._lock:
            self.requests += requests
            self.received += received
            self.sent += sent

    def _made(self, key: str) -> tuple[Pattern, Path, int] | None:
        """Return pattern, file and number of a chunk that is made; None for other objects."""
        folder, slash, name = check_key(key).rpartition("/chunks/")
        if not slash or len(name) != len(f"{_MARK:x}") or int(name, 16) & ~0xFFFFFFFFFF != _MARK:
            return None
        number = int(name, 16) ^ _MARK
        tensor = folder[folder.find("/", len("versions/")) + 1 :]
        pattern = self._patterns.get(tensor)
        if pattern is None or number >= pattern.chunks or folder != folder_of(pattern.version) + tensor:
            return None
        if key in self._deleted:
            raise KeyNotFound(f"{key!r} was deleted from {self.url}")
        return pattern, self._folder / "patterns" / tensor / str(number % pattern.files), number

    def get(self, key: str) -> bytes:
        """Read a whole object."""
        made, data = self._made(key), self._page(key)
        if made is not None:
            data = made[0].content(*made[1:], 0, made[1].stat().st_size)
        elif data is None:
            data = self._files.get(key)
        self._count(received=len(data))
        return data

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several ranges of one object."""
        made = self._made(key)
        if made is None:
            found = self._files.get_ranges(key, spans)
        else:
            pattern, path, number = made
            check_spans(key, spans, path.stat().st_size, self.url)
            found = [pattern.content(path, number, *span) for span in spans]
        self._count(received=sum(map(len, found)), requests=len(spans))
        return found

    def get_tail(self, key: str, length: int) -> Tail:
        """Read the end of an object."""
        found = self._files.get_tail(key, length)
        self._count(received=len(found.data))
        return found

    def put(self, key: str, data: Data) -> str:
        """Write an object."""
        self._count(sent=sum(map(len, pieces(data))))
        return self._files.put(key, data)

    def put_many(self, items: Iterable[tuple[str, Data]], *, durable: bool = True) -> None:
        """Write a batch of objects, one request each."""
        for key, data in items:
            self.put(key, data)

    def copy(self, source: str, target: str, *, durable: bool = True) -> None:
        """Create an object with the content of another, as a server does."""
        self._count()
        self._files.copy(source, target)

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        """Write an object only if the present one has this etag."""
        self._count(sent=sum(map(len, pieces(data))))
        return self._files.put_if(key, data, etag)

    def delete(self, key: str) -> None:
        """Remove an object."""
        self._count()
        if self._made(key) is None and self._page(key) is None:
            self._files.delete(key)
        else:
            self._deleted.add(key)

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """Iterate over the objects whose keys start with a prefix, those that are made included."""
        for number, found in enumerate(self._all(prefix)):
            if number % _LISTED == 0:
                self._count()
            yield found

    def _all(self, prefix: str) -> Iterator[tuple[str, Stat]]:
        yield from self._files.list(prefix)
        if self._pages is not None and pages.FOLDER.startswith(prefix):
            for entry in self._entries:
                yield pages.key_of(entry), Stat(int(entry["nbytes"]), "made")
        for tensor, pattern in self._patterns.items():
            folder = f"{folder_of(pattern.version)}{tensor}/chunks/"
            if not (folder.startswith(prefix) or prefix.startswith(folder)):
                continue
            paths = [self._folder / "patterns" / tensor / str(n) for n in range(pattern.files)]
            stats = [Stat(path.stat().st_size, "made") for path in paths]
            for number in range(pattern.chunks):
                key = f"{folder}{_MARK | number:x}"
                if key.startswith(prefix) and key not in self._deleted:
                    yield key, stats[number % pattern.files]

    def stat(self, key: str) -> Stat | None:
        """Return size and etag of an object, None if it does not exist."""
        self._count()
        made = self._made(key)
        return self._files.stat(key) if made is None else Stat(made[1].stat().st_size, "made")


def opened(storage: Storage, ref: str | None = None) -> lakebed.Dataset:
    """Open the dataset in a storage, as `lakebed.load` does for an address."""
    return lakebed.Dataset(Handle(Session(storage, ref)))


def created(storage: Storage) -> lakebed.Dataset:
    """Make an empty dataset in a storage, as `lakebed.empty` does at an address."""
    create(storage)
    return opened(storage)


def grow(small: lakebed.Dataset, folder: Path, rows: int, numbered: Sequence[str] = ()) -> lakebed.Dataset:
    """Make a dataset of many rows that repeats the chunks of a small one, and open it.

    Parameters
    ----------
    small
        A dataset whose chunks all have as many samples, tensor by tensor, a divisor of the rows.
    numbered
        Tensors of int64 scalars whose chunks go on counting: each holds 0, 1, 2, ... in one chunk of the small dataset.
    """
    small.flush()
    session = small._session  # noqa: SLF001
    head, source = session.snapshot, session.storage
    version = new_id()
    patterns, tensors = {}, {}
    storage = GeneratedStorage(folder)
    made: list[tuple[str, bytes]] = []
    for key, state in head.tensors.items():
        counts = np.unique(state.table.ids.counts)
        if len(counts) != 1 or rows % int(counts[0]):
            raise ValueError(f"{key}: {rows:,} rows are no number of chunks of {counts.tolist()} samples")
        files = [source.get(state.table.key(row)) for row in range(len(state.table))]
        step = int(counts[0]) if key in numbered else 0
        data_at = len(files[0]) - 8 * step if step else 0
        patterns[key] = Pattern(version, len(files), rows // int(counts[0]), step, data_at)
        place = folder / "patterns" / key
        place.mkdir(parents=True)
        for number, data in enumerate(files):
            (place / str(number)).write_bytes(data)
        if patterns[key].chunks > _MOST_ARRAYS and not step:
            tensors[key] = _in_pages(state, patterns[key], storage, folder / "pages", made)
        else:
            tensors[key] = _repeated(state, patterns[key], place / "0")
    described = {key: asdict(pattern) for key, pattern in patterns.items()}
    (folder / "patterns/patterns.json").write_text(json.dumps(described))
    storage.put_many(made)
    grown = Snapshot(version, head.meta, head.info, tensors, head.diff)
    create(storage, as_commit(grown, version))
    return opened(storage)


def _in_pages(
    state: TensorState,
    pattern: Pattern,
    storage: Storage,
    folder: Path,
    made: list[tuple[str, bytes]],
) -> TensorState:
    """Return a tensor with the chunks of a pattern, whose chunk index is in pages; add the lists of pages to `made`."""
    count, rest = divmod(pattern.chunks, _PAGE)
    if rest or _PAGE % pattern.files:
        raise ValueError(f"{pattern.chunks:,} chunks are no number of pages of {_PAGE}")
    part = _repeated(state, replace(pattern, chunks=_PAGE), folder).table
    folder.mkdir()
    first = pages.page_bytes(part.ids, part.inherited().places)
    (folder / "first").write_bytes(first)
    entries = Pages(first, count).entries(part.count)
    entries.tofile(folder / "entries")
    store = PageStore(storage)
    tree = with_lists(PageTree(store, entries, 0), (_MARK >> 1).to_bytes(8, "big"), made)
    table = PagedTable(
        tree, empty_table(), ((0, tree.rows),), False, IndexFile(pattern.version, state.key, *pages.NO_INDEX)
    )
    return replace(state, meta=state.meta.with_(length=tree.samples), table=table)


def _repeated(state: TensorState, pattern: Pattern, file: Path) -> TensorState:
    """Return a tensor with the chunks of a pattern."""
    table, chunks = state.table, pattern.chunks
    times = -(-chunks // len(table))
    samples = int(table.ids.counts[0])
    numbers = np.arange(chunks, dtype=np.uint64)
    last = (numbers + np.uint64(1)) * np.uint64(samples) - np.uint64(1)
    places = table.places
    if pattern.step:
        size = file.stat().st_size
        sums = [value for n in range(chunks) for value in block_sums((pattern.content(file, n, 0, size),))]
        known = np.array(sums, np.uint64)
    else:
        whole, rest = divmod(chunks, len(table))
        part = int(places.sum_counts()[:rest].sum())
        known = np.concatenate([np.tile(places.sums, whole), places.sums[:part]])
    layouts = None
    if places.known_layouts is not None:
        repeated = Layouts(
            np.tile(places.known_layouts.counts, times), np.tile(places.known_layouts.words, times)
        )
        layouts = joined([repeated.cut(0, chunks)])
    grown = ChunkPlaces(
        ((pattern.version, state.key),),
        np.zeros(chunks, np.uint32),
        np.tile(places.sizes, times)[:chunks],
        known,
        np.ones(chunks, np.bool_),
        layouts,
    )
    return replace(
        state,
        meta=state.meta.with_(length=chunks * samples),
        table=ArrayTable(ChunkIds(numbers | np.uint64(_MARK), last), grown),
    )
