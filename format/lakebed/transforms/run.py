"""Execution of one transform, from the beginning or from the last checkpoint of an earlier run.

Pieces of the input are sent to workers, which return parts in order. The parts of a checkpoint (or all parts, without
checkpoints) are adopted and published in one step; until then the dataset stays as it was at the last checkpoint.
"""

from __future__ import annotations

import os
import signal
import threading
import traceback
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from time import perf_counter
from types import FrameType
from typing import Any

from lakebed.errors import (
    AllSamplesSkippedError,
    InvalidOperationError,
    InvalidOutputDatasetError,
    ResumeError,
    TensorMismatchError,
    TransformError,
    UnsupportedSchedulerError,
)
from lakebed.runtime.failures import OnFailure
from lakebed.runtime.progress import Advance, rows_bar
from lakebed.session.branches import commit, is_changed
from lakebed.session.parts import Part, PartTarget, adopt, replace_by, writing_parts
from lakebed.session.session import Session
from lakebed.session.table import HasTable, Table
from lakebed.transforms.executors import Executor, Serial, threads
from lakebed.transforms.report import SkippedLog, TransformReport
from lakebed.transforms.resume import Note, Plan, items_done, plan_of, read_note, remove_note, write_note
from lakebed.transforms.source import Source, source_of
from lakebed.transforms.stages import Stage
from lakebed.transforms.work import Failure, Job, Outcome, Task

SCHEDULERS = ("threaded", "serial", "processed", "ray")

