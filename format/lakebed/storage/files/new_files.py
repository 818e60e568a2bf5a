"""Batches of small files: compiled code creates them in new folders, and one call forces them to disk.

A publish writes a hundred files of some hundred bytes, each into a new folder. One by one, most of the time is spent
in the interpreter, and each forced write waits for the previous one.
"""

from __future__ import annotations

import errno
import os
import sys
from array import array
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lakebed import config
from lakebed.errors.stores import OUT_OF_FILES, storage_error
from lakebed.native import disk as native
from lakebed.storage.base import check_key, pieces
from lakebed.storage.files.disk import FILES_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakebed.storage.base import Data
    from lakebed.storage.files.disk import OpenFiles
    from lakebed.storage.files.folders import Folders

    File = tuple[str, Sequence[memoryview]]
    """Path and content of a file to create."""

    Item = tuple[str, Data, Sequence[memoryview]]
    """Key and content of an object, and the content as flat views of bytes."""

FEW = 8
"""Smallest number of files for which compiled code is faster."""

LARGE = 1 << 18
"""Files of at least this many bytes are written before the next object is taken, while the processor caches them."""

GROUP_BYTES = 1 << 21
"""Maximum total bytes of smaller files that are collected before they are written."""

# The call that forces all files also writes other data that waits for the disk. Writing this many bytes takes as long
# as forcing one file.
_WORTH = 1 << 18


def groups(items: Iterable[tuple[str, Data]], *, at_once: bool) -> Iterator[list[Item]]:
    """Cut objects into groups to be written together, bounded in number and bytes.

    Parameters
    ----------
    at_once
        If False, each object is a separate group.
    """
    group: list[Item] = []
    held = 0
    for key, data in items:
        if type(data) is bytes:
            size = len(data)
            content = [memoryview(data)] if size else []
        else:
            content = pieces(data)
            size = sum([view.nbytes for view in content])
        if group and (size >= LARGE or len(group) >= FILES_AT_ONCE or held + size > GROUP_BYTES):
            yield group
            group, held = [], 0
        group.append((key, data, content))
        held += size
        if not at_once or size >= LARGE:
            yield group
            group, held = [], 0
    if group:
        yield group


