"""Folders below a root: the path of a key, that it stays inside, and which folders have all their entries on disk."""

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
    from collections.abc import Iterable, Sequence

TEMPORARY = r"\.lb-[0-9a-f]+-[0-9a-f]+\.tmp"

_REMEMBERED = 16384
_serial = itertools.count(time.time_ns() & 0xFFFFFF)


class Folders:
    """The folders of one root, looked at as seldom as safety allows.

    Parameters
    ----------
    root
        Real path of the root.
    """

    _lock = threading.Lock()

    def __init__(self, root: str) -> None:
        self.root = root
        self._within = root.rstrip("/") + "/"
        # Key folder ("" or "a/b") -> path with a trailing slash, once found to stay inside the root.
        self._inside: dict[str, str] = {}
        # Folders whose entries are on disk. Of others, also a process that is gone may have left some that are not.
        self._forced: set[str] = set()
        # Folders that this made: what is in them, this made too.
        self._made: set[str] = set()
        # Folders inside of those: what is in them, if they are there, this made too.
        self._within_made: set[str] = set()
        # Folders that could not be forced: the system may take them for written now.
        self._doubtful: set[str] = set()
        self._changes = itertools.count()
        self._last_change = -1

    def forget(self) -> None:
        """Know nothing, as after folders were removed."""
        self._inside.clear()
        self._forced.clear()
        self._made.clear()
        self._within_made.clear()

    # -- paths -----------------------------------------------------------------------------------------------

    def path(self, key: str) -> str:
        """Path of the file of a key.

        Raises
        ------
        InvalidKeyError, InvalidInputError
            If the key cannot be the name of an object.
        UnsafePathError
            If a link leads out of the root.
        """
        folder, _, name = key.rpartition("/")
        known = self._inside.get(folder)
        # Any name with a special character, and a slash before the first one, takes the full check.
        if known is None or not name.isalnum() or key[0] == "/":
            check_key(key)
            if name[0] == "." and re.fullmatch(TEMPORARY, name):
                raise InvalidInputError(f"{key!r} is a name of temporary files; choose another")
            known = self.folder(folder)
        return known + name

    def folder(self, folder: str) -> str:
        """Path of a key folder, with a trailing slash, once it is known to stay inside the root."""
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
        """Tell whether a folder is no link but a folder, or nothing yet, inside one that is known to be safe."""
        if not folder:
            return False
        above = path[: path.rindex("/")]
        if above not in self._made and above not in self._within_made:
            self.folder(folder.rpartition("/")[0])  # which may find that it is
        if above in self._made or above in self._within_made:
            self._within_made.add(path)
            return True
        try:
            return stat_module.S_ISDIR(os.lstat(path).st_mode)
        except OSError:
            return True  # there is nothing

    # -- on disk ---------------------------------------------------------------------------------------------

    def make(self, folder: str, fresh: set[str] | None = None) -> None:
        """Create a folder, given by its path, and its missing parents; `fresh` gets what was missing.

        What lies outside the root is forced to disk.
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
                # To make a folder one need not be allowed to read its parent.
                with contextlib.suppress(StoragePermissionError):
                    flush_folders([parent])
            else:
                self.changed([parent])

    def make_inside(self, folder: str) -> list[str]:
        """Create a folder in one that `make` has made just before, and return it if it was missing."""
        made = self._make_one(folder)
        self.changed([folder[: folder.rindex("/")]])
        return made

    def _make_one(self, folder: str) -> list[str]:
        try:
            os.mkdir(folder)
        except (FileExistsError, FileNotFoundError):
            return []  # another process was faster, or something is in the way: then the next step fails
        except OSError as error:
            raise storage_error(error, "create", folder) from error
        if len(self._made) >= _REMEMBERED:
            self._made.clear()
        self._made.add(folder)
        return [folder]

    def note_made(self, folders: Sequence[str]) -> None:
        """Take note of folders, given by their paths, that were made below one that `make` has made."""
        if len(self._made) >= _REMEMBERED:
            self._made.clear()
        self._made.update(folders)
        self.changed([folder[: folder.rindex("/")] for folder in folders])

    @property
    def changes(self) -> int:
        """Number of the last change, for `note_forced`."""
        return self._last_change

    def note_forced(self, folders: Iterable[str], before: int) -> bool:
        """Take note that everything on the disk was forced, with folders given by their paths and those above them.

        Parameters
        ----------
        before
            `changes` as it was just before.

        Returns
        -------
        bool
            False if that does not count: one of them could not be forced earlier, or has changed since.
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
        """Take note that folders, given by their paths, and those above them could not be forced to disk."""
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
        """Take note of folders, given by their paths, that got entries which are not forced to disk."""
        with self._lock:
            self._last_change = next(self._changes)
            self._forced.difference_update(folders)

    def flush(self, folders: Iterable[str]) -> None:
        """Force folders to disk, and those above them, up to the root, that are not known to be there already.

        `config.FSYNC` off leaves all of that out, and nothing counts as forced.

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
            if self._last_change == before:  # else another thread may have made a folder since
                self._forced |= wanted


def temporary_in(folder: str) -> str:
    """Path of a file in a folder that no other writer will choose."""
    return f"{folder}/.lb-{os.getpid():x}-{next(_serial):x}.tmp"


def check_apart(folder: str, others: Iterable[str]) -> None:
    """Make sure that a new folder which is there already is none of others that are new, too.

    Raises
    ------
    StorageError
        If two names beside each other lead to one folder: files of both would be mixed up.
    """
    if any(other != folder and _folded(other) == _folded(folder) for other in others):
        raise StorageError(
            f"{folder} and another new folder are one to this file system, which does not tell names apart that "
            "differ in case or accents only; delete one of the two tensors or groups, or use another disk",
            errno=errno.EEXIST,
        )


def _folded(folder: str) -> tuple[str, str]:
    """Return a path as the file systems compare it that tell fewest names apart."""
    parent, _, name = folder.rpartition("/")
    return parent, unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())


def _touch(folder: str) -> None:
    """Change the entries of a folder and back, so that the next fsync has something to write."""
    path = temporary_in(folder)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW))
        os.unlink(path)
    except FileNotFoundError:
        pass  # the folder is gone
    except OSError as error:
        raise storage_error(error, "write", path) from error


process_hooks.new_lock_after_fork(Folders, "_lock")
