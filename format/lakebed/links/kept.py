"""Permanent permissions for links that the user of this machine has given, in ``~/.config/lakebed`` (docs/security.md).

allowed-links        a folder per line (``lakebed allow``): links of all datasets may lead below it
links/HASH.txt       files that the user has linked in one dataset of this machine; later processes may read them

A file in ``links`` is bound to the dataset's place and to each linked file: its first line is the path of the dataset,
each other line is the path of a linked file. So a dataset from elsewhere that replaces a dataset at its path reads only
files that the user had linked there. A line that was cut off when a process was killed is ended by a NUL byte, which no
path contains.

Files that belong to other users, or that others may write, are ignored.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import stat
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lakebed import config
from lakebed.errors import InvalidInputError, StoragePermissionError
from lakebed.links.span import span_of
from lakebed.runtime import process_hooks
from lakebed.storage.address import path_of, scheme_of
from lakebed.storage.files.disk import write_at

_ODD = re.compile(r"\0|://|#bytes=")

# Limit on the size of one dataset's link file, in bytes; enough for some million links.
MOST_BYTES = 1 << 28


def folder() -> Path:
    """Return the folder of these files, which need not exist."""
    base = os.path.expanduser(os.environ.get("XDG_CONFIG_HOME") or "~/.config")  # noqa: PTH111
    # The folder must never be below the working directory, which may hold files of other users: without a home, use a
    # path that does not exist.
    return Path(base if os.path.isabs(base) else os.devnull) / "lakebed"  # noqa: PTH117


# -- folders that the user allows --------------------------------------------------------------------------------


def allowed() -> tuple[str, ...]:
    """Return the folders of ``lakebed allow``; none if ``config.REMEMBER_LINKS`` is off."""
    if not config.REMEMBER_LINKS:
        return ()
    return tuple(line for line in _lines(_read(folder() / "allowed-links")) if line.startswith("/"))


def allow(place: str) -> str:
    """Allow the links of all datasets to lead into a folder, in all processes of this user; return its path.

    Raises
    ------
    InvalidInputError
        If the place is not a folder.
    StoragePermissionError
        If the configuration cannot be written.
    """
    path = _real(place)
    if not os.path.isdir(path) or "\n" in path:  # noqa: PTH112
        raise InvalidInputError(f"{place!r} is not a folder that links could lead into")
    with _changing(folder() / "allowed-links") as fd:
        if path not in _lines(_content(fd)):
            _append(fd, f"{path}\n")
    return path


def disallow(place: str) -> bool:
    """Forbid a folder again, or forget all links of a dataset; tell whether there was such a permission.

    Raises
    ------
    StoragePermissionError
        If the configuration cannot be written.
    """
    path = _real(place)
    found = forget(path)
    with _changing(folder() / "allowed-links") as fd:
        lines = _lines(_content(fd))
        left = [line for line in lines if line not in (path, place)]
        if len(left) < len(lines):
            found = True
            os.ftruncate(fd, 0)
            _append(fd, "".join(f"{line}\n" for line in left))
    return found


# -- links that the user has made --------------------------------------------------------------------------------


def remember(dataset: str, links: Sequence[str]) -> None:
    """Remember for later processes that the user has linked files in a dataset on this machine.

    Links to anything but files, and names with a line break, are left out. If the configuration cannot be written, a
    warning says so, since the links stay valid in this process.
    """
    place = _place(dataset)
    text = _text(links)
    if not text:
        return
    try:
        with _changing(place) as fd:
            size = os.fstat(fd).st_size
            if size + len(text) > MOST_BYTES:
                _warn(f"{place} holds as many links of {dataset} as it can")
                return
            head = f"{_real(dataset)}\n" if not size else ""
            _append(fd, head + text)
    except (StoragePermissionError, OSError) as error:
        _warn(f"{place} cannot be written: {error}")


def is_kept(dataset: str, path: str) -> bool:
    """Tell whether the user has linked a file in this dataset, in this process or an earlier one.

    Parameters
    ----------
    dataset
        Path of the dataset; a remote dataset has no such links.
    path
        The path as linked; a relative one starts at the working directory.
    """
    if not config.REMEMBER_LINKS or not dataset or scheme_of(dataset) != "file":
        return False
    return os.path.join(os.getcwd(), path) in _KNOWN.of(dataset)  # noqa: PTH109, PTH118


def forget(dataset: str) -> bool:
    """Forget the links of a dataset that is removed or created again; tell whether any were known."""
    if scheme_of(dataset) != "file":
        return False
    try:
        _place(dataset).unlink()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        _warn(f"{_place(dataset)} cannot be removed: {error}")
        return False
    return True


def datasets() -> Iterator[tuple[str, int]]:
    """Yield the path of each dataset whose links are remembered, and the number of its linked files."""
    try:
        files = sorted((folder() / "links").glob("*.txt"))
    except OSError:
        return
    for file in files:
        dataset, paths = _parsed(_read(file))
        if dataset:
            yield dataset, len(paths)


def _place(dataset: str) -> Path:
    name = hashlib.sha256(os.fsencode(_real(dataset))).hexdigest()[:32]
    return folder() / "links" / f"{name}.txt"


def _real(dataset: str) -> str:
    return os.path.realpath(path_of(dataset))


def _text(links: Sequence[str]) -> str:
    """Return a line for each link to a file."""
    text = "".join([f"{link}\n" for link in links])
    if (
        text.count("\n/") == text.count("\n") - 1 == len(links) - 1
        and text[0] == "/"
        and not _ODD.search(text)
    ):
        return text  # fast path for plain paths, because there may be millions of them
    here = os.getcwd()  # noqa: PTH109
    lines = []
    for link in links:
        if not link or ("://" in link and scheme_of(link) != "file"):
            continue
        span = span_of(link)
        try:
            path = os.path.join(here, path_of(link if span is None else span.url))  # noqa: PTH118
        except OSError:  # a file:// address of another machine is not kept
            continue
        if "\n" not in path and "\0" not in path:
            lines.append(f"{path}\n")
    return "".join(lines)


def _parsed(data: bytes) -> tuple[str, frozenset[str]]:
    """Return the dataset and the paths in a file of links."""
    lines = _lines(data)
    return (lines[0], frozenset(lines[1:])) if lines else ("", frozenset())


class _Known:
    """Cache of the contents of the files of links, valid as long as the files do not change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, tuple[tuple[int, ...], frozenset[str]]] = {}
        process_hooks.new_lock_after_fork(self, "_lock")

    def of(self, dataset: str) -> frozenset[str]:
        place = _place(dataset)
        try:
            found = place.stat()
        except OSError:
            return frozenset()
        state = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode, found.st_uid)
        with self._lock:
            known = self._of.get(str(place))
            if known is None or known[0] != state:
                named, paths = _parsed(_read(place))
                if named != _real(dataset):
                    paths = frozenset()
                known = self._of[str(place)] = (state, paths)
            return known[1]


