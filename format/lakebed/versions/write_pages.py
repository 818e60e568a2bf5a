"""Writing of chunk tables in pages: a publish writes the pages and lists that changed; the manifest names them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.indexes import pages
from lakebed.documents.indexes.chunk_ids import ChunkIds
from lakebed.documents.indexes.pages import ENTRY, key_of
from lakebed.documents.manifest import ChunkPlaces
from lakebed.storage.base import Storage
from lakebed.versions.chunk_table import ArrayTable, ChunkTable, empty_table
from lakebed.versions.page_tree import Listed, PageStore, PageTree
from lakebed.versions.paged import IndexFile, PagedTable

# A manifest names at most about this many pages, the last ones, individually; for earlier pages, it names lists of
# pages.
_MOST_LOOSE = 512

Done: TypeAlias = "list[tuple[tuple[PageTree | None, ChunkIds], tuple[PageTree, bytes]]]"


@dataclass(frozen=True, slots=True)
class Stored:
    """A table whose rows are all in pages, and the objects to write for it.

    Parameters
    ----------
    items
        New pages and lists by key, and the index file, which may be a stub, unless it is a copy.
    copied
        Key of the file of which the index file is a copy, or None.
    """

    table: PagedTable
    items: list[tuple[str, bytes]]
    copied: str | None


def stored(
    storage: Storage, table: ChunkTable, before: PageTree | None, place: tuple[str, str], done: Done
) -> Stored:
    """Put all rows of a table into pages.

    Parameters
    ----------
    before
        The tree of the version from which the present version is made: its pages are not written again.
    place
        The version, and the key of the tensor.
    done
        Trees and index files of tables of the same publish; those of ``table`` are added.
    """
    is_whole = not table.has_stub
    if isinstance(table, PagedTable) and table.is_stored and is_whole:
        index = IndexFile(*place, table.index.nbytes, table.index.digest)
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
        data = _whole_index(table) if is_whole else b""
        made = _stored_rows(storage, table, before, items), data
        done.append(((tree, ids), made))
    new, data = made
    described = (len(data), pages.index_digest(data)) if is_whole else pages.NO_INDEX
    found = PagedTable(new, empty_table(), own, table.has_tiles, IndexFile(*place, *described))
    items.append((found.index.key, data if is_whole else found.index_bytes()))
    return Stored(found, items, None)


def _whole_index(table: ChunkTable) -> bytes:
    return table.whole_index() if isinstance(table, PagedTable) else table.ids.to_bytes()


def _stored_rows(
    storage: Storage, table: ChunkTable, before: PageTree | None, items: list[tuple[str, bytes]]
) -> PageTree:
    """Return the tree with all rows of a table; add the new pages and lists to ``items``."""
    if isinstance(table, PagedTable):
        old = table.tree.root.entries[table.tree.lists :]
        if len(table.tail):
            table = table.reopened()
        tree, rest = table.tree, table.tail
    else:
        old = np.empty(0, ENTRY) if before is None else before.entries()
        store = PageStore(storage) if before is None else before.store
        tree, rest = PageTree(store, np.empty(0, ENTRY), 0), table
    if len(rest):
        tree = _grown(tree, rest, {entry["digest"].tobytes(): entry for entry in old}, items)
    return tree


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
    return with_lists(PageTree(tree.store, np.concatenate(found), tree.lists), writer, items)


def with_lists(tree: PageTree, writer: bytes, items: list[tuple[str, bytes]]) -> PageTree:
    """Return a tree with its pages in lists, apart from the last ones; add the new lists to ``items``."""
    entries, lists = tree.root.entries, tree.lists
    loose = entries[lists:]
    if len(loose) <= _MOST_LOOSE:
        return tree
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
