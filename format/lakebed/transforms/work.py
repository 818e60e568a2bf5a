"""What a worker does, in whatever thread, process or machine: items -> rows -> chunks of a part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from lakebed.errors import SampleAppendError
from lakebed.session.parts import Part, PartTarget, PartWriter
from lakebed.transforms.source import Source
from lakebed.transforms.stages import Rows, Stage, Stages

# Rows that wait to be encoded together, however small.
_MOST_ROWS = 32_768
_SHOWN = 1000  # characters of an item in a message


@dataclass(frozen=True, slots=True)
class Job:
    """What all workers of a transform are given.

    Parameters
    ----------
    target
        Where rows go; None: the functions are called, and their rows dropped.
    cache_bytes
        Values that wait to be encoded, of each worker.
    batch_size
        Items per call; None calls with each.
    """

    target: PartTarget | None
    source: Source
    stages: tuple[Stage, ...]
    tensors: tuple[str, ...]
    skip_ok: bool
    ignore_errors: bool
    cache_bytes: int
    batch_size: int | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """Items that one worker takes in one go.

    Parameters
    ----------
    payload
        What the source says of them.
    settled
        A part of earlier items, by which tensors without a dtype are settled.
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
    """What became of a task.

    Parameters
    ----------
    part
        The rows; None if there are none.
    rows
        How many.
    skipped
        Items that failed and were left out.
    failure
        Why it ended early; its part is None then.
    seconds
        Time that it took.
    """

    task: Task
    part: Part | None = None
    rows: int = 0
    skipped: list[Failure] = field(default_factory=list)
    failure: Failure | None = None
    seconds: float = 0.0


class Cancelled(Exception):
    """The transform was given up while this worker was at work."""


class _Waiting:
    """Rows of items that wait to be encoded together, and which rows are whose."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {}
        self.items: list[tuple[int, Any]] = []
        self.ends: list[int] = []
        self.nbytes = 0

    def add(self, index: int, item: Any, rows: Rows) -> None:
        for name, values in rows.items():
            self.columns.setdefault(name, []).extend(values)
            self.nbytes += _size(values)
        self.items.append((index, item))
        self.ends.append((self.ends[-1] if self.ends else 0) + len(next(iter(rows.values()))))

    @property
    def rows(self) -> int:
        return self.ends[-1] if self.ends else 0

    def one_by_one(self) -> Iterator[tuple[int, Any, Rows]]:
        """Yield the rows of each item."""
        start = 0
        for (index, item), end in zip(self.items, self.ends, strict=True):
            yield index, item, {name: values[start:end] for name, values in self.columns.items()}
            start = end


class Worker:
    """Does tasks, one at a time.

    Parameters
    ----------
    begin
        Called with the number of each item before it is begun; may raise :class:`Cancelled`.
    """

    def __init__(self, job: Job, begin: Callable[[int], None]) -> None:
        self._job = job
        self._begin = begin
        self._stages = Stages(job.stages, job.tensors, skip_ok=job.skip_ok)

    def do(self, task: Task) -> Outcome:
        """Return what became of a task; errors of functions and of samples are told, others raised."""
        started = perf_counter()
        outcome = Outcome(task)
        target = self._job.target
        if target is None:
            self._run(task, outcome, None)
        else:
            with PartWriter(target if task.settled is None else target.settled(task.settled)) as writer:
                self._run(task, outcome, writer)
                if outcome.failure is None and outcome.rows:
                    outcome.part = writer.finish()
        outcome.seconds = perf_counter() - started
        return outcome

    def _run(self, task: Task, outcome: Outcome, writer: PartWriter | None) -> None:
        waiting, job = _Waiting(), self._job
        for index, item in self._items(task):
            self._begin(index)
            try:
                rows = self._stages.rows(item)
            except Exception as error:  # noqa: BLE001 - told, with the item
                if self._failed(outcome, index, item, error):
                    return
                continue
            if not rows:
                continue
            if self._stages.is_batched:
                count = len(next(iter(rows.values())))
                if not self._write(outcome, writer, rows, count, index, item):
                    return
                continue
            if waiting.items and rows.keys() != waiting.columns.keys():
                # Rows of the same tensors only are encoded together.
                if not self._encode(outcome, writer, waiting):
                    return
                waiting = _Waiting()
            waiting.add(index, item, rows)
            if waiting.nbytes >= job.cache_bytes or waiting.rows >= _MOST_ROWS:
                if not self._encode(outcome, writer, waiting):
                    return
                waiting = _Waiting()
        self._encode(outcome, writer, waiting)

    def _items(self, task: Task) -> Iterator[tuple[int, Any]]:
        source, size = self._job.source, self._job.batch_size
        if size is None:
            yield from enumerate(source.items(task.payload, task.start, task.stop), task.start)
        else:
            at = task.start
            for batch in source.batches(task.payload, task.start, task.stop, size):
                yield at, batch
                at += size

    def _encode(self, outcome: Outcome, writer: PartWriter | None, waiting: _Waiting) -> bool:
        """Encode what waits; say whether to go on."""
        if not waiting.items:
            return True
        if writer is None:
            outcome.rows += waiting.rows
            return True
        try:
            writer.extend(waiting.columns)
        except SampleAppendError:
            pass  # which item it is shows one by one
        else:
            outcome.rows += waiting.rows
            return True
        return all(
            self._write(outcome, writer, rows, len(next(iter(rows.values()))), index, item)
            for index, item, rows in waiting.one_by_one()
        )

    def _write(
        self, outcome: Outcome, writer: PartWriter | None, rows: Rows, count: int, index: int, item: Any
    ) -> bool:
        if writer is not None:
            try:
                writer.extend(rows)
            except SampleAppendError as error:
                return not self._failed(outcome, index, item, error)
        outcome.rows += count
        return True

    def _failed(self, outcome: Outcome, index: int, item: Any, error: Exception) -> bool:
        """Note an item that failed; say whether that ends the task."""
        failure = Failure(index, None if self._job.source.is_dataset else _text(item), error)
        if self._job.ignore_errors:
            # Without frames, which would keep the arrays of the item.
            outcome.skipped.append(Failure(index, failure.item, error.with_traceback(None)))
            return False
        outcome.failure = failure
        return True


def _size(values: Sequence[Any]) -> int:
    """Return about how many bytes values take."""
    if isinstance(values, np.ndarray):
        return values.nbytes
    total = 0
    for value in values:
        if isinstance(value, np.ndarray):
            total += value.nbytes + 100
        elif isinstance(value, str | bytes):
            total += len(value) + 50
        else:
            total += 64
    return total


def _text(item: Any) -> str:
    found = str(item)
    return found if len(found) <= _SHOWN else found[:_SHOWN] + "..."
