"""Remove garbage: a writer clears what its own publishes made obsolete, a full sweep clears everything unreferenced.

A writer clears a little at a time. It knows exactly what each of its publishes made obsolete: the metadata of the
replaced head, and chunks that only its own earlier heads had. The garbage of crashes and other writers takes a full
sweep.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakebed import config
from lakebed.documents.indexes.chunk_ids import chunk_name
from lakebed.documents.version_tree import VersionTree
from lakebed.errors import LakebedError
from lakebed.runtime import clock
from lakebed.storage.base import Storage, traits_of
from lakebed.storage.reader_locks import Lease, claimed
from lakebed.versions.chunk_table import INDEX, ChunkTable, folder_of, split_chunk
from lakebed.versions.gc.tombstones import YOUNG_SECONDS, Tombstones
from lakebed.versions.locks.marker import lock_key
from lakebed.versions.opening import lease_version, manifest_key, reader_lease_key
from lakebed.versions.state import Snapshot

if TYPE_CHECKING:
    from lakebed.versions.gc.report import Report
    from lakebed.versions.gc.sweep import Sweep
    from lakebed.versions.page_tree import PageTree
    from lakebed.versions.updates import Update

# Number of publishes between two removals of garbage, so that one removal deletes many heads.
_EVERY = 16
# Numbers of versions left by other writers: from _MANY on, a sweep begins; from _TOO_MANY on, it is completed at
# once.
_MANY = 128
_TOO_MANY = 192
# Maximum number of seconds per publish that are spent on a sweep.
_SLICE_SECONDS = 0.02
# If writers end before they complete a sweep, it becomes overdue; after this many seconds, it is completed at once.
_OVERDUE_SECONDS = 86_400.0


def collect(storage: Storage, *, grace: float | None = None, dry_run: bool = False) -> Report:
    """Remove everything that no branch, tag, commit, saved view or reader refers to.

    Readers and writers may continue meanwhile.

    Parameters
    ----------
    grace
        Seconds for which everything stays after it was last part of the dataset. None is the rule of writers:
        ``config.GRACE_SECONDS`` or, if the storage knows its readers, until ``config.KEEP_HEADS`` newer heads exist.
    dry_run
        Only report what would be removed.

    Raises
    ------
    DatasetNotFoundError
        If the storage contains no dataset.
    DatasetCorruptError
        If the version tree, or the file of the tags, is damaged.
    StorageError
        If the storage fails; remaining garbage stays for the next collection.
    """
    from lakebed.versions.gc.sweep import Sweep

    if grace is None:
        sweep = Sweep(storage, grace=config.GRACE_SECONDS, keep=config.KEEP_HEADS, dry_run=dry_run)
    else:
        sweep = Sweep(storage, grace=grace, dry_run=dry_run)
    for _ in sweep.steps():
        pass
    return sweep.report


@dataclass(slots=True)
class _Head:
    """A head that was replaced; obsolete chunks carry the numbers of the first and the last head that had them."""

    id: str
    number: int
    time: float
    chunks: list[tuple[str, int, int]] = field(default_factory=list)
    files: tuple[str, ...] = ()
    """The head's metadata files, if listing them would take a request."""


