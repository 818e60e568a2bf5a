"""The report of an import."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from lakebed.importers.core.plan import Plan, Problem
from lakebed.runtime.printable import printable

if TYPE_CHECKING:
    from lakebed.dataset.dataset import Dataset
    from lakebed.transforms.report import TransformReport

# Maximum number of left-out rows in the info of the dataset; the report's file lists all of them.
_REMEMBERED = 100
_SHOWN = 10

# Text that `append` puts before the message of the original error.
_WRAPPED = re.compile(r"^\w+: (?:Failed to append to the tensor '[^']*': )?")
_ADVICE = ". If you wish to skip the samples that cause errors, please specify `ignore_errors=True`."
# Parts of a reason that differ from row to row.
_NAMES = re.compile(r"'[^']*'|\S*/\S*[^\s:]|\d[\d.,]*")


@dataclass
class ImportReport:
    """The result of an import, or, after a dry run, its plan.

    Attributes
    ----------
    format, source, found
        The format of the source, its address and its description.
    dest
        Address of the dataset; if the import made several datasets, address of their folder.
    tensors
        Arguments of the tensors: {name: {"htype": ..., ...}}.
    classes
        Names of classes by tensor.
    splits
        Number of rows by split; after a dry run, number of items.
    planned
        Expected number of rows; None if it was unknown.
    nbytes
        Bytes of the source.
    problems
        Defects of the source that were known before the import.
    written, skipped
        Number of written rows, and number of rows that were left out.
    reasons
        Reason -> number of rows that were left out for it.
    left_out
        The first 100 rows left out: {"where": ..., "reason": ...}.
    merged
        For an import by key: number of keys whose row was replaced, and number of keys that were added.
    changes
        Changes in rows that were written: {change: {"count": ..., "first": ...}}.
    file
        File of JSON lines, in the folder for temporary files, that lists all rows left out; None if these are at most
        10.
    no_file
        Reason why this file could not be written; None otherwise.
    resumed
        True if the import continued an earlier run.
    seconds
        Duration.
    dry_run
        True if nothing was written.
    """

    format: str
    source: str
    found: str
    dest: str | None = None
    tensors: dict[str, dict[str, Any]] = field(default_factory=dict)
    classes: dict[str, list[str]] = field(default_factory=dict)
    splits: dict[str, int] = field(default_factory=dict)
    planned: int | None = None
    nbytes: int = 0
    problems: list[Problem] = field(default_factory=list)
    written: int = 0
    skipped: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    left_out: list[dict[str, str]] = field(default_factory=list)
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)
    merged: dict[str, int] = field(default_factory=dict)
    file: str | None = None
    no_file: str | None = None
    resumed: bool = False
    seconds: float = 0.0
    dry_run: bool = False
    _open: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, format: str, source: str, plan: Plan) -> ImportReport:  # noqa: A002 - the user's word
        """Return the report of a plan."""
        return cls(
            format,
            source,
            plan.found,
            tensors={tensor.name: {**tensor.arguments} for tensor in plan.tensors},
            classes={name: list(names) for name, names in plan.classes.items()},
            splits={name: len(items) for name, items in plan.splits.items()},
            planned=plan.rows,
            nbytes=plan.nbytes,
            problems=list(plan.problems),
        )

    @property
    def read(self) -> int:
        """Number of rows of the source that were read."""
        return self.written + self.skipped

    @property
    def dataset(self) -> Dataset:
        """The dataset; if the import made several datasets, the first of them.

        Raises
        ------
        AttributeError
            If nothing was written.
        """
        if self._open is None:
            raise AttributeError("a dry run makes no dataset")
        found: Dataset = self._open()
        return found

    def count(self, done: TransformReport, earlier: Mapping[str, Any]) -> None:
        """Set the counts to the sum of an earlier run and this one."""
        self.written = int(earlier.get("written", 0)) + done.rows
        self.skipped = int(earlier.get("skipped", 0)) + done.skipped + done.skipped_rows
        self.reasons = dict(earlier.get("reasons", {}))
        self.left_out = list(earlier.get("left_out", []))
        self.changes = {change: dict(told) for change, told in earlier.get("changes", {}).items()}
        for change, note in done.notes.items():
            told = self.changes.setdefault(change, {"count": 0, "first": note.first})
            told["count"] += note.rows
        self.file, self.no_file = done.file, done.no_file
        for problem in self.problems:
            if problem.rows and not earlier:
                self._note(problem.where, problem.reason, problem.rows)
                self.skipped += problem.rows
        for entry in done.errors:
            self._note(entry.item or f"item {entry.index}", entry.cause, entry.rows)
        untold = done.skipped + done.skipped_rows - sum(entry.rows for entry in done.errors)
        if untold:
            self.reasons["others"] = self.reasons.get("others", 0) + untold

    def _note(self, where: str, reason: str, rows: int = 1) -> None:
        reason = _WRAPPED.sub("", reason).removesuffix(_ADVICE)
        reason = reason.removeprefix(f"sample {self.source}/{where}: ")
        kind = _NAMES.sub("...", reason.replace(where, "...").partition(";")[0])[:100]
        self.reasons[kind] = self.reasons.get(kind, 0) + rows
        if len(self.left_out) < _REMEMBERED:
            self.left_out.append({"where": where, "reason": reason})

    def record(self) -> dict[str, Any]:
        """Return the part of the report that is stored in the info of the dataset."""
        names = ("format", "source", "found", "written", "skipped", "reasons", "left_out", "changes")
        found = {name: getattr(self, name) for name in (*names, *(["merged"] if self.merged else []))}
        return {**found, "problems": [asdict(problem) for problem in self.problems[:_REMEMBERED]]}

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        names = ("tensors", "classes", "splits", "planned", "read", "resumed", "file", "no_file")
        return {
            "dataset": self.dest,
            "dry_run": self.dry_run,
            **self.record(),
            "problems": [asdict(problem) for problem in self.problems],
            **{name: getattr(self, name) for name in names},
            "bytes": self.nbytes,
            "seconds": round(self.seconds, 3),
        }

    def __str__(self) -> str:
        lines = [f"{self.source}: {self.found}", *(self._plan() if self.dry_run else self._result())]
        return printable("\n".join(lines), lines=True)

    def _plan(self) -> list[str]:
        rows = "an unknown number of" if self.planned is None else f"{self.planned:,}"
        lines = [f"  would write {rows} rows from {_size(self.nbytes)}", "  tensors:"]
        for name, arguments in self.tensors.items():
            more = "".join(
                f", {key} {value}"
                for key, value in arguments.items()
                if key in ("dtype", "sample_compression", "chunk_compression") and value is not None
            )
            lines.append(f"    {name}: {arguments.get('htype') or 'generic'}{more}")
        for name, names in self.classes.items():
            shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
            lines.append(f"  classes of {name} ({len(names):,}): {shown}")
        return lines + self._splits() + _told(self.problems)

    def _result(self) -> list[str]:
        rate = f" in {self.seconds:.1f} s" if self.seconds else ""
        resumed = " (continued after an earlier run)" if self.resumed else ""
        counts = f"{self.written:,} rows written, {self.skipped:,} left out, {self.read:,} read"
        lines = [f"  {self.dest}: {counts}{rate}{resumed}", *self._splits()]
        if self.merged:
            lines.append("  by key: " + ", ".join(f"{count:,} {what}" for what, count in self.merged.items()))
        for reason, count in sorted(self.reasons.items(), key=lambda pair: -pair[1])[:_SHOWN]:
            lines.append(f"  left out {count:,}: {reason}")
        lines += [f"    {entry['where']}: {entry['reason']}" for entry in self.left_out[:_SHOWN]]
        if self.file is not None:
            lines.append(f"  all of them: {self.file}")
        elif len(self.left_out) > _SHOWN:  # an earlier run left out these rows, and their file is not known
            lines.append(f"    and {len(self.left_out) - _SHOWN:,} more, in ds.info['imports']")
        if self.no_file is not None:
            lines.append(f"  a list of all of them could not be written: {self.no_file}")
        for change, told in self.changes.items():
            lines.append(f"  changed {told['count']:,}: {change} (first {told['first']})")
        return lines + _told([problem for problem in self.problems if not problem.rows])

    def _splits(self) -> list[str]:
        told = ", ".join(f"{name} ({count:,})" for name, count in self.splits.items())
        return [f"  splits: {told}"] if told else []


def _told(problems: list[Problem]) -> list[str]:
    lines = [f"  problem: {problem.where}: {problem.reason}" for problem in problems[:_SHOWN]]
    if len(problems) > _SHOWN:
        lines.append(f"  and {len(problems) - _SHOWN:,} more problems")
    return lines


def _size(count: int) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 10_000:
            return f"{count:,} {unit}"
        count //= 1000
    return f"{count:,} TB"
