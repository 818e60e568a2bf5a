"""Objects as files below a folder.

A put writes a temporary file beside its target, forces it to disk, renames it over the target and forces the folder to
disk. A batch takes each of these steps for all its files together, because forced writes take far longer than the other
steps. Paths are plain strings and calls go straight to the operating system: one publish writes hundreds of small
files.
"""

# Paths are strings: pathlib costs more than the calls of the operating system themselves.
# ruff: noqa: PTH104, PTH108, PTH111
from __future__ import annotations

import contextlib
import errno
import os
import re
import stat as stat_module
import time
from functools import partial
from typing import TYPE_CHECKING

import xxhash

from lakebed import config
from lakebed.errors import KeyNotFound, PreconditionFailed, StorageError, TruncatedReadError, UnsafePathError
from lakebed.errors.stores import storage_error
from lakebed.native import disk as native
from lakebed.runtime import process_hooks
from lakebed.storage.base import (
    Stat,
    Storage,
    StorageTraits,
    Summed,
    Tail,
    check_room,
    check_spans,
    pieces,
)
from lakebed.storage.files.disk import (
    OpenFiles,
    clone,
    exclusive,
    flush_above,
    later_than,
    read_at,
    stat_of,
    write_all,
    write_file,
)
from lakebed.storage.files.folders import TEMPORARY, Folders, check_apart, temporary_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence

    from lakebed.storage.base import Buffer, Data
    from lakebed.storage.files.early_files import EarlyFile

    _Write = Callable[[int, Sequence[memoryview]], None]

PRIVATE_FOLDER = ".lakebed"

# O_NONBLOCK, because opening a FIFO that has the name of an object must not block.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_ATTEMPTS = 100