class Collector:
    """A remover of the garbage of one writer's publishes.

    Parameters
    ----------
    storage
        Storage of the dataset.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._knows_readers = traits_of(storage).reader_leases
        self._number = 0
        # Heads that this writer made since the last commit; no other branch uses files in the folders of these heads.
        self._line: dict[str, int] = {}
        self._pages: dict[
            str, int
        ] = {}  # pages that were written with these heads, with the number of the head
        self._heads: deque[_Head] = deque()
        self._read: list[_Head] = []
        self._chunks: list[str] = []
        self._folders: set[str] = set()  # folders from which files were removed, so that they may be empty
        self._gone: set[str] = set()
        self._recorded: set[str] = set()
        self._publishes = 0
        self._tombstones = Tombstones()
        self._sweep: Sweep | None = None
        self._steps: Iterator[None] = iter(())
        self._more = 0
        self._swept: float | None = None
        self._sweep_requested = False
        self.reading: Lease | None = None

    def enter(self, version: str) -> None:
        """Lease a version before any of its content is read, and release the version leased before.

        Raises
        ------
        VersionReplaced
            If the version was collected since the tree was read.
        """
        self.reading = lease_version(self._storage, version)
        if version not in self._line:
            self._line, self._pages = {}, {}

    def forget(self) -> None:
        """Leave all garbage to the parent process, after a fork; keep the lease of the version that is read."""
        reading = self.reading
        self.__init__(self._storage)  # type: ignore[misc]
        self.reading = reading

    @property
    def waiting(self) -> int:
        """Count the replaced heads that still exist."""
        return len(self._heads) + len(self._read)

    # -- garbage of this writer's publishes --------------------------------------------------------------------

    def request_sweep(self) -> None:
        """Request a full sweep for the garbage of a crashed writer, once the grace period is over."""
        self._sweep_requested = True

    def updates(self, tree: VersionTree, branch: str) -> list[Update]:
        """Return the updates by which the next publish records the collected versions.

        Garbage that is due at once is collected first, because a writer that publishes only once could not record it
        later.

        Parameters
        ----------
        tree
            The current tree.
        branch
            Branch of this writer.
        """
        from lakebed.versions.updates import DropTombstones, RequestSweep

        if not self._publishes:
            self._tombstones = Tombstones.of(tree)
        wanted = self._wanted(self._tombstones)
        if wanted is not None and wanted[1]:
            self._try(lambda: self._go_on_sweeping(wanted, branch))
        self._recorded = set(self._gone)
        found: list[Update] = []
        if self._gone or self._swept:
            found.append(DropTombstones(frozenset(self._gone), self._swept))
        if self._sweep_requested:
            found.append(RequestSweep(clock.now() + config.GRACE_SECONDS))
        return found

    def published(self, old: Snapshot, new: Sequence[Snapshot], tree: VersionTree, branch: str) -> None:
        """Record a publish, lease its version, and remove due garbage; see :meth:`superseded`, :meth:`run`."""
        self.superseded(old, new, tree)
        try:
            self.reading = lease_version(self._storage, new[-1].version_id)
        except LakebedError as error:
            self.reading = None
            import logging

            logging.getLogger(__name__).warning("%s is read without a lease: %s", self._storage.url, error)
        self.run(tree, branch)

    def superseded(self, old: Snapshot, new: Sequence[Snapshot], tree: VersionTree) -> None:
        """Record a publish: the versions ``new``, the last of which is the new head, replaced the head ``old``.

        Parameters
        ----------
        tree
            The current tree.
        """
        self._gone, self._swept, self._sweep_requested, self._recorded = (
            self._gone - self._recorded,
            None,
            False,
            set(),
        )
        self._number += 1
        head = new[-1]
        self._tombstones = Tombstones.of(tree)
        is_gone = self._tombstones.lists(old.version_id)
        if is_gone:
            last = self._number - 1
            chunks = [(key, first, last) for key, first in self._dropped(old, new)]
            files = () if self._knows_readers else _files_of(old)
            self._heads.append(_Head(old.version_id, last, clock.now(), chunks, files))
        if len(new) > 1 or not is_gone:
            self._pages = {}
            self._line = {}  # these chunks now belong to a commit
        elif head.origin is not None:
            # A head may also have got pages of a commit, by a reset for example.
            self._pages.update(dict.fromkeys(head.origin.written, self._number))
        self._line[head.version_id] = self._number

    def _dropped(self, old: Snapshot, new: Sequence[Snapshot]) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for key, state in old.tensors.items():
            trees = _trees(key, [old, *new])
            if trees is not None:
                found += self._dropped_pages(*trees)
                chunks = _chunks_not_in(*trees)
            else:
                tables = {id(v.tensors[key].table.ids): v.tensors[key].table for v in new if key in v.tensors}
                rows = _rows_not_in(state.table, list(tables.values()))
                chunks = ((state.table.folder(row), int(state.table.ids.ids[row])) for row in rows)
            for (version, tensor), chunk in chunks:
                number = self._line.get(version)
                if number is not None:
                    found.append((f"{folder_of(version)}{tensor}/chunks/{chunk_name(chunk)}", number))
        return found

    def _dropped_pages(self, old: PageTree, *new: PageTree) -> list[tuple[str, int]]:
        """Return the pages that were written with this writer's heads, and that the last head lacks."""
        from lakebed.documents.indexes.pages import key_of

        gone = [key_of(entry) for entry in old.without(new)]
        return [(key, self._pages[key]) for key in gone if key in self._pages]

    # -- removing ----------------------------------------------------------------------------------------------

    def run(self, tree: VersionTree, branch: str) -> None:
        """Remove due garbage every few publishes; errors of the storage are logged, and the garbage stays.

        Parameters
        ----------
        tree
            The current tree.
        branch
            Branch of this writer.
        """
        self._publishes += 1
        if self._publishes % _EVERY:
            return
        self._try(lambda: self._remove_heads(tree))
        self._try(self._prune)
        wanted = self._wanted(self._tombstones)
        if wanted is not None or self._sweep is not None:
            self._try(lambda: self._go_on_sweeping(wanted or (False, False), branch))

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except LakebedError as error:
            self._sweep = None
            import logging

            logging.getLogger(__name__).warning("garbage of %s stays for now: %s", self._storage.url, error)

    def _prune(self) -> None:
        from lakebed.storage.files.orphan_files import prune

        folders, self._folders = self._folders, set()
        prune(self._storage, folders)

    def _is_due(self, head: _Head, newer: int) -> bool:
        age = clock.now() - head.time
        if age > config.GRACE_SECONDS:
            return True
        return self._knows_readers and newer >= config.KEEP_HEADS and age > YOUNG_SECONDS

    def _remove_heads(self, tree: VersionTree) -> None:
        from lakebed.storage.files.orphan_files import remove

        for head in list(self._read):
            if self._end(head):
                self._read.remove(head)
        tombstones = self._tombstones
        while self._heads and self._is_due(self._heads[0], len(self._heads) - 1):
            head = self._heads[0]
            if (tombstones.lists(head.id) or head.id not in tree.commits) and not self._end(head):
                self._read.append(head)
            self._heads.popleft()
        if not self._knows_readers:
            if self._chunks:
                remove(self._storage, self._chunks)
            self._chunks = []
        while self._chunks:
            self._delete(self._chunks[-1])
            self._chunks.pop()

    def _delete(self, *keys: str) -> None:
        for key in keys:
            self._storage.delete(key)
            self._folders.add(key.rpartition("/")[0])

    def _end(self, head: _Head) -> bool:
        """Remove a head's metadata, and schedule its chunks; return False if it is being read."""
        if not self._knows_readers:
            self._end_by_time(head)
            return True
        folder = folder_of(head.id)
        held = reader_lease_key(head.id)
        with claimed(self._storage, held) as free:
            if free is False or (free is None and clock.now() - head.time <= config.GRACE_SECONDS):
                return False
            others = [
                key
                for key, _ in self._storage.list(folder)
                if key != held and split_chunk(head.id, key) is None
            ]
            self._delete(held, *others, manifest_key(head.id))
        self._gone.add(head.id)
        for key, first, last in head.chunks:
            # Keep the chunk if another head that has it is still being read.
            holders = (r for r in self._read if r is not head and first <= r.number <= last)
            reader = next(holders, None)
            if reader is None:
                self._chunks.append(key)
            else:
                reader.chunks.append((key, first, last))
        return True

    def _end_by_time(self, head: _Head) -> None:
        """Schedule the removal of all files of a head: its grace period is over, and its readers are unknown."""
        folder = folder_of(head.id)
        keys = [folder + name for name in head.files]
        if not keys:
            keys = [key for key, _ in self._storage.list(folder) if split_chunk(head.id, key) is None]
        keys += [lock_key(head.id), manifest_key(head.id), *(key for key, _, _ in head.chunks)]
        self._gone.add(head.id)
        self._chunks += dict.fromkeys(keys)

    # -- garbage of other writers ------------------------------------------------------------------------------

    def _wanted(self, tombstones: Tombstones) -> tuple[bool, bool] | None:
        """Return (whether the sweep covers all versions, whether it is completed at once); None if no sweep is due."""
        now = clock.now()
        if tombstones.since is not None and now >= tombstones.sweep:
            return True, now >= tombstones.sweep + _OVERDUE_SECONDS
        left = tombstones.left - self.waiting if self._knows_readers else 0
        return (False, left >= _TOO_MANY) if left >= _MANY + self._more else None

    def _go_on_sweeping(self, wanted: tuple[bool, bool], branch: str) -> None:
        whole, at_once = wanted
        from lakebed.versions.gc.sweep import Sweep

        if self._sweep is None:
            grace, keep = config.GRACE_SECONDS, config.KEEP_HEADS
            self._sweep = Sweep(self._storage, grace=grace, keep=keep, mine=branch, recent=not whole)
            self._steps = self._sweep.steps()
        stop = clock.monotonic() + _SLICE_SECONDS
        for _ in self._steps:
            if not at_once and clock.monotonic() > stop:
                return
        self._gone.update(self._sweep.ended)
        if not self._sweep.recent:
            self._swept = clock.now()
        # Items that this sweep kept do not justify another sweep, so wait until more items are added.
        self._more = min(_MANY, len(self._sweep.report.kept))
        self._sweep = None


