"""What an import did, or would do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakebed.importers.core.plan import Plan, Problem
from lakebed.runtime.printable import printable

if TYPE_CHECKING:
    import lakebed
    from lakebed.transforms.report import TransformReport

# Rows left out that the dataset remembers; where there are more, all of them are in the report's file.
_REMEMBERED = 100
_SHOWN = 10

# What errors of appending say around their cause, and what is particular to a row in a reason.
_WRAPPED = re.compile(r"^\w+: (?:Failed to append to the tensor '[^']*': )?")
_ADVICE = ". If you wish to skip the samples that cause errors, please specify `ignore_errors=True`."
_NAMES = re.compile(r"'[^']*'|\S*/\S*[^\s:]|\d[\d.,]*")


@dataclass
class ImportReport:
    """What an import did, or, of a dry run, would do.

    Attributes
    ----------
    format, source, found
        What was imported: its format, its address, what it is in words.
    dest
        Address of the dataset; of several, of the folder that they are in.
    tensors
        What rows hold: {name: {"htype": ..., ...}}.
    classes
        Names of classes by tensor.
    splits
        Rows by split; of a dry run, items.
    planned
        Rows that were expected; None if that was not known.
    nbytes
        Bytes of the source.
    problems
        What was known to be wrong before.
    written, skipped
        Rows that are in the dataset, and rows that were left out.
    reasons
        How often rows were left out, by reason.
    left_out
        The first 100 of them: {"where": ..., "reason": ...}.
    changes
        What changed in rows that were written: what, in how many, and in which first: {"count": ..., "first": ...}.
    file
        JSON lines of all that this run left out, in the folder for temporary files, if they are more than the 10 that
        are printed; else None.
    no_file
        Why there is no such file although it was needed.
    resumed
        Whether an earlier run was gone on with.
    seconds
        Time that it took.
    dry_run
        Whether nothing was written.
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
        """Rows of the source that were looked at."""
        return self.written + self.skipped

    @property
    def dataset(self) -> lakebed.Dataset:
        """The dataset that was made; of several, the first.

        Raises
        ------
        AttributeError
            If nothing was written.
        """
        if self._open is None:
            raise AttributeError("a dry run makes no dataset")
        found: lakebed.Dataset = self._open()
        return found

    def count(self, done: TransformReport, earlier: Mapping[str, Any]) -> None:
        """Take in what workers did, after what an earlier run did."""
        self.written = int(earlier.get("written", 0)) + done.rows
        self.skipped = int(earlier.get("skipped", 0)) + done.skipped + done.skipped_rows
        self.reasons = dict(earlier.get("reasons", {}))
        self.left_out = list(earlier.get("left_out", []))
        self.changes = {what: dict(told) for what, told in earlier.get("changes", {}).items()}
        for what, note in done.notes.items():
            told_before = self.changes.setdefault(what, {"count": 0, "first": note.first})
            told_before["count"] += note.rows
        self.file, self.no_file = done.file, done.no_file
        told = 0
        for problem in self.problems:
            if problem.rows and not earlier:
                self._note(problem.where, problem.reason, problem.rows)
                told += problem.rows
        self.skipped += told
        for entry in done.errors:
            self._note(entry.item or f"item {entry.index}", entry.cause, entry.rows)
        untold = done.skipped + done.skipped_rows - sum(entry.rows for entry in done.errors)
        if untold:
            self.reasons["others"] = self.reasons.get("others", 0) + untold

    def _note(self, where: str, reason: str, rows: int = 1) -> None:
        reason = (
            _WRAPPED.sub("", reason).removesuffix(_ADVICE).removeprefix(f"sample {self.source}/{where}: ")
        )
        kind = _NAMES.sub("...", reason.replace(where, "...").partition(";")[0])[:100]
        self.reasons[kind] = self.reasons.get(kind, 0) + rows
        if len(self.left_out) < _REMEMBERED:
            self.left_out.append({"where": where, "reason": reason})

    def record(self) -> dict[str, Any]:
        """Return what the dataset remembers of the import."""
        return {
            "format": self.format,
            "source": self.source,
            "found": self.found,
            "written": self.written,
            "skipped": self.skipped,
            "reasons": self.reasons,
            "left_out": self.left_out,
            "changes": self.changes,
            "problems": [_told(problem) for problem in self.problems[:_REMEMBERED]],
        }

    def to_dict(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return {
            "dataset": self.dest,
            "dry_run": self.dry_run,
            **self.record(),
            "problems": [_told(problem) for problem in self.problems],
            "tensors": self.tensors,
            "classes": self.classes,
            "splits": self.splits,
            "planned": self.planned,
            "bytes": self.nbytes,
            "read": self.read,
            "resumed": self.resumed,
            "file": self.file,
            "no_file": self.no_file,
            "seconds": round(self.seconds, 3),
        }

    def __str__(self) -> str:
        lines = [f"{self.source}: {self.found}"]
        lines += self._plan_lines() if self.dry_run else self._result_lines()
        return printable("\n".join(lines), lines=True)

    def _plan_lines(self) -> list[str]:
        rows = "an unknown number of" if self.planned is None else f"{self.planned:,}"
        lines = [f"  would write {rows} rows from {_size(self.nbytes)}", "  tensors:"]
        for name, arguments in self.tensors.items():
            more = ", ".join(
                f"{key} {value}"
                for key, value in arguments.items()
                if key in ("dtype", "sample_compression", "chunk_compression") and value is not None
            )
            lines.append(f"    {name}: {arguments.get('htype') or 'generic'}{', ' + more if more else ''}")
        for name, names in self.classes.items():
            shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
            lines.append(f"  classes of {name} ({len(names):,}): {shown}")
        if self.splits:
            lines.append(
                "  splits: " + ", ".join(f"{name} ({count:,})" for name, count in self.splits.items())
            )
        return lines + _problem_lines(self.problems)

    def _result_lines(self) -> list[str]:
        rate = f" in {self.seconds:.1f} s" if self.seconds else ""
        lines = [
            f"  {self.dest}: {self.written:,} rows written, {self.skipped:,} left out, {self.read:,} read{rate}"
            + (" (gone on after an earlier run)" if self.resumed else "")
        ]
        if self.splits:
            lines.append(
                "  splits: " + ", ".join(f"{name} ({count:,})" for name, count in self.splits.items())
            )
        for reason, count in sorted(self.reasons.items(), key=lambda pair: -pair[1])[:_SHOWN]:
            lines.append(f"  left out {count:,}: {reason}")
        lines += [f"    {entry['where']}: {entry['reason']}" for entry in self.left_out[:_SHOWN]]
        if self.file is not None:
            lines.append(f"  all of them: {self.file}")
        elif len(self.left_out) > _SHOWN:  # an earlier run left some out
            lines.append(f"    and {len(self.left_out) - _SHOWN:,} more, in ds.info['imports']")
        if self.no_file is not None:
            lines.append(f"  there is no list of all of them: {self.no_file}")
        lines += [
            f"  changed {told['count']:,}: {what} (first {told['first']})"
            for what, told in self.changes.items()
        ]
        return lines + _problem_lines([problem for problem in self.problems if not problem.rows])


def _problem_lines(problems: list[Problem]) -> list[str]:
    lines = [f"  problem: {problem.where}: {problem.reason}" for problem in problems[:_SHOWN]]
    if len(problems) > _SHOWN:
        lines.append(f"  and {len(problems) - _SHOWN:,} more problems")
    return lines


def _told(problem: Problem) -> dict[str, Any]:
    return {"where": problem.where, "reason": problem.reason, "rows": problem.rows}


def _size(count: int) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 10_000:
            return f"{count:,} {unit}"
        count //= 1000
    return f"{count:,} TB"
