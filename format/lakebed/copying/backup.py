"""Backups of a dataset: only new contents are copied, verified on the way; a point appears complete or not at all."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakebed.copying.backup_source import State, changed_since, common_versions, reconciled, state_of
from lakebed.copying.check_backups import wrong_objects
from lakebed.copying.deepcopy import describe
from lakebed.copying.repository import BackupRun, Repository, sha256
from lakebed.copying.retention import Retention
from lakebed.copying.transfer import Item, Outcome, Transfer
from lakebed.documents.backup import BackupPoint, Catalog, FileList, StoredFile
from lakebed.errors import ChecksumError, CommitFailed, DatasetExistsError, InvalidInputError
from lakebed.runtime.progress import Advance, bytes_bar
from lakebed.storage.base import Storage, place_of, traits_of, without_cache
from lakebed.versions.opening import TREE_KEY, read_tree

# Number of attempts if the source is written during the backup; each attempt has fewer files left to copy.
_ROUNDS = 8

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Made:
    """The result of a backup: its point, and the earlier points that the retention rule removed."""

    point: BackupPoint
    removed: tuple[str, ...]


def backup(
    source: Storage,
    target: Storage,
    rule: Retention,
    *,
    moved: bool = False,
    keep_damaged: bool = False,
    verify: bool = False,
    progressbar: bool = False,
) -> Made:
    """Add the present state of a dataset, with all versions, to a repository of backups.

    Parameters
    ----------
    moved
        The repository holds backups of the same dataset at another address.
    keep_damaged
        Make a point even of a damaged dataset, from its intact objects.
    verify
        Read the contents of earlier backups that this one reuses; damaged ones are copied again.

    Raises
    ------
    ChecksumError
        If the source is damaged: no new point is made.
    InvalidInputError
        If the repository holds backups of another dataset.
    LockedException
        If another backup to this repository is running.
    """
    source = without_cache(source)
    target = without_cache(target)
    read_tree(source)  # raises if the source is not a dataset, before anything is written
    _refuse_nested(source, target)
    repository = Repository(target)
    with repository.running(source.url) as run:
        catalog = repository.catalog()
        base = _base(repository, catalog, run, verify=verify)
        try:
            state, files, outcome = _copied(
                source, run, catalog, base, moved=moved, keep_damaged=keep_damaged, progressbar=progressbar
            )
        finally:
            run.flush()
        damaged = {**state.damaged, **outcome.damaged}
        fresh = {file.object: file.size for file in files.values() if file.run == run.id}
        point = BackupPoint(
            id=run.id,
            time=state.time,
            source=source.url,
            files=len(files),
            bytes=sum(file.size for file in files.values()),
            added_files=len(fresh),
            added_bytes=sum(fresh.values()),
            branches=tuple(sorted(state.tree.branches)),
            commits=sum(node.is_committed for node in state.tree.commits.values()),
            damaged=len(damaged),
        )
        listed = FileList(run.id, state.time, state.tree.branches, files, state.refs, state.trusted, damaged)
        removed = run.publish(point, listed, rule)
        run.finish()
    return Made(point, removed)


def _refuse_nested(source: Storage, target: Storage) -> None:
    """Refuse a repository within the dataset, or around it: each would be part of the other."""
    here, there = place_of(source).rstrip("/"), place_of(target).rstrip("/")
    folders = traits_of(source).folder, traits_of(target).folder
    if all(folders):
        here, there = (os.path.realpath(folder) for folder in folders)
    if here == there or there.startswith(f"{here}/") or here.startswith(f"{there}/"):
        raise DatasetExistsError(
            f"backups of {source.url} cannot be stored at {target.url}: choose a place outside of the dataset, if "
            "possible on another disk or in another bucket"
        )


def _base(repository: Repository, catalog: Catalog, run: BackupRun, *, verify: bool) -> FileList | None:
    """Return the intact files of the newest point; None if no point can be the base of a new one."""
    newest = catalog.newest
    if newest is None:
        return None
    try:
        found = repository.files(newest.id)
    except ChecksumError as error:
        _log.warning("everything is copied anew: %s", error)
        return None
    lost = {key for key, file in found.objects.items() if not run.has(file)}
    if verify:
        there = [file for key, file in found.objects.items() if key not in lost]
        lost |= wrong_objects(repository.storage, there, lambda _: run.note(())).keys()
    if lost:
        _log.warning(
            "%d contents of %s are missing or damaged, and are copied anew", len(lost), repository.url
        )
    return replace(found, files={key: file for key, file in found.files.items() if file.object not in lost})


def _copied(
    source: Storage,
    run: BackupRun,
    catalog: Catalog,
    base: FileList | None,
    *,
    moved: bool,
    keep_damaged: bool,
    progressbar: bool,
) -> tuple[State, dict[str, StoredFile], Outcome]:
    """Copy new contents; return the state, the stored content of each of its files, and the damage."""
    is_same = base is not None and _last_source(catalog) == source.url
    arrived = dict(run.done)
    known = {} if base is None else {(f.digest, f.size): f for f in base.files.values()}
    known.update(((f.digest, f.size), f) for f in arrived.values())
    mutex = threading.Lock()
    for rounds_left in reversed(range(_ROUNDS)):
        with state_of(source, base if is_same else None) as state:
            _check_same(source, state, catalog, base, moved=moved)
            files, left = _divided(state, base.files if base is not None and is_same else {}, arrived)

            def note(found: Sequence[StoredFile], files: dict[str, StoredFile] = files) -> None:
                with mutex:
                    files.update((file.key, file) for file in found)
                    arrived.update(((file.key, file.etag), file) for file in found if file.etag)
                run.note(found)

            with bytes_bar("Backing up", sum(i.stat.size for i in left), shown=progressbar) as advance:
                intake = _Intake(source, run, known, state, note, advance)
                outcome = intake.run(left)
                if keep_damaged and outcome.damaged:
                    # Copy the damaged objects anyway, without comparing their checksums.
                    intake.run([replace(item, sums=None) for item in left if item.key in outcome.damaged])
                intake.put(state.documents)
            is_lacking = bool(outcome.missing or state.damaged)
            if is_lacking and rounds_left and source.get(TREE_KEY) != state.documents[TREE_KEY]:
                _log.info("%s was written meanwhile: reading it again", source.url)
                continue
            if changed_since(source, state):
                _log.info("files of %s were changed in place meanwhile: reading it again", source.url)
                continue
            for key in outcome.missing:
                outcome.damaged[key] = "it is missing"
            _report(source, {**state.damaged, **outcome.damaged}, keep_damaged=keep_damaged)
            return state, files, outcome
    raise CommitFailed(
        f"{source.url} is changed in place during the backup, as by Deep Lake 3.x, or loses files: stop its "
        "writers, and repeat the backup"
    )


def _last_source(catalog: Catalog) -> str:
    newest = catalog.newest
    return catalog.source if newest is None else newest.source


def _check_same(
    source: Storage, state: State, catalog: Catalog, base: FileList | None, *, moved: bool
) -> None:
    before = _last_source(catalog)
    if moved or before == source.url or catalog.newest is None:
        return
    if base is not None and common_versions(state.tree, base.refs):
        return
    raise InvalidInputError(
        f"this place holds backups of {before}, which has no version in common with {source.url}: choose another place "
        "for its backups, or pass moved=True (--moved) if it is the same dataset at another address"
    )


def _divided(
    state: State, base: Mapping[str, StoredFile], arrived: Mapping[tuple[str, str], StoredFile]
) -> tuple[dict[str, StoredFile], list[Item]]:
    """Return the files with known contents, and the objects to copy."""
    files: dict[str, StoredFile] = {}
    left: list[Item] = []
    for key, stat in state.objects.items():
        found = base.get(key)
        if found is None or not found.etag or found.etag != stat.etag:
            found = arrived.get((key, stat.etag))
        if found is None:
            left.append(Item(key, stat, state.sums.get(key)))
        else:
            files[key] = found
    return files, left


def _report(source: Storage, damaged: Mapping[str, str], *, keep_damaged: bool) -> None:
    if damaged and not keep_damaged:
        raise ChecksumError(
            f"{source.url} is damaged: {describe(damaged)}. There is no new backup of it; earlier ones are unchanged. "
            "Bring the damaged objects back from an earlier backup (lakebed restore), or repair the dataset "
            "(lakebed repair), and repeat the backup; keep_damaged=True (--keep-damaged) backs up the intact part",
            dataset=source.url,
        )


class _Intake(Transfer):
    """Transfer of objects into a repository, under the names of their contents.

    Parameters
    ----------
    known
        Stored contents, by checksum and length.
    """

    def __init__(
        self,
        source: Storage,
        run: BackupRun,
        known: dict[tuple[str, int], StoredFile],
        state: State,
        note: Callable[[Sequence[StoredFile]], None],
        advance: Advance,
    ) -> None:
        super().__init__(source, run.storage, lambda _: None, advance)
        self._inside = None  # no server-side copies: this process computes the checksums
        self._run, self._known, self._state, self._note = run, known, state, note

    def _transfer_batch(self, items: Sequence[Item]) -> None:
        with self._room.of(sum(item.stat.size for item in items)):
            found: dict[str, tuple[bytes, str]] = {}
            for item in items:
                data = self._read(item)
                if data is not None:
                    content = reconciled(self._source, self._state, item.key, data)
                    is_dated = content is data and item.key not in self._state.undated
                    found[item.key] = content, item.stat.etag if is_dated else ""
            self._take(found)
        self._advance(sum(item.stat.size for item in items))

    def put(self, documents: Mapping[str, bytes]) -> None:
        """Store documents that were read already."""
        self._take({key: (data, "") for key, data in documents.items()})

    def _take(self, found: Mapping[str, tuple[bytes, str]]) -> None:
        new: dict[str, bytes] = {}
        files = []
        for key, (data, etag) in found.items():
            digest = sha256(data)
            there = self._known.get((digest, len(data)))
            run = self._run.id if there is None else there.run
            file = StoredFile(key, len(data), digest, run, etag)
            if there is None:
                new[file.object] = data
            files.append(file)
        if new:
            self._write(new)
        for file in files:
            self._known.setdefault((file.digest, file.size), file)
        self._note(files)
