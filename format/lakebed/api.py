"""Module-level functions of the 3.x API: make, open, find and remove datasets."""

from __future__ import annotations

import os
from typing import Any

from lakebed.dataset.dataset import Dataset
from lakebed.dataset.session import Handle, Session, flush_open
from lakebed.errors import (
    CommitFailed,
    DatasetExistsError,
    DatasetHandlerError,
    DatasetNotFoundError,
    DatasetTooLargeToDelete,
    PathNotEmptyException,
)
from lakebed.storage.base import Storage
from lakebed.storage.url import open_storage, parse
from lakebed.versions.create import create
from lakebed.versions.opening import TREE_KEY

Path = str | os.PathLike[str]

_LARGE = 1_000_000_000


def empty(
    path: Path, overwrite: bool = False, memory_cache_size: int | None = None, **options: Any
) -> Dataset:
    """Create a dataset without tensors.

    Parameters
    ----------
    path
        Local path, ``file://`` or ``mem://name``.
    overwrite
        Remove a dataset that is already there.
    memory_cache_size
        Bound of the chunk cache in MB.
    options
        Further arguments of the 3.x call that have no meaning here (``token``, ``org_id``, ``verbose``, ...).

    Raises
    ------
    DatasetHandlerError
        If there is a dataset and ``overwrite`` is false.
    PathNotEmptyException
        If the folder holds other files.
    """
    _check_options(options)
    location = parse(path)
    storage = open_storage(location)
    flush_open(storage.url)
    if storage.stat(TREE_KEY) is not None:
        if not overwrite:
            raise DatasetExistsError(
                f"A dataset already exists at the given path ({storage.url}). If you want to create a new empty "
                "dataset, either specify another path or use overwrite=True. To open it, use lakebed.load()."
            )
        _remove(storage)
    _check_folder(storage)
    try:
        create(storage)
    except CommitFailed:
        raise DatasetExistsError(f"another process has just created a dataset at {storage.url}") from None
    return _open(storage, None, False, memory_cache_size)


def load(
    path: Path, read_only: bool | None = None, memory_cache_size: int | None = None, **options: Any
) -> Dataset:
    """Open a dataset; the address may end in ``@branch`` or ``@commit``.

    Parameters
    ----------
    read_only
        True refuses changes. None and False allow them: the writer's lock is taken at the first change, and an error
        names its owner if somebody else holds it.

    Raises
    ------
    DatasetHandlerError
        If there is no dataset.
    CheckoutError
        If there is no such branch or commit.
    DatasetCorruptError
        If its metadata is damaged.
    """
    _check_options(options)
    location = parse(path)
    storage = open_storage(location)
    flush_open(storage.url)
    return _open(storage, location.ref, bool(read_only), memory_cache_size)


def dataset(
    path: Path,
    read_only: bool | None = None,
    overwrite: bool = False,
    memory_cache_size: int | None = None,
    **options: Any,
) -> Dataset:
    """Open the dataset at an address, or create one if there is none."""
    if overwrite or not exists(path):
        return empty(path, overwrite=overwrite, memory_cache_size=memory_cache_size, **options)
    return load(path, read_only=read_only, memory_cache_size=memory_cache_size, **options)


def exists(path: Path, **options: Any) -> bool:
    """Tell whether there is a dataset at an address."""
    _check_options(options)
    return open_storage(parse(path)).stat(TREE_KEY) is not None


def delete(path: Path, force: bool = False, large_ok: bool = False, **options: Any) -> None:
    """Remove a dataset with all its versions.

    Parameters
    ----------
    force
        Remove also what does not open as a dataset.
    large_ok
        Allow datasets above 1 GB.

    Raises
    ------
    DatasetHandlerError
        If there is none, or deletion is switched off in it.
    DatasetTooLargeToDelete
        If it is above 1 GB and ``large_ok`` is false.
    """
    _check_options(options)
    storage = open_storage(parse(path))
    flush_open(storage.url)
    if not force:
        if storage.stat(TREE_KEY) is None:
            raise DatasetNotFoundError(
                f"A dataset does not exist at {storage.url}: there is nothing to delete."
            )
        if not Session(storage, read_only=True).snapshot.meta.allow_delete:
            raise DatasetHandlerError(f"{storage.url} does not allow deletion (allow_delete is off)")
    if not large_ok and sum(stat.size for _, stat in storage.list("")) > _LARGE:
        raise DatasetTooLargeToDelete(f"{storage.url} is larger than 1 GB; pass large_ok=True to delete it")
    _remove(storage)


def _open(storage: Storage, ref: str | None, read_only: bool, cache_mb: int | None) -> Dataset:
    cache = None if cache_mb is None else cache_mb * 1_000_000
    return Dataset(Handle(Session(storage, ref, read_only=read_only, cache_bytes=cache)))


def _nested(storage: Storage) -> list[str]:
    """Prefixes of other datasets that lie in folders below this one: they are not part of it."""
    return [key.removesuffix(TREE_KEY) for key, _ in storage.list("") if key.endswith("/" + TREE_KEY)]


def _check_folder(storage: Storage) -> None:
    nested = _nested(storage)
    for key, _ in storage.list(""):
        if not key.startswith((".lakebed/", *nested)):
            raise PathNotEmptyException(
                f"{storage.url} holds other files ({key}) and no dataset; choose an empty or new folder"
            )


def _remove(storage: Storage) -> None:
    nested = tuple(_nested(storage))
    storage.delete(TREE_KEY)  # first: whatever happens next, nobody opens half a dataset
    if not nested:
        storage.delete_prefix("")
        return
    for key, _ in list(storage.list("")):
        if not key.startswith(nested):
            storage.delete(key)


_IGNORED = frozenset(
    """access_method check_integrity creds index_params indra local_cache_size lock_enabled lock_timeout org_id public
    reset runtime token unlink verbose""".split()
)


def _check_options(options: dict[str, Any]) -> None:
    unknown = options.keys() - _IGNORED
    if unknown:
        raise TypeError(f"unexpected argument {min(unknown)!r}")
