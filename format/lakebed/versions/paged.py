"""Chunk tables of large tensors in pages of storage, read when they are needed; see `lakebed.documents.indexes.pages`.

A publish writes the pages and lists that changed, and names them in the manifest. Pages and lists are never
replaced, and each name is written only once, so versions share equal pages and lists.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.indexes import pages, version_prefix
from lakebed.documents.indexes.chunk_ids import ChunkIds
from lakebed.documents.indexes.pages import ENTRY, Entries, PagedIndex, key_of
from lakebed.documents.layouts import Words, joined
from lakebed.documents.manifest import ChunkPlaces
from lakebed.errors import CorruptError, FormatError, KeyNotFound
from lakebed.runtime import process_hooks
from lakebed.storage.base import Storage, is_cache
from lakebed.storage.concurrently import together
from lakebed.versions.chunk_table import INDEX, ArrayTable, ChunkTable, NewChunk, empty_table
from lakebed.versions.tree_file import ADVICE, error_if_deleted

# A manifest names at most about this many pages, the last ones, individually; for earlier pages, it names lists of
# pages.
_MOST_LOOSE = 512
# Number of pages and lists that stay in memory, and of pages that are read at the same time.
_KEPT = 64
# Bytes of an index file before its rows.
_HEAD = len(version_prefix.PREFIX) + 1

T = TypeVar("T")

_mutex = threading.Lock()
process_hooks.new_lock_after_fork(sys.modules[__name__], "_mutex")


class PageStore:
    """Pages and lists of one dataset; those used last stay in memory."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._kept: OrderedDict[str, Any] = OrderedDict()
        self._unwritten: dict[str, Any] = {}

    def __reduce__(self) -> tuple[type[PageStore], tuple[Storage]]:
        return PageStore, (self.storage,)

    def page(self, entry: np.void) -> ArrayTable:
        """Return a page, whose samples count from its beginning.

        Raises
        ------
        CorruptError
            If the page is missing or damaged.
        DatasetNotFoundError
            If the whole dataset was deleted.
        """
        return self._read(entry, lambda data: ArrayTable(*pages.read_page(data, entry)))

    def list(self, entry: np.void) -> Listed:
        """Return a list of pages; errors as in :meth:`page`."""
        return self._read(entry, lambda data: Listed(pages.read_list(data, entry)))

    def add(self, key: str, value: ArrayTable | Listed) -> None:
        """Remember a page or a list that will be written, until :meth:`written`."""
        self._unwritten[key] = value

    def written(self) -> None:
        """Note that all pages and lists are in storage."""
        for key, value in self._unwritten.items():
            self._keep(key, value)
        self._unwritten = {}

    def _damaged(self, message: str) -> CorruptError:
        url = self.storage.url
        return CorruptError(f"{message}; {ADVICE} ({url})", dataset=url)

    def _keep(self, key: str, value: Any) -> None:
        with _mutex:
            self._kept[key] = value
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)

    def _read(self, entry: np.void, parse: Callable[[bytes], T]) -> T:
        key, storage = key_of(entry), self.storage
        with _mutex:
            found: T | None = self._unwritten.get(key) or self._kept.get(key)
        if found is None:
            if is_cache(storage):
                with suppress(KeyNotFound, FormatError):
                    found = parse(storage.trusted.get(key))
                if found is None:
                    storage.forget(key)
                    storage = storage.origin
            if found is None:
                try:
                    found = parse(storage.get(key))
                except KeyNotFound as error:
                    missing = self._damaged(f"{key}, a part of the chunk index, is missing")
                    raise error_if_deleted(storage) or missing from error
                except FormatError as error:
                    raise self._damaged(str(error)) from error
        self._keep(key, found)
        return found


