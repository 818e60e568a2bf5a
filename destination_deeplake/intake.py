"""Standard input as blocks of bytes, with a clock and an ear for signals.

A blocking read would sleep through both a deadline and SIGTERM (Python resumes interrupted calls), so the
reader waits with `poll` for input, a signal or the deadline, whichever comes first, and reads only what is
there.
"""

import contextlib
import fcntl
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType, TracebackType
from typing import Self

BLOCK_BYTES = 4 << 20
_PIPE_BYTES = 1 << 20
_GRACE_SECONDS = 9.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Intake:
    """Blocks from a file descriptor, until its end or a signal to stop.

    As a context manager it takes over SIGTERM and SIGINT, and gives them back.

    Attributes
    ----------
    stopped_by : int or None
        Number of the signal that ended the input early.
    """

    def __init__(self, descriptor: int) -> None:
        self.stopped_by: int | None = None
        self._ends_at: float | None = None
        self._descriptor = descriptor
        self._buffer = memoryview(bytearray(BLOCK_BYTES))
        self._wake_read, self._wake_write = os.pipe()
        self._restore: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        os.set_blocking(self._wake_write, False)
        # A pipe of 64 KiB makes one system call of each hundred records; where it can grow, let it.
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        for number in _SIGNALS:
            with contextlib.suppress(ValueError):  # not the main thread: signals are not ours to take
                self._restore.append(partial(signal.signal, number, signal.signal(number, self._stop)))
        with contextlib.suppress(ValueError):
            before = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
            self._restore.append(partial(signal.set_wakeup_fd, before))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for restore in reversed(self._restore):
            restore()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def blocks(self, seconds_left: Callable[[], float | None]) -> Iterator[memoryview | None]:
        """Yield blocks of input as they come; None each time a deadline passes without any.

        Parameters
        ----------
        seconds_left : callable
            Asked before each wait: seconds to the deadline, None for no deadline.

        Yields
        ------
        memoryview or None
            Valid until the next step; the buffer is used again.
        """
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while self.stopped_by is None:
            left = seconds_left()
            ready = poll.poll(None if left is None else max(0.0, left) * 1000)
            if self.stopped_by is not None:
                return
            if not any(descriptor == self._descriptor for descriptor, _ in ready):
                yield None
                continue
            count = os.readv(self._descriptor, [self._buffer])
            if count == 0:
                return
            yield self._buffer[:count]

    def time_left(self) -> float | None:
        """Return the seconds until the process is ended by force; None when no signal asked it to stop."""
        return None if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        if self.stopped_by is None:
            self.stopped_by = number
            # Published data survives any end: a reader of our output that hangs must not keep us for ever.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, _GRACE_SECONDS)
            self._ends_at = time.monotonic() + _GRACE_SECONDS
