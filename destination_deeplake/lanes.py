"""Sockets as lanes: each lane is a socket with a thread that reads and decodes it without the GIL.

The thread writes into its own part of every table. It reports to the main thread messages that are not records, a full
buffer, the end of its socket, and regularly the bytes read. The main thread publishes; meanwhile, the threads continue
until they have filled a part of the buffer limit.
"""

import contextlib
import queue
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from destination_deeplake.stopping import Stop
from destination_deeplake.wire import Event, WireError, Wires
from lakebed.runtime.failures import outcome

_BLOCK_BYTES = 4 << 20
_TELLING_BYTES = 8 << 20
_TELLING_SECONDS = 0.02
"""Time for which a lane collects messages before it reports them: each report wakes the main thread."""
_FULL_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class Turn:
    """Events and bytes that a lane has read since its last report.

    Attributes
    ----------
    lane : int
        Number of the lane.
    nbytes : int
        Number of bytes.
    events : list of Event
        Messages that are not records.
    is_last : bool
        Whether this is the last report of the lane.
    is_torn : bool
        Whether the lane ended in the middle of a message.
    error : BaseException or None
        The failure of the lane, if it did not end normally.
    """

    lane: int
    nbytes: int
    events: list[Event]
    is_last: bool = False
    is_torn: bool = False
    error: BaseException | None = None


class SocketLanes:
    """Threads that read sockets.

    Parameters
    ----------
    sockets : sequence of socket.socket
        Connected sockets; they are closed at the end.
    wires : Wires
        Decoders of the lanes.
    locks : sequence of threading.Lock
        Locks of the lanes.
    stop : Stop
        Receives signals.
    room : callable
        Returns the number of bytes that may be buffered; called by all threads.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        wires: Wires,
        locks: Sequence[threading.Lock],
        stop: Stop,
        room: Callable[[], int],
    ) -> None:
        self._sockets = sockets
        self._wires = wires
        self._locks = locks
        self._stop = stop
        self._room = room
        self._turns: queue.SimpleQueue[Turn] = queue.SimpleQueue()
        self._sizes = [0] * len(sockets)
        self._is_over = False
        self._threads = [
            threading.Thread(target=self._read, args=(lane,), name=f"socket-{lane}", daemon=True)
            for lane in range(len(sockets))
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all threads, so that no thread adds rows any more."""
        self._is_over = True
        for one in self._sockets:
            with contextlib.suppress(OSError):  # the other end has closed it
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()

    def turns(self, seconds_left: Callable[[], float | None]) -> Iterator[Turn | None]:
        """Yield the reports of the lanes until all lanes end or a signal arrives; None each time a deadline passes."""
        running = len(self._threads)
        poll = select.poll()
        poll.register(self._stop.descriptor, select.POLLIN)
        while running and self._stop.by is None:
            left = seconds_left()
            ready = poll.poll(None if left is None else max(0.0, left) * 1000)
            self._stop.heard()
            if not ready:
                yield None
            with contextlib.suppress(queue.Empty):
                while self._stop.by is None:
                    turn = self._turns.get_nowait()
                    running -= turn.is_last
                    yield turn
            self._measure()

    def _measure(self) -> None:
        """Record the number of buffered bytes of all lanes after a publish."""
        for lane in range(len(self._sizes)):
            self._size(lane)

    def _size(self, lane: int) -> None:
        with self._locks[lane]:
            self._sizes[lane] = self._wires[lane].nbytes

    def _read(self, lane: int) -> None:
        events: list[Event] = []
        found = outcome(self._run, lane, events)
        if found.error is not None:
            self._tell(Turn(lane, 0, events, is_last=True, error=found.error))
        # The error's traceback refers to this frame; without `del`, the cycle would keep the reader in memory.
        del found

    def _run(self, lane: int, events: list[Event]) -> None:
        """Read a socket to its end; after an error, `events` has the messages that were not reported."""
        wire, lock, one = self._wires[lane], self._locks[lane], self._sockets[lane]
        buffer = memoryview(bytearray(_BLOCK_BYTES))
        untold = _TELLING_BYTES  # so that the first block is reported at once
        read, due = 0, 0.0
        while (count := _received(one, buffer, _TELLING_SECONDS if events else None)) != 0:
            if not events:
                due = time.monotonic() + _TELLING_SECONDS
            if count is not None:
                with lock:
                    events.extend(wire.feed(buffer[:count]))
                    self._sizes[lane] = wire.nbytes
                read += count
                untold += count
            is_full = sum(self._sizes) >= self._room()
            if is_full or untold >= _TELLING_BYTES or (events and time.monotonic() >= due):
                self._tell(Turn(lane, read, events[:]))
                events.clear()
                read = untold = 0
            while is_full and not self._is_over:
                time.sleep(_FULL_SECONDS)
                self._size(lane)
                is_full = sum(self._sizes) >= self._room()
        with lock:
            try:
                events.extend(wire.finish())
                is_torn = False
            except WireError:
                is_torn = True
        self._tell(Turn(lane, read, events, is_last=True, is_torn=is_torn))

    def _tell(self, turn: Turn) -> None:
        self._turns.put(turn)
        self._stop.wake()


def _received(one: socket.socket, buffer: memoryview, seconds: float | None) -> int | None:
    """Receive bytes and return their number: 0 at the end, None if no bytes arrived in time."""
    one.settimeout(seconds)
    try:
        return one.recv_into(buffer)
    except TimeoutError:
        return None
