"""Find and remove everything that is not referred to: one full mark and sweep, beside writers and readers.

The order of its steps makes a sweep safe while other processes publish. First everything is listed; objects that appear
later are not touched. Then the locks of all heads are checked, and the tree is read: a writer that was active during
the listing has published by now, or still has a lock. Old versions are ended by removing the file that readers lock, so
no reader can open them any more. Only then the objects to which the tree and all kept versions refer are marked, and
marked again until the tree no longer changes. Objects that are listed but not marked are removed. Versions that came
into the tree after the listing and left it before it was read are kept, too: they inherit listed chunks, and may be
read.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from lakebed import config
from lakebed.documents.chunk_statistics import PREFIX as STATISTICS
from lakebed.documents.chunk_statistics import statistics_key
from lakebed.documents.indexes.pages import FOLDER as PAGES
from lakebed.documents.lock import DatasetLock
from lakebed.documents.saved_views import FILE, FOLDER, SavedViews
from lakebed.documents.version_tree import FIRST, VersionTree
from lakebed.errors import CorruptError, FormatError, KeyNotFound
from lakebed.runtime import clock
from lakebed.storage.base import Stat, Storage, traits_of
from lakebed.storage.concurrently import together
from lakebed.storage.files.orphan_files import remove, remove_temporary, temporary_files
from lakebed.storage.reader_locks import claimed, is_shared
from lakebed.versions.chunk_table import folder_of, split_chunk
from lakebed.versions.gc.mark import LiveChunks, chunk_number, mark, mark_outside, versions_of_views
from lakebed.versions.gc.report import Report
from lakebed.versions.gc.tombstones import DIGITS, YOUNG_SECONDS, Tombstones
from lakebed.versions.locks.marker import LOCK_NAME, is_being_written, may_live, read_lock
from lakebed.versions.opening import TREE_KEY, manifest_key, read_tree, reader_lease_key
from lakebed.versions.refs import read_refs

# While a writer is active, files that the tree does not name may belong to its next publish; files younger than this
# many seconds are kept.
_UNDER_WAY = 300.0
_VERSIONS = "versions/"
_MANIFESTS = manifest_key("")
_STEP = 256
# Seconds by which the clocks of two machines may differ.
_SKEW = 3600.0
# Number of manifests that are read at the same time, and of files that one request removes.
_AT_ONCE = 64
_BULK = 1000
# Name of an object that is written to read the clock of a store.
_CLOCK = ".lakebed/clock"


class _Chunks:
    """The listed chunks of a tensor in the folder of a version: memory holds 24 bytes of each."""

    def __init__(self) -> None:
        self._ids, self._sizes, self._changed = array("Q"), array("Q"), array("d")

    def add(self, number: int, size: int, changed: float) -> None:
        """Add a chunk."""
        self._ids.append(number)
        self._sizes.append(size)
        self._changed.append(changed)

    def garbage(self, prefix: str, live: LiveChunks, version: str, key: str, before: float) -> dict[str, int]:
        """Return the keys and sizes of the chunks that nobody refers to, and that have not changed since a time."""
        ids = np.array(self._ids, np.uint64)
        gone = np.flatnonzero(~live.has(version, key, ids) & (np.array(self._changed) <= before))
        return {f"{prefix}{key}/chunks/{self._ids[at]:x}": self._sizes[at] for at in gone.tolist()}


@dataclass(slots=True)
class _Folder:
    """Files of one version by storage key, and its chunks by tensor."""

    files: dict[str, Stat] = field(default_factory=dict)
    chunks: dict[str, _Chunks] = field(default_factory=dict)
    newest: float = 0.0

    def garbage(self, live: LiveChunks, version: str, before: float = math.inf) -> dict[str, int]:
        """Return the keys and sizes of the chunks that nobody refers to, and that have not changed since a time."""
        found: dict[str, int] = {}
        for key, chunks in self.chunks.items():
            found |= chunks.garbage(folder_of(version), live, version, key, before)
        return found


class Sweep:
    """One mark and sweep, step by step.

    Parameters
    ----------
    grace
        Seconds for which files stay after they were last part of the dataset.
    keep
        Number of versions that left the tree last and stay for ``grace`` seconds; other versions stay only while they
        are being read. None keeps all versions for that time.
    mine
        Branch of the writer that runs this.
    recent
        Examine only the versions that left the tree last, so that the effort does not grow with the history.

    Attributes
    ----------
    ended
        Versions that were removed, except for chunks that others need.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        grace: float,
        keep: int | None = None,
        mine: str | None = None,
        recent: bool = False,
        dry_run: bool = False,
    ) -> None:
        self.ended: list[str] = []
        self.recent = recent
        self.report = Report(storage.url, dry_run=dry_run)
        self._storage = storage
        self._grace = grace
        self._keep = keep if traits_of(storage).reader_leases else None
        self._mine = mine
        self._dry_run = dry_run
        self._now = clock.now()
        self._oldest = self._now
        self._folders: dict[str, _Folder] = {}
        self._manifests: dict[str, Stat] = {}
        self._statistics: dict[str, Stat] = {}
        self._pages: dict[str, Stat] = {}
        self._live = LiveChunks()
        self._seen: set[str] = set()
        self._unlisted_wait = grace
        self._behind = 0.0  # number of seconds by which the clock of the store is behind the local clock
        self._to_remove: list[str] = []  # files that the next request will remove

    def steps(self) -> Iterator[None]:
        """Run the sweep in steps; each takes little time, or a few requests.

        Raises
        ------
        StorageError
            If the storage fails; remaining garbage stays for the next sweep.
        """
        self._compare_clocks()
        yield from self._list()
        try:
            tree = self._marked_heads()
            dead, kept = self._judge(tree, self._pinned())
            passing = self._passing(tree)
        except (FormatError, CorruptError) as error:
            self._give_up(error)
            return
        yield
        try:
            yield from self._mark_tree(tree)
            for version in list(dead):
                why = self._end(version)
                if why:
                    dead.remove(version)
                    kept[version] = why
                yield
            yield from self._mark_outside(kept, passing)
        except (FormatError, CorruptError) as error:
            self._give_up(error)
            return
        for version, why in kept.items():
            self.report.keep("version", version, why)
        if self._live.unknown is not None:
            why = "any of them may be in use until this file is put back, from a backup for example"
            self.report.keep("chunks and pages", "", f"{why}: {self._live.unknown}")
        for version in dead:
            self._remove_version(version)
            yield
        self.ended = dead
        if not self.recent:
            for version in self._live.versions:
                self._remove_chunks(version)
                yield
            self._remove_manifests(set(dead))
            yield
            self._remove_data_of_views()
            yield
            self._remove_statistics()
            yield
            self._remove_pages()
            yield
            self._remove_temporary()
        self._remove_now()

    def _give_up(self, error: FormatError | CorruptError) -> None:
        self.report.keep("everything", "", f"nothing is removed until this is repaired: {error}")

    # -- listing -----------------------------------------------------------------------------------------------

    def _compare_clocks(self) -> None:
        """Read the store's clock, if the store has one."""
        if traits_of(self._storage).reader_leases or self._dry_run:
            return
        self._storage.put(_CLOCK, b"now")
        found = self._storage.stat(_CLOCK)
        self._storage.delete(_CLOCK)
        if found is not None and found.stored:
            self._behind = self._now - found.stored / 1e9

    def _list(self) -> Iterator[None]:
        prefixes = [_VERSIONS, _MANIFESTS, STATISTICS, PAGES]
        if self.recent:
            prefixes = [_VERSIONS + digits for digits in Tombstones.of(read_tree(self._storage)).times]
        for prefix in prefixes:
            for number, (key, stat) in enumerate(self._storage.list(prefix)):
                if prefix == _MANIFESTS:
                    self._manifests[key[len(_MANIFESTS) :]] = stat
                elif prefix == STATISTICS:
                    self._statistics[key] = stat
                elif prefix == PAGES:
                    self._pages[key] = stat
                elif key.count("/") > 1:
                    self._add_file(key, stat)
                if number % _STEP == 0:
                    yield

    def _add_file(self, key: str, stat: Stat) -> None:
        version = key.split("/", 2)[1]
        folder = self._folders.setdefault(version, _Folder())
        chunk = split_chunk(version, key)
        if chunk is None:
            folder.files[key] = stat
        elif (number := chunk_number(chunk[1])) is not None:
            folder.chunks.setdefault(chunk[0], _Chunks()).add(number, stat.size, self._changed(stat))
        folder.newest = max(folder.newest, self._changed(stat))
        self._oldest = min(self._oldest, self._changed(stat))

    def _passing(self, tree: VersionTree) -> list[str]:
        """Return the versions that came into the tree after the listing, and left it before it was read."""
        known = {version[:DIGITS] for version in self._folders}
        prefixes = [_MANIFESTS]
        if self.recent:
            prefixes = [_MANIFESTS + digits for digits in Tombstones.of(tree).times if digits not in known]
        found = [key[len(_MANIFESTS) :] for prefix in prefixes for key, _ in self._storage.list(prefix)]
        unknown = [
            version for version in found if version not in tree.commits and version not in self._folders
        ]
        # The manifest may be the only file that is left of a version.
        stats = together(
            self._storage, [partial(self._storage.stat, reader_lease_key(version)) for version in unknown]
        )
        return [version for version, stat in zip(unknown, stats, strict=True) if stat is not None]

    def _changed(self, stat: Stat) -> float:
        """Return the time of a file's last change in POSIX seconds by the local clock; now if it is unknown."""
        if stat.modified:
            return stat.modified / 1e9
        return stat.stored / 1e9 + self._behind if stat.stored else self._now

    def _stable_tree(self) -> VersionTree:
        """Check the locks of all heads; then read the tree, and return it."""
        tree = read_tree(self._storage)
        busy = True
        for _ in range(10):
            busy = any(self._is_locked(head) for name, head in tree.branches.items() if name != self._mine)
            again = read_tree(self._storage)
            is_stable = again.branches == tree.branches
            tree = again
            if is_stable:
                break
        else:
            busy = True
        if not traits_of(self._storage).reader_leases:
            # On such stores, files become visible in any order, so a publish in progress looks interrupted.
            self._unlisted_wait = max(self._grace, config.GRACE_SECONDS if busy else _UNDER_WAY)
        elif busy:
            self._unlisted_wait = max(self._grace, _UNDER_WAY)
        return tree

    def _is_locked(self, version: str) -> bool:
        return is_being_written(self._storage, version)

    def _is_in_writing(self, version: str, tombstones: Tombstones) -> bool:
        """Return whether a version that is not in the tree is being written."""
        # On stores, the lock of a replaced head is left to expire, so such a lock does not mean that a writer is
        # active.
        is_left = tombstones.lists(version) and read_lock(self._storage, version).digest != ""
        return not is_left and self._is_locked(version)

    def _pinned(self) -> dict[str, str]:
        """Return the versions that saved views and tags name, with the reason, whether or not they are in the tree."""
        views = dict.fromkeys(versions_of_views(self._storage), "a saved view refers to it")
        return views | {
            tag.commit: f"tag {name!r} names it" for name, tag in read_refs(self._storage).tags.items()
        }

    # -- selection ---------------------------------------------------------------------------------------------

    def _judge(self, tree: VersionTree, pinned: dict[str, str]) -> tuple[list[str], dict[str, str]]:
        """Return the versions to end, and the versions outside of the tree that stay, with the reason."""
        dead, kept, tombstones = [], {}, Tombstones.of(tree)
        outside = [version for version in self._folders if version not in tree.commits]
        found = together(
            self._storage, [partial(self._is_in_writing, version, tombstones) for version in outside]
        )
        locked = {version for version, is_locked in zip(outside, found, strict=True) if is_locked}
        for version in outside:
            why = pinned.get(version)
            if why is None and version in locked:
                why = "a writer is at work on it"
            why = why or self._why_kept(version, self._folders[version], tombstones)
            if why is None:
                dead.append(version)
            else:
                kept[version] = why
        return dead, kept

    def _why_kept(self, version: str, folder: _Folder, tombstones: Tombstones) -> str | None:
        rank = tombstones.rank(version)
        left = tombstones.left_at(version)
        if rank is None:
            # The version is not in the list of tombstones any more, or was never in the tree: its writer crashed or
            # lost a race.
            left = max(folder.newest, self._tree_changed() if left is None else left)
        age = max(0.0, self._now - (left or 0.0))
        if rank is not None and self._keep is not None and rank >= self._keep and age > YOUNG_SECONDS:
            return None
        wait = self._unlisted_wait if rank is None else self._grace
        return None if age >= wait else f"within the grace period, for another {wait - age:.0f} s"

    def _tree_changed(self) -> float:
        stat = self._storage.stat(TREE_KEY)
        return self._now if stat is None else self._changed(stat)

    def _end(self, version: str) -> str | None:
        """End a version, so that no reader can open it any more; return the reason if this is impossible, else None."""
        key = reader_lease_key(version)
        if self._dry_run:
            return "somebody reads it" if is_shared(self._storage, key) else None
        if not traits_of(self._storage).reader_leases:
            return None  # stores have no such files; only the age of a version shows that nobody reads it
        with claimed(self._storage, key) as free:
            if free is False:
                return "somebody reads it"
            self._storage.delete(key)
        return None

    # -- marking -----------------------------------------------------------------------------------------------

    def _marked_heads(self) -> VersionTree:
        """Mark all heads of the tree and return the tree; later heads inherit marked chunks or have new chunks.

        Heads are marked first, because a fast writer may replace and collect a head meanwhile; then they are marked
        again.

        Raises
        ------
        FormatError
            If heads are replaced faster than they can be read.
        """
        for _ in range(10):
            tree = self._stable_tree()
            heads = list(tree.branches.values())
            for head in heads:
                self._mark_one(tree, head)
            keys = [reader_lease_key(head) for head in heads if head != FIRST]
            stats = together(self._storage, [partial(self._storage.stat, key) for key in keys])
            if None not in stats or set(heads) <= set(read_tree(self._storage).branches.values()):
                return tree
        raise FormatError("the heads of branches are replaced faster than they can be read")

    def _mark_tree(self, tree: VersionTree) -> Iterator[None]:
        wanted = []
        for version, node in tree.commits.items():
            if self.recent and node.time is not None and node.time < self._oldest - _SKEW:
                # The version is older than all garbage of this sweep, so it cannot refer to this garbage.
                self._seen.add(version)
            elif version not in self._live.versions:
                wanted.append(version)
        step = 1 if traits_of(self._storage).reader_leases else _AT_ONCE
        for at in range(0, len(wanted), step):
            together(
                self._storage, [partial(self._mark_one, tree, version) for version in wanted[at : at + step]]
            )
            yield

    def _mark_outside(self, kept: dict[str, str], passing: list[str]) -> Iterator[None]:
        """Mark kept versions outside of the tree, and the versions that :meth:`_passing` returned."""
        pending = [*kept, *passing]
        while pending:
            version = pending.pop()
            for other in mark_outside(self._storage, version, self._files(version), self._live):
                if other not in self._live.versions:
                    pending.append(other)
                    kept.setdefault(other, "a kept version inherits from it")
            yield
        while True:
            again = read_tree(self._storage)
            known = self._live.versions | self._seen
            new = [version for version in again.commits if version not in known]
            if not new:
                break
            for version in new:
                self._mark_one(again, version)
            yield

    def _mark_one(self, tree: VersionTree, version: str) -> None:
        mark(self._storage, tree, version, self._files(version), self._live)

    def _files(self, version: str) -> list[str]:
        folder = self._folders.get(version)
        if folder is not None:
            return list(folder.files)
        return [] if version == FIRST else [key for key, _ in self._storage.list(folder_of(version))]

    # -- removing ----------------------------------------------------------------------------------------------

    def _remove(self, what: str, name: str, found: Mapping[str, int], why: str) -> None:
        if not found:
            return
        if not self._dry_run and traits_of(self._storage).reader_leases:
            remove(self._storage, found)
        elif not self._dry_run:
            self._to_remove += found
            if len(self._to_remove) >= _BULK:
                self._remove_now()
        self.report.remove(what, name, len(found), sum(found.values()), why)

    def _remove_now(self) -> None:
        to_remove, self._to_remove = self._to_remove, []
        remove(self._storage, to_remove)

    def _remove_version(self, version: str) -> None:
        if version in self._live.versions:
            return  # the version belongs to the tree again
        folder = self._folders[version]
        gone = _sizes(folder.files) | folder.garbage(self._live, version)
        self._remove("version", version, gone, "no branch leads to it")
        if self.recent and not self._dry_run:
            remove(self._storage, [manifest_key(version)])

    def _remove_chunks(self, version: str) -> None:
        folder = self._folders.get(version)
        if folder is None:
            return
        gone = folder.garbage(self._live, version, self._now - self._unlisted_wait)
        if gone and self._is_locked(version):
            self.report.keep("chunks", version, "a writer is at work on it")
            return
        self._remove("chunks", version, gone, "no version refers to them")

    def _remove_manifests(self, dead: set[str]) -> None:
        gone = {
            manifest_key(version): stat.size
            for version, stat in self._manifests.items()
            if version not in self._live.versions
            and (
                version in dead
                or (version not in self._folders and self._now - self._changed(stat) >= self._unlisted_wait)
            )
        }
        self._remove("manifests", "", gone, "their versions no longer exist")

    def _remove_data_of_views(self) -> None:
        before = self._now - max(self._grace, _UNDER_WAY)
        for name, files in left_of_views(self._storage, self._changed, before):
            self._remove("view data", name, _sizes(files), "no saved view refers to them")

    def _remove_statistics(self) -> None:
        """Remove the statistics of tensors that no version contains any more."""
        kept = {statistics_key(tensor) for tensor in self._live.tensors()}
        gone = {
            key: stat.size
            for key, stat in self._statistics.items()
            if self._live.unknown is None
            and key not in kept
            and self._now - self._changed(stat) >= self._unlisted_wait
        }
        self._remove("statistics", "", gone, "no version has their tensors")

    def _remove_pages(self) -> None:
        """Remove the pages of chunk indexes that no version has."""
        gone = {
            key: stat.size
            for key, stat in self._pages.items()
            if not self._live.has_page(key) and self._now - self._changed(stat) >= self._unlisted_wait
        }
        self._remove("pages", "", gone, "no version refers to them")

    def _remove_temporary(self) -> None:
        for key, size, changed in list(temporary_files(self._storage)):
            if self._now - changed >= self._grace:
                if not self._dry_run:
                    remove_temporary(self._storage, key)
                self.report.remove("temporary file", key, 1, size, "its writer has ended")


