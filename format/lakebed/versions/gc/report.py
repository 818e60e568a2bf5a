"""Report of a garbage collection: removed and kept items. Plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from lakebed.runtime.printable import printable


@dataclass(frozen=True, slots=True)
class Removed:
    """Removed files: those of a version, chunks in a version's folder, manifests, pages, or a temporary file."""

    what: str
    name: str
    files: int
    bytes: int
    why: str

    def __str__(self) -> str:
        named = f"{self.what} {self.name}".rstrip()
        files = f"{self.files:,} file{'s' * (self.files != 1)}, {self.bytes:,} bytes"
        return printable(f"{named}: {files}; {self.why}")


@dataclass(frozen=True, slots=True)
class Kept:
    """An item that looks like garbage but is kept."""

    what: str
    name: str
    why: str

    def __str__(self) -> str:
        return printable(f"{self.what} {self.name}".rstrip() + f": {self.why}")


@dataclass(slots=True)
class Report:
    """The report of one garbage collection.

    Attributes
    ----------
    dry_run
        True if nothing was removed, and ``removed`` lists what would have been removed.
    """

    dataset: str
    dry_run: bool = False
    removed: list[Removed] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)

    def remove(self, what: str, name: str, files: int, size: int, why: str) -> None:
        """Add removed files."""
        self.removed.append(Removed(what, name, files, size, why))

    def keep(self, what: str, name: str, why: str) -> None:
        """Add an item that stays."""
        self.kept.append(Kept(what, name, why))

    @property
    def files(self) -> int:
        """Number of removed files."""
        return sum(item.files for item in self.removed)

    @property
    def bytes(self) -> int:
        """Number of removed bytes."""
        return sum(item.bytes for item in self.removed)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data, for JSON."""
        return {
            "dataset": self.dataset,
            "dry_run": self.dry_run,
            "files": self.files,
            "bytes": self.bytes,
            "removed": [asdict(item) for item in self.removed],
            "kept": [asdict(item) for item in self.kept],
        }