class Listed:
    """Entries, and the sums of their counts."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Number of rows before each entry, followed by the total."""
        return np.concatenate([[0], np.cumsum(self.entries["rows"], dtype=np.int64)])

    @cached_property
    def samples(self) -> NDArray[np.int64]:
        """Number of samples before each entry, followed by the total."""
        return np.concatenate([[0], np.cumsum(self.entries["samples"], dtype=np.int64)])

    def names(self) -> set[bytes]:
        """Return the bytes of each entry, by which the same entry is found in another tree."""
        return {entry.tobytes() for entry in self.entries}


@dataclass(frozen=True, slots=True)
class Place:
    """A page of a tree, and its first row and sample."""

    page: ArrayTable
    row: int
    sample: int


class PageTree:
    """The pages of one tensor.

    Parameters
    ----------
    entries
        First the entries that name lists of pages, then those that name single pages.
    lists
        Number of entries that name lists.
    """

    def __init__(self, store: PageStore, entries: Entries, lists: int) -> None:
        self.store = store
        self.root = Listed(entries)
        self.lists = lists
        self._last: Place | None = None

    @property
    def rows(self) -> int:
        """Number of chunks."""
        return int(self.root.rows[-1])

    @property
    def samples(self) -> int:
        """Number of samples."""
        return int(self.root.samples[-1])

    def with_row(self, row: int) -> Place:
        """Return the page that has a row."""
        last = self._last  # callers usually request neighbouring rows one after the other
        if last is None or not last.row <= row < last.row + len(last.page):
            last = self._last = self._find("rows", row)
        return last

    def with_sample(self, sample: int) -> Place:
        """Return the page that has the first row of a sample."""
        last = self._last
        if last is None or not last.sample <= sample < last.sample + last.page.count:
            last = self._last = self._find("samples", sample)
        return last

    def _find(self, column: str, wanted: int) -> Place:
        row, sample, listed = 0, 0, self.root
        while True:
            before = row if column == "rows" else sample
            at = int(np.searchsorted(getattr(listed, column)[1:], wanted - before, side="right"))
            row, sample = row + int(listed.rows[at]), sample + int(listed.samples[at])
            if listed is not self.root or at >= self.lists:
                return Place(self.store.page(listed.entries[at]), row, sample)
            listed = self.store.list(listed.entries[at])

    def entries(self) -> Entries:
        """Return the entries of all pages."""
        return self._spanned(0, self.rows)[0]

    def _spanned(self, first: int, end: int) -> tuple[Entries, NDArray[np.int64]]:
        """Return the entries of at least the pages with rows ``first`` to ``end``, and the first row of each page.

        The needed lists are read in parallel.
        """
        rows = self.root.rows
        low = int(np.searchsorted(rows[1:], first, side="right"))
        chosen = self.root.entries[low : int(np.searchsorted(rows[:-1], end))]
        lists = max(0, min(self.lists - low, len(chosen)))
        steps = [partial(self.store.list, entry) for entry in chosen[:lists]]
        found = [listed.entries for listed in together(self.store.storage, steps)]
        entries = np.concatenate([*found, chosen[lists:]])
        return entries, rows[low] + Listed(entries).rows

    def before(self, row: int) -> PageTree:
        """Return the tree of the pages before row ``row``, which must be the first row of a page."""
        at = int(np.searchsorted(self.root.rows, row, side="right")) - 1
        entries = self.root.entries[:at]
        if at >= self.lists:
            return PageTree(self.store, entries, self.lists)
        listed = self.store.list(self.root.entries[at])
        rest = int(np.searchsorted(listed.rows, row - self.root.rows[at]))
        return PageTree(self.store, np.concatenate([entries, listed.entries[:rest]]), at)

    def tables(self, runs: Sequence[tuple[int, int]]) -> Iterator[tuple[ArrayTable, int, int]]:
        """Yield (page, first row, end) for each page with rows of the runs; the rows are numbered within the page.

        Up to ``_KEPT`` pages are read in parallel.
        """
        for first, end in runs:
            entries, starts = self._spanned(first, end)
            wanted = np.flatnonzero((starts[:-1] < end) & (starts[1:] > first))
            for at in range(0, len(wanted), _KEPT):
                some = wanted[at : at + _KEPT].tolist()
                steps = [partial(self.store.page, entries[number]) for number in some]
                for number, page in zip(some, together(self.store.storage, steps), strict=True):
                    start = int(starts[number])
                    yield page, max(0, first - start), min(len(page), end - start)

    def keys(self, known: set[str]) -> None:
        """Add the keys of all pages and lists to ``known``; lists whose keys it contains already are not read again."""
        for number, entry in enumerate(self.root.entries):
            key = key_of(entry)
            if number < self.lists and key not in known:
                known.update(map(key_of, self.store.list(entry).entries))
            known.add(key)

    def without(self, others: Sequence[PageTree]) -> list[np.void]:
        """Return the entries of the pages that no other tree has."""
        mine = self.root.names()
        shared = set[bytes]().union(*(other.root.names() for other in others))
        theirs = set[bytes]().union(*(other.pages(mine) for other in others))
        left = self.pages(shared)
        return [entry for name, entry in left.items() if name not in theirs]

    def chunks(self, entries: Sequence[np.void]) -> Iterator[tuple[tuple[str, str], int]]:
        """Yield folders and ids of the chunks of some pages."""
        for page in map(self.store.page, entries):
            for folder, ids in page.named(own=False):
                yield from ((folder, number) for number in ids.tolist())

    def pages(self, known: set[bytes]) -> dict[bytes, np.void]:
        """Return the entries of pages by their bytes, without the pages in lists whose own entry is in ``known``."""
        found = list(self.root.entries[self.lists :])
        for entry in self.root.entries[: self.lists]:
            if entry.tobytes() not in known:
                found += list(self.store.list(entry).entries)
        return {entry.tobytes(): entry for entry in found}


