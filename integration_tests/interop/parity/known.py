"""Differences from 3.9.52 that we want, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from integration_tests.interop.parity.compare import Difference


@dataclass(frozen=True)
class Known:
    """A difference that is right."""

    case: str
    line: str
    """What the statement contains."""
    reason: str
    where: str = ""
    """What the place of the difference inside the value contains."""

    def covers(self, found: Difference) -> bool:
        """Whether it is this one."""
        return found.case == self.case and self.line in found.line and self.where in found.where


KNOWN: tuple[Known, ...] = ()
