"""Read files of this machine, whole or in part: any file for the user, allowed ones for links.

The file of a path is determined once: a link is first opened as a place (``O_PATH``), which neither reads nor affects
devices; then the system tells where that place is, and that file, not the path, is read.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from lakebed import limits
from lakebed.errors import UnsafePathError
from lakebed.links.part import Part

if TYPE_CHECKING:
    from lakebed.links.policy import Policy

# O_NONBLOCK: without it, opening a pipe that has no writer would never return.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


def read_file(path: str, policy: Policy | None = None) -> bytes:
    """Read a whole regular file with one open, read and close.

    Parameters
    ----------
    policy
        Rules for links; None for a call of the user.

    Raises
    ------
    UnsafePathError
        If the policy does not allow the file.
    OSError
        If the file does not exist, is not a regular file, or cannot be read.
    LimitError
        If the file is larger than ``limits.MAX_FETCH_BYTES``.
    """
    handle = _open(path, policy)
    try:
        found = _regular(handle, path)
        if found.st_size > limits.MAX_FETCH_BYTES:
            limits.check("MAX_FETCH_BYTES", found.st_size, f"file {path!r}, in bytes")
        # Ask for one byte more than the size: the answer shows that the file ends here and has not grown.
        data = os.read(handle, found.st_size + 1)
        if len(data) != found.st_size:
            data = _rest(handle, path, data)
        return data
    finally:
        os.close(handle)


def read_part(
    path: str, start: int, length: int, policy: Policy | None = None, tag: str | None = None
) -> Part:
    """Read ``length`` bytes from offset ``start`` of a regular file, fewer at its end; see :func:`read_file`.

    If the content has changed since an earlier part, identified by its tag, raise an OSError.
    """
    limits.check("MAX_FETCH_BYTES", length, f"part of file {path!r}, in bytes")
    handle = _open(path, policy)
    try:
        found = _regular(handle, path)
        left = max(0, min(length, found.st_size - start))
        parts: list[bytes] = []
        while left and (part := os.pread(handle, left, start)):
            parts.append(part)
            start += len(part)
            left -= len(part)
        present = f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
        if tag not in (None, present):
            raise OSError(errno.ESTALE, "was replaced while it was read; read it again", path)
        return Part(parts[0] if len(parts) == 1 else b"".join(parts), found.st_size, present)
    finally:
        os.close(handle)


def _open(path: str, policy: Policy | None) -> int:
    if policy is None:
        return os.open(path, _FLAGS)
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        # Raise the original error only for a path that may be read, because the error tells whether a file exists.
        policy.check_file(path, os.path.realpath(path))
        raise
    try:
        handed = f"/proc/self/fd/{place}"
        try:
            real = os.readlink(handed)  # noqa: PTH115
        except OSError as error:
            raise UnsafePathError(
                f"the link to {path!r} is not followed: /proc, which tells where it leads, is missing"
            ) from error
        policy.check_file(path, real)
        _regular(place, path)
        return os.open(handed, _FLAGS)
    finally:
        os.close(place)


def _regular(handle: int, path: str) -> os.stat_result:
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        code = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
        raise OSError(code, "not a regular file", path)
    return found


def _rest(handle: int, path: str, data: bytes) -> bytes:
    parts = [data]
    total = len(data)
    while part := os.read(handle, 1 << 20):
        parts.append(part)
        total += len(part)
        limits.check("MAX_FETCH_BYTES", total, f"file {path!r}, in bytes")
    return b"".join(parts)
