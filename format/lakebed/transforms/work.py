"""A worker, in any thread, process or machine: items -> rows -> chunks of a part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from time import perf_counter
from typing import Any

from lakebed.errors import SampleAppendError, SkippedRowError
from lakebed.reading.buffers import BufferPool
from lakebed.session.parts import Part, PartTarget, PartWriter, Savepoint
from lakebed.transforms.output import RowsOfItems, Skipped, held_bytes
from lakebed.transforms.source import Source
from lakebed.transforms.stages import Rows, Stage, Stages, WholeRows
from lakebed.writing.encode.files import RECAST

# Maximum number of rows, even small ones, that wait to be encoded together.
_MOST_ROWS = 32_768
# Number and size of buffers for reading files; tasks reuse the buffers.
_BUFFERS = 4
_BUFFER_BYTES = 1 << 26
_SHOWN = 1000  # maximum number of characters of an item in a message


@dataclass(frozen=True, slots=True)
class Job:
    """The input of all workers of a transform.

    Parameters
    ----------
    target
        The destination of rows; if None, the functions are called but their rows are dropped.
    cache_bytes
        Maximum number of bytes of values that wait to be encoded, for each worker.
    batch_size
        Number of items per call; if None, each call receives a single item.
    rows_apart
        If errors are ignored, leave out only the row that cannot be written, not all rows of its item.
    in_place
        Rows replace the items, so outcomes must report whether each item became exactly one row.
    """

    target: PartTarget | None
    source: Source
    stages: tuple[Stage, ...]
    tensors: tuple[str, ...]
    skip_ok: bool
    ignore_errors: bool
    cache_bytes: int
    batch_size: int | None = None
    rows_apart: bool = False
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """Items that a worker processes together.

    Parameters
    ----------
    payload
        Data of the source for these items.
    settled
        A part of earlier items; tensors without a dtype take the dtypes of this part.
    """

    start: int
    stop: int
    payload: Any = None
    settled: Part | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """An item that failed: its number, its text, and the error."""

    index: int
    item: str | None
    error: BaseException


@dataclass(slots=True)
class Outcome:
    """The outcome of a task.

    Parameters
    ----------
    part
        The part with the rows; None without rows, or after a failure.
    rows
        Number of rows.
    skipped
        Items that failed and were left out.
    left_out
        Rows that were left out of items that did not fail, and rows that were changed: (number of the item, row).
    one_each
        Whether every item made exactly one row for each tensor to which it added rows (a batch: as many rows as items);
        computed only for transforms in place.
    failure
        Item that ended the task early; None if the task was completed.
    seconds
        Duration of processing the items, without the end of the part, which waits for the disk.
    ending
        Duration of the end of the part.
    """

    task: Task
    part: Part | None = None
    rows: int = 0
    skipped: list[Failure] = field(default_factory=list)
    left_out: list[tuple[int, Skipped]] = field(default_factory=list)
    one_each: bool = True
    failure: Failure | None = None
    seconds: float = 0.0
    ending: float = 0.0


class Cancelled(Exception):
    """The transform was cancelled while this worker was busy."""


@dataclass(slots=True)
class _Waiting:
    """Items whose rows wait to be encoded together: as columns, or as the functions returned them."""

    _columns: dict[str, list[Any]] = field(default_factory=dict)
    _whole: list[dict[str, Any]] = field(default_factory=list)
    items: list[tuple[int, Any]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    nbytes: int = 0

    def takes(self, rows: Rows | WholeRows) -> bool:
        """Return whether rows can be added: if items wait, the rows must have the same form and the same tensors."""
        if not self.items:
            return True
        if isinstance(rows, WholeRows):
            return bool(self._whole)
        return not self._whole and rows.keys() == self._columns.keys()

    def add(self, index: int, item: Any, rows: Rows | WholeRows) -> None:
        if isinstance(rows, WholeRows):
            self._whole += rows.rows
            self.nbytes += rows.nbytes
            count = len(rows.rows)
        else:
            for name, values in rows.items():
                self._columns.setdefault(name, []).extend(values)
                self.nbytes += sum(map(held_bytes, values))
            count = len(next(iter(rows.values())))
        self.items.append((index, item))
        self.ends.append(self.rows + count)

    @property
    def rows(self) -> int:
        return self.ends[-1] if self.ends else 0

    def columns(self) -> Rows:
        """Return all rows as columns."""
        if self._whole:
            return {name: [row[name] for row in self._whole] for name in self._whole[0]}
        return self._columns

    def one_by_one(self) -> Iterator[tuple[int, Any, Rows]]:
        """Yield the rows of each item."""
        start, columns = 0, self.columns()
        for (index, item), end in zip(self.items, self.ends, strict=True):
            yield index, item, {name: values[start:end] for name, values in columns.items()}
            start = end


@dataclass(slots=True)
class _LargeItem:
    """A large item, whose rows are written while the function makes them; if it fails, all its rows are removed.

    If errors are ignored, single rows of a batch, and independent rows, can be left out: ``lost`` is the number of rows
    left out, ``rows`` is the number of all rows, including these.
    """

    is_begun: bool = False
    rows: int = 0
    lost: int = 0
    _writer: PartWriter | None = None
    _point: Savepoint | None = None
    _error: SampleAppendError | None = None

    def begin(self, writer: PartWriter | None) -> None:
        self.is_begun, self._writer = True, writer
        if writer is not None:
            self._point = writer.savepoint()

    def add(self, rows: Rows) -> None:
        if self._error is not None:
            raise self._error  # raise the error again, because the function caught it and continued
        if self._writer is None:
            return
        try:
            for name, values in rows.items():
                self._writer.extend({name: values})
        except SampleAppendError as error:
            self._error = error
            raise

    def give_up(self) -> None:
        if self._writer is not None and self._point is not None:
            self._writer.back_to(self._point)


class _Ended(BaseException):
    """The end of a task because of an earlier item; a BaseException, so that functions do not catch it."""


class Worker:
    """A worker that does one task at a time.

    Parameters
    ----------
    begin
        Called with the number of each item before it is started; may raise :class:`Cancelled`.
    """

    def __init__(self, job: Job, begin: Callable[[int], None]) -> None:
        self._job = job
        self._begin = begin
        self._stages = Stages(
            job.stages, job.tensors, skip_ok=job.skip_ok, overflow=self._overflow, limit=job.cache_bytes
        )
        self._pool = BufferPool(_BUFFERS, _BUFFER_BYTES)
        self._large = _LargeItem()
        self._index, self._item = 0, None
        self._waiting = _Waiting()
        self._outcome: Outcome | None = None
        self._writer: PartWriter | None = None

    def do(self, task: Task) -> Outcome:
        """Return the outcome of a task; it reports errors of functions and of samples; all other errors are raised."""
        outcome = Outcome(task)
        target = self._job.target
        if target is None:
            self._run(task, outcome, None)
        else:
            settled = target if task.settled is None else target.settled(task.settled)
            with PartWriter(settled, self._pool.take) as writer:
                self._run(task, outcome, writer)
                if outcome.failure is None and outcome.rows:
                    started = perf_counter()
                    outcome.part = writer.finish()
                    outcome.ending = perf_counter() - started
        return outcome

    def _run(self, task: Task, outcome: Outcome, writer: PartWriter | None) -> None:
        self._waiting, self._outcome, self._writer = _Waiting(), outcome, writer
        recast: list[tuple[str, str]] = []
        before = RECAST.set(recast)
        started = perf_counter()
        try:
            for index, item in self._items(task):
                self._begin(index)
                self._take(index, item, outcome)
            self._encode()
            self._forget_changes(outcome)
        except _Ended:
            return
        finally:
            RECAST.reset(before)
            outcome.left_out += [
                (task.start, Skipped(path, what, 0, is_change=True)) for path, what in recast
            ]
            outcome.seconds = perf_counter() - started
            self._waiting, self._outcome, self._writer = _Waiting(), None, None

    def _take(self, index: int, item: Any, outcome: Outcome) -> None:
        """Turn an item into rows, and encode the rows now, or later together with rows of other items."""
        large = self._large = _LargeItem()
        self._index, self._item, before = index, item, len(outcome.left_out)
        try:
            rows = self._stages.rows(item)
            if large.is_begun and rows and not isinstance(rows, WholeRows):
                self._add(rows)
            self._leave_out(index, self._stages.left_out)
        except Exception as error:  # noqa: BLE001 - any error of a user's function is reported with the item
            large.give_up()
            del outcome.left_out[before:]
            self._failed(index, item, error)
            return
        if self._job.in_place and outcome.one_each:
            size = self._job.batch_size
            items = 1 if size is None else min(size, outcome.task.stop - index)
            outcome.one_each = _made_of(rows, self._stages.overflowed) == {items}
        if isinstance(rows, WholeRows):
            self._wait(index, item, rows)
            return
        if large.is_begun:
            name, count = next(iter(self._stages.overflowed.items()))
            outcome.rows += count + len(rows.get(name, ())) - large.lost
            return
        if not rows:
            return
        if self._stages.is_batched:
            self._write(rows, index, item)
            return
        self._wait(index, item, rows)

    def _wait(self, index: int, item: Any, rows: Rows | WholeRows) -> None:
        """Queue rows to be encoded together with rows of other items."""
        if not self._waiting.takes(rows):
            # Only rows with the same tensors can be encoded together, so encode the rows that wait first.
            self._encode()
        waiting = self._waiting
        waiting.add(index, item, rows)
        if waiting.nbytes >= self._job.cache_bytes or waiting.rows >= _MOST_ROWS:
            self._encode()

    def _overflow(self, rows: Rows) -> None:
        """Write rows of an unfinished item, which then counts as a large item."""
        if not self._large.is_begun:
            self._encode()
            self._large.begin(self._writer)
        self._add(rows)

    def _add(self, rows: Rows) -> None:
        """Write rows of an unfinished item, or the last rows of a large item."""
        if self._writer is None or not self._is_apart(rows):
            self._large.add(rows)
            return
        count, before = len(next(iter(rows.values()))), self._large.rows
        self._large.rows += count
        try:
            _extend(self._writer, rows)
        except SampleAppendError:
            good = self._one_by_one(self._writer, rows, self._index, self._item, before)
            self._large.lost += count - good

    def _is_apart(self, rows: Rows) -> bool:
        """Return whether only a row that cannot be written is left out, instead of all rows of its item."""
        if self._stages.is_batched and isinstance(rows, RowsOfItems):
            return True
        return self._job.ignore_errors and (self._stages.is_batched or self._job.rows_apart)

    def _items(self, task: Task) -> Iterator[tuple[int, Any]]:
        source, size = self._job.source, self._job.batch_size
        if size is None:
            yield from enumerate(source.items(task.payload, task.start, task.stop), task.start)
        else:
            at = task.start
            for batch in source.batches(task.payload, task.start, task.stop, size):
                yield at, batch
                at += size

    def _encode(self) -> None:
        """Encode the waiting rows."""
        waiting, self._waiting = self._waiting, _Waiting()
        if not waiting.items:
            return
        if self._writer is not None and len(waiting.items) > 1:
            try:
                _extend(self._writer, waiting.columns())
            except SampleAppendError:
                # Encode the rows item by item to find the bad one.
                for index, item, rows in waiting.one_by_one():
                    self._write(rows, index, item)
                return
        elif self._writer is not None:
            self._write(waiting.columns(), *waiting.items[0])
            return
        self._told().rows += waiting.rows

    def _write(self, rows: Rows, index: int, item: Any) -> None:
        """Encode the rows of one item."""
        count = len(next(iter(rows.values())))
        if self._writer is not None:
            try:
                _extend(self._writer, rows)
            except SampleAppendError as error:
                if count == 1:
                    self._failed(*_item_of(rows, 0, index, item), error)
                    return
                if not self._is_apart(rows):
                    self._failed(index, item, error)
                    return
                count = self._one_by_one(self._writer, rows, index, item)
        self._told().rows += count

    def _one_by_one(self, writer: PartWriter, rows: Rows, index: int, item: Any, before: int = 0) -> int:
        """Encode rows one by one and leave out rows that do not fit; return the number of encoded rows.

        Parameters
        ----------
        before
            Number of rows of the item that were written already.
        """
        count, good = len(next(iter(rows.values()))), 0
        for row in range(count):
            try:
                _extend(writer, {name: values[row : row + 1] for name, values in rows.items()})
            except SampleAppendError as error:
                at, told = _item_of(rows, row, index, self._place(item, before + row, count))
                if not self._job.ignore_errors:
                    self._failed(at, told, error)
                self._told().left_out.append((at, Skipped(_text(told), _cause(error))))
            else:
                good += 1
        return good

    def _place(self, item: Any, row: int, count: int) -> str:
        """Return text for messages that says which row of its item failed."""
        if self._job.rows_apart:
            return f"{_text(item)}, row {row:,} of it"
        return f"row {row} of {count}"

    def _leave_out(self, index: int, rows: list[Skipped]) -> None:
        """Record rows that a function left out.

        Raises
        ------
        SkippedRowError
            If errors are not ignored.
        """
        if rows and not self._job.ignore_errors:
            raise SkippedRowError(f"{rows[0].where}: {rows[0].reason}")
        self._told().left_out.extend((index, row) for row in rows)

    def _forget_changes(self, outcome: Outcome) -> None:
        """Remove the records of changed rows if these rows could not be written."""
        gone = {failure.item for failure in outcome.skipped}
        gone |= {one.where for _, one in outcome.left_out if one.rows}
        if gone:
            kept = [(at, one) for at, one in outcome.left_out if not one.is_change or one.where not in gone]
            outcome.left_out = kept

    def _told(self) -> Outcome:
        if self._outcome is None:
            raise AssertionError("no task is being done")
        return self._outcome

    def _failed(self, index: int, item: Any, error: Exception) -> None:
        """Record an item that failed, which ends the task unless such items are left out."""
        text = None if self._job.source.is_dataset else _text(item)
        if not self._job.ignore_errors:
            self._told().failure = Failure(index, text, error)
            raise _Ended
        # Drop the traceback: its stack frames would keep the item's arrays in memory.
        self._told().skipped.append(Failure(index, text, error.with_traceback(None)))


def _extend(writer: PartWriter, rows: Rows) -> None:
    """Write rows; if that fails, remove the recorded changes of these rows."""
    recast = RECAST.get()
    before = len(recast or ())
    try:
        writer.extend(rows)
    except SampleAppendError:
        if recast is not None:
            del recast[before:]
        raise


def _made_of(rows: Rows | WholeRows, overflowed: Mapping[str, int]) -> set[int]:
    """Return the number of samples that an item gave to each tensor, as a set; samples passed to ``overflow`` count."""
    if isinstance(rows, WholeRows):
        return {len(rows.rows)}
    return {overflowed.get(name, 0) + len(rows.get(name, ())) for name in {**rows, **overflowed}}


def _item_of(rows: Rows, row: int, index: int, item: Any) -> tuple[int, Any]:
    """Return the number and the value of the item that a row was made from.

    For rows of a batch, whose first item has the number ``index``, return the number and value of one item of the
    batch; for other rows, return ``index`` and ``item`` themselves.
    """
    if not isinstance(rows, RowsOfItems):
        return index, item
    at = rows.which[row]
    return index + at, rows.batch[at]


def _cause(error: BaseException) -> str:
    """Return the text of the original cause of an error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error)


def item_text(source: Source, task: Task, index: int) -> str | None:
    """Return the text of an item whose worker died; None if only workers can read the item."""
    if task.payload is None:
        return None
    found = next(islice(source.items(task.payload, task.start, task.stop), index - task.start, None), None)
    return _text(found)


def _text(item: Any) -> str:
    # For a batch of one item, show the item.
    found = str(item[0] if type(item) is list and len(item) == 1 else item)
    return found if len(found) <= _SHOWN else found[:_SHOWN] + "..."