class LocalStorage(Storage):
    """Files below one folder, which the first put creates.

    Safe to use from several threads and after a fork; a pickled copy opens the same folder.

    Parameters
    ----------
    root
        The folder; it may be missing. A link is resolved once, here.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        process_hooks.start()
        self._root = os.path.realpath(os.path.expanduser(os.fspath(root)))
        self._folders = Folders(self._root)
        self._path = self._folders.path
        self._unsynced = _Unsynced()
        self.traits = StorageTraits(
            local=True,
            folder=self._root,
            system_locks=True,
            reader_leases=True,
            mappable=True,
            uncached_writes=True,
            early_files=True,
        )

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
        fd, size, path = self._open(key)
        try:
            return read_at(fd, 0, size, path)
        finally:
            os.close(fd)

    def get_into(self, key: str, buffer: memoryview) -> int:
        """Read a whole object into the start of a writable byte buffer and return its length."""
        fd, size, path = self._open(key)
        try:
            check_room(buffer, key, size)
            done = 0
            if not config.OS_CACHE:
                from lakebed.storage.files.direct import read_uncached

                done = read_uncached(fd, buffer[:size])
            while done < size:
                got = os.readv(fd, [buffer[done:size]])
                if not got:
                    raise TruncatedReadError(f"{path} ended at byte {done} while it was read")
                done += got
        except OSError as error:
            raise storage_error(error, "read", path) from error
        finally:
            os.close(fd)
        return size

    def map(self, key: str) -> memoryview:
        """Map a whole object into memory: pages are read when they are touched, writes stay private.

        Only for objects that are never rewritten in place: a file that is cut off while it is mapped ends the process.
        """
        fd, size, path = self._open(key)
        try:
            return native.mapped(fd, 0, size)
        except OSError as error:
            raise storage_error(error, "map", path) from error
        finally:
            os.close(fd)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read exactly `length` bytes from offset `start`."""
        fd, size, path = self._open(key)
        try:
            if start < 0 or length < 0 or start + length > size:
                check_spans(key, ((start, length),), size, self._root)
            return read_at(fd, start, length, path)
        finally:
            os.close(fd)

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (start, length) ranges of one object, in the given order."""
        fd, size, path = self._open(key)
        try:
            # Check first, because a read allocates as many bytes as a damaged index claims.
            check_spans(key, spans, size, self._root)
            return [read_at(fd, start, length, path) for start, length in spans]
        finally:
            os.close(fd)

    def get_tail(self, key: str, length: int) -> Tail:
        """Read the last `length` bytes of an object, or the whole object if it is shorter."""
        check_spans(key, ((0, length),))
        fd, size, path = self._open(key)
        try:
            start = max(0, size - length)
            return Tail(read_at(fd, start, size - start, path), stat_of(os.fstat(fd)))
        finally:
            os.close(fd)

    def stat(self, key: str) -> Stat | None:
        """Return size and etag of an object, None if it does not exist."""
        path = self._path(key)
        try:
            found = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise storage_error(error, "look up", path) from error
        return stat_of(found) if stat_module.S_ISREG(found.st_mode) else None

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """Iterate over the objects whose keys start with `prefix`; links, locks and temporary files are left out."""
        folder, _, start = prefix.rpartition("/")
        pending = [folder]
        while pending:
            folder = pending.pop()
            path = self._folders.folder(folder)
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
                        stat = stat_of(entry.stat(follow_symlinks=False))
                    except FileNotFoundError:  # the file was deleted after the folder was read
                        continue
                    yield below + entry.name, stat

    # -- writing ---------------------------------------------------------------------------------------------

    def put(self, key: str, data: Data) -> str:
        """Write an object durably, replacing an existing one, and return its etag."""
        return self._replace(key, data, time.time_ns())

    def put_many(self, items: Iterable[tuple[str, Data]], *, durable: bool = True) -> None:
        """Write a batch of objects and force them to disk together.

        Objects in new folders are written under their final names, since no reader knows them before the batch is done.
        Other objects get their final names by a rename, when they are complete.
        """
        self._put_many(items, _writer(is_cached=config.OS_CACHE), durable=durable)

    def put_uncached(self, items: Iterable[tuple[str, Data]]) -> None:
        """Write objects like `put_many` without `durable`, bypassing the cache of the operating system."""
        self._put_many(items, _writer(is_cached=False), durable=False)

    def _put_many(self, items: Iterable[tuple[str, Data]], write: _Write, *, durable: bool) -> None:
        from lakebed.storage.files.new_files import NewFiles, force_disk, groups

        renames: list[tuple[str, str]] = []
        fresh: set[str] = set()
        renamed = 0
        path = self._root
        try:
            with OpenFiles(at_once=force_disk) as opened:
                new = NewFiles(self._folders, fresh, renames, opened if durable and config.FSYNC else None)
                for group in groups(items, at_once=write is write_file):
                    for path, content in new.others(group, self._path):

                        def create(path: str = path) -> int:
                            fd, temporary = self._create(path, fresh)
                            renames.append((temporary, path))
                            return fd

                        data = group[0][1] if len(group) == 1 else None
                        file = getattr(data, "file", None)
                        if file is None or not self._is_linked(file, path, fresh, opened, renames):
                            write(opened.open(create), content)
                        if not durable:
                            opened.close_last()
                    if not durable:
                        for key, data, _ in group:
                            self._unsynced.wrote(self._path(key), data)
                before = self._folders.changes
                try:
                    is_whole = opened.flush()
                except OSError:
                    # The forced write of one of the folders may have failed.
                    self._folders.note_doubtful(path[: path.rindex("/")] for _, path in renames)
                    raise
            for temporary, path in renames:
                if temporary != path:
                    os.rename(temporary, path)
                renamed += 1
        except OSError as error:
            raise storage_error(error, "write", path) from error
        finally:
            for temporary, path in renames[renamed:]:
                _remove(temporary)
                self._unsynced.gone(path)
        folders = {path[: path.rindex("/")] for _, path in renames}
        if not durable:
            self._folders.changed(folders)
            return
        if is_whole and self._folders.note_forced(folders, before):
            folders = {path[: path.rindex("/")] for temporary, path in renames if temporary != path}
        self._folders.flush(folders)

    def early_file(self, size: int) -> EarlyFile | None:
        """Create a file for about `size` bytes, which `put_many` takes as `Summed.file`; None if not supported."""
        from lakebed.storage.files.early_files import early_file

        return early_file(self._root, size) if config.OS_CACHE else None

    def _is_linked(
        self,
        file: EarlyFile,
        path: str,
        fresh: set[str],
        opened: OpenFiles,
        renames: MutableSequence[tuple[str, str]],
    ) -> bool:
        """Give a nameless file, which holds the content already, its name; tell whether that was possible."""
        from lakebed.storage.files.early_files import NO_LINK

        try:
            opened.open(partial(file.link, path))
        except FileNotFoundError:
            self._folders.make(path[: path.rindex("/")], fresh)
            return self._is_linked(file, path, fresh, opened, renames)
        except OSError as error:
            if error.errno not in NO_LINK:
                raise
            return False
        renames.append((path, path))
        return True

    def copy(self, source: str, target: str, *, durable: bool = True) -> None:
        """Create an object with the content of another; the two share blocks if the file system can."""
        fd, size, _ = self._open(source)
        try:
            path = self._path(target)
            folders = {path[: path.rindex("/")]}
            with self._placing(path, "copy", set(folders)) as new:
                clone(fd, new, size)
                if durable and config.FSYNC:
                    os.fsync(new)
        finally:
            os.close(fd)
        if durable:
            self._folders.flush(folders)
        else:
            self._folders.changed(folders)

    def sync(self, keys: Iterable[str]) -> None:
        """Force objects that `put_many(durable=False)` wrote, and every folder above them, to disk.

        Objects that could not be forced to disk before are written anew; see `_Unsynced`.
        """
        paths: list[str] = []
        path = self._root
        try:
            with OpenFiles() as opened:
                for key in keys:
                    path = self._path(key)
                    if self._unsynced.has_sync_failed(path):
                        self._write_anew(key, path)
                    else:
                        try:
                            opened.open(partial(os.open, path, _READ))
                        except FileNotFoundError:
                            continue
                    paths.append(path)
                opened.flush()
        except OSError as error:
            self._unsynced.sync_failed(paths)
            raise storage_error(error, "sync", path) from error
        try:
            self._folders.flush({path[: path.rindex("/")] for path in paths})
        except StorageError:
            self._unsynced.sync_failed(paths)
            raise
        self._unsynced.synced(paths)

    def _write_anew(self, key: str, path: str) -> None:
        """Replace an object by a copy of itself after checking that its content is unchanged."""
        with self._publishing():
            try:
                content = self.get(key)
            except KeyNotFound:
                return
            if not self._unsynced.holds(path, content):
                raise StorageError(
                    f"{path} does not have the content that was written to it: the disk failed, and its content is lost"
                    "; discard unpublished changes and write them again, on a disk that works",
                    errno=errno.EIO,
                )
            self._replace(key, content, later_than(self._present(path)))

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        """Write an object durably only if the existing object has this etag (None: only if no object exists)."""
        path = self._path(key)
        with self._publishing():
            present = self._present(path)
            if (present.etag if present else None) != etag:
                raise PreconditionFailed(
                    f"{path} {'was replaced' if present else 'was deleted'} since it was read;"
                    " read it again and repeat the change"
                    if etag
                    else f"{path} already exists"
                )
            if present is None:
                flush_above(self._root)
            return self._replace(key, data, later_than(present))

    @contextlib.contextmanager
    def _publishing(self) -> Iterator[None]:
        """Keep other writers from conditional puts."""
        lock = self._path(f"{PRIVATE_FOLDER}/publish.lock")
        self._folders.make(lock[: lock.rindex("/")])
        with exclusive(lock):
            yield

    def _present(self, path: str) -> Stat | None:
        """Return size and etag of the present file; opening it makes network file systems refresh their view."""
        try:
            fd = os.open(path, _READ)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise storage_error(error, "look up", path) from error
        try:
            return stat_of(os.fstat(fd))
        finally:
            os.close(fd)

    def delete(self, key: str) -> None:
        """Remove an object; a missing object is no error."""
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
        import shutil

        path = self._folders.folder(prefix[:-1])
        self._folders.forget()
        self._unsynced.clear()
        try:
            shutil.rmtree(path[:-1])
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise storage_error(error, "delete", path) from error

    # -- files -----------------------------------------------------------------------------------------------

    def _open(self, key: str) -> tuple[int, int, str]:
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
            raise UnsafePathError(f"{path} is not a regular file; remove it")
        return fd, found.st_size, path

    def _create(self, path: str, fresh: set[str] | None = None) -> tuple[int, str]:
        """Open a temporary file in the folder of `path`, or `path` itself in a folder of `fresh`.

        Folders that this creates are added to `fresh`.
        """
        folder = path[: path.rindex("/")]
        if fresh and folder not in fresh and folder[: folder.rindex("/")] in fresh:
            made = self._folders.make_inside(folder)
            if not made:
                # The folder exists already: another process made it, or it is one of `fresh` under another spelling,
                # which is refused.
                check_apart(folder, fresh)
            fresh.update(made)
        new = fresh is not None and folder in fresh
        for _ in range(_ATTEMPTS):
            place = path if new else temporary_in(folder)
            try:
                return os.open(place, _CREATE, 0o666), place
            except FileNotFoundError:
                self._folders.make(folder, fresh)
                new = fresh is not None and folder in fresh
            except FileExistsError:
                new = False
        if not os.path.lexists(folder):
            raise StorageError(f"{folder} cannot be created here; use another place", errno=errno.ENOENT)
        raise UnsafePathError(f"cannot create a file in {folder}, which is not a folder; remove or rename it")

    def _replace(self, key: str, data: Data, mtime_ns: int) -> str:
        path, content = self._path(key), pieces(data)
        with self._placing(path, "write") as fd:
            write_all(fd, content)
            os.utime(fd, ns=(mtime_ns, mtime_ns))
            if config.FSYNC:
                os.fsync(fd)
            etag = stat_of(os.fstat(fd)).etag
        self._unsynced.sync_failed([path])
        self._folders.flush({path[: path.rindex("/")]})
        self._unsynced.synced([path])
        return etag

    @contextlib.contextmanager
    def _placing(self, path: str, doing: str, fresh: set[str] | None = None) -> Iterator[int]:
        """Open a temporary file that becomes `path` at the end of the block, or is removed if the block fails."""
        temporary = ""
        try:
            fd, temporary = self._create(path, fresh)
            try:
                yield fd
            finally:
                os.close(fd)
            if temporary != path:
                os.rename(temporary, path)
            temporary = ""
        except OSError as error:
            raise storage_error(error, doing, path) from error
        finally:
            if temporary:
                _remove(temporary)


def _writer(*, is_cached: bool) -> _Write:
    if is_cached:
        return write_file
    from lakebed.storage.files.direct import write_uncached

    return write_uncached


class _Unsynced:
    """Files that were written without being forced to disk, and files that may be missing on disk after a failure.

    After a forced write has failed, the system may have dropped the data and report success for the next one. Such
    files are rewritten from their present content, if checksums show that it is unchanged.
    """

    def __init__(self) -> None:
        self._written: dict[str, Callable[[Buffer], bool]] = {}
        self._failed: set[str] = set()

    def wrote(self, path: str, content: Data) -> None:
        """Remember the content of a file that was not forced to disk."""
        is_same = content.is_same if isinstance(content, Summed) else partial(_is_same, _sum(content))
        self._written[path] = is_same

    def gone(self, path: str) -> None:
        """Forget a file whose write failed."""
        self._written.pop(path, None)

    def sync_failed(self, paths: Iterable[str]) -> None:
        """Record files that could not be forced to disk."""
        self._failed.update(paths)

    def has_sync_failed(self, path: str) -> bool:
        """Tell whether a file could not be forced to disk, and has not reached it since."""
        return path in self._failed

    def synced(self, paths: Iterable[str]) -> None:
        """Record files that are on the disk."""
        for path in paths:
            self._failed.discard(path)
            self._written.pop(path, None)

    def holds(self, path: str, content: Buffer) -> bool:
        """Tell whether the content equals the content that was written to a file; True for an unknown file."""
        is_same = self._written.get(path)
        return is_same is None or is_same(content)

    def clear(self) -> None:
        """Forget all files."""
        self._written.clear()
        self._failed.clear()


def _sum(content: Data) -> int:
    state = xxhash.xxh3_64()
    for view in pieces(content):
        state.update(view)
    return state.intdigest()


def _is_same(known: int, content: Buffer) -> bool:
    return known == _sum(content)


def _is_private(below: str, name: str) -> bool:
    if below == PRIVATE_FOLDER + "/" and name.endswith(".lock"):
        return True
    return name.startswith(".lb-") and re.fullmatch(TEMPORARY, name) is not None


def _remove(path: str) -> None:
    # If the file cannot be removed, readers ignore it; the error that is already being raised matters more.
    with contextlib.suppress(OSError):
        os.unlink(path)
