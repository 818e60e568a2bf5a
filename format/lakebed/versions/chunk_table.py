"""Chunk tables: the chunk index of a tensor joined with the places of its chunks. Plain frozen data."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.indexes.chunk_ids import ChunkIds
from lakebed.documents.layouts import NO_WORDS, Layouts, Words, joined, layouts_of
from lakebed.documents.manifest import ChunkPlaces
from lakebed.documents.version_tree import FIRST
from lakebed.native import chunks as native

# The chunk index of a tensor.
INDEX = "chunks_index/unsharded"


# The index and the `chunk_set` of tensors with at most this many chunks are written whole; Deep Lake 3.9.52 opens them
# in a second. Larger tensors have a stub in place of the index, and hand their own chunks down to the next versions.
MOST_WHOLE = 1 << 20
# If a tensor has at least this many folders, folders without chunks are dropped.
_MANY_FOLDERS = 32


def folder_of(version_id: str) -> str:
    """Return the key prefix of a version's files: "" for the root version (format.md 1.1)."""
    return "" if version_id == FIRST else f"versions/{version_id}/"


def split_chunk(version: str, key: str) -> tuple[str, str] | None:
    """Return tensor key and name of a chunk from its storage key; None for other files."""
    rest, _, name = key[len(folder_of(version)) :].rpartition("/")
    tensor, slash, last = rest.rpartition("/")
    return (tensor, name) if slash and last == "chunks" and tensor else None


