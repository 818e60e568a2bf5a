"""Transforms in separate processes, for transforms that hold Python's lock: samples travel in shared memory.

Each worker serves one thread at a time: a request, then its answer. A request is a pickle without the bytes of arrays,
which are in buffers that both processes have mapped. The answer has the same form, in buffers of the worker, and is
copied before the next request. Buffers have no name in the file system, so they vanish with their processes, even if
these are killed. If the loader's process ends, its workers notice that their sockets are closed, and end too.
"""

from __future__ import annotations

import array
import contextlib
import io
import mmap
import os
import pickle
import queue
import signal
import socket
import struct
import sys
import tempfile
import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import InvalidInputError, WorkerDied
from lakebed.reading.buffers import BufferPool
from lakebed.runtime.failures import Outcome, outcome

Call = Callable[[Any], Any]

# Arrays of fewer bytes are sent inside the request, because describing their place in a buffer takes nearly as many
# bytes.
_SMALL = 512
_PAGE = 1 << 16
_ALIGNMENT = 64
_HEADER = struct.Struct("<QB")
# Number of seconds after which a worker that has not ended is killed.
_LAST = 2.0


# -- shared memory -----------------------------------------------------------------------------------------------


def _open_memory(size: int) -> int:
    """Return the descriptor of anonymous memory."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("lakebed-loader")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd


@dataclass(frozen=True, slots=True)
class _Segment:
    """Mapped memory at a start address; two processes identify it by `number`."""

    number: int
    fd: int
    start: int
    size: int


def _mapped(fd: int, size: int) -> NDArray[np.uint8]:
    return np.frombuffer(mmap.mmap(fd, size), dtype=np.uint8)


def _address(values: NDArray[np.uint8]) -> int:
    found: int = values.__array_interface__["data"][0]
    return found


class _Registry:
    """The segments of one pool by address; it has no reference to the pool, which would keep the memory alive."""

    def __init__(self) -> None:
        self._segments: list[_Segment] = []
        self._starts: list[int] = []
        self._next = 0
        # Use a reentrant lock: a finalizer takes it, too, and may run while the same thread holds it.
        self._mutex = threading.RLock()

    def add(self, fd: int, start: int, size: int) -> None:
        with self._mutex:
            self._next += 1
            at = bisect_right(self._starts, start)
            self._starts.insert(at, start)
            self._segments.insert(at, _Segment(self._next, fd, start, size))

    def forget(self, start: int, fd: int) -> None:
        with self._mutex:
            at = bisect_right(self._starts, start) - 1
            if at >= 0 and self._starts[at] == start:
                del self._starts[at], self._segments[at]
        with contextlib.suppress(OSError):
            os.close(fd)

    def before(self, start: int) -> _Segment | None:
        with self._mutex:
            at = bisect_right(self._starts, start) - 1
            return self._segments[at] if at >= 0 else None

    def numbers(self) -> set[int]:
        with self._mutex:
            return {segment.number for segment in self._segments}


class SharedPool(BufferPool):
    """Buffers that worker processes have also mapped."""

    def __init__(self, keep: int = 64, keep_bytes: int = 1 << 30) -> None:
        super().__init__(keep, keep_bytes)
        self._registry = _Registry()

    def made(self, size: int) -> NDArray[np.uint8]:
        fd = _open_memory(size)
        memory = mmap.mmap(fd, size)
        found = np.frombuffer(memory, dtype=np.uint8)
        start = _address(found)
        self._registry.add(fd, start, size)
        weakref.finalize(memory, self._registry.forget, start, fd).atexit = False
        return found

    def place(self, values: NDArray[np.uint8]) -> tuple[_Segment, int] | None:
        """Return the segment that holds some bytes, and their offset in it; None if no segment holds them."""
        start = _address(values)
        segment = self._registry.before(start)
        if segment is None or start + len(values) > segment.start + segment.size:
            return None
        return segment, start - segment.start

    def numbers(self) -> set[int]:
        """Return the numbers of all segments."""
        return self._registry.numbers()


# -- messages ----------------------------------------------------------------------------------------------------


class _Pickler(pickle.Pickler):
    """Pickler that treats tensors of PyTorch as arrays, so that their elements use shared memory as well."""

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind.__module__ == "torch" and kind.__name__ == "Tensor" and obj.device.type == "cpu":
            return _tensor, (obj.detach().contiguous().numpy(),)
        return NotImplemented


def _tensor(values: NDArray[Any]) -> Any:
    import torch

    return torch.from_numpy(values)


def _pickled(value: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
    buffers: list[pickle.PickleBuffer] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < _SMALL:
            return True  # pickle copies this buffer into the request
        buffers.append(buffer)
        return False

    out = io.BytesIO()
    _Pickler(out, protocol=5, buffer_callback=keep).dump(value)
    return out.getvalue(), buffers


def _send(sock: socket.socket, kind: int, data: bytes, fds: Sequence[int] = ()) -> None:
    header = _HEADER.pack(len(data), kind)
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sent = sock.sendmsg([header, data], ancillary)
    if sent < len(header) + len(data):
        sock.sendall((header + data)[sent:])


def _receive(sock: socket.socket) -> tuple[int, bytes, list[int]]:
    fds = array.array("i")
    head, ancillary, _, _ = sock.recvmsg(_HEADER.size, socket.CMSG_SPACE(253 * fds.itemsize))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    if not head:
        raise EOFError
    head += _exactly(sock, _HEADER.size - len(head))
    size, what = _HEADER.unpack(head)
    return what, _exactly(sock, size), fds.tolist()


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        got = sock.recv_into(view[at:])
        if not got:
            raise EOFError
        at += got
    return bytes(data)


_REQUEST, _ANSWER, _ERROR, _READY = range(4)


# -- the worker --------------------------------------------------------------------------------------------------


def _serve(sock: socket.socket, transform: bytes) -> None:
    """Answer requests until the socket is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the loader's process handles interrupts
    call = pickle.loads(transform)  # noqa: S301 - from the process that started this one
    _send(sock, _READY, b"")
    mapped: dict[int, NDArray[np.uint8]] = {}
    room = np.empty(0, dtype=np.uint8)
    while True:
        try:
            _, data, fds = _receive(sock)
        except (EOFError, OSError):
            return
        given, places, fresh, gone = pickle.loads(data)  # noqa: S301
        for (number, size), fd in zip(fresh, fds, strict=True):
            mapped[number] = _mapped(fd, size)
            os.close(fd)
        for number in gone:
            mapped.pop(number, None)
        buffers = [mapped[number][at : at + size] for number, at, size in places]
        samples = pickle.loads(given, buffers=buffers)  # noqa: S301
        answer, views = _answer([outcome(call, sample, kind=Exception) for sample in samples])
        sizes = [view.nbytes for view in views]
        starts = [0, *accumulate(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)]
        new: list[int] = []
        if len(room) < starts[-1]:
            size = -(-starts[-1] * 5 // 4 // _PAGE) * _PAGE
            new = [_open_memory(size)]
            room = _mapped(new[0], size)
        for start, view in zip(starts, views, strict=False):
            room[start : start + view.nbytes] = np.frombuffer(view, dtype=np.uint8)
        try:
            _send(sock, _ANSWER, pickle.dumps((answer, starts[:-1], sizes, len(room))), new)
        except OSError:
            return
        for fd in new:
            os.close(fd)
        del samples, views, buffers, data, given  # frees their memory while the worker waits


def _answer(results: list[Outcome[Any]]) -> tuple[bytes, list[memoryview]]:
    """Return results as a pickle and its buffers; an error that cannot be pickled becomes an error with its text."""
    try:
        data, buffers = _pickled(results)
        pickle.loads(data, buffers=buffers)  # noqa: S301 - some errors cannot be made from their own arguments
    except Exception as error:  # noqa: BLE001 - pickling runs code of users' classes
        told = [
            TypeError(f"the transform's result cannot be sent to the loader: {error}")
            if found.error is None
            else RuntimeError(f"{type(found.error).__name__}: {found.error}")
            for found in results
        ]
        data, buffers = _pickled([Outcome(None, error) for error in told])
    return data, [buffer.raw() for buffer in buffers]


# -- the loader's side -------------------------------------------------------------------------------------------


class _Worker:
    """One process, and the segments that it has mapped."""

    def __init__(self, number: int, transform: bytes) -> None:
        import multiprocessing

        mine, its = socket.socketpair()
        self.sock = mine
        methods = multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        self.process = context.Process(  # type: ignore[attr-defined]
            target=_serve, args=(its, transform), name=f"lakebed-transform-{number}", daemon=True
        )
        self.known: set[int] = set()
        self._most = 8
        self.room: NDArray[np.uint8] | None = None
        try:
            self.process.start()
        finally:
            its.close()
        self.is_ready = False

    def transformed(self, samples: list[Any], pool: SharedPool) -> list[Outcome[Any]]:
        """Return the outcome of each sample.

        Raises
        ------
        WorkerDied
            If the process ended.
        """
        try:
            if not self.is_ready:
                _receive(self.sock)
                self.is_ready = True
            held = self._ask(samples, pool)
            _, data, fds = _receive(self.sock)
        except (EOFError, OSError) as error:
            raise self._died() from error
        del held
        answer, starts, sizes, size = pickle.loads(data)  # noqa: S301 - from a process that this one started
        for fd in fds:
            self.room = _mapped(fd, size)
            os.close(fd)
        buffers: list[bytearray | NDArray[np.uint8]] = []
        for start, length in zip(starts, sizes, strict=True):
            copied = np.empty(length, dtype=np.uint8)
            if self.room is not None:
                copied[:] = self.room[start : start + length]
            buffers.append(copied)
        found: list[Outcome[Any]] = pickle.loads(answer, buffers=buffers)  # noqa: S301
        return found

    def _ask(self, samples: list[Any], pool: SharedPool) -> list[NDArray[np.uint8]]:
        data, buffers = _pickled(samples)
        places: list[tuple[int, int, int]] = []
        fresh: dict[int, _Segment] = {}
        copies = []  # references that keep the buffers alive until the worker has read them
        for buffer in buffers:
            view = np.frombuffer(buffer.raw(), dtype=np.uint8)
            found = pool.place(view)
            if found is None:  # the buffer is outside the shared memory: copy it there
                room = pool.take(len(view))
                room[:] = view
                copies.append(room)
                found = pool.place(room)
            if found is None:
                raise AssertionError("internal error: a buffer of the pool is in none of its segments")
            segment, at = found
            if segment.number not in self.known:
                fresh[segment.number] = segment
            places.append((segment.number, at, len(view)))
        told = [(segment.number, segment.size) for segment in fresh.values()]
        message = pickle.dumps((data, places, told, self._gone(pool)))
        _send(self.sock, _REQUEST, message, [segment.fd for segment in fresh.values()])
        self.known |= fresh.keys()
        return copies

    def _gone(self, pool: SharedPool) -> list[int]:
        """Return the segments that this process has dropped, so that the worker can drop them too."""
        if len(self.known) <= self._most:
            return []
        gone = self.known - pool.numbers()
        self.known -= gone
        self._most = 2 * len(self.known) + 8
        return list(gone)

    def _died(self) -> WorkerDied:
        self.process.join(_LAST)
        code = self.process.exitcode
        is_killed = code is not None and code < 0
        how = f"was killed by signal {-code}" if is_killed else f"ended with exit code {code}"
        hint = (
            "if it is out of memory, use fewer processes"
            if code == -signal.SIGKILL
            else "its error message is on standard error. A script that starts processes needs its main part below "
            "`if __name__ == '__main__':`, and the transform must be importable"
        )
        return WorkerDied(f"a process that transforms samples {how}; {hint}")

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.process.join(_LAST)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


class Processes:
    """Worker processes that call a transform.

    Parameters
    ----------
    transform
        Called with each sample; it must be picklable.
    count
        Number of processes.
    """

    def __init__(self, transform: Call, count: int, pool: SharedPool) -> None:
        data = _pickled_transform(transform)
        self._pid = os.getpid()
        self._is_broken = False
        self._problem = "the processes that transform samples were closed"
        self._pool = pool
        self._workers = [_Worker(number, data) for number in range(count)]
        self._idle: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._finalizer = weakref.finalize(self, _close_all, self._workers, self._pid)

    @property
    def is_usable(self) -> bool:
        """Whether all processes are alive and are children of this process."""
        return not self._is_broken and self._pid == os.getpid()

    def transformed(self, samples: list[Any]) -> list[Outcome[Any]]:
        """Wait for an idle worker, and return the outcome of each sample.

        Raises
        ------
        WorkerDied
            If the process that had the samples ended.
        """
        worker = self._idle.get()
        if worker is None:
            self._idle.put(None)  # pass the None on, so that it wakes all other waiting threads
            raise WorkerDied(self._problem)
        found = outcome(worker.transformed, samples, self._pool)
        if found.error is not None:
            self._is_broken, self._problem = True, str(found.error)
        self._idle.put(worker if found.error is None else None)
        return found.result()

    def close(self) -> None:
        """End the processes."""
        self._idle.put(None)
        self._finalizer()


def _close_all(workers: list[_Worker], pid: int) -> None:
    if os.getpid() == pid:
        for worker in workers:
            with contextlib.suppress(OSError):
                worker.sock.shutdown(socket.SHUT_RDWR)
        for worker in workers:
            worker.close()


def _pickled_transform(transform: Call) -> bytes:
    if sys.platform == "win32":
        raise InvalidInputError("processes= needs a POSIX system; use threads= here")
    problem: Exception
    try:
        return pickle.dumps(transform, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        problem = error
    try:
        import cloudpickle
    except ImportError:
        raise InvalidInputError(
            f"the transform cannot be sent to other processes: {problem}. Define it at the top of a module, install "
            "cloudpickle, which can send functions of notebooks and lambdas, or use threads (processes=0)"
        ) from problem
    data: bytes = cloudpickle.dumps(transform, protocol=5)
    return data
