"""Folders below a root: paths of keys, which must stay inside, and folders whose entries are on disk."""

# Paths are strings: pathlib costs more than the calls of the operating system themselves.
# ruff: noqa: PTH102, PTH108, PTH112, PTH120
from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import stat as stat_module
import threading
import time
import unicodedata
from typing import TYPE_CHECKING

from lakebed import config
from lakebed.errors import InvalidInputError, StorageError, StoragePermissionError, UnsafePathError
from lakebed.errors.stores import storage_error
from lakebed.runtime import process_hooks
from lakebed.storage.base import check_key
from lakebed.storage.files.disk import flush_folders

if TYPE_CHECKING:
    from collections.abc import Iterable

TEMPORARY = r"\.lb-[0-9a-f]+-[0-9a-f]+\.tmp"

_REMEMBERED = 16384
_serial = itertools.count(time.time_ns() & 0xFFFFFF)


class Folders:
    """Folders of one root, which are examined as rarely as safety allows.

    Parameters
    ----------
    root
        Real path of the root.
    """

    _lock = threading.Lock()

    def __init__(self, root: str) -> None:
        self.root = root
        self._within = root.rstrip("/") + "/"
        # Key of a folder ("" or "a/b") -> its path with a trailing slash; only folders that were found to be inside
        # of the root.
        self._inside: dict[str, str] = {}
        # Folders whose entries are on disk. Any other folder may have entries, even of an earlier process, that are
        # not on disk yet.
        self._forced: set[str] = set()
        # Folders whose fsync failed; the system may then wrongly report success for the next fsync.
        self._doubtful: set[str] = set()
        self._changes = itertools.count()
        self._last_change = -1

    def forget(self) -> None:
        """Forget all folders, as after a removal."""
        self._inside.clear()
        self._forced.clear()

    # -- paths -----------------------------------------------------------------------------------------------

    def path(self, key: str) -> str:
        """Return the path of the file of a key.

        Raises
        ------
        InvalidKeyError, InvalidInputError
            If the key cannot be the name of an object.
        UnsafePathError
            If a link leads out of the root.
        """
        folder, _, name = key.rpartition("/")
        known = self._inside.get(folder)
        # Names with special characters, and keys that begin with a slash, need the full check.
        if known is None or not name.isalnum() or key[0] == "/":
            check_key(key)
            if name[0] == "." and re.fullmatch(TEMPORARY, name):
                raise InvalidInputError(f"{key!r} is a name of temporary files; choose another")
            known = self.folder(folder)
        return known + name

    def folder(self, folder: str) -> str:
        """Return the path of a key folder with a trailing slash, after checking that it stays inside the root."""
        known = self._inside.get(folder)
        if known is not None:
            return known
        if folder:
            check_key(folder)
        path = self._within + folder
        if not self._is_plain(folder, path):
            real = os.path.realpath(path)
            if real != self.root and not real.startswith(self._within):
                raise UnsafePathError(
                    f"{path} leads out of {self.root} through a symbolic link; replace the link by its target"
                )
        if len(self._inside) >= _REMEMBERED:
            self._inside.clear()
        known = path if path.endswith("/") else path + "/"
        self._inside[folder] = known
        return known

    def _is_plain(self, folder: str, path: str) -> bool:
        """Tell whether a folder is not a link, or does not exist yet, inside a folder that is known to be safe."""
        if not folder:
            return False
        self.folder(folder.rpartition("/")[0])
        try:
            return stat_module.S_ISDIR(os.lstat(path).st_mode)
        except OSError:
            return True  # nothing exists at this path

    # -- on disk ---------------------------------------------------------------------------------------------

    def make(self, folder: str, fresh: set[str] | None = None) -> None:
        """Create a folder, given by its path, and its missing parents; new folders are added to `fresh`.

        Folders outside the root are forced to disk.
        """
        missing = []
        fresh = set() if fresh is None else fresh
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for folder in reversed(missing):
            fresh.update(self._make_one(folder))
            parent = os.path.dirname(folder)
            if len(parent) < len(self.root):
                # Creating a folder does not require the permission to read its parent, so do not fail without it.
                with contextlib.suppress(StoragePermissionError):
                    flush_folders([parent])
            else:
                self.changed([parent])

    def make_inside(self, folder: str) -> list[str]:
        """Create a folder in a folder that `make` has just created; return [folder], or [] if it exists already."""
        made = self._make_one(folder)
        self.changed([folder[: folder.rindex("/")]])
        return made

    def _make_one(self, folder: str) -> list[str]:
        try:
            os.mkdir(folder)
        except (FileExistsError, FileNotFoundError):
            # Another process created the folder first, or another object is in the way and the next step fails.
            return []
        except OSError as error:
            raise storage_error(error, "create", folder) from error
        return [folder]

    @property
    def changes(self) -> int:
        """Number of changes so far, to pass to `note_forced`."""
        return self._last_change

    def note_forced(self, folders: Iterable[str], before: int) -> bool:
        """Record that the whole disk was forced, including folders given by their paths and the folders above them.

        Parameters
        ----------
        before
            Value of `changes` just before the disk was forced.

        Returns
        -------
        bool
            False if the record is invalid: a folder could not be forced earlier, or has changed since.
        """
        wanted = self._up_to_root(folders)
        with self._lock:
            if self._last_change != before or not wanted.isdisjoint(self._doubtful):
                return False
            if len(self._forced) >= _REMEMBERED:
                self._forced.clear()
            self._forced |= wanted
        return True

    def note_doubtful(self, folders: Iterable[str]) -> None:
        """Record that folders, given by their paths, and the folders above them could not be forced to disk."""
        self._doubtful |= self._up_to_root(folders)

    def _up_to_root(self, folders: Iterable[str]) -> set[str]:
        found: set[str] = set()
        for folder in folders:
            above = folder
            while len(above) >= len(self.root) and above not in found:
                found.add(above)
                above = above[: above.rindex("/")]
        return found

    def changed(self, folders: Iterable[str]) -> None:
        """Record that folders, given by their paths, have new entries that are not forced to disk."""
        with self._lock:
            self._last_change = next(self._changes)
            self._forced.difference_update(folders)

    def flush(self, folders: Iterable[str]) -> None:
        """Force folders, and the folders above them up to the root, to disk unless they are known to be on disk.

        With `config.FSYNC` off, nothing is forced, and nothing counts as forced.

        Raises
        ------
        StorageError
            If the operating system fails.
        """
        if not config.FSYNC:
            return
        wanted = set(folders)
        seen = set()
        for folder in folders:
            above = folder
            while len(above) > len(self.root) and above not in seen:
                seen.add(above)
                above = above[: above.rindex("/")]
                if above not in self._forced or above in self._doubtful:
                    wanted.add(above)
        before = self._last_change
        for folder in wanted & self._doubtful:
            _touch(folder)
        self._doubtful |= wanted
        flush_folders(wanted)
        self._doubtful -= wanted
        with self._lock:
            if len(self._forced) >= _REMEMBERED:
                self._forced.clear()
            # If `_last_change` differs, another thread may have created a folder in the meantime.
            if self._last_change == before:
                self._forced |= wanted


def temporary_in(folder: str) -> str:
    """Return a path in a folder that no other writer chooses."""
    return f"{folder}/.lb-{os.getpid():x}-{next(_serial):x}.tmp"


def check_apart(folder: str, others: Iterable[str]) -> None:
    """Check that an existing folder is not one of the other new folders under another spelling.

    Raises
    ------
    StorageError
        If two names lead to one folder, which would mix their files.
    """
    if any(other != folder and _folded(other) == _folded(folder) for other in others):
        raise StorageError(
            f"this file system takes {folder} and another new folder for the same, which ignores case or accents; "
            "delete one of the two tensors or groups, or use another disk",
            errno=errno.EEXIST,
        )


def _folded(folder: str) -> tuple[str, str]:
    """Return a path with letters folded, so that paths which any file system treats as equal compare equal."""
    parent, _, name = folder.rpartition("/")
    return parent, unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())


def _touch(folder: str) -> None:
    """Create and remove an entry of a folder, so that the next fsync writes it."""
    path = temporary_in(folder)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW))
        os.unlink(path)
    except FileNotFoundError:
        pass  # the folder does not exist any more
    except OSError as error:
        raise storage_error(error, "write", path) from error


process_hooks.new_lock_after_fork(Folders, "_lock")
