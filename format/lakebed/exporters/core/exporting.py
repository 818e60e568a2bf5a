"""One export from its plan to its report: threads write pieces, ``finish`` other files; all files appear together."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from lakebed.api.datasets import load
from lakebed.dataset.dataset import Dataset
from lakebed.errors import ExportError
from lakebed.exporters.core.plan import ExportPlan, Piece, Written, splits_of
from lakebed.exporters.core.registry import exporter_of
from lakebed.exporters.core.target import Target
from lakebed.runtime.options import checked_options, options_of
from lakebed.runtime.plugins import Format
from lakebed.runtime.printable import printable
from lakebed.runtime.progress import rows_bar

_MOST_WORKERS = 8
_SHOWN = 10
_REMEMBERED = 1000
_ONE_FILE = ("csv", "jsonl", "parquet")


@dataclass
class ExportReport:
    """The result of an export, or, after a dry run, its plan.

    Attributes
    ----------
    format, dataset, dest
        The format, and the addresses of the dataset and the destination.
    found
        Description of what is written.
    tensors
        Part of the export, such as ``images`` -> name of the tensor that it is written from.
    splits
        Rows by split; "" for rows without a split.
    problems
        (where, reason) of what the format cannot hold.
    written, skipped
        Numbers of rows that were written, and that were left out.
    left_out
        (row, reason) of the first 1,000 rows that were left out.
    files, nbytes
        Number of files that were written, and their bytes.
    seconds
        Duration.
    dry_run
        True if nothing was written.
    """

    format: str
    dataset: str
    dest: str
    found: str
    tensors: dict[str, str] = field(default_factory=dict)
    splits: dict[str, int] = field(default_factory=dict)
    problems: list[tuple[str, str]] = field(default_factory=list)
    written: int = 0
    skipped: int = 0
    left_out: list[tuple[int, str]] = field(default_factory=list)
    files: int = 0
    nbytes: int = 0
    seconds: float = 0.0
    dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report for JSON."""
        found = asdict(self)
        return {
            "bytes": found.pop("nbytes"),
            **found,
            "problems": [{"where": where, "reason": reason} for where, reason in self.problems],
            "left_out": [{"row": row, "reason": reason} for row, reason in self.left_out],
            "seconds": round(self.seconds, 3),
        }

    def __str__(self) -> str:
        lines = [f"{self.dataset}: {self.found}"]
        if self.dry_run:
            lines.append(f"  would write {sum(self.splits.values()):,} rows to {self.dest}")
        else:
            lines.append(
                f"  {self.dest}: {self.written:,} rows in {self.files:,} files of {self.nbytes / 1e6:,.1f} MB, "
                f"{self.skipped:,} left out, in {self.seconds:.1f} s"
            )
        lines += [f"  {part}: {name}" for part, name in self.tensors.items()]
        if any(self.splits):
            told = ", ".join(f"{name or 'no split'} ({count:,})" for name, count in self.splits.items())
            lines.append(f"  splits: {told}")
        lines += [f"  left out row {row:,}: {reason}" for row, reason in self.left_out[:_SHOWN]]
        lines += [f"  not in the format: {where}: {reason}" for where, reason in self.problems[:_SHOWN]]
        return printable("\n".join(lines), lines=True)


