"""The end of a version history of ours, which can be read alone; its layout is told in `version_tree`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import xxhash

from lakebed.documents import json_style
from lakebed.documents.commit_node import WHAT
from lakebed.documents.commits import OPENING, ColdNodes, Commits
from lakebed.errors import FormatError

OWN = ("nodes", "begins", "rest", "sum")
"""Members of ours that only serve to read the file."""

_ZEROS = "0" * 16
_CLOSING = 3
"""Bytes behind the checksum."""

# Quotes inside of JSON strings are escaped, so no message or name can look like these.
_SUM = rb'"sum": "([^"]{16})"'
_TRAILER = re.compile(
    rb'"nodes": (\d{1,9}), "begins": "(\d{16})", "rest": "([0-9a-f]{16})", "sum": "([0-9a-f]{16})"\}\}\Z'
)
_TRAILER_BYTES = 160


@dataclass(frozen=True, slots=True)
class TreeEnd:
    """How many versions are before the offset `begins`, the checksum of that text, and that of the end."""

    nodes: int
    begins: int
    rest: int
    sum: str

    @classmethod
    def of(cls, data: bytes) -> TreeEnd | None:
        """Find it in the last bytes of a file; None if the file was not written so."""
        found = _TRAILER.search(data, max(0, len(data) - _TRAILER_BYTES))
        if found is None:
            return None
        nodes, begins, rest, total = (part.decode("ascii") for part in found.groups())
        return cls(int(nodes), int(begins), int(rest, 16), total)

    def document(self, tail: bytes) -> dict[str, Any]:
        """Parse the end of the file, from where it begins on, as a document with fewer versions.

        Raises
        ------
        FormatError
            If it is not what was written.
        """
        if len(tail) < _TRAILER_BYTES // 2 or _sum(tail, len(tail) - len(_ZEROS) - _CLOSING) != self.sum:
            raise FormatError(f"{WHAT} is not as it was written: its checksum is wrong")
        return json_style.load_object(OPENING + tail, WHAT)

    def cold(self, rest: bytes) -> ColdNodes:
        """Return the versions before the end, as text.

        Raises
        ------
        FormatError
            If it is not what was written.
        """
        cold = ColdNodes.of(rest, self.nodes)
        if cold.sum != self.rest or not rest.startswith(OPENING):
            raise FormatError(f"{WHAT} is not as it was written: its checksum is wrong")
        return cold


def whole(commits: Commits, members: Mapping[str, Any], name: str, ours: Mapping[str, Any]) -> list[bytes]:
    """Write the pieces of a file: versions that are not at hand, those that are, other members, ours by its name."""
    cold = commits.cold
    rest = cold.text
    last = {
        **{key: value for key, value in ours.items() if key not in OWN},
        "nodes": cold.count,
        "begins": f"{len(rest):016d}",
        "rest": f"{cold.sum:016x}",
        "sum": _ZEROS,
    }
    nodes = b", ".join([node.member(with_digest=True) for node in commits.hot.values()])
    tail = nodes + b"}, " + json_style.dump_compact({**members, name: last})[1:]
    at = len(tail) - len(_ZEROS) - _CLOSING
    return [rest, tail[:at], _sum(tail, at).encode("ascii"), tail[-_CLOSING:]]


def check_early_sum(data: bytes) -> bool:
    """Tell whether an early release wrote the file, with a checksum of all of it.

    Raises
    ------
    FormatError
        If the checksum is wrong.
    """
    found = list(re.finditer(_SUM, data))
    if found and _sum(data, found[-1].start(1)).encode("ascii") != found[-1][1]:
        raise FormatError(f"{WHAT} is not as it was written: its checksum is wrong")
    return bool(found)


def _sum(data: bytes, at: int) -> str:
    state = xxhash.xxh3_64(data[:at])
    state.update(_ZEROS.encode("ascii"))
    state.update(data[at + len(_ZEROS) :])
    return state.hexdigest()
