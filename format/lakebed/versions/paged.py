"""Chunk tables of large tensors: the first rows are in pages of storage, later ones in arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lakebed import limits
from lakebed.documents.indexes import pages, version_prefix
from lakebed.documents.indexes.chunk_ids import ChunkIds
from lakebed.documents.indexes.pages import PagedIndex
from lakebed.documents.layouts import Words, joined
from lakebed.documents.manifest import ChunkPlaces
from lakebed.errors import CorruptError, KeyNotFound
from lakebed.storage.base import Storage
from lakebed.versions.chunk_table import INDEX, ArrayTable, ChunkTable, NewChunk, empty_table, folder_of
from lakebed.versions.page_tree import PageStore, PageTree

# Bytes of an index file before its rows.
_HEAD = len(version_prefix.PREFIX) + 1


@dataclass(frozen=True, slots=True)
class IndexFile:
    """The file with the chunk index of a tensor in a stored version; a stub has no size and no digest."""

    version: str
    tensor: str
    nbytes: int
    digest: str

    @property
    def key(self) -> str:
        """Storage key."""
        return f"{folder_of(self.version)}{self.tensor}/{INDEX}"

    @property
    def is_stub(self) -> bool:
        """Whether the file names pages, not chunks."""
        return (self.nbytes, self.digest) == pages.NO_INDEX


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
        """The whole chunk index, read from its file, or from all pages if that is a stub."""
        if self._ids is None:
            self._ids = self.whole().ids if self.index.is_stub else ChunkIds.from_bytes(self.whole_index())
        return self._ids

    @property
    def places(self) -> ChunkPlaces:
        """The places of all chunks, read from all pages."""
        return self.whole().places

    def whole(self) -> ArrayTable:
        """Return the same table in arrays."""
        if self._all is None:
            limits.check("MAX_ENCODER_BYTES", 16 * len(self), "chunks_index")
            tree = self.tree
            rows = _joined([*(page for page, _, _ in tree.tables([(0, tree.rows)])), self.tail])
            own = np.zeros(len(self), np.bool_)
            for first, end in self.own:
                own[first:end] = True
            own[tree.rows :] = self.tail.places.own
            self._all = ArrayTable(rows.ids, rows._with_own(own).places)  # noqa: SLF001
        return self._all

    def document(self) -> PagedIndex:
        """Return the entry in the manifest of a table whose rows are all in pages."""
        index = self.index.nbytes, self.index.digest
        return PagedIndex(self.tree.root.entries, self.tree.lists, self.own, self.tiled, index)

    def index_bytes(self) -> bytes:
        """Return the content of `chunks_index/unsharded`."""
        if self.index.is_stub:
            return pages.stub_bytes(self.index.tensor, self.document())
        return self.whole_index()

    def whole_index(self) -> bytes:
        """Return the chunk index as Deep Lake 3.9.52 reads it."""
        data, rows = b"", self.tree.rows
        if not self.index.is_stub:
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

    @property
    def stored_bytes(self) -> int:
        """Bytes of all chunk files whose sizes are known, estimated from the first page."""
        page = self.page(0)[0]
        return page.stored_bytes * len(self) // len(page)

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

    def same_start(self, other: ChunkTable) -> int:
        """Return how many samples at the start lie in the same chunks in both tables; read only pages that differ."""
        if not isinstance(other, PagedTable):
            return super().same_start(other)
        rows, samples = self.tree.shared(other.tree)
        if rows == min(len(self), len(other)):
            return samples
        return samples + self.page(rows)[0].same_start(other.page(rows)[0])

    def identities(
        self, rows: NDArray[np.int64]
    ) -> tuple[Sequence[tuple[str, str]], NDArray[np.int64], NDArray[np.uint64]]:
        """Return folders, and for each of some rows the number of its folder and the id of its chunk."""
        numbers: dict[tuple[str, str], int] = {}
        folder_of, ids = np.empty(len(rows), np.int64), np.empty(len(rows), np.uint64)
        order = np.argsort(rows, kind="stable")
        ordered, at = rows[order], 0
        while at < len(ordered):
            page, place = self.page(int(ordered[at]))
            end = int(np.searchsorted(ordered, int(ordered[at]) - place + len(page)))
            which = order[at:end]
            folders, found, ids[which] = page.identities(rows[which] - (int(ordered[at]) - place))
            known = np.array([numbers.setdefault(folder, len(numbers)) for folder in folders], np.int64)
            folder_of[which] = known[found]
            at = end
        return list(numbers), folder_of, ids

    # -- own and inherited chunks ----------------------------------------------------------------------------------

    @property
    def has_tiles(self) -> bool:
        """Return whether a sample may have several chunks."""
        return self.tiled or self.tail.has_tiles

    @property
    def own_count(self) -> int:
        """Number of chunks that the `chunk_set` of the version names."""
        return 0 if self.has_stub else sum(end - first for first, end in self.own) + self.tail.own_count

    def named(
        self, *, own: bool, known: set[str] | None = None
    ) -> Iterator[tuple[tuple[str, str], NDArray[np.uint64]]]:
        """Yield each folder with the ids of its chunks; ``own`` omits inherited chunks, ``known`` pages by key."""
        for page, first, end in self.tree.tables(self.own if own else [(0, self.tree.rows)], known):
            places, ids = page.places, page.ids.ids[first:end]
            for at in np.unique(places.folder_of[first:end]).tolist():
                yield places.folders[at], ids[places.folder_of[first:end] == at]
        yield from self.tail.named(own=own)

    def inherited(self) -> ChunkTable:
        """Return the table as the next version sees it; it owns no chunk but those that no `chunk_set` names."""
        if self.has_stub:
            return self
        return PagedTable(self.tree, self.tail.inherited(), (), self.tiled, self.index)

    def owned(self) -> PagedTable:
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


def readable(table: ChunkTable, damaged: dict[str, str]) -> list[ChunkTable]:
    """Return a table as one; if it has a stub and damaged pages, return the other pages.

    The keys and errors of damaged pages are added to ``damaged``. All chunks of the other pages count as the version's
    own. Damaged pages of a table without a stub can be repaired, so reading its places raises an error.
    """
    if not isinstance(table, PagedTable) or not table.index.is_stub:
        return [table]
    with suppress(CorruptError):
        return [table.whole()]
    runs, end = [], 0
    for row, _, entry, error in table.tree.damaged():
        damaged[pages.key_of(entry)] = str(error)
        runs.append((end, row))
        end = row + int(entry["rows"])
    runs = [(first, last) for first, last in (*runs, (end, table.tree.rows)) if first < last]
    return [*(page.owned() for page, _, _ in table.tree.tables(runs)), table.tail]


def opened(storage: Storage, version_id: str, found: Mapping[str, PagedIndex]) -> dict[str, PagedTable]:
    """Return the tables of tensors that a manifest describes by pages, by tensor key."""
    store = PageStore(storage)
    return {key: _table(store, version_id, key, one) for key, one in found.items()}


def table_of_stub(storage: Storage, version_id: str, key: str, data: bytes) -> PagedTable:
    """Return the table of a tensor whose index file is a stub.

    A stub that Deep Lake 3.9.52 copied to the next head is that head's, as a stub that lakebed writes for it.

    Raises
    ------
    FormatError
        If the stub is damaged.
    """
    return _table(PageStore(storage), version_id, key, pages.read_stub(data))


def _table(store: PageStore, version_id: str, key: str, one: PagedIndex) -> PagedTable:
    tree, index = PageTree(store, one.entries, one.lists), IndexFile(version_id, key, *one.index)
    return PagedTable(tree, empty_table(), one.own, one.tiled, index)
