"""A dataset with its history in one file, and back."""

from __future__ import annotations

import mmap
import os
import tempfile
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path as FilePath
from typing import IO

from lakebed.copying.deepcopy import deepcopy
from lakebed.errors import DatasetExistsError, InvalidInputError, PathNotEmptyException
from lakebed.errors.stores import storage_error
from lakebed.session.handle import Handle
from lakebed.session.places import Path, whole
from lakebed.session.session import Session
from lakebed.storage.base import Storage, without_cache
from lakebed.storage.pack_writer import PackWriter
from lakebed.storage.packed import PackedStorage
from lakebed.storage.url import PACKED_SUFFIX, Location, file_of, open_storage


def pack_everything(
    source: Session, dest: Path, tensors: Sequence[str] | None, *, overwrite: bool, progressbar: bool
) -> Handle:
    """Write a dataset with its history to one file, which appears complete or not at all, and open the file.

    Raises
    ------
    InvalidInputError
        If the name of the file does not end in ``.lake``.
    DatasetHandlerError
        If the file exists and ``overwrite`` is false.
    PathNotEmptyException
        If a folder of that name exists.
    ChecksumError
        If the source is damaged.
    """
    location = whole(dest)
    if not location.path.endswith(PACKED_SUFFIX) or location.scheme == "mem":
        raise InvalidInputError(
            f"the name of a packed dataset must end in {PACKED_SUFFIX}, unlike {location.shown}"
        )
    origin = without_cache(source.storage)
    if origin.url == location.shown:
        raise DatasetExistsError(f"{location.shown} can not be packed into itself; choose another name")
    if location.scheme == "file":
        _pack_to_file(origin, FilePath(location.path), tensors, overwrite=overwrite, progressbar=progressbar)
    else:
        _pack_to_store(origin, location, tensors, overwrite=overwrite, progressbar=progressbar)
    return Handle(Session(open_storage(location), read_only=True), location.shown)


def _pack_to_file(
    origin: Storage, path: FilePath, tensors: Sequence[str] | None, *, overwrite: bool, progressbar: bool
) -> None:
    if path.is_dir():
        raise PathNotEmptyException(f"{path} is a folder; choose a name that does not exist")
    _refuse_existing(path.exists(), str(path), overwrite=overwrite)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb+") as file:
            _write(origin, file, str(path), tensors, progressbar=progressbar)
            file.flush()
            os.fsync(file.fileno())
        _refuse_existing(path.exists(), str(path), overwrite=overwrite)
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise storage_error(error, "write", str(path)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _pack_to_store(
    origin: Storage, location: Location, tensors: Sequence[str] | None, *, overwrite: bool, progressbar: bool
) -> None:
    """Write the file to a local disk first, because a store takes only complete files."""
    storage, key = file_of(location)
    _refuse_existing(storage.stat(key) is not None, location.shown, overwrite=overwrite)
    with tempfile.TemporaryFile(prefix="lakebed-pack-") as file:
        _write(origin, file, location.shown, tensors, progressbar=progressbar)
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content, memoryview(content) as view:
            _refuse_existing(storage.stat(key) is not None, location.shown, overwrite=overwrite)
            storage.put(key, view)


def _write(
    origin: Storage, file: IO[bytes], url: str, tensors: Sequence[str] | None, *, progressbar: bool
) -> None:
    writer = PackWriter(file, url)
    try:
        deepcopy(origin, writer, tensors, progressbar=progressbar)
        writer.finish()
    finally:
        writer.close()


def _refuse_existing(is_there: bool, shown: str, *, overwrite: bool) -> None:
    if is_there and not overwrite:
        raise DatasetExistsError(f"{shown} exists already; choose another name, or pass overwrite=True")


def _sync_folder(folder: FilePath) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def check_packed(path: Path) -> None:
    """Refuse a source of :func:`lakebed.unpack` that is not a packed dataset.

    Raises
    ------
    InvalidInputError
        If the source is not a packed dataset.
    """
    found = without_cache(open_storage(path))
    if not isinstance(found, PackedStorage):
        raise InvalidInputError(
            f"{found.url} is not a packed dataset, which is one file whose name ends in {PACKED_SUFFIX}; copy a folder "
            "with lakebed.deepcopy"
        )
