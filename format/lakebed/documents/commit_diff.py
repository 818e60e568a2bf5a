"""Changes of a version to a tensor: `commit_diff` (format.md 10.2).  All numbers are big-endian.

    offset     content
    0          u8 created
    1          u8 info updated
    2          u8 data transformed in place
    3          u64 first, u64 last: samples [first, last) were added
    19         u64 m, then m u64 updated indices
    27 + 8m    u8 cleared
    28 + 8m    u64 n, then n u64 deleted indices, then the u64 ids of deleted samples to the end

The file may end after `cleared`.  More ids than deleted indices are possible: samples that were added and deleted in
the same version.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lakebed import limits
from lakebed.errors import FormatError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WHAT = "commit_diff"
_HEAD = struct.Struct(">???QQQ")


_NONE: NDArray[np.uint64] = np.zeros(0, np.uint64)
_NONE.flags.writeable = False
_CLEARED, _NOT_CLEARED = b"\1" + bytes(8), bytes(9)
"""End of a file without updated and deleted samples."""


def _none() -> NDArray[np.uint64]:
    return _NONE


@dataclass(frozen=True, eq=False)
class CommitDiff:
    """Changes to one tensor since the parent version; index arrays are uint64, shape (n,)."""

    created: bool = False
    info_updated: bool = False
    data_transformed: bool = False
    first: int = 0
    last: int = 0
    updated: NDArray[np.uint64] = field(default_factory=_none)
    cleared: bool = False
    deleted: NDArray[np.uint64] = field(default_factory=_none)
    deleted_ids: NDArray[np.uint64] = field(default_factory=_none)

    @classmethod
    def from_bytes(cls, data: bytes) -> CommitDiff:
        """Parse the file.

        Raises
        ------
        FormatError
            If the file ends early, a flag is neither 0 nor 1, or the added range is impossible.
        LimitError
            If the file is longer than this process allows.
        """
        limits.check("MAX_ENCODER_BYTES", len(data), _WHAT)
        if len(data) < _HEAD.size + 1:
            raise FormatError(f"{_WHAT} has {len(data)} bytes, too few for its header")
        created, info_updated, data_transformed, first, last, m = _HEAD.unpack_from(data)
        end = _HEAD.size + 8 * m
        if len(data) <= end:
            raise FormatError(f"{_WHAT} has {len(data)} bytes, too few for {m} updated indices")
        if max(data[0], data[1], data[2], data[end]) > 1 or first > last or last >> 63:
            raise FormatError(f"{_WHAT} has an impossible flag or range")
        rest = len(data) - end - 1
        n = int.from_bytes(data[end + 1 : end + 9], "big") if rest else 0
        if rest and (rest < 8 * (1 + n) or rest % 8):
            raise FormatError(f"{_WHAT} has {rest} bytes for {n} deleted indices")
        tail = np.frombuffer(data, ">u8", offset=end + 9 if rest else len(data)).astype(np.uint64)
        return cls(
            created=created,
            info_updated=info_updated,
            data_transformed=data_transformed,
            first=first,
            last=last,
            updated=np.frombuffer(data, ">u8", m, _HEAD.size).astype(np.uint64),
            cleared=bool(data[end]),
            deleted=tail[:n],
            deleted_ids=tail[n:],
        )

    def to_bytes(self) -> bytes:
        """Write the file."""
        head = _HEAD.pack(
            self.created, self.info_updated, self.data_transformed, self.first, self.last, len(self.updated)
        )
        if self.updated is _NONE and self.deleted is _NONE and self.deleted_ids is _NONE:
            return head + (_CLEARED if self.cleared else _NOT_CLEARED)
        return b"".join(
            [
                head,
                self.updated.astype(">u8").tobytes(),
                bytes([self.cleared]),
                len(self.deleted).to_bytes(8, "big"),
                self.deleted.astype(">u8").tobytes(),
                self.deleted_ids.astype(">u8").tobytes(),
            ]
        )

    def __eq__(self, other: object) -> bool:
        return self.to_bytes() == other.to_bytes() if isinstance(other, CommitDiff) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @property
    def added(self) -> int:
        """Number of samples that were added."""
        return self.last - self.first

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was changed."""
        flags = self.created or self.info_updated or self.data_transformed or self.cleared
        return not (flags or self.added or len(self.updated) or len(self.deleted))