class NewFiles:
    """Creates files in new folders or below them, where no reader can refer to them yet.

    Parameters
    ----------
    folders
        Folders of the storage.
    fresh
        Folders that the batch has created; folders that this object creates are added.
    made
        Takes the path of each file, twice: as temporary and as final path.
    opened
        List that receives the files to force to disk; None if none need to be.
    """

    def __init__(
        self, folders: Folders, fresh: set[str], made: list[tuple[str, str]], opened: OpenFiles | None
    ) -> None:
        self._folders = folders
        self._fresh = fresh
        self._made = made
        self._opened = opened
        # Key of a folder -> path with a trailing slash, for new folders, in which no other file can exist.
        self._new: dict[str, str] = {}

    def others(self, group: Sequence[Item], path_of: Callable[[str], str]) -> Iterator[File]:
        """Create the files of a group that compiled code can create; yield the other files for the caller to write.

        Raises
        ------
        StorageError
            If the operating system fails for a reason that would affect ordinary writing, too.
        """
        waiting: list[File] = []
        are_many, names = len(group) >= FEW, set[str]()
        for key, _, content in group:
            folder, _, name = key.rpartition("/")
            new = self._new.get(folder)
            if new is not None and name in names:
                waiting.append((new + name, content))
                continue
            if new is None and are_many:
                new = self._inside_of_new(folder)
            if new is None or name[:1] == ".":
                path = path_of(key)
            else:
                check_key(key)
                path = new + name
            if are_many and (new is not None or self._is_in_new_folder(path)):
                waiting.append((path, content))
                self._new[folder] = path[: len(path) - len(name)]
                names.add(name)
                continue
            yield from self._made_or_not(waiting)
            waiting = []
            yield path, content
        yield from self._made_or_not(waiting)

    def _inside_of_new(self, folder: str) -> str | None:
        """Return the path, with a trailing slash, of a key folder below a new folder; None for other folders.

        No link can lead out of such a folder.
        """
        above = folder
        while above:
            above = above.rpartition("/")[0]
            known = self._new.get(above)
            if known is not None:
                return f"{known}{folder[len(above) + 1 :] if above else folder}/"
        return None

    def _is_in_new_folder(self, path: str) -> bool:
        """Tell whether a file is in or below a folder that the batch has created, and remember that folder."""
        folder = path[: path.rindex("/")]
        root = self._folders.root
        while folder not in self._fresh:
            if len(folder) <= len(root):
                return False
            folder = folder[: folder.rindex("/")]
        self._new.setdefault(folder[len(root) :].strip("/"), folder + "/")
        return True

    def _made_or_not(self, files: Sequence[File]) -> Iterator[File]:
        at = 0
        while at < len(files):
            at += self._make(files[at:])
            if at < len(files):
                yield files[at]
                at += 1

    def _make(self, files: Sequence[File]) -> int:
        """Create files and their folders until compiled code cannot create one; return the number of created files."""
        if not self._make_folders([path for path, _ in files]):
            return 0
        done = 0
        while done < len(files):
            rest = files[done:]
            descriptors = array("i", bytes(4 * len(rest)) if self._opened is not None else b"")
            made, problem = native.write_new_files(
                [path for path, _ in rest],
                [view for _, content in rest for view in content],
                array("i", [len(content) for _, content in rest]),
                descriptors,
            )
            self._made.extend([(path, path) for path, _ in rest[:made]])
            if self._opened is not None:
                self._opened.take(descriptors[:made])
            done += made
            if problem in OUT_OF_FILES and self._opened is not None and self._opened.count:
                self._opened.flush()
            elif problem in (errno.EEXIST, errno.ENOENT):
                break
            elif problem:
                raise storage_error(OSError(problem, os.strerror(problem)), "write", files[done][0])
        return done

    def _make_folders(self, paths: Iterable[str]) -> bool:
        """Create the folders of files; False if one exists already or cannot be created."""
        missing: dict[str, None] = {}
        for path in paths:
            folder = path[: path.rindex("/")]
            above = []
            while folder not in self._fresh and folder not in missing:
                above.append(folder)
                folder = folder[: folder.rindex("/")]
            missing.update(dict.fromkeys(reversed(above)))
        if not missing:
            return True
        made, problem = native.make_folders(list(missing))
        new = list(missing)[:made]
        self._folders.changed([folder[: folder.rindex("/")] for folder in new])
        self._fresh.update(new)
        return not problem


def force_disk(opened: array[int]) -> bool:
    """Force the whole disk of some open files, if that is cheaper than forcing file by file.

    Returns
    -------
    bool
        True if these files, and every earlier file and folder, are on the disk; False if nothing was forced.

    Raises
    ------
    OSError
        If the call failed, or any file on that disk could not be written meanwhile. The system reports that once:
        forcing these files one by one afterwards proves nothing.
    """
    if len(opened) < FEW or not config.FSYNC or not _tells_errors():
        return False
    waiting = _waiting_bytes()
    if waiting is None or waiting > len(opened) * _WORTH:
        return False
    found = native.sync_disk(opened)
    if found < 0:
        raise OSError(-found, os.strerror(-found))
    return found == 1


@cache
def _tells_errors() -> bool:
    """Tell whether this is Linux 5.17 or later, whose syncfs(2) reports all failures, including those of journals."""
    if sys.platform != "linux":
        return False
    numbers = os.uname().release.split("-")[0].split(".")[:2]
    return len(numbers) == 2 and all(map(str.isdecimal, numbers)) and tuple(map(int, numbers)) >= (5, 17)


def _waiting_bytes() -> int | None:
    """Return the bytes that wait to be written to any disk of the machine; None if unknown.

    `/proc/meminfo` is of no use: in a container it may count the container's pages only.
    """
    try:
        words = Path("/proc/vmstat").read_bytes().split()
    except OSError:
        return None
    found = dict(zip(words[::2], words[1::2], strict=False))
    pages = [found.get(name, b"") for name in (b"nr_dirty", b"nr_writeback")]
    return sum(map(int, pages)) * os.sysconf("SC_PAGE_SIZE") if all(map(bytes.isdigit, pages)) else None