def export_to(
    format: str,  # noqa: A002 - the user's word
    src: Any,
    dest: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    dry_run: bool = False,
    strict: bool = False,
    split: str | Sequence[str] | None = None,
    single_file: bool = False,
    workers: int | None = None,
    src_creds: Any = None,
    dest_creds: Any = None,
    progressbar: bool = True,
    **options: Any,
) -> ExportReport:
    """Write a dataset, or a view of one, in another format.

    The destination appears when all of it is written; in a bucket, files are removed again after an error.

    Parameters
    ----------
    format
        Name of the format, as ``lakebed export --help`` lists them.
    src
        A dataset, a view, or an address.
    dest
        Path or address of the folder or file.
    overwrite
        Replace an existing destination.
    dry_run
        Report what would be done, and do nothing.
    strict
        Fail at the first row that cannot be written; otherwise such rows are left out and counted.
    split
        Splits that are written: ``"train/val"``; None writes all rows.
    single_file
        Write one file at ``dest``, with all rows in their order, whatever their splits; for csv, jsonl and parquet.
    workers
        Number of threads; None is one for each core.
    src_creds, dest_creds
        Credentials of the dataset and of the destination.
    progressbar
        Show the progress.
    options
        Options of the format.

    Returns
    -------
    The report of what was written.

    Raises
    ------
    ExportError
        If the dataset lacks what the format needs, the destination exists, or a row cannot be written (``strict``).
    InvalidInputError
        If one tensor is empty and others are not: no row would be exported. The message names it.

    Examples
    --------
    >>> report = lakebed.export_to("folder", "photos-lake", "photos")  # doctest: +SKIP
    """
    started = perf_counter()
    exporter = exporter_of(format)
    options = checked_options(exporter.name, options_of(exporter.plan), options)
    ds = src if isinstance(src, Dataset) else load(src, read_only=True, creds=src_creds)
    plan = exporter.plan(ds, **options)
    if single_file:
        if exporter.name not in _ONE_FILE:
            raise ExportError(f"single_file is for {', '.join(_ONE_FILE)}, not for {exporter.name}")
        plan.single_file = plan.is_ordered = True
    ds._table().shared_rows()  # noqa: SLF001 - raises if one tensor is empty
    wanted = split.split("/") if isinstance(split, str) else list(split or ())
    plan.rows = splits_of(ds, wanted)
    report = ExportReport(exporter.name, ds.path, os.fspath(dest), plan.found, dict(plan.tensors))
    report.splits = {name: len(rows) for name, rows in plan.rows.items()}
    if plan.is_ordered:
        plan.rows = {"": np.sort(np.concatenate(list(plan.rows.values())))}
    report.problems = [*plan.problems, *_cut(ds, plan)]
    report.dry_run = dry_run
    if dry_run:
        return report
    count = min(os.cpu_count() or 1, _MOST_WORKERS) if workers is None else max(workers, 1)
    with Target(
        os.fspath(dest), overwrite=overwrite, creds=dest_creds, single_file=plan.single_file
    ) as target:
        results = []
        append = getattr(exporter.functions, "append", None)
        total = sum(report.splits.values())
        with rows_bar(f"Exporting to {exporter.name}", total, shown=progressbar) as bar:
            for piece, done in _written(exporter, ds, plan, target, count):
                if done.skipped and strict:
                    row, reason = done.skipped[0]
                    raise ExportError(f"row {row} of {ds.path}: {reason}")
                report.written += done.rows
                report.skipped += len(done.skipped)
                report.left_out += done.skipped[: _REMEMBERED - len(report.left_out)]
                if append is not None:
                    append(piece, done, plan.context, target)
                    done.result = None
                results.append((piece, done.result))
                bar(len(piece.rows))
        exporter.functions.finish(results, plan.context, target)
        target.finish()
        report.files, report.nbytes = target.files, target.nbytes
    report.seconds = perf_counter() - started
    return report


def _cut(ds: Dataset, plan: ExportPlan) -> Iterator[tuple[str, str]]:
    """Yield problems for tensors that are longer than the shortest of the dataset."""
    used = {name for names in plan.tensors.values() for name in names.split(", ")}
    count = ds.min_len
    for name in ds.tensors:
        if name in used and len(ds[name]) > count:
            told = f"only {count:,} of its {len(ds[name]):,} rows are written: another tensor is shorter"
            yield name, f"{told}; export ds[[...]] to write all rows of some tensors"


def _written(
    exporter: Format, ds: Dataset, plan: ExportPlan, target: Target, workers: int
) -> Iterator[tuple[Piece, Written]]:
    """Yield the outcomes of the pieces, in order; at most two pieces for each worker are ahead."""

    def write(piece: Piece) -> Written:
        found: Written = exporter.functions.write(_view(ds, piece), piece, plan.context, target)
        return found

    waiting: deque[tuple[Piece, Future[Written]]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="export") as pool:
        try:
            for piece in plan.pieces():
                waiting.append((piece, pool.submit(write, piece)))
                if len(waiting) > 2 * workers:
                    first, future = waiting.popleft()
                    yield first, future.result()
            for first, future in waiting:
                yield first, future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _view(ds: Dataset, piece: Piece) -> Dataset:
    """Return the rows of a piece."""
    rows = piece.rows
    run = len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1
    index = slice(int(rows[0]), int(rows[-1]) + 1) if run else [int(row) for row in rows]
    found: Dataset = ds[index]
    return found
