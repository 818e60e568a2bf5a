"""Prefetching over a network: request data while earlier data is being used.

`prefetch` is for callers that know which rows come next, as loaders do::

    with prefetch([Wanted(images, rows), Wanted(labels, rows)]):
        for row in rows:
            images.value(row), labels.value(row)

Inside the block, samples are read as usual; reads wait for requests under way. The amount requested ahead begins small,
so that the first samples arrive soon, and grows while the reader has to wait, up to ``config.AHEAD_BYTES`` per dataset.
So read-ahead takes no more memory than is needed to keep the network busy. Files on this machine are not prefetched.
"""

from __future__ import annotations

import heapq
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple, Self

from lakebed import config
from lakebed.errors import LakebedError
from lakebed.reading.locate import Detector, StoredSamples
from lakebed.reading.remote.plan import ReadWindow, headers, read_windows, tiles
from lakebed.reading.remote.tasks import submit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lakebed.reading.remote.ranges import PendingRead, RemoteRanges
    from lakebed.reading.subscripts import Rows

# Limit of read-ahead, in bytes, before the reader has to wait for data for the first time.
_FIRST = 16 << 20
# Maximum number of pieces that are read ahead, per request that may run at the same time.
_PIECES = 4
# Number of consecutive reads of neighbouring rows after which read-ahead begins: for single rows, and for slices.
_STREAK = 3
_STREAK_OF_SLICES = 1


class Wanted(NamedTuple):
    """Rows of a tensor that will be read; ``whole`` if whole chunks will be read, as by scans."""

    reader: StoredSamples
    rows: Rows
    whole: bool = False


def prefetch(wanted: Sequence[Wanted], *, knows_all: bool = True) -> AbstractContextManager[object]:
    """Return a context in which rows of tensors of one dataset are prefetched, in the order given.

    Parameters
    ----------
    wanted
        Rows to read. If there are several tensors, the rows of each must ascend without gaps, so that chunks arrive in
        the order in which they are used.
    knows_all
        Whether no other rows of these tensors will be read inside the block; if so, their detectors pause.
    """
    remote = next((reader.source.remote for reader, _, _ in wanted), None)
    if remote is None:
        return nullcontext()
    most = config.AHEAD_BYTES // 2
    streams = [
        read_windows(reader, rows, most, stream, whole=whole)
        for stream, (reader, rows, whole) in enumerate(wanted)
    ]
    planned = streams[0] if len(streams) == 1 else heapq.merge(*streams, key=lambda window: window.row)
    detectors = [reader.detector for reader, _, _ in wanted if knows_all and reader.detector is not None]
    return Prefetch(remote, planned, detectors=detectors)


def prefetch_headers(reader: StoredSamples, ordinals: NDArray[np.int64]) -> AbstractContextManager[object]:
    """Return a context in which the headers of chunks are prefetched, small chunks as a whole."""
    remote = reader.source.remote
    return nullcontext() if remote is None else Prefetch(remote, headers(reader, ordinals))


def prefetch_tiles(reader: StoredSamples, ordinals: Iterable[int]) -> AbstractContextManager[object]:
    """Return a context in which chunks that hold one tile each are prefetched."""
    remote = reader.source.remote
    return nullcontext() if remote is None else Prefetch(remote, tiles(reader, ordinals))


