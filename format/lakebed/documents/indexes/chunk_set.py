"""The chunks that a version has in addition to those of its parents: `chunk_set` (format.md 9.3).

    text       comma-joined entries, no newline; empty: none
    entry      name | name:commit | name:commit:key

The chunk `name` is in the folder of `commit` (absent: this version), under the tensor `key` (absent: this
tensor).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from lakebed import limits
from lakebed.documents.fields import checked_key
from lakebed.errors import FormatError

Place: TypeAlias = tuple[str | None, str | None]

HERE: Place = (None, None)

_WHAT = "chunk_set"


@dataclass(frozen=True, slots=True)
class ChunkSet(Mapping[str, Place]):
    """Chunk name -> (version folder or None, tensor key or None), in file order."""

    places: Mapping[str, Place] = field(default_factory=dict)

    @classmethod
    def from_bytes(cls, data: bytes) -> ChunkSet:
        """Parse the file; the last entry of a name counts.

        Raises
        ------
        FormatError
            If an entry is damaged or could lead out of the dataset's folder.
        LimitError
            If the file is longer than this process allows.
        """
        limits.check("MAX_JSON_BYTES", len(data), _WHAT)
        if not data:
            return cls()
        try:
            text = bytes(data).decode("utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"{_WHAT} is not text: {error}") from error
        if "::" in text or ":," in text or text.endswith(":"):
            raise FormatError(f"{_WHAT}: an entry has an empty part")
        known: dict[str, Place] = {"": HERE}
        places = {}
        plain = text.isascii() and text.replace(":", "").replace(",", "").isalnum()
        for entry in text.split(","):
            name, _, rest = entry.partition(":")
            place = known.get(rest)
            if place is None:
                place = known[rest] = _parse_place(rest)
            if not name or not (plain or name.isalnum()):
                raise FormatError(f"{_WHAT}: {entry!r:.60} names no chunk")
            places[name] = place
        return cls(places)

    def to_bytes(self) -> bytes:
        """Write the file."""
        known = {place: _format_place(place) for place in set(self.places.values())}
        return ",".join([name + known[place] for name, place in self.places.items()]).encode("utf-8")

    def __getitem__(self, name: str) -> Place:
        return self.places[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


def _parse_place(text: str) -> Place:
    commit, colon, key = text.partition(":")
    if (
        not commit.isprintable()
        or not commit.isascii()
        or commit in ("", ".", "..")
        or "/" in commit
        or "\\" in commit
    ):
        raise FormatError(f"{_WHAT}: {commit!r:.60} is not a version")
    if colon and ":" in key:
        raise FormatError(f"{_WHAT}: {key!r:.60} is not a tensor key")
    return commit, checked_key(key, _WHAT) if colon else None


def _format_place(place: Place) -> str:
    commit, key = place
    if key is not None:
        return f":{commit}:{key}"
    return "" if commit is None else f":{commit}"
