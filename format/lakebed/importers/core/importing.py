"""One import from its plan to its report: create, let workers make rows, remember, commit.

The info of the dataset, ``ds.info["imports"]``, says of each import where it came from and how far it is: what is
killed and called again goes on, and what is done is not done twice. The last rows and the word that they are all there
are published at once; what was killed before the commit that follows is only committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

import lakebed
from lakebed.errors import (
    AllSamplesSkippedError,
    DatasetExistsError,
    IngestionError,
    SamePathException,
    SkippedRowError,
    TransformError,
)
from lakebed.importers.core import making
from lakebed.importers.core.collecting import NO_SEARCH, aside
from lakebed.importers.core.plan import Plan, Problem, TensorPlan, tensor
from lakebed.importers.core.registry import Importer, importer_of, recognised
from lakebed.importers.core.report import ImportReport
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import Splits, chosen, splits_of
from lakebed.importers.folders.pictures import LOSSLESS, Pictures
from lakebed.runtime.options import check_options
from lakebed.writing.names import any_name

# Key of the infos of datasets under which imports are remembered.
INFO = "imports"

_MOST_WORKERS = 8
# A checkpoint is made after about so many bytes of the source, or so many items where those are unknown.
_CHECKPOINT_BYTES = 2_000_000_000
_CHECKPOINT_ITEMS = 100_000
# States of imports whose rows are all there; "rows" is how releases called it that published their end by itself.
_OVER = ("rows", "done")
# Nulls that are appended at a time to tensors which older rows lack.
_NULLS = 100_000


def import_from(
    format: str,  # noqa: A002 - the user's word
    src: Any,
    dest: Any = None,
    *,
    append: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    strict: bool = False,
    lossless: bool = False,
    workers: int | None = None,
    scheduler: str | None = None,
    split: str | Sequence[str] | Mapping[str, float] | None = None,
    separate: bool = False,
    seed: int = 0,
    checkpoint: int | None = None,
    commit: bool = True,
    src_creds: Any = None,
    dest_creds: Any = None,
    follow_symlinks: bool = False,
    progressbar: bool = True,
    **options: Any,
) -> ImportReport:
    """Import a data set of another format.

    What cannot be imported is left out and counted, with its reason; nothing is left out silently. A run that was
    killed goes on where it was when it is called again.

    Parameters
    ----------
    format
        Name of the format, as ``lakebed import --help`` lists them; ``"auto"`` finds out.
    src
        Path or address of the source; of some formats an object, such as a data frame.
    dest
        Path or address of the dataset, or an open one, which is appended to.
    append
        Add to the rows of a dataset that is there.
    overwrite
        Replace a dataset that is there.
    dry_run
        Say what would be done, and do nothing; ``dest`` may be left out.
    strict
        Fail at the first thing that cannot be imported.
    lossless
        Store images of several kinds as PNG, so that no pixel is lost; otherwise the kind that has most bytes stays as
        it is, and the others are encoded anew as that kind. The same as ``compression="lossless"``.
    workers
        How many work at a time; None is one for each core, 0 is this thread alone.
    scheduler
        ``"threaded"``, ``"processed"``, ``"serial"`` or ``"ray"``; None is what suits the format.
    split
        Splits that are taken, in their order: ``"train/val"``. With shares, ``"train=0.8/val=0.2"``, each row is
        assigned to one by chance. None takes all.
    separate
        Make a dataset of each split, ``dest/train`` and so on, in place of one with a tensor ``split``.
    seed
        What shares are drawn with.
    checkpoint
        Commit after so many items of the source, from where a killed import goes on; None is about every 2 GB, 0 is
        never.
    commit
        Commit the rows at the end.
    src_creds, dest_creds
        Credentials of the source and of the dataset.
    follow_symlinks
        Take files outside the source that symbolic links lead to.
    progressbar
        Show how far it is.
    options
        Options of the format.

    Returns
    -------
    What was done, or would be; its ``dataset`` is the dataset.

    Raises
    ------
    IngestionError
        If the source is not of the format, or, with ``strict``, if something in it is wrong.
    DatasetExistsError
        If a dataset is at ``dest``, and neither ``append`` nor ``overwrite`` was said.
    UnsupportedParameterException
        If the format has no such option.

    Examples
    --------
    >>> report = lakebed.import_from("coco", "coco/", "coco-lake")  # doctest: +SKIP
    >>> report.written, report.skipped  # doctest: +SKIP
    (4952, 48)
    """
    source = Source.of(src, src_creds, follow_symlinks=follow_symlinks, dest=_address_of(dest))
    importer = recognised(source)[0] if format == "auto" else importer_of(format)
    if lossless:
        options.setdefault("compression", LOSSLESS)
    check_options(importer.name, importer.options(), options)
    wanted = chosen(split)
    how = _How(
        append,
        overwrite,
        strict,
        workers,
        scheduler,
        checkpoint,
        commit,
        dest_creds,
        progressbar,
        options.get("compression") == LOSSLESS,
    )
    if importer.copied is not None:
        is_part = append or separate or bool(split)
        report = _copied(importer, source, None if dry_run else dest, how, options, is_part=is_part)
        if report is not None:
            return report
    plan, splits = _planned(importer, source, wanted, seed, options)
    if strict:
        _check_strict(plan)
    if dry_run:
        report = ImportReport.of(importer.name, source.shown, plan)
        report.dry_run = True
        return report
    if dest is None:
        raise IngestionError("an import needs the address of a dataset to write, or dry_run=True")
    if separate:
        return _separately(importer, source, plan, splits, how, dest)
    return _Import(importer, source, plan, splits, how).run(dest)


def _address_of(dest: Any) -> str:
    if isinstance(dest, lakebed.Dataset):
        return dest.path
    return os.fspath(dest) if isinstance(dest, str | os.PathLike) else ""


def _planned(
    importer: Importer,
    source: Source,
    wanted: Mapping[str, float | None],
    seed: int,
    options: Mapping[str, Any],
) -> tuple[Plan, Splits]:
    """Plan an import of some splits.

    Raises
    ------
    IngestionError
        If there is nothing to import.
    """
    only = [name for name, share in wanted.items() if share is None]
    with NO_SEARCH:
        planned = importer.plan_for(source, only, options)
    planned.problems += [
        Problem(name, reason, 0) for name, reason in source.left_out.items() if not source.is_own(name)
    ]
    plan, splits = splits_of(planned, wanted, seed)
    if not len(plan.items):
        raise IngestionError(
            f"{source.shown} holds nothing to import: {plan.found}{_first_of(plan.problems)}"
        )
    return plan, splits


def import_plan(
    format: str,  # noqa: A002 - the user's word
    source: Source,
    plan: Plan,
    ds: lakebed.Dataset,
    *,
    workers: int | None,
    progressbar: bool,
    strict: bool = False,
    lossless: bool = False,
) -> ImportReport:
    """Import into an open dataset by a plan that was made for it; nothing is committed.

    Parameters
    ----------
    format
        Name of the format.
    source, plan, ds
        What is imported, how, and where to.
    workers, progressbar
        As for :func:`import_from`.
    strict
        Fail at the first row that cannot be imported; a source without rows is one, then.
    lossless
        Pictures lose nothing.

    Returns
    -------
    What was done.

    Raises
    ------
    IngestionError
        If nothing of the source can be imported.
    """
    if not len(plan.items) and not strict:
        raise IngestionError(f"{source.shown} holds nothing to import: {plan.found}")
    how = _How(
        append=True, strict=strict, workers=workers, commit=False, progressbar=progressbar, lossless=lossless
    )
    return _Import(importer_of(format), source, plan, Splits(), how).run(ds)


@dataclass(frozen=True)
class _How:
    """What the caller says of any import."""

    append: bool = False
    overwrite: bool = False
    strict: bool = False
    workers: int | None = None
    scheduler: str | None = None
    checkpoint: int | None = None
    commit: bool = True
    creds: Any = None
    progressbar: bool = True
    lossless: bool = False


def _copied(
    importer: Importer, source: Source, dest: Any, how: _How, options: Mapping[str, Any], *, is_part: bool
) -> ImportReport | None:
    """Copy a source that is a dataset with a history; None for one that is imported row by row.

    Raises
    ------
    IngestionError
        If only a part of it was asked for, or ``dest`` is an open dataset.
    """
    if importer.copied is None:
        return None
    found = importer.recognise(source)
    started = perf_counter()
    if isinstance(dest, lakebed.Dataset) or is_part:
        if importer.copied(source, None, overwrite=False, creds=None, progressbar=False, **options) is None:
            return None
        raise IngestionError(
            f"{found} is copied as a whole, with its versions, to the address of a new dataset; lakebed cp copies "
            "parts of one, and ds.extend appends its rows to another"
        )
    if dest is not None:
        _check_two_places(source, os.fspath(dest))
    done = importer.copied(
        source, dest, overwrite=how.overwrite, creds=how.creds, progressbar=how.progressbar, **options
    )
    if done is None:
        return None
    report = ImportReport(
        importer.name, source.shown, f"{found}, copied with its versions", planned=done.rows
    )
    report.problems = list(done.problems)
    report.dry_run = done.dataset is None
    if done.dataset is not None:
        report.written, report.dest = done.rows, done.dataset.path
        report._open = lambda: done.dataset  # noqa: SLF001 - a field of its own class's
    report.seconds = perf_counter() - started
    return report


def _check_two_places(source: Source, dest: str) -> None:
    if source.is_local and os.path.realpath(dest) == os.path.realpath(source.address):
        raise SamePathException(f"source and destination of the import are both {dest!r}")


def _separately(
    importer: Importer, source: Source, plan: Plan, splits: Splits, how: _How, dest: Any
) -> ImportReport:
    """Make a dataset of each split.

    Raises
    ------
    IngestionError
        If there are no splits, or ``dest`` is no address.
    """
    if not splits.names:
        raise IngestionError(
            "the source has no splits to make datasets of: give shares, as in train=0.8/val=0.2"
        )
    if isinstance(dest, lakebed.Dataset):
        raise IngestionError("separate= makes datasets below an address, not in an open dataset")
    root = os.fspath(dest)
    whole: ImportReport | None = None
    counts: dict[str, int] = {}
    for name in splits.names:
        part = plan if splits.shares else plan.only([name])
        of = replace(splits, only=name) if splits.shares else Splits()
        found = _Import(importer, source, part, of, how).run(f"{root.rstrip('/')}/{name}")
        counts[name] = found.written
        if whole is None:
            whole = found
            continue
        whole.written += found.written
        whole.skipped += found.skipped
        whole.seconds += found.seconds
        whole.resumed |= found.resumed
        for reason, count in found.reasons.items():
            whole.reasons[reason] = whole.reasons.get(reason, 0) + count
        whole.left_out += found.left_out
    if whole is None:
        raise AssertionError("there is a split")
    whole.dest, whole.splits, whole.nbytes, whole.planned = root, counts, plan.nbytes, plan.rows
    return whole


class _Import:
    """An import into one dataset."""

    def __init__(self, importer: Importer, source: Source, plan: Plan, splits: Splits, how: _How) -> None:
        self._importer = importer
        self._source = source
        self._plan = plan
        self._splits = splits
        self._how = how
        self._tensors = list(plan.tensors)
        if splits.names and splits.only is None:
            names = list(splits.names)
            self._tensors.append(
                tensor(splits.tensor, "class_label", class_names=names, create_shape_tensor=False)
            )
        self._report = ImportReport.of(importer.name, source.shown, plan)
        self._earlier: Mapping[str, Any] = {}

    def run(self, dest: Any) -> ImportReport:
        """Import into a dataset, or go on with an import that was interrupted."""
        started = perf_counter()
        ds, created = self._destination(dest)
        report = self._report
        report.dest = ds.path
        report._open = lambda: ds  # noqa: SLF001 - a field of its own class's
        if self._earlier.get("state") not in _OVER:
            try:
                with aside(report.planned):
                    self._rows(ds)
            except AllSamplesSkippedError as error:
                if created:
                    ds.delete()
                raise IngestionError(f"nothing of {self._source.shown} could be imported. {error}") from error
        else:
            report.written, report.skipped = self._earlier["written"], self._earlier["skipped"]
        self._finish(ds)
        report.seconds = perf_counter() - started
        return report

    # -- the dataset -------------------------------------------------------------------------------------------

    def _destination(self, dest: Any) -> tuple[lakebed.Dataset, bool]:
        """Open or create the dataset, with its tensors; tell whether it was created."""
        how = self._how
        if isinstance(dest, lakebed.Dataset):
            ds, there = dest, True
        else:
            _check_two_places(self._source, os.fspath(dest))
            there = not how.overwrite and lakebed.exists(dest, creds=how.creds)
            if there:
                ds = lakebed.load(dest, read_only=False, creds=how.creds)
            else:
                ds = lakebed.empty(dest, overwrite=how.overwrite, creds=how.creds)
        if there:
            last = (ds.info.get(INFO) or [{}])[-1]
            is_interrupted = last.get("state") in ("running", "rows")
            if is_interrupted:
                self._check_same(last, ds.path)
            if is_interrupted or self._lacks_commit(last, ds):
                self._earlier, self._report.resumed = last, True
                return ds, False
            if not isinstance(dest, lakebed.Dataset) and ds.tensors and not how.append:
                raise DatasetExistsError(
                    f"a dataset is at {ds.path} already: append to it (append=True, --append), or replace it "
                    "(overwrite=True, --overwrite)"
                )
        with ds:  # published at once
            self._create(ds)
            record = {
                **self._report.record(),
                "state": "running",
                "identity": self._identity(),
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "first": len(ds),
                "about": self._importer.describe(self._plan),
            }
            ds.info[INFO] = [*(ds.info.get(INFO) or []), record]
        return ds, not there

    def _lacks_commit(self, last: Mapping[str, Any], ds: lakebed.Dataset) -> bool:
        """Whether this import was ended before its commit; a commit since then is another one than it was made on."""
        is_this = last.get("state") == "done" and last.get("identity") == self._identity()
        return is_this and self._how.commit and last.get("below", "") == ds.commit_id

    def _check_same(self, last: Mapping[str, Any], path: str) -> None:
        if last.get("identity") != self._identity():
            raise IngestionError(
                f"an import of {last.get('source')} into {path} was interrupted; import that source again with the "
                "same options, which goes on there, or begin anew with overwrite=True (--overwrite)"
            )

    def _identity(self) -> str:
        plan, splits = self._plan, self._splits
        names = ",".join(sorted(one.name for one in self._tensors))
        return f"{self._source.identity}/{len(plan.items)}/{names}/{splits.names}{splits.shares}{splits.only or ''}"

    def _create(self, ds: lakebed.Dataset) -> None:
        """Create the tensors that are not there; what older rows lack in them is null."""
        there, rows = set(ds.tensors), len(ds)
        columns = {ds[name].info.get("column"): name for name in there}
        for one in self._tensors:
            if one.name in there:
                continue
            if one.name in columns:
                raise IngestionError(
                    f"column {one.name!r} is tensor {columns[one.name]!r} of {ds.path}, as an earlier release called "
                    f"it: rename it first, ds.rename_tensor({columns[one.name]!r}, {one.name!r})"
                )
            _create_tensor(ds, one, rows)

    # -- rows --------------------------------------------------------------------------------------------------

    def _rows(self, ds: lakebed.Dataset) -> None:
        if not len(self._plan.items):
            return
        how, importer, plan = self._how, self._importer, self._plan
        planned = {one.name for one in self._tensors}
        missing = tuple(name for name in ds.tensors if name not in planned)
        maker: Callable[..., Iterator[Any]] = making.columns if importer.is_batched else making.each
        size = 1 if importer.is_batched else None
        scheduler = how.scheduler or importer.scheduler
        if scheduler == "processed" and ds.path.startswith("mem://"):
            scheduler = "threaded"
        workers = min(os.cpu_count() or 1, _MOST_WORKERS) if how.workers is None else how.workers
        if importer.batch:
            # Small enough for every worker to have some.
            maker, size = making.many, min(importer.batch, -(-len(plan.items) // (2 * max(workers, 1))))

        def remember(done: Any) -> None:
            self._report.count(done, self._earlier)
            is_over = done.resumed_at + done.items >= len(plan.items)
            state = self._over(ds) if is_over else {"state": "running"}
            self._remember(ds, {**self._report.record(), **state})

        try:
            done = lakebed.transform(
                maker,
                making.Items(plan.items),
                ds,
                batch_size=size,
                num_workers=workers if len(plan.items) > 1 else 0,
                scheduler=scheduler,
                kwargs={
                    "importer": importer,
                    "context": plan.context,
                    "splits": self._splits,
                    "missing": missing,
                    "pictures": Pictures.of(self._tensors, lossless=how.lossless),
                },
                name=f"import of {importer.name}",
                progressbar=how.progressbar,
                checkpoint_interval=self._checkpoint(),
                ignore_errors=not how.strict,
                verbose=False,
                before_publish=remember,
                copy=False,
                rows_apart=True,
            )
        except AllSamplesSkippedError:
            raise
        except TransformError as error:
            cause = error.__cause__
            where = f" at {error.item}" if error.item and not isinstance(cause, SkippedRowError) else ""
            raise IngestionError(
                f"the import of {self._source.shown} failed{where}: {cause or error}"
            ) from error
        self._report.count(done, self._earlier)

    def _checkpoint(self) -> int:
        plan, asked = self._plan, self._how.checkpoint
        if asked is not None:
            return asked
        count = len(plan.items)
        every = int(count * _CHECKPOINT_BYTES / plan.nbytes) if plan.nbytes else _CHECKPOINT_ITEMS
        return 0 if every >= count else max(every, 1)

    # -- the end -----------------------------------------------------------------------------------------------

    def _remember(self, ds: lakebed.Dataset, told: Mapping[str, Any]) -> None:
        *before, last = ds.info[INFO]
        ds.info[INFO] = [*before, {**last, **told}]

    def _over(self, ds: lakebed.Dataset) -> dict[str, Any]:
        """Return what is remembered of an import whose rows are all there; ``below``: the commit before its own."""
        told = {"state": "done", "finished": datetime.now(UTC).isoformat(timespec="seconds")}
        return {**told, "below": ds.commit_id} if self._how.commit else told

    def _finish(self, ds: lakebed.Dataset) -> None:
        """Count the splits, and commit."""
        splits, report = self._splits, self._report
        if splits.names and splits.only is None:
            report.splits = _split_counts(ds, splits.tensor, ds.info[INFO][-1]["first"])
        if self._earlier.get("state") == "rows":
            with ds:
                self._remember(ds, self._over(ds))
        if self._how.commit:
            ds.commit(f"Imported {report.written:,} rows of {report.format} from {report.source}")


def _create_tensor(ds: lakebed.Dataset, one: TensorPlan, rows: int) -> None:
    with any_name():
        created = ds.create_tensor(one.name, **one.arguments)
    for key, value in one.info.items():
        created.info[key] = value
    for start in range(0, rows, _NULLS):
        created.extend([None] * min(_NULLS, rows - start))


def _check_strict(plan: Plan) -> None:
    if plan.problems:
        raise IngestionError(_first_of(plan.problems).removeprefix(". "))


def _first_of(problems: Sequence[Problem]) -> str:
    """Return a sentence about the first problem and how many more there are; nothing of none."""
    if not problems:
        return ""
    rest = f", and {len(problems) - 1:,} more" if len(problems) > 1 else ""
    return f". {problems[0].where}: {problems[0].reason}{rest}"


def _split_counts(ds: lakebed.Dataset, name: str, first: int) -> dict[str, int]:
    """Return how many rows from ``first`` on belong to each split, by the tensor that tells it."""
    # Counted by Arrow: a NumPy array of it would have pandas imported, where that is installed.
    counts = {
        one["values"]: one["counts"]
        for one in ds.read_columns(first, len(ds), [name])[name].value_counts().to_pylist()
    }
    return {split: counts.get(number, 0) for number, split in enumerate(ds[name].info["class_names"])}
