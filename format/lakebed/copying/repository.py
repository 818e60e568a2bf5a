"""A repository of backups: each point appears complete or not at all, and one process at a time adds points.

All visible changes are made by one conditional put of the catalog. A run stores contents under names of its own, never
replaces a content, and reuses only contents of listed points. So a process that was taken for dead and continues does
no harm: its publish is refused, and no other run uses the contents that it removes.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from lakebed import config
from lakebed.copying.retention import Point, Retention, kept_points
from lakebed.documents import json_style
from lakebed.documents.backup import (
    CATALOG_KEY,
    OBJECTS,
    BackupPoint,
    Catalog,
    FileList,
    Run,
    StoredFile,
    point_key,
)
from lakebed.errors import (
    ChecksumError,
    DatasetNotFoundError,
    FormatError,
    KeyNotFound,
    LeaseLost,
    LockedException,
    PathNotEmptyException,
)
from lakebed.runtime import clock, process_hooks
from lakebed.storage.base import Storage, is_bulk, traits_of
from lakebed.storage.files.orphan_files import remove, remove_temporary, temporary_files
from lakebed.storage.lock import Owner, WriterLock
from lakebed.storage.shared_files import change_file

_LOCK = "backup"
# Size of the first read of the catalog: large enough for thousands of backups, so one request is enough.
_CATALOG_BYTES = 1 << 22
# Seconds between records of progress: a killed backup loses at most this much work.
_EVERY = 3.0

_log = logging.getLogger(__name__)

Edit = Callable[[Catalog], Catalog]


def sha256(data: bytes) -> str:
    """Return the checksum that identifies contents."""
    return hashlib.sha256(data).hexdigest()


class Repository:
    """A repository of backups in a storage.

    Parameters
    ----------
    storage
        Storage of the backups.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    @property
    def url(self) -> str:
        """Address, for messages."""
        return self.storage.url

    # -- reading -----------------------------------------------------------------------------------------------

    def catalog(self) -> Catalog:
        """Read the list of points.

        Raises
        ------
        DatasetNotFoundError
            If no backup was ever made here.
        ChecksumError
            If the catalog is damaged.
        """
        catalog, etag = self._read()
        if etag is None:
            raise DatasetNotFoundError(
                f"there are no backups at {self.url}: check the address, or make one with lakebed.backup"
            )
        return catalog

    def _read(self) -> tuple[Catalog, str | None]:
        try:
            found = self.storage.get_tail(CATALOG_KEY, _CATALOG_BYTES)
            if len(found.data) < found.stat.size:
                found = self.storage.get_tail(CATALOG_KEY, found.stat.size)
            return Catalog.from_bytes(found.data), found.stat.etag
        except KeyNotFound:
            return Catalog(), None
        except FormatError as error:
            raise ChecksumError(
                f"{CATALOG_KEY} of the backups at {self.url} can not be read: {error}. The points themselves are "
                f"whole: `lakebed restore {self.url} DEST --at ID` restores each; the ids are the names in "
                "points/. Make further backups at another place",
                dataset=self.url,
            ) from error

    def files(self, id: str) -> FileList:  # noqa: A002
        """Read the list of files of a point.

        Raises
        ------
        ChecksumError
            If the list is missing or damaged.
        """
        try:
            return FileList.from_bytes(self.storage.get(point_key(id)))
        except KeyNotFound:
            why = "it is missing"
        except FormatError as error:
            why = str(error)
        raise ChecksumError(
            f"{point_key(id)} of the backups at {self.url} can not be read: {why}. This point can not be restored; "
            "other points can",
            dataset=self.url,
        )

    # -- changing the catalog ----------------------------------------------------------------------------------

    def change(self, edit: Edit) -> Catalog:
        """Replace the catalog by an edited one, based on its latest state.

        Parameters
        ----------
        edit
            Returns the new catalog; called with its own result, it returns that unchanged.

        Raises
        ------
        CommitFailed
            If other processes replace the catalog all the time; nothing was changed.
        CommitStateUnknown
            If the store's answer was lost, and reading again gives no certainty.
        """
        return change_file(
            self.storage,
            CATALOG_KEY,
            read=lambda: self._read()[0],
            edit=edit,
            dump=Catalog.to_bytes,
            advice="repeat the backup, which continues",
        )[1]

    # -- one run -----------------------------------------------------------------------------------------------

    @contextmanager
    def running(self, source: str) -> Iterator[BackupRun]:
        """Begin the only backup that may run here, or take over an interrupted one.

        Parameters
        ----------
        source
            Address of the dataset, for a new repository.

        Raises
        ------
        LockedException
            If another process makes a backup here, or may be alive.
        PathNotEmptyException
            If a new repository holds other files.
        """
        self._check_place()
        lock = WriterLock(self.storage, _LOCK)
        try:
            lock.acquire()
        except LockedException as error:
            raise LockedException(
                f"another backup to {self.url} is being made; wait for its end. ({error})"
            ) from error
        with lock:
            run = self._begin(source)
            run.resume()
            if any(point.id == run.id for point in self.catalog().points):
                # Only removals are left to do, because the backup was interrupted after it was published.
                run.finish()
                run = self._begin(source)
                run.resume()
            yield run

    def _check_place(self) -> None:
        if self.storage.stat(CATALOG_KEY) is not None:
            return
        other = next((key for key, _ in self.storage.list("") if not key.startswith(".lakebed/")), None)
        if other is not None:
            raise PathNotEmptyException(
                f"{self.url} holds other files ({other}) and no backups; choose an empty or new place for the backups"
            )

    def _begin(self, source: str) -> BackupRun:
        me, token = Owner.me(), secrets.token_hex(8)
        fresh = Run(secrets.token_hex(6), token, me.pid, me.host, me.node, me.boot, clock.now())

        def edit(catalog: Catalog) -> Catalog:
            before = catalog.run
            if before is None:
                return replace(catalog, run=fresh, source=catalog.source or source)
            if before.token != token and self._may_live(before, me):
                raise LockedException(
                    f"another backup to {self.url} is being made by process {before.pid} on {before.host}, last "
                    f"seen {max(0, round(clock.now() - before.seen))} s ago; wait for its end. If it was killed, "
                    f"a new backup can begin {config.LEASE_SECONDS:g} s after it was last seen"
                )
            return replace(catalog, run=replace(fresh, id=before.id))

        run = self.change(edit).run or fresh
        if run.id != fresh.id:
            for key, _, _ in list(temporary_files(self.storage)):
                remove_temporary(self.storage, key)  # left by the interrupted process
        return BackupRun(self, run)

    def _may_live(self, run: Run, me: Owner) -> bool:
        """Tell whether the process of a run may be alive."""
        if traits_of(self.storage).system_locks:
            return False  # this process holds the lock, so the other one has ended
        is_here = (run.host, run.node, run.boot) == (me.host, me.node, me.boot)
        if is_here and (run.pid == me.pid or not process_hooks.is_alive(run.pid)):
            return False
        return clock.now() - run.seen < config.LEASE_SECONDS


