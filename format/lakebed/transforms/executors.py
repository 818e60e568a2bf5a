"""Executors of the tasks of a transform, in one thread or several; outcomes are yielded in the order of the tasks.

An executor takes a few more tasks than it has workers. At the end of its ``with`` block, unfinished tasks are
cancelled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from lakebed.transforms.work import Cancelled, Job, Outcome, Task, Worker

# Seconds between reports of the progress of running tasks.
_TOLD_SECONDS = 0.2

Told = Callable[[], object]


class Executor(ABC):
    """An executor of tasks.

    Attributes
    ----------
    workers
        Number of tasks that run at the same time.
    """

    workers = 1

    @property
    def most(self) -> int:
        """Maximum number of tasks that are running, or have ended and wait for an earlier task to end."""
        return 4 * self.workers + 4

    @abstractmethod
    def run(self, tasks: Iterator[Task], told: Told | None = None) -> Iterator[Outcome]:
        """Yield the outcomes of tasks, in their order.

        Parameters
        ----------
        told
            Called regularly while no outcome is ready.
        """

    @abstractmethod
    def items_done(self) -> int:
        """Return the number of items that running tasks have processed."""

    def close(self) -> None:  # noqa: B027 - the calling thread has no workers to end
        """Cancel running tasks, and end all workers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Serial(Executor):
    """An executor in the caller's thread."""

    def __init__(self, job: Job) -> None:
        self._task: Task | None = None
        self._told: Told | None = None
        self._at = 0
        self._worker = Worker(job, self._begin)

    def run(self, tasks: Iterator[Task], told: Told | None = None) -> Iterator[Outcome]:
        self._told = told
        for task in tasks:
            self._task, self._at = task, task.start
            found = self._worker.do(task)
            self._task = None
            yield found

    def items_done(self) -> int:
        return 0 if self._task is None else self._at - self._task.start

    def _begin(self, index: int) -> None:
        self._at = index
        if self._told is not None:
            self._told()


class Runner(ABC):
    """A runner of one task at a time; the calling thread waits for the task."""

    @abstractmethod
    def do(self, task: Task) -> Outcome:
        """Return the outcome of a task.

        Raises
        ------
        Cancelled
            If :meth:`cancel` was called meanwhile.
        """

    @property
    @abstractmethod
    def at(self) -> int:
        """Number of the item that is being processed."""

    @abstractmethod
    def cancel(self) -> None:
        """Make the current task end soon; no further task is started."""

    def close(self) -> None:  # noqa: B027 - a runner in the calling thread holds no resources
        """Release resources."""


class InThread(Runner):
    """A runner in the calling thread."""

    def __init__(self, job: Job) -> None:
        self._worker = Worker(job, self._begin)
        self._at = 0
        self._is_cancelled = False

    def do(self, task: Task) -> Outcome:
        return self._worker.do(task)

    @property
    def at(self) -> int:
        return self._at

    def _begin(self, index: int) -> None:
        if self._is_cancelled:
            raise Cancelled
        self._at = index

    def cancel(self) -> None:
        self._is_cancelled = True


class Pool(Executor):
    """An executor on threads, each with a runner that works in the thread itself, in a process, or on a cluster."""

    def __init__(self, runners: list[Runner]) -> None:
        self.workers = len(runners)
        self._runners = runners
        self._idle: SimpleQueue[Runner] = SimpleQueue()
        for runner in runners:
            self._idle.put(runner)
        self._busy: dict[Runner, Task] = {}
        self._threads = ThreadPoolExecutor(len(runners), thread_name_prefix="lakebed-transform")
        self._is_closed = False

    def run(self, tasks: Iterator[Task], told: Told | None = None) -> Iterator[Outcome]:
        running: deque[Future[Outcome]] = deque()
        while True:
            # Keep one task more than workers, so that no worker is ever idle.
            while sum(not future.done() for future in running) <= self.workers and len(running) < self.most:
                task = next(tasks, None)
                if task is None:
                    break
                running.append(self._threads.submit(self._do, task))
            if not running:
                return
            if wait([running[0]], _TOLD_SECONDS).done:
                yield running.popleft().result()
            elif told is not None:
                told()

    def _do(self, task: Task) -> Outcome:
        if self._is_closed:
            raise Cancelled
        runner = self._idle.get()
        self._busy[runner] = task
        try:
            return runner.do(task)
        finally:
            del self._busy[runner]
            self._idle.put(runner)

    def items_done(self) -> int:
        return sum(max(0, runner.at - task.start) for runner, task in list(self._busy.items()))

    def close(self) -> None:
        self._is_closed = True
        for runner in self._runners:
            runner.cancel()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for runner in self._runners:
            runner.close()


def threads(job: Job, count: int) -> Executor:
    """Return an executor on threads of this process."""
    return Pool([InThread(job) for _ in range(count)])
