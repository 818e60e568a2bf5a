"""Changes of a version to the schema: `dataset_diff` (format.md 10.3).  All numbers are big-endian.

bytes      content
1          u8 info updated
8          u64 r, then r renames: u64 length of the old name, u64 length of the new, old, new
8          u64 d, then d deletions: u64 length, name
"""

from __future__ import annotations

from dataclasses import dataclass

from lakebed import limits
from lakebed.errors import FormatError

_WHAT = "dataset_diff"


@dataclass(frozen=True, slots=True)
class DatasetDiff:
    """Changes of the schema: whether the info changed, (old, new) names of renamed and names of deleted tensors."""

    info_updated: bool = False
    renamed: tuple[tuple[str, str], ...] = ()
    deleted: tuple[str, ...] = ()

    @classmethod
    def from_bytes(cls, data: bytes) -> DatasetDiff:
        """Parse the file.

        Raises
        ------
        FormatError
            If the file ends early or late, or a name is not text.
        LimitError
            If the file is longer than this process allows.
        """
        limits.check("MAX_JSON_BYTES", len(data), _WHAT)
        if not data or data[0] > 1:
            raise FormatError(f"{_WHAT} does not begin with a flag")
        reader = _Reader(bytes(data), 1)
        renamed = []
        for _ in range(reader.number()):
            old, new = reader.number(), reader.number()
            renamed.append((reader.text(old), reader.text(new)))
        deleted = [reader.text(reader.number()) for _ in range(reader.number())]
        if reader.offset != len(data):
            raise FormatError(f"{_WHAT} has {len(data) - reader.offset} bytes too many")
        return cls(bool(data[0]), tuple(renamed), tuple(deleted))

    def to_bytes(self) -> bytes:
        """Write the file."""
        parts = [bytes([self.info_updated]), _number(len(self.renamed))]
        for names in self.renamed:
            old, new = (name.encode("utf-8") for name in names)
            parts += [_number(len(old)), _number(len(new)), old, new]
        parts.append(_number(len(self.deleted)))
        for name in self.deleted:
            raw = name.encode("utf-8")
            parts += [_number(len(raw)), raw]
        return b"".join(parts)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was changed."""
        return not (self.info_updated or self.renamed or self.deleted)


def _number(value: int) -> bytes:
    return value.to_bytes(8, "big")


@dataclass(slots=True)
class _Reader:
    """Reader of bytes that checks every step against their end, so that a wrong count is an error."""

    data: bytes
    offset: int

    def read_bytes(self, n: int) -> bytes:
        if n > len(self.data) - self.offset:
            raise FormatError(f"{_WHAT} ends at byte {len(self.data)}, but {n} more bytes must follow")
        found = self.data[self.offset : self.offset + n]
        self.offset += n
        return found

    def number(self) -> int:
        return int.from_bytes(self.read_bytes(8), "big")

    def text(self, n: int) -> str:
        try:
            return self.read_bytes(n).decode("utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"{_WHAT} holds a name that is not text: {error}") from error
