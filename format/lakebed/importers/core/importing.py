"""One import from its plan to its report: create tensors, let workers make rows, record progress, commit.

``ds.info["imports"]`` records the source and the progress of each import. Calling an import again resumes one that was
killed, and does not repeat one that is complete. The last rows and the state "done" are published together; after a
kill before the commit that follows, only the commit is made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from lakebed.api.datasets import empty, exists, load
from lakebed.dataset.dataset import Dataset
from lakebed.dataset.tensor import Tensor
from lakebed.errors import (
    AllSamplesSkippedError,
    DatasetExistsError,
    IngestionError,
    SamePathException,
    SkippedRowError,
    TransformError,
)
from lakebed.importers.core.collecting import aside, no_search
from lakebed.importers.core.making import Items, Making
from lakebed.importers.core.plan import Plan, Problem, TensorPlan, tensor, told_first
from lakebed.importers.core.registry import importer_of, recognised
from lakebed.importers.core.report import ImportReport
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import Splits, chosen, splits_of
from lakebed.importers.core.upserting import upserted
from lakebed.importers.folders.pictures import LOSSLESS, Pictures
from lakebed.runtime.options import checked_options, options_of
from lakebed.runtime.plugins import Format
from lakebed.storage.address import path_of, scheme_of
from lakebed.transforms.function import transform
from lakebed.transforms.report import TransformReport
from lakebed.writing.names import any_name

# Key in the info of a dataset under which its imports are recorded.
INFO = "imports"

_MOST_WORKERS = 8
# Number of bytes of the source between two checkpoints, and number of items if the bytes are unknown.
_CHECKPOINT_BYTES = 2_000_000_000
_CHECKPOINT_ITEMS = 100_000
# States of imports that have written all rows; older releases published the state "rows" before "done".
_OVER = ("rows", "done")
# Number of nulls per append, when a new tensor is filled with nulls for older rows.
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

    Rows that cannot be imported are left out and counted, with the reason; nothing is left out silently. Calling it
    again resumes a run that was killed.

    Parameters
    ----------
    format
        Name of the format, one of those in ``lakebed import --help``; ``"auto"`` detects it.
    src
        Path or address of the source; for some formats an object, such as a data frame.
    dest
        Path or address of the dataset, or an open dataset, which is appended to.
    append
        Add to the rows of an existing dataset.
    overwrite
        Replace an existing dataset.
    dry_run
        Report what would be done, and do nothing; ``dest`` may be left out.
    strict
        Fail at the first file, row or value that cannot be imported.
    lossless
        Store images of several kinds as PNG, so that no pixel is lost; otherwise the kind with the most bytes is kept,
        and the others are encoded as that kind. The same as ``compression="lossless"``.
    workers
        Number of workers; None starts one for each core, 0 uses this thread only.
    scheduler
        ``"threaded"``, ``"processed"``, ``"serial"`` or ``"ray"``; None is the best for the format.
    split
        Splits that are imported, in this order: ``"train/val"``. With shares, ``"train=0.8/val=0.2"``, each row is
        assigned by chance. None imports all.
    separate
        Make one dataset for each split, ``dest/train`` and so on, instead of one with a tensor ``split``.
    seed
        Seed of the shares.
    checkpoint
        Commit after this many items of the source; a killed import resumes there. None commits about every 2 GB, 0 only
        at the end.
    commit
        Commit the rows at the end.
    src_creds, dest_creds
        Credentials of the source and of the dataset.
    follow_symlinks
        Follow symbolic links that lead out of the source.
    progressbar
        Show the progress.
    options
        Options of the format.

    Returns
    -------
    The report of what was done, or would be; its ``dataset`` is the dataset.

    Raises
    ------
    IngestionError
        If the source is not of the format, or, with ``strict``, if something in it is wrong.
    DatasetExistsError
        If a dataset exists at ``dest``, without ``append`` or ``overwrite``.
    UnsupportedParameterException
        If the format has no such option.

    Examples
    --------
    >>> report = lakebed.import_from("coco", "coco/", "coco-lake")  # doctest: +SKIP
    >>> report.written, report.skipped  # doctest: +SKIP
    (4952, 48)
    """
    named = None if format == "auto" else importer_of(format)
    address = getattr(named.functions, "address", None) if named is not None else None
    found = address(src) if address is not None else None
    source = Source.of(
        src if found is None else found, src_creds, follow_symlinks=follow_symlinks, dest=_address_of(dest)
    )
    importer = named or recognised(source)[0]
    if lossless:
        options.setdefault("compression", LOSSLESS)
    options = checked_options(importer.name, options_of(importer.plan), options)
    wanted = chosen(split)
    lossless = options.get("compression") == LOSSLESS
    how = _How(
        append, overwrite, strict, workers, scheduler, checkpoint, commit, dest_creds, progressbar, lossless
    )
    is_part = append or separate or bool(split)
    report = _copied(importer, source, None if dry_run else dest, how, options, is_part=is_part)
    if report is not None:
        return report
    options = dict(_resumed(importer, source, dest, how, options))
    plan, splits = _planned(importer, source, wanted, seed, options)
    if strict and plan.problems:
        raise IngestionError(told_first(plan.problems).removeprefix(". "))
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
    if isinstance(dest, Dataset):
        return dest.path
    return os.fspath(dest) if isinstance(dest, str | os.PathLike) else ""


