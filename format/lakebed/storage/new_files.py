"""Many small files at once: made by compiled code in folders that are new themselves, and forced to disk by one call.

A publish is a hundred files of some hundred bytes in as many new folders. Made one by one, most of the time goes into
the steps of the interpreter; forced one by one, each is a request to the disk that waits for the one before.
"""

from __future__ import annotations

import errno
import os
import platform
from array import array
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lakebed import config
from lakebed.native import disk as native
from lakebed.storage.base import pieces
from lakebed.storage.disk import FILES_AT_ONCE, OUT_OF_FILES, storage_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakebed.storage.base import Data
    from lakebed.storage.disk import OpenFiles
    from lakebed.storage.folders import Folders

    File = tuple[str, Sequence[memoryview]]
    """Key or path, and content, of a file to be."""

FEW = 8
"""So few files are not worth it."""

GROUP_BYTES = 1 << 22
"""Content of files that is held together; beyond it a file is written as it comes."""

# What else waits for the disk is written, too, by the call that forces everything: so many bytes of it take as long as
# to force one file.
_WORTH = 1 << 18


def groups(items: Iterable[tuple[str, Data]], *, at_once: bool) -> Iterator[list[File]]:
    """Cut objects into groups to be written together: as many as may be open, and of so many bytes.

    Parameters
    ----------
    at_once
        Off, each is a group of its own.
    """
    group: list[File] = []
    size = 0
    for key, data in items:
        content = pieces(data)
        group.append((key, content))
        size += sum(view.nbytes for view in content)
        if not at_once or len(group) >= FILES_AT_ONCE or size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


class NewFiles:
    """Makes files in folders that are new, or inside of new ones: nobody can refer to them yet.

    Parameters
    ----------
    folders
        Those of the storage.
    fresh
        Folders that the batch has made; gets those that this makes.
    made
        Gets the path of each file, twice: its place is the one where it is to be.
    opened
        Gets the files, to be forced to disk; None: they need not be.
    """

    def __init__(
        self, folders: Folders, fresh: set[str], made: list[tuple[str, str]], opened: OpenFiles | None
    ) -> None:
        self._folders = folders
        self._fresh = fresh
        self._made = made
        self._opened = opened

    def others(self, group: Sequence[File], path_of: Callable[[str], str]) -> Iterator[File]:
        """Make the files of a group that can be made so; give the others, by path, each to be written before the next.

        Raises
        ------
        StorageError
            If the operating system fails for a reason that another way would not mend.
        """
        waiting: list[File] = []
        for key, content in group:
            path = path_of(key)
            if len(group) >= FEW and self._is_in_new_folder(path):
                waiting.append((path, content))
                continue
            yield from self._made_or_not(waiting)
            waiting = []
            yield path, content
        yield from self._made_or_not(waiting)

    def _is_in_new_folder(self, path: str) -> bool:
        """Whether a file lies in a folder that the batch has made, or below one."""
        folder = path[: path.rindex("/")]
        root = self._folders.root
        while folder not in self._fresh:
            if len(folder) <= len(root):
                return False
            folder = folder[: folder.rindex("/")]
        return True

    def _made_or_not(self, files: Sequence[File]) -> Iterator[File]:
        at = 0
        while at < len(files):
            at += self._make(files[at:])
            if at < len(files):
                yield files[at]
                at += 1

    def _make(self, files: Sequence[File]) -> int:
        """Make files, and the folders that they lack, until one cannot be made so; return how many were."""
        if not self._make_folders([path for path, _ in files]):
            return 0
        done = 0
        while done < len(files):
            rest = files[done:]
            descriptors = array("i", bytes(4 * len(rest)) if self._opened is not None else b"")
            made, problem = native.write_new_files(
                [os.fsencode(path) for path, _ in rest],
                [view for _, content in rest for view in content],
                array("i", [len(content) for _, content in rest]),
                descriptors,
            )
            self._made.extend((path, path) for path, _ in rest[:made])
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
        """Make the folders of files; False if one is there already, or cannot be made."""
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
        made, problem = native.make_folders([os.fsencode(folder) for folder in missing])
        new = list(missing)[:made]
        self._folders.note_made(new)
        self._fresh.update(new)
        return not problem


def force_disk(opened: array[int]) -> bool:
    """Force everything that waits for the disk on which some open files are, if that is cheaper than file by file.

    Returns
    -------
    bool
        Whether it was done: then these files are on the disk, and every file and folder that was there before. If not,
        or not without an error, each has still to be forced.
    """
    if len(opened) < FEW or not config.FSYNC or not _tells_errors():
        return False
    waiting = _waiting_bytes()
    return waiting is not None and waiting <= len(opened) * _WORTH and native.sync_disk(opened) == 1


@cache
def _tells_errors() -> bool:
    """Whether this is Linux 5.8 or later, whose syncfs(2) tells of what could not be written."""
    if platform.system() != "Linux":
        return False
    numbers = platform.release().split("-")[0].split(".")[:2]
    return len(numbers) == 2 and all(map(str.isdecimal, numbers)) and tuple(map(int, numbers)) >= (5, 8)


def _waiting_bytes() -> int | None:
    """Return how many bytes wait to be written to any disk; None where the system does not tell."""
    try:
        text = Path("/proc/meminfo").read_bytes()
    except OSError:
        return None
    found = [
        text.partition(b"\n" + name)[2].split(b"\n", 1)[0].split() for name in (b"Dirty:", b"Writeback:")
    ]
    if not all(len(words) == 2 and words[0].isdigit() for words in found):
        return None
    return sum(int(words[0]) for words in found) * 1024
