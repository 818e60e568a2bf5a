"""The report of a transform: its rows, and the items that it left out."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from typing import IO, NamedTuple

from lakebed.transforms.output import Skipped
from lakebed.transforms.work import Failure

# Maximum number of failed items in the report; the file lists all of them.
SHOWN_FAILURES = 1000

_PRINTED = 10


@dataclass(frozen=True, slots=True)
class SkippedItem:
    """An input sample left out as a whole or in part: number, text (None for datasets), cause, number of rows."""

    index: int
    item: str | None
    cause: str
    rows: int = 1


class Note(NamedTuple):
    """A notice about added rows: the number of rows to which it applies, and the first of them."""

    rows: int
    first: str


@dataclass(slots=True)
class TransformReport:
    """The result of a transform.

    Attributes
    ----------
    name
        Name of the function.
    items
        Number of input samples of this run, without samples that an earlier run had processed.
    rows
        Number of rows that were added.
    resumed_at
        Number of input samples that an earlier run had processed.
    skipped
        Number of input samples that were left out.
    skipped_rows
        Number of rows that were left out although their input sample was not.
    errors
        The first 1,000 skipped items and rows.
    notes
        Notices about added rows: reason -> number of rows, and the first of them.
    file
        Path of a file of JSON lines, in the folder for temporary files, that lists all skipped items and rows; None if
        at most 10, which are printed, were skipped.
    no_file
        Reason why ``file`` could not be written.
    seconds
        Duration of the run.
    """

    name: str
    items: int = 0
    rows: int = 0
    resumed_at: int = 0
    skipped: int = 0
    skipped_rows: int = 0
    errors: list[SkippedItem] = field(default_factory=list)
    notes: dict[str, Note] = field(default_factory=dict)
    file: str | None = None
    no_file: str | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        done = self.items - self.skipped
        share = 100 * done / self.items if self.items else 100.0
        lines = [
            f"No. of samples successfully processed: {done} ({round(share, 2)}%)",
            f"No. of samples skipped: {self.skipped} ({round(100 - share, 2)}%)",
        ]
        for entry in self.errors[:_PRINTED]:
            what = "" if entry.item is None else f" ({entry.item})"
            lines.append(f"  sample {entry.index}{what}: {entry.cause}")
        if self.skipped_rows:
            lines.insert(2, f"No. of rows skipped: {self.skipped_rows}")
        more = self.skipped + self.skipped_rows - sum(entry.rows for entry in self.errors[:_PRINTED])
        if more:
            lines.append(f"  and {more} more")
        if self.file is not None:
            lines.append(f"All of them: {self.file}")
        if self.no_file is not None:
            lines.append(f"They are not listed in a file: {self.no_file}")
        return "\n".join(lines)


class SkippedLog:
    """Log of items and rows that were left out, in a report and in a file."""

    def __init__(self, report: TransformReport) -> None:
        self._report = report
        self._file: IO[str] | None = None

    def add(self, failures: list[Failure]) -> None:
        """Record items that were left out."""
        for failure in failures:
            self._report.skipped += 1
            self._add(
                SkippedItem(failure.index, failure.item, f"{type(failure.error).__name__}: {failure.error}")
            )
        if failures and self._file is not None:
            self._file.flush()

    def add_rows(self, rows: list[tuple[int, Skipped]]) -> None:
        """Record rows that were left out."""
        for index, row in rows:
            if row.is_change:
                count, first = self._report.notes.get(row.reason, (0, row.where))
                self._report.notes[row.reason] = Note(count + 1, first)
                continue
            self._report.skipped_rows += row.rows
            self._add(SkippedItem(index, row.where, row.reason, row.rows))
        if rows and self._file is not None:
            self._file.flush()

    def _add(self, found: SkippedItem) -> None:
        earlier = self._report.errors
        if self._file is None and self._report.no_file is None and len(earlier) >= _PRINTED:
            self._open()
            for one in earlier:
                self._write(one)
        self._write(found)
        if len(earlier) < SHOWN_FAILURES:
            earlier.append(found)

    def _write(self, found: SkippedItem) -> None:
        if self._file is not None:
            told = {"index": found.index, "item": found.item, "cause": found.cause, "rows": found.rows}
            self._file.write(json.dumps(told) + "\n")

    def _open(self) -> None:
        """Create the file; if no folder for temporary files exists, as in some containers, continue without a file."""
        prefix = f"lakebed-{self._report.name[:40].replace(' ', '-')}-"
        try:
            number, path = tempfile.mkstemp(prefix=prefix, suffix=".jsonl")
        except OSError as error:
            self._report.no_file = f"{error}; set TMPDIR to a folder that can be written"
            return
        self._file, self._report.file = os.fdopen(number, "w", encoding="utf-8"), path

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
