"""Read files of this machine, whole or in part: for the user wherever they are, for links where the policy allows it.

Which file a path leads to is decided once: a link is opened as a mere place first (``O_PATH``), which reads nothing and
does nothing to devices, then the system is asked where that place is, and that same file, not the path, is read.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from lakebed import limits
from lakebed.errors import UnsafePathError
from lakebed.links.part import Part
from lakebed.storage.address import path_of

if TYPE_CHECKING:
    from lakebed.links.policy import Policy
    from lakebed.storage.credentials import Creds

# Not blocking: opening a pipe without a writer would otherwise never return.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


def read_file(path: str, policy: Policy | None = None) -> bytes:
    """Read a whole regular file with one open, read and close.

    Parameters
    ----------
    policy
        What a link may lead to; None is the user's own call.

    Raises
    ------
    UnsafePathError
        If the policy does not allow the file.
    OSError
        If it is not there, no regular file, or not readable.
    LimitError
        If it is larger than ``limits.MAX_FETCH_BYTES``.
    """
    handle = _open(path, policy)
    try:
        found = _regular(handle, path)
        if found.st_size > limits.MAX_FETCH_BYTES:
            limits.check("MAX_FETCH_BYTES", found.st_size, f"file {path!r}, in bytes")
        # One byte more than the size: the file's end shows without a second call, and growth shows too.
        data = os.read(handle, found.st_size + 1)
        if len(data) != found.st_size:
            data = _rest(handle, path, data)
        return data
    finally:
        os.close(handle)


def read_part(path: str, start: int, length: int, policy: Policy | None = None) -> Part:
    """Read ``length`` bytes from offset ``start`` of a regular file, fewer at its end; see :func:`read_file`."""
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
        tag = f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
        return Part(parts[0] if len(parts) == 1 else b"".join(parts), found.st_size, tag)
    finally:
        os.close(handle)


def _open(path: str, policy: Policy | None) -> int:
    if policy is None:
        return os.open(path, _FLAGS)
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        # Whether there is a file is told only of places that may be read.
        policy.check_file(path, os.path.realpath(path))
        raise
    try:
        handed = f"/proc/self/fd/{place}"
        try:
            real = os.readlink(handed)  # noqa: PTH115
        except OSError as error:
            raise UnsafePathError(
                f"the link to {path!r} is not followed: /proc, which tells where it leads, is not there"
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


def _unless_own(url: str, policy: Policy | None) -> Policy | None:
    """Return the policy for a file that a link leads to: none if this process has appended the link itself."""
    if policy is None:
        return None
    policy.scheme(url)
    return None if policy.is_own(url) else policy


class LocalFiles:
    """Fetcher of paths and ``file://`` addresses; relative paths count from the working directory, as in 3.9.52."""

    def fetch(self, url: str, *, timeout: float | None, creds: Creds | None, policy: Policy | None) -> bytes:  # noqa: ARG002
        """Read the file."""
        return read_file(path_of(url), _unless_own(url, policy))

    def part(
        self,
        url: str,
        start: int,
        length: int,
        *,
        creds: Creds | None,  # noqa: ARG002
        policy: Policy | None,
        tag: str | None,
    ) -> Part:
        """Read a part of the file.

        Raises
        ------
        OSError
            If it is not there, not readable, or another than the one that ``tag`` is of.
        """
        found = read_part(path_of(url), start, length, _unless_own(url, policy))
        if tag is not None and found.tag != tag:
            raise OSError(errno.ESTALE, "was replaced while it was read; read it again", path_of(url))
        return found