def _files_of(head: Snapshot) -> tuple[str, ...]:
    """Return the names of the metadata files with which a head was published; empty if they are unknown."""
    origin = head.origin
    if origin is None or origin.version_id != head.version_id:
        return ()
    return tuple(map(sys.intern, [*origin.files, *(f"{key}/{INDEX}" for key in origin.trees)]))


def _trees(key: str, versions: Sequence[Snapshot]) -> list[PageTree] | None:
    """Return the pages of a tensor in some stored versions; None if one of the versions has no pages of it."""
    found = []
    for version in versions:
        tree = None if version.origin is None else version.origin.trees.get(key)
        if tree is None or version.origin is None or version.origin.version_id != version.version_id:
            return None
        found.append(tree)
    return found


def _chunks_not_in(old: PageTree, *new: PageTree) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield folders and ids of the chunks that only the first tree has."""
    others = {number for tree in new for _, number in tree.chunks(tree.without([old]))}
    yield from (chunk for chunk in old.chunks(old.without(new)) if chunk[1] not in others)


def _rows_not_in(old: ChunkTable, tables: Sequence[ChunkTable]) -> list[int]:
    """Return the rows of a table whose chunks no other table has; tables mostly start with the same chunks."""
    ids = old.ids.ids
    alike, rest = len(ids), set[int]()
    for table in tables:
        other = table.ids.ids
        if other is ids or (len(other) >= len(ids) and other[: len(ids)].tobytes() == ids.tobytes()):
            return []
        common = min(len(ids), len(other))
        differs = ids[:common] != other[:common]
        if common and differs[first := int(differs.argmax())]:
            common = first
        alike = min(alike, common)
    if tables and alike == len(ids):
        return []
    if tables:
        for table in tables:
            rest.update(table.ids.ids[alike:].tolist())
    else:
        alike = 0
    return [row for row, number in enumerate(ids[alike:].tolist(), alike) if number not in rest]
