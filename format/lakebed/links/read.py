"""``lakebed.read``: a file anywhere as a sample, which is opened when its content is needed."""

from __future__ import annotations

import errno
import os
from functools import partial
from typing import TYPE_CHECKING, Protocol

from lakebed.codecs.sample import Sample
from lakebed.errors import InvalidInputError, LimitError, SampleReadError
from lakebed.storage.address import path_of, scheme_of, shown
from lakebed.storage.credentials import kept

if TYPE_CHECKING:
    from lakebed.codecs.base import Buffer
    from lakebed.storage.credentials import Creds


class Keyed(Protocol):
    """Source of bytes under keys; every storage is one."""

    def get(self, key: str) -> bytes:
        """Return the object of that key."""
        ...


def read(
    path: str | os.PathLike[str] | Buffer,
    verify: bool = False,
    creds: Creds | None = None,
    compression: str | None = None,
    storage: Keyed | None = None,
    timeout: float | None = None,
) -> Sample:
    """Make a sample of a file: an image, video, sound, scan, point cloud or mesh.

    The file is opened when its shape, data or compression is needed, but a missing local file is an error at once. A
    tensor of the same compression stores the file byte for byte; for another, it is decoded first.

    Parameters
    ----------
    path
        Path, or address with ``file``, ``http``, ``https``, ``s3``, ``gs`` or ``az`` before ``://``, or the content of
        a file.
    verify
        Read and decode the file at once, so that errors show now.
    creds
        Credentials for the address: those of an object store as for a dataset there, ``{"headers": {...}}`` for a web
        server.
    compression
        Kind of the file; by default its first bytes tell.
    storage
        Storage in which ``path`` is a key, in place of the file system.
    timeout
        Seconds for a web address altogether.

    Returns
    -------
    Sample
        Raises SampleReadError when it is used and the file cannot be read.

    Raises
    ------
    InvalidInputError
        If ``path`` is not a path, an address or bytes.
    SampleReadError
        If a local file does not exist, or with ``verify``, if the file cannot be read.
    SampleDecompressionError
        With ``verify``, if the file cannot be decoded.

    Examples
    --------
    >>> sample = lakebed.read("photo.jpg")  # doctest: +SKIP
    >>> sample.shape, sample.compression  # doctest: +SKIP
    ((480, 640, 3), 'jpeg')
    """
    creds = kept(creds)
    if isinstance(path, bytes | bytearray | memoryview):
        sample = Sample(buffer=bytes(path), compression=compression)
    else:
        text = os.fspath(path) if isinstance(path, os.PathLike) else path
        if not isinstance(text, str):
            raise InvalidInputError(f"read takes a path, an address or bytes, not {type(text).__name__}")
        # A path with "#bytes=" may refer to a part of a file.
        if storage is None and scheme_of(text) == "file" and "#bytes=" not in text:
            local = _local(text)
            if local is not None and not os.path.lexists(local):
                why = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), local)
                raise SampleReadError(f"Unable to read sample from {text}: the file does not exist") from why
            sample = Sample(path=text, compression=compression, fetch=partial(_disk, text), local=local)
        else:
            fetch_it = partial(_elsewhere, text, creds, storage, timeout)
            sample = Sample(path=text, compression=compression, fetch=fetch_it)
    if verify:
        _ = sample.array
    return sample


def _local(path: str) -> str | None:
    """Return the path of an address of a local file; None if the address names another machine."""
    try:
        return path_of(path)
    except OSError:
        return None


def _disk(path: str) -> bytes:
    from lakebed.links.local import read_file

    try:
        return read_file(path_of(path))
    except (OSError, ValueError) as error:
        raise SampleReadError(f"Unable to read sample from {path}: {error}") from error


def _elsewhere(path: str, creds: Creds | None, storage: Keyed | None, timeout: float | None) -> bytes:
    from lakebed.links.fetch import fetch

    try:
        return storage.get(path) if storage is not None else fetch(path, timeout=timeout, creds=creds)
    except LimitError:
        raise
    except (OSError, LookupError, ValueError) as error:
        raise SampleReadError(f"Unable to read sample from {shown(path)}: {error}") from error
