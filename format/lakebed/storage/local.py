"""Objects as files below a folder.

A put writes a temporary file beside its target, forces it to disk, renames it over the target and forces the
folder to disk.  A batch takes each of these steps for all its files together, because forced writes cost far
more than the rest.  Paths are plain strings and calls go straight to the operating system: one publish writes
hundreds of small files.
"""

# Paths are strings: pathlib costs more than the calls of the operating system themselves.
# ruff: noqa: PTH102, PTH104, PTH108, PTH111, PTH112, PTH120
from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import re
import shutil
import stat as stat_module
import time
from typing import TYPE_CHECKING

from lakebed import config
from lakebed.errors import (
    InvalidInputError,
    KeyNotFound,
    PreconditionFailed,
    TruncatedReadError,
    UnsafePathError,
)
from lakebed.storage.base import Stat, check_key, check_spans, pieces
from lakebed.storage.disk import (
    FILES_AT_ONCE,
    exclusive,
    flush_files,
    flush_folders,
    storage_error,
    write_all,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakebed.storage.base import Data

TEMPORARY = re.compile(r"\.lb-[0-9a-f]+-[0-9a-f]+\.tmp")
PRIVATE_FOLDER = ".lakebed"

# O_NONBLOCK: a FIFO put in the place of a file must not hang the reader.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_FOLDERS_REMEMBERED = 16384
_ATTEMPTS = 100
_serial = itertools.count(time.time_ns() & 0xFFFFFF)


class LocalStorage:
    """Files below one folder, which is created by the first put.

    Safe to use from several threads and after a fork; a pickled copy opens the same folder.

    Parameters
    ----------
    root
        The folder; it may be missing.  A link is resolved once, here.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.path.realpath(os.path.expanduser(os.fspath(root)))
        self._within = self._root.rstrip("/") + "/"
        # Key folder ("" or "a/b") -> path with a trailing slash, once found to stay inside the root.
        self._folders: dict[str, str] = {}
        # Folders below the root that got an entry which is not forced to disk yet.
        self._unflushed: set[str] = set()

    @property
    def url(self) -> str:
        """Absolute path of the root folder."""
        return self._root

    def __repr__(self) -> str:
        return f"LocalStorage({self._root!r})"

    def __reduce__(self) -> tuple[type[LocalStorage], tuple[str]]:
        return LocalStorage, (self._root,)

    # -- reading ---------------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes:
        """Read a whole object."""
        fd, size = self._open(key)
        try:
            return self._read(fd, key, 0, size)
        finally:
            os.close(fd)

    def get_into(self, key: str, buffer: memoryview) -> int:
        """Read a whole object into the start of a writable byte buffer and return its length."""
        fd, size = self._open(key)
        try:
            if size > buffer.nbytes:
                raise InvalidInputError(
                    f"buffer of {buffer.nbytes} bytes cannot hold {key!r} of {size} bytes"
                )
            done = 0
            while done < size:
                got = os.readv(fd, [buffer[done:size]])
                if not got:
                    raise TruncatedReadError(f"{self._path(key)} ended at byte {done} while it was read")
                done += got
        except OSError as error:
            raise storage_error(error, "read", self._path(key)) from error
        finally:
            os.close(fd)
        return size

    def map(self, key: str) -> memoryview:
        """Map a whole object into memory: its pages are read when they are touched, and writes to them stay private.

        Only for objects that nobody rewrites in place; a file cut off while it is mapped ends the process.
        """
        fd, size = self._open(key)
        try:
            return (
                memoryview(mmap.mmap(fd, size, access=mmap.ACCESS_COPY)) if size else memoryview(bytearray())
            )
        except OSError as error:
            raise storage_error(error, "map", self._path(key)) from error
        finally:
            os.close(fd)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read exactly `length` bytes from offset `start`."""
        return self.get_ranges(key, ((start, length),))[0]

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (start, length) ranges of one object, in the order given."""
        check_spans(key, spans)
        fd, size = self._open(key)
        try:
            # Checked first: reading allocates whatever length a damaged index asks for.
            for start, length in spans:
                if start + length > size:
                    raise TruncatedReadError(
                        f"{self._path(key)} has {size} bytes, not bytes {start} to {start + length};"
                        " the file was cut off, or its index belongs to another file"
                    )
            return [self._read(fd, key, start, length) for start, length in spans]
        finally:
            os.close(fd)

    def stat(self, key: str) -> Stat | None:
        """Size and etag of an object, None if there is none."""
        path = self._path(key)
        try:
            found = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise storage_error(error, "look up", path) from error
        return _stat(found) if stat_module.S_ISREG(found.st_mode) else None

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """Iterate over the objects whose keys start with `prefix`, but not links, locks and leftovers."""
        folder, _, start = prefix.rpartition("/")
        pending = [folder]
        while pending:
            folder = pending.pop()
            path = self._folder(folder)
            below = folder + "/" if folder else ""
            try:
                with os.scandir(path) as entries:
                    found = [entry for entry in entries if entry.name.startswith(start)]
            except (FileNotFoundError, NotADirectoryError):
                found = []
            except OSError as error:
                raise storage_error(error, "list", path) from error
            start = ""
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(below + entry.name)
                elif entry.is_file(follow_symlinks=False) and not _is_private(below, entry.name):
                    try:
                        stat = _stat(entry.stat(follow_symlinks=False))
                    except FileNotFoundError:  # deleted since the folder was read
                        continue
                    yield below + entry.name, stat

    # -- writing ---------------------------------------------------------------------------------------------

    def put(self, key: str, data: Data) -> str:
        """Write an object durably, replacing any before it, and return its etag."""
        return self._replace(key, data, time.time_ns())

    def put_many(self, items: Iterable[tuple[str, Data]], *, durable: bool = True) -> None:
        """Write a batch of objects, forced to disk together.

        Objects that are new go straight to their place: nobody reads them before the batch is done. What replaces
        another takes its place whole, by a rename.
        """
        renames: list[tuple[str, str]] = []
        renamed = 0
        path = self._root
        opened: list[int] = []
        try:
            for key, data in items:
                path = self._path(key)
                fd, temporary = self._create(path, new=True)
                renames.append((temporary, path))
                opened.append(fd)
                write_all(fd, pieces(data))
                if not durable:
                    os.close(opened.pop())
                elif len(opened) >= FILES_AT_ONCE:
                    flush_files(opened)
            flush_files(opened)
            for temporary, path in renames:
                if temporary != path:
                    os.rename(temporary, path)
                renamed += 1
        except OSError as error:
            raise storage_error(error, "write", path) from error
        finally:
            for fd in opened:
                os.close(fd)
            for temporary, _ in renames[renamed:]:
                _remove(temporary)
        folders = {path[: path.rindex("/")] for _, path in renames}
        self._unflushed |= folders
        if durable:
            self._flush_folders(folders)

    def sync(self, keys: Iterable[str]) -> None:
        """Force objects that `put_many(durable=False)` wrote, and every folder above them, to disk."""
        folders: set[str] = set()
        opened: list[int] = []
        path = self._root
        try:
            for key in keys:
                path = self._path(key)
                try:
                    opened.append(os.open(path, _READ))
                except FileNotFoundError:
                    continue
                folders.update(self._upwards(path[: path.rindex("/")]))
                if len(opened) >= FILES_AT_ONCE:
                    flush_files(opened)
            flush_files(opened)
        except OSError as error:
            raise storage_error(error, "sync", path) from error
        finally:
            for fd in opened:
                os.close(fd)
        self._flush_folders(folders)

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        """Write an object durably only if the present one has this etag (None: only if there is none)."""
        path = self._path(key)
        lock = self._path(f"{PRIVATE_FOLDER}/publish.lock")
        self._make_folder(lock[: lock.rindex("/")])
        with exclusive(lock):
            try:
                present = _stat(os.lstat(path))
            except (FileNotFoundError, NotADirectoryError):
                present = None
            if (present.etag if present else None) != etag:
                raise PreconditionFailed(
                    f"{path} {'was replaced' if present else 'is gone'} since it was read;"
                    " read it again and repeat the change"
                    if etag
                    else f"{path} already exists"
                )
            # Later than the present one: file numbers are reused, and the clock may stand still between puts.
            before = int(present.etag.split("-")[1], 16) if present else 0
            return self._replace(key, data, max(time.time_ns(), before + 1))

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is no error."""
        path = self._path(key)
        try:
            os.unlink(path)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            pass
        except OSError as error:
            raise storage_error(error, "delete", path) from error

    def delete_prefix(self, prefix: str) -> None:
        """Remove every object whose key starts with `prefix`, and the folders that this empties."""
        if prefix and not prefix.endswith("/"):
            for key, _ in list(self.list(prefix)):
                self.delete(key)
            return
        path = self._folder(prefix[:-1])
        self._folders.clear()
        try:
            shutil.rmtree(path[:-1])
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise storage_error(error, "delete", path) from error

    # -- paths -----------------------------------------------------------------------------------------------

    def _path(self, key: str) -> str:
        folder, _, name = key.rpartition("/")
        known = self._folders.get(folder)
        # Any name with a special character, and a slash before the first one, takes the full check.
        if known is None or not name.isalnum() or key[0] == "/":
            check_key(key)
            if name[0] == "." and TEMPORARY.fullmatch(name):
                raise InvalidInputError(f"{key!r} is a name of temporary files; choose another")
            known = self._folder(folder)
        return known + name

    def _folder(self, folder: str) -> str:
        """Path of a key folder, with a trailing slash, once it is known to stay inside the root."""
        known = self._folders.get(folder)
        if known is not None:
            return known
        if folder:
            check_key(folder)
        path = self._within + folder
        if not self._is_plain(folder, path):
            real = os.path.realpath(path)
            if real != self._root and not real.startswith(self._within):
                raise UnsafePathError(
                    f"{path} leads out of {self._root} through a symbolic link; replace the link by its target"
                )
        if len(self._folders) >= _FOLDERS_REMEMBERED:
            self._folders.clear()
        known = path if path.endswith("/") else path + "/"
        self._folders[folder] = known
        return known

    def _is_plain(self, folder: str, path: str) -> bool:
        """Tell whether a folder is no link but a folder, or nothing yet, inside one that is known to be safe."""
        if not folder:
            return False
        self._folder(folder.rpartition("/")[0])
        try:
            return stat_module.S_ISDIR(os.lstat(path).st_mode)
        except OSError:
            return not os.path.lexists(path)

    def _make_folder(self, folder: str) -> None:
        """Create a folder and its missing parents; whose entries changed is remembered, or forced to disk."""
        missing = []
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for folder in reversed(missing):
            try:
                os.mkdir(folder)
            except (
                FileExistsError
            ):  # somebody else was faster, or a file is in the way: then the next step fails
                pass
            except OSError as error:
                raise storage_error(error, "create", folder) from error
            parent = os.path.dirname(folder)
            if len(parent) < len(self._root):
                flush_folders([parent])
            else:
                self._unflushed.add(parent)

    def _upwards(self, folder: str) -> Sequence[str]:
        """Paths of a folder inside the root and of all folders above it, up to the root."""
        found = []
        while len(folder) >= len(self._root):
            found.append(folder)
            folder = folder[: folder.rindex("/")]
        return found

    # -- files -----------------------------------------------------------------------------------------------

    def _open(self, key: str) -> tuple[int, int]:
        path = self._path(key)
        try:
            fd = os.open(path, _READ)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise KeyNotFound(f"{key!r} does not exist in {self._root}") from error
        except OSError as error:
            raise storage_error(error, "open", path) from error
        found = os.fstat(fd)
        if not stat_module.S_ISREG(found.st_mode):
            os.close(fd)
            if stat_module.S_ISDIR(found.st_mode):
                raise KeyNotFound(f"{key!r} is a folder in {self._root}")
            raise UnsafePathError(f"{path} is no regular file; remove it")
        return fd, found.st_size

    def _read(self, fd: int, key: str, start: int, length: int) -> bytes:
        """Read exactly this range, in steps if need be: one call returns at most 2 GiB."""
        found = b""
        try:
            while True:
                part = os.pread(fd, length, start)
                found = found + part if found else part
                start, length = start + len(part), length - len(part)
                if not length:
                    return found
                if not part:
                    raise TruncatedReadError(f"{self._path(key)} ended at byte {start} while it was read")
        except OSError as error:
            raise storage_error(error, "read", self._path(key)) from error

    def _create(self, path: str, *, new: bool = False) -> tuple[int, str]:
        """Open a temporary file in the folder of `path`, or with `new` that path itself if nothing is there."""
        folder = path[: path.rindex("/")]
        for _ in range(_ATTEMPTS):
            place = path if new else f"{folder}/.lb-{os.getpid():x}-{next(_serial):x}.tmp"
            try:
                return os.open(place, _CREATE, 0o666), place
            except FileNotFoundError:
                self._make_folder(folder)
            except FileExistsError:
                new = False
        raise UnsafePathError(f"cannot create a file in {folder}; remove what lies there in its place")

    def _replace(self, key: str, data: Data, mtime_ns: int) -> str:
        path = self._path(key)
        folder = path[: path.rindex("/")]
        temporary = ""
        try:
            fd, temporary = self._create(path)
            try:
                write_all(fd, pieces(data))
                os.utime(fd, ns=(mtime_ns, mtime_ns))
                if config.FSYNC:
                    os.fsync(fd)
                etag = _stat(os.fstat(fd)).etag
            finally:
                os.close(fd)
            os.rename(temporary, path)
            temporary = ""
        except OSError as error:
            raise storage_error(error, "write", path) from error
        finally:
            if temporary:
                _remove(temporary)
        self._flush_folders({folder})
        return etag

    def _flush_folders(self, folders: set[str]) -> None:
        """Force folders to disk, and those above them whose entries changed without it."""
        wanted = set(folders)
        for folder in folders:
            wanted.update(self._unflushed.intersection(self._upwards(folder)))
        flush_folders(wanted)
        self._unflushed -= wanted


def _stat(found: os.stat_result) -> Stat:
    etag = f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
    return Stat(found.st_size, etag, found.st_mtime_ns)


def _is_private(below: str, name: str) -> bool:
    if below == PRIVATE_FOLDER + "/" and name.endswith(".lock"):
        return True
    return name.startswith(".lb-") and TEMPORARY.fullmatch(name) is not None


def _remove(path: str) -> None:
    # What stays behind is ignored by every reader; the error under way matters more.
    with contextlib.suppress(OSError):
        os.unlink(path)
