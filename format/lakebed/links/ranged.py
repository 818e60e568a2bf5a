"""A remote file of which only the parts that a reader needs are fetched."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from lakebed import limits
from lakebed.errors import StorageUnavailableError
from lakebed.links.part import Part

HEAD = 1 << 16
"""Number of bytes that are fetched first: the header of most files, and all of a small one."""

# Maximum size of the steps in which sequential reads are fetched; each step is twice as large as the one before.
_LONGEST_STEP = 4 << 20
# If the rest of a file is smaller than this, it is fetched in one step.
_SMALL = 1 << 20

Fetch = Callable[[int, int, str | None], Part]
"""Function that fetches up to ``length`` bytes, beginning at ``start``; the tag identifies an earlier content."""


class RangedFile:
    """Bytes-like object, read by slices, that remembers the parts it has fetched.

    Parameters
    ----------
    fetch
        Fetches a part of the file.
    head
        Bytes of the first part.
    """

    def __init__(self, fetch: Fetch, head: int = HEAD) -> None:
        self._fetch = fetch
        first = fetch(0, head, None)
        self._tag = first.tag
        self.total = len(first.data) if len(first.data) < head or first.total is None else first.total
        if first.total is None and len(first.data) >= head:
            rest = self._to_the_end(len(first.data)) if first.has_ranges else self._anew(len(first.data))
            first = Part(first.data + rest)
            self.total = len(first.data)
        self.head = first.data
        self._at_once = not first.has_ranges
        self._starts, self._parts = [0], [first.data]
        self._step = HEAD
        self.fetched = len(first.data)
        """Bytes fetched so far."""

    def _anew(self, start: int) -> bytes:
        """Fetch a file from its beginning, since its server lacks ranges; return the bytes from ``start`` on."""
        data = self._fetch(0, limits.MAX_FETCH_BYTES, self._tag).data
        limits.check("MAX_FETCH_BYTES", len(data) + 1, "a linked file, in bytes")
        return data[start:]

    def _to_the_end(self, start: int) -> bytes:
        """Fetch a file of unknown length."""
        parts: list[bytes] = []
        while True:
            part = self._fetch(start, _LONGEST_STEP, self._tag).data
            parts.append(part)
            start += len(part)
            limits.check("MAX_FETCH_BYTES", start, "a linked file, in bytes")
            if len(part) < _LONGEST_STEP:
                return b"".join(parts)

    def __len__(self) -> int:
        return self.total

    def __getitem__(self, span: slice) -> bytes:
        start, stop, step = span.indices(self.total)
        if step != 1:
            raise ValueError("a linked file is read by slices with a step of 1")
        parts: list[bytes] = []
        while start < stop:
            parts.append(self.some(start, stop - start))
            start += len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def is_whole(self) -> bool:
        """True if the first part is the whole file."""
        return len(self.head) == self.total

    def some(self, start: int, length: int) -> bytes:
        """Return between one and ``length`` bytes from ``start`` on; none at the end."""
        if start >= self.total or length <= 0:
            return b""
        at = bisect_right(self._starts, start) - 1
        offset = start - self._starts[at]
        if offset >= len(self._parts[at]):
            self._extend(at, start, length)
            return self.some(start, length)
        return self._parts[at][offset : offset + length]

    def _extend(self, at: int, start: int, length: int) -> None:
        """Fetch bytes from ``start`` on, more of them in a sequential read."""
        follows = self._starts[at] + len(self._parts[at]) == start
        self._step = min(2 * self._step, _LONGEST_STEP) if follows else HEAD
        self.prefetch(start, start + max(length, self._step))

    def prefetch(self, start: int, stop: int) -> None:
        """Fetch the missing bytes between two offsets, each gap by one request."""
        if self._at_once and not self.is_whole:
            limits.check("MAX_FETCH_BYTES", self.total, "a linked file, in bytes")
            self._at_once = False
            self._starts, self._parts = [0], [self._fetch(0, self.total, self._tag).data]
            self.fetched += len(self._parts[0])
        elif self.total - len(self.head) <= _SMALL:
            start, stop = len(self.head), self.total
        stop = min(stop, self.total)
        while start < stop:
            at = bisect_right(self._starts, start) - 1
            known = self._starts[at] + len(self._parts[at])
            if known > start:
                start = known
                continue
            end = min(stop, self._starts[at + 1]) if at + 1 < len(self._starts) else stop
            limits.check("MAX_FETCH_BYTES", self.fetched + end - start, "parts of a linked file, in bytes")
            data = self._fetch(start, end - start, self._tag).data
            if len(data) != end - start:
                raise StorageUnavailableError(
                    f"the file ends after {start + len(data)} bytes; it had {self.total} before"
                )
            self.fetched += len(data)
            self._starts.insert(at + 1, start)
            self._parts.insert(at + 1, data)
            start = end

    def whole(self) -> bytes:
        """Return the content, after fetching its missing parts."""
        self.prefetch(0, self.total)
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
