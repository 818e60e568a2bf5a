"""A process that reads HDF5, Zarr, bcolz and LMDB, because their libraries crash or hang on some damaged files.

The process has limits of memory and of CPU time for each answer. It communicates over its standard streams, gets no
credentials, and ends when no request arrives for a while.

    message                     a line of JSON; arrays, as NumPy writes them into files
    open, read                  requests: the contents of the file; rows of an array; LMDB has requests of its own
    bytes                       request of this process to its parent, for a range of a file in a bucket
    error                       sent instead of an answer
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import IO, Any

import numpy as np

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.arrays.arrays import Block, Context, Found, arrays_of, attributes_of, converted, made
from lakebed.importers.core.plan import Problem
from lakebed.importers.core.source import Ranges, Source
from lakebed.transforms.output import Skipped

_MOST_JSON = 1 << 30
_SECONDS = 60  # limit of processor time per answer
_MEMORY = 16 << 30
_IDLE_SECONDS = 20.0
_LAST_SECONDS = 5.0  # seconds to wait for a process to exit
_MOST_FAILURES = 32  # number of failures after which the rest of a block is skipped

_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; from lakebed.importers.arrays.array_reader import serve; "
    "serve({module!r}, {file!r}, {size}, {seconds})"
)


# -- this side ---------------------------------------------------------------------------------------------------


class Reader:
    """A file or folder that another process has open.

    Parameters
    ----------
    module
        Name of the module of the format. Its ``opened`` opens a path or a file. Its ``found_in`` turns the result into
        arrays, or into an object of any type that is passed to its ``answered`` with each request.
    name
        Name of the file in the source; "" for the source itself.
    """

    def __init__(self, source: Source, module: str, name: str = "") -> None:
        self._popen: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._module = module
        self._shown = f"{source.shown}/{name}" if name else source.shown
        self._path = None if not source.is_local else source.path(name) if name else source.address
        self._size = 0 if source.is_local else source.files[name or source.name]
        self._raw: Any = None if source.is_local else source.open(name)

    def found(self) -> Found:
        """Return the contents.

        Raises
        ------
        IngestionError
            If the file is not of the format, or is damaged.
        """
        head, _ = self.ask({"open": True})
        return Found(
            {name: _Array(self, name, tuple(shape), np.dtype(kind)) for name, shape, kind in head["arrays"]},
            head["kinds"],
            head["attributes"],
            head["steps"],
            [Problem(where, reason, 0) for where, reason in head["problems"]],
        )

    def read(self, name: str, start: int, stop: int) -> Any:
        """Return rows of an array: an array, or a list of texts, documents or arrays.

        Raises
        ------
        IngestionError
            If the rows are damaged.
        """
        head, arrays = self.ask({"read": name, "start": start, "stop": stop})
        if "values" in head:
            return head["values"]
        if len(arrays) == 1:
            return arrays[0]
        lengths, values = arrays
        return np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else []

    @property
    def is_closed(self) -> bool:
        """True if the process has ended, as after a crash."""
        return self._popen is None

    def close(self) -> None:
        """End the process."""
        popen, self._popen = self._popen, None
        if popen is None:
            return
        popen.kill()
        popen.wait()
        for stream in (popen.stdin, popen.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def __del__(self) -> None:
        self.close()

    def ask(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        """Return the answer to a request: JSON and arrays.

        Raises
        ------
        IngestionError
            If the process reports an error, or crashes.
        """
        with self._lock:
            return self._asked(request)

    def _asked(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        for attempt in (0, 1):
            popen = self._popen
            is_new = popen is None
            if popen is None or popen.stdin is None or popen.stdout is None:
                popen = self._popen = self._started()
            try:
                _send(popen.stdin, request)
                return self._answer(popen)
            except (EOFError, OSError) as error:
                if isinstance(error, LakebedError):
                    raise
                with contextlib.suppress(subprocess.TimeoutExpired):
                    popen.wait(_LAST_SECONDS)
                self.close()
                if popen.returncode or is_new or attempt:
                    raise IngestionError(
                        f"{self._shown} is damaged: the library that reads it crashed, or did not finish"
                    ) from None
            # The process ended because it was idle: try again in a new process.
        raise AssertionError("two attempts")

    def _started(self) -> subprocess.Popen[bytes]:
        program = _PROGRAM.format(
            path=sys.path, module=self._module, file=self._path, size=self._size, seconds=_SECONDS
        )
        return subprocess.Popen(  # noqa: S603 - this Python
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def _answer(self, popen: subprocess.Popen[bytes]) -> tuple[dict[str, Any], list[Any]]:
        while True:
            head, arrays = _receive(popen.stdout)
            if "bytes" in head:
                at, size = head["bytes"]
                self._raw.seek(at)
                _send(popen.stdin, {}, [np.frombuffer(self._raw.read(size), np.uint8)])
                continue
            if "error" in head:
                raise IngestionError(f"{self._shown}: {head['error']}")
            return head, arrays


@dataclass(frozen=True)
class _Array:
    """An array of a file that another process has open."""

    reader: Reader
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self, start: int, stop: int) -> Any:
        return self.reader.read(self.name, start, stop)


_own = threading.local()


def new_reader(source: Source, module: str) -> Reader:
    """Replace the reader of this thread by a new one, because the source may have changed since it was read."""
    reader = Reader(source, module)
    _own.known = (_state(source), reader)
    return reader


def _reader_of(source: Source, module: str) -> Reader:
    """Return the reader of this thread for a source."""
    known: tuple[Any, Reader] | None = getattr(_own, "known", None)
    return known[1] if known is not None and known[0] == _state(source) else new_reader(source, module)


def _state(source: Source) -> tuple[Any, ...]:
    """Return values that change whenever the source changes."""
    if not source.is_local:
        return (source.identity,)
    with contextlib.suppress(OSError):
        found = os.stat(source.address)  # noqa: PTH116 - addresses are strings here
        return (source.identity, found.st_ino, found.st_mtime_ns)
    return (source.identity, None)


def blocks(item: Block, context: Context, module: str) -> Iterator[Any]:
    """Yield some rows of all arrays, and reasons for damaged rows; bisection finds the damaged rows.

    If many rows are damaged, or the library crashes, all remaining rows are reported together.
    """
    waiting, failures = [item], 0
    try:
        reader = _reader_of(context.source, module)
        arrays = arrays_of(reader.found(), context)
    except LakebedError as error:
        yield Skipped(str(item), str(error), item.stop - item.start)
        return
    while waiting:
        block = waiting.pop()
        try:
            columns = made(arrays, block, context)
        except LakebedError as error:
            failures += _MOST_FAILURES if reader.is_closed else 1
            half = (block.start + block.stop) // 2
            if half > block.start and failures < _MOST_FAILURES:
                waiting += [Block(half, block.stop), Block(block.start, half)]
            else:
                yield Skipped(str(block), str(error), block.stop - block.start)
        else:
            yield columns


def _send(stream: IO[bytes] | None, head: Mapping[str, Any], arrays: Sequence[Any] = ()) -> None:
    if stream is None:
        raise EOFError
    rest = io.BytesIO()
    for array in arrays:
        np.save(rest, array, allow_pickle=False)
    stream.write(json.dumps([head, len(arrays), rest.tell()]).encode() + b"\n")
    stream.write(rest.getbuffer())
    stream.flush()


def _receive(stream: IO[bytes] | None) -> tuple[dict[str, Any], list[Any]]:
    """Return the next message.

    Raises
    ------
    EOFError
        If the other process has ended.
    """
    line = b"" if stream is None else stream.readline(_MOST_JSON)
    if stream is None or not line.endswith(b"\n"):
        raise EOFError
    head, count, size = json.loads(line)
    rest = stream.read(size)
    if len(rest) < size:
        raise EOFError
    arrays = io.BytesIO(rest)
    return head, [np.load(arrays, allow_pickle=False) for _ in range(count)]


# -- the process -------------------------------------------------------------------------------------------------


def serve(module: str, file: str | None, size: int, seconds: int) -> None:
    """Answer requests until the stream ends."""
    of_format = import_module(module)
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries may print to standard output, which carries the answers
    _limit_memory()
    raw: Any = file
    if file is None:
        raw = io.BufferedReader(Ranges(partial(_asked, requests, answers), size), 1 << 20)
    answered = getattr(of_format, "answered", _answered)
    found: Any = None
    while True:
        if not select.select([requests], [], [], _IDLE_SECONDS)[0]:
            return
        try:
            request, _ = _receive(requests)
        except EOFError:
            return
        _limit_time(seconds)
        try:
            if found is None:
                found = of_format.found_in(of_format.opened(raw))
            _send(answers, *answered(request, found))
        # The library of the format may raise anything: report it to the process that asked.
        except Exception as error:  # noqa: BLE001
            _send(answers, {"error": f"not of the format, or damaged: {error}"})


def _asked(requests: IO[bytes], answers: IO[bytes], start: int, count: int) -> bytes:
    """Request a range of the file from the other process, which reads the file."""
    _send(answers, {"bytes": [start, count]})
    _, (data,) = _receive(requests)
    found: bytes = data.tobytes()
    return found


def _answered(request: Mapping[str, Any], found: Found) -> tuple[dict[str, Any], list[Any]]:
    if "open" in request:
        arrays = []
        kinds = dict(found.kinds)
        for name, array in found.arrays.items():
            dtype = array.dtype
            if dtype.names:
                kinds[name], dtype = "json", np.dtype(f"V{dtype.itemsize}")
            arrays.append([name, list(array.shape), dtype.str])
        problems = [[problem.where, problem.reason] for problem in found.problems]
        head = {"arrays": arrays, "kinds": kinds, "steps": dict(found.steps), "problems": problems}
        return {**head, "attributes": attributes_of(found.attributes)}, []
    name = request["read"]
    array = found.arrays[name]
    values = array.read(request["start"], request["stop"])
    kind = "json" if array.dtype.names else found.kinds.get(name)
    if kind == "arrays":
        lists = [np.ravel(value) for value in values]
        whole = np.concatenate(lists) if lists else np.empty(0, np.uint8)
        return {}, [np.array([len(one) for one in lists], np.int64), whole]
    if kind in ("text", "json"):
        return {"values": converted(values, kind)}, []
    return {}, [np.asarray(values)]


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = _MEMORY if hard == resource.RLIM_INFINITY else min(hard, _MEMORY)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _limit_time(seconds: int) -> None:
    """Make the system end this process if an answer takes too long."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + seconds, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