def _sizes(files: Mapping[str, Stat]) -> dict[str, int]:
    return {key: stat.size for key, stat in files.items()}


# -- data of views ----------------------------------------------------------------------------------------------------


def left_of_views(
    storage: Storage, changed: Callable[[Stat], float], before: float
) -> Iterator[tuple[str, dict[str, Stat]]]:
    """Yield folders with data of views, and their files, to which no saved view refers and which no process uses.

    Parameters
    ----------
    changed
        POSIX seconds of a file's last change.
    before
        A folder with files that changed since then stays.

    Raises
    ------
    FormatError
        If the list of views is damaged.
    """
    listed = dict(storage.list(FOLDER))
    if not listed:
        return
    try:
        # Read the views after the listing, so that views that were saved in the meantime are included.
        views = SavedViews.from_bytes(storage.get(FILE))
    except KeyNotFound:
        views = SavedViews()
    found: dict[str, dict[str, Stat]] = {}
    for key, stat in listed.items():
        if views.owner(key) is None:
            found.setdefault(key[len(FOLDER) :].partition("/")[0], {})[key] = stat
    for name, files in found.items():
        is_old = max(map(changed, files.values())) < before
        if is_old and not any(_is_held(storage, key) for key in files if key.endswith(f"/{LOCK_NAME}")):
            yield name, files


def _is_held(storage: Storage, key: str) -> bool:
    try:
        lock = DatasetLock.from_bytes(storage.get(key))
    except (KeyNotFound, FormatError):
        return False
    return lock.expiry > clock.now() and may_live(lock)
