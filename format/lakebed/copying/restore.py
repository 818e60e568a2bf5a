"""Restoring of a dataset from a backup, byte for byte; the version tree, which makes it a dataset, is written last."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

from lakebed.copying.check_backups import difference, wrong_objects
from lakebed.copying.deepcopy import describe
from lakebed.copying.repository import Repository
from lakebed.copying.transfer import Item, Transfer, transfer_rest
from lakebed.documents.backup import FileList, StoredFile
from lakebed.documents.version_tree import VersionTree
from lakebed.errors import ChecksumError, DatasetExistsError, FormatError, InvalidInputError, KeyNotFound
from lakebed.runtime.progress import Advance
from lakebed.session.copy_journal import FOLDER, Journal, Origin, unfinished
from lakebed.session.handle import Handle
from lakebed.session.places import Path, vacate, whole
from lakebed.session.session import Session
from lakebed.storage.base import Stat, Storage, traits_of
from lakebed.storage.url import open_storage
from lakebed.versions.locks.marker import released_file
from lakebed.versions.manifests import digests_of
from lakebed.versions.opening import TREE_KEY

_ID = re.compile(r"[0-9a-f]{4,12}")
_WHOLE_ID = 12
_SHOWN = 10


def is_id(at: str) -> bool:
    """Tell whether text may be the id of a point, or the beginning of it."""
    return _ID.fullmatch(at) is not None


def chosen_point(repository: Repository, at: str | float | None) -> str:
    """Return the id of a point.

    Parameters
    ----------
    at
        Id of the point, or its first four or more characters; or a time in POSIX seconds, for the last point not later
        than this time; None for the newest point.

    Raises
    ------
    InvalidInputError
        If the point does not exist.
    DatasetNotFoundError, ChecksumError
        If no backups exist, or the catalog is damaged and no whole id is given.
    """
    try:
        points = repository.catalog().points
    except ChecksumError:
        # The whole id of a backup is the name of its list of files, so the catalog is not needed.
        if isinstance(at, str) and len(at) == _WHOLE_ID and _ID.fullmatch(at):
            return at
        raise
    found = sorted(points, key=lambda point: point.time)
    if isinstance(at, str):
        found = [point for point in found if point.id.startswith(at)] if _ID.fullmatch(at) else []
        if len(found) > 1:
            raise InvalidInputError(
                f"{len(found)} points at {repository.url} have ids that begin with {at!r}; give more characters"
            )
    elif at is not None:
        found = [point for point in found if point.time <= at]
    if found:
        return found[-1].id
    moment = "" if at is None else at
    if not isinstance(moment, str):
        moment = f"{_time(moment)} UTC or before"
    there = ", ".join(f"{point.id} ({_time(point.time)})" for point in points[-_SHOWN:])
    raise InvalidInputError(f"no backup {moment} exists at {repository.url}; the latest: {there or 'none'}")


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%F %T}"


def restore(
    storage: Storage, dest: Path, at: str | float | None, *, overwrite: bool, progressbar: bool
) -> Handle:
    """Restore a point to an empty or new place, or continue an interrupted attempt.

    Raises
    ------
    ChecksumError
        If the backup is damaged; the destination is then not a dataset.
    DatasetHandlerError
        If something else exists at the destination, and ``overwrite`` is false.
    InvalidInputError
        If the point does not exist.
    """
    repository = Repository(storage)
    found = repository.files(chosen_point(repository, at))
    tree = _tree(repository, found)
    location = whole(dest)
    target = open_storage(location)
    origin = Origin(f"{repository.url}#{found.id}", str(getattr(storage, "endpoint", "")), None)
    if unfinished(target) != origin:
        if overwrite and target.stat(TREE_KEY) is not None:
            # Verify the backup before removing the existing dataset, in case the backup is damaged.
            wrong = wrong_objects(storage, found.objects.values())
            damaged = {key: wrong[file.object] for key, file in found.files.items() if file.object in wrong}
            if damaged:
                raise _damage(repository, found, damaged)
        target, location = vacate(location, overwrite=overwrite)
    else:
        _check_unwritten(target, tree)
    journal = Journal(target, origin)
    if target.stat(TREE_KEY) is None:
        _restore_objects(repository, found, target, journal, progressbar=progressbar)
        _mark_heads(target, found, VersionTree.from_bytes(tree))
        target.put(TREE_KEY, tree)
    journal.end()
    return Handle(Session(target), location.shown)


def _check_unwritten(target: Storage, tree: bytes) -> None:
    """Refuse to continue if an earlier attempt finished and the dataset has been written since."""
    try:
        present = target.get(TREE_KEY)
    except KeyNotFound:
        return
    if present != tree:
        raise DatasetExistsError(
            f"the dataset was restored to {target.url} already, and has been written since; choose another "
            "destination, or pass overwrite=True"
        )


def _tree(repository: Repository, found: FileList) -> bytes:
    """Return the version tree of a point, checked."""
    file = found.files.get(TREE_KEY)
    why: str | None = "it is missing"
    data = b""
    if file is not None:
        try:
            data = repository.storage.get(file.object)
            why = difference(data, file)
            if why is None:
                VersionTree.from_bytes(data)
        except KeyNotFound:
            pass
        except FormatError as error:
            why = str(error)
    if why is not None:
        raise _damage(repository, found, {TREE_KEY: why})
    return data


def _damage(repository: Repository, found: FileList, damaged: Mapping[str, str]) -> ChecksumError:
    return ChecksumError(
        f"point {found.id} of the backups at {repository.url} is damaged: {describe(damaged)}. It is not "
        "restored: no dataset of it is at the destination. `lakebed backups --verify` tells which points are whole; "
        "the next backup with --verify copies again what the dataset still has",
        dataset=repository.url,
    )


def _restore_objects(
    repository: Repository, found: FileList, target: Storage, journal: Journal, *, progressbar: bool
) -> None:
    files = {key: file for key, file in found.files.items() if key != TREE_KEY and not key.startswith(FOLDER)}
    here = {key: stat.size for key, stat in target.list("")}
    items = [Item(file.object, Stat(file.size, file.digest), to=file.key) for file in files.values()]
    transfer = partial(_Restoring, repository, target, files)
    outcome = transfer_rest("Restoring", items, here, journal, transfer, progressbar=progressbar)
    lost = set(outcome.missing)
    missing = {key: "its content is missing" for key, file in files.items() if file.object in lost}
    damaged = {**missing, **outcome.damaged}
    if damaged:
        raise _damage(repository, found, damaged)


class _Restoring(Transfer):
    """Transfer of contents to their keys, each verified against its checksum."""

    def __init__(
        self,
        repository: Repository,
        target: Storage,
        files: Mapping[str, StoredFile],
        done: Callable[[Sequence[Item]], None],
        advance: Advance,
    ) -> None:
        super().__init__(repository.storage, target, done, advance)
        self._inside = None  # no server-side copies: this process computes the checksums
        self._files = files

    def _read(self, item: Item) -> bytes | None:
        data = super()._read(item)
        why = None if data is None else difference(data, self._files[item.goal])
        if why is None:
            return data
        self.outcome.damaged[item.goal] = why
        return None


def _mark_heads(target: Storage, found: FileList, tree: VersionTree) -> None:
    """Write the lock files that confirm the manifests of heads, on stores without locks of their own."""
    if traits_of(target).system_locks:
        return
    digests = digests_of(tree)
    target.put_many([released_file(head, digests[head]) for head in found.trusted if head in digests])
