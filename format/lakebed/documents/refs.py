"""Tags, and parents of merges: `.lakebed/refs.json`, a side file that Deep Lake 3.9.52 ignores.

    {"tags": {name: {"commit": id, "message": text or null, "time": POSIX seconds, "user": text}},
     "merges": {id of a merge commit: {"parents": [ids of its further parents], "time": when it was recorded}},
     "sum": checksum}

The checksum is the xxh3-64 of the whole file with sixteen zeros in its place, in hexadecimal. The first parent of a
merge commit is in the version tree. Unknown members are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import xxhash

from lakebed import limits
from lakebed.documents import fields, json_style
from lakebed.errors import FormatError

_WHAT = "refs.json"
# First and last second, in POSIX time, that `datetime` can represent.
_YEAR_1, _YEAR_10000 = -62_135_596_800, 253_402_300_800
_UNSUMMED = "0" * 16
# JSON strings escape quotes, so no name or message can match this pattern.
_SUM = rb'"sum": "([0-9a-f]{16})"\}\Z'


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a commit; `time` is the time at which the tag was made, in POSIX seconds."""

    name: str
    commit: str
    message: str | None
    time: float
    user: str
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Further members of the document."""

    @classmethod
    def from_json(cls, name: str, doc: Any) -> Tag:
        """Read one entry of `tags`.

        Raises
        ------
        FormatError
            If a member is missing or of the wrong type.
        """
        what = f"{_WHAT}: tag {name!r:.60}"
        doc = _object(doc, what)
        return cls(
            name,
            fields.checked_version(doc.get("commit"), what),
            fields.optional(doc, str, ("message",), what).get("message"),
            _seconds(doc, what),
            fields.text(doc, "user", what, ""),
            {key: value for key, value in doc.items() if key not in ("commit", "message", "time", "user")},
        )

    def to_json(self) -> dict[str, Any]:
        """Return the tag as in the document, below its name."""
        known = {"commit": self.commit, "message": self.message, "time": self.time, "user": self.user}
        return {**known, **self.extra}


@dataclass(frozen=True, slots=True)
class Refs:
    """Tags by name, and the further parents of merge commits by the id of the merge commit.

    Parameters
    ----------
    recorded
        Time at which each merge was recorded, in POSIX seconds: shortly before its commit is published.
    """

    tags: Mapping[str, Tag] = field(default_factory=dict)
    merges: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    recorded: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_bytes(cls, data: bytes) -> Refs:
        """Parse the file.

        Raises
        ------
        FormatError
            If the file is damaged or differs from its checksum.
        LimitError
            If the file holds more than this process allows.
        """
        doc = json_style.load_object(data, _WHAT)
        found = re.search(_SUM, data)
        if found is None or found[1] != _sum(data, found):
            raise FormatError(f"{_WHAT} is damaged: its checksum is wrong")
        tags, merges = fields.mapping(doc, "tags", _WHAT), fields.mapping(doc, "merges", _WHAT)
        limits.check("MAX_VERSIONS", max(len(tags), len(merges)), f"{_WHAT}: tags or merges")
        further, recorded = {}, {}
        for commit, entry in merges.items():
            what = f"{_WHAT}: merge {commit:.60}"
            members = _object(entry, what)
            parents = fields.texts(members, "parents", what)
            further[fields.checked_version(commit, _WHAT)] = tuple(
                fields.checked_version(parent, what) for parent in parents
            )
            recorded[commit] = _seconds(members, what)
        extra = {key: value for key, value in doc.items() if key not in ("tags", "merges", "sum")}
        return cls({name: Tag.from_json(name, tag) for name, tag in tags.items()}, further, recorded, extra)

    def to_bytes(self) -> bytes:
        """Write the file."""
        merges = {
            commit: {"parents": list(parents), "time": self.recorded.get(commit, 0.0)}
            for commit, parents in self.merges.items()
        }
        tags = {name: tag.to_json() for name, tag in self.tags.items()}
        data = json_style.dump_compact({"tags": tags, "merges": merges, **self.extra, "sum": _UNSUMMED})
        *_, found = re.finditer(_SUM, data)
        return data[: found.start(1)] + _sum(data, found) + data[found.end(1) :]


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{what} is {value!r:.60}, not an object")
    return value


def _seconds(doc: Mapping[str, Any], what: str) -> float:
    value: Any = doc.get("time")
    if type(value) not in (int, float) or not _YEAR_1 <= value < _YEAR_10000:
        raise FormatError(f"{what}: time is {value!r:.60}, not a time")
    return float(value)


def _sum(data: bytes, at: re.Match[bytes]) -> bytes:
    blank = data[: at.start(1)] + _UNSUMMED.encode("ascii") + data[at.end(1) :]
    return xxhash.xxh3_64_hexdigest(blank).encode("ascii")
