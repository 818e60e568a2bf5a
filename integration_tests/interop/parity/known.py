"""Differences from 3.9.52 that are meant, each with its reason: known.txt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from integration_tests.interop.parity.compare import Difference


@dataclass(frozen=True)
class Known:
    """A difference that nobody has to look at again."""

    case: str
    line: str
    """What the statement contains; `*` for any."""
    reason: str

    def covers(self, found: Difference) -> bool:
        """Whether it is this one."""
        return found.case == self.case and (self.line == "*" or self.line in found.line)


def read(text: str) -> Iterator[Known]:
    """Read a list of differences."""
    reason = ""
    for line in text.splitlines():
        if line.startswith("="):
            reason = line.removeprefix("=").strip()
        elif line and not line.startswith("#"):
            case, *parts = line.split(" | ")
            yield from (Known(case, part, reason) for part in parts)


KNOWN = tuple(read(Path(__file__).with_name("known.txt").read_text()))