def _resumed(
    importer: Format, source: Source, dest: Any, how: _How, options: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the options with which an import continues where the last import of the same rows ended."""
    resumed = getattr(importer.functions, "resumed", None)
    if resumed is None or dest is None or how.overwrite:
        return options
    if isinstance(dest, Dataset):
        ds = dest
    elif exists(dest, creds=how.creds):
        ds = load(dest, read_only=True, creds=how.creds)
    else:
        return options
    done = [one for one in ds.info.get(INFO) or () if one.get("state") in _OVER]
    found: Mapping[str, Any] = resumed(source, options, done)
    return found


def _planned(
    importer: Format,
    source: Source,
    wanted: Mapping[str, float | None],
    seed: int,
    options: Mapping[str, Any],
) -> tuple[Plan, Splits]:
    """Plan an import of some splits.

    Raises
    ------
    IngestionError
        If the source holds nothing to import.
    """
    only = [name for name, share in wanted.items() if share is None]
    of_splits = getattr(importer.functions, "plan_splits", None)
    with no_search():
        planned = of_splits(source, only, **options) if of_splits else importer.plan(source, **options)
    planned.problems += [
        Problem(name, reason, 0) for name, reason in source.left_out.items() if not source.is_own(name)
    ]
    plan, splits = splits_of(planned, wanted, seed)
    if not len(plan.items) and not plan.may_be_empty:
        raise IngestionError(
            f"{source.shown} holds nothing to import: {plan.found}{told_first(plan.problems)}"
        )
    return plan, splits


def import_plan(
    format: str,  # noqa: A002 - the user's word
    source: Source,
    plan: Plan,
    ds: Dataset,
    *,
    workers: int | None,
    progressbar: bool,
    strict: bool = False,
    lossless: bool = False,
) -> ImportReport:
    """Import into an open dataset by a plan made for it, without a commit.

    Parameters
    ----------
    format
        Name of the format.
    source, plan, ds
        The source, its plan, and the destination.
    workers, progressbar
        As for :func:`import_from`.
    strict
        Fail at the first row that cannot be imported; a source without rows is then allowed.
    lossless
        Leave out pictures whose conversion would lose something.

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
    """Arguments of :func:`import_from` that do not depend on the format."""

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
    importer: Format, source: Source, dest: Any, how: _How, options: Mapping[str, Any], *, is_part: bool
) -> ImportReport | None:
    """Copy a source that is a dataset with a history; return None for a source that is imported row by row.

    Raises
    ------
    IngestionError
        If only a part of the dataset was requested, or ``dest`` is an open dataset.
    """
    copied = getattr(importer.functions, "copied", None)
    if copied is None:
        return None
    found = importer.functions.recognise(source)
    started = perf_counter()
    if isinstance(dest, Dataset) or is_part:
        if copied(source, None, overwrite=False, creds=None, progressbar=False, **options) is None:
            return None
        raise IngestionError(
            f"{found} is copied as a whole, with its versions, to the address of a new dataset; lakebed cp copies "
            "parts of a dataset, and ds.extend appends its rows to another"
        )
    if dest is not None:
        check_two_places(source, os.fspath(dest))
    done = copied(
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
        report._open = lambda: done.dataset  # noqa: SLF001 - a field for this module
    report.seconds = perf_counter() - started
    return report


def check_two_places(source: Source, dest: str) -> None:
    """Refuse to import a source into itself.

    Raises
    ------
    SamePathException
        If the destination is the source.
    """
    one, other = (
        os.path.realpath(path_of(place)) if scheme_of(place) == "file" else place.rstrip("/")
        for place in (source.address, dest)
    )
    if one == other and not source.is_object:
        raise SamePathException(f"source and destination of the import are both {dest!r}")


def _separately(
    importer: Format, source: Source, plan: Plan, splits: Splits, how: _How, dest: Any
) -> ImportReport:
    """Make a dataset of each split; return the sum of their reports.

    Raises
    ------
    IngestionError
        If the source has no splits, or ``dest`` is not an address.
    """
    if not splits.names:
        raise IngestionError(
            "separate= makes a dataset per split, but the source has no splits: give shares, as in "
            "train=0.8/val=0.2"
        )
    if isinstance(dest, Dataset):
        raise IngestionError("separate= makes datasets below an address, not in an open dataset")
    root = os.fspath(dest)
    below = root if root.endswith("/") else f"{root}/"
    reports: list[ImportReport] = []
    for name in splits.names:
        part = plan if splits.shares else plan.only([name])
        of = replace(splits, only=name) if splits.shares else Splits()
        reports.append(_Import(importer, source, part, of, how).run(f"{below}{name}"))
    whole, *others = reports
    whole.splits = {name: one.written for name, one in zip(splits.names, reports, strict=True)}
    for one in others:
        whole.written += one.written
        whole.skipped += one.skipped
        whole.seconds += one.seconds
        whole.resumed |= one.resumed
        for reason, count in one.reasons.items():
            whole.reasons[reason] = whole.reasons.get(reason, 0) + count
        whole.left_out += one.left_out
    whole.dest, whole.nbytes, whole.planned = root, plan.nbytes, plan.rows
    return whole


class _Import:
    """An import into one dataset."""

    def __init__(self, importer: Format, source: Source, plan: Plan, splits: Splits, how: _How) -> None:
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
        self._is_rekeyed = True

    def run(self, dest: Any) -> ImportReport:
        """Import into a dataset, or resume an import that was interrupted."""
        started = perf_counter()
        ds, created = self._destination(dest)
        report = self._report
        report.dest = ds.path
        report._open = lambda: ds  # noqa: SLF001 - a field for this module
        if self._earlier.get("state") not in _OVER:
            try:
                with aside(report.planned):
                    self._rows(ds)
            except AllSamplesSkippedError as error:
                if created:
                    ds.delete()
                if self._plan.may_be_empty:  # the plan is one stream: raise its own error
                    reason = str(error).partition("The first: ")[2].removeprefix("IngestionError: ")
                    raise IngestionError(reason) from None
                raise IngestionError(f"nothing of {self._source.shown} could be imported. {error}") from error
        else:
            report.written, report.skipped = self._earlier["written"], self._earlier["skipped"]
        self._finish(ds)
        report.seconds = perf_counter() - started
        return report

    # -- the dataset -------------------------------------------------------------------------------------------

    def _destination(self, dest: Any) -> tuple[Dataset, bool]:
        """Open or create the dataset, with its tensors; return whether it was created."""
        how = self._how
        if isinstance(dest, Dataset):
            ds, there = dest, True
        else:
            check_two_places(self._source, os.fspath(dest))
            there = not how.overwrite and exists(dest, creds=how.creds)
            if there:
                ds = load(dest, read_only=False, creds=how.creds)
            else:
                ds = empty(dest, overwrite=how.overwrite, creds=how.creds)
        if there:
            last = (ds.info.get(INFO) or [{}])[-1]
            is_interrupted = last.get("state") in ("running", "rows")
            if is_interrupted:
                self._check_same(last, ds.path)
            if is_interrupted or self._lacks_commit(last, ds):
                self._earlier, self._report.resumed = last, True
                return ds, False
            if not isinstance(dest, Dataset) and ds.tensors and not how.append:
                raise DatasetExistsError(
                    f"a dataset exists at {ds.path} already: append to it (append=True, --append), or replace it "
                    "(overwrite=True, --overwrite)"
                )
        plan, describe = self._plan, getattr(self._importer.functions, "describe", None)
        with ds:  # publish the tensors and the record together
            self._create(ds)
            record = {
                **self._report.record(),
                "state": "running",
                "identity": self._identity(),
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "first": len(ds),
                "about": describe(plan) if describe is not None else plan.about,
            }
            earlier = ds.info.get(INFO) or []
            if "cursor" in record["about"] or plan.upsert is not None:
                # This import is repeated regularly: keep only its last record.
                earlier = [one for one in earlier if one.get("identity") != record["identity"]]
            ds.info[INFO] = [*earlier, record]
        return ds, not there

    def _lacks_commit(self, last: Mapping[str, Any], ds: Dataset) -> bool:
        """Return whether this import was killed just before its commit, with no other commit since."""
        is_this = last.get("state") == "done" and last.get("identity") == self._identity()
        return is_this and self._how.commit and last.get("below", "") == ds.commit_id

    def _check_same(self, last: Mapping[str, Any], path: str) -> None:
        if last.get("identity") != self._identity():
            raise IngestionError(
                f"an import of {last.get('source')} into {path} was interrupted; import that source again with "
                "the same options to resume, or begin anew with overwrite=True (--overwrite)"
            )

    def _identity(self) -> str:
        plan, splits = self._plan, self._splits
        names = ",".join(sorted(one.name for one in self._tensors))
        drawn = f"{splits.names}{splits.shares}{splits.only or ''}"
        of = f"/{plan.of}" if plan.of else ""
        return f"{self._source.identity}/{len(plan.items)}/{names}/{drawn}{of}"

    def _create(self, ds: Dataset) -> None:
        """Create the tensors that the dataset lacks; older rows are null in them."""
        there, rows = set(ds.tensors), len(ds)
        columns = {ds[name].info.get("column"): name for name in there}
        for one in self._tensors:
            if one.name in there:
                continue
            if one.name in columns:
                raise IngestionError(
                    f"column {one.name!r} is stored in {ds.path} as tensor {columns[one.name]!r}, as an earlier "
                    f"release named it: rename it first, ds.rename_tensor({columns[one.name]!r}, {one.name!r})"
                )
            created = create_tensor(ds, one)
            for start in range(0, rows, _NULLS):
                created.extend([None] * min(_NULLS, rows - start))

    # -- rows --------------------------------------------------------------------------------------------------

    def _rows(self, ds: Dataset) -> None:
        count = len(self._plan.items)
        if not count:
            return
        how, functions = self._how, self._importer.functions
        missing: tuple[str, ...] = ()
        if self._plan.upsert is None:
            # Not if an import by key replaces rows: tensors that others have added keep their values in these rows.
            planned = {one.name for one in self._tensors}
            missing = tuple(name for name in ds.tensors if name not in planned)
        making = Making(
            self._importer,
            self._plan.context,
            self._splits,
            missing,
            Pictures.of(self._tensors, lossless=how.lossless),
        )
        scheduler = how.scheduler or str(getattr(functions, "SCHEDULER", "threaded"))
        if scheduler == "processed" and ds.path.startswith("mem://"):
            scheduler = "threaded"
        workers = min(os.cpu_count() or 1, _MOST_WORKERS) if how.workers is None else how.workers
        make: Callable[..., Iterator[Any]] = making.each
        size: int | None = None
        if getattr(functions, "BATCHED", False):
            make, size = making.columns, 1
        elif hasattr(functions, "BATCH"):
            # Make batches small enough for every worker to get some.
            make, size = making.many, min(functions.BATCH, -(-count // (2 * max(workers, 1))))

        def remember(done: TransformReport) -> None:
            self._report.count(done, self._earlier)
            is_over = done.resumed_at + done.items >= count
            state = self._over(ds) if is_over else {"state": "running"}
            self._remember(ds, {**self._report.record(), **state})

        if self._plan.upsert is not None:
            if self._splits.names:
                raise IngestionError("an import by key cannot have splits: omit --split, or --key")
            made = making.columns(Items(self._plan.items)[:])
            self._report.merged, done = upserted(
                ds, made, self._plan.upsert, rekeyed=self._is_rekeyed, strict=how.strict
            )
            with ds:
                remember(done)
            return
        try:
            done = transform(
                make,
                Items(self._plan.items),
                ds,
                batch_size=size,
                num_workers=workers if count > 1 else 0,
                scheduler=scheduler,
                name=f"import of {self._importer.name}",
                progressbar=how.progressbar,
                checkpoint_interval=self._checkpoint(),
                ignore_errors=not how.strict,
                verbose=False,
                before_publish=remember,
                copy=False,
                rows_apart=True,
                skip_ok=self._plan.may_be_empty,
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

    def _remember(self, ds: Dataset, told: Mapping[str, Any]) -> None:
        *before, last = ds.info[INFO]
        ds.info[INFO] = [*before, {**last, **told}]

    def _over(self, ds: Dataset) -> dict[str, Any]:
        """Return the record of an import that has written all rows; ``below`` is the commit before its own commit."""
        told: dict[str, Any] = {"state": "done", "finished": datetime.now(UTC).isoformat(timespec="seconds")}
        ended = getattr(self._importer.functions, "ended", None)
        if ended is not None:
            told["about"] = {**ds.info[INFO][-1]["about"], **ended(self._plan)}
        return {**told, "below": ds.commit_id} if self._commits else told

    @property
    def _commits(self) -> bool:
        """True if the import must commit: not if a repeated import found no new rows."""
        is_new = self._report.read or not self._plan.may_be_empty
        return self._how.commit and bool(is_new)

    def _finish(self, ds: Dataset) -> None:
        """Count the splits, and commit."""
        splits, report = self._splits, self._report
        if splits.names and splits.only is None:
            report.splits = _split_counts(ds, splits.tensor, ds.info[INFO][-1]["first"])
        if self._earlier.get("state") == "rows":
            with ds:
                self._remember(ds, self._over(ds))
        if self._commits:
            ds.commit(f"Imported {report.written:,} rows of {report.format} from {report.source}")


def create_tensor(ds: Dataset, one: TensorPlan) -> Tensor:
    """Create a planned tensor, without the warnings that `create_tensor` gives for some names."""
    with any_name():
        created = ds.create_tensor(one.name, **one.arguments)
    for key, value in one.info.items():
        created.info[key] = value
    return created


def _split_counts(ds: Dataset, name: str, first: int) -> dict[str, int]:
    """Return the number of rows of each split from row `first` on."""
    # Count with Arrow: making a NumPy array of the column would import pandas if it is installed.
    counts = {
        one["values"]: one["counts"]
        for one in ds.read_columns(first, len(ds), [name])[name].value_counts().to_pylist()
    }
    return {split: counts.get(number, 0) for number, split in enumerate(ds[name].info["class_names"])}
