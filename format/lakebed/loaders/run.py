"""One pass over an epoch: read ahead, decode on threads, deliver batches in order, within a limit of memory.

A batch goes through five states. *Planned*: its rows are known, and its data is being read. *Measured*: the data has
arrived, so the size of the batch is known. *Open*: its memory is allocated. *Filled*: threads have decoded all of its
samples. *Delivered*. Batches are opened in their order, so that the first one always gets memory.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from lakebed.errors import DatasetNotFoundError, InvalidOperationError, LakebedError, LimitError, StorageError
from lakebed.loaders.collate import Batch
from lakebed.loaders.columns import Column, Picked, Room
from lakebed.loaders.decoding import Filling, Job, Settings
from lakebed.loaders.plan import Key, Plan, Step
from lakebed.loaders.portions import Portion
from lakebed.loaders.stats import Stats
from lakebed.reading.remote.tasks import LazyFuture, submit
from lakebed.reading.subscripts import Rows
from lakebed.runtime import process_hooks
from lakebed.runtime.failures import outcome

# Maximum number of samples per task of a thread; starting a task takes a tenth of the time of decoding a small image.
_MOST_SAMPLES = 16
# Number that stands for a block in the keys of samples that are read individually.
_ALONE = -1
# Number of batches that are made ahead of the consumer; if a batch is larger than _LARGE[0] bytes (the processor's
# cache), the number is _LARGE[1].
AHEAD = 3
_LARGE = 1 << 24, 2
# If this many consecutive samples cannot be read, the storage counts as unreachable and an error is raised; otherwise
# the samples count as damaged.
_MOST_UNREACHED = 64
_UNREACHED = StorageError, DatasetNotFoundError
# Seconds after which a loader that waits for a store checks for slow requests.
_GLANCE = 0.05
# Seconds that closing a loader waits for its threads to end.
_LAST = 10.0
# Number of consecutive batches without a new span after which read-ahead requests the remaining spans of the current
# blocks at once.
_BARREN = 64


@dataclass(slots=True, eq=False)
class _Entry:
    """The read of one span: a portion for each column."""

    rows: Rows
    uses: int
    nbytes: int
    began: float = 0.0
    is_hedged: bool = False
    is_done: bool = False
    waiting: list[Job] = field(default_factory=list)
    future: LazyFuture[tuple[Portion, ...]] | None = None


_runs: weakref.WeakSet[Run] = weakref.WeakSet()


class Run:
    """Producer of the batches of one epoch.

    Parameters
    ----------
    first
        Number of the first batch.
    is_remote
        Whether data is read over a network; such data is requested ahead.
    """

    def __init__(
        self,
        plan: Plan,
        columns: Sequence[Column],
        settings: Settings,
        stats: Stats,
        *,
        first: int = 0,
        is_remote: bool = False,
    ) -> None:
        self._plan = plan
        self._columns = columns
        self._spanned = [column for column in columns if column.is_spanned]
        self._settings = settings
        self._stats = stats
        self._is_remote = is_remote
        source = next((c.reader.source for c in columns if c.reader.source.remote is not None), None)
        self._remote = source.remote if source is not None and is_remote else None
        stats.watch(source)
        # Even for local files, decompressing whole chunks takes long, so let the threads share that work.
        self._is_read_apart = is_remote or any(c.reader.chunk_codec() is not None for c in self._spanned)
        self._pid = os.getpid()
        self._mutex = threading.RLock()
        self._filling = Filling(plan.epoch, columns, settings, stats, self._mutex)
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._steps = plan.steps(first)
        self._jobs: deque[Job] = deque()
        self._entries: dict[Key, _Entry] = {}
        self._uses: dict[Key, int] = {}
        self._known_blocks: set[int] = set()
        self._first = first
        self._ahead = plan.steps(first)
        # Number of consecutive batches that read-ahead has examined without finding a new span.
        self._barren = 0
        self._upcoming: deque[Key] = deque()
        self._alone_rows: dict[int, int] = {}
        self._delivering: Job | None = None
        self._read_bytes = 0
        self._batch_bytes = 0
        self._largest = 0
        # All capacity serves the first batch. Later batches and read-ahead start only when its individually read
        # samples have arrived; for local files, when the threads may decode it, because until then all threads read it.
        self._is_beginning = bool(self._spanned) and (not is_remote or plan.order.mode in ("window", "exact"))
        self._unreached: list[Exception] = []
        self._has_arrived = False
        self._is_closed = False
        self._threads: list[threading.Thread] = []
        self._is_light = settings.transform is None and all(column.is_light for column in columns)
        _runs.add(self)

    # -- delivery ----------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Batch]:
        try:
            for column in self._columns:
                column.prepare()
            self._start()
            last: Job | None = None
            began = time.perf_counter()
            while True:
                with self._mutex:
                    if self._is_closed:
                        return
                    if last is not None:
                        self._batch_bytes -= last.nbytes
                        self._stats.add(held_bytes=-last.nbytes)
                    self._advance()
                    job = self._delivering = self._jobs.popleft() if self._jobs else None
                self._admit()
                if job is None:
                    if self._unreached and not self._has_arrived:
                        raise self._unreachable()
                    return
                waited = time.perf_counter()
                self._wait(job)
                if self._is_closed:  # another thread has closed the loader
                    return
                if job.error is not None:
                    raise job.error
                got = time.perf_counter()
                if last is None:
                    self._stats.add(start_seconds=got - began)
                else:
                    self._stats.add(loader_wait_seconds=got - waited, consumer_seconds=waited - began)
                self._stats.add(batches=1, samples=job.count)
                last = job
                began = got
                if job.result is not None:
                    yield job.result
                    job.result = None
        finally:
            self.close()

    def _wait(self, job: Job) -> None:
        while not job.done.is_set():
            if os.getpid() != self._pid:
                raise InvalidOperationError(
                    "this process was forked while the loader was iterated, and does not have the loader's threads; "
                    "begin the iteration in the process that continues it"
                )
            if self._threads:
                if not job.done.wait(None if self._remote is None else _GLANCE):
                    self._hedge(job)
                continue
            try:
                task = self._tasks.get(timeout=_GLANCE if self._is_remote else 0)
            except queue.Empty:
                if self._is_remote:
                    self._hedge(job)
                    continue
                raise AssertionError(
                    "internal error: a batch waits although nothing is being read for it"
                ) from None
            if task is not None:
                task()

    def _start(self) -> None:
        for number in range(0 if self._is_light else self._settings.threads):
            thread = threading.Thread(
                target=_work, args=(self._tasks,), name=f"lakebed-loader-{number}", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """Stop the threads and drop unfinished work."""
        with self._mutex:
            if self._is_closed:
                return
            self._is_closed = True
            self._upcoming.clear()
            for entry in self._entries.values():
                if entry.future is not None:
                    entry.future.is_dropped = True
            self._entries.clear()
            for job in self._jobs_under_way():
                job.done.set()  # wakes a thread that waits for it
            self._stats.add(held_bytes=-self._read_bytes - self._batch_bytes)
            self._read_bytes = self._batch_bytes = 0
        if os.getpid() != self._pid:
            return
        self._stats.watch(None)
        # Put one None per thread, or a single one for the iterating thread if it works alone.
        for _ in range(len(self._threads) or 1):
            self._tasks.put(None)
        end = time.monotonic() + _LAST
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, end - time.monotonic()))

    # -- planning and reading ----------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Plan the next batches, and read ahead for later ones. The caller must hold the mutex."""
        if self._is_closed:
            return
        large, fewer = _LARGE
        ahead = 1 if self._is_light or self._is_beginning else fewer if self._largest > large else AHEAD
        while len(self._jobs) < ahead:
            step = next(self._steps, None)
            if step is None:
                break
            is_first = step.number == self._first
            job = Job(self._alone(step) if is_first and self._is_remote and self._spanned else step)
            self._jobs.append(job)
            self._want(job)
            if not job.missing:
                self._tasks.put(partial(self._guarded, job, self._measure))
        if self._is_remote and not self._is_beginning:
            self._read_ahead()

    def _want(self, job: Job) -> None:
        if not self._spanned:
            return
        for key in dict.fromkeys(job.step.keys):
            entry = self._entry(key)
            if self._is_read_apart and not entry.is_done:
                entry.waiting.append(job)
                job.missing += 1

    def _alone(self, step: Step) -> Step:
        """Return the first batch in a form that reads its samples one by one, so that it is complete early."""
        if self._plan.order.mode != "window":
            return step
        for i, key in enumerate(step.keys):
            self._know(key[0])
            left = self._uses.pop(key, 0) - 1  # repeated samples of a padded batch are not counted as uses
            if left > 0:
                self._uses[key] = left
            self._alone_rows[i] = int(step.rows[i])
        return replace(step, keys=[(_ALONE, i) for i in range(len(step.keys))], insides=[0] * len(step.keys))

    def _entry(self, key: Key) -> _Entry:
        entry = self._entries.get(key)
        if entry is None:
            table = self._plan.table
            if key[0] == _ALONE:
                row = self._alone_rows[key[1]]
                rows: Rows = range(row, row + 1)
                uses, count, nbytes = 1, 1, table.total // len(table.rows)
            else:
                self._know(key[0])
                rows, nbytes = table.rows_of(key[1]), table.nbytes_of(key[1])
                # Padding at the end of an epoch requests a span again after its last use.
                uses, count = self._uses.pop(key, 1), len(rows)
            entry = self._entries[key] = _Entry(rows, uses, nbytes)
            entry.future = LazyFuture(partial(self._read, entry, min(1.0, uses / count)))
            if self._is_read_apart:
                self._read_bytes += nbytes
                self._stats.add(held_bytes=nbytes)
            if self._is_remote:
                submit(entry.future)
            elif self._is_read_apart or (self._is_beginning and len(self._threads) > 1):
                self._tasks.put(entry.future.run)
        return entry

    def _know(self, block: int) -> None:
        """Add the spans of a block, with the number of samples used of each, unless they are known."""
        if block not in self._known_blocks:
            self._known_blocks.add(block)
            self._uses.update(self._plan.uses(block, self._first))

    def _read_ahead(self) -> None:
        """Request the spans of later batches, in the order of their first use, within the memory limit."""
        while self._read_bytes < self._settings.read_memory:
            while not self._upcoming:
                step = next(self._ahead, None)
                if step is None:
                    return
                keys = dict.fromkeys(step.keys)
                self._upcoming.extend(keys)
                is_new = any(key[0] not in self._known_blocks or key in self._uses for key in keys)
                self._barren = 0 if is_new else self._barren + 1
                if self._barren > _BARREN:
                    # If two blocks share a span, one of them may need only few of its samples: request the span now,
                    # instead of searching for the batch that needs it.
                    self._upcoming.extend(self._uses)
                    self._ahead = self._plan.steps(self._plan.next_block(step.number))
                    self._barren = 0
            key = self._upcoming.popleft()
            self._know(key[0])
            if key in self._uses and key not in self._entries:
                self._entry(key)

    def _read(self, entry: _Entry, share: float) -> tuple[Portion, ...]:
        """Read a span of all tensors; `share` is the fraction of its samples that will be used."""
        entry.began = began = time.perf_counter()
        portions: tuple[Portion, ...] = ()
        try:
            portions = self._read_columns(entry.rows)
        finally:
            seconds = time.perf_counter() - began
            self._stats.was_read(seconds, portions, share)
            if self._is_read_apart:
                self._arrived(entry)
        if self._remote is not None:
            with self._mutex:
                self._remote.hedging.answered(seconds)
        return portions

    def _read_columns(self, rows: Rows) -> tuple[Portion, ...]:
        """Read a span of all tensors, at the same time if the storage has latency."""
        first, *others = self._spanned
        if self._remote is None or not others:
            return tuple(column.read(rows) for column in self._spanned)
        futures = [LazyFuture(partial(column.read, rows)) for column in others]
        for future in futures:
            submit(future, is_urgent=True)
        return first.read(rows), *(future.result() for future in futures)

    def _hedge(self, job: Job) -> None:
        """Repeat slow requests: requests for the awaited batch that take longer than earlier requests took."""
        if self._remote is None or not job.missing:
            return
        now = time.perf_counter()
        with self._mutex:
            for key in dict.fromkeys(job.step.keys):
                entry = self._entries.get(key)
                if entry is None or entry.is_done or entry.is_hedged or not entry.began:
                    continue
                if self._remote.hedging.hedge(now - entry.began):
                    entry.is_hedged = True
                    self._stats.add(hedged=1)
                    submit(LazyFuture(partial(self._read_again, entry)), is_urgent=True)

    def _read_again(self, entry: _Entry) -> None:
        """Read a span a second time, by separate requests; the first answer counts, and so does the first error."""
        if self._remote is None:
            return
        with self._remote.anew():
            portions = tuple(column.read(entry.rows) for column in self._spanned)
        found = LazyFuture(lambda: portions)
        found.run()
        with self._mutex:
            if not entry.is_done:
                entry.future = found
                self._arrived(entry)

    def _arrived(self, entry: _Entry) -> None:
        with self._mutex:
            entry.is_done = True
            waiting, entry.waiting = entry.waiting, []
            for job in waiting:
                job.missing -= 1
                if not job.missing and not self._is_closed:
                    self._tasks.put(partial(self._guarded, job, self._measure))

    def _used(self, step: Step) -> None:
        """Drop spans that no later batch needs."""
        with self._mutex:
            for key in step.keys:
                entry = self._entries.get(key)
                if entry is None:
                    continue
                entry.uses -= 1
                if entry.uses <= 0:
                    del self._entries[key]
                    if self._is_read_apart:
                        self._read_bytes -= entry.nbytes
                        self._stats.add(held_bytes=-entry.nbytes)

    # -- making a batch ----------------------------------------------------------------------------------------

    def _guarded(self, job: Job, call: Callable[[Job], None]) -> None:
        """Run a step of a batch; errors are raised where the batch is requested."""
        if not self._is_closed:
            error = outcome(call, job).error
            if error is not None:
                self._failed(job, error)

    def _failed(self, job: Job, error: BaseException) -> None:
        with self._mutex:
            job.is_measured = job.is_open = True
        job.error = job.error or error
        job.done.set()

    def _measure(self, job: Job) -> None:
        for column in self._columns:
            column.finish()
        portions, errors = self._portions(job.step)
        if errors and self._settings.on_error == "raise":
            raise next(iter(errors.values()))
        self._check_reached(len(job.step.rows), errors)
        for i, error in errors.items():
            self._filling.lost(job, i, error)
        try:
            job.rooms = self._rooms(job, portions)
        except LakebedError:
            if self._settings.on_error == "raise":
                raise
            self._find_bad(job, portions)
            job.rooms = self._rooms(job, portions)
        self._used(job.step)
        job.nbytes = sum(room.nbytes for room in job.rooms.values())
        with self._mutex:
            job.is_measured = True
            self._largest = max(self._largest, job.nbytes)
        self._admit()
        if self._is_remote:
            self._begin_others()

    def _begin_others(self) -> None:
        """Plan the next batches, which had to wait for the first one."""
        with self._mutex:
            if self._is_beginning:
                self._is_beginning = False
                self._advance()

    def _portions(self, step: Step) -> tuple[list[tuple[Portion, ...]], dict[int, Exception]]:
        """Return the portions of each sample, and the errors of samples that could not be read."""
        found: dict[Key, tuple[Portion, ...] | LakebedError] = {}
        errors: dict[int, Exception] = {}
        portions: list[tuple[Portion, ...]] = []
        if not self._spanned:
            return [()] * len(step.rows), errors
        for i, key in enumerate(step.keys):
            if key not in found:
                with self._mutex:
                    future = self._entry(key).future
                try:
                    found[key] = () if future is None else future.result()
                except LakebedError as error:  # the error applies to all samples of the span
                    found[key] = error
            value = found[key]
            if isinstance(value, LakebedError):
                errors[i] = value
                value = ()
            portions.append(value)
        return portions, errors

    def _check_reached(self, count: int, errors: Mapping[int, Exception]) -> None:
        """Raise an error if the storage fails, instead of skipping all samples as if they were damaged."""
        failed = [error for error in errors.values() if isinstance(error, _UNREACHED)]
        with self._mutex:
            if len(errors) < count:
                self._has_arrived, self._unreached = True, []
            else:
                self._unreached += failed
            if len(self._unreached) < _MOST_UNREACHED:
                return
        raise self._unreachable()

    def _unreachable(self) -> Exception:
        error = self._unreached[0]
        error.add_note(
            f"{len(self._unreached)} consecutive samples could not be fetched: on_error={self._settings.on_error!r} is "
            "for bad samples, not for an unreachable storage"
        )
        return error

    def _rooms(self, job: Job, portions: Sequence[tuple[Portion, ...]]) -> dict[str, Room]:
        step = job.step
        good = [i for i in range(len(step.rows)) if i not in job.bad]
        job.keep = good if job.bad else None
        return self._rooms_of(step, portions, good) if good else {}

    def _rooms_of(
        self, step: Step, portions: Sequence[tuple[Portion, ...]], samples: Sequence[int]
    ) -> dict[str, Room]:
        rows = step.rows if len(samples) == len(step.rows) else step.rows[list(samples)]
        insides = [step.insides[i] for i in samples]
        rooms: dict[str, Room] = {}
        at = 0
        for column in self._columns:
            own: list[Portion] = []
            if column.is_spanned:
                own = [portions[i][at] for i in samples]
                at += 1
            rooms[column.name] = column.room(Picked(self._plan.epoch, rows, own, insides))
        return rooms

    def _find_bad(self, job: Job, portions: Sequence[tuple[Portion, ...]]) -> None:
        for i in range(len(job.step.rows)):
            if i not in job.bad:
                try:
                    self._rooms_of(job.step, portions, [i])
                except LakebedError as error:
                    self._filling.lost(job, i, error)

    def _admit(self) -> None:
        """Open the batches that fit into memory, in their order."""
        with self._mutex:
            for job in self._jobs_under_way():
                if job.is_open:
                    continue
                if not job.is_measured:
                    return
                limit = self._settings.batch_memory
                if job.nbytes > limit:
                    job.is_open = True
                    self._failed(job, self._too_large(job))
                    continue
                if self._batch_bytes and self._batch_bytes + job.nbytes > limit:
                    return
                job.is_open = True
                self._batch_bytes += job.nbytes
                self._stats.add(held_bytes=job.nbytes)
                self._tasks.put(partial(self._guarded, job, self._open))

    def _jobs_under_way(self) -> list[Job]:
        first = self._delivering
        return [*([first] if first is not None else []), *self._jobs]

    def _too_large(self, job: Job) -> LimitError:
        name, room = max(job.rooms.items(), key=lambda item: item[1].nbytes)
        largest, at = room.largest()
        row = int(job.step.rows[at if job.keep is None else job.keep[at]])
        return LimitError(
            f"a batch of {job.count} samples needs {job.nbytes:,} bytes, which is more than the loader's memory of "
            f"{self._settings.batch_memory:,} for batches; "
            f"its largest sample is row {row} of tensor {name!r} with {largest:,} bytes. "
            "Give the loader more memory, or make batches smaller",
            limit="memory",
            tensor=name,
            row=row,
        )

    def _open(self, job: Job) -> None:
        for room in job.rooms.values():
            room.open()
        count = job.count
        if self._settings.transform is not None:
            job.made = [None] * count
        size = count if not self._threads else min(_MOST_SAMPLES, -(-count // (2 * len(self._threads))))
        pieces = [(at, min(at + size, count)) for at in range(0, count, max(1, size))]
        job.left = len(pieces)
        if not pieces:
            self._filling.finish(job)
        for start, stop in pieces:
            self._tasks.put(partial(self._guarded, job, partial(self._fill, start=start, stop=stop)))
        self._begin_others()

    def _fill(self, job: Job, *, start: int, stop: int) -> None:
        if job.error is None:
            began = time.perf_counter()
            self._filling.decode(job, start, stop)
            decoded = time.perf_counter()
            if self._settings.transform is not None:
                self._filling.transform(job, start, stop, self._settings.transform)
            done = time.perf_counter()
            self._stats.add(decode_seconds=decoded - began, transform_seconds=done - decoded)
        with self._mutex:
            job.left -= 1
            is_last = not job.left
        if is_last and job.error is None:
            self._filling.finish(job)


def _work(tasks: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    """Run tasks until None arrives; the thread holds no reference to the loader, so that the loader can be dropped."""
    while True:
        task = tasks.get()
        if task is None:
            return
        task()
        del task


def _at_exit() -> None:
    for run in list(_runs):
        run.close()


process_hooks.at_exit(_at_exit)
