"""Links to a part of a file, named after ``#`` in the address; the fragment does not change which file may be read.

fragment                            content
#bytes=100-199                      the bytes from 100 to 199, both of them included, as in ranges of HTTP
#bytes=100-199&encoding=base64      the content that these base64 characters encode; the range excludes any final ``=``

Any other fragment is part of the name of the file. 3.9.52 takes every fragment for the name.
"""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass

from lakebed.errors import FormatError, InvalidInputError

_FRAGMENT = re.compile(r"#bytes=([0-9]{1,18})-([0-9]{1,18})(&encoding=base64)?\Z")


@dataclass(frozen=True, slots=True)
class Span:
    """Part of a file, which is read as if it were a file.

    Parameters
    ----------
    url
        Path or address of the whole file.
    first
        Number of its first byte.
    length
        Number of bytes of the part in the file.
    is_base64
        Whether these bytes are base64.
    """

    url: str
    first: int
    length: int
    is_base64: bool = False

    @property
    def size(self) -> int:
        """Number of content bytes."""
        return 3 * self.length // 4 if self.is_base64 else self.length

    def where(self, start: int, length: int) -> tuple[int, int]:
        """Return the first byte and the number of bytes of the file that hold some of the content."""
        length = max(0, min(length, self.size - start))
        if not self.is_base64:
            return self.first + start, length
        first = start // 3 * 4
        stop = min(self.length, -(-(start + length) // 3) * 4)
        return self.first + first, max(0, stop - first) if length else 0

    def content(self, data: bytes, start: int, length: int) -> bytes:
        """Return some of the content, given the bytes of the file that hold it.

        Raises
        ------
        FormatError
            If the bytes should be base64 but are not.
        """
        if not self.is_base64:
            return data
        where = f"bytes {self.first} to {self.first + self.length - 1}"
        if b"=" in data:
            raise FormatError(f"{where} are not base64 text without its final =")
        try:
            decoded = binascii.a2b_base64(data + b"=" * (-len(data) % 4), strict_mode=True)
        except binascii.Error as error:
            raise FormatError(f"{where} are not base64: {error}") from error
        return decoded[start % 3 : start % 3 + length]

    def __str__(self) -> str:
        encoding = "&encoding=base64" if self.is_base64 else ""
        return f"{self.url}#bytes={self.first}-{self.first + self.length - 1}{encoding}"


def span_of(url: str) -> Span | None:
    """Return the part of a file that an address names; None for a whole file.

    Raises
    ------
    InvalidInputError
        If the part ends before it begins, has a length that base64 cannot have, or is a part of a part.
    """
    found = _FRAGMENT.search(url) if "#bytes=" in url else None
    if found is None:
        return None
    first, last = int(found[1]), int(found[2])
    length = last - first + 1
    if length < 1:
        raise InvalidInputError(f"the part of a link, {found[0]}, ends before it begins")
    if found[3] and length % 4 == 1:
        raise InvalidInputError(f"the part of a link, {found[0]}, has a length that base64 cannot have")
    if _FRAGMENT.search(url[: found.start()]):
        raise InvalidInputError(f"a link may not name a part of a part: {url[: found.start()]}")
    return Span(url[: found.start()], first, length, bool(found[3]))
