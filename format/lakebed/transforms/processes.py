"""Worker processes of a transform: separate Python processes that communicate over their standard streams.

A worker is started as a new program: it is not forked and does not import the main module. So workers can be used from
notebooks, from a REPL and from scripts without ``if __name__ == "__main__"``, and inherit no locked lock. Functions are
sent by cloudpickle, functions of the main program by value. A message is a length and a pickle; requests are tasks,
answers are outcomes. The number of the current item is kept in a file that both processes map, so that the driver knows
which item has killed a worker.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import cloudpickle

from lakebed.errors import InvalidInputError, WorkerDied
from lakebed.runtime.failures import outcome
from lakebed.storage.secret import for_own_process
from lakebed.transforms.executors import Executor, Pool, Runner
from lakebed.transforms.source import Source
from lakebed.transforms.work import Cancelled, Failure, Job, Outcome, Task, Worker, item_text

_LENGTH = struct.Struct("<Q")
_ITEM = struct.Struct("<q")
_LAST_SECONDS = 5.0  # seconds to wait for a process to exit

_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; from lakebed.transforms.processes import serve; serve({file!r})"
)


# -- messages ----------------------------------------------------------------------------------------------------


def _send(stream: IO[bytes], data: bytes) -> None:
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes | None:
    """Return the next message; None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(head)
    data = stream.read(size)
    return data if len(data) == size else None


# -- the worker --------------------------------------------------------------------------------------------------