# Desired duration of a task: long enough to fill chunks, but short, so that all workers end at about the same time.
_TASK_SECONDS = 2.0
# The last tasks are shorter, but at least this long: ending a part must be short compared with processing its items.
_LEAST_SECONDS = 0.25
_ENDINGS = 5
# If a tensor has no dtype after this many tasks, later tasks no longer wait for one: each part derives its own dtype.
_SETTLING_TASKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Arguments of a transform; see ``Pipeline.eval``."""

    num_workers: int = 0
    scheduler: str = "threaded"
    progressbar: bool = True
    skip_ok: bool = False
    check_lengths: bool = True
    pad_data_in: bool = False
    read_only_ok: bool = False
    cache_size: float = 16
    checkpoint_interval: int = 0
    ignore_errors: bool = False
    verbose: bool = True
    resume: bool = True
    batch_size: int | None = None
    as_dicts: bool = False
    before_publish: Callable[[TransformReport], object] | None = None
    rows_apart: bool = False

    def check(self) -> None:
        """Raise an error for invalid arguments.

        Raises
        ------
        UnsupportedSchedulerError
            If the scheduler is unknown.
        ValueError
            If a number is out of range.
        """
        if self.scheduler not in SCHEDULERS:
            raise UnsupportedSchedulerError(
                f"scheduler {self.scheduler!r} is not supported; choose one of {', '.join(map(repr, SCHEDULERS))}"
            )
        for name in ("num_workers", "checkpoint_interval", "cache_size"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must not be negative")
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}; it must be at least 1")

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Options:
        """Return the options among the arguments of a function."""
        names = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in arguments.items() if name in names})


def run(
    name: str, stages: Sequence[Stage], data: Any, output: Any | None, options: Options
) -> TransformReport:
    """Call functions with all items of an input, and add the rows to a dataset; see ``Pipeline.eval``.

    Parameters
    ----------
    output
        The dataset that receives the rows; None replaces the rows of ``data``.

    Raises
    ------
    TransformError
        If an item failed, or input and output do not fit together.
    """
    options.check()
    started = perf_counter()
    in_place = output is None or output is data
    if in_place and options.checkpoint_interval:
        raise ValueError(
            "checkpoint_interval > 0 and ds_out is None. Cannot checkpoint during inplace transform."
        )
    target = data if in_place else output
    if not isinstance(target, HasTable):
        raise InvalidOutputDatasetError(
            f"the output of a transform must be a dataset, not {type(target).__name__}; pass ds_out="
        )
    table = target._table()  # noqa: SLF001
    _check_output(table, in_place=in_place, options=options)
    report = TransformReport(name)
    source = source_of(data, pad=options.pad_data_in, as_dicts=options.as_dicts)
    kept = SkippedLog(report)
    try:
        with _stoppable():
            run = _Run(name, tuple(stages), data, source, table, options, kept, report, in_place)
            run.run()
    finally:
        kept.close()
        report.seconds = perf_counter() - started
    if not in_place or report.rows:
        table.session.epoch += 1
    if options.ignore_errors and options.verbose:
        print(report)
    if report.items and report.skipped == report.items:
        raise AllSamplesSkippedError(
            "All samples were skipped during the transform. Ensure your transform pipeline is correct before you set "
            f"`ignore_errors=True`. The first: {report.errors[0].cause}"
        )
    return report


def _check_output(table: Table, *, in_place: bool, options: Options) -> None:
    session = table.session
    if session.read_only and not (in_place and options.read_only_ok):
        raise InvalidOutputDatasetError("The output Dataset to transform should not be `read_only`.")
    if not table.index.is_trivial:
        what = (
            "a transform in place of a view would drop the other rows: transform the whole dataset, write into another "
            "one (ds_out), or assign to the view"
            if in_place
            else "the output of a transform is a whole dataset, not a view of one"
        )
        raise InvalidOutputDatasetError(what)
    is_elsewhere = options.num_workers and options.scheduler in SCHEDULERS[2:]
    if is_elsewhere and session.storage.url.startswith("mem://"):
        raise InvalidOutputDatasetError(
            "Transforms with ds_out having base storage as MemoryProvider are only supported in threaded and serial "
            f"mode. Current mode is {options.scheduler}."
        )
    if not in_place and options.check_lengths and len({s.length for s in table.states().values()}) > 1:
        raise InvalidOutputDatasetError(
            "One or more tensors of the ds_out have different lengths. Transform only supports ds_out having same "
            "number of samples for each tensor by default. Set `check_lengths=False` in your `.eval(...)` call to "
            "disable this check."
        )


@dataclass(slots=True)
class _Run:
    """One run of a transform."""

    name: str
    stages: tuple[Stage, ...]
    data: Any
    source: Source
    table: Table
    options: Options
    kept: SkippedLog
    report: TransformReport
    in_place: bool
    one_each: bool = field(init=False)
    session: Session = field(init=False)
    settled: Part | None = None
    seconds_per_item: float = 0.0
    ending: float = 0.0  # seconds that the end of a part takes
    checkpoint: int | None = None  # number of items in the last checkpoint

    def __post_init__(self) -> None:
        self.one_each, self.session = self.in_place, self.table.session

    def run(self) -> None:
        if self.session.read_only:
            self._compute(None)
            return
        with writing_parts(self.table) as target:
            self._compute(target)

    def _compute(self, target: PartTarget | None) -> None:
        start, note = 0, None
        if self.options.checkpoint_interval:
            start, note = self._begun()
        options = self.options
        job = Job(
            target,
            self.source,
            self.stages,
            tuple(self.table.names),
            options.skip_ok or not options.check_lengths,
            options.ignore_errors,
            int(options.cache_size * 1_000_000),
            options.batch_size,
            options.rows_apart,
            in_place=self.in_place,
        )
        with (
            rows_bar(
                f"Evaluating {self.name}", self.source.length, done=start, shown=options.progressbar
            ) as bar,
            _executor(job, options) as executor,
            OnFailure(self._reset),
        ):
            self._adopt_all(executor, start, target, bar)
            # Publish before the note is removed; if publishing fails, the unpublished rows are dropped.
            self._publish_last(note)
        if note is not None:
            remove_note(self.session.storage, self.session.branch)

    def _reset(self) -> None:
        self.session.drop_unpublished()
        if self.checkpoint is not None:
            print("Transform failed. Resetting back to last committed checkpoint.")

    # -- tasks -------------------------------------------------------------------------------------------------

    def _tasks(self, start: int, workers: int, target: PartTarget | None) -> Iterator[Task]:
        """Yield the tasks of all items."""
        ends, interval = self.source.ends(), self.options.checkpoint_interval
        length, most, batch = self.source.length, self.source.most(), self.options.batch_size or 1
        at, number = start, 0
        while length is None or at < length:
            count = self._piece(
                at, workers, number if target is not None and not self._is_settled(target) else -1
            )
            count = min(count, most or count)
            stop = at + -(-count // batch) * batch
            if ends:
                stop = _end_near(ends, at, stop)
            if interval:
                stop = min(stop, (at // interval + 1) * interval)
            if length is not None:
                stop = min(stop, length)
            payload = self.source.payload(at, stop)
            if length is None:
                if not len(payload):
                    return
                stop = at + len(payload)
            yield Task(at, stop, payload, self.settled)
            at, number = stop, number + 1

    def _piece(self, at: int, workers: int, settling: int) -> int:
        """Return the desired number of items of a task."""
        if 0 <= settling < _SETTLING_TASKS:
            return 1
        length = self.source.length
        rest = 1 << 40 if length is None else length - at
        if not self.seconds_per_item:
            return max(1, min(16, -(-rest // (2 * workers))))
        shortest = max(_LEAST_SECONDS, _ENDINGS * self.ending)
        most, least = (int(seconds / self.seconds_per_item) for seconds in (_TASK_SECONDS, shortest))
        return max(1, min(most, max(least, -(-rest // (2 * workers)))))

    def _is_settled(self, target: PartTarget) -> bool:
        return not self._so_far(target).open_tensors

    def _so_far(self, target: PartTarget) -> PartTarget:
        return target if self.settled is None else target.settled(self.settled)

    def _settle(self, target: PartTarget, part: Part) -> None:
        """Use the dtypes of a part for later items, if some tensors had no dtype before."""
        still_open = self._so_far(target).open_tensors
        if still_open and target.settled(part).open_tensors < still_open:
            self.settled = part

    # -- parts -------------------------------------------------------------------------------------------------

    def _adopt_all(self, executor: Executor, start: int, target: PartTarget | None, bar: Advance) -> None:
        parts: list[Part] = []
        shown = done = start
        interval = self.options.checkpoint_interval

        def told() -> None:
            nonlocal shown
            now = done + executor.items_done()
            if now > shown:
                bar(now - shown)
                shown = now

        for outcome in self._outcomes(executor, start, target, told):
            if outcome.failure is not None:
                raise self._error(outcome.failure)
            task = outcome.task
            done = task.stop
            told()
            self.kept.add(outcome.skipped)
            self.kept.add_rows(outcome.left_out)
            self.report.items += task.stop - task.start
            self.report.rows += outcome.rows
            is_whole = not outcome.skipped and all(one.is_change for _, one in outcome.left_out)
            self.one_each &= outcome.one_each and is_whole
            self.seconds_per_item = max(outcome.seconds / (task.stop - task.start), 1e-7)
            self.ending = outcome.ending
            if outcome.part is not None:
                parts.append(outcome.part)
                if target is not None:
                    self._settle(target, outcome.part)
            if interval and done % interval == 0 and done != self.source.length:
                self._adopt(parts)
                parts = []
                self._before_publish()
                self._commit(done)
        may_be_none = self.options.skip_ok or self.options.read_only_ok
        # If an item of a batch fails, all items of the batch fail.
        failed = self.report.errors and self.report.skipped < self.report.items
        if not self.report.rows and (self.report.skipped_rows or (failed and not may_be_none)):
            raise AllSamplesSkippedError(
                f"All rows were left out during the transform. The first: {self.report.errors[0].cause}"
            )
        if not self.report.rows and self.report.items > self.report.skipped and not may_be_none:
            raise TransformError(
                "Transform failed: no item became a row. If you want to do this, pass skip_ok=True to the eval method."
            ) from TensorMismatchError(
                "One or more of the outputs generated during transform contain different tensors than the ones present "
                f"in the target dataset of transform.\n Tensors in target dataset: {list(self.table.names)}\n Tensors "
                "in output sample: []."
            )
        self._adopt(parts)

    def _outcomes(
        self, executor: Executor, start: int, target: PartTarget | None, told: Callable[[], object]
    ) -> Iterator[Outcome]:
        """Yield outcomes in the order of tasks; until every tensor has a dtype, only one task runs at a time."""
        tasks = self._tasks(start, executor.workers, target)
        if target is not None:
            for _ in range(_SETTLING_TASKS):
                if self._is_settled(target):
                    break
                yield from executor.run(islice(tasks, 1), told)
        for outcome in executor.run(tasks, told):
            if outcome.part is not None and outcome.task.settled is not self.settled:
                yield from executor.run(iter([replace(outcome.task, settled=self.settled)]), told)
            else:
                yield outcome

    def _adopt(self, parts: list[Part]) -> None:
        if not parts:
            return
        try:
            if self.in_place:
                self._check_lengths_in_place(parts)
                replace_by(self.session, parts, one_each=self.one_each)
            else:
                adopt(self.session, parts)
        except InvalidOperationError as error:
            raise TransformError(f"Transform failed: {error}") from error

    def _check_lengths_in_place(self, parts: Sequence[Part]) -> None:
        if not self.options.check_lengths:
            return
        for name, full in self.table.names.items():
            found = sum(part.length(full) for part in parts)
            before = self.table.state(name).length
            if found == 0 and before != self.report.rows and before:
                raise InvalidOutputDatasetError(
                    f"the transform made {self.report.rows} rows, but none for tensor {name!r}, which keeps {before}: "
                    "the lengths would differ; make rows for this tensor too, or pass check_lengths=False"
                )

    def _error(self, failure: Failure) -> TransformError:
        on = "" if failure.item is None else f" on the item: {failure.item}"
        text = f"Transform failed at index {failure.index} of the input data{on}."
        if self.checkpoint is not None:
            text += (
                f" Last checkpoint: {self.checkpoint} samples processed. You can slice the input to resume from this "
                "point, or run the same call again, which continues there."
            )
        found = TransformError(
            f"{text} See traceback for more details: {_in_one_line(failure.error)}",
            index=failure.index,
            item=failure.item,
            sample=self.source.sample(failure.index),
            checkpoint=self.checkpoint,
        )
        found.__cause__ = failure.error
        return found

    # -- checkpoints -------------------------------------------------------------------------------------------

    def _commit(self, done: int) -> None:
        length = self.source.length
        share = f"{round(100 * done / length, 2)}% progress" if length else f"{done} samples"
        message = f"Auto-commit during deeplake.compute of {self.name} after {share}"
        commit(self.session, message, allow_empty=True, processed=done)
        self.checkpoint = done

    def _before_publish(self) -> None:
        if self.options.before_publish is not None:
            self.options.before_publish(self.report)

    def _publish_last(self, note: Note | None) -> None:
        """Record in the note which head will hold the rows after the last checkpoint, then publish them."""
        session = self.session
        with session.mutex:
            self._before_publish()
            if note is not None and session.has_unpublished:
                last = session.draft().version_id
                write_note(session.storage, session.branch, replace(note, last=last))
            session.flush()

    def _begun(self) -> tuple[int, Note]:
        """Make the first checkpoint, or find the last checkpoint of an earlier run of the same transform.

        Returns
        -------
        tuple
            Number of items that are already processed, and the note.
        """
        session, options = self.session, self.options
        storage, branch = session.storage, session.branch
        plan = plan_of(self.name, self.stages, self.data, self.source.length)
        old = read_note(storage, branch)
        done = None if old is None else items_done(session, old)
        if old is not None and done is not None and old.plan.name == plan.name:
            if options.resume and self._is_same(plan, old.plan, done):
                if old.last == session.snapshot.version_id and self.source.length is not None:
                    # Publishing succeeded; only the note could not be removed.
                    self.report.resumed_at = self.source.length
                    return self.source.length, old
                if is_changed(session, session.snapshot):
                    raise ResumeError(
                        f"{self.name} stopped after {done} samples, and the dataset was changed since: commit() the "
                        "changes to begin again after them, or reset() to drop them and continue"
                    )
                self.report.resumed_at = self.checkpoint = done
                return done, old
            if not options.resume:
                self._start_over(old)
        self._commit(0)
        note = Note(plan, str(session.tree.commits[session.snapshot.version_id].parent))
        write_note(storage, branch, note)
        return 0, note

    def _is_same(self, plan: Plan, old: Plan, done: int) -> bool:
        if plan.data != old.data or plan.length != old.length:
            if plan.is_rest_of(old, done):
                return False  # the caller passes only the remaining items, which is another run
            raise ResumeError(
                f"{self.name} stopped after {done} of {old.length} samples of another input (this input has "
                f"{plan.length}). Run it with the same input, which continues there, or with the rest of that input; "
                "resume=False removes the rows of the unfinished run and starts over"
            )
        if (plan.function, plan.arguments) != (old.function, old.arguments):
            what = "function" if plan.function != old.function else "arguments"
            warnings.warn(
                f"the {what} of {self.name} changed since it stopped after {done} samples: the rows of these samples "
                f"come from the older {what}. resume=False starts over",
                stacklevel=6,
            )
        return True

    def _start_over(self, note: Note) -> None:
        """Remove the rows of an unfinished run; the next checkpoint publishes the removal, and writes a new note."""
        from lakebed.versions.opening import open_version

        session = self.session
        before = open_version(session.storage, session.tree, note.first)
        with session.mutex, session.writing() as draft:
            for key, state in session.schema().tensors.items():
                first = before.tensors[key].length if key in before.tensors else 0
                if not state.meta.hidden and state.length > first:
                    draft.rows.pop(key, range(first, state.length))


def _in_one_line(error: BaseException) -> str:
    """Return an error as one line: its type, the first line of its text, and the line of code that raised it."""
    text = str(error).strip().partition("\n")[0]
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    own = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - as tracebacks write it
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(own):
            return f"{said} (line {frame.lineno} of {frame.name})"
    return said


def _end_near(ends: Sequence[int], at: int, stop: int) -> int:
    """Move the end of a piece to the nearest end of a chunk, so that two workers rarely read the same chunk."""
    found = bisect_left(ends, stop)
    below = ends[found - 1] if found else 0
    above = ends[found] if found < len(ends) else stop
    if below > at and stop - below <= above - stop:
        return below
    return above if above - stop <= stop - at else stop


def _executor(job: Job, options: Options) -> Executor:
    if options.num_workers == 0 or options.scheduler == "serial":
        return Serial(job)
    if options.scheduler == "threaded":
        return threads(job, options.num_workers)
    if options.scheduler == "processed":
        from lakebed.transforms.processes import processes

        return processes(job, options.num_workers)
    from lakebed.transforms.cluster import cluster

    return cluster(job, options.num_workers)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGTERM end a transform as Ctrl-C does, unless the program handles it itself."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    ):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