@dataclass(frozen=True, slots=True)
class IndexFile:
    """The file with the chunk index of a stored version."""

    key: str
    nbytes: int
    digest: str


class PagedTable(ChunkTable):
    """A table whose first rows are in pages, and whose later rows are in arrays.

    Parameters
    ----------
    own
        Runs (first row, end) of the rows in pages whose chunks the version names itself.
    tiled
        Whether a sample of the pages may have several chunks.
    index
        File that begins with the rows in pages.
    """

    __slots__ = ("_all", "_ids", "index", "own", "tail", "tiled", "tree")

    def __init__(
        self,
        tree: PageTree,
        tail: ChunkTable,
        own: tuple[tuple[int, int], ...],
        tiled: bool,
        index: IndexFile,
    ) -> None:
        self.tree = tree
        self.tail = tail
        self.own = own
        self.tiled = tiled
        self.index = index
        self._ids: ChunkIds | None = None
        self._all: ArrayTable | None = None

    # -- the whole table -----------------------------------------------------------------------------------------

    @property
    def ids(self) -> ChunkIds:
        """The whole chunk index, read from its file."""
        if self._ids is None:
            self._ids = ChunkIds.from_bytes(self.index_bytes())
        return self._ids

    @property
    def places(self) -> ChunkPlaces:
        """The places of all chunks, read from all pages."""
        return self.whole().places

    def whole(self) -> ArrayTable:
        """Return the same table in arrays."""
        if self._all is None:
            tree = self.tree
            rows = _joined([*(page for page, _, _ in tree.tables([(0, tree.rows)])), self.tail])
            own = np.zeros(len(self), np.bool_)
            for first, end in self.own:
                own[first:end] = True
            own[tree.rows :] = self.tail.places.own
            self._all = ArrayTable(rows.ids, rows._with_own(own).places)  # noqa: SLF001
        return self._all

    def index_bytes(self) -> bytes:
        """Return the content of `chunks_index/unsharded`."""
        data, rows = b"", self.tree.rows
        with suppress(KeyNotFound):
            data = self.tree.store.storage.get(self.index.key)
        end = _HEAD + 16 * rows
        is_sound = len(data) == self.index.nbytes and pages.index_digest(data) == self.index.digest
        if not is_sound or len(data) < end:
            return self.whole().ids.to_bytes()
        last = self.tail.ids.last + np.uint64(self.tree.samples)
        return b"".join([memoryview(data)[:end], np.stack([self.tail.ids.ids, last], axis=1).tobytes()])

    # -- single rows ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.tree.rows + len(self.tail)

    @property
    def count(self) -> int:
        """Number of samples that the table covers."""
        return self.tree.samples + self.tail.count

    def page(self, row: int) -> tuple[ChunkTable, int]:
        """Return the page that has a row, and the row's number in it."""
        if row >= self.tree.rows:
            return self.tail, row - self.tree.rows
        place = self.tree.with_row(row)
        return place.page, row - place.row

    def folder(self, row: int) -> tuple[str, str]:
        """Version id and tensor key of the folder that holds the chunk of a row."""
        page, at = self.page(row)
        return page.folder(at)

    def key(self, row: int) -> str:
        """Storage key of the chunk file of a row."""
        page, at = self.page(row)
        return page.key(at)

    def size(self, row: int) -> int:
        """Bytes of the chunk file of a row; 0 if unknown."""
        page, at = self.page(row)
        return page.size(at)

    def sums(self, row: int) -> NDArray[np.uint64]:
        """Block checksums of the chunk of a row; empty if unknown."""
        page, at = self.page(row)
        return page.sums(at)

    def layout(self, row: int) -> Words:
        """Return the layout of the samples of a row's chunk; empty if it is not known."""
        page, at = self.page(row)
        return page.layout(at)

    def samples(self, row: int) -> int:
        """Count the samples in the chunk of a row (0 for a further tile of the same sample)."""
        page, at = self.page(row)
        return page.samples(at)

    def first(self, row: int) -> int:
        """Return the index of the first sample of a row."""
        if row >= self.tree.rows:
            return self.tree.samples + self.tail.first(row - self.tree.rows)
        place = self.tree.with_row(row)
        return place.sample + place.page.first(row - place.row)

    def rows_of(self, sample: int) -> range:
        """Return the rows of a sample; a tiled sample has several."""
        first = self._find(sample)[0]
        return range(first, first + self.tiles_of(first))

    def tiles_of(self, row: int) -> int:
        """Return the number of rows of the sample that begins with this row; a tiled sample has several."""
        page, at = self.page(row)  # pages end between samples
        return page.tiles_of(at)

    def finder(self) -> Callable[[int], tuple[int, int]]:
        """Return a function that finds the row of a sample, and the sample's position in the chunk.

        The function raises IndexError if the table does not have the sample.
        """
        return self._find

    def _find(self, sample: int) -> tuple[int, int]:
        if not 0 <= sample < self.count:
            raise IndexError(f"row {sample} is out of range")
        if sample >= self.tree.samples:
            span = self.tail.ids.locate(sample - self.tree.samples)
            return self.tree.rows + span.row, span.position
        place = self.tree.with_sample(sample)
        span = place.page.ids.locate(sample - place.sample)
        return place.row + span.row, span.position

    def locate(self, samples: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of many samples, and the samples' positions in their chunks."""
        if len(samples) and not 0 <= int(samples.min()) <= int(samples.max()) < self.count:
            raise IndexError("a row is out of range")
        rows, places = np.empty(len(samples), np.int64), np.empty(len(samples), np.int64)
        order = np.argsort(samples, kind="stable")
        ordered, at = samples[order], 0
        while at < len(ordered):
            row, sample, page = self.tree.rows, self.tree.samples, self.tail
            if ordered[at] < sample:
                place = self.tree.with_sample(int(ordered[at]))
                row, sample, page = place.row, place.sample, place.page
            end = int(np.searchsorted(ordered, sample + page.count))
            which = order[at:end]
            found, places[which] = page.locate(np.ascontiguousarray(ordered[at:end] - sample))
            rows[which] = found + row
            at = end
        return rows, places

    # -- own and inherited chunks ----------------------------------------------------------------------------------

    @property
    def has_tiles(self) -> bool:
        """Return whether a sample may have several chunks."""
        return self.tiled or self.tail.has_tiles

    @property
    def own_count(self) -> int:
        """Number of chunks that the version names itself."""
        return sum(end - first for first, end in self.own) + self.tail.own_count

    def named(self, *, own: bool) -> Iterator[tuple[tuple[str, str], NDArray[np.uint64]]]:
        """Yield each folder with the ids of its chunks; ``own`` omits inherited chunks."""
        for page, first, end in self.tree.tables(self.own if own else [(0, self.tree.rows)]):
            places, ids = page.places, page.ids.ids[first:end]
            for at in np.unique(places.folder_of[first:end]).tolist():
                yield places.folders[at], ids[places.folder_of[first:end] == at]
        yield from self.tail.named(own=own)

    def inherited(self) -> ChunkTable:
        """Return the table as the next version sees it: no chunk is its own."""
        return PagedTable(self.tree, self.tail.inherited(), (), self.tiled, self.index)

    def owned(self) -> ChunkTable:
        """Return the table of a version that names every chunk itself."""
        return PagedTable(self.tree, self.tail.owned(), ((0, self.tree.rows),), self.tiled, self.index)

    # -- changes at the end ----------------------------------------------------------------------------------------

    def keep(self, rows: int) -> ChunkTable:
        """Return the first ``rows`` rows."""
        if rows >= self.tree.rows:
            return self._with_tail(self.tail.keep(rows - self.tree.rows))
        if not rows:
            return empty_table()
        place = self.tree.with_row(rows - 1)
        return self._cut(place.row, place.page.keep(rows - place.row))

    def extended(self, added: list[NewChunk], folder: tuple[str, str]) -> ChunkTable:
        """Return the table with new chunks of one folder at its end."""
        return self._with_tail(self.tail.extended(added, folder)) if added else self

    def joined(self, other: ChunkTable, first: int, stop: int) -> ChunkTable:
        """Return the table with rows ``first`` to ``stop`` of another table at its end.

        The chunk files of these rows stay in their folders, and count as the version's own.
        """
        return self._with_tail(self.tail.joined(other, first, stop))

    def _with_tail(self, tail: ChunkTable) -> PagedTable:
        return PagedTable(self.tree, tail, self.own, self.tiled, self.index)

    def _cut(self, rows: int, tail: ChunkTable) -> PagedTable:
        """Return a table of the pages before row ``rows``, which is the first row of a page, followed by ``tail``."""
        own = np.zeros(len(tail), np.bool_)
        for first, end in self.own:
            own[max(0, first - rows) : max(0, end - rows)] = True
        runs = tuple((first, min(end, rows)) for first, end in self.own if first < rows)
        return PagedTable(self.tree.before(rows), tail._with_own(own), runs, self.tiled, self.index)  # noqa: SLF001

    def reopened(self) -> PagedTable:
        """Return the table with the rows of its last page in arrays, so that a fuller page can be made of them."""
        if not self.tree.rows:
            return self
        place = self.tree.with_row(self.tree.rows - 1)
        cut = self._cut(place.row, place.page)
        own = np.concatenate([cut.tail.places.own, self.tail.places.own])
        return cut._with_tail(_joined([cut.tail, self.tail])._with_own(own))  # noqa: SLF001

    @property
    def is_stored(self) -> bool:
        """Return whether all rows are in pages, and the index file has exactly these rows."""
        return not len(self.tail) and self.index.nbytes == _HEAD + 16 * self.tree.rows


def _joined(tables: Sequence[ChunkTable]) -> ArrayTable:
    """Return several tables joined into one, in which no chunk counts as the version's own."""
    numbers: dict[tuple[str, str], int] = {}
    parts = []
    for table in tables:
        places = table.places
        known = [numbers.setdefault(folder, len(numbers)) for folder in places.folders]
        parts.append(np.array(known, np.uint32)[places.folder_of] if len(table) else places.folder_of)
    layouts = joined([table.places.layouts for table in tables])
    counts = np.concatenate([table.ids.counts for table in tables])
    ids = ChunkIds(
        np.concatenate([table.ids.ids for table in tables]), np.cumsum(counts, dtype=np.uint64) - np.uint64(1)
    )
    places = ChunkPlaces(
        tuple(numbers),
        np.concatenate(parts),
        np.concatenate([table.places.sizes for table in tables]),
        np.concatenate([table.places.sums for table in tables]),
        np.zeros(len(counts), np.bool_),
        layouts if len(layouts.words) else None,
    )
    return ArrayTable(ids, places)


Done: TypeAlias = "list[tuple[tuple[PageTree | None, ChunkIds], tuple[PageTree, bytes]]]"

# -- writing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stored:
    """A table whose rows are all in pages, and the objects to write for it.

    Parameters
    ----------
    items
        New pages and lists by key, and the index file unless it is a copy.
    copied
        Key of the file of which the index file is a copy, or None.
    """

    table: PagedTable
    items: list[tuple[str, bytes]]
    copied: str | None

    def document(self) -> PagedIndex:
        """Return the entry of this table in the manifest."""
        table = self.table
        index = table.index.nbytes, table.index.digest
        return PagedIndex(table.tree.root.entries, table.tree.lists, table.own, table.tiled, index)


def stored(
    storage: Storage, table: ChunkTable, before: PageTree | None, index_key: str, done: Done
) -> Stored:
    """Put all rows of a table into pages.

    Parameters
    ----------
    before
        The tree of the version from which the present version is made: its pages are not written again.
    index_key
        Storage key of the index file of the version.
    done
        Trees and index files of tables of the same publish; those of ``table`` are added.
    """
    if isinstance(table, PagedTable) and table.is_stored:
        index = IndexFile(index_key, table.index.nbytes, table.index.digest)
        return Stored(PagedTable(table.tree, table.tail, table.own, table.tiled, index), [], table.index.key)
    tree: PageTree | None = None
    if isinstance(table, PagedTable):
        tree, ids = table.tree, table.tail.ids
        own = _runs(table.own, table.tail.places.own, table.tree.rows)
    else:
        ids, own = table.ids, _runs((), table.places.own, 0)
    items: list[tuple[str, bytes]] = []
    made = next((found for given, found in done if given[0] is tree and given[1] is ids), None)
    if made is None:
        made = _stored_rows(storage, table, before, items)
        done.append(((tree, ids), made))
    new, data = made
    index = IndexFile(index_key, len(data), pages.index_digest(data))
    items.append((index_key, data))
    return Stored(PagedTable(new, empty_table(), own, table.has_tiles, index), items, None)


def _stored_rows(
    storage: Storage, table: ChunkTable, before: PageTree | None, items: list[tuple[str, bytes]]
) -> tuple[PageTree, bytes]:
    """Return the tree with all rows of a table, and its index file; add the new pages and lists to ``items``."""
    if isinstance(table, PagedTable):
        data, old = table.index_bytes(), table.tree.root.entries[table.tree.lists :]
        if len(table.tail):
            table = table.reopened()
        tree, rest = table.tree, table.tail
    else:
        data, old = table.ids.to_bytes(), np.empty(0, ENTRY) if before is None else before.entries()
        store = PageStore(storage) if before is None else before.store
        tree, rest = PageTree(store, np.empty(0, ENTRY), 0), table
    if len(rest):
        tree = _grown(tree, rest, {entry["digest"].tobytes(): entry for entry in old}, items)
    return tree, data


def _grown(
    tree: PageTree, rest: ChunkTable, known: Mapping[bytes, np.void], items: list[tuple[str, bytes]]
) -> PageTree:
    """Return a tree with further rows in pages at its end; add the new pages and lists to ``items``."""
    writer, found, at = os.urandom(8), [tree.root.entries], 0
    counts, places = rest.ids.counts, rest.places
    for end in pages.ends(rest.ids.ids, pages.weights_of(places), counts > 0):
        page = _part(rest, at, end)
        data = pages.page_bytes(page.ids, page.places)
        entry = np.array([pages.entry_of(data, end - at, page.count, writer)], ENTRY)
        old = known.get(entry[0]["digest"].tobytes())
        if old is None:
            items.append((key_of(entry[0]), data))
            tree.store.add(key_of(entry[0]), page)
        found.append(entry if old is None else np.array([old], ENTRY))
        at = end
    entries, lists = np.concatenate(found), tree.lists
    loose = entries[lists:]
    if len(loose) <= _MOST_LOOSE:
        return PageTree(tree.store, entries, lists)
    found, at = [entries[:lists]], 0
    *cuts, _ = pages.ends(pages.marks_of(loose), np.full(len(loose), ENTRY.itemsize))
    for end in cuts:
        listed = Listed(loose[at:end])
        data = pages.list_bytes(listed.entries)
        entry = np.array([pages.entry_of(data, *pages.totals(listed.entries), writer)], ENTRY)
        items.append((key_of(entry[0]), data))
        tree.store.add(key_of(entry[0]), listed)
        found.append(entry)
        at = end
    return PageTree(tree.store, np.concatenate([*found, loose[at:]]), lists + len(cuts))


def _part(table: ChunkTable, first: int, end: int) -> ArrayTable:
    """Return neighbouring rows as a page: samples count from its beginning, folders in the order of their use."""
    ids, p = table.ids, table.places
    used, at, numbers = np.unique(p.folder_of[first:end], return_index=True, return_inverse=True)
    order = np.argsort(at)
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    places = ChunkPlaces(
        tuple(p.folders[number] for number in used[order].tolist()),
        rank[numbers],
        p.sizes[first:end],
        p.sums[p.sum_ends[first] : p.sum_ends[end]],
        np.zeros(end - first, np.bool_),
        None if p.known_layouts is None else p.known_layouts.cut(first, end),
    )
    before = ids.last[first - 1] + np.uint64(1) if first else np.uint64(0)
    return ArrayTable(ChunkIds(ids.ids[first:end], ids.last[first:end] - before), places)


def _runs(
    runs: tuple[tuple[int, int], ...], own: NDArray[np.bool_], shift: int
) -> tuple[tuple[int, int], ...]:
    """Return runs of own rows, followed by the runs of a mask whose first row is row ``shift``."""
    changes = np.flatnonzero(np.diff(np.concatenate([[False], own, [False]]))).reshape(-1, 2) + shift
    added = [(first, end) for first, end in changes.tolist()]
    if runs and added and runs[-1][1] == added[0][0]:
        return (*runs[:-1], (runs[-1][0], added[0][1]), *added[1:])
    return (*runs, *added)


def opened(storage: Storage, version_folder: str, found: Mapping[str, PagedIndex]) -> dict[str, PagedTable]:
    """Return the tables of tensors that a manifest describes by pages, by tensor key."""
    store = PageStore(storage)
    tables = {}
    for key, one in found.items():
        tree = PageTree(store, one.entries, one.lists)
        index = IndexFile(f"{version_folder}{key}/{INDEX}", *one.index)
        tables[key] = PagedTable(tree, empty_table(), one.own, one.tiled, index)
    return tables