_KNOWN = _Known()


# -- files of the configuration ----------------------------------------------------------------------------------


def _lines(data: bytes) -> list[str]:
    """Return the complete lines, without lines that were cut off when a process was killed."""
    return [line for line in os.fsdecode(data).split("\n")[:-1] if "\0" not in line]


def _read(place: Path) -> bytes:
    """Return the content of a file that belongs to the user and nobody else may write; b"" if no such file exists."""
    try:
        fd = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        _warn(f"{place} cannot be read: {error}")
        return b""
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            _warn(f"{place} is not followed: it must be a file of yours that nobody else may write")
            return b""
        return _content(fd)
    finally:
        os.close(fd)


def _content(fd: int) -> bytes:
    parts = []
    at = 0
    while part := os.pread(fd, 1 << 24, at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


@contextmanager
def _changing(place: Path) -> Iterator[int]:
    """Open a file for changes, with a lock; create it if it does not exist."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        try:
            fd = os.open(place, flags, 0o600)
        except FileNotFoundError:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(place, flags, 0o600)
    except OSError as error:
        raise StoragePermissionError(f"{place} cannot be written: {error}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def _append(fd: int, text: str) -> None:
    """Append all lines or none, after marking a line that was cut off when a process was killed."""
    size = os.fstat(fd).st_size
    data = os.fsencode(text)
    if size and os.pread(fd, 1, size - 1) != b"\n":
        data = b"\0\n" + data
    try:
        write_at(fd, data, size)
    except OSError:
        os.ftruncate(fd, size)
        raise


def _warn(why: str) -> None:
    warnings.warn(
        f"{why}; links to files may have to be allowed in other processes, with `lakebed allow FOLDER`",
        stacklevel=4,
    )