def serve(file: str) -> None:
    """Do tasks until the driver closes its end of the stream, because the driver died or cancels the tasks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the driver handles interrupts
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    # Standard output carries the answers, so redirect prints of functions to standard error, and close standard input.
    os.dup2(2, 1)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    with Path(file).open("r+b") as opened:
        item = mmap.mmap(opened.fileno(), _ITEM.size)
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_all, args=(requests, inbox), daemon=True).start()
    worker: Worker | None = None

    def start(job: bytes) -> bytes:
        nonlocal worker
        found: Job = pickle.loads(job)  # noqa: S301 - from the driver
        worker = Worker(found, lambda index: _ITEM.pack_into(item, 0, index))
        return pickle.dumps(None)

    while True:
        data = inbox.get()
        _send(answers, guarded(start, data) if worker is None else guarded(answer, worker, data))


def guarded(call: Callable[..., bytes], *arguments: object) -> bytes:
    """Return the bytes that a call returns; if the call raises an error, return it pickled, for the driver to raise.

    An error that cannot be pickled is replaced by another error with the same text.
    """
    found = outcome(call, *arguments, kind=Exception)
    if not isinstance(found.error, Exception):
        return found.result()
    found.error.add_note(_trace(found.error))
    data: bytes = cloudpickle.dumps(_sendable(Failure(0, None, found.error)).error, protocol=5)
    return data


def answer(worker: Worker, data: bytes) -> bytes:
    """Do a pickled task; return its outcome, pickled."""
    found = worker.do(pickle.loads(data))  # noqa: S301 - from the driver
    found.task = Task(found.task.start, found.task.stop)
    if found.failure is not None:
        found.failure.error.add_note(_trace(found.failure.error))
        found.failure = _sendable(found.failure)
    found.skipped = [_sendable(failure) for failure in found.skipped]
    sent: bytes = cloudpickle.dumps(found, protocol=5)
    return sent


def _read_all(requests: IO[bytes], inbox: queue.SimpleQueue[bytes]) -> None:
    while (data := _receive(requests)) is not None:
        inbox.put(data)
    os._exit(0)  # nobody waits for the result of the current task any more


def _trace(error: BaseException) -> str:
    return "In the worker process:\n" + "".join(traceback.format_exception(error)).rstrip()


def _sendable(failure: Failure) -> Failure:
    error = failure.error
    # Exceptions of users may fail in any way when they are pickled or unpickled.
    with contextlib.suppress(Exception):
        if isinstance(pickle.loads(cloudpickle.dumps(error)), BaseException):  # noqa: S301
            return failure
    told = RuntimeError(f"{type(error).__name__}: {error}")
    for note in getattr(error, "__notes__", ()):
        told.add_note(note)
    return Failure(failure.index, failure.item, told)


# -- the driver's side -------------------------------------------------------------------------------------------


class _Process:
    """One worker process."""

    def __init__(self, job: bytes) -> None:
        number, self._file = tempfile.mkstemp(prefix="lakebed-transform-")
        try:
            os.ftruncate(number, _ITEM.size)
            self._item = mmap.mmap(number, _ITEM.size)
        finally:
            os.close(number)
        _ITEM.pack_into(self._item, 0, -1)
        program = _PROGRAM.format(path=sys.path, file=self._file)
        self._popen = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._job: bytes | None = job

    @property
    def item(self) -> int:
        return int(_ITEM.unpack_from(self._item)[0])

    def ask(self, task: Task) -> Outcome:
        """Return the outcome of a task.

        Raises
        ------
        WorkerDied
            If the process ended.
        """
        if self._job is not None:
            problem = self._answered(self._job)
            self._job = None
            if problem is not None:
                raise problem
        _ITEM.pack_into(self._item, 0, -1)
        found = self._answered(cloudpickle.dumps(task, protocol=5))
        if isinstance(found, Outcome):
            return found
        raise found

    def _answered(self, data: bytes) -> Any:
        stdin, stdout = self._popen.stdin, self._popen.stdout
        if stdin is None or stdout is None:
            raise AssertionError("the process was started without pipes")
        try:
            _send(stdin, data)
            answer = _receive(stdout)
        except OSError as error:
            raise self._died() from error
        if answer is None:
            raise self._died()
        return pickle.loads(answer)  # noqa: S301 - from a process that this one started

    def _died(self) -> WorkerDied:
        try:
            code = self._popen.wait(_LAST_SECONDS)
        except subprocess.TimeoutExpired:
            return WorkerDied(f"worker process {self._popen.pid} of a transform closed its streams")
        if code >= 0:
            return WorkerDied(
                f"worker process {self._popen.pid} of a transform ended with exit code {code}; its own message is on "
                "the standard error"
            )
        name = signal.Signals(-code).name
        hint = {
            "SIGKILL": "; the system kills processes when memory runs out: use fewer workers, or a smaller cache_size",
            "SIGSEGV": "; a library that the function calls is at fault",
        }.get(name, "")
        return WorkerDied(f"worker process {self._popen.pid} of a transform was killed by {name}{hint}")

    def kill(self) -> None:
        self._popen.kill()

    def close(self) -> None:
        self._popen.kill()
        self._popen.wait()
        for stream in (self._popen.stdin, self._popen.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._item.close()
        with contextlib.suppress(FileNotFoundError):
            Path(self._file).unlink()


class InProcess(Runner):
    """A runner in a worker process, started on first use and replaced once if it dies."""

    def __init__(self, source: Source, job: bytes) -> None:
        self._source = source
        self._job = job
        self._mutex = threading.Lock()
        self._process: _Process | None = None
        self._is_cancelled = False
        self._start = 0

    def do(self, task: Task) -> Outcome:
        self._start = task.start
        try:
            try:
                found = self._current().ask(task)
            except WorkerDied:
                self._replace()
                try:
                    found = self._current().ask(task)
                except WorkerDied as error:
                    item = self._current().item
                    self._replace()
                    index = item if item >= 0 else task.start
                    text = item_text(self._source, task, index)
                    found = Outcome(task, failure=Failure(index, text, error))
        except (OSError, ValueError, WorkerDied) as error:
            if self._is_cancelled:
                raise Cancelled from error
            raise
        found.task = task
        return found

    def _current(self) -> _Process:
        with self._mutex:
            if self._is_cancelled:
                raise Cancelled
            if self._process is None:
                self._process = _Process(self._job)
            return self._process

    def _replace(self) -> None:
        with self._mutex:
            if self._is_cancelled or self._process is None:
                raise Cancelled
            self._process.close()
            self._process = None

    @property
    def at(self) -> int:
        process = self._process
        return self._start if process is None else max(self._start, process.item)

    def cancel(self) -> None:
        with self._mutex:
            self._is_cancelled = True
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        with self._mutex:
            process, self._process = self._process, None
        if process is not None:
            process.close()


def processes(job: Job, count: int) -> Executor:
    """Return an executor on processes of this machine.

    Raises
    ------
    InvalidInputError
        If the function or its arguments cannot be sent to another process.
    """
    data = pickled_job(job)
    return Pool([InProcess(job.source, data) for _ in range(count)])


def pickled_job(job: Job, *, secrets: bool = True) -> bytes:
    """Return a job as bytes that another process reads.

    Parameters
    ----------
    secrets
        Whether the pickle includes credentials; True only if it is sent to a process of this user over a pipe.

    Raises
    ------
    InvalidInputError
        If the function, its arguments or the input cannot be sent.
    """
    try:
        with for_own_process() if secrets else contextlib.nullcontext():
            data: bytes = cloudpickle.dumps(job, protocol=5)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InvalidInputError(
            f"the function, its arguments or the input cannot be sent to another process: {error}. Open files, "
            'connections and locks inside the function, or use scheduler="threaded"'
        ) from error
    return data
