"""Read files of this machine."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakebed import config, limits
from lakebed.errors import UnsafePathError

if TYPE_CHECKING:
    from collections.abc import Mapping

_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


def path_of(url: str) -> str:
    """Return the path that a path or ``file://`` address names.

    Raises
    ------
    OSError
        If the address names another machine.
    """
    if url[:7].lower() == "file://":
        host, slash, rest = url[7:].partition("/")
        if host not in ("", "localhost"):
            raise OSError(errno.EINVAL, f"file:// addresses of another machine ({host}) cannot be read", url)
        return unquote(slash + rest)
    return os.path.expanduser(url) if url[:1] == "~" else url  # noqa: PTH111


def read_file(path: str) -> bytes:
    """Read a whole regular file with one open, read and close.

    Raises
    ------
    OSError
        If it is not there, no regular file, or not readable.
    LimitError
        If it is larger than ``limits.MAX_FETCH_BYTES``.
    """
    # Not blocking: opening a pipe that nobody writes to would otherwise never return.
    handle = os.open(path, _FLAGS)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            code = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
            raise OSError(code, "not a regular file", path)
        if found.st_size > limits.MAX_FETCH_BYTES:
            limits.check("MAX_FETCH_BYTES", found.st_size, f"file {path!r}, in bytes")
        # One byte more than the size: the file's end shows without a second call, and growth shows too.
        data = os.read(handle, found.st_size + 1)
        if len(data) != found.st_size:
            data = _rest(handle, path, data)
        return data
    finally:
        os.close(handle)


def _rest(handle: int, path: str, data: bytes) -> bytes:
    parts = [data]
    total = len(data)
    while part := os.read(handle, 1 << 20):
        parts.append(part)
        total += len(part)
        limits.check("MAX_FETCH_BYTES", total, f"file {path!r}, in bytes")
    return b"".join(parts)


def check_root(path: str) -> None:
    """Refuse a linked path outside of ``config.LINK_ROOTS``, symbolic links resolved.

    Raises
    ------
    UnsafePathError
        If the path leads out of every root.
    """
    roots = config.LINK_ROOTS
    if roots is None:
        return
    real = os.path.realpath(path)
    for root in roots:
        base = os.path.realpath(root)
        if real == base or real.startswith(base.rstrip(os.sep) + os.sep):
            return
    raise UnsafePathError(f"the link to {path!r} leads out of the folders of lakebed.config.LINK_ROOTS")


class LocalFiles:
    """Fetcher of paths and ``file://`` addresses; relative paths count from the working directory, as in 3.9.52."""

    def fetch(self, url: str, *, timeout: float | None, creds: Mapping[str, Any] | None) -> bytes:  # noqa: ARG002
        """Read the file."""
        return read_file(path_of(url))