class BackupRun:
    """A running backup.

    Parameters
    ----------
    repository
        Repository to which the backup is added.
    run
        Entry of the backup in the catalog.

    Attributes
    ----------
    done
        Files stored by earlier attempts, by key and etag in the source.
    present
        Sizes of all stored contents, by key.
    """

    def __init__(self, repository: Repository, run: Run) -> None:
        self._repository, self._storage = repository, repository.storage
        self._run = run
        self._mutex = threading.Lock()
        self._fresh: list[StoredFile] = []
        self._written = time.monotonic()
        self._seen = clock.monotonic()
        self._number = 0
        self.done: dict[tuple[str, str], StoredFile] = {}
        self.present: dict[str, int] = {}

    @property
    def id(self) -> str:
        """Id of the point that the backup will become."""
        return self._run.id

    @property
    def storage(self) -> Storage:
        """The storage of the repository."""
        return self._storage

    @property
    def _journal(self) -> str:
        return f"runs/{self.id}/"

    def resume(self) -> None:
        """Read the stored contents, and the journal of earlier attempts."""
        self.present = {key: stat.size for key, stat in self._storage.list(OBJECTS)}
        for key in [key for key, _ in self._storage.list(self._journal)]:
            for file in _entries(self._storage.get(key), self.id):
                if self.has(file):
                    self.done[file.key, file.etag] = file

    def has(self, file: StoredFile) -> bool:
        """Tell whether the content of a file is stored with its full length."""
        return self.present.get(file.object) == file.size

    def note(self, files: Sequence[StoredFile]) -> None:
        """Record arrived files every few seconds, and the time of this process's last activity.

        Raises
        ------
        LeaseLost
            If another process has taken over.
        """
        with self._mutex:
            self._fresh += files
            if time.monotonic() - self._written > _EVERY:
                self._write()
            if abs(clock.monotonic() - self._seen) > config.LEASE_SECONDS / 8:
                self._seen = clock.monotonic()
                self._repository.change(
                    lambda catalog: replace(
                        self._checked(catalog), run=replace(self._run, seen=round(clock.now()))
                    )
                )

    def flush(self) -> None:
        """Sync the files that have arrived, then record them."""
        with self._mutex:
            self._write()

    def _write(self) -> None:
        mine = [file for file in self._fresh if file.run == self.id]
        if mine:
            self._storage.sync(sorted({file.object for file in mine}))
        done = [[file.key, file.etag, file.size, file.digest] for file in mine if file.etag]
        if done:
            self._number += 1
            name = f"{self._journal}{self._number:06d}-{uuid.uuid4().hex[:12]}.json"
            self._storage.put(name, json.dumps({"done": done}).encode())
        self._fresh = []
        self._written = time.monotonic()

    def _checked(self, catalog: Catalog) -> Catalog:
        """Return the catalog if it still names this run.

        Raises
        ------
        LeaseLost
            If another process has taken over.
        """
        if catalog.run is None or catalog.run.token != self._run.token:
            raise LeaseLost(
                f"another process took over the backup to {self._repository.url}, because this process made no "
                "progress for too long; nothing of its backup is visible. Repeat it when the other backup is done"
            )
        return catalog

    def publish(self, point: BackupPoint, files: FileList, rule: Retention) -> tuple[str, ...]:
        """Add the point to the catalog, and remove those that the rule does not keep, in one step.

        Returns
        -------
        Ids of the removed points.

        Raises
        ------
        LeaseLost
            If another process has taken over.
        """
        self.flush()
        data = files.to_bytes()
        self._storage.put(point_key(self.id), data)
        new = replace(point, digest=sha256(data))

        def edit(catalog: Catalog) -> Catalog:
            self._checked(catalog)
            points = (*(p for p in catalog.points if p.id != new.id), new)
            kept = {p.name for p in kept_points([Point(p.time, p.id) for p in points], rule)} | {new.id}
            gone = tuple(p.id for p in points if p.id not in kept)
            removed = tuple(dict.fromkeys((*catalog.removed, *gone)))
            points = tuple(p for p in points if p.id in kept)
            return replace(catalog, source=new.source, points=points, removed=removed)

        return self._repository.change(edit).removed

    def finish(self) -> None:
        """Remove contents that no point needs any more, and end the run.

        Contents that existed before this run and that no point names come from removed points and failed runs.
        """
        catalog = self._checked(self._repository.catalog())
        own = self._repository.files(self.id).objects
        garbage = {key for key, _ in self._storage.list(f"{OBJECTS}{self.id}/") if key not in own}
        gone: set[str] = set()
        if catalog.removed:
            try:
                kept = {key for point in catalog.points for key in self._repository.files(point.id).objects}
            except ChecksumError as error:
                _log.warning("nothing is removed as long as the contents to keep are unknown: %s", error)
            else:
                garbage.update(self.present.keys() - kept)
                gone.update(catalog.removed)
        _delete(self._storage, sorted(garbage))
        _delete(self._storage, [point_key(point) for point in sorted(gone)])
        _delete(self._storage, [key for key, _ in self._storage.list(self._journal)])
        self._repository.change(
            lambda now: replace(
                self._checked(now) if now.run else now,
                run=None,
                removed=tuple(point for point in now.removed if point not in gone),
            )
        )


def _delete(storage: Storage, keys: Sequence[str]) -> None:
    if is_bulk(storage):
        for first in range(0, len(keys), 1000):
            remove(storage, keys[first : first + 1000])
    elif keys:
        remove(storage, keys)


def _entries(data: bytes, run: str) -> Iterator[StoredFile]:
    """Yield the files of a journal's entry; none if the entry is damaged: its files are then copied again."""
    try:
        found = json_style.load_object(data, "journal")["done"]
        for key, etag, size, digest in found:
            yield StoredFile(str(key), int(size), str(digest), run, str(etag))
    except (FormatError, KeyError, TypeError, ValueError):
        return
