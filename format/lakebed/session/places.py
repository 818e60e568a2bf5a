"""Addresses of datasets: clearing an address for a new dataset, and removing a dataset."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from lakebed import config
from lakebed.errors import (
    CommitFailed,
    DatasetExistsError,
    DatasetHandlerError,
    DatasetNotFoundError,
    DatasetTooLargeToDelete,
    FormatError,
    InvalidInputError,
    PathNotEmptyException,
)
from lakebed.session.handle import Handle
from lakebed.session.process.open_sessions import drop_deleted, flush_open
from lakebed.session.session import Session
from lakebed.storage.base import Storage, traits_of
from lakebed.storage.url import Location, open_storage, parse
from lakebed.versions.locks.marker import LOCK_NAME
from lakebed.versions.opening import TREE_KEY
from lakebed.versions.refs import REFS_KEY

REMOVING = ".lakebed/removing"
"""Storage key of the note that a removal leaves until it is complete."""

Path = str | os.PathLike[str] | Location

# Datasets and tensors of more than this many bytes are removed only if the caller allows it explicitly.
LARGE = 1_000_000_000


def whole(path: Path) -> Location:
    """Return the location of a dataset; an address with a version is refused: the caller will affect all versions.

    Raises
    ------
    InvalidInputError
        If the address names a version.
    """
    location = parse(path)
    if location.ref is not None:
        raise InvalidInputError(
            f"{location.shown}@{location.ref} is the address of a version, but a whole dataset is needed: leave "
            f"@{location.ref} out"
        )
    return location


def vacate(path: Path, *, overwrite: bool) -> tuple[Storage, Location]:
    """Return a storage in which a new dataset can be made, and its location; with ``overwrite``, remove the old one.

    Raises
    ------
    DatasetHandlerError
        If a dataset exists there, and ``overwrite`` is false or the dataset forbids its deletion.
    PathNotEmptyException
        If the folder holds other files.
    """
    location = whole(path)
    if location.scheme == "file" and os.path.isfile(location.path):  # noqa: PTH113
        raise PathNotEmptyException(f"{location.shown} is a file; choose an empty or new folder")
    storage = open_storage(location)
    if storage.stat(TREE_KEY) is None:
        drop_deleted(storage)
    else:
        flush_open(storage)
        if not overwrite:
            raise DatasetExistsError(
                f"A dataset already exists at the given path ({location.shown}). If you want to create a new empty "
                "dataset, either specify another path or use overwrite=True. To open it, use lakebed.load()."
            )
        _check_deletable(storage, location.shown)
        remove(storage)
    _check_folder(storage, overwrite=overwrite)
    return storage, location


def make(path: Path, *, overwrite: bool, cache_bytes: int | None = None) -> Handle:
    """Create a dataset without tensors and open it; see :func:`vacate`."""
    storage, location = vacate(path, overwrite=overwrite)
    from lakebed.versions.create import create

    try:
        start = create(storage)
    except CommitFailed:
        raise DatasetExistsError(f"another process has just created a dataset at {location.shown}") from None
    return Handle(Session(storage, cache_bytes=cache_bytes, start=start), location.shown)


def check_path(path: object) -> None:
    """Refuse an object that cannot be the address of a dataset.

    Raises
    ------
    DatasetNotFoundError
        If the object is neither text nor a path, or is empty.
    """
    if not path or not (hasattr(path, "__fspath__") or isinstance(path, str | Location)):
        raise DatasetNotFoundError(f"{path!r} is not the path of a dataset; give a path or mem://name")


def discard(path: Path, *, force: bool, large_ok: bool) -> None:
    """Remove a dataset with all its versions.

    Parameters
    ----------
    force
        Also remove files that do not open as a dataset.
    large_ok
        Also remove datasets of more than 1 GB.

    Raises
    ------
    DatasetHandlerError
        If no dataset exists, or the dataset forbids its deletion.
    DatasetTooLargeToDelete
        If the dataset has more than 1 GB and ``large_ok`` is false.
    """
    location = whole(path)
    discard_at(open_storage(location), location.shown, force=force, large_ok=large_ok)


def discard_at(storage: Storage, shown: str, *, force: bool, large_ok: bool) -> None:
    """Remove the content of a storage; see :func:`discard`."""
    flush_open(storage)
    if not force:
        if storage.stat(TREE_KEY) is None:
            raise DatasetNotFoundError(
                f"A dataset does not exist at {shown}: there is nothing to delete. Pass force=True to "
                "remove other files there."
            )
        _check_deletable(storage, shown)
    elif next(iter(storage.list("")), None) is None:
        raise DatasetNotFoundError(f"Path {shown} is empty or does not exist. Cannot delete.")
    if not large_ok and sum(stat.size for _, stat in storage.list("")) > LARGE:
        raise DatasetTooLargeToDelete(f"{shown} is larger than 1 GB; pass large_ok=True to delete it")
    remove(storage)


def _check_deletable(storage: Storage, shown: str) -> None:
    try:
        allowed = Session(storage, read_only=True).snapshot.meta.allow_delete
    except FormatError:
        return  # the dataset cannot be opened, so it cannot forbid its removal
    if not allowed:
        raise DatasetHandlerError(
            f"The dataset at {shown} is marked as allow_delete=false; set allow_delete = True on it first"
        )


def remove(storage: Storage) -> None:
    """Remove all files of a dataset; datasets in folders below it are kept."""
    from lakebed.storage.files import orphan_files

    folder = traits_of(storage).folder
    if folder and config.REMEMBER_LINKS:
        from lakebed.links import kept

        kept.forget(folder)
    keys = [key for key, _ in storage.list("")]
    nested = _nested(keys)
    # The note goes last, so that an interrupted removal can be finished; the tree goes first, so that nobody can open
    # what is left.
    storage.put(REMOVING, b"")
    storage.delete(TREE_KEY)
    if nested:
        orphan_files.remove(storage, [key for key in keys if not key.startswith((*nested, REMOVING))])
        storage.delete(REMOVING)
        return
    for folder in {key.partition("/")[0] for key in keys if "/" in key} - {".lakebed"}:
        storage.delete_prefix(f"{folder}/")
    orphan_files.remove(storage, [key for key in keys if "/" not in key and key != TREE_KEY])
    storage.delete_prefix("")


def _nested(keys: Sequence[str]) -> tuple[str, ...]:
    """Return the prefixes of other datasets in folders below this one; saved views count as part of this one."""
    trees = [key for key in keys if key.endswith("/" + TREE_KEY)]
    return tuple(key.removesuffix(TREE_KEY) for key in trees if not key.startswith(".queries/"))


# Files that an interrupted creation leaves (the process was killed, or the disk was full); none belongs to a tensor.
_UNBORN = rf"(versions/[0-9a-f]{{40}}/)?(dataset_meta\.json|commit_info\.json|{re.escape(LOCK_NAME)})"


def _check_folder(storage: Storage, *, overwrite: bool) -> None:
    from lakebed.session import copy_journal

    keys = [key for key, _ in storage.list("")]
    if copy_journal.HEADER in keys:
        if not overwrite:
            raise DatasetExistsError(
                f"an unfinished copy of {copy_journal.unfinished(storage)} is at {storage.url}: copy that again to "
                "finish it, or pass overwrite=True to remove it"
            )
        remove(storage)
        keys = []
    if REMOVING in keys:
        if not overwrite:
            raise PathNotEmptyException(
                f"the removal of the dataset at {storage.url} was interrupted: pass overwrite=True to finish it"
            )
        remove(storage)
        keys = []
    nested = _nested(keys)
    for key in keys:
        if not key.startswith((".lakebed/", *nested)) and not re.fullmatch(_UNBORN, key):
            raise PathNotEmptyException(
                f"{storage.url} holds other files ({key}) and no dataset; choose an empty or new folder"
            )
    if REFS_KEY in keys:
        storage.delete(REFS_KEY)  # an interrupted removal left this file
