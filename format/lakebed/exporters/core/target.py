"""The destination of an export, which appears when all of it is written.

Local files are written into a folder beside the address, which gets the name of the address at the end. In a bucket,
files appear at once; files such as an index, which make the others a data set, are written last, by
:meth:`Target.finish` or the exporter's ``finish``, and all files are removed again if the export fails.
"""

# Paths are strings here, as in storage.
# ruff: noqa: PTH100, PTH102, PTH103, PTH104, PTH106, PTH108, PTH110, PTH111, PTH112, PTH114, PTH118, PTH120
# ruff: noqa: PTH122, PTH123, PTH202, PTH208
from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from lakebed.errors import ExportError
from lakebed.storage.address import scheme_of, shown
from lakebed.storage.url import open_storage, parse

if TYPE_CHECKING:
    from lakebed.storage.base import Storage


class Target:
    """A destination to which any thread may write.

    Parameters
    ----------
    address
        Path or address.
    overwrite
        Replace an existing destination.
    single_file
        The address is that of a file; names that exporters give are ignored.

    Raises
    ------
    ExportError
        If the destination exists, without `overwrite`.
    """

    def __init__(
        self, address: str, *, overwrite: bool = False, creds: Any = None, single_file: bool = False
    ) -> None:
        self.is_local = scheme_of(address) == "file"
        self.address = os.path.abspath(os.path.expanduser(parse(address).path)) if self.is_local else address
        self.shown = self.address if self.is_local else shown(address)
        self.single_file = single_file
        self.files = 0
        self.nbytes = 0
        self._overwrite = overwrite
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._storage: Storage | None = None
        self._prefix = ""
        if self.is_local:
            self._check_free()
            parent, name = os.path.split(self.address)
            os.makedirs(parent, exist_ok=True)
            self._staging = os.path.join(parent, f".{name}.{os.urandom(4).hex()}.part")
            os.mkdir(self._staging)
        else:
            self._open_bucket(creds)
            self._staging = tempfile.mkdtemp(prefix="lakebed-export-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._storage is not None:
            for name in sorted(self._names):
                self._storage.delete(self._prefix + name)
        shutil.rmtree(self._staging, ignore_errors=True)

    # -- for exporters -----------------------------------------------------------------------------------------

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Write a file; its name is relative, with ``/`` between its parts.

        Raises
        ------
        ExportError
            If the name is taken, or leads out of the target.
        """
        path = self.path(name)
        if self._storage is not None:
            self._put(self._storage, name, bytes(data))
            return
        with open(path, "wb") as file:
            file.write(data)

    def open(self, name: str = "") -> BinaryIO:
        """Open a new file for writing."""
        return open(self.path(name), "wb")

    def path(self, name: str = "") -> str:
        """Return a path for a library to write a file or folder of this name to; :meth:`finish` uploads it."""
        parts = name.split("/")
        if not self.single_file and any(part in ("", ".", "..") for part in parts):
            raise ExportError(f"{name!r} is not the name of a file below {self.shown}")
        with self._lock:
            if name in self._names:
                raise ExportError(f"two files would have the name {name!r}")
            self._names.add(name)
        path = os.path.join(self._staging, _FILE if self.single_file else name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    @property
    def folder(self) -> str:
        """Folder into which a library may write files; :meth:`finish` uploads them."""
        return self._staging

    def free(self, name: str) -> str:
        """Reserve a safe name similar to the given one: ``a/b.jpg``, or ``a/b-2.jpg`` if the name is taken.

        Names come from datasets: parts such as ``..`` and a leading ``/`` are dropped.
        """
        parts = [_clean(part) for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
        wanted = "/".join(parts) or "unnamed"
        stem, suffix = os.path.splitext(wanted)
        with self._lock:
            found, number = wanted, 2
            while found in self._names:
                found = f"{stem}-{number}{suffix}"
                number += 1
            self._names.add(found)
        return found

    def put(self, name: str, data: bytes | memoryview) -> None:
        """Write a file under a name that :meth:`free` reserved."""
        with self._lock:
            self._names.discard(name)
        self.write(name, data)

    # -- the end -----------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Make the files appear at the address."""
        # Files such as zarr.json, which make a folder a data set, are at the top level; move them last.
        staged = [
            os.path.join(folder, name)
            for folder, _, names in os.walk(self._staging, topdown=False)
            for name in sorted(names)
        ]
        if self._storage is not None:
            for path in staged:
                name = "" if self.single_file else os.path.relpath(path, self._staging)
                with _content(path) as data:
                    self._put(self._storage, name, data)
                self._names.add(name)
            return
        self.files, self.nbytes = len(staged), sum(map(os.path.getsize, staged))
        made = os.path.join(self._staging, _FILE) if self.single_file else self._staging
        if not os.path.exists(made):
            raise ExportError(f"the export wrote nothing for {self.shown}")
        _sync(made, staged)
        self._check_free()
        old = f"{self._staging}.old"
        if self._overwrite and os.path.lexists(self.address):
            os.rename(self.address, old)
        os.rename(made, self.address)
        if os.path.isdir(old) and not os.path.islink(old):
            shutil.rmtree(old)
        elif os.path.lexists(old):
            os.unlink(old)

    def _check_free(self) -> None:
        if self._overwrite or not os.path.lexists(self.address):
            return
        if os.path.isdir(self.address) and not os.listdir(self.address):
            os.rmdir(self.address)
            return
        raise ExportError(
            f"{self.shown} exists already: choose another place, or overwrite=True (--overwrite)"
        )

    def _open_bucket(self, creds: Any) -> None:
        root = self.address
        if self.single_file:
            root, _, self._prefix = self.address.rpartition("/")
        self._storage = open_storage(parse(root, creds=creds))
        first = next(iter(self._storage.list(self._prefix)), None)
        if first is None:
            return
        if not self._overwrite:
            raise ExportError(
                f"{self.shown} holds {first[0]} already: choose another place, or overwrite=True"
            )
        if not self.single_file:
            self._storage.delete_prefix("")

    def _put(self, storage: Storage, name: str, data: bytes | memoryview) -> None:
        storage.put(self._prefix + name, data)
        with self._lock:
            self.files += 1
            self.nbytes += len(data)


_FILE = "file"


@contextmanager
def _content(path: str) -> Iterator[bytes | memoryview]:
    """Open a file as mapped bytes, which stay on the disk until they are sent."""
    if not os.path.getsize(path):
        yield b""
        return
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):
        yield view


def _clean(part: str) -> str:
    """Return a part of a name without characters that file systems refuse."""
    found = "".join("_" if ord(character) < 32 or character in '<>:"|?*' else character for character in part)
    return found.encode("utf-8", "replace")[:200].decode("utf-8", "ignore").strip() or "_"


def _sync(made: str, files: Sequence[str]) -> None:
    """Make files and their folder durable."""
    if hasattr(os, "sync") and len(files) > 100:
        os.sync()
        return
    for path in {made, *files}:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
