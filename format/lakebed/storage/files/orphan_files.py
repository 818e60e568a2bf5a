"""Remains of removals and crashes in a local folder: empty folders, temporary files of dead writers."""

# Paths are strings throughout this package.
# ruff: noqa: PTH106, PTH108
from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

from lakebed.errors.stores import storage_error
from lakebed.runtime import process_hooks
from lakebed.storage.base import is_bulk, traits_of
from lakebed.storage.files.folders import TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakebed.storage.base import Storage


def remove(storage: Storage, keys: Iterable[str]) -> None:
    """Remove objects in the given order, then the folders that become empty; in one request if supported.

    Raises
    ------
    StorageError
        If an object cannot be removed; all earlier objects are removed then, and later ones may be.
    """
    if is_bulk(storage):
        storage.delete_many(list(keys))
        return
    folders = set()
    try:
        for key in keys:
            storage.delete(key)
            folders.add(key.rpartition("/")[0])
    finally:
        prune(storage, folders)


def prune(storage: Storage, folders: Iterable[str]) -> None:
    """Remove empty folders, given as keys, and the folders above them that become empty."""
    root = traits_of(storage).folder
    if not root:
        return
    root = root.rstrip("/")
    wanted = set()
    for folder in folders:
        above = folder
        while "/" in above and above not in wanted:  # folders directly in the root are kept
            wanted.add(above)
            above = above.rpartition("/")[0]
    full = set()
    for folder in sorted(wanted, key=lambda f: f.count("/"), reverse=True):
        if folder not in full:
            try:
                os.rmdir(f"{root}/{folder}")
                continue
            except FileNotFoundError:
                continue
            except OSError:  # the folder is not empty, or may not be removed, which does no harm
                pass
        full.add(folder.rpartition("/")[0])


def temporary_files(storage: Storage) -> Iterator[tuple[str, int, float]]:
    """Iterate over the temporary files of a local storage: key, bytes, and POSIX time of the last change.

    Files of living processes of this machine are left out.
    """
    root = traits_of(storage).folder
    if not root:
        return
    root = root.rstrip("/")
    for folder, _, names in os.walk(root):
        for name in names:
            if re.fullmatch(TEMPORARY, name) is None or process_hooks.is_alive(int(name.split("-")[1], 16)):
                continue
            path = f"{folder}/{name}"
            with contextlib.suppress(OSError):  # another process has just renamed the file
                found = os.lstat(path)
                yield path[len(root) + 1 :], found.st_size, found.st_mtime


def remove_temporary(storage: Storage, key: str) -> None:
    """Remove a temporary file.

    Raises
    ------
    StorageError
        If the file cannot be removed.
    """
    path = f"{traits_of(storage).folder.rstrip('/')}/{key}"
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise storage_error(error, "delete", path) from error
