"""Version prefix of the binary files (format.md 15.1).

bytes      content
1          length n
n          ASCII version of the writer, "3.9.52"
"""

from __future__ import annotations

import functools

from lakebed.errors import FormatError

FORMAT_VERSION = "3.9.52"
"""Version that every file carries; 3.9.52 warns about newer versions and reads at most ten characters."""

PREFIX = bytes([len(FORMAT_VERSION)]) + FORMAT_VERSION.encode("ascii")

_LONGEST = 64


def split(data: bytes | memoryview, what: str) -> tuple[str, int]:
    """Read the prefix: the version, and the offset of the content.

    Raises
    ------
    FormatError
        If the bytes end inside the prefix, or it is not a version.
    """
    n = data[0] if len(data) else 0
    raw = bytes(data[1 : 1 + n])
    if not n or n > _LONGEST or len(raw) != n or not raw.isascii() or not raw.decode("ascii").isprintable():
        raise FormatError(f"{what} does not begin with the version of its writer: {bytes(data[:16]).hex()}")
    return raw.decode("ascii"), 1 + n


@functools.lru_cache(maxsize=64)
def numbers(version: str, what: str) -> tuple[int, ...]:
    """Return the components of a version as numbers, to compare versions.

    Raises
    ------
    FormatError
        If a component is not a number.
    """
    parts = version.split(".")
    if not all(part.isdecimal() and part.isascii() and len(part) < 10 for part in parts):
        raise FormatError(f"{what} has the version {version!r}, which is not a list of numbers")
    return tuple(int(part) for part in parts)