class ChunkTable:
    """Chunk index of one tensor joined with the places of its chunks; row r holds samples up to ``ids.last[r]``.

    ``ids`` and ``places`` of a large tensor are in pages; reading either attribute reads all of them.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def ids(self) -> ChunkIds: ...

        @property
        def places(self) -> ChunkPlaces: ...

    def __len__(self) -> int:
        return len(self.ids.ids)

    @property
    def count(self) -> int:
        """Number of samples that the table covers."""
        return self.ids.count

    @property
    def has_stub(self) -> bool:
        """Return whether a version with these chunks has a stub in place of its index, and no `chunk_set`."""
        return len(self) > MOST_WHOLE

    def folder(self, row: int) -> tuple[str, str]:
        """Version id and tensor key of the folder that holds the chunk of a row."""
        return self.places.folders[int(self.places.folder_of[row])]

    def key(self, row: int) -> str:
        """Storage key of the chunk file of a row."""
        commit, tensor = self.places.folders[self.places.folder_of[row]]
        return f"{folder_of(commit)}{tensor}/chunks/{self.ids.ids[row]:x}"

    def page(self, row: int) -> tuple[ChunkTable, int]:
        """Return a table in memory that has a row, and the row's number in that table, whose samples count from 0."""
        return self, row

    def size(self, row: int) -> int:
        """Bytes of the chunk file of a row; 0 if unknown."""
        return int(self.places.sizes[row])

    @property
    def stored_bytes(self) -> int:
        """Bytes of all chunk files whose sizes are known; estimated from the first page if the table is in pages."""
        return int(self.places.sizes.sum())

    def layout(self, row: int) -> Words:
        """Return the layout of the samples of a row's chunk; empty if it is not known."""
        return self.places.layout(row)

    def finder(self) -> Callable[[int], tuple[int, int]]:
        """Return a function that finds the row of a sample, and the sample's position in the chunk.

        The function raises IndexError if the table does not have the sample.
        """
        last = self.ids.last.data  # converting it to a list would cost time and memory for each chunk
        count = len(last)

        def find(sample: int) -> tuple[int, int]:
            row = bisect_left(last, sample)
            if sample < 0 or row == count:
                raise IndexError(f"row {sample} is out of range")
            return row, sample - (last[row - 1] + 1 if row else 0)

        return find

    def locate(self, samples: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of many samples, and the samples' positions in their chunks."""
        rows, places = np.empty(len(samples), np.int64), np.empty(len(samples), np.int64)
        native.locate_rows(self.ids.last, samples, rows, places)
        return rows, places

    @property
    def has_tiles(self) -> bool:
        """Return whether a sample has several chunks."""
        last = self.ids.last
        return len(last) > 1 and bool(np.any(last[1:] == last[:-1]))

    @property
    def own_count(self) -> int:
        """Number of chunks that the `chunk_set` of the version names."""
        return 0 if self.has_stub else self.places.own.tobytes().count(1)

    def identities(
        self, rows: NDArray[np.int64]
    ) -> tuple[Sequence[tuple[str, str]], NDArray[np.int64], NDArray[np.uint64]]:
        """Return folders, and for each of some rows the number of its folder and the id of its chunk."""
        return self.places.folders, self.places.folder_of[rows].astype(np.int64), self.ids.ids[rows]

    def named(self, *, own: bool) -> Iterator[tuple[tuple[str, str], NDArray[np.uint64]]]:
        """Yield each folder with the ids of its chunks; ``own`` omits inherited chunks."""
        places, ids = self.places, self.ids.ids
        folder_of, ids = (places.folder_of[places.own], ids[places.own]) if own else (places.folder_of, ids)
        for at, folder in enumerate(places.folders):
            found = ids[folder_of == at]
            if len(found):
                yield folder, found

    def first(self, row: int) -> int:
        """Return the index of the first sample of a row."""
        return int(self.ids.last[row - 1]) + 1 if row else 0

    def samples(self, row: int) -> int:
        """Count the samples in the chunk of a row (0 for a further tile of the same sample)."""
        last = self.ids.last
        return int(last[row]) - (int(last[row - 1]) if row else -1)

    def sums(self, row: int) -> NDArray[np.uint64]:
        """Block checksums of the chunk of a row; empty if unknown."""
        places = self.places
        if len(self) == 1:
            return places.sums
        return places.sums[places.sum_ends[row] : places.sum_ends[row + 1]]

    def keep(self, rows: int) -> ChunkTable:
        """Return the first ``rows`` rows."""
        if rows == len(self):
            return self
        p, folder_of = self.places, self.places.folder_of[:rows]
        sums = int(p.sum_ends[rows])
        # Drop folders after the last one in use; otherwise a tail chunk that is rewritten often would add a folder
        # each time.
        folders = p.folders[: int(folder_of.max()) + 1] if rows else ()
        layouts = None if p.known_layouts is None else p.known_layouts.cut(0, rows)
        places = ChunkPlaces(folders, folder_of, p.sizes[:rows], p.sums[:sums], p.own[:rows], layouts)
        return ArrayTable(ChunkIds(self.ids.ids[:rows], self.ids.last[:rows]), places)

    def extended(self, added: list[NewChunk], folder: tuple[str, str]) -> ChunkTable:
        """Return the table with new chunks of one folder at its end."""
        if not added:
            return self
        p, n = self.places, len(added)
        folders = p.folders if folder in p.folders else (*p.folders, folder)
        ids, counts, sizes, sums, layouts = zip(*map(_members, added), strict=True)
        _, *last = accumulate(counts, initial=self.ids.count - 1)
        places = ChunkPlaces(
            folders,
            _grown(p.folder_of, [folders.index(folder)] * n),
            _grown(p.sizes, sizes),
            _grown(p.sums, list(chain.from_iterable(sums))),
            _grown(p.own, [True] * n),
            _with_layouts(p, layouts),
        )
        return ArrayTable(ChunkIds(_grown(self.ids.ids, ids), _grown(self.ids.last, last)), places)

    def rebuilt(self, plan: Sequence[tuple[int, int] | NewChunk], folder: tuple[str, str]) -> ChunkTable:
        """Return a table of runs ``(first, stop)`` of this table's rows, and of new chunks in one folder, in order."""
        p, counts = self.places, self.ids.counts
        folders = p.folders if folder in p.folders else (*p.folders, folder)
        at = np.uint32(folders.index(folder))
        ends = p.sum_ends
        columns: list[list[NDArray[Any]]] = [[], [], [], [], [], []]
        layouts: list[Layouts] = []
        known = p.layouts
        for step in plan:
            layouts.append(layouts_of([step.layout]) if isinstance(step, NewChunk) else known.cut(*step))
            if isinstance(step, NewChunk):
                row: tuple[NDArray[Any], ...] = (
                    np.array([step.id], np.uint64),
                    np.array([step.count], np.uint64),
                    np.array([at]),
                    np.array([step.size], np.uint64),
                    np.array(step.sums, np.uint64),
                    np.ones(1, np.bool_),
                )
            else:
                cut = slice(*step)
                sums = p.sums[ends[step[0]] : ends[step[1]]]
                row = (self.ids.ids[cut], counts[cut], p.folder_of[cut], p.sizes[cut], sums, p.own[cut])
            for column, values in zip(columns, row, strict=True):
                column.append(values)
        if not plan:
            return empty_table()
        ids, counts, folder_of, sizes, sums, own = (np.concatenate(column) for column in columns)
        last = np.cumsum(counts, dtype=np.uint64) - np.uint64(1)
        if len(folders) > _MANY_FOLDERS:
            used, renumbered = np.unique(folder_of, return_inverse=True)
            if 2 * len(used) < len(folders):
                folders = tuple(folders[i] for i in used.tolist())
                folder_of = renumbered.astype(np.uint32)
        found = joined(layouts)
        places = ChunkPlaces(folders, folder_of, sizes, sums, own, found if len(found.words) else None)
        return ArrayTable(ChunkIds(ids, last), places)

    def rows_of(self, sample: int) -> range:
        """Return the rows of a sample; a tiled sample has several."""
        last, wanted = self.ids.last, np.uint64(sample)
        first = int(np.searchsorted(last, wanted, side="left"))
        return range(first, max(first + 1, int(np.searchsorted(last, wanted, side="right"))))

    def same_start(self, other: ChunkTable) -> int:
        """Return the number of samples at the start that are in the same chunks in both tables."""
        rows = min(len(self), len(other))
        p, q = self.places, other.places
        numbers = {folder: i for i, folder in enumerate(dict.fromkeys([*p.folders, *q.folders]))}
        mine, its = (
            np.array([numbers[folder] for folder in places.folders], np.int64)[places.folder_of[:rows]]
            if rows
            else np.zeros(0, np.int64)
            for places in (p, q)
        )
        same = (self.ids.ids[:rows] == other.ids.ids[:rows]) & (self.ids.last[:rows] == other.ids.last[:rows])
        same &= mine == its
        alike = rows if same.all() else int(np.argmin(same))
        # Count a sample of several tiles only if all its tiles are the same.
        if 0 < alike < len(self) and self.ids.last[alike] == self.ids.last[alike - 1]:
            return int(self.ids.last[alike])
        return int(self.ids.last[alike - 1]) + 1 if alike else 0

    def owning(self, other: ChunkTable) -> ChunkTable:
        """Return the table ``other`` for this version: chunks that this table lacks count as this version's own."""
        mine = {
            (self.folder(row), int(self.ids.ids[row])): bool(self.places.own[row]) for row in range(len(self))
        }
        own = [mine.get((other.folder(row), int(other.ids.ids[row])), True) for row in range(len(other))]
        return ArrayTable(other.ids, replace(other.places, own=np.array(own, np.bool_)))

    def joined(self, other: ChunkTable, first: int, stop: int) -> ChunkTable:
        """Return the table with rows ``first`` to ``stop`` of another table at its end.

        The chunk files of these rows stay in their folders, and count as the version's own.
        """
        if stop <= first:
            return self
        p, q = self.places, other.places
        folders = (*p.folders, *(f for f in q.folders if f not in p.folders))
        number = np.array([folders.index(f) for f in q.folders], np.uint32)
        ends = q.sum_ends
        shift = np.int64(self.count - other.first(first))
        last = (other.ids.last[first:stop].astype(np.int64) + shift).astype(np.uint64)
        places = ChunkPlaces(
            folders,
            np.concatenate([p.folder_of, number[q.folder_of[first:stop]]]),
            np.concatenate([p.sizes, q.sizes[first:stop]]),
            np.concatenate([p.sums, q.sums[ends[first] : ends[stop]]]),
            np.concatenate([p.own, np.ones(stop - first, np.bool_)]),
            _joined_layouts(p, q.layouts.cut(first, stop)),
        )
        ids = np.concatenate([self.ids.ids, other.ids.ids[first:stop]])
        return ArrayTable(ChunkIds(ids, np.concatenate([self.ids.last, last])), places)

    def tiles_of(self, row: int) -> int:
        """Return the number of rows of the sample that begins with this row; a tiled sample has several."""
        last = self.ids.last
        return int(np.searchsorted(last, last[row], side="right")) - row if self.samples(row) == 1 else 1

    def inherited(self) -> ChunkTable:
        """Return the table as the next version sees it; it owns no chunk but those that no `chunk_set` names."""
        return self if self.has_stub else self._with_own(np.zeros(len(self), dtype=np.bool_))

    def owned(self) -> ChunkTable:
        """Return the table of a version that names every chunk itself."""
        return self._with_own(np.ones(len(self), dtype=np.bool_))

    def _with_own(self, own: NDArray[np.bool_]) -> ChunkTable:
        p = self.places
        return ArrayTable(
            self.ids, ChunkPlaces(p.folders, p.folder_of, p.sizes, p.sums, own, p.known_layouts)
        )


@dataclass(frozen=True, slots=True)
class ArrayTable(ChunkTable):
    """A table in arrays."""

    ids: ChunkIds
    places: ChunkPlaces


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A chunk about to enter a table."""

    id: int
    count: int
    size: int
    sums: list[int]
    layout: Words = field(default_factory=lambda: NO_WORDS)
    """Positions of its samples (see `lakebed.documents.layouts`); empty if they are not recorded."""


_members = attrgetter("id", "count", "size", "sums", "layout")


def _grown(column: NDArray[Any], values: Sequence[int]) -> NDArray[Any]:
    """Return a column with values at its end."""
    before = len(column)
    found = np.empty(before + len(values), column.dtype)
    found[:before] = column
    # Most calls add a single value, and making an array of it would take longer than assigning it.
    if len(values) == 1:
        found[before] = values[0]
    else:
        found[before:] = values
    return found


def _with_layouts(places: ChunkPlaces, added: Sequence[Words]) -> Layouts | None:
    """Return the layouts of chunks followed by the layouts of new chunks; None if no layout is known."""
    known, words = places.known_layouts, sum(map(len, added))
    if words:
        return joined([places.layouts, layouts_of(added)])
    return None if known is None else Layouts(_grown(known.counts, [0] * len(added)), known.words)


def _joined_layouts(places: ChunkPlaces, added: Layouts) -> Layouts | None:
    """Return the layouts of chunks followed by further layouts; None if no layout is known."""
    if places.known_layouts is None and not len(added.words):
        return None
    return joined([places.layouts, added])


def empty_table() -> ChunkTable:
    """Return a table without chunks."""
    u64 = np.empty(0, dtype=np.uint64)
    places = ChunkPlaces((), np.empty(0, dtype=np.uint32), u64, u64, np.empty(0, dtype=np.bool_))
    return ArrayTable(ChunkIds.empty(), places)
