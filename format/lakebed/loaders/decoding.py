"""Filling of a batch: several threads decode and transform its samples, and one thread assembles them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from lakebed.errors import LakebedError
from lakebed.loaders.collate import Batch, Ragged, collate
from lakebed.loaders.columns import Column, Room
from lakebed.loaders.plan import Step
from lakebed.loaders.processes import Processes
from lakebed.loaders.stats import Stats
from lakebed.runtime.failures import Outcome, outcome

OnError = Literal["raise", "skip", "substitute"]
Transform = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Settings:
    """How batches are made.

    Parameters
    ----------
    batch_memory, read_memory
        Limits in bytes: of batches, and of data that is read ahead.
    transform
        Function that is called with each sample, a dictionary.
    processes
        Worker processes that call the transform; None calls it on threads.
    """

    threads: int
    batch_memory: int
    read_memory: int
    ragged: Ragged = "list"
    on_error: OnError = "raise"
    transform: Transform | None = None
    processes: Processes | None = None
    with_index: bool = False


@dataclass(slots=True, eq=False)
class Job:
    """A batch that is being filled."""

    step: Step
    missing: int = 0
    rooms: dict[str, Room] = field(default_factory=dict)
    keep: list[int] | None = None
    """Numbers of the samples in the rooms; None for all samples of the step."""
    nbytes: int = 0
    is_measured: bool = False
    is_open: bool = False
    left: int = 0
    made: list[Any] = field(default_factory=list)
    bad: dict[int, Exception] = field(default_factory=dict)
    result: Batch | None = None
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def count(self) -> int:
        return len(self.step.rows) if self.keep is None else len(self.keep)


@dataclass(frozen=True, slots=True)
class Filling:
    """Filling of the batches of one epoch; several threads fill the same batch.

    Parameters
    ----------
    mutex
        The mutex of the run, which protects the state that the threads of one batch share.
    """

    epoch: int
    columns: Sequence[Column]
    settings: Settings
    stats: Stats
    mutex: threading.RLock

    def lost(self, job: Job, i: int, error: Exception) -> None:
        """Record that a sample failed; the caller must hold the mutex, unless no other thread uses the batch."""
        job.bad[i] = error
        self.stats.failed(error, partial(self._where, error, int(job.step.rows[i])))

    def _where(self, error: Exception, row: int) -> dict[str, Any]:
        """Return the location of a failed sample for the statistics; if a transform failed, only the row."""
        tensor = getattr(error, "tensor", None)
        for column in self.columns:
            if column.reader.name == tensor:
                chunk, span = column.whereabouts(row)
                return {"tensor": column.name, "row": row, "chunk": chunk, "range": span}
        return {"tensor": None, "row": row, "chunk": None, "range": None}

    def decode(self, job: Job, start: int, stop: int) -> None:
        """Decode some samples of a batch that is open."""
        for room in job.rooms.values():
            try:
                room.fill(start, stop)
            except LakebedError:
                if self.settings.on_error == "raise":
                    raise
                for i in range(start, stop):
                    try:
                        room.fill(i, i + 1)
                    except LakebedError as error:
                        self._bad(job, i, error)

    def _bad(self, job: Job, i: int, error: Exception) -> None:
        with self.mutex:
            self.lost(job, i if job.keep is None else job.keep[i], error)

    def transform(self, job: Job, start: int, stop: int, transform: Transform) -> None:
        """Call the transform with some decoded samples."""
        numbers = range(start, stop) if job.keep is None else job.keep[start:stop]
        places = [i for i, number in enumerate(numbers, start) if number not in job.bad]
        samples = [self._sample(job, i) for i in places]
        processes = self.settings.processes
        if processes is None:
            outcomes: Iterable[Outcome[Any]] = (
                outcome(transform, sample, kind=Exception) for sample in samples
            )
        else:
            outcomes = processes.transformed(samples)
        for i, found in zip(places, outcomes, strict=True):
            if isinstance(found.error, Exception):
                self._untransformed(job, i, found.error)
            else:
                job.made[i] = found.value

    def _sample(self, job: Job, i: int) -> dict[str, Any]:
        sample = {name: room.value(i) for name, room in job.rooms.items()}
        if self.settings.with_index:
            number = i if job.keep is None else job.keep[i]
            sample["index"] = job.step.rows[number : number + 1]
        return sample

    def _untransformed(self, job: Job, i: int, error: Exception) -> None:
        row = int(job.step.rows[i if job.keep is None else job.keep[i]])
        error.add_note(f"in the transform of row {row}")
        if self.settings.on_error == "raise":
            raise error
        self._bad(job, i, error)

    def finish(self, job: Job) -> None:
        """Assemble the batch once all of its samples are made."""
        step, ragged = job.step, self.settings.ragged
        numbers: Sequence[int] = range(len(step.rows)) if job.keep is None else job.keep
        places = [i for i, number in enumerate(numbers) if number not in job.bad]
        if job.bad and not places:
            if self.settings.on_error == "substitute":
                raise next(iter(job.bad.values()))
            job.done.set()  # all samples failed: the batch is empty
            return
        if self.settings.on_error == "substitute" and job.bad:
            kept = {numbers[i]: i for i in places}
            places = [kept.get(n, places[n % len(places)]) for n in range(len(step.rows))]
        whole = len(places) == len(numbers) and not job.bad
        rows = step.rows if whole else step.rows[[numbers[i] for i in places]]
        batch = self._collated(job, places, ragged, whole=whole)
        batch.rows, batch.epoch, batch.step = rows, self.epoch, step.number
        batch.real = step.real if whole else step.real[[numbers[i] for i in places]]
        if self.settings.with_index and "index" not in batch:
            batch["index"] = rows
        job.result = batch
        job.rooms, job.made = {}, []
        job.done.set()

    def _collated(self, job: Job, places: list[int], ragged: Ragged, *, whole: bool) -> Batch:
        if self.settings.transform is not None:
            found = collate([job.made[i] for i in places], ragged)
            return Batch(found) if isinstance(found, Mapping) else Batch({"samples": found})
        batch = Batch()
        for name, room in job.rooms.items():
            stacked = room.stacked() if whole else None
            batch[name] = (
                stacked if stacked is not None else _together([room.value(i) for i in places], ragged)
            )
        return batch


def _together(values: list[Any], ragged: Ragged) -> Any:
    return collate(values, ragged) if not isinstance(values[0], Mapping | tuple) else values