class Prefetch:
    """Prefetched data of one reader.

    Parameters
    ----------
    planned
        Windows to read, in order.
    most
        Maximum number of bytes to request; None is ``config.AHEAD_BYTES``.
    passing
        True if chunks that the reader has taken are not needed again, because the reader keeps them.
    detectors
        Detectors that pause until this object is closed.
    """

    def __init__(
        self,
        remote: RemoteRanges,
        planned: Iterable[ReadWindow],
        *,
        most: int | None = None,
        passing: bool = False,
        detectors: Sequence[Detector] = (),
    ) -> None:
        self._remote = remote
        self._passing = passing
        self._detectors = detectors
        self._planned: Iterator[ReadWindow] = iter(planned)
        self._pieces: deque[tuple[ReadWindow, int]] = deque()
        self._reads: list[PendingRead] = []
        self._most = config.AHEAD_BYTES if most is None else most
        self._allowed = min(_FIRST, self._most)
        self._bytes = 0
        self._number = 0
        self._turn = threading.Lock()
        self._pid = os.getpid()
        self._is_over = False

    def __enter__(self) -> Self:
        for detector in self._detectors:
            detector.pause()
        self._issue()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        for detector in self._detectors:
            detector.resume()

    def __del__(self) -> None:
        if getattr(self, "_reads", None):  # `__init__` may have been interrupted
            self.close()

    @property
    def is_alive(self) -> bool:
        """Return whether this prefetch may still make requests, in this process."""
        return not self._is_over and self._pid == os.getpid()

    def close(self) -> None:
        """Forget unused requests; requests that have not begun are never sent."""
        self._is_over = True
        if self._pid == os.getpid():
            self._drop(lambda _: True)

    def taken(self, read: PendingRead, *, waited: bool, is_last: bool) -> None:
        """Prefetch more, because the reader has taken a request; see :class:`lakebed.reading.remote.ranges.Owner`."""
        if not self.is_alive:
            return
        if waited:
            self._allowed = min(2 * self._allowed, self._most)
        stream, window, passing = read.stream, read.window, self._passing
        if is_last or (passing and read.is_whole):
            self._drop(lambda f: f is read)
        # Keep whole chunks that this reader has passed, because another reader of them may still use them.
        self._drop(lambda f: f.stream == stream and f.window < window and not (passing and f.is_whole))
        self._issue()

    def _drop(self, is_over: Callable[[PendingRead], bool]) -> None:
        with self._remote.mutex:
            over = [read for read in self._reads if is_over(read)]
            for read in over:
                self._reads.remove(read)
                self._bytes -= read.nbytes
                self._remote.drop(read)

    def _has_room(self) -> bool:
        return (
            self.is_alive
            and self._bytes < self._allowed
            and len(self._reads) < _PIECES * config.REQUESTS
            and (self._remote.prefetched_bytes < config.AHEAD_BYTES or not self._reads)
        )

    def _issue(self) -> None:
        """Request as much as the limit allows, unless another thread is doing so."""
        if not self._turn.acquire(blocking=False):
            return
        try:
            while self._has_room():
                if self._pieces:
                    self._launch(*self._pieces.popleft())
                elif not self._plan():
                    return
        finally:
            self._turn.release()

    def _plan(self) -> bool:
        try:
            window = next(self._planned, None)
        except (LakebedError, IndexError):
            # Stop planning here; the read of the bad row raises the error, together with the number of the row.
            window = None
        if window is None:
            self._planned = iter(())
            return False
        self._number += 1
        self._pieces.extend((window, n) for n in range(len(window.pieces)))
        return True

    def _launch(self, window: ReadWindow, number: int) -> None:
        chunk, span = window.pieces[number]
        with self._remote.mutex:
            read = self._remote.launch(chunk, span, self, window.stream, self._number)
            if read is None:
                return
            self._reads.append(read)
            self._bytes += read.nbytes
        for task in read.tasks:
            submit(task)


class SequentialDetector:
    """Detects that rows of a tensor are read in sequence, and then prefetches the rows that follow."""

    def __init__(self) -> None:
        self._last = range(-1, -1)
        self._streak = 0
        self._paused = 0
        self._prefetch: Prefetch | None = None

    @property
    def is_paused(self) -> bool:
        """Return whether a caller uses :func:`prefetch`, so that detection pauses."""
        return self._paused > 0

    def pause(self) -> None:
        """Leave prefetching to a caller that knows the next rows."""
        self._paused += 1
        self._stop()

    def resume(self) -> None:
        """Resume the detection of rows in sequence."""
        self._paused -= 1

    def _stop(self) -> None:
        running, self._prefetch = self._prefetch, None
        if running is not None:
            running.close()

    def note(self, reader: StoredSamples, first: int, stop: int) -> bool:
        """Record that rows ``first`` to ``stop`` are about to be read; return whether they are prefetched."""
        last = self._last
        if self._paused or (last.start <= first and stop <= last.stop):
            return self._is_running
        self._last = range(first, stop)
        if first != last.stop:
            self._streak = 0
            self._stop()
            return False
        self._streak += 1
        remote, wanted = reader.source.remote, _STREAK if stop - first == 1 else _STREAK_OF_SLICES
        if remote is not None and self._streak >= wanted and not self._is_running:
            most = config.AHEAD_BYTES // 4
            rows = range(first, reader.state.meta.length)
            # Plan with another reader, because a plan that refers to this reader would keep this reader alive.
            planned = read_windows(StoredSamples(reader.name, reader.state, reader.source), rows, most, 0)
            self._prefetch = Prefetch(remote, planned, most=most, passing=True)
            remote.follow(self._prefetch)
            self._prefetch.__enter__()
        return self._is_running

    @property
    def _is_running(self) -> bool:
        return self._prefetch is not None and self._prefetch.is_alive
