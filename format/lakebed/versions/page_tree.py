"""The pages of one tensor's chunk index, a tree in storage: read when they are needed; see `documents.indexes.pages`.

Pages and lists are never replaced, and each name is written only once, so versions share equal pages and lists.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lakebed import limits
from lakebed.documents.indexes import pages
from lakebed.documents.indexes.pages import ENTRY, Entries, key_of
from lakebed.errors import CorruptError, FormatError, KeyNotFound, LakebedError
from lakebed.runtime import process_hooks
from lakebed.storage.base import Storage, is_cache, traits_of
from lakebed.storage.concurrently import concurrently, together
from lakebed.versions.chunk_table import ArrayTable
from lakebed.versions.tree_file import ADVICE, error_if_deleted

# Number of pages and lists of 60 kB that stay in memory: two windows of a shuffled epoch use 256 pages.
_KEPT = 300
# Number of pages that are read side by side, and of those that a scan over a network reads side by side.
_AT_ONCE = 64
_AHEAD = 8

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

    def read_ahead(self, entries: Entries) -> None:
        """Read some pages side by side, unless the first one is in memory; a page that cannot be read is left out."""
        with _mutex:
            is_known = key_of(entries[0]) in self._kept or key_of(entries[0]) in self._unwritten

        def read(entry: np.void) -> None:
            with suppress(LakebedError):
                self.page(entry)

        if not is_known and not traits_of(self.storage).local:
            concurrently([partial(read, entry) for entry in entries])

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

    def names(self, start: int) -> set[bytes]:
        """Return the bytes of each entry from one on, by which the same entry is found in another tree."""
        return {entry.tobytes() for entry in self.entries[start:]}


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
                if self._last is not None and row == self._last.row + len(self._last.page):
                    self.store.read_ahead(listed.entries[at : at + _AHEAD])
                return Place(self.store.page(listed.entries[at]), row, sample)
            listed = self.store.list(listed.entries[at])

    def shared(self, other: PageTree) -> tuple[int, int]:
        """Count the rows and samples of the first pages that both trees have; equal lists are not read."""
        at = self._alike(other, "digest")
        rows, samples = int(self.root.rows[at]), int(self.root.samples[at])
        for entry, theirs in zip(self._entries_from(at), other._entries_from(at), strict=False):
            if entry["digest"] != theirs["digest"]:
                break
            rows, samples = rows + int(entry["rows"]), samples + int(entry["samples"])
        return rows, samples

    def _alike(self, other: PageTree, *columns: str) -> int:
        """Count the first entries of both manifests that agree in some columns."""
        mine, its = self.root.entries, other.root.entries
        count = min(len(mine), len(its))
        differs = np.zeros(count, np.bool_)
        for column in columns:
            differs |= mine[column][:count] != its[column][:count]
        return int(differs.argmax()) if differs.any() else count

    def _entries_from(self, at: int) -> Iterator[np.void]:
        for number, entry in enumerate(self.root.entries[at:], at):
            yield from self.store.list(entry).entries if number < self.lists else [entry]

    def entries(self) -> Entries:
        """Return the entries of all pages."""
        return self._spanned(0, self.rows)[0]

    def _spanned(self, first: int, end: int) -> tuple[Entries, NDArray[np.int64]]:
        """Return the entries of at least the pages with rows ``first`` to ``end``, and the first row of each page.

        The needed lists are read in parallel.

        Raises
        ------
        LimitError
            If the entries take more memory than this process allows: a list may be named many times.
        """
        rows = self.root.rows
        low = int(np.searchsorted(rows[1:], first, side="right"))
        chosen = self.root.entries[low : int(np.searchsorted(rows[:-1], end))]
        lists = max(0, min(self.lists - low, len(chosen)))
        steps = [partial(self.store.list, entry) for entry in chosen[:lists]]
        found = [listed.entries for listed in together(self.store.storage, steps)]
        nbytes = ENTRY.itemsize * (sum(map(len, found)) + len(chosen) - lists)
        limits.check("MAX_ENCODER_BYTES", nbytes, "chunks_index: names of pages")
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

    def tables(
        self, runs: Sequence[tuple[int, int]], known: set[str] | None = None
    ) -> Iterator[tuple[ArrayTable, int, int]]:
        """Yield (page, first row, end) for each page with rows of the runs; the rows are numbered within the page.

        Up to ``_AT_ONCE`` pages are read in parallel.

        Parameters
        ----------
        known
            Keys of pages to leave out; keys of the pages that lie inside of a run are added.
        """
        for first, end in runs:
            entries, starts = self._spanned(first, end)
            wanted = np.flatnonzero((starts[:-1] < end) & (starts[1:] > first))
            if known is not None:
                keys = [key_of(entries[number]) for number in wanted.tolist()]
                wanted = wanted[[key not in known for key in keys]]
                is_inside = (starts[:-1] >= first) & (starts[1:] <= end)
                known.update(key_of(entries[number]) for number in wanted[is_inside[wanted]].tolist())
            for at in range(0, len(wanted), _AT_ONCE):
                some = wanted[at : at + _AT_ONCE].tolist()
                steps = [partial(self.store.page, entries[number]) for number in some]
                for number, page in zip(some, together(self.store.storage, steps), strict=True):
                    start = int(starts[number])
                    yield page, max(0, first - start), min(len(page), end - start)

    def damaged(self) -> Iterator[tuple[int, int, np.void, CorruptError]]:
        """Yield the first row and sample, the entry, and the damage of the pages and lists that cannot be read."""
        row, sample = 0, 0
        for number, root in enumerate(self.root.entries):
            entries: Iterable[np.void] = [root]
            read: Callable[[np.void], object]
            try:
                entries = self.store.list(root).entries if number < self.lists else entries
                read = self.store.page
            except CorruptError:
                read = self.store.list  # again, to yield the error
            for entry in entries:
                try:
                    read(entry)
                except CorruptError as error:
                    yield row, sample, entry, error
                row, sample = row + int(entry["rows"]), sample + int(entry["samples"])

    def keys(self, known: set[str], *, damaged: bool = False) -> None:
        """Add the keys of all pages and lists to ``known``; lists whose keys it contains already are not read again.

        Parameters
        ----------
        damaged
            Leave out the pages of lists that cannot be read, instead of raising the error.
        """
        left_out = (CorruptError,) if damaged else ()
        for number, entry in enumerate(self.root.entries):
            key = key_of(entry)
            if number < self.lists and key not in known:
                with suppress(*left_out):
                    known.update(map(key_of, self.store.list(entry).entries))
            known.add(key)

    def without(self, others: Sequence[PageTree]) -> list[np.void]:
        """Return the entries of the pages that no other tree has."""
        start = min((self._alike(other, "digest", "writer") for other in others), default=0)
        mine = self.root.names(start)
        shared = set[bytes]().union(*(other.root.names(start) for other in others))
        theirs = set[bytes]().union(*(other.pages(mine, start) for other in others))
        left = self.pages(shared, start)
        return [entry for name, entry in left.items() if name not in theirs]

    def chunks(self, entries: Sequence[np.void]) -> Iterator[tuple[tuple[str, str], int]]:
        """Yield folders and ids of the chunks of some pages."""
        for page in map(self.store.page, entries):
            for folder, ids in page.named(own=False):
                yield from ((folder, number) for number in ids.tolist())

    def pages(self, known: set[bytes], start: int) -> dict[bytes, np.void]:
        """Return the entries of pages by their bytes, from an entry of the manifest on.

        Pages in lists whose own entry is in ``known`` are left out.
        """
        found = list(self.root.entries[max(start, self.lists) :])
        for entry in self.root.entries[start : self.lists]:
            if entry.tobytes() not in known:
                found += list(self.store.list(entry).entries)
        return {entry.tobytes(): entry for entry in found}
